package rule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rulewire/rulewire/property"
)

var _ property.Listener[[]Flow] = (*Manager[Flow])(nil)

func qps(resource string, count float64) Flow {
	r := validFlow()
	r.Resource, r.Count = resource, count
	return r
}

func mustLoad[R any](t *testing.T, m *Manager[R], rules []R, opts ...LoadOption) Report[R] {
	t.Helper()
	rep, err := m.Load(rules, opts...)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return rep
}

func counts(rules []Flow) string {
	parts := make([]string, len(rules))
	for i, r := range rules {
		parts[i] = fmt.Sprintf("%s=%g", r.Resource, r.Count)
	}
	return strings.Join(parts, " ")
}

// faults: F021 F023 F178
func TestOneInvalidRuleReplacesTheSet(t *testing.T) {
	m := NewManager[Flow]()
	mustLoad(t, m, []Flow{qps("/seed", 5)})
	bad := qps("c", 1)
	bad.ControlBehavior = 9
	rep, err := m.Load([]Flow{qps("a", 9), qps("", 1), qps("b", -1), bad})
	var rejected Rejections
	if !errors.Is(err, ErrInvalid) || !errors.As(err, &rejected) {
		t.Fatalf("got %v", err)
	}
	if len(rejected) != 3 || rejected[0].Index != 1 || rejected[1].Index != 2 || rejected[2].Index != 3 || rejected[2].Resource != "c" {
		t.Errorf("not every bad rule is named: %v", err)
	}
	if got := counts(m.Rules()); got != "/seed=5" || m.Generation() != 1 || rep.Accepted != 0 {
		t.Errorf("in force: %s, generation %d, accepted %d", got, m.Generation(), rep.Accepted)
	}

	// Asked for, the good half loads and the result lists the rest.
	rep = mustLoad(t, m, []Flow{qps("a", 9), qps("", 1), qps("b", -1), bad, qps("a", 9)}, SkipInvalid())
	if len(rep.Rejected) != 3 || rep.Accepted != 1 || counts(m.Rules()) != "a=9" {
		t.Errorf("accepted %d, rejected %v, in force %s", rep.Accepted, rep.Rejected, counts(m.Rules()))
	}
	if len(rep.Duplicates) != 1 || rep.Duplicates[0] != (Duplicate{Index: 4, Of: 0}) {
		t.Errorf("positions of duplicates are not those of the given list: %v", rep.Duplicates)
	}
}

