package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rulewire/rulewire/command"
	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// kinds are the five of the Dashboard, with a rule as it pushes one.
var kinds = []struct{ name, key, data string }{
	{"flow", flowKey, `[{"clusterConfig":{"acquireRefuseStrategy":0,"clientOfflineTime":2000,"fallbackToLocalWhenFail":true,"flowId":9,"resourceTimeout":2000,"resourceTimeoutStrategy":0,"sampleCount":10,"strategy":0,"thresholdType":0,"windowIntervalMs":1000},"clusterMode":false,"controlBehavior":0,"count":5.0,"grade":1,"limitApp":"default","maxQueueingTimeMs":500,"regex":false,"resource":"r","strategy":0,"warmUpPeriodSec":10}]`},
	{"degrade", degradeKey, `[{"count":200.0,"grade":0,"limitApp":"default","minRequestAmount":5,"regex":false,"resource":"r","slowRatioThreshold":0.4,"statIntervalMs":1000,"timeWindow":10}]`},
	{"system", systemKey, `[{"avgRt":-1,"highestCpuUsage":-1.0,"highestSystemLoad":-1.0,"maxThread":-1,"qps":50.0,"regex":false}]`},
	{"authority", authorityKey, `[{"limitApp":"a,b","regex":false,"resource":"r","strategy":0}]`},
	{"param-flow", paramFlowKey, `[{"burstCount":0,"clusterMode":false,"controlBehavior":0,"count":3.0,"durationInSec":1,"grade":1,"limitApp":"default","maxQueueingTimeMs":0,"paramFlowItemList":[{"classType":"int","count":5,"object":"1"}],"paramIdx":-1,"regex":false,"resource":"r"}]`},
}

// faults: F154 F156 F159 F164
func TestEveryKindIsStoredAndIsThereAfterARestart(t *testing.T) {
	store := datasourcetest.NewStore()
	p := start(t, store)
	answers := make(map[string]string)
	for _, k := range kinds {
		if got := p.read(k.name); got != "[]" {
			t.Errorf("%s: read %s", k.name, got)
		}
		p.set(k.name, k.data)
		answers[k.name] = p.read(k.name)
		if answers[k.name] == "[]" || p.stored(k.key) == "" {
			t.Errorf("%s: read %s, stored %q", k.name, answers[k.name], p.stored(k.key))
		}
		if r := p.audit.last(); r.Actor != "command port, from 127.0.0.1" || string(r.Kind) != k.name || r.Added != 1 || !r.InForce {
			t.Errorf("%s: audit %+v", k.name, r)
		}
	}
	if p.flow.Len() != 1 || p.degrade.Len() != 1 || p.system.Len() != 1 || p.authority.Len() != 1 || p.paramFlow.Len() != 1 {
		t.Error("not in force")
	}
	if p.paramFlow.Rules()[0].ParamIdx != -1 {
		t.Error("a negative index was rewritten")
	}
	p.close()
	again := start(t, store)
	for _, k := range kinds {
		if got := again.read(k.name); got != answers[k.name] {
			t.Errorf("%s: after the restart %s, before %s", k.name, got, answers[k.name])
		}
		again.set(k.name, k.data) // the same again
		again.set(k.name, "[]")   // and the last rule is deleted
		if got := again.stored(k.key); got != "[]" {
			t.Errorf("%s: stored %q", k.name, got)
		}
	}
}

// faults: F155
func TestMissingDataClearsNothing(t *testing.T) {
	p := start(t, datasourcetest.NewStore())
	for _, k := range kinds {
		p.set(k.name, k.data)
		before := p.stored(k.key)
		for _, data := range []string{"", " ", "null", `""`, "%00", "\x00"} {
			if status, text := p.push(k.name, data); status != 400 {
				t.Errorf("%s: %q: %d %s", k.name, data, status, text)
			}
		}
		if p.stored(k.key) != before || p.read(k.name) == "[]" {
			t.Errorf("%s: gone", k.name)
		}
	}
}

