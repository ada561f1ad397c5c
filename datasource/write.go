package datasource

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

// Check says what the guard would say if this process wrote data: nil, or an error that wraps ErrDecode, ErrInvalid,
// ErrUnsupported or ErrTooLarge, with every bad rule named. It gives the rules as every reader will see them. An edit is
// checked for validity only, and for all of it: option OnInvalid(SkipRule) forgives others, not this process. Check
// reads no store and changes nothing.
func (r *Readable[T]) Check(data []byte) ([]T, error) {
	opts := r.opts
	opts.onInvalid = KeepAll
	g := guard[T]{conv: r.guard.conv, checker: r.guard.checker, opts: &opts}
	return g.own(data)
}

// Check is Readable.Check where there is no readable: the document must decode and each rule be valid.
func Check[T any](conv converter.Converter[T], data []byte) ([]T, error) {
	g := guard[T]{conv: conv, opts: &options{maxBytes: DefaultMaxBytes}}
	return g.own(data)
}

func (g *guard[T]) own(data []byte) ([]T, error) {
	v := g.judge(data, nil, false, true)
	if v.err != nil {
		return nil, v.reason
	}
	return v.rules, nil
}

// Document gives the document in force; its Presence is Unknown while there is none.
func (r *Readable[T]) Document() Document {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inForce
}

// Expect announces that this process is about to write data. Should the store's notification of it overtake Replaced,
// the guard knows it for an edit of this process all the same, which is deliberate. The caller calls done after Replaced.
func (r *Readable[T]) Expect(data []byte) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := &expectation{data, r.status.Counts.Reads + r.status.Counts.Deliveries}
	r.expected = append(r.expected, x)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if i := slices.Index(r.expected, x); i >= 0 {
			r.expected = slices.Delete(r.expected, i, i+1)
		}
	}
}

// expects says whether data was announced. The usual answer costs a look at an empty list.
func (r *Readable[T]) expects(data []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.expected, func(x *expectation) bool { return bytes.Equal(x.data, data) })
}

// expectation is a document that this process is about to write, and how often the store had been heard before that.
type expectation struct {
	data  []byte
	heard uint64
}

// heardSince says whether the store was heard since data was announced.
func (r *Readable[T]) heardSince(data []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	heard := r.status.Counts.Reads + r.status.Counts.Deliveries
	return slices.ContainsFunc(r.expected, func(x *expectation) bool { return x.heard < heard && bytes.Equal(x.data, data) })
}

// Replaced is Written where the document that was overwritten is known too. Where the store gives no order of revisions
// (files, Redis), only that tells whether the readable has seen something newer meanwhile; if it may have, Replaced reads
// the store, so that an older document never lands after a newer one.
func (r *Readable[T]) Replaced(ctx context.Context, before, after Document) error {
	return r.ask(ctx, "write", func(l *run[T]) error { return l.replaced(before, after) })
}

func (l *run[T]) replaced(before, after Document) error {
	r := l.r
	// The document that was replaced is no proof if it was heard again since: somebody may have put it back.
	known := r.newest.Presence == after.Presence && r.newest.Revision == after.Revision ||
		r.newest.Presence == before.Presence && (before.Presence == Missing || r.newest.Revision == before.Revision) && !r.heardSince(after.Data)
	if after.Order > 0 || known {
		return l.written(after)
	}
	doc, err := l.read()
	if err != nil {
		l.nextRead.set(l.reads.next(time.Now()))
		return l.readFailed("read", CauseRead, err)
	}
	l.readProblem = nil
	if l.same(doc, after) {
		err = l.written(after)
	} else {
		err = l.consider(doc, byRead, false)
	}
	l.schedule()
	return err
}

// Override puts rules into force in this process only: the edit of a kind that has no writable. generation is that of
// the property's value which was edited (0 = none yet); if it has moved on, nothing happens and the error wraps
// ErrConflict. The rules are checked as every edit of this process is, and copied.
//
// Status.Drift is true until the next document of the store comes into force, which wins; the same document again does
// so too if the store says that it was written anew, and so does Refresh.
func (r *Readable[T]) Override(ctx context.Context, rules []T, generation uint64) error {
	return r.ask(ctx, "write", func(l *run[T]) error { return l.override(rules, generation) })
}

// override is the store's rules while others are in force by Override.
type override[T any] struct{ store []T }

func (l *run[T]) override(rules []T, generation uint64) error {
	r := l.r
	fail := func(err error) error { return &Error{Op: "write", SourceID: r.ID(), Err: err} }
	before, now := r.prop.Value()
	if now != generation {
		return fail(fmt.Errorf("%w: generation %d is in force, %d expected", ErrConflict, now, generation))
	}
	if _, unsettled := r.prop.Pending(); unsettled {
		return fail(fmt.Errorf("%w: a document is on its way to the listeners", ErrConflict))
	}
	var faults converter.Faults
	for i := range rules {
		if err := r.guard.check(&rules[i]); err != nil {
			faults = append(faults, ruleFaults(err, i, &rules[i], nil)...)
		}
	}
	if len(faults) > 0 {
		return fail(faults)
	}
	traits := rule.TraitsOf[T]()
	if rules = traits.CloneAll(rules); rules == nil {
		rules = []T{}
	}
	if err := r.mayOverride(rules); err != nil {
		return fail(err)
	}
	if err := r.prop.Update(l.ctx, rules); err != nil {
		// Some listeners may have taken it. All get what was in force.
		if back := r.prop.Update(l.ctx, before); back != nil {
			l.nextApply.set(l.applies.next(time.Now()))
		}
		return fail(err)
	}
	r.mu.Lock()
	if r.overridden == nil {
		r.overridden = &override[T]{store: before}
	}
	r.status.LastChange, r.status.LastChannel = time.Now(), byVolatile
	r.mu.Unlock()
	e := Event{Kind: EventApplied, Revision: r.inForce.Revision, Channel: byVolatile, Rules: len(rules)}
	if r.opts.observer != nil {
		describe(&e, before, rules)
	}
	r.opts.logger.Info("rulewire: rules in force in this process only", "source", r.ID(), "rules", len(rules))
	r.observe(e)
	return nil
}

// mayOverride asks a listener that can tell whether these rules would take away others that it does not have from here.
func (r *Readable[T]) mayOverride(rules []T) (err error) {
	v, ok := r.listener.(interface{ CheckOverride(rules []T) error })
	if !ok {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %w", ErrRefused, recovered(p))
		}
	}()
	return v.CheckOverride(rules)
}

// Vet says whether doc, if the store gave it now, would come into force: nil, or an error that wraps ErrRefused with the
// guard's reason. An editor asks it before it builds on a document that this process does not have in force, for an edit
// is deliberate, and would carry through what the guard holds back as an accident. Vet reads no store and changes nothing.
func (r *Readable[T]) Vet(doc Document) error {
	rules, generation := r.prop.Value()
	inForce := r.Document()
	switch {
	case doc.Presence == inForce.Presence && doc.Revision == inForce.Revision:
		return nil
	case doc.Presence == Present:
		return r.guard.judge(doc.Data, rules, generation > 0, r.expects(doc.Data)).err
	case r.opts.onMissing == Keep && len(rules) > 0:
		return fmt.Errorf("%w: %w, and %d rules are in force", ErrRefused, ErrMissing, len(rules))
	}
	return nil
}
