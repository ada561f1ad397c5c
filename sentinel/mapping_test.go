package sentinel

import (
	"cmp"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/circuitbreaker"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/core/hotspot"
	"github.com/alibaba/sentinel-golang/core/isolation"
	"github.com/alibaba/sentinel-golang/core/system"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
)

const consoleRule = `[{"id":11,"app":"shop","ip":"10.0.0.7","port":8719,"gmtCreate":1700000000000,"gmtModified":1700000005000,` +
	`"resource":"/order/create","limitApp":"default","grade":1,"count":50.0,"strategy":0,"refResource":null,"controlBehavior":0,` +
	`"warmUpPeriodSec":null,"maxQueueingTimeMs":null,"clusterMode":false,"clusterConfig":{"flowId":null,"thresholdType":0,` +
	`"fallbackToLocalWhenFail":true,"strategy":0,"sampleCount":10,"windowIntervalMs":1000}}]`

// faults: F034 F035
func TestJavaFlowRuleBlocksEverything(t *testing.T) {
	src := doc("flow", consoleRule)
	open(t, Flow(src))
	want := []flow.Rule{{ID: "11", Resource: "/order/create", Threshold: 50, TokenCalculateStrategy: flow.Direct,
		ControlBehavior: flow.Reject, WarmUpPeriodSec: 10, MaxQueueingTimeMs: 500}}
	if got := flow.GetRules(); !reflect.DeepEqual(got, want) {
		t.Errorf("live: %+v, want %+v", got, want)
	}

	// Cluster mode is refused by name; with LocalFallback it is enforced here, where the rule's owner allowed that.
	cluster := strings.NewReplacer(`"clusterMode":false`, `"clusterMode":true`, `"flowId":null`, `"flowId":7`).Replace(consoleRule)
	src = doc("seed", `[{"resource":"/seed","count":5,"grade":1}]`)
	rules := open(t, Flow(src))
	src.set(cluster)
	refused(t, rules, rule.ErrUnsupported, "clusterMode")
	wantText(t, "live", liveFlow(), "/seed=5")

	open(t, Flow(doc("local", cluster), LocalFallback()))
	wantText(t, "live", liveFlow(), "/order/create=50")
}

// faults: F034 F035
func TestJavaRuleReadAsGolangLoadsThresholdZero(t *testing.T) {
	src := doc("flow", `[{"resource":"/seed","threshold":5}]`)
	rules := open(t, Flow(src, Dialect(converter.Golang)))
	src.set(consoleRule)
	refused(t, rules, datasource.ErrRefused, "threshold")
	wantText(t, "live", liveFlow(), "/seed=5")
}

// faults: F036
func TestControlBehaviorMeansSomethingElse(t *testing.T) {
	open(t, Flow(doc("flow", `[
		{"resource":"r0","grade":1,"count":10,"controlBehavior":0},
		{"resource":"r1","grade":1,"count":10,"controlBehavior":1},
		{"resource":"r2","grade":1,"count":10,"controlBehavior":2},
		{"resource":"r3","grade":1,"count":10,"controlBehavior":3},
		{"resource":"r4","grade":0,"count":10},
		{"resource":"r5","grade":1,"count":10,"strategy":1,"refResource":"r0"}]`)))
	want := map[string]flow.Rule{
		"r0": {TokenCalculateStrategy: flow.Direct, ControlBehavior: flow.Reject},
		"r1": {TokenCalculateStrategy: flow.WarmUp, ControlBehavior: flow.Reject, WarmUpColdFactor: 3},
		"r2": {TokenCalculateStrategy: flow.Direct, ControlBehavior: flow.Throttling},
		"r3": {TokenCalculateStrategy: flow.WarmUp, ControlBehavior: flow.Throttling, WarmUpColdFactor: 3},
		"r5": {TokenCalculateStrategy: flow.Direct, ControlBehavior: flow.Reject, RelationStrategy: flow.AssociatedResource, RefResource: "r0"},
	}
	live := flow.GetRules()
	if len(live) != len(want) {
		t.Errorf("%d flow rules, want %d", len(live), len(want))
	}
	for _, got := range live {
		w := want[got.Resource]
		w.Resource, w.Threshold, w.WarmUpPeriodSec, w.MaxQueueingTimeMs = got.Resource, 10, 10, 500
		if got != w {
			t.Errorf("live %+v, want %+v", got, w)
		}
	}
	// A limit of concurrent calls is never a limit of calls per second.
	if got, want := isolation.GetRules(), []isolation.Rule{{Resource: "r4", Threshold: 10}}; !slices.Equal(got, want) {
		t.Errorf("isolation: %+v, want %+v", got, want)
	}
}

