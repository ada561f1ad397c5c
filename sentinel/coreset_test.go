package sentinel

import (
	"errors"
	"slices"
	"testing"

	"github.com/rulewire/rulewire/rule"
)

// toy is a core manager under the test's control.
type toy struct {
	rules []toyRule
	loads int
	// fault is what goes wrong at the next loads.
	fault func(rules []toyRule) ([]toyRule, error)
}

type toyRule struct {
	ID, Resource string
	N            int
}

func (m *toy) take(keep func(toyRule) bool, rules []*toyRule) (bool, error) {
	m.loads++
	var next []toyRule
	for _, r := range m.rules {
		if keep(r) {
			next = append(next, r)
		}
	}
	for _, r := range rules {
		next = append(next, *r)
	}
	if m.fault != nil {
		fault := m.fault
		m.fault = nil
		var err error
		if next, err = fault(next); err != nil {
			return false, err
		}
	}
	m.rules = next
	return true, nil
}

func (m *toy) set() *coreSet[toyRule] {
	s := newCoreSet(&module[toyRule]{
		name:     "toy",
		resource: func(r *toyRule) string { return r.Resource },
		id:       func(r *toyRule) string { return r.ID },
		valid: func(r *toyRule) error {
			if r.N < 0 {
				return errors.New("negative")
			}
			if r.N == 666 {
				panic("boom in valid")
			}
			return nil
		},
		load: func(rules []*toyRule) (bool, error) { return m.take(func(toyRule) bool { return false }, rules) },
		loadOf: func(res string, rules []*toyRule) (bool, error) {
			return m.take(func(r toyRule) bool { return r.Resource != res }, rules)
		},
		live: func() []toyRule { return slices.Clone(m.rules) },
		liveOf: func(res string) []toyRule {
			return slices.DeleteFunc(slices.Clone(m.rules), func(r toyRule) bool { return r.Resource != res })
		},
		same: func(a, b *toyRule) bool { return a.Resource == b.Resource && a.N == b.N },
	}, rule.KindFlow, rule.KindIsolation)
	s.sole = true
	return s
}

func (m *toy) want(t *testing.T, what string, want ...toyRule) {
	t.Helper()
	got := slices.Clone(m.rules)
	order := func(a, b toyRule) int { return a.N - b.N }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Errorf("%s: live %v, want %v", what, got, want)
	}
}

// faults: F125 F138
func TestCoreThatFailsKeepsHalfASet(t *testing.T) {
	a, b, c := toyRule{"", "a", 1}, toyRule{"", "b", 2}, toyRule{"", "c", 3}
	for name, fault := range map[string]func([]toyRule) ([]toyRule, error){
		"panic":       func([]toyRule) ([]toyRule, error) { panic("boom") },
		"error":       func([]toyRule) ([]toyRule, error) { return nil, errors.New("no") },
		"silent drop": func(rules []toyRule) ([]toyRule, error) { return rules[:1], nil },
		"wipe":        func([]toyRule) ([]toyRule, error) { return nil, nil },
	} {
		m := &toy{}
		s := m.set()
		if _, err := s.set(rule.KindFlow, []toyRule{a, b}); err != nil {
			t.Fatal(err)
		}
		m.fault = fault
		edited := toyRule{"", "b", 20}
		if _, err := s.set(rule.KindFlow, []toyRule{edited, c}); !errors.Is(err, ErrCore) {
			t.Errorf("%s: passes for a success: %v", name, err)
		}
		m.want(t, name, a, b)
		if !s.drift().none() {
			t.Errorf("%s: drift: %v", name, s.drift())
		}
		// The same rules again, without a new write to the store.
		if _, err := s.set(rule.KindFlow, []toyRule{edited, c}); err != nil {
			t.Errorf("%s: retry: %v", name, err)
		}
		m.want(t, name+", retried", edited, c)
	}
}

// faults: F022
func TestRuleThatTheCoreWouldDropIsLoaded(t *testing.T) {
	m := &toy{rules: []toyRule{{"", "old", 9}}}
	s := m.set()
	for _, n := range []int{-1, 666} {
		if _, err := s.set(rule.KindFlow, []toyRule{{"", "a", 1}, {"", "b", n}}); !errors.Is(err, ErrCore) {
			t.Errorf("%d: %v", n, err)
		}
	}
	if m.loads != 0 {
		t.Errorf("%d loads", m.loads)
	}
	m.want(t, "before", toyRule{"", "old", 9})
}

// faults: F068
func TestSameRulesAreLoadedAgain(t *testing.T) {
	m := &toy{}
	s := m.set()
	a, b, c := toyRule{"1", "a", 1}, toyRule{"2", "b", 2}, toyRule{"3", "b", 3}
	load := func(what string, loads int, rules ...toyRule) {
		t.Helper()
		before := m.loads
		if _, err := s.set(rule.KindFlow, rules); err != nil {
			t.Fatal(err)
		}
		if got := m.loads - before; got != loads {
			t.Errorf("%s: %d loads, want %d", what, got, loads)
		}
	}
	load("first", 1, a, b, c)
	load("same", 0, a, b, c)
	load("other order", 0, c, a, b)
	load("exact duplicate", 0, c, a, b, a)
	load("other id", 1, c, toyRule{"9", "a", 1}, b)
	load("one resource changed", 1, toyRule{"9", "a", 1}, b)
	load("two changed", 1, toyRule{"9", "a", 7}, toyRule{"", "b", 8})
	if n := s.count(rule.KindFlow); n != 2 {
		t.Errorf("counts %d live rules", n)
	}
}

func TestUndoTakesTheOtherKindsRulesAway(t *testing.T) {
	m := &toy{}
	s := m.set()
	if _, err := s.set(rule.KindIsolation, []toyRule{{"", "i", 1}}); err != nil {
		t.Fatal(err)
	}
	undo, err := s.set(rule.KindFlow, []toyRule{{"", "f", 2}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.set(rule.KindIsolation, []toyRule{{"", "i", 3}}); err != nil {
		t.Fatal(err)
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	m.want(t, "after undo", toyRule{"", "i", 3})
}
