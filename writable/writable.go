package writable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/internal/atomicfile"
	"github.com/rulewire/rulewire/internal/nils"
	"github.com/rulewire/rulewire/rule"
)

var (
	errNilRules   = errors.New("nil rules; clearing is Clear, or an empty list that is not nil")
	errNoRevision = errors.New("sink gave no revision for a document that is there")
	errNoDocument = errors.New("sink gave neither a present nor a missing document")
	errPanic      = errors.New("panic")
)

// Writable edits one document. Its methods are safe for concurrent use; edits through one Writable wait for one another,
// those of other processes are met with compare-and-set.
type Writable[T any] struct {
	sink     Sink // nil: memory only
	conv     converter.Converter[T]
	readable *datasource.Readable[T] // nil: none attached
	opts     options
	turn     chan struct{} // held by the write under way
	traits   rule.Traits[T]
	clones   bool // T says how to copy itself
}

// New makes a writable over sink; conv must be of the document's dialect and format, as the readable's is. It does no I/O.
func New[T any](sink Sink, conv converter.Converter[T], opts ...Option) (*Writable[T], error) {
	var errs []error
	if nils.Is(sink) {
		errs = append(errs, fmt.Errorf("%w sink", datasource.ErrNil))
	}
	if nils.Is(conv) {
		errs = append(errs, fmt.Errorf("%w converter", datasource.ErrNil))
	}
	w, err := newWritable[T](opts)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("writable.New: %w", err)
	}
	w.sink, w.conv = sink, conv
	if w.readable != nil && w.readable.ID() != sink.ID() {
		// Two spellings of one document would be found out by nobody; two documents would never see each other's writes.
		return nil, fmt.Errorf("writable.New: the readable is of %s, the sink of %s", w.readable.ID(), sink.ID())
	}
	return w, nil
}

// NewVolatile makes a writable for rules that no sink takes: its writes change r's rules in this process only, their
// Result says Volatile, and r's status shows the drift until the store's next document comes into force. Revisions are
// r's generations then.
func NewVolatile[T any](r *datasource.Readable[T], opts ...Option) (*Writable[T], error) {
	w, err := newWritable[T](append([]Option{Readable(r)}, opts...))
	if err != nil {
		return nil, fmt.Errorf("writable.NewVolatile: %w", err)
	}
	if w.readable != r {
		return nil, fmt.Errorf("writable.NewVolatile: option Readable names another readable, %s", w.readable.ID())
	}
	return w, nil
}

func newWritable[T any](opts []Option) (*Writable[T], error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	w := &Writable[T]{opts: o, turn: make(chan struct{}, 1), traits: rule.TraitsOf[T]()}
	_, w.clones = any((*T)(nil)).(rule.Cloner[T])
	if o.readable != nil {
		var ok bool
		if w.readable, ok = o.readable.(*datasource.Readable[T]); !ok {
			return nil, fmt.Errorf("Readable: %s has rules of another type than %T", o.readable.ID(), *new(T))
		}
	}
	return w, nil
}

// ID names the document.
func (w *Writable[T]) ID() string {
	if w.sink == nil {
		return w.readable.ID()
	}
	return w.sink.ID()
}

// Volatile says whether writes change this process's memory only.
func (w *Writable[T]) Volatile() bool { return w.sink == nil }

// Result is what a write did.
type Result[T any] struct {
	// Revision is the document's now.
	Revision string
	// From is the revision before; Absent if there was no document.
	From string
	// Document is the document as it was written.
	Document datasource.Document
	// Rules is the number of rules now; equal ones count once, as in force.
	Rules int
	// Changes says which rules were added, changed and removed. Where the document before could not be read (Unreadable),
	// every rule counts as added.
	Changes rule.Changes[T]
	// Unreadable says why the document before could not be read; nil = it could. Only Write and Clear replace such a one.
	Unreadable error
	// Unchanged: the document was already so and nothing was written. Nothing is logged then.
	Unchanged bool
	// InForce: the rules are in force in this process. Always false without an attached readable.
	InForce bool
	// Apply says why the rules are not in force although they are in the store; the readable goes on trying. nil without
	// an attached readable, and where the readable has a newer document in force already.
	Apply error
	// Volatile: only this process's memory was changed.
	Volatile bool
	// Attempts is how often the store was asked to write (or found to need no write).
	Attempts int
}