// faults: F153
func TestWithoutAStoreAnEditIsInMemoryOnlyAsInJava(t *testing.T) {
	store := datasourcetest.NewStore()
	p := launch(t, store, false)
	for _, k := range kinds {
		p.set(k.name, k.data)
		if p.read(k.name) == "[]" || p.stored(k.key) != "" {
			t.Errorf("%s: read %s, stored %s", k.name, p.read(k.name), p.stored(k.key))
		}
	}
}

func TestAKindWithoutAnythingAnswersAnEmptyListAndRefusesEdits(t *testing.T) {
	c, err := command.New(command.Logger(nil), command.Address("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := &process{t: t, url: "http://" + c.Addr().String()}
	for _, k := range kinds {
		if got := p.read(k.name); got != "[]" {
			t.Errorf("%s: %s", k.name, got)
		}
		if status, text := p.push(k.name, k.data); status != 400 || !strings.Contains(text, "nothing is registered") {
			t.Errorf("%s: %d %s", k.name, status, text)
		}
	}
	if _, text := p.get("/jsonTree"); !strings.Contains(text, `"machine-root"`) {
		t.Errorf("tree %s", text)
	}
}

// faults: F154
func TestAStoreThatFailsLeavesMemoryAsItIs(t *testing.T) {
	store := datasourcetest.NewStore()
	p := start(t, store, command.EditTimeout(200*time.Millisecond))
	p.set("flow", flowDoc("a=5"))
	down := errors.New("down")
	for name, f := range map[string]datasourcetest.Faults{
		"reads":  {Reads: down, Writes: down},
		"writes": {Writes: down},
		"stalls": {Stalled: true},
	} {
		store.Inject(f)
		begun := time.Now()
		status, text := p.push("flow", flowDoc("a=7"))
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("%s: answered after %v", name, took)
		}
		if status != 500 || text != "partial success (write data source failed)" {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if got := flows(t, p.read("flow")); got != "a=5" {
			t.Errorf("%s: in force %s", name, got)
		}
		store.Heal()
	}
	until(t, "the stalled write ended", func() bool { return p.centre.Status().Failed == 3 })
	if got := flows(t, p.stored(flowKey)); got != "a=5" && got != "a=7" { // the stalled one may have got there
		t.Errorf("stored %s", got)
	}
	p.set("flow", flowDoc("a=9"))
}

// faults: F057
func TestAnInvalidPushChangesNothingAndSaysWhy(t *testing.T) {
	p := start(t, datasourcetest.NewStore())
	p.set("flow", flowDoc("seed=5"))
	status, text := p.push("flow", `[{"resource":"a","count":9},{"resource":"","count":1},{"resource":"b","count":-1},{"resource":"c","count":1,"controlBehavior":9}]`)
	for _, want := range []string{"/1", "/2", "/3"} {
		if status != 400 || !strings.Contains(text, want) {
			t.Errorf("%d %s: does not name %s", status, text, want)
		}
	}
	if got := flows(t, p.stored(flowKey)); got != "seed=5" {
		t.Errorf("stored %s", got)
	}
	if s := p.centre.Status(); s.Refused != 1 || s.Edits != 1 {
		t.Errorf("status %+v", s)
	}
}

// A rule that a Java client of the same store can't load is refused on the page, too, before it reaches the store.
func TestAPushThatJavaCouldNotLoadIsRefused(t *testing.T) {
	p := start(t, datasourcetest.NewStore())
	p.set("flow", flowDoc("seed=5"))
	status, text := p.push("flow", `[{"resource":"seed","count":5},{"resource":"slow","count":0.2,"controlBehavior":2}]`)
	if status != 400 || !strings.Contains(text, "/1/count") || !strings.Contains(text, "Java") {
		t.Errorf("%d %s", status, text)
	}
	if got := flows(t, p.stored(flowKey)); got != "seed=5" || p.flow.Len() != 1 {
		t.Errorf("stored %s, %d in force", got, p.flow.Len())
	}
}

// The payloads of faults.md 2a, as data: those that are rule lists replace the seed's neighbour, the others change nothing.
//
// faults: F155
func TestEveryPayloadOfTheListOfFaultsAsData(t *testing.T) {
	for _, tc := range []struct {
		name, kind, data string
		status           int
	}{
		{"console flow rule", "flow", `[{"id":11,"app":"shop","ip":"10.0.0.7","port":8719,"gmtCreate":1700000000000,"gmtModified":1700000005000,"resource":"/order/create","limitApp":"default","grade":1,"count":50.0,"strategy":0,"refResource":null,"controlBehavior":0,"warmUpPeriodSec":null,"maxQueueingTimeMs":null,"clusterMode":false,"clusterConfig":{"flowId":null,"thresholdType":0,"fallbackToLocalWhenFail":true,"strategy":0,"sampleCount":10,"windowIntervalMs":1000}}]`, 200},
		{"control behaviours", "flow", `[{"resource":"r0","grade":1,"count":10,"controlBehavior":0},{"resource":"r1","grade":1,"count":10,"controlBehavior":1},{"resource":"r2","grade":1,"count":10,"controlBehavior":2},{"resource":"r3","grade":1,"count":10,"controlBehavior":3}]`, 200},
		{"hotspot in wrapper", "param-flow", `[{"app":"shop","id":3,"gmtCreate":1700000000000,"rule":{"resource":"/user/{id}","grade":1,"paramIdx":0,"count":3.0,"durationInSec":5,"burstCount":0,"controlBehavior":0,"maxQueueingTimeMs":0,"limitApp":"default","clusterMode":false,"paramFlowItemList":[{"object":"42","classType":"int","count":100},{"object":"vip","classType":"java.lang.String","count":7}]}}]`, 200},
		{"hotspot with a bad item", "param-flow", `[{"rule":{"resource":"/user/{id}","grade":1,"paramIdx":0,"count":3.0,"paramFlowItemList":[{"object":"x9","classType":"long","count":1}]}}]`, 400},
		{"degrade", "degrade", `[{"resource":"stock","grade":0,"count":200,"timeWindow":10,"minRequestAmount":5,"statIntervalMs":1000}]`, 200},
		{"system", "system", `[{"highestSystemLoad":-1,"highestCpuUsage":0.8,"qps":500,"avgRt":-1,"maxThread":0}]`, 200},
		{"BOM", "flow", "\xef\xbb\xbf" + `[{"resource":"a","count":7}]`, 200},
		{"a lone BOM", "flow", "\xef\xbb\xbf", 400},
		{"UTF-16", "flow", "\xff\xfe[\x00]\x00", 200},
		{"Go's fields", "flow", `[{"resource":"a","threshold":7}]`, 400},
		{"one object", "flow", `{"resource":"a","count":7}`, 400},
		{"misspelt", "flow", `[{"resource":"a","coutn":100}]`, 400},
		{"unknown field", "flow", `[{"resource":"a","count":100,"note":"x"}]`, 200},
		{"HTML", "flow", `<html><body>Please sign in</body></html>`, 400},
		{"an error object", "flow", `{"code":403,"message":"forbidden"}`, 400},
		{"another product's object", "flow", `{"appId":"x","configurations":{"content":"[]"}}`, 400},
		{"blanks", "flow", "  \n", 400},
		{"null", "flow", "null", 400},
		{"empty object", "flow", "{}", 400},
		{"null element", "flow", "[null]", 400},
		{"empty element", "flow", "[{}]", 400},
		{"empty string", "flow", `""`, 400},
		{"half bad", "flow", `[{"resource":"a","count":9},{"resource":"","count":1},{"resource":"b","count":-1},{"resource":"c","count":1,"controlBehavior":9}]`, 400},
		{"doubly encoded JSON", "flow", `"[{\"resource\":\"a\",\"count\":9}]"`, 400},
		{"cut off", "flow", `[{"resource":"a","count":9`, 400},
		{"two documents", "flow", `[][]`, 400},
		{"gzip", "flow", "\x1f\x8b\x08\x00\x00", 400},
		{"not UTF-8", "flow", "[{\"resource\":\"a\xff\",\"count\":9}]", 400},
		{"duplicate names", "flow", `[{"resource":"a","count":9,"count":8}]`, 400},
		{"NaN", "flow", `[{"resource":"a","count":NaN}]`, 400},
		{"deep", "flow", strings.Repeat("[", 100_000), 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := start(t, datasourcetest.NewStore())
			var key string
			for _, k := range kinds {
				if k.name == tc.kind {
					key = k.key
					p.set(k.name, k.data)
				}
			}
			before := p.stored(key)
			status, text := p.push(tc.kind, tc.data)
			if status != tc.status || (status == 200) != (text == "success") {
				t.Fatalf("%d %s", status, text)
			}
			if status != 200 && p.stored(key) != before {
				t.Errorf("stored %s", p.stored(key))
			}
			if status == 200 && tc.name != "UTF-16" && p.stored(key) == before {
				t.Errorf("stored %s", p.stored(key))
			}
		})
	}
}

// faults: F161
func TestNamesWithPercentPlusAndOtherLettersSurvive(t *testing.T) {
	p := start(t, datasourcetest.NewStore())
	for _, name := range []string{"a+b", "c%20d", "50% off", "%", "%25", "GET:/a b+c?x=1%2中", "é/ß;&=#", "日本\u2028", `quote"back\slash`, "[x]", "%5Bx", "😀"} {
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		data := `[{"resource":` + string(quoted) + `,"count":1}]`
		for encoding, once := range map[string]string{"once": data, "twice": url.QueryEscape(data)} {
			p.set("flow", once)
			if rules := p.flow.Rules(); len(rules) != 1 || rules[0].Resource != name {
				t.Errorf("%s: %q became %v", encoding, name, rules)
			}
			p.set("flow", "[]")
		}
	}
}

// faults: F058
func TestAThousandRulesAndAMegabyteFitIntoABody(t *testing.T) {
	p := start(t, datasourcetest.NewStore())
	var text strings.Builder
	for i := range 4500 {
		fmt.Fprintf(&text, "/resource/%04d=%d ", i, i)
	}
	doc := flowDoc(text.String())
	if n := len(url.QueryEscape(doc)); n < 1<<20 {
		t.Fatalf("only %d bytes", n)
	}
	p.set("flow", doc)
	if p.flow.Len() != 4500 {
		t.Errorf("%d rules", p.flow.Len())
	}
	// The same by query, as dashboards push to clients before 1.6.0: what fits into a header.
	text.Reset()
	for i := range 100 {
		fmt.Fprintf(&text, "/r/%04d=%d ", i, i)
	}
	q := start(t, datasourcetest.NewStore())
	if status, answer := q.get("/setRules?type=flow&data=" + url.QueryEscape(flowDoc(text.String()))); status != 200 || answer != "success" {
		t.Errorf("%d %s", status, answer)
	}
	if q.flow.Len() != 100 {
		t.Errorf("%d rules", q.flow.Len())
	}
}

// A rule that stands twice in the document is one on the page: what is done to it is done to its twin.
func TestARuleThatStandsTwiceIsEditedAndRemovedAsOne(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(flowDoc("a=1 a=1 b=2")))
	p := start(t, store)
	p.set("flow", flowDoc("a=9 b=2"))
	if stored, live := flows(t, p.stored(flowKey)), flows(t, p.read("flow")); stored != "a=9 b=2" || live != stored {
		t.Errorf("stored %s, in force %s", stored, live)
	}
	store.Put(flowKey, []byte(flowDoc("a=1 a=1 a=1 b=2")))
	until(t, "the twins are in force", func() bool { return flows(t, p.read("flow")) == "a=1 b=2" })
	p.set("flow", flowDoc("b=2"))
	if stored := flows(t, p.stored(flowKey)); stored != "b=2" {
		t.Errorf("stored %s", stored)
	}
}

