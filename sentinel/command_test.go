package sentinel

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/base"
	"github.com/alibaba/sentinel-golang/core/circuitbreaker"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/core/hotspot"
	"github.com/alibaba/sentinel-golang/core/isolation"
	"github.com/alibaba/sentinel-golang/core/system"

	"github.com/rulewire/rulewire/command"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// ask sends one request to the command port: a post where there is a form.
func ask(t *testing.T, r *Rules, path string, form ...string) string {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr, Timeout: 20 * time.Second}
	address := "http://" + r.Command().Addr().String() + path
	var resp *http.Response
	var err error
	if len(form) > 0 {
		v := url.Values{}
		for i := 0; i < len(form); i += 2 {
			v.Set(form[i], form[i+1])
		}
		resp, err = client.PostForm(address, v)
	} else {
		resp, err = client.Get(address)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func port(opts ...command.Option) Part {
	return Command(append([]command.Option{command.Address("127.0.0.1:0"), command.Logger(nil)}, opts...)...)
}

// faults: F153 F162
func TestOpenStartsACommandCentreThatEditsStoreAndCore(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put("flow", []byte(`[{"resource":"a","count":1},{"resource":"chain","count":2,"strategy":2,"refResource":"entry"}]`))
	var audited []writable.Record
	r := open(t, Flow(store.Source("flow", datasourcetest.Pushed), Unsupported(Hold), Sink(store.Sink("flow", datasourcetest.Pushed), writable.Logger(nil),
		writable.Audit(writable.AuditorFunc(func(_ context.Context, rec writable.Record) { audited = append(audited, rec) })))), port())
	page := ask(t, r, "/getRules?type=flow")
	if !strings.Contains(page, `"resource":"a"`) || !strings.Contains(page, `"resource":"chain"`) {
		t.Fatalf("held rules are not shown: %s", page)
	}
	next := strings.Replace(page, "[{", `[{"resource":"threads","count":3,"grade":0},{`, 1)
	if got := ask(t, r, "/setRules", "type", "flow", "data", next); got != "success" {
		t.Fatal(got)
	}
	if rules := flow.GetRules(); len(rules) != 1 || rules[0].Resource != "a" {
		t.Errorf("core's flow rules %+v", rules)
	}
	if rules := isolation.GetRules(); len(rules) != 1 || rules[0].Threshold != 3 {
		t.Errorf("core's isolation rules %+v", rules)
	}
	doc, err := store.Sink("flow", datasourcetest.Pushed).Read(t.Context())
	if err != nil || !strings.Contains(string(doc.Data), "chain") || !strings.Contains(string(doc.Data), "threads") {
		t.Errorf("stored %s, %v", doc.Data, err)
	}
	if len(audited) != 1 || audited[0].Actor != "command port, from 127.0.0.1" {
		t.Errorf("audit %+v", audited)
	}
	// A rule that the core can't enforce, on a kind that does not hold: nothing changes, and the answer says why.
	if got := ask(t, r, "/setRules", "type", "degrade", "data", `[{"resource":"d","grade":2,"count":5,"timeWindow":1}]`); got != "success" {
		t.Error(got)
	}
	info := r.Writables().List()
	if len(info) != 5 || info[0].Volatile || !info[1].Volatile {
		t.Errorf("registry %+v", info)
	}
}

func TestAKindWithoutASourceIsEditedInMemoryAndKeepsTheApplicationsRules(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put("authority", []byte(`[]`))
	clean(t)
	if _, err := flow.LoadRules([]*flow.Rule{{Resource: "own", Threshold: 5, StatIntervalInMs: 1000}}); err != nil {
		t.Fatal(err)
	}
	if _, err := system.LoadRules([]*system.Rule{{MetricType: system.InboundQPS, TriggerCount: 100}}); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), Authority(store.Source("authority", datasourcetest.Pushed), Unsupported(Hold)), port())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if page := ask(t, r, "/getRules?type=flow"); !strings.Contains(page, `"resource":"own"`) {
		t.Fatalf("page %s", page)
	}
	if page := ask(t, r, "/getRules?type=system"); !strings.Contains(page, `"qps":100`) {
		t.Fatalf("page %s", page)
	}
	if got := ask(t, r, "/setRules", "type", "flow", "data", `[{"resource":"own","count":5},{"resource":"new","count":7}]`); got != "success" {
		t.Fatal(got)
	}
	live := map[string]flow.Rule{}
	for _, f := range flow.GetRules() {
		live[f.Resource] = f
	}
	if len(live) != 2 || live["own"].StatIntervalInMs != 1000 || live["new"].Threshold != 7 {
		t.Errorf("core %+v", live)
	}
}