// Current is a document as the store has it.
type Current[T any] struct {
	// Rules are a copy of the caller's own; empty if there is no document.
	Rules []T
	// Revision is what Write expects; Absent if there is no document.
	Revision string
	// Document is the document itself.
	Document datasource.Document
}

// Read reads the document with the store's strongest consistency. A missing document has no rules and is no error. One
// that does not parse is an error that wraps ErrDecode; Current then has Revision and Document, for a Write that replaces
// it.
func (w *Writable[T]) Read(ctx context.Context) (Current[T], error) {
	if w.sink == nil {
		rules, generation := w.readable.Property().Value()
		doc := datasource.Document{Presence: datasource.Present, Revision: volatileRevision(generation)}
		if generation == 0 {
			doc.Presence = datasource.Missing
		}
		if rules = w.traits.CloneAll(rules); rules == nil {
			rules = []T{}
		}
		return Current[T]{Rules: rules, Revision: doc.Revision, Document: doc}, nil
	}
	doc, err := w.fetch(ctx)
	if err != nil {
		return Current[T]{}, err
	}
	cur := Current[T]{Revision: revisionOf(doc), Document: doc}
	cur.Rules, err = w.decode(doc)
	return cur, err
}

// Write replaces all rules, if the document still has the revision expected; Absent means that there must be none. Else
// nothing is written, and the error wraps ErrConflict and has the current revision (a *datasource.Error). rules must not
// be nil; an empty list stores [] and is as deliberate as Clear.
func (w *Writable[T]) Write(ctx context.Context, rules []T, expected string) (Result[T], error) {
	return w.once(ctx, OpWrite, rules, expected)
}

// Create writes the first document. If there is one, the error wraps ErrConflict and nothing is written.
func (w *Writable[T]) Create(ctx context.Context, rules []T) (Result[T], error) {
	return w.once(ctx, OpCreate, rules, Absent)
}

// Edit reads the document, lets change make the next rules of its rules, and writes them if nobody else wrote meanwhile;
// else it starts over with a fresh read, after a short random wait, up to Attempts times. So change may be called several
// times and must do nothing else. It may alter the list that it gets, which is its own, and must not return nil: for no
// rules it returns an empty list. An error of change ends the Edit and is wrapped by the error.
//
// A missing document has no rules. One that does not parse is refused with an error that wraps ErrDecode, because what
// can't be read would be lost; also if it is only one rule that can't. And a document that the attached readable's guard
// holds back (an empty list or a missing document while rules are in force, MaxShrink) is refused with ErrRefused: an edit
// of one rule must not carry through what may be an accident to all of them.
func (w *Writable[T]) Edit(ctx context.Context, change func(current []T) ([]T, error)) (Result[T], error) {
	if change == nil {
		return Result[T]{}, w.fail("write", "", errors.New("nil change"))
	}
	return w.repeat(ctx, OpEdit, change)
}

// Clear stores the empty list, whatever the document holds, also if it does not parse or is missing; only one that the sink
// can't read at all, for its size, has to be removed by other means. It is the way to say "no rules" on purpose.
func (w *Writable[T]) Clear(ctx context.Context) (Result[T], error) {
	return w.repeat(ctx, OpClear, func([]T) ([]T, error) { return []T{}, nil })
}

// once is a write with an expected revision: one attempt.
func (w *Writable[T]) once(ctx context.Context, op Op, rules []T, expected string) (Result[T], error) {
	if rules == nil {
		return Result[T]{}, w.fail("write", "", fmt.Errorf("%w: %w", datasource.ErrInvalid, errNilRules))
	}
	if err := w.take(ctx); err != nil {
		return Result[T]{}, err
	}
	defer w.give()
	if w.sink == nil {
		return w.override(ctx, op, func([]T) ([]T, error) { return rules, nil }, &expected)
	}
	// The document before is read although the store compares by itself: for the difference, for the revision of a
	// conflict, and so that a store that is down is found out before anything was sent.
	before, err := w.fetch(ctx)
	if err != nil {
		return Result[T]{}, err
	}
	if revisionOf(before) != expected {
		return Result[T]{}, w.conflict(expected, before)
	}
	next, err := w.encode(rules, before)
	if err != nil {
		return Result[T]{}, err
	}
	old, unreadable := w.decode(before)
	return w.put(ctx, op, before, old, unreadable, next, 1)
}