// What the Dashboard can't know is kept from the rule that was there.
// Two rules that differ only in what the Dashboard does not know are two rows that look alike.
func TestRowsThatLookAlikeAreTakenForOneAndARuleGoes(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(`[{"resource":"a","count":5,"statIntervalInMs":1000},{"resource":"a","count":5,"statIntervalInMs":60000},{"resource":"b","count":1},{"resource":"c","count":1}]`))
	p := start(t, store)
	p.read("flow")
	p.set("flow", flowDoc("a=5 a=5 b=2 c=1"))
	p.set("flow", flowDoc("a=5 a=5 b=2"))
	p.set("flow", flowDoc("a=5 a=5 b=2 d=4"))
	if got := p.stored(flowKey); flows(t, got) != "a=5 a=5 b=2 d=4" || !strings.Contains(got, `"statIntervalInMs":1000`) || !strings.Contains(got, `"statIntervalInMs":60000`) {
		t.Errorf("stored %s", got)
	}
	p.set("flow", flowDoc("a=5 b=2 d=4"))
	p.set("flow", flowDoc("a=5 b=2 d=4 d=4")) // what is really the same counts once
	if got := p.stored(flowKey); flows(t, got) != "a=5 b=2 d=4" {
		t.Errorf("stored %s", got)
	}
}

