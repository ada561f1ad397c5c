package datasource

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

// RuleChecker is implemented by a listener that can say beforehand that it will not take a rule, for example because
// the core library can't enforce it. The error should wrap ErrUnsupported or ErrInvalid. The guard treats such a rule
// like an invalid one. CheckRule may be called from several goroutines at once: the engine's and those of writers.
type RuleChecker[T any] interface {
	CheckRule(r *T) error
}

// verdict is what the guard says of a candidate.
type verdict[T any] struct {
	// rules is what would come into force; valid only if err is nil or held.
	rules   []T
	skipped converter.Faults
	report  converter.Report
	// cause and err say why the candidate is refused; CauseNone and nil = accepted.
	cause Cause
	err   error
	// reason is err without ErrRefused beside it.
	reason error
	// held: decoded and valid, only held back; an operator may accept it.
	held bool
	// confirm: accepted once a second read gives the same.
	confirm bool
	// transient: the converter panicked, which says nothing of the document; try again.
	transient bool
}

func refuse[T any](cause Cause, err error) verdict[T] {
	return verdict[T]{cause: cause, err: fmt.Errorf("%w: %w", ErrRefused, err), reason: err}
}

// guard decides whether a candidate may replace the rules in force. It keeps no state.
type guard[T any] struct {
	conv    converter.Converter[T]
	checker RuleChecker[T] // may be nil
	opts    *options
}

// judge reads a present document and gives the verdict of the guard table. inForce are the rules in force and had says
// whether there are any decided ones; deliberate is an edit of this process, which is checked for validity only.
func (g *guard[T]) judge(data []byte, inForce []T, had, deliberate bool) (v verdict[T]) {
	defer func() {
		// What panics here is a user's rule type (RuleKey, Equal); converters and checks have a net of their own.
		if p := recover(); p != nil {
			v = refuse[T](CauseDecode, recovered(p))
			v.transient = true
		}
	}()
	if len(data) > g.opts.maxBytes {
		return refuse[T](CauseDecode, fmt.Errorf("%w: %d bytes, the cap is %d", ErrTooLarge, len(data), g.opts.maxBytes))
	}
	dec, err := g.decode(data)
	if err != nil {
		cause := CauseDecode
		if errors.Is(err, converter.ErrEmpty) {
			cause = CauseEmpty
		}
		v := refuse[T](cause, err)
		v.transient = errors.Is(err, errPanic)
		return v
	}
	v = verdict[T]{report: dec.Report}
	faults := dec.Rejected
	good := dec.Rules
	skipping := false // good is a slice of our own from the first bad rule on
	for i := range dec.Rules {
		r := &dec.Rules[i]
		err := g.check(r)
		if err == nil {
			if skipping {
				good = append(good, *r)
			}
			continue
		}
		if !skipping {
			good, skipping = slices.Clone(dec.Rules[:i]), true
		}
		index := i
		if dec.Indexes != nil {
			index = dec.Indexes[i]
		}
		faults = append(faults, ruleFaults(err, index, r, dec.Locate)...)
	}
	v.rules = good
	if len(faults) > 0 {
		if g.opts.onInvalid != SkipRule || len(good) == 0 {
			cause := CauseInvalid
			if errors.Is(dec.Rejected, ErrDecode) {
				cause = CauseDecode
			}
			r := refuse[T](cause, faults)
			r.skipped = faults
			return r
		}
		v.skipped = faults
	}
	if !had || len(inForce) == 0 || deliberate {
		return v
	}
	if len(good) == 0 {
		if g.opts.onEmptyList == Clear {
			v.confirm = true
			return v
		}
		return v.hold(CauseEmptyList, errors.New("an empty list would remove every rule; clear on purpose with OnEmptyList: Clear, Writable.Clear or Accept"))
	}
	if g.opts.maxShrink > 0 {
		removed := len(compare(inForce, good).Removed)
		if share := float64(removed) / float64(len(inForce)); share > g.opts.maxShrink {
			return v.hold(CauseShrink, fmt.Errorf("would remove %d of %d rules, MaxShrink is %g", removed, len(inForce), g.opts.maxShrink))
		}
	}
	return v
}

func (v verdict[T]) hold(cause Cause, err error) verdict[T] {
	v.cause, v.err, v.held = cause, fmt.Errorf("%w: %w", ErrRefused, err), true
	return v
}

// errPanic is wrapped by the error that a panic of a converter, a validation or a checker becomes.
var errPanic = errors.New("panic")

func recovered(r any) error { return fmt.Errorf("%w: %v\n%s", errPanic, r, debug.Stack()) }

func (g *guard[T]) decode(data []byte) (dec converter.Decoded[T], err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: converter: %w", ErrDecode, recovered(r))
		}
	}()
	dec, err = g.conv.Decode(data)
	if err != nil && !errors.Is(err, ErrDecode) {
		// A converter of the user's own need not know our sentinel values.
		err = fmt.Errorf("%w: %w", ErrDecode, err)
	}
	return dec, err
}

func (g *guard[T]) check(r *T) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %w", ErrInvalid, recovered(p))
		}
	}()
	if v, ok := any(r).(rule.Validator); ok {
		if err := v.Validate(); err != nil {
			return err
		}
	}
	if g.checker != nil {
		return g.checker.CheckRule(r)
	}
	return nil
}

// ruleFaults puts the place of the rule to what is wrong with it.
func ruleFaults[T any](err error, index int, r *T, locate func(int, string) converter.Position) converter.Faults {
	var resource string
	if k, ok := any(r).(rule.Keyer); ok {
		resource = k.RuleKey()
	}
	place := func(f *converter.Fault) *converter.Fault {
		f.Index, f.Resource = index, resource
		if locate != nil {
			f.Position = locate(index, f.Field)
		}
		return f
	}
	var invalid *rule.Invalid
	if !errors.As(err, &invalid) {
		if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnsupported) {
			err = fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return converter.Faults{place(&converter.Fault{Reason: err.Error(), Err: err})}
	}
	faults := make(converter.Faults, len(invalid.Faults))
	for i, f := range invalid.Faults {
		cause := f.Err
		if cause == nil {
			cause = ErrInvalid
		}
		faults[i] = place(&converter.Fault{Field: f.Field, Reason: f.Reason, Err: cause})
	}
	return faults
}
