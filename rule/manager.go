package rule

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Manager holds the set of rules in force for one kind. Readers take one immutable snapshot and never wait; Load builds
// the next set aside and swaps one pointer. It can be plugged behind a readable: it is a property.Listener[[]R].
//
// The zero Manager is empty and ready to use; a nil Manager reads as an empty one.
type Manager[R any] struct {
	snap     atomic.Pointer[Snapshot[R]]
	loading  sync.Mutex // one Load at a time; readers never touch it
	defaults loadConfig
	// delivered is the set that the last OnUpdate left in force.
	delivered atomic.Pointer[Snapshot[R]]
}

// Snapshot is an immutable set of rules. A nil Snapshot is empty.
type Snapshot[R any] struct {
	rules []R
	// index finds a key's rules: rules[start:start+n], or scattered[start] where n is 0.
	index     map[string]place
	scattered [][]R
	// unique says that no key has two rules, so that places do not move when only values change.
	unique     bool
	generation uint64
	traits     Traits[R]
}

type place struct{ start, n int32 }

// LoadOption changes what Load does; given to NewManager it holds for every Load.
type LoadOption func(*loadConfig)

type loadConfig struct{ skipInvalid bool }

// SkipInvalid leaves invalid rules out and loads the rest; they are in Report.Rejected. If every rule of a list is
// invalid, the set in force stays and Load gives an error. Default: any invalid rule leaves the set in force as it is.
func SkipInvalid() LoadOption { return func(c *loadConfig) { c.skipInvalid = true } }

// NewManager makes an empty manager.
func NewManager[R any](opts ...LoadOption) *Manager[R] {
	m := &Manager[R]{}
	for _, o := range opts {
		o(&m.defaults)
	}
	return m
}

// Report says what a Load did. Positions (Index) are those of the list that was given to Load.
type Report[R any] struct {
	// Accepted is the number of rules in force after the Load that came from this list (duplicates count once).
	// 0 with an error: nothing changed.
	Accepted int
	// Rejected are the invalid rules, by ascending index.
	Rejected Rejections
	// Duplicates are rules that equal an earlier one in every field; they were collapsed.
	Duplicates []Duplicate
	// Shadowed are rules behind the first of their key where only the first is in effect (authority rules). They are
	// kept in Rules, so that a write-back does not lose them, and Lookup leaves them out.
	Shadowed []int
	// Changes is the difference to the set before, after rejects and duplicates were taken out.
	Changes Changes[R]
	// Generation is the number of the set in force now. It counts swaps; a Load that changes nothing does not swap.
	Generation uint64
}

// Rejected is an invalid rule.
type Rejected struct {
	Index int
	// Resource is the rule's key, perhaps "".
	Resource string
	// Err is what Validate said.
	Err error
}

// Error gives index, resource and reason.
func (r Rejected) Error() string {
	if r.Resource == "" {
		return fmt.Sprintf("rule %d: %v", r.Index, r.Err)
	}
	return fmt.Sprintf("rule %d (%s): %v", r.Index, text(r.Resource), r.Err)
}

// Unwrap gives the reason.
func (r Rejected) Unwrap() error { return r.Err }

// Rejections is every rejected rule of a list; as an error it wraps ErrInvalid and each reason.
type Rejections []Rejected

// maxListed bounds the length of a message; the rejections themselves are all there.
const maxListed = 20

// Error lists the rejected rules, the first twenty in full.
func (rs Rejections) Error() string {
	parts := make([]string, 0, min(len(rs), maxListed+1))
	for i, r := range rs {
		if i == maxListed {
			parts = append(parts, fmt.Sprintf("and %d more", len(rs)-maxListed))
			break
		}
		parts = append(parts, r.Error())
	}
	return strings.Join(parts, "\n")
}

// Unwrap gives ErrInvalid and each rejection.
func (rs Rejections) Unwrap() []error {
	errs := make([]error, 0, len(rs)+1)
	errs = append(errs, ErrInvalid)
	for _, r := range rs {
		errs = append(errs, r)
	}
	return errs
}

