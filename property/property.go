package property

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/rulewire/rulewire/internal/nils"
)

// ErrNil is wrapped by the error of a constructor or method that was given nil where it needs something; an interface that
// holds a nil pointer or function is nil here, too.
var ErrNil = errors.New("nil")

// ErrPanic is wrapped by the error that a listener's panic becomes.
var ErrPanic = errors.New("listener panicked")

// Listener is told each new value. An error (or a panic) means "not applied": the property keeps the value as pending
// for this listener, and its owner retries. Calls for one property come one at a time, in order. The value is shared
// by all listeners and must not be changed.
type Listener[T any] interface {
	OnUpdate(ctx context.Context, value T) error
}

// ListenerFunc is a function as a Listener.
type ListenerFunc[T any] func(ctx context.Context, value T) error

// OnUpdate calls f.
func (f ListenerFunc[T]) OnUpdate(ctx context.Context, value T) error { return f(ctx, value) }

// Property is a current value and its listeners. The zero value is not ready; use New.
//
// A value is current once every listener has taken it. Until then it is pending: those that took it have it, the
// others get it from Retry, and a newer Update replaces it. All methods are safe for concurrent use, also from inside
// a listener, which must hand on the ctx that it was given.
type Property[T any] struct {
	turn   chan struct{} // held by the one delivery that runs
	behind chan struct{}

	mu      sync.Mutex
	entries []*entry[T]
	current T
	applied uint64 // generation of current; 0 = none yet
	newest  T
	offered uint64 // generation of newest; > applied while it is pending
}

type entry[T any] struct {
	listener Listener[T]
	seen     uint64 // newest generation that the listener took
	removed  bool
}

// New makes a property without a value.
func New[T any]() *Property[T] {
	return &Property[T]{turn: make(chan struct{}, 1), behind: make(chan struct{}, 1)}
}

// Value gives the current value and its generation; generation 0 means that there is none yet.
func (p *Property[T]) Value() (value T, generation uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current, p.applied
}

// Pending gives the value that some listener has not taken yet.
func (p *Property[T]) Pending() (value T, pending bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled() {
		var none T
		return none, false
	}
	return p.newest, true
}

// Behind has an item whenever a listener came to lack the newest value outside of Update, that is when a late
// listener refused it. The owner then calls Retry.
func (p *Property[T]) Behind() <-chan struct{} { return p.behind }

// Update offers a new value to every listener, in the order in which they were added. The value becomes current if all
// take it; else it stays pending and the error joins what the listeners said.
func (p *Property[T]) Update(ctx context.Context, value T) error {
	if p.inside(ctx) {
		return errors.New("property: Update from inside a listener of the same property")
	}
	if err := p.take(ctx); err != nil {
		return err
	}
	defer p.give()
	p.mu.Lock()
	p.offered++
	p.newest = value
	p.mu.Unlock()
	return p.deliver(ctx)
}

// Retry offers the newest value to the listeners that have not taken it.
func (p *Property[T]) Retry(ctx context.Context) error {
	if p.inside(ctx) {
		return errors.New("property: Retry from inside a listener of the same property")
	}
	if err := p.take(ctx); err != nil {
		return err
	}
	defer p.give()
	return p.deliver(ctx)
}

// Add adds a listener and gives it the current value at once, if there is one, before any newer one. It stays added if
// it refuses that value; the error says so, and Retry reaches it. From inside a listener the value follows as soon as
// that listener has returned. The function that is returned removes it; a call under way then still ends.
func (p *Property[T]) Add(ctx context.Context, l Listener[T]) (remove func(), err error) {
	if nils.Is(l) {
		return func() {}, fmt.Errorf("property: %w listener", ErrNil)
	}
	e := &entry[T]{listener: l}
	remove = func() { p.remove(e) }
	if p.inside(ctx) {
		p.mu.Lock()
		p.entries = append(p.entries, e)
		p.mu.Unlock()
		return remove, nil
	}
	if err := p.take(ctx); err != nil {
		return func() {}, err
	}
	defer p.give()
	p.mu.Lock()
	p.entries = append(p.entries, e)
	value, generation := p.current, p.applied
	p.mu.Unlock()
	if generation == 0 {
		return remove, nil
	}
	if err := p.tell(ctx, e, value, generation); err != nil {
		select {
		case p.behind <- struct{}{}:
		default:
		}
		return remove, err
	}
	return remove, nil
}

func (p *Property[T]) remove(e *entry[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.removed = true
	for i, x := range p.entries {
		if x == e {
			// A fresh slice: a delivery may be walking the old one.
			p.entries = append(p.entries[:i:i], p.entries[i+1:]...)
			break
		}
	}
}

// deliver tells the newest value to each listener that lacks it. It looks the list up anew after every call, so that
// listeners that are added or removed meanwhile are seen.
func (p *Property[T]) deliver(ctx context.Context) error {
	var failed []error
	tried := make(map[*entry[T]]bool)
	for {
		p.mu.Lock()
		value, generation := p.newest, p.offered
		var next *entry[T]
		for _, e := range p.entries {
			if e.seen < generation && !tried[e] {
				next = e
				break
			}
		}
		if next == nil {
			if p.settled() {
				p.current, p.applied = value, generation
			}
			p.mu.Unlock()
			return errors.Join(failed...)
		}
		p.mu.Unlock()
		tried[next] = true
		if err := p.tell(ctx, next, value, generation); err != nil {
			failed = append(failed, err)
		}
	}
}

// settled says whether every listener has the newest value. The caller holds mu.
func (p *Property[T]) settled() bool {
	for _, e := range p.entries {
		if e.seen < p.offered {
			return false
		}
	}
	return true
}

func (p *Property[T]) tell(ctx context.Context, e *entry[T], value T, generation uint64) (err error) {
	p.mu.Lock()
	removed := e.removed
	p.mu.Unlock()
	if removed {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, r, debug.Stack())
		}
		if err == nil {
			p.mu.Lock()
			e.seen = generation
			p.mu.Unlock()
		}
	}()
	return e.listener.OnUpdate(context.WithValue(ctx, insideKey[T]{p}, true), value)
}

// insideKey marks the ctx of a listener call, so that the property knows a call that comes from inside one of its own
// listeners and does not wait for itself.
type insideKey[T any] struct{ p *Property[T] }

func (p *Property[T]) inside(ctx context.Context) bool { return ctx.Value(insideKey[T]{p}) != nil }

func (p *Property[T]) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Property[T]) give() { <-p.turn }
