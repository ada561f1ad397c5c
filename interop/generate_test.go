package interop

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/rulewire/rulewire/rule"
)

// generator makes rules that Java and we both call valid, from a seed, with whatever their members can hold.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 20))} }

// pick gives one of the choices.
func pick[V any](g generator, choices ...V) V { return choices[g.IntN(len(choices))] }

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

// list makes n rules of different resources.
func list[R any](n int, one func(i int) R) []R {
	all := make([]R, n)
	for i := range all {
		all[i] = one(i)
	}
	return all
}

func (g generator) resource(i int) string {
	return pick(g, "/orders/{id}", "GET:/a+b", "50% off", "订单/创建", "com.example.Shop:buy(java.lang.String)", `quo"te\back`, "tab\there",
		"é à", "a b", "<html>&amp;", "\u2028line", "🚀", "null", "[]", "true", "1", "#1", "- a: b", "'") + "-" + strconv.Itoa(i)
}

func (g generator) id() string {
	return pick(g, "", "", "1", strconv.FormatInt(g.Int64(), 10), "-5", "rule-a", "007", "9223372036854775808")
}

func (g generator) origin() string {
	return pick(g, "default", "default", "default", "other", "shop-a", "买家")
}

func (g generator) count() float64 {
	return pick(g, 0, 1, 20, 0.5, 1.25, 1e-7, 123456.789, 1e10, float64(g.IntN(1000)), g.Float64()*1000, math.MaxInt32)
}

func (g generator) extra(names ...string) rule.Extra {
	var e rule.Extra
	for _, name := range names {
		if g.chance(20) {
			e = append(e, rule.Member{Name: name, Value: pick(g, `1`, `"x"`, `null`, `[1,{"a":"b"}]`, `{"deep":{"er":[true]}}`)})
		}
	}
	return e
}

// pattern gives a resource name for a regular expression.
func (g generator) pattern(i int) string { return "/api/v[0-9]+/.*-" + strconv.Itoa(i) }

func (g generator) flow(i int) rule.Flow {
	r := rule.Flow{
		ID: g.id(), Resource: g.resource(i), LimitApp: g.origin(), Count: g.count(),
		Grade:           pick(g, rule.GradeQPS, rule.GradeQPS, rule.GradeThread),
		Strategy:        pick(g, rule.StrategyDirect, rule.StrategyDirect, rule.StrategyRelate, rule.StrategyChain),
		ControlBehavior: rule.ControlBehavior(g.IntN(4)),
		WarmUpPeriodSec: pick[int64](g, 1, 10, 3600), MaxQueueingTimeMs: pick[int64](g, 1, 500, 60_000),
		Extra: g.extra("futureMember", "x-note", "zz"),
	}
	if r.Grade == rule.GradeThread {
		r.ControlBehavior = rule.ControlReject
	}
	if r.ControlBehavior == rule.ControlRateLimiter && r.Count < 0.5 {
		r.Count = 0.5 // below, Java 1.8.9 divides by the rounded count: see TestJavaCantLoadASlowerPaceThanOneInTwoSeconds
	}
	if r.Strategy != rule.StrategyDirect {
		r.RefResource = g.resource(1000 + i)
	}
	if g.chance(20) {
		r.Regex, r.Resource = true, g.pattern(i)
		r.Strategy, r.RefResource, r.ControlBehavior = rule.StrategyDirect, "", rule.ControlReject
	}
	if g.chance(40) {
		r.ClusterConfig = &rule.ClusterFlowConfig{
			ThresholdType: int64(g.IntN(2)), FallbackToLocalWhenFail: g.chance(50), SampleCount: 10, WindowIntervalMs: pick[int64](g, 1000, 2000),
			ResourceTimeout: 2000, ClientOfflineTime: pick[int64](g, 2000, 5000), Extra: g.extra("newer"),
		}
		if g.chance(50) {
			id := g.Int64N(1 << 40)
			id++
			r.ClusterConfig.FlowID = &id
			r.ClusterMode = !r.Regex && g.chance(50)
		}
	}
	if g.chance(30) { // members that Java does not know
		r.StatIntervalInMs = pick[int64](g, 1000, 10_000)
		if r.ControlBehavior&1 == 1 {
			r.WarmUpColdFactor = pick[int64](g, 2, 3, 5)
		}
	}
	return r
}

