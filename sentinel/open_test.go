package sentinel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/base"
	"github.com/alibaba/sentinel-golang/core/circuitbreaker"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/core/hotspot"
	"github.com/alibaba/sentinel-golang/core/isolation"
	"github.com/alibaba/sentinel-golang/core/system"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/file"
	"github.com/rulewire/rulewire/rule"
)

// faults: F133
func TestThreeRulesBecomeThreeCopiesOfTheLast(t *testing.T) {
	open(t, Flow(doc("flow", `[{"resource":"a","count":1},{"resource":"b","count":2},{"resource":"c","count":3}]`)))
	wantText(t, "live", liveFlow(), "a=1 b=2 c=3")
}

// faults: F021 F022 F023 F024
func TestBadDocumentGetsInHalf(t *testing.T) {
	src := doc("flow", `[{"resource":"/seed","count":5}]`)
	rules := open(t, Flow(src))
	for _, bad := range []string{
		`[{"resource":"a","count":9},{"resource":"","count":1}]`,
		`[{"resource":"a","count":9},{"resource":"b","count":-1}]`,
		`[{"resource":"a","count":9},{"resource":"c","count":1,"controlBehavior":9}]`,
		`[{"resource":"a","count":9},{"resource":"d","count":1,"strategy":2,"refResource":"x"}]`,
		`[null]`, `[{}]`, `null`, `[]`, ``,
	} {
		src.set(bad)
		refused(t, rules, datasource.ErrRefused)
		wantText(t, "live after "+bad, liveFlow(), "/seed=5")
	}
	if s := rules.Status()[0].Sources[0]; s.LastError == nil || s.State != datasource.StateDegraded {
		t.Errorf("status says %s, %v", s.State, s.LastError)
	}

	// Lenient: the good half, and every bad rule is named. All bad: kept.
	src = doc("lenient", `[{"resource":"/seed","count":5}]`)
	rules = open(t, Flow(src, OnInvalid(datasource.SkipRule)))
	src.set(`[{"resource":"a","count":9},{"resource":"b","count":-1},{"resource":"d","count":1,"limitApp":"shop"}]`)
	refresh(t, rules)
	wantText(t, "live", liveFlow(), "a=9")
	if s := rules.Status()[0].Sources[0]; len(s.Skipped) != 2 || !errors.Is(s.Skipped[1], rule.ErrUnsupported) || s.Skipped[1].Index != 2 {
		t.Errorf("skipped: %v", s.Skipped)
	}
	src.set(`[{"resource":"b","count":-1},{"resource":"d","count":1,"limitApp":"shop"}]`)
	refused(t, rules, datasource.ErrRefused)
	wantText(t, "live", liveFlow(), "a=9")
}

// faults: F173
func TestHeldRuleIsInvisibleOrEnforced(t *testing.T) {
	src := doc("flow", `[{"id":1,"resource":"a","count":1},{"id":2,"resource":"b","count":2,"limitApp":"shop"},{"id":3,"resource":"c","count":1.5,"grade":0}]`)
	auth := doc("authority", `[{"resource":"a","limitApp":"shop","strategy":1}]`)
	rules := open(t, Unsupported(Hold), Flow(src), Authority(auth))
	wantText(t, "live", liveFlow(), "a=1")
	if rules.Flow().Len() != 3 || rules.Authority().Lookup("a")[0].LimitApp != "shop" {
		t.Errorf("held rules are lost: %v %v", rules.Flow().Rules(), rules.Authority().Rules())
	}
	s := rules.Status()
	if len(s) != 2 || s[0].Kind != rule.KindFlow || s[0].Rules != 3 || s[0].Live != 1 || len(s[0].Held) != 2 || len(s[1].Held) != 1 {
		t.Fatalf("status: %+v", s)
	}
	if h := s[0].Held[1]; h.Resource != "c" || h.ID != "3" || h.SourceID != "flow" || !errors.Is(h.Err, rule.ErrUnsupported) || !strings.Contains(h.Err.Error(), "count") {
		t.Errorf("held: %+v", h)
	}
	// An invalid rule is not an unsupported one.
	src.set(`[{"resource":"a","count":-1}]`)
	refused(t, rules, datasource.ErrRefused)
}