// Duplicate is a rule that equals an earlier one of the same list in every field.
type Duplicate struct{ Index, Of int }

// OnUpdate is Load without the report: the manager as a listener.
func (m *Manager[R]) OnUpdate(_ context.Context, rules []R) error {
	_, err := m.Load(rules)
	if err == nil {
		m.delivered.Store(m.snap.Load())
	}
	return err
}

// InForce says whether the set that the last OnUpdate brought is still the one in force: false after a Load by somebody
// else, for example a console. A readable shows that as drift.
func (m *Manager[R]) InForce() bool { return m.snap.Load() == m.delivered.Load() }

// Load checks and copies rules and swaps them in. Unless SkipInvalid is given, one invalid rule leaves everything as it
// was and the error, a Rejections, names each; a panic in the rule type's own code does the same with ErrPanic. rules is
// neither kept nor changed. Loads from several goroutines come one after the other, each a whole set: the last one wins.
func (m *Manager[R]) Load(rules []R, opts ...LoadOption) (Report[R], error) {
	cfg := m.defaults
	for _, o := range opts {
		o(&cfg)
	}
	m.loading.Lock()
	defer m.loading.Unlock()
	old := m.snap.Load()
	if old == nil {
		old = &Snapshot[R]{}
	}
	next, report, err := build(old, rules, cfg)
	if err != nil {
		report.Generation = old.generation
		return report, err
	}
	if next != nil {
		m.snap.Store(next)
	}
	return report, nil
}

// build makes the set that follows old; nil if it is the same.
func build[R any](old *Snapshot[R], rules []R, cfg loadConfig) (next *Snapshot[R], report Report[R], err error) {
	defer func() {
		if p := recover(); p != nil {
			next, report, err = nil, Report[R]{}, fmt.Errorf("%w: %v", ErrPanic, p)
		}
	}()
	t := TraitsOf[R]()
	// The difference comes first: what did not change is known to be valid and is copied from the old set.
	changes := compare(old.rules, rules, t, old.unique)
	report.Rejected = validate(&changes, t)
	kept := rules
	var origin []int // of each kept rule; nil = its own place
	if len(report.Rejected) > 0 {
		if !cfg.skipInvalid || len(report.Rejected) == len(rules) {
			return nil, Report[R]{Rejected: report.Rejected}, report.Rejected
		}
		kept, origin = without(rules, report.Rejected)
		changes = compare(old.rules, kept, t, old.unique)
	}
	same := func() bool {
		return changes.Empty() && !changes.Reordered && old.generation > 0
	}
	if !same() {
		next = &Snapshot[R]{traits: t, generation: old.generation + 1, unique: true}
		if len(changes.Added) == 0 && len(changes.Removed) == 0 && !changes.Reordered && old.unique {
			next.adopt(old, kept, &changes)
		} else {
			next.fill(kept, &report)
			if len(report.Duplicates) > 0 {
				changes = compare(old.rules, next.rules, t, old.unique)
			} else {
				changes.new = next.rules
			}
			for i := range report.Duplicates {
				d := &report.Duplicates[i]
				d.Index, d.Of = at(origin, d.Index), at(origin, d.Of)
			}
			for i, s := range report.Shadowed {
				report.Shadowed[i] = at(origin, s)
			}
		}
	}
	if same() {
		next = nil
		changes.new = old.rules
		if t.exclusive && report.Shadowed == nil && !old.unique {
			report.Shadowed = shadowed(kept, origin, t)
		}
		report.Accepted, report.Generation = len(old.rules), old.generation
	} else {
		report.Accepted, report.Generation = len(next.rules), next.generation
	}
	report.Changes = changes
	return next, report, nil
}

func at(origin []int, i int) int {
	if origin == nil {
		return i
	}
	return origin[i]
}