func TestFieldsThatTheDashboardDoesNotKnowAreKept(t *testing.T) {
	store := datasourcetest.NewStore()
	docs := map[string]string{
		flowKey: `[{"id":7,"resource":"r","count":5,"statIntervalInMs":5000,"warmUpColdFactor":4,"note":{"who":"me"},"clusterConfig":{"flowId":3,"new":1}},
			{"resource":"r","count":2,"grade":0,"note":"threads"},{"resource":"m","count":5,"tokenCalculateStrategy":2,"lowMemUsageThreshold":100,"highMemUsageThreshold":10,"memLowWaterMarkBytes":1000,"memHighWaterMarkBytes":2000},
			{"resource":"held","count":1,"strategy":2,"refResource":"entry","clusterMode":false,"regex":false,"ownID":"x-1"}]`,
		degradeKey:   `[{"id":8,"resource":"r","grade":2,"count":5,"timeWindow":2,"retryTimeoutMs":1500,"probeNum":3,"statSlidingWindowBucketCount":2,"note":1}]`,
		systemKey:    `[{"id":9,"qps":50,"avgRt":20,"note":"both"},{"highestSystemLoad":3,"strategy":1}]`,
		authorityKey: `[{"id":10,"resource":"r","limitApp":"a","note":true}]`,
		paramFlowKey: `[{"id":11,"resource":"r","paramIdx":0,"count":3,"paramKey":"user","paramsMaxCapacity":99,"note":null,"paramFlowItemList":[{"object":"1","classType":"int","count":5,"why":"vip"}]}]`,
	}
	for key, doc := range docs {
		store.Put(key, []byte(doc))
	}
	p := start(t, store)
	if s := p.flow.Len() + p.degrade.Len() + p.system.Len() + p.authority.Len() + p.paramFlow.Len(); s != 9 {
		t.Fatalf("%d rules", s)
	}
	before := map[string]string{}
	for key := range docs {
		before[key] = p.stored(key)
	}
	// The Dashboard reads, builds the rules anew and pushes them with one count changed.
	for _, k := range kinds {
		var rows []map[string]any
		if err := json.Unmarshal([]byte(p.read(k.name)), &rows); err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			known := strings.Fields("resource limitApp count grade strategy refResource controlBehavior warmUpPeriodSec maxQueueingTimeMs clusterMode clusterConfig " +
				"timeWindow minRequestAmount slowRatioThreshold statIntervalMs highestSystemLoad highestCpuUsage qps avgRt maxThread paramIdx burstCount durationInSec paramFlowItemList")
			built := map[string]any{"regex": false}
			for _, name := range known {
				if v, ok := row[name]; ok {
					built[name] = v
				}
			}
			for _, name := range []string{"clusterConfig", "paramFlowItemList"} {
				if c, ok := built[name].(map[string]any); ok {
					delete(c, "new")
				}
				if items, ok := built[name].([]any); ok && len(items) > 0 {
					delete(items[0].(map[string]any), "why")
				}
			}
			rows[i] = built
		}
		data, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		p.set(k.name, string(data))
		if got := p.stored(k.key); got != before[k.key] {
			t.Errorf("%s: a push without a change became\n%s\nfrom\n%s", k.name, got, before[k.key])
		}
		switch k.name {
		case "system":
			rows[0]["qps"] = 51
		case "authority":
			rows[0]["limitApp"] = "a,b"
		default:
			rows[0]["count"] = 6
		}
		if data, err = json.Marshal(rows); err != nil {
			t.Fatal(err)
		}
		p.set(k.name, string(data))
	}
	f := p.flow.Rules()
	if f[0].ID != "7" || f[0].Count != 6 || f[0].StatIntervalInMs != 5000 || f[0].WarmUpColdFactor != 4 || len(f[0].Extra) != 1 || len(f[0].ClusterConfig.Extra) != 1 ||
		len(f[1].Extra) != 1 || !f[2].MemoryAdaptive || f[2].MemHighWaterMarkBytes != 2000 || f[3].Strategy != rule.StrategyChain {
		t.Errorf("flow %+v", f)
	}
	d := p.degrade.Rules()
	if d[0].ID != "8" || d[0].Count != 6 || d[0].TimeWindowMs != 1500 || d[0].ProbeNum != 3 || d[0].StatSlidingWindowBucketCount != 2 || len(d[0].Extra) != 1 {
		t.Errorf("degrade %+v", d)
	}
	s := p.system.Rules()
	if len(s) != 2 || s[0].ID != "9" || s[0].QPS != 51 || s[0].AvgRT != 20 || len(s[0].Extra) != 1 || s[1].Strategy != rule.AdaptiveBBR {
		t.Errorf("system %+v", s)
	}
	a := p.authority.Rules()
	if a[0].ID != "10" || a[0].LimitApp != "a,b" || len(a[0].Extra) != 1 {
		t.Errorf("authority %+v", a)
	}
	h := p.paramFlow.Rules()
	if h[0].ID != "11" || h[0].Count != 6 || h[0].ParamKey != "user" || h[0].ParamsMaxCapacity != 99 || len(h[0].Extra) != 1 || len(h[0].Items[0].Extra) != 1 {
		t.Errorf("param-flow %+v", h)
	}
}