// openBreaker trips the breaker of a resource; it stays open for a minute.
func openBreaker(t *testing.T, resource string) {
	t.Helper()
	e, blocked := api.Entry(resource)
	if blocked != nil {
		t.Fatalf("%s is blocked: %v", resource, blocked)
	}
	api.TraceError(e, errors.New("boom"))
	e.Exit()
	isOpen(t, resource, true)
}

func isOpen(t *testing.T, resource string, want bool) {
	t.Helper()
	e, blocked := api.Entry(resource)
	if blocked == nil {
		e.Exit()
	} else if blocked.BlockType() != base.BlockTypeCircuitBreaking {
		t.Fatalf("%s: blocked by %v", resource, blocked)
	}
	if got := blocked != nil; got != want {
		t.Errorf("breaker of %s open: %v, want %v", resource, got, want)
	}
}

func breaker(id, resource string, count int, more string) string {
	return fmt.Sprintf(`{"id":%q,"resource":%q,"strategy":2,"threshold":%d,"retryTimeoutMs":60000,"statIntervalMs":1000%s}`, id, resource, count, more)
}

// faults: F131
func TestUnrelatedEditClosesAnOpenBreaker(t *testing.T) {
	a, b, c := breaker("1", "open/a", 1, ""), breaker("2", "open/b", 1, ""), breaker("3", "open/c", 1, "")
	src := doc("degrade", "["+a+","+b+"]")
	rules := open(t, Degrade(src, Dialect(converter.Golang)))
	openBreaker(t, "open/a")
	for _, edit := range []struct{ what, data string }{
		{"another rule changed", "[" + a + "," + breaker("2", "open/b", 7, "") + "]"},
		{"two other rules changed", "[" + a + "," + breaker("2", "open/b", 8, "") + "," + breaker("3", "open/c", 8, "") + "]"},
		{"another rule added", "[" + a + "," + b + "," + c + "]"},
		{"other order", "[" + c + "," + b + "," + a + "]"},
		{"only ids", "[" + strings.ReplaceAll(c+","+b+","+a, `"id":"`, `"id":"9`) + "]"},
		{"other rule removed", "[" + a + "," + b + "]"},
		{"second rule before it on the same resource", "[" + breaker("4", "open/a", 5, "") + "," + a + "," + b + "]"},
		{"that one changed", "[" + breaker("4", "open/a", 6, "") + "," + a + "," + b + "]"},
		{"that one changed and moved", "[" + a + "," + breaker("4", "open/a", 7, "") + "," + b + "]"},
		{"that one's probes changed", "[" + breaker("4", "open/a", 7, `,"probeNum":3`) + "," + a + "," + b + "]"},
	} {
		t.Run(edit.what, func(t *testing.T) {
			src.set(edit.data)
			refresh(t, rules)
			isOpen(t, "open/a", true)
		})
	}
	// Its own edit starts it anew.
	src.set("[" + breaker("1", "open/a", 2, "") + "," + b + "]")
	refresh(t, rules)
	isOpen(t, "open/a", false)
}

// trips remembers the rule of each breaker that opened.
type trips struct{ rules []circuitbreaker.Rule }

func (*trips) OnTransformToClosed(circuitbreaker.State, circuitbreaker.Rule)   {}
func (*trips) OnTransformToHalfOpen(circuitbreaker.State, circuitbreaker.Rule) {}
func (tr *trips) OnTransformToOpen(_ circuitbreaker.State, r circuitbreaker.Rule, _ interface{}) {
	tr.rules = append(tr.rules, r)
}