// faults: F036
func TestGolangDialectLosesAField(t *testing.T) {
	open(t,
		Dialect(converter.Golang),
		Flow(doc("flow", `[{"id":"f","resource":"a","tokenCalculateStrategy":1,"controlBehavior":1,"threshold":7.5,"relationStrategy":1,
			"refResource":"b","maxQueueingTimeMs":20,"warmUpPeriodSec":30,"warmUpColdFactor":4,"statIntervalInMs":2000}]`)),
		Degrade(doc("degrade", `[{"id":"d","resource":"a","strategy":0,"retryTimeoutMs":3001,"minRequestAmount":10,"statIntervalMs":5000,
			"statSlidingWindowBucketCount":10,"maxAllowedRtMs":50,"threshold":0.5,"probeNum":3}]`)),
		ParamFlow(doc("param", `[{"id":"p","resource":"a","metricType":1,"controlBehavior":1,"paramKey":"user","threshold":9,
			"maxQueueingTimeMs":5,"burstCount":0,"durationInSec":1,"paramsMaxCapacity":100}]`)),
		Isolation(doc("isolation", `[{"id":"i","resource":"a","metricType":0,"threshold":12}]`)),
		System(doc("system", `[{"id":"s","metricType":3,"triggerCount":200,"strategy":1}]`)),
	)
	if got, want := flow.GetRules(), []flow.Rule{{ID: "f", Resource: "a", TokenCalculateStrategy: flow.WarmUp, ControlBehavior: flow.Throttling,
		Threshold: 7.5, RelationStrategy: flow.AssociatedResource, RefResource: "b", MaxQueueingTimeMs: 20, WarmUpPeriodSec: 30,
		WarmUpColdFactor: 4, StatIntervalInMs: 2000}}; !reflect.DeepEqual(got, want) {
		t.Errorf("flow: %+v, want %+v", got, want)
	}
	if got, want := circuitbreaker.GetRules(), []circuitbreaker.Rule{{Id: "d", Resource: "a", Strategy: circuitbreaker.SlowRequestRatio,
		RetryTimeoutMs: 3001, MinRequestAmount: 10, StatIntervalMs: 5000, StatSlidingWindowBucketCount: 10, MaxAllowedRtMs: 50,
		Threshold: 0.5, ProbeNum: 3}}; !reflect.DeepEqual(got, want) {
		t.Errorf("degrade: %+v, want %+v", got, want)
	}
	if got, want := hotspot.GetRules(), []hotspot.Rule{{ID: "p", Resource: "a", MetricType: hotspot.QPS, ControlBehavior: hotspot.Throttling,
		ParamKey: "user", Threshold: 9, MaxQueueingTimeMs: 5, DurationInSec: 1, ParamsMaxCapacity: 100,
		SpecificItems: map[interface{}]int64{}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("hotspot: %+v, want %+v", got, want)
	}
	if got, want := isolation.GetRules(), []isolation.Rule{{ID: "i", Resource: "a", Threshold: 12}}; !reflect.DeepEqual(got, want) {
		t.Errorf("isolation: %+v, want %+v", got, want)
	}
	if got, want := system.GetRules(), []system.Rule{{ID: "s", MetricType: system.InboundQPS, TriggerCount: 200, Strategy: system.BBR}}; !reflect.DeepEqual(got, want) {
		t.Errorf("system: %+v, want %+v", got, want)
	}
}

// faults: F031 F039 F045
func TestHotspotItemDroppedOrUntyped(t *testing.T) {
	const wrapped = `[{"app":"shop","id":3,"gmtCreate":1700000000000,"rule":{"resource":"/user/{id}","grade":1,"paramIdx":0,"count":3.0,` +
		`"durationInSec":5,"burstCount":0,"controlBehavior":0,"maxQueueingTimeMs":0,"limitApp":"default","clusterMode":false,` +
		`"paramFlowItemList":[{"object":"42","classType":"int","count":100},{"object":"vip","classType":"java.lang.String","count":7}%s]}}]`
	src := doc("param", strings.Replace(wrapped, "%s", "", 1))
	rules := open(t, ParamFlow(src))
	check := func() {
		t.Helper()
		live := hotspot.GetRules()
		want := []hotspot.Rule{{ID: "3", Resource: "/user/{id}", MetricType: hotspot.QPS, ControlBehavior: hotspot.Reject, Threshold: 3, DurationInSec: 5,
			SpecificItems: map[interface{}]int64{42: 100, "vip": 7}}}
		if len(live) == 1 {
			live[0].ID = want[0].ID // the wrapper's id may or may not be the rule's
		}
		if !reflect.DeepEqual(live, want) {
			t.Errorf("live %+v, want %+v", live, want)
		}
	}
	check()
	src.set(strings.Replace(wrapped, "%s", `,{"object":"x9","classType":"long","count":1}`, 1))
	refused(t, rules, datasource.ErrRefused, "x9")
	check()
}

// faults: F046
func TestHotspotItemNeverMatchesItsArgument(t *testing.T) {
	open(t, ParamFlow(doc("param", `[{"resource":"typed","grade":1,"paramIdx":0,"count":1000,"durationInSec":1,"paramFlowItemList":[
		{"object":"1","classType":"int","count":0},{"object":"2","classType":"long","count":0},{"object":"3","classType":"short","count":0},
		{"object":"4","classType":"byte","count":0},{"object":"5.5","classType":"double","count":0},{"object":"6.1","classType":"float","count":0},
		{"object":"true","classType":"boolean","count":0},{"object":"ü","classType":"char","count":0},{"object":"s","classType":"String","count":0},
		{"object":"-7","classType":"byte","count":0}]}]`)))
	for _, arg := range []interface{}{1, int64(2), int16(3), int8(4), uint8(4), 5.5, float32(6.1), 6.1, true, 'ü', "ü", "s", int8(-7)} {
		if _, blocked := api.Entry("typed", api.WithArgs(arg)); blocked == nil {
			t.Errorf("%T %v is not found", arg, arg)
		}
	}
	// Another type is another value, as the core compares: the general limit holds.
	for _, arg := range []interface{}{int64(1), 2, "1", int32(3), false, uint8(249)} {
		e, blocked := api.Entry("typed", api.WithArgs(arg))
		if blocked != nil {
			t.Errorf("%T %v is taken for an item", arg, arg)
			continue
		}
		e.Exit()
	}
}

func TestDerivedHotspotKeyOverwritesAnItem(t *testing.T) {
	into := map[interface{}]int64{}
	var no reasons
	mapItems([]rule.ParamFlowItem{{Object: "c", ClassType: "char", Count: 1}, {Object: "c", ClassType: "String", Count: 2},
		{Object: "1", ClassType: "int", Count: 3}, {Object: "+1", ClassType: "int", Count: 3}}, into, &no)
	if want := map[interface{}]int64{'c': 1, "c": 2, 1: 3}; !reflect.DeepEqual(into, want) || len(no.list) > 0 {
		t.Errorf("got %v, want %v (%v)", into, want, no.list)
	}
	mapItems([]rule.ParamFlowItem{{Object: "01", ClassType: "int", Count: 4}, {Object: "x", ClassType: "char1", Count: 4}, {Object: "xy", ClassType: "char"},
		{Object: "maybe", ClassType: "boolean"}, {Object: "x", ClassType: "int"}}, into, &no)
	if len(no.list) != 5 {
		t.Errorf("faults: %v", no.list)
	}
}

// faults: F044
func TestDegradeUnitsOrRatioWrong(t *testing.T) {
	open(t, Degrade(doc("degrade", `[
		{"resource":"slow","grade":0,"count":200,"timeWindow":10,"minRequestAmount":5,"statIntervalMs":1000},
		{"resource":"slow4","grade":0,"count":200.5,"timeWindow":10,"slowRatioThreshold":0.4},
		{"resource":"ratio","grade":1,"count":0.5,"timeWindow":7},
		{"resource":"count","grade":2,"count":30,"timeWindow":1}]`)))
	live := circuitbreaker.GetRules()
	slices.SortFunc(live, func(a, b circuitbreaker.Rule) int { return cmp.Compare(a.Resource, b.Resource) })
	want := []circuitbreaker.Rule{
		{Resource: "count", Strategy: circuitbreaker.ErrorCount, Threshold: 30, RetryTimeoutMs: 1000, MinRequestAmount: 5, StatIntervalMs: 1000},
		{Resource: "ratio", Strategy: circuitbreaker.ErrorRatio, Threshold: 0.5, RetryTimeoutMs: 7000, MinRequestAmount: 5, StatIntervalMs: 1000},
		{Resource: "slow", Strategy: circuitbreaker.SlowRequestRatio, Threshold: 1, MaxAllowedRtMs: 200, RetryTimeoutMs: 10_000, MinRequestAmount: 5, StatIntervalMs: 1000},
		{Resource: "slow4", Strategy: circuitbreaker.SlowRequestRatio, Threshold: 0.4, MaxAllowedRtMs: 201, RetryTimeoutMs: 10_000, MinRequestAmount: 5, StatIntervalMs: 1000},
	}
	if !slices.Equal(live, want) {
		t.Errorf("live %+v\nwant %+v", live, want)
	}
}

// faults: F047
func TestSystemLimitOffBecomesZero(t *testing.T) {
	rules := open(t, System(doc("system", `[{"id":4,"highestSystemLoad":-1,"highestCpuUsage":0.8,"qps":500,"avgRt":-1,"maxThread":0}]`)))
	live := system.GetRules()
	slices.SortFunc(live, func(a, b system.Rule) int { return cmp.Compare(a.MetricType, b.MetricType) })
	want := []system.Rule{
		{ID: "4", MetricType: system.Concurrency, TriggerCount: 0, Strategy: system.NoAdaptive},
		{ID: "4", MetricType: system.InboundQPS, TriggerCount: 500, Strategy: system.NoAdaptive},
		{ID: "4", MetricType: system.CpuUsage, TriggerCount: 0.8, Strategy: system.NoAdaptive},
	}
	if !slices.Equal(live, want) {
		t.Errorf("live %+v, want %+v", live, want)
	}
	if s := rules.Status(); len(s) != 1 || s[0].Rules != 1 || s[0].Live != 3 {
		t.Errorf("status: %+v", s)
	}
}

func TestUnsupportedRuleWidensOrVanishes(t *testing.T) {
	base := rule.Flow{Resource: "a", Grade: rule.GradeQPS, Count: 1, LimitApp: "default"}
	thread := rule.Flow{Resource: "a", Grade: rule.GradeThread, Count: 1}
	for _, c := range []struct {
		field string
		edit  func(r *rule.Flow)
		from  rule.Flow
	}{
		{"limitApp", func(r *rule.Flow) { r.LimitApp = "shop" }, base},
		{"count", func(r *rule.Flow) { r.ControlBehavior, r.WarmUpPeriodSec = rule.ControlWarmUp, 1 }, base},
		{"count", func(r *rule.Flow) { r.ControlBehavior, r.WarmUpPeriodSec, r.Count = rule.ControlWarmUp, 10, 0 }, base},
		{"strategy", func(r *rule.Flow) { r.Strategy, r.RefResource = rule.StrategyChain, "e" }, base},
		{"clusterMode", func(r *rule.Flow) {
			r.ClusterMode, r.ClusterConfig = true, &rule.ClusterFlowConfig{FallbackToLocalWhenFail: true}
		}, base},
		{"regex", func(r *rule.Flow) { r.Regex = true }, base},
		{"controlBehavior", func(r *rule.Flow) { r.ControlBehavior = 9 }, base},
		{"maxQueueingTimeMs", func(r *rule.Flow) { r.MaxQueueingTimeMs = math.MaxUint32 + 1 }, base},
		{"warmUpPeriodSec", func(r *rule.Flow) { r.WarmUpPeriodSec = math.MaxInt64 }, base},
		{"", func(r *rule.Flow) { // more memory than any machine has
			r.MemoryAdaptive, r.LowMemUsageThreshold, r.HighMemUsageThreshold = true, 9, 1
			r.MemLowWaterMarkBytes, r.MemHighWaterMarkBytes = 1, math.MaxInt64
		}, base},
		{"count", func(r *rule.Flow) { r.Count = 1.5 }, thread},
		{"count", func(r *rule.Flow) { r.Count = 0 }, thread},
		{"count", func(r *rule.Flow) { r.Count = math.MaxUint32 + 1 }, thread},
		{"strategy", func(r *rule.Flow) { r.Strategy, r.RefResource = rule.StrategyRelate, "b" }, thread},
		{"tokenCalculateStrategy", func(r *rule.Flow) { r.MemoryAdaptive = true }, thread},
	} {
		r := c.from
		c.edit(&r)
		var out coreRules
		unsupported(t, mapFlow(&r, &mapping{}, &out), c.field)
		if len(out.flow)+len(out.isolation) > 0 {
			t.Errorf("%s: mapped all the same", c.field)
		}
	}
	noFallback := base
	noFallback.ClusterMode, noFallback.ClusterConfig = true, &rule.ClusterFlowConfig{}
	unsupported(t, mapFlow(&noFallback, &mapping{localFallback: true}, &coreRules{}), "clusterConfig/fallbackToLocalWhenFail")

	param := rule.ParamFlow{Resource: "a", Grade: rule.GradeQPS, Count: 1, DurationInSec: 1}
	for field, edit := range map[string]func(r *rule.ParamFlow){
		"count":       func(r *rule.ParamFlow) { r.Count = 0.5 },
		"clusterMode": func(r *rule.ParamFlow) { r.ClusterMode = true },
		"regex":       func(r *rule.ParamFlow) { r.Regex = true },
	} {
		r := param
		edit(&r)
		unsupported(t, mapParamFlow(&r, &mapping{}, &coreRules{}), field)
	}
	degrade := rule.Degrade{Resource: "a", TimeWindowMs: 1, StatIntervalMs: 1, SlowRatioThreshold: 1}
	for field, edit := range map[string]func(r *rule.Degrade){
		"timeWindow": func(r *rule.Degrade) { r.TimeWindowMs = math.MaxUint32 + 1 },
		"regex":      func(r *rule.Degrade) { r.Regex = true },
		"count":      func(r *rule.Degrade) { r.Count = 1e300 },
		"grade":      func(r *rule.Degrade) { r.Grade = 8 },
	} {
		r := degrade
		edit(&r)
		unsupported(t, mapDegrade(&r, &mapping{}, &coreRules{}), field)
	}
	unsupported(t, mapSystem(&rule.System{HighestCPUUsage: 2}, &mapping{}, &coreRules{}), "highestCpuUsage")
	unsupported(t, mapIsolation(&rule.Isolation{Resource: "a", Threshold: 1, Regex: true}, &mapping{}, &coreRules{}), "regex")
	unsupported(t, mapAuthority(&rule.Authority{}, &mapping{}, &coreRules{}), "")
	// Java's breakers and hot-parameter rules ignore the origin too.
	degrade.LimitApp, param.LimitApp = "shop", "shop"
	if err := errors.Join(mapDegrade(&degrade, &mapping{}, &coreRules{}), mapParamFlow(&param, &mapping{}, &coreRules{})); err != nil {
		t.Error(err)
	}
}

// The reason for refusing small warm-up rules: what the core makes of them.
func TestCoreBlocksASmallWarmUp(t *testing.T) {
	clean(t)
	for _, r := range []*flow.Rule{{Resource: "small/0", Threshold: 0, WarmUpPeriodSec: 10}, {Resource: "small/1", Threshold: 1, WarmUpPeriodSec: 1}} {
		r.TokenCalculateStrategy = flow.WarmUp
		if _, err := flow.LoadRulesOfResource(r.Resource, []*flow.Rule{r}); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			e, blocked := api.Entry(r.Resource)
			if blocked != nil {
				t.Fatalf("%s: blocked; the refusal in mapFlow is no longer needed", r.Resource)
			}
			e.Exit()
		}
	}
}