func TestAnOpenThatFailsLeavesNoPortOpen(t *testing.T) {
	clean(t)
	store := datasourcetest.NewStore()
	store.Put("flow", []byte(`[]`))
	source := func() Part { return Flow(store.Source("flow", datasourcetest.Pushed)) }
	if _, err := Open(t.Context(), source(), port(command.MaxBody(0))); err == nil {
		t.Error("a bad option is no error")
	}
	if _, err := Open(t.Context(), source(), port(), port()); err == nil {
		t.Error("two command centres")
	}
	if _, err := Open(t.Context(), source(), Flow(store.Source("x", datasourcetest.Pushed), Sink(nil))); err == nil {
		t.Error("no sink is no error")
	}
	if _, err := Open(t.Context(), Flow(store.Source("flow", datasourcetest.Pushed), Sink(store.Sink("other", datasourcetest.Pushed)))); err == nil {
		t.Error("the sink of another document is no error")
	}
	var none *Rules
	if none.Command() != nil || none.Writables() != nil {
		t.Error("nil is not nil")
	}
	// The port is closed before the sources are, and again does no harm.
	r, err := Open(t.Context(), source(), port())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestChartsAndTreeShowWhatTheCoreCounts(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put("flow", []byte(`[{"resource":"/charts/limited","count":1}]`))
	r := open(t, Flow(store.Source("flow", datasourcetest.Pushed)), port())
	before := runtime.NumGoroutine()
	begun := time.Now()
	pass, block := 0, 0
	for range 20 {
		e, blocked := api.Entry("/charts/limited", api.WithTrafficType(base.Inbound))
		if blocked != nil {
			block++
			continue
		}
		pass++
		e.Exit()
	}
	for i := range 300 {
		e, blocked := api.Entry("/charts/" + string(rune('A'+i%26)) + string(rune('a'+i/26)))
		if blocked != nil {
			t.Fatal(blocked)
		}
		e.Exit()
	}
	if n := runtime.NumGoroutine() - before; n > 3 {
		t.Errorf("%d goroutines more for 300 resources", n)
	}
	// The seconds of those calls have to be over.
	var text string
	deadline := time.Now().Add(10 * time.Second)
	for wait := time.NewTicker(20 * time.Millisecond); ; <-wait.C {
		text = ask(t, r, "/metric?startTime="+decimal(begun.Truncate(time.Second).UnixMilli())+"&endTime="+decimal(time.Now().UnixMilli())+"&identity="+url.QueryEscape("/charts/limited"))
		if text != "" || time.Now().After(deadline) {
			wait.Stop()
			break
		}
	}
	fields := strings.Split(strings.TrimSuffix(text, "\n"), "|")
	if len(fields) < 10 || fields[1] != "/charts/limited" {
		t.Fatalf("metric %q", text)
	}
	sums := ask(t, r, "/clusterNodeById?id="+url.QueryEscape("/charts/limited"))
	if !strings.Contains(sums, `"oneMinutePass":`+decimal(int64(pass))) || !strings.Contains(sums, `"oneMinuteBlock":`+decimal(int64(block))) {
		t.Errorf("%d passed, %d blocked: %s", pass, block, sums)
	}
	if all := ask(t, r, "/metric?startTime=0&endTime="+decimal(time.Now().UnixMilli())); !strings.Contains(all, "|__total_inbound_traffic__|") {
		t.Errorf("no total: %.300s", all)
	}
	if tree := ask(t, r, "/jsonTree"); !strings.HasPrefix(tree, "[") || !strings.Contains(tree, "machine-root") || !strings.Contains(tree, "/charts/limited") {
		t.Errorf("tree %.300s", tree)
	}
}

// faults: F165
func TestADocumentThatIsNotThereYetIsAnEmptyPage(t *testing.T) {
	store := datasourcetest.NewStore()
	r := open(t, Degrade(store.Source("degrade", datasourcetest.Pushed), OnStart(datasource.Empty), Sink(store.Sink("degrade", datasourcetest.Pushed), writable.Logger(nil))), port())
	if page := ask(t, r, "/getRules?type=degrade"); page != "[]" {
		t.Errorf("page %s", page)
	}
	if got := ask(t, r, "/setRules", "type", "degrade", "data", `[{"resource":"d","grade":2,"count":5,"timeWindow":1}]`); got != "success" {
		t.Error(got)
	}
	if r.Degrade().Len() != 1 {
		t.Error("not in force")
	}
	if _, err := writable.Lookup[rule.Degrade](r.Writables(), ""); err != nil {
		t.Error(err)
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// A rule of the application's own that Rulewire does not take as it is must not go with the first edit of another.
func TestAnEditOfAKindWithoutASourceTakesTheApplicationsRulesAway(t *testing.T) {
	clean(t)
	_, err := flow.LoadRules([]*flow.Rule{{Resource: "own", Threshold: 5}, {Resource: "slow", Threshold: 5, StatIntervalInMs: 700_000}}) // beyond Rulewire's range
	_, errBreaker := circuitbreaker.LoadRules([]*circuitbreaker.Rule{{Id: "x", Resource: "b", Strategy: circuitbreaker.ErrorRatio, RetryTimeoutMs: 3100, StatIntervalMs: 1000, Threshold: 0.4}})
	if err := errors.Join(err, errBreaker); err != nil {
		t.Fatal(err)
	}
	r := openBeside(t, Authority(doc("authority", `[]`), Unsupported(Hold)), port())
	if got := ask(t, r, "/setRules", "type", "flow", "data", `[{"resource":"new","count":7}]`); !strings.Contains(got, "nothing is registered") {
		t.Error(got)
	}
	if live := flow.GetRules(); len(live) != 2 {
		t.Errorf("core %+v", live)
	}
	page := ask(t, r, "/getRules?type=degrade")
	if got := ask(t, r, "/setRules", "type", "degrade", "data", strings.Replace(page, "[{", `[{"resource":"new","grade":2,"count":5,"timeWindow":1},{`, 1)); got != "success" {
		t.Errorf("%s, page %s", got, page)
	}
	if live := circuitbreaker.GetRulesOfResource("b"); len(live) != 1 || live[0].RetryTimeoutMs != 3100 || live[0].Id != "x" {
		t.Errorf("core %+v", live)
	}
}

func TestAnEditTakesAwayWhatTheApplicationLoadedAfterOpen(t *testing.T) {
	clean(t)
	r := openBeside(t, Authority(doc("authority", `[]`), Unsupported(Hold)), port())
	load := func(rules ...*flow.Rule) {
		t.Helper()
		if _, err := flow.LoadRules(rules); err != nil {
			t.Fatal(err)
		}
	}
	push := func(data, want string) {
		t.Helper()
		if got := ask(t, r, "/setRules", "type", "flow", "data", data); !strings.Contains(got, want) {
			t.Errorf("%s: %s", data, got)
		}
	}
	load(&flow.Rule{Resource: "own", Threshold: 5})
	push(`[{"resource":"new","count":7}]`, "the application has loaded 1 rules of its own")
	push(`[]`, "of its own")
	if live := flow.GetRules(); len(live) != 1 || live[0].Resource != "own" {
		t.Errorf("core %+v", live)
	}
	load()
	push(`[{"resource":"new","count":7}]`, "success")
	load(&flow.Rule{Resource: "own", Threshold: 5})
	push(`[{"resource":"new","count":8}]`, "of its own")
	if live := flow.GetRules(); len(live) != 1 || live[0].Resource != "own" {
		t.Errorf("core %+v", live)
	}
	load() // what came from Rulewire may be missing there
	push(`[{"resource":"new","count":8}]`, "success")
	push(`[]`, "success")
	if live := flow.GetRules(); len(live) != 0 {
		t.Errorf("core %+v", live)
	}
}

func TestTheApplicationsOwnHotParameterRulesAreOutOfReach(t *testing.T) {
	for name, c := range map[string]struct {
		items map[interface{}]int64
		page  string
	}{
		"no items":          {nil, `"count":5`},
		"items":             {map[interface{}]int64{"vip": 7, 42: 100, int64(42): 9, true: 1, 0.5: 2}, `"object":"vip"`},
		"foreign keys":      {map[interface{}]int64{struct{ A int }{1}: 7}, ""}, // can't be told: stays the application's
		"one key of a pair": {map[interface{}]int64{float32(0.5): 7}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			if _, err := hotspot.LoadRules([]*hotspot.Rule{{ID: "i", Resource: "own", Threshold: 5, MetricType: hotspot.QPS, DurationInSec: 2, BurstCount: 3,
				ParamIndex: 1, ParamsMaxCapacity: 100, SpecificItems: c.items}}); err != nil {
				t.Fatal(err)
			}
			r := openBeside(t, Authority(doc("authority", `[]`), Unsupported(Hold)), port())
			page := ask(t, r, "/getParamFlowRules")
			if c.page == "" && page != "[]" || !strings.Contains(page, c.page) {
				t.Errorf("page %s", page)
			}
			got := ask(t, r, "/setParamFlowRules", "data", strings.TrimSuffix(strings.TrimSuffix(page, "]"), "}")+`}`+`,{"resource":"new","paramIdx":0,"count":3}]`)
			if c.page != "" && got != "success" {
				t.Error(got)
			}
			live := hotspot.GetRulesOfResource("own")
			if len(live) != 1 || live[0].Threshold != 5 || live[0].ParamsMaxCapacity != 100 || live[0].BurstCount != 3 || !maps.Equal(live[0].SpecificItems, c.items) {
				t.Errorf("core %+v", live)
			}
		})
	}
}