// shadowed finds the rules behind the first of their key in a list without duplicates.
func shadowed[R any](rules []R, origin []int, t Traits[R]) []int {
	var found []int
	seen := make(map[string]bool, len(rules))
	for i := range rules {
		key := t.Key(&rules[i])
		if seen[key] {
			found = append(found, at(origin, i))
		}
		seen[key] = true
	}
	return found
}

func validate[R any](c *Changes[R], t Traits[R]) Rejections {
	var rejected Rejections
	check := func(i int) {
		if err := t.Validate(&c.new[i]); err != nil {
			rejected = append(rejected, Rejected{Index: i, Resource: t.Key(&c.new[i]), Err: err})
		}
	}
	for _, i := range c.Added {
		check(i)
	}
	for _, p := range c.Changed {
		check(p.New)
	}
	slices.SortFunc(rejected, func(a, b Rejected) int { return cmp.Compare(a.Index, b.Index) })
	return rejected
}

func without[R any](rules []R, rejected Rejections) (kept []R, origin []int) {
	kept, origin = make([]R, 0, len(rules)-len(rejected)), make([]int, 0, len(rules)-len(rejected))
	next := 0
	for i := range rules {
		if next < len(rejected) && rejected[next].Index == i {
			next++
			continue
		}
		kept, origin = append(kept, rules[i]), append(origin, i)
	}
	return kept, origin
}

// adopt fills s where only values changed and every key has one rule: the index stays the same.
func (s *Snapshot[R]) adopt(old *Snapshot[R], rules []R, changes *Changes[R]) {
	s.index = old.index
	s.rules = slices.Clone(old.rules) // what did not change shares what it points to with the old set; neither is ever written
	for _, p := range changes.Changed {
		s.rules[p.New] = s.traits.Clone(&rules[p.New])
	}
	changes.new = s.rules
}

// fill copies rules into s, leaves duplicates out and builds the index.
func (s *Snapshot[R]) fill(rules []R, report *Report[R]) {
	s.rules = make([]R, 0, len(rules))
	s.index = make(map[string]place, len(rules))
	var (
		lists   [][]int32         // positions of the keys whose rules do not stand side by side
		hashed  map[string]hashes // for keys with many rules
		origins []int32           // of each rule in s, needed once there is a duplicate
	)
	origin := func(i int) int {
		if origins == nil {
			return i
		}
		return int(origins[i])
	}
	for i := range rules {
		r := &rules[i]
		key := s.traits.Key(r)
		p, found := s.index[key]
		if found {
			if of := s.duplicate(r, key, p, lists, &hashed); of >= 0 {
				if origins == nil {
					origins = span32(0, len(s.rules))
				}
				report.Duplicates = append(report.Duplicates, Duplicate{Index: i, Of: origin(of)})
				continue
			}
		}
		here := int32(len(s.rules))
		s.rules = append(s.rules, s.traits.Clone(r))
		if origins != nil {
			origins = append(origins, int32(i))
		}
		switch {
		case !found:
			s.index[key] = place{here, 1}
			continue
		case s.traits.exclusive:
			report.Shadowed = append(report.Shadowed, i)
		case p.n > 0 && p.start+p.n == here:
			s.index[key] = place{p.start, p.n + 1}
		case p.n > 0:
			s.index[key] = place{int32(len(lists)), 0}
			lists = append(lists, append(span32(int(p.start), int(p.start+p.n)), here))
		default:
			lists[p.start] = append(lists[p.start], here)
		}
		s.unique = false
		if h, ok := hashed[key]; ok {
			h.add(deepHash(h.seed, reflect.ValueOf(r)), here)
		}
	}
	s.scattered = make([][]R, len(lists))
	for k, list := range lists {
		s.scattered[k] = make([]R, len(list))
		for j, i := range list {
			s.scattered[k][j] = s.rules[i]
		}
	}
}

// hashes finds equal rules among many of one key.
type hashes struct {
	seed maphash.Seed
	at   map[uint64][]int32
}