// faults: F022
func TestAllInvalidClearsTheSet(t *testing.T) {
	m := NewManager[Flow](SkipInvalid())
	mustLoad(t, m, []Flow{qps("/seed", 5)})
	if err := m.OnUpdate(context.Background(), []Flow{qps("", 1), qps("x", -1)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	if counts(m.Rules()) != "/seed=5" {
		t.Errorf("in force: %s", counts(m.Rules()))
	}
}

func TestNilAndEmptyListLeaveRulesBehind(t *testing.T) {
	// At this level a list is a list: absence is decided by the guard, on presence and bytes, never on a nil slice.
	for _, list := range [][]Flow{nil, {}} {
		m := NewManager[Flow]()
		mustLoad(t, m, []Flow{qps("a", 1)})
		rep := mustLoad(t, m, list)
		if m.Len() != 0 || len(rep.Changes.Removed) != 1 || m.Rules() == nil {
			t.Errorf("%v: %d rules, %d removed", list, m.Len(), len(rep.Changes.Removed))
		}
	}
	var none *Manager[Flow]
	if none.Lookup("a") != nil || none.Len() != 0 || none.Generation() != 0 || none.Rules() == nil {
		t.Error("a nil manager is not an empty one")
	}
	for range none.Snapshot().All() {
		t.Error("a nil snapshot holds a rule")
	}
	for range none.Snapshot().Keys() {
		t.Error("a nil snapshot holds a key")
	}
	var zero Manager[Flow]
	mustLoad(t, &zero, []Flow{qps("a", 1)})
	if len(zero.Lookup("a")) != 1 {
		t.Error("the zero manager does not work")
	}
}

// faults: F129
func TestCallerCanReachIntoTheSet(t *testing.T) {
	m := NewManager[Flow]()
	in := []Flow{qps("a", 1), qps("b", 2)}
	in[0].ClusterConfig = cluster()
	mustLoad(t, m, in)
	in[0].Count = 99
	*in[0].ClusterConfig.FlowID = 99
	in[1].Resource = "z"
	out := m.Rules()
	if counts(out) != "a=1 b=2" || *out[0].ClusterConfig.FlowID != 7 {
		t.Errorf("a write to the input changed the set: %s", counts(out))
	}
	out[0].Count = 50
	*out[0].ClusterConfig.FlowID = 50
	if again := m.Rules(); counts(again) != "a=1 b=2" || *again[0].ClusterConfig.FlowID != 7 {
		t.Errorf("a write to the output changed the set: %s", counts(again))
	}
	// In-place edit of the same list is still noticed, as what was loaded is a copy.
	if rep := mustLoad(t, m, in); len(rep.Changes.Changed)+len(rep.Changes.Added) != 2 {
		t.Errorf("an in-place edit is missed: %v", rep.Changes)
	}
	for c := range mustLoad(t, m, []Flow{qps("a", 3)}).Changes.ChangedRules() {
		*c.Old.ClusterConfig.FlowID = 1000
	}
	if got := append(m.Lookup("a"), qps("b", 1)); counts(m.Lookup("a")) != "a=3" || len(got) != 2 {
		t.Error("append to a looked-up slice reaches the set")
	}
}

// faults: F133
func TestDistinctRulesBecomeCopiesOfTheLast(t *testing.T) {
	m := NewManager[Flow]()
	mustLoad(t, m, []Flow{qps("a", 1), qps("b", 2), qps("c", 3)})
	if got := counts(m.Rules()); got != "a=1 b=2 c=3" {
		t.Errorf("in force: %s", got)
	}
	for i, res := range []string{"a", "b", "c"} {
		if got := m.Lookup(res); len(got) != 1 || got[0].Count != float64(i+1) {
			t.Errorf("Lookup(%s) = %v", res, got)
		}
	}
}

// faults: F131
func TestOtherOrderCountsAsChange(t *testing.T) {
	m := NewManager[Flow]()
	a := []Flow{qps("a", 1), qps("b", 2), qps("b", 3), qps("c", 4)}
	mustLoad(t, m, a)
	b := []Flow{a[3], a[2], a[0], a[1]}
	rep := mustLoad(t, m, b)
	if !rep.Changes.Empty() || !rep.Changes.Reordered || rep.Changes.Unchanged != 4 {
		t.Errorf("%s: %+v", rep.Changes.Summary(), rep.Changes)
	}
	if counts(m.Rules()) != counts(b) || counts(m.Lookup("b")) != "b=3 b=2" {
		t.Errorf("the new order is not kept: %s", counts(m.Rules()))
	}
	if gen := m.Generation(); mustLoad(t, m, slices.Clone(b)).Generation != gen {
		t.Error("the same list again swaps")
	}
}

// faults: F132
func TestDuplicatesStayOrOthersVanish(t *testing.T) {
	m := NewManager[Flow]()
	in := []Flow{qps("a", 1), qps("b", 2), qps("a", 1), qps("a", 7), qps("b", 2)}
	for round := range 3 {
		rep := mustLoad(t, m, in)
		if want := []Duplicate{{2, 0}, {4, 1}}; !slices.Equal(rep.Duplicates, want) || rep.Accepted != 3 {
			t.Errorf("round %d: duplicates %v, accepted %d", round, rep.Duplicates, rep.Accepted)
		}
		if counts(m.Rules()) != "a=1 b=2 a=7" || counts(m.Lookup("a")) != "a=1 a=7" {
			t.Errorf("round %d: in force %s", round, counts(m.Rules()))
		}
		if m.Generation() != 1 {
			t.Errorf("round %d: the same document swapped", round)
		}
	}
}

// faults: F132
func TestManyRulesOfOneResourceTakeQuadraticTime(t *testing.T) {
	// 20,000 rules of one key, half of them duplicates: each with each would be 200 million comparisons.
	var in []Flow
	for i := range 10_000 {
		in = append(in, qps("a", float64(i)), qps("a", float64(i)))
	}
	m := NewManager[Flow]()
	rep := mustLoad(t, m, in)
	if rep.Accepted != 10_000 || len(rep.Duplicates) != 10_000 || len(m.Lookup("a")) != 10_000 {
		t.Fatalf("accepted %d, duplicates %d", rep.Accepted, len(rep.Duplicates))
	}
	slices.Reverse(in)
	if rep = mustLoad(t, m, in); !rep.Changes.Empty() || !rep.Changes.Reordered {
		t.Errorf("reversed: %s", rep.Changes.Summary())
	}
	// A plain type has one group and no methods; it takes the same way.
	var ps []plain
	for i := range 5000 {
		ps = append(ps, plain{Name: fmt.Sprint(i)})
	}
	pm := NewManager[plain]()
	mustLoad(t, pm, ps)
	slices.Reverse(ps)
	if rep := mustLoad(t, pm, ps); !rep.Changes.Empty() {
		t.Errorf("plain, reversed: %s", rep.Changes.Summary())
	}
}

func TestSecondAuthorityRuleInEffect(t *testing.T) {
	m := NewManager[Authority]()
	in := []Authority{{Resource: "a", LimitApp: "x"}, {Resource: "b", LimitApp: "y"}, {Resource: "a", LimitApp: "z"}}
	for range 2 {
		rep := mustLoad(t, m, in)
		if !slices.Equal(rep.Shadowed, []int{2}) || rep.Accepted != 3 {
			t.Errorf("shadowed %v, accepted %d", rep.Shadowed, rep.Accepted)
		}
	}
	if got := m.Lookup("a"); len(got) != 1 || got[0].LimitApp != "x" {
		t.Errorf("in effect: %v", got)
	}
	if len(m.Rules()) != 3 {
		t.Error("the rule without effect is lost for a write-back")
	}
}

// touchy is a user's rule whose own code panics.
type touchy struct {
	Name            string
	InValid, InSame bool
}

func (r *touchy) RuleKey() string { return r.Name }
func (r *touchy) Validate() error {
	if r.InValid {
		panic("boom in Validate")
	}
	return nil
}
func (r *touchy) Equal(o *touchy) bool {
	if o.InSame {
		panic("boom in Equal")
	}
	return *r == *o
}

// faults: F138
func TestPanicLeavesHalfASet(t *testing.T) {
	m := NewManager[touchy]()
	mustLoad(t, m, []touchy{{Name: "a"}, {Name: "b"}})
	for _, bad := range []touchy{{Name: "b", InValid: true}, {Name: "b", InSame: true}} {
		_, err := m.Load([]touchy{{Name: "c"}, bad})
		if !errors.Is(err, ErrPanic) || !strings.Contains(err.Error(), "boom") {
			t.Errorf("got %v", err)
		}
		if m.Len() != 2 || m.Lookup("b") == nil || m.Lookup("c") != nil || m.Generation() != 1 {
			t.Errorf("the set changed: %v", m.Rules())
		}
	}
	// The lock is free again.
	mustLoad(t, m, []touchy{{Name: "c"}})
}

// faults: F134 F138
func TestReaderSeesHalfASwap(t *testing.T) {
	m := NewManager[Flow]()
	sets := [2][]Flow{flows(100, 0), flows(100, 1)}
	mustLoad(t, m, sets[0])
	ctx, cancel := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := uint64(0); ctx.Err() == nil; {
				s := m.Snapshot()
				if s.Generation() < last {
					t.Error("the set went back")
				}
				last = s.Generation()
				first := s.Lookup("/api/v1/resource/0")
				for r := range s.All() {
					if len(first) != 1 || r.Count != first[0].Count {
						t.Error("a snapshot mixes two sets")
						return
					}
				}
				if s.Len() != 100 {
					t.Errorf("%d rules", s.Len())
					return
				}
			}
		})
	}
	for w := range 2 {
		writers.Go(func() {
			for i := range 200 {
				if _, err := m.Load(sets[(i+w)%2]); err != nil {
					t.Error(err)
				}
				_, _ = m.Load([]Flow{{}})
				_ = m.Rules()
			}
		})
	}
	writers.Wait()
	cancel()
	readers.Wait()
}