// repeat is read, change, compare-and-set until no conflict is left.
func (w *Writable[T]) repeat(ctx context.Context, op Op, change func([]T) ([]T, error)) (Result[T], error) {
	if err := w.take(ctx); err != nil {
		return Result[T]{}, err
	}
	defer w.give()
	for attempt := 1; ; attempt++ {
		var res Result[T]
		var err error
		if w.sink == nil {
			res, err = w.override(ctx, op, change, nil)
		} else {
			res, err = w.attempt(ctx, op, change, attempt)
		}
		switch {
		case err == nil:
			return res, nil
		case !errors.Is(err, datasource.ErrConflict) || errors.Is(err, errOfChange):
			return res, err
		case attempt == w.opts.attempts:
			return res, w.fail("write", "", fmt.Errorf("after %d attempts: %w", attempt, err))
		}
		if err := w.pause(ctx, attempt); err != nil {
			return res, w.fail("write", "", fmt.Errorf("after %d attempts: %w", attempt, err))
		}
	}
}

// errOfChange is beside an error of the caller's own function, so that a conflict that it tells of is not ours.
var errOfChange = errors.New("change")

func (w *Writable[T]) attempt(ctx context.Context, op Op, change func([]T) ([]T, error), attempt int) (Result[T], error) {
	before, err := w.fetch(ctx)
	if err != nil {
		return Result[T]{}, err
	}
	old, unreadable := w.decode(before)
	if unreadable != nil && op != OpClear {
		return Result[T]{}, unreadable
	}
	if w.readable != nil && op != OpClear {
		if err := w.readable.Vet(before); errors.Is(err, datasource.ErrRefused) && !errors.Is(err, datasource.ErrInvalid) {
			return Result[T]{}, w.fail("write", revisionOf(before), fmt.Errorf("the edit would build on a document that is held back: %w; Write, Create, Clear or the readable's Accept decide", err))
		}
	}
	working, err := w.copy(old, before)
	if err != nil {
		return Result[T]{}, err
	}
	rules, err := w.change(change, working, revisionOf(before))
	if err != nil {
		return Result[T]{}, err
	}
	next, err := w.encode(rules, before)
	if err != nil {
		return Result[T]{}, err
	}
	return w.put(ctx, op, before, old, unreadable, next, attempt)
}

// change calls the caller's function.
func (w *Writable[T]) change(change func([]T) ([]T, error), working []T, revision string) ([]T, error) {
	rules, err := change(working)
	if err != nil {
		return nil, w.fail("write", revision, &changeError{err})
	}
	if rules == nil {
		return nil, w.fail("write", revision, fmt.Errorf("%w: %w", datasource.ErrInvalid, errNilRules))
	}
	return rules, nil
}

// changeError is an error of the caller's own function: it reads as that one and is marked as such.
type changeError struct{ err error }

func (e *changeError) Error() string   { return e.err.Error() }
func (e *changeError) Unwrap() []error { return []error{errOfChange, e.err} }

// encoded is a document to be: its bytes, its rules as they stand in it, and how many of them differ, which is what every
// reader has in force.
type encoded[T any] struct {
	data    []byte
	rules   []T
	inForce int
}

// encode makes the document and reads it back, so that what a reader would refuse is never written.
func (w *Writable[T]) encode(rules []T, before datasource.Document) (encoded[T], error) {
	data, err := w.toBytes(rules)
	if err != nil {
		return encoded[T]{}, w.fail("write", "", err)
	}
	data = layout(before.Data, data)
	seen, err := w.check(data)
	if err != nil {
		return encoded[T]{}, w.fail("write", "", err)
	}
	next := encoded[T]{data, seen, len(seen)}
	if len(seen) != len(rules) {
		// A reader counts equal rules once; the difference to the document before is told of all that stand there.
		if next.rules, err = w.decode(datasource.Document{Presence: datasource.Present, Data: data}); err != nil {
			return encoded[T]{}, err
		}
	}
	return next, nil
}

func (w *Writable[T]) toBytes(rules []T) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: converter: %w: %v\n%s", datasource.ErrInvalid, errPanic, p, debug.Stack())
		}
	}()
	return w.conv.Encode(rules)
}

func (w *Writable[T]) check(data []byte) ([]T, error) {
	if w.readable != nil {
		return w.readable.Check(data)
	}
	return datasource.Check(w.conv, data)
}

