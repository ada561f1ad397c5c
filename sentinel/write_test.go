package sentinel

import (
	"errors"
	"testing"

	"github.com/alibaba/sentinel-golang/core/flow"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

func stored(t *testing.T, s writable.Sink) string {
	t.Helper()
	doc, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(doc.Data)
}

// Both sides in one call: an edit is in the store and in the core when it returns.
//
// faults: F153 F154 F164
func TestOpenRegistersBothSidesAndAnEditIsInForceInTheCore(t *testing.T) {
	clean(t)
	store := datasourcetest.NewStore()
	store.Put("flow", []byte(`[{"resource":"a","count":1}]`))
	sink := store.Sink("flow", datasourcetest.Pushed)
	rules := open(t, Logger(nil), Unsupported(Hold),
		Flow(store.Source("flow", datasourcetest.Pushed), Sink(sink, writable.Logger(nil))),
		Degrade(store.Source("degrade", datasourcetest.Pushed)))
	p, err := writable.Lookup[rule.Flow](rules.Writables(), "")
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Writable.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) {
		chain := rule.Flow{Resource: "held", Count: 3, Grade: rule.GradeQPS, LimitApp: "shop-a"}
		return append(rules, rule.Flow{Resource: "b", Count: 2, Grade: rule.GradeQPS, LimitApp: "default"}, chain), nil
	})
	if err != nil || !res.InForce || res.Volatile {
		t.Fatalf("%+v, %v", res, err)
	}
	if got := flow.GetRulesOfResource("b"); len(got) != 1 || got[0].Threshold != 2 {
		t.Errorf("the core has %v", got)
	}
	// A held rule survives the edit of another.
	res, err = p.Writable.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) { return rules[1:], nil })
	if err != nil || res.Rules != 2 || len(flow.GetRulesOfResource("a")) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	if cur, err := p.Writable.Read(t.Context()); err != nil || cur.Rules[1].LimitApp != "shop-a" || len(rules.Status()[0].Held) != 1 {
		t.Errorf("%+v, %v", cur, err)
	}
	// The store is down: the core keeps what it has.
	store.Inject(datasourcetest.Faults{Writes: datasourcetest.ErrBroken})
	if _, err := p.Writable.Clear(t.Context()); !errors.Is(err, datasourcetest.ErrBroken) {
		t.Errorf("%v", err)
	}
	if len(flow.GetRulesOfResource("b")) != 1 {
		t.Error("a failed write changed the core")
	}
	// Degrade has no sink: its edits are volatile.
	infos := rules.Writables().List()
	if len(infos) != 2 || infos[0].Volatile || !infos[1].Volatile || infos[1].Kind != rule.KindDegrade {
		t.Errorf("%+v", infos)
	}
}

// What the core can't enforce is refused before it is written.
func TestAnEditThatTheCoreCantEnforceIsNotWritten(t *testing.T) {
	clean(t)
	store := datasourcetest.NewStore()
	sink := store.Sink("flow", datasourcetest.Pushed)
	rules := open(t, Logger(nil), Flow(store.Source("flow", datasourcetest.Pushed), Sink(sink, writable.Logger(nil))))
	p, err := writable.Lookup[rule.Flow](rules.Writables(), "")
	if err != nil {
		t.Fatal(err)
	}
	chain := rule.Flow{Resource: "a", Count: 3, Grade: rule.GradeQPS, LimitApp: "default", Strategy: rule.StrategyChain, RefResource: "entry"}
	if _, err := p.Writable.Create(t.Context(), []rule.Flow{chain}); !errors.Is(err, datasource.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if text := stored(t, sink); text != "" {
		t.Errorf("stored %s", text)
	}
}

// Drift shows after a volatile edit and after the core's own LoadRules, and the store's next document ends it.
//
// faults: F126
func TestDriftOfTheCoreShowsUntilTheStoreSpeaksAgain(t *testing.T) {
	clean(t)
	d := doc("flow", `[{"resource":"a","count":1}]`)
	rules := open(t, Logger(nil), Flow(d))
	p, err := writable.Lookup[rule.Flow](rules.Writables(), "")
	if err != nil {
		t.Fatal(err)
	}
	drift := func() bool { return rules.Status()[0].Sources[0].Drift }
	res, err := p.Writable.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) {
		rules[0].Count = 9
		return rules, nil
	})
	if err != nil || !res.Volatile || !res.InForce || flow.GetRulesOfResource("a")[0].Threshold != 9 {
		t.Fatalf("%+v, %v", res, err)
	}
	if !drift() {
		t.Error("a volatile edit hides")
	}
	d.set(`[{"resource":"a","count":2}]`)
	refresh(t, rules)
	if drift() || flow.GetRulesOfResource("a")[0].Threshold != 2 {
		t.Error("the store's next document does not win over a volatile edit")
	}
	if _, err := flow.LoadRules([]*flow.Rule{{Resource: "mine", Threshold: 7, StatIntervalInMs: 1000}}); err != nil {
		t.Fatal(err)
	}
	if !drift() {
		t.Error("the core's own LoadRules hides")
	}
	d.set(`[{"resource":"a","count":3}]`)
	refresh(t, rules)
	if drift() || len(flow.GetRulesOfResource("mine")) != 0 || flow.GetRulesOfResource("a")[0].Threshold != 3 {
		t.Error("the store's next document does not win over LoadRules")
	}
}