func TestBreakerWithLimitZeroOpensWithoutAnError(t *testing.T) {
	slow := rule.Degrade{Resource: "a", TimeWindowMs: 1000, StatIntervalMs: 1000, Count: 200, SlowRatioThreshold: 0}
	ratio := slow
	ratio.Grade, ratio.Count = rule.DegradeErrorRatio, 0
	tiny := ratio
	tiny.Count = 9e-9
	count := slow
	count.Grade, count.Count = rule.DegradeErrorCount, 0
	fraction := count
	fraction.Count = 0.5
	for _, c := range []struct {
		rule  rule.Degrade
		field string
	}{{slow, "slowRatioThreshold"}, {ratio, "count"}, {tiny, "count"}, {count, "count"}, {fraction, "count"}} {
		unsupported(t, mapDegrade(&c.rule, &mapping{}, &coreRules{}), c.field)
	}
	// Only the grade's own limit counts.
	ratio.Count, count.Count, slow.Count, slow.SlowRatioThreshold = 1e-7, 1, 0, 0.01
	for _, r := range []rule.Degrade{slow, ratio, count} {
		if err := mapDegrade(&r, &mapping{}, &coreRules{}); err != nil {
			t.Error(err)
		}
	}
}

// The reason for refusing such breakers: what the core makes of them.
func TestCoreNeedsAnErrorForABreakerWithLimitZero(t *testing.T) {
	clean(t)
	for _, r := range []*circuitbreaker.Rule{
		{Resource: "zero/slow", Strategy: circuitbreaker.SlowRequestRatio, MaxAllowedRtMs: 60_000},
		{Resource: "zero/ratio", Strategy: circuitbreaker.ErrorRatio},
		{Resource: "zero/count", Strategy: circuitbreaker.ErrorCount},
		{Resource: "zero/half", Strategy: circuitbreaker.ErrorCount, Threshold: 0.5},
	} {
		r.RetryTimeoutMs, r.StatIntervalMs = 60_000, 60_000
		if _, err := circuitbreaker.LoadRulesOfResource(r.Resource, []*circuitbreaker.Rule{r}); err != nil {
			t.Fatal(err)
		}
		e, blocked := api.Entry(r.Resource)
		if blocked != nil {
			t.Fatalf("%s: the first call is blocked", r.Resource)
		}
		e.Exit()
		if e, blocked = api.Entry(r.Resource); blocked == nil {
			e.Exit()
			t.Errorf("%s: not open; the refusal in mapDegrade is no longer needed", r.Resource)
		}
	}
}

