package datasource

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rulewire/rulewire/internal/nils"
)

// Managed is what a Group needs of a Readable or of a Merged, whatever their rules are.
type Managed interface {
	ID() string
	Start(ctx context.Context) error
	Refresh(ctx context.Context) error
	Status() Status
	Close() error
}

// Group starts, observes and closes many readables together. One broken source never holds back the others (F097).
// The zero value is ready. All methods are safe for concurrent use.
type Group struct {
	mu      sync.Mutex
	members []Managed
	closed  bool
}

// Add adds a member. The same source twice is an error (F124): two readables of one document would race each other.
func (g *Group) Add(m Managed) error {
	if nils.Is(m) {
		return fmt.Errorf("datasource.Group: %w member", ErrNil)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return fmt.Errorf("datasource.Group: %w", ErrClosed)
	}
	for _, other := range g.members {
		if other == m || other.ID() == m.ID() {
			return fmt.Errorf("datasource.Group: source %s is there already", m.ID())
		}
	}
	g.members = append(g.members, m)
	return nil
}

// Start starts every member at once and waits for each one's first decision. Members that failed are named in the
// error; the others run all the same, and Start may be called again for the failed ones.
func (g *Group) Start(ctx context.Context) error {
	return g.each(func(m Managed) error { return m.Start(ctx) })
}

// Refresh reads every member's store now.
func (g *Group) Refresh(ctx context.Context) error {
	return g.each(func(m Managed) error { return m.Refresh(ctx) })
}

// Status gives the status of each member, in the order in which they were added.
func (g *Group) Status() []Status {
	members := g.list()
	all := make([]Status, len(members))
	for i, m := range members {
		all[i] = m.Status()
	}
	return all
}

// Close closes every member, at the same time.
func (g *Group) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	return g.each(Managed.Close)
}

func (g *Group) list() []Managed {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Managed(nil), g.members...)
}

func (g *Group) each(do func(Managed) error) error {
	members := g.list()
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = do(m) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