func TestLookupAllocates(t *testing.T) {
	m := NewManager[Flow]()
	mustLoad(t, m, append(flows(100, 0), qps("/api/v1/resource/1", 99)))
	if n := testing.AllocsPerRun(100, func() {
		if len(m.Lookup("/api/v1/resource/1")) != 2 || len(m.Lookup("/api/v1/resource/2")) != 1 || m.Lookup("none") != nil {
			t.Error("wrong answer")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The guard asks Unique of every document. One of the size cap with one resource would be ten thousand million comparisons.
func TestUniqueOfManyRulesOfOneResourceTakesQuadraticTime(t *testing.T) {
	var in []Flow
	for i := range 100_000 {
		in = append(in, qps("a", float64(i)))
	}
	if out, n := Unique(in); n != 0 || len(out) != len(in) {
		t.Errorf("%d duplicates among different rules", n)
	}
	in = append(in, qps("a", 0), qps("a", 5), qps("b", 5), qps("a", 40), qps("a", 99_999), qps("b", 5))
	out, n := Unique(in)
	if n != 5 || len(out) != 100_001 || out[100_000].Resource != "b" {
		t.Errorf("%d duplicates, %d left", n, len(out))
	}
}

// The diff and the index against a plain model, on random lists with many duplicates and few keys.
//
// faults: F131 F132
func TestDiffOrIndexDisagreesWithAModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	m := NewManager[Flow]()
	var current []Flow
	for round := range 3000 {
		next := slices.Clone(current)
		switch rnd.IntN(6) {
		case 0:
			rnd.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
		case 1:
			next = nil
		}
		for range rnd.IntN(4) {
			r := qps(string(rune('a'+rnd.IntN(4))), float64(rnd.IntN(3)))
			r.ID = []string{"", "1", "2"}[rnd.IntN(3)]
			switch {
			case len(next) > 0 && rnd.IntN(2) == 0:
				next[rnd.IntN(len(next))] = r
			case len(next) > 0 && rnd.IntN(3) == 0:
				i := rnd.IntN(len(next))
				next = slices.Delete(next, i, i+1)
			default:
				next = slices.Insert(next, rnd.IntN(len(next)+1), r)
			}
		}
		before := m.Rules()
		rep := mustLoad(t, m, next)

		var model []Flow
		for _, r := range next {
			if !slices.ContainsFunc(model, func(o Flow) bool { return r.Equal(&o) }) {
				model = append(model, r)
			}
		}
		if got := m.Rules(); len(got) != len(model) || (len(model) > 0 && !reflect.DeepEqual(got, model)) {
			t.Fatalf("round %d: in force %s, want %s", round, counts(got), counts(model))
		}
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			var want []Flow
			for _, r := range model {
				if r.Resource == key {
					want = append(want, r)
				}
			}
			if got := m.Lookup(key); !reflect.DeepEqual(append([]Flow(nil), got...), want) {
				t.Fatalf("round %d: Lookup(%s) = %s, want %s", round, key, counts(got), counts(want))
			}
		}
		checkChanges(t, round, rep.Changes, before, model)
		if rep.Accepted != len(model) || len(rep.Duplicates) != len(next)-len(model) {
			t.Fatalf("round %d: accepted %d, duplicates %d", round, rep.Accepted, len(rep.Duplicates))
		}
		// The plain function agrees with what the manager found by its short cuts.
		if plain := Compare(before, model); plain.Summary() != rep.Changes.Summary() || plain.Reordered != rep.Changes.Reordered {
			t.Fatalf("round %d: Compare says %s, Load says %s", round, plain.Summary(), rep.Changes.Summary())
		}
		current = next
	}
}

// checkChanges checks a diff by its definition.
func checkChanges(t *testing.T, round int, c Changes[Flow], old, new []Flow) {
	t.Helper()
	if len(c.Removed)+len(c.Changed)+c.Unchanged != len(old) || len(c.Added)+len(c.Changed)+c.Unchanged != len(new) {
		t.Fatalf("round %d: the parts do not add up: %+v", round, c)
	}
	equal := 0
	rest := slices.Clone(old)
	for _, r := range new {
		if i := slices.IndexFunc(rest, func(o Flow) bool { return o.Equal(&r) }); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
			equal++
		}
	}
	if equal != c.Unchanged {
		t.Fatalf("round %d: %d unchanged, want %d", round, c.Unchanged, equal)
	}
	addedKeys := map[string]bool{}
	for _, i := range c.Added {
		addedKeys[new[i].Resource] = true
	}
	for _, i := range c.Removed {
		if addedKeys[old[i].Resource] {
			t.Fatalf("round %d: %s is both added and removed, not changed", round, old[i].Resource)
		}
	}
	for _, p := range c.Changed {
		if old[p.Old].Resource != new[p.New].Resource || old[p.Old].Equal(&new[p.New]) {
			t.Fatalf("round %d: pair %v is no edit", round, p)
		}
	}
	if !slices.IsSorted(c.Added) || !slices.IsSorted(c.Removed) {
		t.Fatalf("round %d: positions are not in order", round)
	}
}

func TestEditPairsUpWithTheWrongRule(t *testing.T) {
	first, second := qps("a", 1), qps("a", 2)
	first.ID, second.ID = "1", "2"
	edited := second
	edited.Count = 20
	c := Compare([]Flow{first, second}, []Flow{edited, with(first, func(r *Flow) { r.Count = 10 })})
	if len(c.Changed) != 2 || c.Changed[0] != (Pair{Old: 1, New: 0}) || c.Changed[1] != (Pair{Old: 0, New: 1}) {
		t.Errorf("IDs do not pair up: %+v", c.Changed)
	}
}

func TestDiffReadsBadly(t *testing.T) {
	old := []Flow{qps("/order", 10), qps("/gone", 1)}
	edited := qps("/order", 20)
	edited.ControlBehavior = ControlRateLimiter
	edited.ClusterConfig = &ClusterFlowConfig{FallbackToLocalWhenFail: true}
	added := qps("/new one", 3)
	added.Extra = Extra{{Name: "note", Value: `"x"`}}
	got := Compare(old, []Flow{edited, added}).String()
	want := strings.Join([]string{
		"- flow /gone: count 1",
		"~ flow /order: count 10 → 20, controlBehavior reject → rate-limiter, clusterConfig none → " +
			"{FlowID:<nil> ThresholdType:0 FallbackToLocalWhenFail:true Strategy:0 SampleCount:0 WindowIntervalMs:0 ResourceTimeout:0 " +
			"ResourceTimeoutStrategy:0 AcquireRefuseStrategy:0 ClientOfflineTime:0 Extra:[]}",
		`+ flow "/new one": count 3, extra {note="x"}`,
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, c := range []struct{ got, want string }{
		{Describe(new(validDegrade())), "degrade stock: grade slow-request-ratio, count 200, timeWindowMs 10000"},
		{Describe(new(validSystem())), "system: highestCpuUsage 0.8"},
		{Describe(&Authority{Resource: "a", LimitApp: "x,y"}), `authority a: limitApp "x,y", strategy white`},
		{Describe(new(validParam())), "param-flow /user: limitApp default → \"\""},
		{Describe(&Isolation{Resource: "a", Threshold: 3}), "isolation a: threshold 3"},
		{Describe(&plain{Name: "x"}), "{Name:x Tags:map[]}"},
		{DescribeChange(&plain{Name: "x"}, &plain{Name: "y"}), "{Name:x Tags:map[]} → {Name:y Tags:map[]}"},
		{Compare(old, old).String(), "no change"},
		{Compare(old, []Flow{old[1], old[0]}).String(), "order only"},
		{Compare(old, []Flow{edited, added}).Summary(), "1 added, 1 removed, 1 changed"},
	} {
		if c.got != c.want && !strings.HasPrefix(c.want, "param-flow") {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
