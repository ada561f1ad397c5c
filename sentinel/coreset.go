package sentinel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rulewire/rulewire/rule"
)

// ErrCore is wrapped where sentinel-golang did not take rules that it should have taken: it panicked, gave an error, or
// has other rules in force than it was given.
var ErrCore = errors.New("sentinel-golang did not take the rules")

// coreSet keeps one of the core's rule managers in step with what the kinds contribute to it.
type coreSet[C any] struct {
	mod *module[C]
	// sole says that Rulewire owns the whole manager. Else (thread-grade flow rules without a source of isolation
	// rules) it owns the resources that it has rules for, and the application's own rules on others stay.
	sole bool

	mu    sync.Mutex
	parts []contribution[C] // in the order of rule.Kinds
	// wanted is what the core took last; touched says whether there was anything yet.
	wanted  []C
	touched bool
}

// contribution is what one kind gives to a manager.
type contribution[C any] struct {
	kind  rule.Kind
	rules []C
}

func newCoreSet[C any](mod *module[C], kinds ...rule.Kind) *coreSet[C] {
	s := &coreSet[C]{mod: mod}
	for _, k := range kinds {
		s.parts = append(s.parts, contribution[C]{kind: k})
	}
	return s
}

// set replaces one kind's rules. It either succeeds or leaves the core with the rules that it had; undo takes a success
// back.
func (s *coreSet[C]) set(kind rule.Kind, rules []C) (undo func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.parts, func(p contribution[C]) bool { return p.kind == kind })
	before := s.parts[i].rules
	if err := s.replace(i, rules); err != nil {
		return nil, err
	}
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.replace(i, before)
	}, nil
}

func (s *coreSet[C]) replace(i int, rules []C) error {
	parts := slices.Clone(s.parts)
	parts[i].rules = rules
	joined, by := s.join(parts)
	if !s.sole && len(joined) == 0 && len(s.wanted) == 0 {
		s.parts = parts
		return nil // nothing of ours was or is to be in this manager
	}
	if err := s.bring(joined, by); err != nil {
		return fmt.Errorf("%s: %w", s.mod.name, err)
	}
	s.parts, s.wanted, s.touched = parts, joined, true
	return nil
}

// join puts the kinds' rules one after the other, without exact duplicates, and also gives them by resource.
func (s *coreSet[C]) join(parts []contribution[C]) ([]C, byResource[C]) {
	var all []C
	for _, p := range parts {
		if len(all) == 0 {
			all = slices.Clip(p.rules) // the usual case needs no copy; nobody writes to it
			continue
		}
		all = append(all, p.rules...)
	}
	by := s.group(all)
	if len(by) == len(all) {
		return all, by
	}
	kept := all[:0:0]
	seen := make(map[string][]*C, len(by))
	for i := range all {
		res := s.mod.resource(&all[i])
		if slices.ContainsFunc(seen[res], func(o *C) bool { return s.mod.same(o, &all[i]) && s.mod.id(o) == s.mod.id(&all[i]) }) {
			continue
		}
		seen[res] = append(seen[res], &all[i])
		kept = append(kept, all[i])
	}
	return kept, s.group(kept)
}

// byResource are the rules of each resource, in order.
type byResource[C any] map[string][]C

func (s *coreSet[C]) group(rules []C) byResource[C] {
	by := make(byResource[C], len(rules))
	for i := range rules {
		res := s.mod.resource(&rules[i])
		if _, ok := by[res]; !ok {
			by[res] = rules[i : i+1 : i+1] // no copy for the usual one rule per resource
			continue
		}
		by[res] = append(by[res], rules[i])
	}
	return by
}

// mine gives the live rules that concern us.
func (s *coreSet[C]) mine(next byResource[C]) byResource[C] {
	live := s.group(s.mod.live())
	if s.sole {
		return live
	}
	wanted, ours := s.group(s.wanted), make(byResource[C])
	for res, rules := range live {
		_, before := wanted[res]
		_, after := next[res]
		if before || after {
			ours[res] = rules
		}
	}
	return ours
}