// Java reads a boolean whatever its case; so did the converter, and the check after it refused the document.
func TestBooleanInAnotherCaseRefusesTheDocument(t *testing.T) {
	d, err := converter.JSON[rule.ParamFlow]().Decode([]byte(`[{"resource":"a","count":1,"paramIdx":0,"paramFlowItemList":[` +
		`{"object":"TRUE","classType":"boolean","count":7},{"object":"False","classType":"java.lang.Boolean","count":8}]}]`))
	if err != nil || len(d.Rules) != 1 {
		t.Fatal(err, d.Rejected)
	}
	var out coreRules
	if err := errors.Join(d.Rules[0].Validate(), mapParamFlow(&d.Rules[0], &mapping{}, &out)); err != nil {
		t.Fatal(err)
	}
	if items := out.hotspot[0].SpecificItems; len(items) != 2 || items[true] != 7 || items[false] != 8 {
		t.Errorf("items: %v", items)
	}
	d.Rules[0].Items[1].Object = "tRUE"
	unsupported(t, mapParamFlow(&d.Rules[0], &mapping{}, &coreRules{}), "paramFlowItemList/1/object")
}

// Java's rate limiter of 0.5 lets a call pass every two seconds; the core none at all.
func TestSlowRateLimiterRefusesEveryCall(t *testing.T) {
	limiter := func(behavior rule.ControlBehavior, count float64, cold int64) rule.Flow {
		return rule.Flow{Resource: "a", Grade: rule.GradeQPS, Count: count, ControlBehavior: behavior, WarmUpPeriodSec: 10, WarmUpColdFactor: cold}
	}
	for _, r := range []rule.Flow{limiter(rule.ControlRateLimiter, 0.5, 0), limiter(rule.ControlWarmUpRateLimiter, 2, 0), limiter(rule.ControlWarmUpRateLimiter, 3, 4)} {
		unsupported(t, mapFlow(&r, &mapping{}, &coreRules{}), "count")
	}
	// What passes nothing in Java either, and what passes in both.
	for _, r := range []rule.Flow{limiter(rule.ControlRateLimiter, 0, 0), limiter(rule.ControlReject, 0.5, 0), limiter(rule.ControlWarmUp, 2, 0),
		limiter(rule.ControlRateLimiter, 1, 0), limiter(rule.ControlWarmUpRateLimiter, 3, 0)} {
		if err := mapFlow(&r, &mapping{}, &coreRules{}); err != nil {
			t.Error(err)
		}
	}
}

