package datasource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/internal/nils"
	"github.com/rulewire/rulewire/property"
)

// Verifier is implemented by a listener that can tell whether the value it took last is still in force, or was changed
// behind the store's back. It must be quick.
type Verifier interface {
	InForce() bool
}

// Readable keeps a listener in step with one document: it reads, watches, decodes, guards and applies.
//
// One goroutine does all of it, one document at a time, newest wins; a source that pushes has one more, for its Watch.
// State advances only after decode, guard and every listener said yes. All methods are safe for concurrent use.
type Readable[T any] struct {
	source   Source
	opts     options
	guard    guard[T]
	listener property.Listener[[]T]
	prop     *property.Property[[]T]

	mu      sync.Mutex
	running *run[T] // nil while not started
	closed  bool
	status  Status
	inForce Document // the document whose rules are in force
	newest  Document // the newest document that was seen in the store
	hashes  [2]hashed
	// expected are documents that this process is about to write, overridden the store's rules while others are in force
	// in this process only.
	expected   []*expectation
	overridden *override[T]
}

// New makes a readable over source; conv decodes, and listener is told the rules of each accepted document. It does no
// I/O. The slice that the listener gets is shared and must not be changed.
func New[T any](source Source, conv converter.Converter[T], listener property.Listener[[]T], opts ...Option) (*Readable[T], error) {
	var errs []error
	if nils.Is(source) {
		errs = append(errs, fmt.Errorf("%w source", ErrNil))
	}
	if nils.Is(conv) {
		errs = append(errs, fmt.Errorf("%w converter", ErrNil))
	}
	if nils.Is(listener) {
		errs = append(errs, fmt.Errorf("%w listener", ErrNil))
	}
	// A converter that can tell beforehand that it will never decode (a rule type or a dialect that there is none for)
	// fails here, not at the first document, which would be blamed for it (F049).
	if c, ok := conv.(interface{ Check() error }); ok && !nils.Is(conv) {
		if err := c.Check(); err != nil {
			errs = append(errs, fmt.Errorf("converter: %w", err))
		}
	}
	o, err := newOptions(opts)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("datasource.New: %w", err)
	}
	r := &Readable[T]{source: source, opts: o, listener: listener, prop: property.New[[]T]()}
	r.guard = guard[T]{conv: conv, opts: &r.opts}
	r.guard.checker, _ = listener.(RuleChecker[T])
	// There is no value yet, so this calls nobody and can't fail.
	if _, err := r.prop.Add(context.Background(), listener); err != nil {
		return nil, fmt.Errorf("datasource.New: %w", err)
	}
	r.status = Status{SourceID: source.ID(), State: StateStarting, Refused: map[Cause]uint64{}}
	return r, nil
}

// ID is the source's.
func (r *Readable[T]) ID() string { return r.source.ID() }

// Property holds the rules in force; more listeners may be added to it at any time.
func (r *Readable[T]) Property() *property.Property[[]T] { return r.prop }

// Start reads the source for the first time and returns once that led to a decision: the document is in force, the
// store said that there is none, or the start policy (option OnStart) decided. ctx bounds Start only; Close ends what
// goes on in the background. After an error nothing is left running, and Start may be called again. Start of a
// readable that runs does nothing.
func (r *Readable[T]) Start(ctx context.Context) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return &Error{Op: "start", SourceID: r.ID(), Err: ErrClosed}
	}
	if r.running != nil {
		run := r.running
		r.mu.Unlock()
		return run.ready(ctx)
	}
	run := newRun(ctx, r)
	r.running = run
	r.status.State = StateStarting
	r.mu.Unlock()
	go run.loop()

	err := run.ready(ctx)
	if err == nil {
		return nil
	}
	stopErr := run.stop()
	r.mu.Lock()
	if r.running == run {
		r.running = nil
		if r.status.State == StateStarting {
			r.status.State = StateDegraded // nothing runs any more
		}
	}
	r.mu.Unlock()
	return &Error{Op: "start", SourceID: r.ID(), Err: errors.Join(err, stopErr)}
}