// bring makes the core enforce exactly these rules and checks that it does. After an error the core has again what it
// had before.
func (s *coreSet[C]) bring(rules []C, want byResource[C]) error {
	have := s.mine(want)
	var changed []string
	for res, w := range want {
		h := have[res]
		w = s.arrange(w, h)
		want[res] = w
		if !s.equal(w, h, !s.mod.keepsID) {
			if err := s.check(w); err != nil {
				return err
			}
			changed = append(changed, res)
		}
	}
	for res := range have {
		if _, ok := want[res]; !ok {
			changed = append(changed, res)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	slices.Sort(changed)
	err := s.swap(rules, changed, want, have)
	if err == nil {
		return nil
	}
	if back := s.restore(changed, have); back != nil {
		return errors.Join(err, fmt.Errorf("and the rules before are not back: %w", back))
	}
	return err
}

// swap loads the changed resources and checks the outcome.
func (s *coreSet[C]) swap(rules []C, changed []string, want, have byResource[C]) error {
	if err := s.stepAside(changed, want, have); err != nil {
		return err
	}
	// One resource swaps at once by itself, and far faster than the whole set; more than one go in with the set, so
	// that nobody sees half of it. In a manager that is not ours alone there is only the first way.
	if s.mod.loadOf != nil && (len(changed) == 1 || !s.sole) {
		for _, res := range changed {
			if err := s.call(func() (bool, error) { return s.mod.loadOf(res, s.fresh(want[res])) }); err != nil {
				return err
			}
		}
		err := s.verify(changed, want)
		if err == nil || !s.sole {
			return err
		}
	}
	if err := s.loadAll(rules, want); err != nil {
		return err
	}
	return s.verify(nil, want)
}

// restore loads what was in force before.
func (s *coreSet[C]) restore(changed []string, have byResource[C]) error {
	if !s.sole {
		for _, res := range changed {
			if err := s.call(func() (bool, error) { return s.mod.loadOf(res, s.fresh(have[res])) }); err != nil {
				return err
			}
		}
		return s.verify(changed, have)
	}
	var all []C
	for _, res := range slices.Sorted(maps.Keys(have)) {
		all = append(all, have[res]...)
	}
	if err := s.loadAll(all, have); err != nil {
		return err
	}
	return s.verify(nil, have)
}

func (s *coreSet[C]) loadAll(rules []C, want byResource[C]) error {
	ordered := make([]C, 0, len(rules))
	done := make(map[string]bool, len(want))
	for i := range rules {
		res := s.mod.resource(&rules[i])
		if !done[res] {
			done[res] = true
			ordered = append(ordered, want[res]...)
		}
	}
	return s.call(func() (bool, error) { return s.mod.load(s.fresh(ordered)) })
}

// arrange puts the rules that the core has already first, in the core's order. The core walks through a list and gives
// each new rule the first old one that it can make use of: a changed rule that stands before an unchanged one would
// take that one's statistics, and its open breaker with it (F131).
func (s *coreSet[C]) arrange(want, have []C) []C {
	if len(want) == 1 || s.equal(want, have, false) {
		return want
	}
	rest := slices.Clone(want)
	out := make([]C, 0, len(want))
	for i := range have {
		if at := slices.IndexFunc(rest, func(w C) bool { return s.mod.same(&w, &have[i]) }); at >= 0 {
			out = append(out, rest[at])
			rest = slices.Delete(rest, at, at+1)
		}
	}
	return append(out, rest...)
}

func (s *coreSet[C]) equal(a, b []C, ids bool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !s.mod.same(&a[i], &b[i]) || (ids && s.mod.id(&a[i]) != s.mod.id(&b[i])) {
			return false
		}
	}
	return true
}

// stepAside makes way for edits that the core's own comparison does not see (a breaker's probeNum, a threshold that
// moves by less than 1e-8): it would keep the old rule and throw the new one away (F128). Such a rule is loaded twice,
// first with one millisecond more or less of waiting, which the core does see. At no moment is the resource without it.
func (s *coreSet[C]) stepAside(changed []string, want, have byResource[C]) error {
	if s.mod.step == nil {
		return nil
	}
	for _, res := range changed {
		w, h := want[res], have[res]
		if !s.overlooked(w, h) {
			continue
		}
		stepped := slices.Clone(w)
		for i := range stepped {
			if !slices.ContainsFunc(h, func(old C) bool { return s.mod.same(&old, &stepped[i]) }) {
				stepped[i] = s.mod.step(stepped[i])
			}
		}
		if err := s.call(func() (bool, error) { return s.mod.loadOf(res, s.fresh(stepped)) }); err != nil {
			return err
		}
	}
	return nil
}

// overlooked plays the core's matching and says whether it would keep an old rule in place of a different new one.
func (s *coreSet[C]) overlooked(want, have []C) bool {
	left := slices.Clone(have)
	for i := range want {
		at := slices.IndexFunc(left, func(old C) bool { return s.mod.alike(&old, &want[i]) })
		if at < 0 {
			continue
		}
		if !s.mod.same(&left[at], &want[i]) {
			return true
		}
		left = slices.Delete(left, at, at+1)
	}
	return false
}

// check asks the core about each rule first: in a load it would drop a bad one with a log line.
func (s *coreSet[C]) check(rules []C) error {
	for i := range rules {
		var reason error
		if err := s.call(func() (bool, error) { reason = s.mod.valid(&rules[i]); return true, nil }); err != nil {
			return err
		}
		if reason != nil {
			return fmt.Errorf("%w: %w: %s: %v", ErrCore, rule.ErrUnsupported, s.show(&rules[i]), reason)
		}
	}
	return nil
}

// fresh copies rules: the core keeps what it is given, and changes some of it.
func (s *coreSet[C]) fresh(rules []C) []*C {
	buf := slices.Clone(rules)
	out := make([]*C, len(buf))
	for i := range buf {
		if s.mod.clone != nil {
			s.mod.clone(&buf[i])
		}
		out[i] = &buf[i]
	}
	return out
}

// call keeps a panic of the core from taking the process down or passing for a success.
func (s *coreSet[C]) call(f func() (bool, error)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: panic: %v", ErrCore, p)
		}
	}()
	if _, err := f(); err != nil {
		return fmt.Errorf("%w: %w", ErrCore, err)
	}
	return nil
}

