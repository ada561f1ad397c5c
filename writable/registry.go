package writable

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
)

// The errors of a Registry.
var (
	// ErrRegistered: there is an entry of this kind and name, or one with this document, already.
	ErrRegistered = errors.New("registered already")
	// ErrNotRegistered: there is no entry of this kind and name.
	ErrNotRegistered = errors.New("not registered")
)

// Registry holds, for each kind of rule and each name, the readable and the writable of one document: what a command
// centre or a tool edits. It owns neither and closes nothing. The zero value is ready; all methods, and the functions
// that take a Registry, are safe for concurrent use.
type Registry struct {
	mu      sync.RWMutex
	entries map[key]entry
}

// key is a rule type with a name. Two types of the user's own have no kind, and are told apart by the type itself.
type key struct {
	typ  any // (*T)(nil)
	name string
}

type entry struct {
	info     Info
	readable datasource.Managed // nil where there is none
	pair     any                // Pair[T]
}

// Info describes an entry.
type Info struct {
	// Kind is the kind of rule; "" for a rule type of the user's own.
	Kind rule.Kind
	// Name tells several documents of one kind apart. "" is usual where there is one only.
	Name string
	// SourceID names the document.
	SourceID string
	// Readable says that there is a readable, Volatile that edits change this process's memory only.
	Readable, Volatile bool
}

// Pair is the two sides of one document.
type Pair[T any] struct {
	// Readable may be nil: then edits reach the store and this process has no part in it.
	Readable *datasource.Readable[T]
	// Writable may be nil when registering: then there is a NewVolatile of the readable.
	Writable *Writable[T]
}

// Register adds the pair of rule type T under name. The same kind and name twice, and the same document twice, are
// errors that wrap ErrRegistered: two writers of one document in a process would each take the other for a stranger.
func Register[T any](g *Registry, name string, p Pair[T]) error {
	e, err := newEntry(name, &p)
	if err != nil {
		return fmt.Errorf("writable.Register: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	k := keyOf[T](name)
	if old, ok := g.entries[k]; ok {
		return fmt.Errorf("writable.Register: %s is %w, for %s", e.info.title(), ErrRegistered, old.info.SourceID)
	}
	return g.set("writable.Register", k, e)
}

// Replace puts another pair in the place of the one under name, for example after a change of configuration. Who holds
// the old pair keeps it. It wraps ErrNotRegistered if there is none.
func Replace[T any](g *Registry, name string, p Pair[T]) error {
	e, err := newEntry(name, &p)
	if err != nil {
		return fmt.Errorf("writable.Replace: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	k := keyOf[T](name)
	if _, ok := g.entries[k]; !ok {
		return fmt.Errorf("writable.Replace: %s is %w", e.info.title(), ErrNotRegistered)
	}
	return g.set("writable.Replace", k, e)
}

// Remove takes the pair under name out and gives it; it wraps ErrNotRegistered if there is none.
func Remove[T any](g *Registry, name string) (Pair[T], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := keyOf[T](name)
	e, ok := g.entries[k]
	if !ok {
		return Pair[T]{}, notRegistered[T]("Remove", name)
	}
	delete(g.entries, k)
	return e.pair.(Pair[T]), nil
}

// Lookup gives the pair of rule type T under name; its Writable is never nil. It wraps ErrNotRegistered if there is none.
func Lookup[T any](g *Registry, name string) (Pair[T], error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	e, ok := g.entries[keyOf[T](name)]
	if !ok {
		return Pair[T]{}, notRegistered[T]("Lookup", name)
	}
	return e.pair.(Pair[T]), nil
}

// List describes every entry, by kind in the order of rule.Kinds, then by name. Types of the user's own come last.
func (g *Registry) List() []Info {
	g.mu.RLock()
	all := make([]Info, 0, len(g.entries))
	for _, e := range g.entries {
		all = append(all, e.info)
	}
	g.mu.RUnlock()
	kinds := rule.Kinds()
	place := func(k rule.Kind) int {
		if i := slices.Index(kinds, k); i >= 0 {
			return i
		}
		return len(kinds)
	}
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(cmp.Compare(place(a.Kind), place(b.Kind)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.SourceID, b.SourceID))
	})
	return all
}

// Status gives the status of every entry's readable, in the order of List: what the store has, what is in force, and
// whether the two drifted apart. Entries without a readable are left out.
func (g *Registry) Status() []datasource.Status {
	infos := g.List()
	g.mu.RLock()
	byID := make(map[string]datasource.Managed, len(g.entries))
	for _, e := range g.entries {
		if e.readable != nil {
			byID[e.info.SourceID] = e.readable
		}
	}
	g.mu.RUnlock()
	var all []datasource.Status
	for _, info := range infos {
		if r, ok := byID[info.SourceID]; ok {
			all = append(all, r.Status())
		}
	}
	return all
}

// set stores e unless another key has its document. The caller holds mu.
func (g *Registry) set(op string, k key, e entry) error {
	for other, old := range g.entries {
		if other != k && old.info.SourceID == e.info.SourceID {
			return fmt.Errorf("%s: document %s is %w, as %s", op, e.info.SourceID, ErrRegistered, old.info.title())
		}
	}
	if g.entries == nil {
		g.entries = make(map[key]entry)
	}
	g.entries[k] = e
	return nil
}

func newEntry[T any](name string, p *Pair[T]) (entry, error) {
	if p.Readable == nil && p.Writable == nil {
		return entry{}, errors.New("neither a readable nor a writable")
	}
	if p.Writable == nil {
		w, err := NewVolatile(p.Readable)
		if err != nil {
			return entry{}, err
		}
		p.Writable = w
	}
	if p.Readable != nil && p.Readable != p.Writable.readable {
		return entry{}, fmt.Errorf("the writable of %s has not this readable attached (option Readable)", p.Writable.ID())
	}
	p.Readable = p.Writable.readable
	kind, _ := rule.KindOf[T]()
	e := entry{pair: *p, info: Info{Kind: kind, Name: name, SourceID: p.Writable.ID(), Volatile: p.Writable.Volatile()}}
	if p.Readable != nil {
		e.readable, e.info.Readable = p.Readable, true
	}
	return e, nil
}

func keyOf[T any](name string) key { return key{(*T)(nil), name} }

func (i Info) title() string {
	kind := string(i.Kind)
	if kind == "" {
		kind = "a rule type of your own"
	}
	if i.Name == "" {
		return kind
	}
	return fmt.Sprintf("%s %q", kind, i.Name)
}

func notRegistered[T any](op, name string) error {
	kind, _ := rule.KindOf[T]()
	return fmt.Errorf("writable.%s: %s is %w", op, Info{Kind: kind, Name: name}.title(), ErrNotRegistered)
}