// decode gives the rules of a document that the store has, invalid ones included: an edit may be there to mend them.
func (w *Writable[T]) decode(doc datasource.Document) (rules []T, err error) {
	if doc.Presence != datasource.Present {
		return []T{}, nil
	}
	defer func() {
		if p := recover(); p != nil {
			rules, err = nil, w.fail("decode", doc.Revision, fmt.Errorf("%w: converter: %w: %v\n%s", datasource.ErrDecode, errPanic, p, debug.Stack()))
		}
	}()
	dec, err := w.conv.Decode(doc.Data)
	if err == nil && len(dec.Rejected) > 0 {
		err = dec.Rejected
	}
	if err != nil {
		if !errors.Is(err, datasource.ErrDecode) {
			err = fmt.Errorf("%w: %w", datasource.ErrDecode, err)
		}
		return nil, w.fail("decode", doc.Revision, err)
	}
	if dec.Rules == nil {
		dec.Rules = []T{}
	}
	return dec.Rules, nil
}

// copy gives the caller rules to alter, while the old ones stay for the comparison.
func (w *Writable[T]) copy(old []T, doc datasource.Document) ([]T, error) {
	if w.clones || len(old) == 0 {
		return append(make([]T, 0, len(old)+1), w.traits.CloneAll(old)...), nil
	}
	// A type that does not say how to copy it may share what its rules point to.
	return w.decode(doc)
}

// put writes one document compare-and-set, finds out what became of it, and brings it into force.
func (w *Writable[T]) put(ctx context.Context, op Op, before datasource.Document, old []T, unreadable error, next encoded[T], attempt int) (Result[T], error) {
	expected := revisionOf(before)
	res := Result[T]{From: expected, Rules: next.inForce, Unreadable: unreadable, Attempts: attempt}
	var err error
	if res.Changes, err = w.compare(old, next.rules); err != nil {
		return Result[T]{}, w.fail("write", expected, err)
	}
	if before.Presence == datasource.Present && unreadable == nil && res.Changes.Empty() && !res.Changes.Reordered {
		res.Unchanged, res.Document, res.Revision = true, before, expected
		if op == OpEdit {
			res.InForce = w.holds(before) // nobody said that exactly this is wanted
		} else {
			w.finish(ctx, &res, before)
		}
		return res, nil
	}
	if err := w.portable(next.rules, &res.Changes); err != nil {
		return Result[T]{}, w.fail("write", expected, err)
	}
	if w.readable != nil {
		defer w.readable.Expect(next.data)()
	}
	res.Document, err = w.store(ctx, next.data, before)
	if err != nil {
		return Result[T]{}, err
	}
	w.finish(ctx, &res, before)
	w.tell(ctx, op, &res)
	return res, nil
}

func (w *Writable[T]) compare(old, next []T) (c rule.Changes[T], err error) {
	defer func() {
		// What panics here is a user's rule type.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %w: %v\n%s", datasource.ErrInvalid, errPanic, p, debug.Stack())
		}
	}()
	return rule.Compare(old, next), nil
}