// The reason for refusing slow rate limiters: what the core makes of them.
func TestCorePacesASlowRateLimiter(t *testing.T) {
	clean(t)
	passes := func(name string, calculate flow.TokenCalculateStrategy, count float64) bool {
		r := &flow.Rule{Resource: name, Threshold: count, TokenCalculateStrategy: calculate, ControlBehavior: flow.Throttling, WarmUpPeriodSec: 10}
		if _, err := flow.LoadRulesOfResource(name, []*flow.Rule{r}); err != nil {
			t.Fatal(err)
		}
		e, blocked := api.Entry(name)
		if blocked == nil {
			e.Exit()
		}
		return blocked == nil
	}
	if passes("pace/0.5", flow.Direct, 0.5) || passes("pace/warm/2", flow.WarmUp, 2) {
		t.Error("the first call passes; the refusal in mapFlow is no longer needed")
	}
	if !passes("pace/1", flow.Direct, 1) || !passes("pace/warm/3", flow.WarmUp, 3) {
		t.Error("the first call is refused; mapFlow refuses too little")
	}
}

func unsupported(t *testing.T, err error, field string) {
	t.Helper()
	var inv *rule.Invalid
	if !errors.Is(err, rule.ErrUnsupported) || !errors.As(err, &inv) || len(inv.Faults) != 1 || inv.Faults[0].Field != field {
		t.Errorf("%s: got %v", field, err)
	}
}