func TestTheDashboardSeesARowForEachLimitOfASystemRule(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(systemKey, []byte(`[{"qps":50,"avgRt":20},{"qps":30}]`))
	p := start(t, store)
	dec, err := converter.JSON[rule.System]().Decode([]byte(p.read("system")))
	if err != nil {
		t.Fatal(err)
	}
	if len(dec.Rules) != 3 || dec.Rules[0].QPS != 50 || dec.Rules[0].AvgRT != rule.Unset || dec.Rules[1].AvgRT != 20 || dec.Rules[2].QPS != 30 {
		t.Errorf("rows %+v", dec.Rules)
	}
	// One row is deleted.
	p.set("system", `[{"qps":50},{"qps":30}]`)
	if r := p.system.Rules(); len(r) != 2 || r[0].QPS != 50 || r[0].AvgRT != rule.Unset {
		t.Errorf("rules %+v", r)
	}
}

// twoDocuments makes a process whose flow rules come from /team and /shared.
func twoDocuments(t *testing.T, team, shared string) *process {
	t.Helper()
	store := datasourcetest.NewStore()
	store.Put("/team", []byte(flowDoc(team)))
	store.Put("/shared", []byte(flowDoc(shared)))
	return start(t, store, command.Rules(document(t, store, "/team"), document(t, store, "/shared")))
}