// portable names the rules of this edit that other programs would fail at, and with them at the whole document. Those that
// were there before are not its business.
func (w *Writable[T]) portable(next []T, c *rule.Changes[T]) error {
	p, ok := w.conv.(converter.Portable[T])
	if !ok {
		return nil
	}
	var faults converter.Faults
	ask := func(i int) {
		if f := p.Portable(&next[i]); f != nil {
			f.Index = i
			faults = append(faults, f)
		}
	}
	for _, i := range c.Added {
		ask(i)
	}
	for _, pair := range c.Changed {
		ask(pair.New)
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// finish brings what the store has into force in this process.
func (w *Writable[T]) finish(ctx context.Context, res *Result[T], before datasource.Document) {
	res.Revision = revisionOf(res.Document)
	if w.readable == nil {
		return
	}
	// The store has it, so this process shall have it, whatever becomes of the caller.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.opts.timeout)
	defer cancel()
	res.Apply = w.readable.Replaced(ctx, before, res.Document)
	res.InForce = res.Apply == nil && w.holds(res.Document)
}

// holds says whether doc is in force in this process.
func (w *Writable[T]) holds(doc datasource.Document) bool {
	if w.readable == nil {
		return false
	}
	inForce := w.readable.Document()
	return inForce.Presence == doc.Presence && inForce.Revision == doc.Revision
}

// store asks the sink to write, and looks up what became of a write that ended in an error.
func (w *Writable[T]) store(ctx context.Context, data []byte, before datasource.Document) (datasource.Document, error) {
	expected := revisionOf(before)
	doc, err := w.send(ctx, data, expected)
	switch {
	case err == nil && revisionOf(doc) == "":
		return doc, w.fail("write", "", errNoRevision)
	case err == nil:
		return doc, nil
	case errors.Is(err, datasource.ErrConflict):
		if now, readErr := w.fetch(ctx); readErr == nil {
			return doc, w.conflict(expected, now)
		}
		return doc, w.fail("write", "", err)
	case errors.Is(err, datasource.ErrTooLarge), errors.Is(err, datasource.ErrInvalid), errors.Is(err, datasource.ErrUnsupported),
		errors.Is(err, datasource.ErrClosed):
		return doc, w.fail("write", expected, err)
	}
	now, readErr := w.lookUp(ctx)
	switch {
	case readErr != nil:
		err = unknown(err, fmt.Errorf("and reading back: %w", readErr))
	case now.Presence == datasource.Present && bytes.Equal(now.Data, data):
		if !errors.Is(err, atomicfile.ErrNotDurable) {
			return now, nil
		}
		// It is there, but a power cut may still take it back: that is for the caller to know.
	case revisionOf(now) == expected:
		return doc, w.fail("write", expected, err)
	default:
		err = unknown(err, fmt.Errorf("and somebody else wrote revision %s", now.Revision))
	}
	w.opts.logger.WarnContext(ctx, "rulewire: outcome of a write is unknown", "source", w.ID(), "actor", Actor(ctx), "error", err)
	return doc, w.fail("write", expected, err)
}

func unknown(err, because error) error {
	if errors.Is(err, datasource.ErrUnknownOutcome) {
		return fmt.Errorf("%w; %w", err, because)
	}
	return fmt.Errorf("%w: %w; %w", datasource.ErrUnknownOutcome, err, because)
}

func (w *Writable[T]) send(ctx context.Context, data []byte, expected string) (doc datasource.Document, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.opts.timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("sink: %w: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	return w.sink.Write(ctx, data, expected)
}

// lookUp reads what a write left. The caller's context has often ended by then.
func (w *Writable[T]) lookUp(ctx context.Context) (datasource.Document, error) {
	return w.fetch(context.WithoutCancel(ctx))
}

// fetch reads the document.
func (w *Writable[T]) fetch(ctx context.Context) (doc datasource.Document, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("sink: %w: %v\n%s", errPanic, p, debug.Stack())
		}
		switch {
		case err == nil && doc.Presence == datasource.Unknown:
			err = errNoDocument
		case err == nil && doc.Presence == datasource.Present && doc.Revision == "":
			err = errNoRevision
		}
		if err != nil {
			err = w.fail("read", "", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, w.opts.timeout)
	defer cancel()
	return w.sink.Read(ctx)
}

func (w *Writable[T]) conflict(expected string, now datasource.Document) error {
	revision := revisionOf(now)
	err := fmt.Errorf("%w: revision %s expected", datasource.ErrConflict, expected)
	switch {
	case expected == Absent:
		err = fmt.Errorf("%w: there is a document, none expected", datasource.ErrConflict)
	case revision == Absent:
		err = fmt.Errorf("%w: there is no document, revision %s expected", datasource.ErrConflict, expected)
	}
	return w.fail("write", revision, err)
}

// revisionOf is the revision that a write expects.
func revisionOf(doc datasource.Document) string {
	if doc.Presence != datasource.Present {
		return Absent
	}
	return doc.Revision
}

// pause waits between two attempts.
func (w *Writable[T]) pause(ctx context.Context, attempt int) error {
	step := w.opts.maxBackoff
	if attempt <= 16 {
		step = min(step, w.opts.minBackoff<<(attempt-1))
	}
	t := time.NewTimer(step/2 + rand.N(step/2+1))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take waits for the turn of this writer.
func (w *Writable[T]) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return w.fail("write", "", err)
	}
	select {
	case w.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return w.fail("write", "", ctx.Err())
	}
}

func (w *Writable[T]) give() { <-w.turn }