// faults: F128
func TestEditThatTheCoreOverlooksIsLost(t *testing.T) {
	// sentinel-golang 1.0.4 leaves ProbeNum out of its comparison and takes thresholds for equal that differ by less
	// than 1e-8; its list of rules shows the new rule, its breaker runs the old one.
	var tr trips
	circuitbreaker.RegisterStateChangeListeners(&tr)
	t.Cleanup(circuitbreaker.ClearStateChangeListeners)
	ratio := func(more string) string {
		return `[{"resource":"probe","strategy":1,"threshold":0.5,"retryTimeoutMs":60000,"statIntervalMs":1000` + more + `},` + breaker("2", "other", 1, "") + `]`
	}
	src := doc("degrade", ratio(`,"probeNum":1`))
	rules := open(t, Degrade(src, Dialect(converter.Golang)))
	for _, c := range []struct {
		data string
		want circuitbreaker.Rule
	}{
		{ratio(`,"probeNum":5`), circuitbreaker.Rule{Threshold: 0.5, ProbeNum: 5}},
		{strings.Replace(ratio(`,"probeNum":5`), "0.5", "0.500000001", 1), circuitbreaker.Rule{Threshold: 0.500000001, ProbeNum: 5}},
		{strings.Replace(ratio(""), `"threshold":1,`, `"threshold":2,`, 1), circuitbreaker.Rule{Threshold: 0.5}}, // with another edit beside it
	} {
		src.set(c.data)
		refresh(t, rules)
		tr.rules = nil
		openBreaker(t, "probe")
		if len(tr.rules) != 1 || tr.rules[0].ProbeNum != c.want.ProbeNum || tr.rules[0].Threshold != c.want.Threshold || tr.rules[0].RetryTimeoutMs != 60000 {
			t.Errorf("the breaker runs %+v, want %+v", tr.rules, c.want)
		}
	}
}