func document(t *testing.T, store *datasourcetest.Store, key string) command.Document[rule.Flow] {
	t.Helper()
	r, err := datasource.New(store.Source(key, datasourcetest.Pushed), converter.JSON[rule.Flow](), rule.NewManager[rule.Flow](), datasource.Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	w, err := writable.New(store.Sink(key, datasourcetest.Pushed), converter.JSON[rule.Flow](), writable.Readable(r), writable.Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return command.Pair(writable.Pair[rule.Flow]{Readable: r, Writable: w})
}

func TestWithSeveralDocumentsAnEditChangesTheOneThatHasTheRule(t *testing.T) {
	p := twoDocuments(t, "a=1 b=2", "c=3")
	if got := flows(t, p.read("flow")); got != "a=1 b=2 c=3" {
		t.Fatalf("read %s", got)
	}
	p.set("flow", flowDoc("a=1 b=2 c=4"))
	p.set("flow", flowDoc("a=1 b=2 c=4 d=5"))
	p.set("flow", flowDoc("b=2 c=4 d=5"))
	if got := flows(t, p.stored("/team")) + "|" + flows(t, p.stored("/shared")); got != "b=2 d=5|c=4" {
		t.Errorf("stored %s", got)
	}
	if status, text := p.push("flow", flowDoc("b=7 c=8 d=5")); status != 400 || !strings.Contains(text, "one edit can change one document") {
		t.Errorf("%d %s", status, text)
	}
}

// What is shown is the rules of both documents, and so the page has them all.
func TestAPageThatIsOldInOneOfTwoDocumentsTakesAnothersEditBack(t *testing.T) {
	p := twoDocuments(t, "a=1 b=2", "c=3")
	page := p.in(t)
	page.read("flow")
	p.agent = "somebody else"
	p.read("flow")
	p.set("flow", flowDoc("a=1 b=20 c=3"))
	page.set("flow", flowDoc("a=10 b=2 c=3"))
	page.set("flow", flowDoc("a=10 b=2 c=3 d=4"))
	if got := flows(t, p.stored("/team")) + "|" + flows(t, p.stored("/shared")); got != "a=10 b=20 d=4|c=3" {
		t.Errorf("stored %s", got)
	}
}

// gate is a document whose edits say that they have begun, and wait.
type gate struct {
	entered, leave chan struct{}
	ended          chan error
}

func (*gate) ID() string           { return "gate" }
func (*gate) InForce() []rule.Flow { return nil }

func (g *gate) Edit(ctx context.Context, change func([]rule.Flow) ([]rule.Flow, error)) (writable.Result[rule.Flow], error) {
	close(g.entered)
	<-g.leave
	rules, err := change(nil)
	if err == nil && len(rules) != 1 {
		err = fmt.Errorf("%d rules", len(rules))
	}
	g.ended <- errors.Join(err, ctx.Err())
	return writable.Result[rule.Flow]{}, err
}

// The client goes away before the answer.
func TestAnEditWhoseCallerGoesAwayIsCarriedThrough(t *testing.T) {
	g := &gate{entered: make(chan struct{}), leave: make(chan struct{}), ended: make(chan error, 1)}
	p := start(t, datasourcetest.NewStore(), command.Rules[rule.Flow](g), command.EditTimeout(time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	body := url.Values{"type": {"flow"}, "data": {flowDoc("a=5")}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/setRules", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answered := make(chan error, 1)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	go func() {
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err == nil {
			resp.Body.Close()
		}
		answered <- err
	}()
	<-g.entered
	cancel()
	if err := <-answered; err == nil {
		t.Fatal("answered")
	}
	close(g.leave)
	if err := <-g.ended; err != nil {
		t.Error(err)
	}
}