func (h hashes) add(sum uint64, i int32) { h.at[sum] = append(h.at[sum], i) }

// duplicate gives the position in s of a rule that equals r, or -1.
func (s *Snapshot[R]) duplicate(r *R, key string, p place, lists [][]int32, hashed *map[string]hashes) int {
	if h, ok := (*hashed)[key]; ok {
		for _, i := range h.at[deepHash(h.seed, reflect.ValueOf(r))] {
			if s.traits.Equal(&s.rules[i], r) {
				return int(i)
			}
		}
		return -1
	}
	n := int(p.n)
	if n == 0 {
		n = len(lists[p.start])
	}
	found := -1
	for k := range n {
		i := p.start + int32(k)
		if p.n == 0 {
			i = lists[p.start][k]
		}
		if s.traits.Equal(&s.rules[i], r) {
			found = int(i)
			break
		}
	}
	if n >= manyPerKey {
		h := hashes{seed: maphash.MakeSeed(), at: make(map[uint64][]int32, 2*n)}
		for k := range n {
			i := p.start + int32(k)
			if p.n == 0 {
				i = lists[p.start][k]
			}
			h.add(deepHash(h.seed, reflect.ValueOf(&s.rules[i])), i)
		}
		if *hashed == nil {
			*hashed = make(map[string]hashes)
		}
		(*hashed)[key] = h
	}
	return found
}

// Lookup gives the rules of one key (resource), in the order of the document; nil for none. The slice is shared: read
// it, do not change it or what its rules point to. It stays as it is whatever is loaded later. It takes no lock and
// does not allocate.
func (m *Manager[R]) Lookup(key string) []R { return m.Snapshot().Lookup(key) }

// Rules gives a deep copy of the rules in force, in the order of the document, without duplicates. Never nil.
func (m *Manager[R]) Rules() []R { return m.Snapshot().Rules() }

// Len is the number of rules in force.
func (m *Manager[R]) Len() int { return m.Snapshot().Len() }

// Generation is the number of the set in force: 0 before the first Load, then one more with each swap.
func (m *Manager[R]) Generation() uint64 { return m.Snapshot().Generation() }

// Snapshot gives the set in force. Take one where several lookups must see the same set.
func (m *Manager[R]) Snapshot() *Snapshot[R] {
	if m == nil {
		return nil
	}
	return m.snap.Load()
}

// Lookup is Manager.Lookup on this set.
func (s *Snapshot[R]) Lookup(key string) []R {
	if s == nil {
		return nil
	}
	p, ok := s.index[key]
	switch {
	case !ok:
		return nil
	case p.n > 0:
		end := p.start + p.n
		return s.rules[p.start:end:end]
	default:
		return slices.Clip(s.scattered[p.start])
	}
}

// Rules gives a deep copy of the set. Never nil.
func (s *Snapshot[R]) Rules() []R {
	if s == nil {
		return []R{}
	}
	out := make([]R, len(s.rules))
	for i := range s.rules {
		out[i] = s.traits.Clone(&s.rules[i])
	}
	return out
}

// All yields the rules in the order of the document without copying them: read them, do not change them.
func (s *Snapshot[R]) All() iter.Seq[*R] {
	return func(yield func(*R) bool) {
		if s == nil {
			return
		}
		for i := range s.rules {
			if !yield(&s.rules[i]) {
				return
			}
		}
	}
}

// Keys yields each key (resource) once, in no order.
func (s *Snapshot[R]) Keys() iter.Seq[string] {
	if s == nil {
		return maps.Keys(map[string]place(nil))
	}
	return maps.Keys(s.index)
}

// Len is the number of rules.
func (s *Snapshot[R]) Len() int {
	if s == nil {
		return 0
	}
	return len(s.rules)
}

// Generation is the number of the set.
func (s *Snapshot[R]) Generation() uint64 {
	if s == nil {
		return 0
	}
	return s.generation
}