// faults: F127 F128
func TestFieldEditDoesNotReachTheCore(t *testing.T) {
	for _, c := range []struct {
		name string
		part func(datasource.Source, ...Option) Part
		rule string
		more []string // each sets one field, always the same way
		live func() string
	}{
		{"flow", Flow, `"resource":"f","threshold":1`, []string{`"threshold":1.000000001`, `"tokenCalculateStrategy":1,"warmUpPeriodSec":10`,
			`"controlBehavior":1`, `"relationStrategy":1,"refResource":"x"`, `"refResource":"y"`, `"maxQueueingTimeMs":1`, `"warmUpPeriodSec":9`,
			`"warmUpColdFactor":5`, `"statIntervalInMs":500`},
			func() string { return fmt.Sprintf("%+v", flow.GetRules()) }},
		{"degrade", Degrade, `"resource":"d","threshold":0.5,"retryTimeoutMs":10,"statIntervalMs":100,"maxAllowedRtMs":3`, []string{`"threshold":0.25`, `"strategy":1`,
			`"retryTimeoutMs":20`, `"minRequestAmount":3`, `"statIntervalMs":200`, `"statSlidingWindowBucketCount":2`, `"maxAllowedRtMs":7`, `"probeNum":2`},
			func() string { return fmt.Sprintf("%+v", circuitbreaker.GetRules()) }},
		{"param-flow", ParamFlow, `"resource":"p","metricType":1,"threshold":5,"durationInSec":1`, []string{`"threshold":6`, `"metricType":0`,
			`"controlBehavior":1`, `"paramIndex":1`, `"paramKey":"k"`, `"burstCount":2`, `"durationInSec":2`, `"paramsMaxCapacity":9`,
			`"controlBehavior":1,"maxQueueingTimeMs":30`, `"specificItems":[{"valKind":0,"valStr":"1","threshold":1}]`},
			func() string { return fmt.Sprintf("%+v", hotspot.GetRules()) }},
		{"isolation", Isolation, `"resource":"i","threshold":5`, []string{`"threshold":6`}, func() string { return fmt.Sprintf("%+v", isolation.GetRules()) }},
		{"system", System, `"metricType":3,"triggerCount":5,"strategy":-1`, []string{`"triggerCount":6`, `"metricType":1`, `"strategy":1`},
			func() string { return fmt.Sprintf("%+v", system.GetRules()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := doc(c.name, "[{"+c.rule+"}]")
			rules := open(t, c.part(src, Dialect(converter.Golang)))
			before := c.live()
			for _, edit := range c.more {
				name, _, _ := strings.Cut(strings.TrimPrefix(edit, `"`), `"`)
				kept := make([]string, 0)
				for _, member := range strings.Split(c.rule, ",") {
					if !strings.HasPrefix(member, `"`+name+`"`) {
						kept = append(kept, member)
					}
				}
				src.set("[{" + strings.Join(append(kept, edit), ",") + "}]")
				refresh(t, rules)
				if after := c.live(); after == before {
					t.Errorf("%s: still %s", edit, after)
				}
				src.set("[{" + c.rule + "}]")
				refresh(t, rules)
				if after := c.live(); after != before {
					t.Errorf("%s taken back: %s, want %s", edit, after, before)
				}
			}
		})
	}
}

// faults: F131
func TestWarmUpOrPaceStartsAnew(t *testing.T) {
	// A block names the rule object of the controller: the same object is the same controller, with what it counted.
	warm := `{"resource":"state/warm","tokenCalculateStrategy":1,"controlBehavior":0,"threshold":1,"warmUpPeriodSec":10}`
	pace := `{"resource":"state/pace","tokenCalculateStrategy":0,"controlBehavior":1,"threshold":0,"maxQueueingTimeMs":1}`
	hot := `{"resource":"state/hot","metricType":1,"threshold":0,"durationInSec":1,"paramIndex":0}`
	other := func(n int) string { return fmt.Sprintf(`{"resource":"state/other","threshold":%d}`, n) }
	flows, params := doc("flow", "["+warm+","+pace+","+other(1)+"]"), doc("param", "["+hot+"]")
	rules := open(t, Dialect(converter.Golang), Flow(flows), ParamFlow(params))
	triggered := func(resource string) interface{} {
		t.Helper()
		_, blocked := api.Entry(resource, api.WithArgs(1), api.WithBatchCount(1000))
		if blocked == nil {
			t.Fatalf("%s passes", resource)
		}
		return blocked.TriggeredRule()
	}
	before := []interface{}{triggered("state/warm"), triggered("state/pace"), triggered("state/hot")}
	for i, data := range []string{"[" + warm + "," + pace + "," + other(2) + "]", "[" + other(2) + "," + pace + "," + warm + "]",
		"[" + warm + "," + pace + "," + other(3) + `,{"resource":"state/more","threshold":1}]`} {
		flows.set(data)
		params.set("[" + hot + "," + strings.Replace(hot, "hot", fmt.Sprint("more", i), 1) + "]")
		refresh(t, rules)
		for j, resource := range []string{"state/warm", "state/pace", "state/hot"} {
			if triggered(resource) != before[j] {
				t.Errorf("edit %d: %s starts anew", i, resource)
			}
		}
	}
}

// faults: F139
func TestTwoSourcesOverwriteEachOther(t *testing.T) {
	flowA, flowB := doc("flow-a", `[{"resource":"a","count":1},{"resource":"t","count":3,"grade":0}]`), doc("flow-b", `[{"resource":"b","count":2}]`)
	iso := doc("isolation", `[{"resource":"i","threshold":4,"metricType":0}]`)
	rules := open(t, Flow(flowA), Flow(flowB), Isolation(iso, Dialect(converter.Golang)))
	wantText(t, "flow", liveFlow(), "a=1 b=2")
	wantText(t, "isolation", liveIsolation(), "i=4 t=3")

	// Edits of different sources at the same time both survive.
	readers := Readables[rule.Flow](rules)
	isolated := Readables[rule.Isolation](rules)
	for n := range 30 {
		flowA.set(fmt.Sprintf(`[{"resource":"a","count":%d},{"resource":"t","count":%d,"grade":0}]`, n+10, n+10))
		flowB.set(fmt.Sprintf(`[{"resource":"b","count":%d}]`, n+20))
		iso.set(fmt.Sprintf(`[{"resource":"i","threshold":%d,"metricType":0}]`, n+30))
		var wg sync.WaitGroup
		for _, f := range []func(context.Context) error{readers[0].Refresh, readers[1].Refresh, isolated[0].Refresh} {
			wg.Go(func() {
				if err := f(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		wantText(t, "flow", liveFlow(), fmt.Sprintf("a=%d b=%d", n+10, n+20))
		wantText(t, "isolation", liveIsolation(), fmt.Sprintf("i=%d t=%d", n+30, n+10))
	}
	if got := rules.Flow().Len(); got != 3 {
		t.Errorf("the rule manager has %d flow rules", got)
	}

	// One source refuses its document: its last good rules stay beside the other's new ones.
	flowA.set(`broken`)
	flowB.set(`[{"resource":"b","count":99}]`)
	refused(t, rules, datasource.ErrDecode)
	wantText(t, "flow", liveFlow(), "a=39 b=99")
}

// faults: F132
func TestSameRuleFromTwoSourcesCountsTwice(t *testing.T) {
	rules := open(t, Flow(doc("one", `[{"resource":"a","count":1},{"resource":"a","count":1},{"resource":"a","count":2}]`)), Flow(doc("two", `[{"resource":"a","count":1}]`)))
	wantText(t, "flow", liveFlow(), "a=1 a=2")
	if s := rules.Status()[0]; s.Rules != 2 || s.Live != 2 {
		t.Errorf("status: %d rules, %d live", s.Rules, s.Live)
	}
}

func TestThreadRulesWipeTheApplicationsIsolationRules(t *testing.T) {
	clean(t)
	if _, err := isolation.LoadRules([]*isolation.Rule{{Resource: "app", Threshold: 7}}); err != nil {
		t.Fatal(err)
	}
	src := doc("flow", `[{"resource":"a","count":1}]`)
	rules := openBeside(t, Flow(src))
	wantText(t, "isolation", liveIsolation(), "app=7")
	src.set(`[{"resource":"t","count":3,"grade":0},{"resource":"u","count":4,"grade":0}]`)
	refresh(t, rules)
	wantText(t, "isolation", liveIsolation(), "app=7 t=3 u=4")
	wantText(t, "flow", liveFlow(), "")
	src.set(`[{"resource":"u","count":5,"grade":0}]`)
	refresh(t, rules)
	wantText(t, "isolation", liveIsolation(), "app=7 u=5")
	if d := rules.Drift(); d != nil {
		t.Errorf("the application's own rule shows as drift: %v", d)
	}
	if _, err := isolation.LoadRulesOfResource("u", nil); err != nil {
		t.Fatal(err)
	}
	if d := rules.Drift(); len(d) != 1 || len(d[0].Missing) != 1 || d[0].Module != "isolation" {
		t.Errorf("drift: %v", d)
	}
	if err := rules.Reconcile(); err != nil {
		t.Fatal(err)
	}
	wantText(t, "isolation", liveIsolation(), "app=7 u=5")
}

// faults: F126 F173
func TestEditBehindTheStoresBackGoesUnseen(t *testing.T) {
	src, degrade := doc("flow", `[{"resource":"a","count":1},{"resource":"b","count":2}]`), doc("degrade", "["+breaker("1", "drift/a", 1, "")+"]")
	rules := open(t, Flow(src), Degrade(degrade, Dialect(converter.Golang)))
	if s := rules.Status(); s[0].Live != 2 || s[0].Drift != nil || s[0].Sources[0].Drift || s[0].Sources[0].StoreRevision != s[0].Sources[0].Revision {
		t.Fatalf("status: %+v", s[0])
	}
	edit := func() {
		t.Helper()
		if _, err := flow.LoadRules([]*flow.Rule{{Resource: "a", Threshold: 100}, {Resource: "mine", Threshold: 3}}); err != nil {
			t.Fatal(err)
		}
	}
	edit()
	s := rules.Status()[0]
	if !s.Sources[0].Drift || s.Live != 0 || s.Rules != 2 || len(s.Drift) != 1 || len(s.Drift[0].Missing) != 2 || len(s.Drift[0].Foreign) != 2 {
		t.Errorf("status: %+v", s)
	}
	if text := rules.Drift()[0].String(); !strings.Contains(text, "flow, 2 missing: ") || !strings.Contains(text, "Resource:mine") {
		t.Errorf("drift reads %q", text)
	}
	// The store sends the same bytes again: what is live counts, not what was sent last.
	refresh(t, rules)
	wantText(t, "after a refresh", liveFlow(), "a=1 b=2")
	edit()
	if err := rules.Reconcile(); err != nil {
		t.Fatal(err)
	}
	wantText(t, "after Reconcile", liveFlow(), "a=1 b=2")
	// A change of one resource does not leave the rest drifted.
	edit()
	src.set(`[{"resource":"a","count":1},{"resource":"b","count":3}]`)
	refresh(t, rules)
	wantText(t, "after a change", liveFlow(), "a=1 b=3")
	if err := circuitbreaker.ClearRules(); err != nil {
		t.Fatal(err)
	}
	if d := rules.Drift(); len(d) != 1 || d[0].Module != "circuitbreaker" {
		t.Errorf("drift: %v", d)
	}
	refresh(t, rules)
	if d := rules.Drift(); d != nil || len(circuitbreaker.GetRules()) != 1 {
		t.Errorf("drift: %v", d)
	}
}

// faults: F097
func TestBrokenSourceHoldsBackTheOthers(t *testing.T) {
	clean(t)
	broken := doc("broken", "")
	broken.err = errDown
	bad := doc("bad", "<html>")
	good := doc("good", `[{"resource":"a","count":1}]`)
	rules, err := Open(t.Context(), Logger(nil), Degrade(broken), Flow(good), System(bad))
	if rules != nil {
		t.Error("an error, and something that runs")
	}
	if !errors.Is(err, errDown) || !errors.Is(err, datasource.ErrDecode) || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "bad") {
		t.Errorf("the error does not name both: %v", err)
	}
	wantText(t, "what the good source had brought", liveFlow(), "a=1")

	// With a start policy that goes on, the others run, and the broken ones come up without a new Open.
	rules = openBeside(t, OnStart(datasource.Empty), Degrade(broken), Flow(good), System(bad))
	good.set(`[{"resource":"a","count":2}]`)
	if err := Readables[rule.Flow](rules)[0].Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantText(t, "live", liveFlow(), "a=2")
	broken.set(`[{"resource":"a","grade":2,"count":5,"timeWindow":10}]`)
	bad.set(`[{"qps":100}]`)
	refresh(t, rules)
	if len(circuitbreaker.GetRules()) != 1 || len(system.GetRules()) != 1 {
		t.Error("the others' rules are not live")
	}
}

// faults: F145 F148
func TestCloseLeavesSomethingRunningOrTakesRulesAway(t *testing.T) {
	clean(t)
	for n := range 100 {
		rules := openBeside(t, Flow(doc("flow", fmt.Sprintf(`[{"resource":"a","count":%d}]`, n))), Degrade(doc("degrade", "[]")))
		if err := errors.Join(rules.Close(), rules.Close()); err != nil {
			t.Fatal(err)
		}
		wantText(t, "live after Close", liveFlow(), fmt.Sprintf("a=%d", n))
		if err := rules.Refresh(t.Context()); !errors.Is(err, datasource.ErrClosed) {
			t.Errorf("Refresh after Close: %v", err)
		}
	}
	var none *Rules
	if none.Close() != nil || none.Status() != nil || none.Drift() != nil || none.Reconcile() != nil || none.Flow().Len()+none.Degrade().Len()+none.System().Len()+
		none.Authority().Len()+none.ParamFlow().Len()+none.Isolation().Len() != 0 || Readables[rule.Flow](none) != nil {
		t.Error("nil Rules are not empty")
	}
	if !errors.Is(none.Refresh(t.Context()), datasource.ErrClosed) {
		t.Error("nil Rules can be refreshed")
	}
}

// faults: F003 F018
func TestMissingDocumentClears(t *testing.T) {
	src := doc("flow", "")
	src.data = nil
	rules := open(t, Flow(src))
	wantText(t, "live", liveFlow(), "")
	src.set(`[{"resource":"a","count":1}]`)
	refresh(t, rules)
	wantText(t, "written after the start", liveFlow(), "a=1")
	src.mu.Lock()
	src.data = nil
	src.mu.Unlock()
	_ = rules.Refresh(t.Context())
	wantText(t, "after a deletion", liveFlow(), "a=1")

	src = doc("cleared", `[{"resource":"a","count":1},{"resource":"t","count":2,"grade":0}]`)
	rules = open(t, Flow(src, OnEmptyList(datasource.Clear), OnMissing(datasource.Clear), MaxShrink(0.9)))
	src.set(`[]`)
	_ = rules.Refresh(t.Context()) // before everything is cleared, two reads must agree
	refresh(t, rules)
	wantText(t, "after [] with OnEmptyList: Clear", liveFlow()+liveIsolation(), "")
}

// faults: F124 F176
func TestWrongPartsAreFoundLate(t *testing.T) {
	clean(t)
	ran := false
	good := Flow(doc("flow", "[]"))
	for name, parts := range map[string][]Part{
		"no source":         {Init(func() error { ran = true; return nil })},
		"nil part":          {nil},
		"nil source":        {Flow(nil)},
		"typed nil source":  {Flow((*file.Source)(nil))},
		"nil option":        {Flow(doc("flow", "[]"), nil)},
		"bad option":        {Flow(doc("flow", "[]"), MaxShrink(2))},
		"bad policy":        {Flow(doc("flow", "[]"), Unsupported(7))},
		"nil converter":     {Flow(doc("flow", "[]"), Convert[rule.Flow](nil))},
		"wrong converter":   {Flow(doc("flow", "[]"), Convert(converter.JSON[rule.Degrade]()))},
		"same source":       {Flow(doc("flow", "[]")), Flow(doc("flow", "[]"))},
		"nil init":          {good, Init(nil)},
		"failing init":      {good, Init(func() error { return errDown })},
		"bad global option": {good, Logger(nil), Dialect("cobol")},
	} {
		rules, err := Open(t.Context(), parts...)
		if err == nil || rules != nil {
			t.Errorf("%s: %v, %v", name, rules, err)
		}
	}
	if ran {
		t.Error("Init ran although a part is wrong")
	}
}

func TestOptionsDoNotReachTheSource(t *testing.T) {
	events := make(chan datasource.EventKind, 100)
	ran := 0
	src := doc("yaml", "- resource: a\n  count: 3\n")
	open(t, Init(func() error { ran++; return nil }), YAML(), Decode(converter.UnknownMembers(converter.Refuse)),
		Observer(datasource.ObserverFunc(func(e datasource.Event) { events <- e.Kind })),
		Engine(datasource.MaxBytes(1000)), Flow(src), ParamFlow(doc("own", `[]`), Convert(converter.JSON[rule.ParamFlow]())))
	wantText(t, "live", liveFlow(), "a=3")
	if ran != 1 || len(events) == 0 {
		t.Errorf("init ran %d times, %d events", ran, len(events))
	}
}

// faults: F124
func TestSecondOpenTakesTheFirstOnesRulesAway(t *testing.T) {
	flowDoc := doc("mem:flow", `[{"resource":"a","count":5},{"resource":"t","grade":0,"count":3}]`)
	first := open(t, Flow(flowDoc))
	before := liveFlow()
	for name, part := range map[string]Part{
		"the same kind":           Flow(doc("mem:other", `[]`)),
		"a kind that shares some": Isolation(doc("mem:isolation", `[{"resource":"b","threshold":1}]`)),
	} {
		if rules, err := Open(t.Context(), part); !errors.Is(err, datasource.ErrConflict) || rules != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := liveFlow(); got != before {
		t.Errorf("the core has %s, had %s", got, before)
	}
	openBeside(t, Degrade(doc("mem:degrade", `[]`))) // another manager is free
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openBeside(t, Flow(doc("mem:other", `[{"resource":"c","count":1}]`)))
}