func (g generator) degrade(i int) rule.Degrade {
	r := rule.Degrade{
		ID: g.id(), Resource: g.resource(i), LimitApp: "default", Grade: rule.DegradeGrade(g.IntN(3)),
		TimeWindowMs: pick[int64](g, 1000, 10_000, 86_400_000, 1500, 1), MinRequestAmount: pick[int64](g, 1, 5, 1000),
		StatIntervalMs: pick[int64](g, 1000, 60_000), SlowRatioThreshold: 1, Extra: g.extra("futureMember"),
	}
	switch r.Grade {
	case rule.DegradeSlowRequestRatio:
		r.Count, r.SlowRatioThreshold = float64(g.IntN(5000)), pick(g, 1, 0.4, 0.05, g.Float64())
	case rule.DegradeErrorRatio:
		r.Count = pick(g, 0, 1, 0.5, g.Float64())
	default:
		r.Count = float64(g.IntN(100))
	}
	if g.chance(20) {
		r.Regex, r.Resource = true, g.pattern(i)
	}
	if g.chance(30) {
		r.ProbeNum = pick[int64](g, 1, 5)
		r.StatSlidingWindowBucketCount = pick[int64](g, 1, 10)
	}
	return r
}

func (g generator) system(i int) rule.System {
	r := rule.System{
		ID:                strconv.Itoa(1000 + i), // two that are equal would be one
		HighestSystemLoad: rule.Unset, HighestCPUUsage: rule.Unset, QPS: rule.Unset, AvgRT: rule.Unset, MaxThread: rule.Unset,
		LimitApp: "default", Strategy: rule.AdaptiveNone, Extra: g.extra("futureMember"),
	}
	set := 1 + g.IntN(31) // at least one limit
	if set&1 != 0 {
		r.HighestSystemLoad = pick(g, 0, 3.5, g.Float64()*64)
	}
	if set&2 != 0 {
		r.HighestCPUUsage = pick(g, 0, 1, 0.8, g.Float64())
	}
	if set&4 != 0 {
		r.QPS = pick(g, 0, 500, 0.5, 1e6)
	}
	if set&8 != 0 {
		r.AvgRT = pick[int64](g, 0, 20, 5000)
	}
	if set&16 != 0 {
		r.MaxThread = pick[int64](g, 0, 10, 5000)
	}
	return r
}

func (g generator) authority(i int) rule.Authority {
	return rule.Authority{
		ID: g.id(), Resource: g.resource(i), LimitApp: strings.Join([]string{"appA", "appB", "买家"}[:1+g.IntN(3)], ","),
		Strategy: rule.AuthorityStrategy(g.IntN(2)), Extra: g.extra("futureMember"),
	}
}

func (g generator) paramFlow(i int) rule.ParamFlow {
	r := rule.ParamFlow{
		ID: g.id(), Resource: g.resource(i), LimitApp: "default", Grade: pick(g, rule.GradeQPS, rule.GradeQPS, rule.GradeThread),
		ParamIdx: pick[int64](g, 0, 1, 5, -1), Count: g.count(), ControlBehavior: pick(g, rule.ControlReject, rule.ControlRateLimiter),
		MaxQueueingTimeMs: pick[int64](g, 0, 500), BurstCount: pick[int64](g, 0, 10), DurationInSec: pick[int64](g, 1, 60),
		Extra: g.extra("futureMember"),
	}
	for n := range g.IntN(3) {
		item := pick(g, // each value once in a rule
			rule.ParamFlowItem{Object: strconv.Itoa(n), ClassType: "int"},
			rule.ParamFlowItem{Object: fmt.Sprint(g.Int64() - g.Int64()), ClassType: "long"},
			rule.ParamFlowItem{Object: "1." + strconv.Itoa(n), ClassType: "double"},
			rule.ParamFlowItem{Object: "2." + strconv.Itoa(n), ClassType: "float"},
			rule.ParamFlowItem{Object: strconv.FormatBool(n == 0), ClassType: "boolean"},
			rule.ParamFlowItem{Object: string(rune('x' + n)), ClassType: "char"},
			rule.ParamFlowItem{Object: "7" + strconv.Itoa(n), ClassType: "byte"},
			rule.ParamFlowItem{Object: "30" + strconv.Itoa(n), ClassType: "short"},
			rule.ParamFlowItem{Object: "买家" + strconv.Itoa(n), ClassType: "java.lang.String"},
			rule.ParamFlowItem{Object: "vip" + strconv.Itoa(n), ClassType: "String"})
		item.Count = int64(g.IntN(500))
		item.Extra = g.extra("newer")
		r.Items = append(r.Items, item)
	}
	if g.chance(30) {
		id := 1 + g.Int64N(1<<40)
		r.ClusterConfig = &rule.ParamFlowClusterConfig{FlowID: &id, ThresholdType: int64(g.IntN(2)), FallbackToLocalWhenFail: g.chance(50),
			SampleCount: 10, WindowIntervalMs: 1000, Extra: g.extra("newer")}
	}
	if g.chance(30) {
		r.ParamsMaxCapacity = pick[int64](g, 100, 20_000)
	}
	return r
}