// Close stops reading and watching and waits until that has ended. The rules stay in force. It is safe in every state,
// twice, and at once; a readable that was closed can't be started again. The error is non-nil only if a driver, a listener
// or an observer did not return within a second after its ctx had ended; from inside one of them, call it in a goroutine.
func (r *Readable[T]) Close() error {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	run := r.running
	r.status.State = StateClosed
	r.mu.Unlock()
	var err error
	if run != nil {
		if err = run.stop(); err != nil {
			err = &Error{Op: "close", SourceID: r.ID(), Err: err}
		}
	}
	if first {
		r.observe(Event{Kind: EventClosed})
	}
	return err
}

// Refresh reads the store now and returns once the document that was read is in force, or the error that says why it
// is not. Where a listener's rules were changed behind the store's back (Status.Drift), it puts the store's back.
// Refresh, Accept and Written wait for the readable's own goroutine: from inside one of its listeners they are an error.
func (r *Readable[T]) Refresh(ctx context.Context) error {
	return r.ask(ctx, "refresh", func(l *run[T]) error { return l.refresh(true) })
}

// Accept applies the pending candidate of exactly this revision, although the guard held it back.
func (r *Readable[T]) Accept(ctx context.Context, revision string) error {
	return r.ask(ctx, "accept", func(l *run[T]) error { return l.accept(revision) })
}

// Written tells that this process has just written doc to the store. It is applied at once, checked for validity but
// neither for emptiness nor for shrinking, and the store's echo of it costs one compare.
func (r *Readable[T]) Written(ctx context.Context, doc Document) error {
	return r.ask(ctx, "write", func(l *run[T]) error { return l.written(doc) })
}

// insideKey marks the ctx of what a readable calls on its own goroutine.
type insideKey[T any] struct{ r *Readable[T] }

var errInside = errors.New("called from inside a listener of the same readable, which would wait for itself; call it from another goroutine")

// ask runs fn on the readable's own goroutine.
func (r *Readable[T]) ask(ctx context.Context, op string, fn func(*run[T]) error) error {
	fail := func(err error) error { return &Error{Op: op, SourceID: r.ID(), Err: err} }
	if ctx.Value(insideKey[T]{r}) != nil {
		return fail(errInside)
	}
	r.mu.Lock()
	run, closed := r.running, r.closed
	r.mu.Unlock()
	if run == nil || closed {
		return fail(ErrClosed)
	}
	req := request[T]{fn: fn, done: make(chan error, 1)}
	select {
	case run.requests <- req:
	case <-run.ctx.Done(): // also for a caller inside a listener that did not hand its ctx on: Close frees it
		return fail(ErrClosed)
	case <-ctx.Done():
		return fail(ctx.Err())
	}
	select {
	case err := <-req.done:
		return err
	case <-run.ctx.Done():
		return fail(ErrClosed)
	case <-ctx.Done():
		return fail(ctx.Err())
	}
}

// Status gives a copy of what the readable knows of itself.
func (r *Readable[T]) Status() Status {
	var note string
	if n, ok := r.source.(interface{ Note() string }); ok {
		note = n.Note()
	}
	drift := r.drifted()
	rules, generation := r.prop.Value()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status.clone()
	s.Note, s.Drift = note, drift
	s.Generation, s.Rules = generation, len(rules)
	s.Revision, s.Hash = r.inForce.Revision, r.hashes[0].of(r.inForce)
	s.Presence, s.StoreRevision, s.StoreHash = r.newest.Presence, r.newest.Revision, r.hashes[1].of(r.newest)
	if r.inForce.Presence == Unknown {
		s.Revision, s.Hash = "", ""
	}
	s.Drift = s.Drift || r.overridden != nil
	return s
}

// drifted says whether the listener has lost what it took last.
func (r *Readable[T]) drifted() (drift bool) {
	v, ok := r.listener.(Verifier)
	if !ok {
		return false
	}
	if _, generation := r.prop.Value(); generation == 0 {
		return false
	}
	defer func() {
		if p := recover(); p != nil {
			drift = true // a listener that can't tell is not trusted to have the rules
		}
	}()
	return !v.InForce()
}

// set changes the status under its lock.
func (r *Readable[T]) set(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
	if r.closed {
		r.status.State = StateClosed
	}
}

func (r *Readable[T]) observe(e Event) {
	obs := r.opts.observer
	if obs == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			r.opts.logger.Error("rulewire: observer panicked", "source", r.ID(), "panic", fmt.Sprint(p))
		}
	}()
	e.SourceID, e.Time = r.ID(), time.Now()
	obs.Observe(e)
}
