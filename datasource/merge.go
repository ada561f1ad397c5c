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

// Member is one source of a Merged.
type Member[T any] struct {
	Source    Source
	Converter converter.Converter[T]
	Options   []Option
}

// Merged makes one rule set of several sources of one kind: the members' rules one after the other, in declared order,
// each member with its own last good document. It is never a matter of who wrote last, and a member that fails keeps
// what it gave before (F020). Nothing is applied before every member has made its first decision.
type Merged[T any] struct {
	members  []*Readable[T]
	listener property.Listener[[]T]

	mu    sync.Mutex
	parts []part[T]
	open  bool // every member has decided
}

type part[T any] struct {
	rules []T
	given bool
}

// Merge makes a Merged. listener gets the joined rules; where it also is a RuleChecker, every member's guard asks it.
func Merge[T any](listener property.Listener[[]T], members ...Member[T]) (*Merged[T], error) {
	if nils.Is(listener) {
		return nil, fmt.Errorf("datasource.Merge: %w listener", ErrNil)
	}
	if len(members) == 0 {
		return nil, errors.New("datasource.Merge: no members")
	}
	m := &Merged[T]{listener: listener, parts: make([]part[T], len(members))}
	seen := make(map[string]bool)
	for i, member := range members {
		r, err := New(member.Source, member.Converter, property.Listener[[]T](&memberListener[T]{m, i}), member.Options...)
		if err != nil {
			return nil, fmt.Errorf("datasource.Merge: member %d: %w", i, err)
		}
		if seen[r.ID()] {
			return nil, fmt.Errorf("datasource.Merge: source %s is there twice", r.ID())
		}
		seen[r.ID()] = true
		m.members = append(m.members, r)
	}
	return m, nil
}

// memberListener takes one member's rules. It refuses what the joined listener refuses, so that the member retries.
type memberListener[T any] struct {
	m     *Merged[T]
	index int
}

func (l *memberListener[T]) OnUpdate(ctx context.Context, rules []T) error {
	return l.m.update(ctx, l.index, part[T]{rules: rules, given: true})
}

// CheckRule asks the joined listener.
func (l *memberListener[T]) CheckRule(r *T) error {
	if c, ok := l.m.listener.(RuleChecker[T]); ok {
		return c.CheckRule(r)
	}
	return nil
}

// InForce asks the joined listener.
func (l *memberListener[T]) InForce() bool {
	if v, ok := l.m.listener.(Verifier); ok {
		return v.InForce()
	}
	return true
}

func (m *Merged[T]) update(ctx context.Context, index int, p part[T]) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, opens := m.parts[index], !m.open
	m.parts[index] = p
	if opens {
		for _, p := range m.parts {
			if !p.given {
				return nil // taken; it goes on to the listener once all are there
			}
		}
		m.open = true
	}
	if err := m.tell(ctx); err != nil {
		m.parts[index] = before // the member keeps it as pending and tries again
		if opens {
			m.open = false // the other members' rules have not come through either, and they hold them as taken
		}
		return err
	}
	return nil
}

// tell gives the joined rules to the listener. The caller holds mu, which keeps members from overtaking each other.
func (m *Merged[T]) tell(ctx context.Context) error {
	n := 0
	for _, p := range m.parts {
		n += len(p.rules)
	}
	joined := make([]T, 0, n)
	for _, p := range m.parts {
		joined = append(joined, p.rules...)
	}
	return m.listener.OnUpdate(ctx, joined)
}

// ID lists the members' sources.
func (m *Merged[T]) ID() string {
	id := "merge("
	for i, r := range m.members {
		if i > 0 {
			id += ", "
		}
		id += r.ID()
	}
	return id + ")"
}

// Members gives the members' readables, in declared order, for their status and for Accept.
func (m *Merged[T]) Members() []*Readable[T] { return append([]*Readable[T](nil), m.members...) }

// Start starts every member at once. A member that decides to start without a document (missing, or policy Empty)
// counts as having no rules. Where a member fails, the error names it, the others run, nothing is applied yet, and
// Start may be called again.
func (m *Merged[T]) Start(ctx context.Context) error {
	err := m.each(func(r *Readable[T]) error { return r.Start(ctx) })
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		return nil
	}
	any := false
	for i := range m.parts {
		any = any || m.parts[i].given
		m.parts[i].given = true
	}
	m.open = true
	if !any {
		return nil // nobody has a document: there is nothing to tell
	}
	if err := m.tell(ctx); err != nil {
		// Every member holds its rules as taken, so none would retry: reopen, and let Start be called again.
		m.open = false
		return &Error{Op: "start", SourceID: m.ID(), Err: err}
	}
	return nil
}

// Refresh reads every member's store now.
func (m *Merged[T]) Refresh(ctx context.Context) error {
	return m.each(func(r *Readable[T]) error { return r.Refresh(ctx) })
}

// Close closes every member.
func (m *Merged[T]) Close() error { return m.each((*Readable[T]).Close) }

func (m *Merged[T]) each(do func(*Readable[T]) error) error {
	var g Group
	byID := make(map[string]*Readable[T], len(m.members))
	for _, r := range m.members {
		g.members = append(g.members, r)
		byID[r.ID()] = r
	}
	return g.each(func(x Managed) error { return do(byID[x.ID()]) })
}

// Status sums the members up: the worst state, the sums of the counts, the joined errors. Revision and hash are the
// members' own; see Members.
func (m *Merged[T]) Status() Status {
	sum := Status{SourceID: m.ID(), State: StateLive, Refused: map[Cause]uint64{}}
	var errs []error
	for i, r := range m.members {
		s := r.Status()
		if i == 0 || rank(s.State) > rank(sum.State) {
			sum.State, sum.Cause = s.State, s.Cause
		}
		sum.Rules += s.Rules
		sum.Generation += s.Generation
		sum.Skipped = append(sum.Skipped, s.Skipped...)
		sum.Drift = sum.Drift || s.Drift
		if s.LastError != nil {
			errs = append(errs, s.LastError)
		}
		for cause, n := range s.Refused {
			sum.Refused[cause] += n
		}
		if sum.Pending == nil {
			sum.Pending = s.Pending
		}
		sum.LastRead = latest(sum.LastRead, s.LastRead)
		sum.LastChange = latest(sum.LastChange, s.LastChange)
		sum.LastSuccess = latest(sum.LastSuccess, s.LastSuccess)
		sum.Counts.add(s.Counts)
	}
	sum.LastError = errors.Join(errs...)
	return sum
}

func rank(s State) int {
	switch s {
	case StateLive:
		return 0
	case StateStarting:
		return 1
	case StateStale:
		return 2
	case StateDegraded:
		return 3
	default:
		return 4
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (c *Counts) add(o Counts) {
	c.Reads += o.Reads
	c.ReadErrors += o.ReadErrors
	c.Watches += o.Watches
	c.Reconnects += o.Reconnects
	c.Deliveries += o.Deliveries
	c.Hints += o.Hints
	c.Unchanged += o.Unchanged
	c.Applied += o.Applied
	c.ApplyFailures += o.ApplyFailures
	c.Older += o.Older
}
