package datasource

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// named gives a store another ID.
type named struct {
	*store
	id string
}

func (n named) ID() string { return n.id }

// faults: F097
func TestOneBrokenSourceDoesNotHoldBackTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		down := errors.New("down")
		var g Group
		var engines []*engine
		for _, id := range []string{"a", "broken", "hanging", "b"} {
			s := &store{}
			s.put(v1)
			if id == "broken" {
				s.fail(down)
			}
			var src Source = named{s, id}
			if id == "hanging" {
				src = hanging{}
			}
			e := &engine{}
			engines = append(engines, e)
			if err := g.Add(made(t, src, e)); err != nil {
				t.Fatal(err)
			}
		}
		err := g.Start(t.Context())
		if !errors.Is(err, down) || !strings.Contains(err.Error(), "start broken") || !strings.Contains(err.Error(), "start fake:hanging") {
			t.Errorf("Start: %v", err)
		}
		synctest.Wait()
		want(t, "a", engines[0].got(), "[[{a 1}]]")
		want(t, "b", engines[3].got(), "[[{a 1}]]")
		states := make([]State, 0, 4)
		for _, s := range g.Status() {
			states = append(states, s.State)
		}
		want(t, "states", states, "[live degraded degraded live]")
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if err := g.Add(made(t, named{&store{}, "c"}, &engine{})); !errors.Is(err, ErrClosed) {
			t.Errorf("Add after Close: %v", err)
		}
	})
}

// faults: F124
func TestTheSameSourceTwiceIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var g Group
		if err := g.Add(made(t, &store{}, &engine{})); err != nil {
			t.Fatal(err)
		}
		if g.Add(made(t, &store{}, &engine{})) == nil || g.Add(nil) == nil {
			t.Error("accepted")
		}
		s := &store{}
		if _, err := Merge(&engine{}, Member[limit]{Source: s, Converter: limits()}, Member[limit]{Source: s, Converter: limits()}); err == nil {
			t.Error("Merge: accepted")
		}
	})
}

func merged(t *testing.T, e *engine, members ...Member[limit]) *Merged[limit] {
	t.Helper()
	for i := range members {
		members[i].Converter = limits()
		members[i].Options = append(members[i].Options, Logger(nil))
	}
	m, err := Merge(e, members...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// faults: F020 F139
func TestMergeKeepsEachMembersLastGoodRulesInDeclaredOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := named{&store{}, "a"}, named{&store{}, "b"}
		a.put(`[{"Name":"a","Max":1}]`)
		b.put(`[{"Name":"b","Max":1}]`)
		e := &engine{}
		m := merged(t, e, Member[limit]{Source: a}, Member[limit]{Source: b})
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, "start", e.got(), "[[{a 1} {b 1}]]")
		// The later writer does not win: both stay, in declared order.
		a.put(`[{"Name":"a","Max":2}]`)
		pass(5 * time.Second)
		b.put(`[{"Name":"b","Max":2}]`)
		pass(5 * time.Second)
		want(t, "edits", e.got(), "[[{a 1} {b 1}] [{a 2} {b 1}] [{a 2} {b 2}]]")
		// A member that fails keeps what it gave.
		a.put(`nonsense`)
		b.put(`[{"Name":"b","Max":3}]`)
		pass(5 * time.Second)
		want(t, "edits", e.calls[len(e.calls)-1], "[{a 2} {b 3}]")
		st := m.Status()
		want(t, "status", words(st.State, st.Cause, st.Rules, st.Refused), "degraded decode 2 map[decode:1]")
		want(t, "members", len(m.Members()), 2)
	})
}

func TestMergeAppliesNothingUntilEveryMemberHasDecided(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := named{&store{}, "a"}, named{&store{}, "b"}
		a.put(v1)
		down := errors.New("down")
		b.fail(down)
		e := &engine{}
		m := merged(t, e, Member[limit]{Source: a}, Member[limit]{Source: b})
		if err := m.Start(t.Context()); !errors.Is(err, down) {
			t.Fatalf("Start: %v", err)
		}
		want(t, "half a rule set", e.got(), "[]")
		b.fail(nil)
		b.set(Document{Presence: Missing})
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, "missing counts as no rules", e.got(), "[[{a 1}]]")
		b.put(`[{"Name":"b","Max":1}]`)
		pass(5 * time.Second)
		want(t, "created later", e.got(), "[[{a 1}] [{a 1} {b 1}]]")
	})
}

func TestMergeRetriesWhatTheListenerRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := named{&store{}, "a"}, named{&store{}, "b"}
		a.put(v1)
		b.set(Document{Presence: Missing})
		e := &engine{}
		m := merged(t, e, Member[limit]{Source: a}, Member[limit]{Source: b})
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.do(func() { e.fails = 2 })
		a.put(v2)
		pass(20 * time.Second)
		want(t, "calls", e.got(), "[[{a 1}] [{a 2}]]")
		want(t, "a", m.Members()[0].Status().State, StateLive)
		if err := m.Refresh(t.Context()); !errors.Is(err, ErrMissing) {
			t.Errorf("Refresh: %v", err)
		}
	})
}

func TestMergeStartRefusedByTheListenerCanBeRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := named{&store{}, "a"}, named{&store{}, "b"}
		a.put(v1)
		b.set(Document{Presence: Missing})
		e := &engine{fails: 1}
		m := merged(t, e, Member[limit]{Source: a}, Member[limit]{Source: b})
		if err := m.Start(context.Background()); err == nil {
			t.Fatal("the listener's refusal is hidden")
		}
		if err := m.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		want(t, "calls", e.got(), "[[{a 1}]]")
	})
}

// picky refuses every rule set with a rule of that name.
type picky struct {
	engine
	name string
}

func (p *picky) OnUpdate(ctx context.Context, rules []limit) error {
	for _, r := range rules {
		if r.Name == p.name {
			return errors.New("no " + p.name)
		}
	}
	return p.engine.OnUpdate(ctx, rules)
}

// The listener refused the last member's rules, and with them the first rule set of all: the others' rules, which they hold
// as taken and never offer again, were in force nowhere.
func TestMergeForgetsTheRulesOfTheOthersWhenTheListenerRefusesTheLastOnesFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := named{&store{}, "a"}, named{&store{}, "b"}
		a.put(v1)
		b.fail(errors.New("down"))
		e := &picky{name: "odd"}
		m, err := Merge(e,
			Member[limit]{Source: a, Converter: limits(), Options: []Option{Logger(nil)}},
			Member[limit]{Source: b, Converter: limits(), Options: []Option{Logger(nil), OnStart(Wait(5*time.Second), Empty)}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Close() }()
		started := make(chan error, 1)
		go func() { started <- m.Start(t.Context()) }()
		pass(time.Second)
		b.fail(nil)
		b.put(`[{"Name":"odd","Max":1}]`)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		want(t, "after the start", e.got(), "[[{a 1}]]")
		b.put(`[{"Name":"b","Max":1}]`)
		pass(time.Minute)
		want(t, "the other's good rules", e.got(), "[[{a 1}] [{a 1} {b 1}]]")
	})
}