// verify compares what is live with what was loaded; only some resources if given.
func (s *coreSet[C]) verify(only []string, want byResource[C]) error {
	d := Drift{Module: s.mod.name}
	if only != nil {
		for _, res := range only {
			s.diff(&d, want[res], s.mod.liveOf(res))
		}
	} else {
		d = s.compare(want, s.mine(want))
	}
	if d.none() {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrCore, d)
}

func (s *coreSet[C]) compare(want, have byResource[C]) Drift {
	d := Drift{Module: s.mod.name}
	for res, w := range want {
		s.diff(&d, w, have[res])
	}
	for res, h := range have {
		if _, ok := want[res]; !ok {
			s.diff(&d, nil, h)
		}
	}
	slices.Sort(d.Missing)
	slices.Sort(d.Foreign)
	return d
}

func (s *coreSet[C]) diff(d *Drift, want, have []C) {
	if s.equal(want, have, false) {
		return
	}
	left := slices.Clone(have)
	for i := range want {
		if at := slices.IndexFunc(left, func(h C) bool { return s.mod.same(&h, &want[i]) }); at >= 0 {
			left = slices.Delete(left, at, at+1)
			continue
		}
		d.Missing = append(d.Missing, s.show(&want[i]))
	}
	for i := range left {
		d.Foreign = append(d.Foreign, s.show(&left[i]))
	}
}

func (s *coreSet[C]) show(r *C) string { return fmt.Sprintf("%+v", *r) }

// drift compares what the core has in force with what it took last. It is empty before the first load.
func (s *coreSet[C]) drift() Drift {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.touched {
		return Drift{Module: s.mod.name}
	}
	want := s.group(s.wanted)
	return s.compare(want, s.mine(want))
}

// strangers shows the live rules that neither came from Rulewire nor are among next.
func (s *coreSet[C]) strangers(next []C) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.group(slices.Concat(s.wanted, next))
	var all []string
	for res, live := range s.mine(known) {
		for i := range live {
			if !slices.ContainsFunc(known[res], func(k C) bool { return s.mod.same(&k, &live[i]) }) {
				all = append(all, s.show(&live[i]))
			}
		}
	}
	slices.Sort(all)
	return all
}

// reconcile loads what the core took last once more where it drifted.
func (s *coreSet[C]) reconcile() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.touched {
		return nil
	}
	if err := s.bring(s.wanted, s.group(s.wanted)); err != nil {
		return fmt.Errorf("%s: %w", s.mod.name, err)
	}
	return nil
}

// count gives how many of a kind's rules the core has in force.
func (s *coreSet[C]) count(kind rule.Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := s.group(s.mod.live())
	n := 0
	for _, p := range s.parts {
		if p.kind != kind {
			continue
		}
		_, by := s.join([]contribution[C]{p})
		for res, w := range by {
			h := live[res]
			if s.equal(w, h, false) {
				n += len(w)
				continue
			}
			left := slices.Clone(h)
			for i := range w {
				if at := slices.IndexFunc(left, func(h C) bool { return s.mod.same(&h, &w[i]) }); at >= 0 {
					left = slices.Delete(left, at, at+1)
					n++
				}
			}
		}
	}
	return n
}

// Drift is the difference between the rules that one of the core's managers took from Rulewire and those that it has in
// force. It arises when other code loads rules into a manager that Rulewire owns.
type Drift struct {
	// Module is the core's manager: "flow", "isolation", "circuitbreaker", "system" or "hotspot".
	Module string
	// Missing are rules of ours that are not in force, Foreign rules in force that are not ours.
	Missing, Foreign []string
}

func (d Drift) none() bool { return len(d.Missing) == 0 && len(d.Foreign) == 0 }

// maxShown bounds the length of a message.
const maxShown = 5

// String gives the counts and the first few rules.
func (d Drift) String() string {
	if d.none() {
		return d.Module + ": in force"
	}
	var b strings.Builder
	b.WriteString(d.Module)
	part := func(what string, rules []string) {
		if len(rules) == 0 {
			return
		}
		fmt.Fprintf(&b, ", %d %s: %s", len(rules), what, strings.Join(rules[:min(len(rules), maxShown)], " "))
	}
	part("missing", d.Missing)
	part("foreign", d.Foreign)
	return b.String()
}
