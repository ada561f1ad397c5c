package rule

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func validFlow() Flow {
	return Flow{Resource: "/order", LimitApp: "default", Grade: GradeQPS, Count: 10, WarmUpPeriodSec: 10, MaxQueueingTimeMs: 500}
}

func cluster() *ClusterFlowConfig {
	return &ClusterFlowConfig{FlowID: new(int64(7)), SampleCount: 10, WindowIntervalMs: 1000, ResourceTimeout: 2000, ClientOfflineTime: 2000}
}

func validDegrade() Degrade {
	return Degrade{Resource: "stock", Count: 200, TimeWindowMs: 10_000, MinRequestAmount: 5, SlowRatioThreshold: 1, StatIntervalMs: 1000}
}

func validSystem() System {
	return System{HighestSystemLoad: Unset, HighestCPUUsage: 0.8, QPS: Unset, AvgRT: Unset, MaxThread: Unset, Strategy: AdaptiveNone}
}

func validParam() ParamFlow {
	return ParamFlow{Resource: "/user", Grade: GradeQPS, Count: 3, DurationInSec: 1, Items: []ParamFlowItem{{Object: "42", ClassType: "int", Count: 9}}}
}

// faultsOf checks that the rule has exactly these faulty fields, in order.
func faultsOf[R any](t *testing.T, r R, want ...string) {
	t.Helper()
	err := TraitsOf[R]().Validate(&r)
	if len(want) == 0 {
		if err != nil {
			t.Errorf("%s: refused: %v", Describe(&r), err)
		}
		return
	}
	var inv *Invalid
	if !errors.As(err, &inv) || !errors.Is(err, ErrInvalid) {
		t.Errorf("%s: got %v, want an Invalid that wraps ErrInvalid", Describe(&r), err)
		return
	}
	var got []string
	for _, f := range inv.Faults {
		got = append(got, f.Field)
		if f.Reason == "" {
			t.Errorf("%s: no reason for %s", Describe(&r), f.Field)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: faults %v, want %v", Describe(&r), got, want)
	}
}

func with[R any](r R, edit func(*R)) R {
	edit(&r)
	return r
}

// faults: F021 F022 F044 F050
func TestInvalidFlowAccepted(t *testing.T) {
	f := func(edit func(*Flow), want ...string) { t.Helper(); faultsOf(t, with(validFlow(), edit), want...) }
	f(func(r *Flow) {})
	f(func(r *Flow) { r.Count = 0 })
	f(func(r *Flow) { r.Count = 0.5 })
	f(func(r *Flow) { r.LimitApp = "" })
	f(func(r *Flow) { r.Resource = "" }, "resource")
	f(func(r *Flow) { r.Resource = " \t" }, "resource")
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		f(func(r *Flow) { r.Count = bad }, "count")
	}
	f(func(r *Flow) { r.Grade = 2 }, "grade")
	f(func(r *Flow) { r.Grade = -1 }, "grade")
	f(func(r *Flow) { r.Strategy = 3 }, "strategy")
	f(func(r *Flow) { r.Strategy = StrategyRelate }, "refResource")
	f(func(r *Flow) { r.Strategy = StrategyChain; r.RefResource = "entry" })
	f(func(r *Flow) { r.ControlBehavior = 4 }, "controlBehavior")
	f(func(r *Flow) { r.ControlBehavior = 9; r.Count = -1; r.Resource = "" }, "resource", "count", "controlBehavior")
	f(func(r *Flow) { r.ControlBehavior = ControlWarmUp; r.WarmUpPeriodSec = 0 }, "warmUpPeriodSec")
	f(func(r *Flow) { r.ControlBehavior = ControlWarmUpRateLimiter; r.WarmUpPeriodSec = 0 }, "warmUpPeriodSec")
	f(func(r *Flow) { r.WarmUpPeriodSec = 0 })
	f(func(r *Flow) { r.ControlBehavior = ControlRateLimiter; r.MaxQueueingTimeMs = 0 }) // even pace, no queue: legal in Go
	f(func(r *Flow) { r.MaxQueueingTimeMs = -1 }, "maxQueueingTimeMs")
	f(func(r *Flow) { r.WarmUpColdFactor = 1 }, "warmUpColdFactor")
	f(func(r *Flow) { r.StatIntervalInMs = 600_001 }, "statIntervalInMs")
	f(func(r *Flow) { r.Regex = true; r.Resource = "/order/.*" })
	f(func(r *Flow) { r.Regex = true; r.Resource = "/order/(" }, "resource")
	f(func(r *Flow) { r.Regex = true; r.ControlBehavior = ControlRateLimiter }, "regex")
	f(func(r *Flow) { r.Regex = true; r.ClusterMode = true; r.ClusterConfig = cluster() }, "regex")
	f(func(r *Flow) { r.ClusterMode = true }, "clusterConfig")
	f(func(r *Flow) { r.ClusterMode = true; r.ClusterConfig = cluster() })
	f(func(r *Flow) { r.ClusterConfig = &ClusterFlowConfig{} }) // not in cluster mode: the Dashboard writes anything here
	f(func(r *Flow) { r.ClusterMode = true; r.ClusterConfig = cluster(); r.ClusterConfig.FlowID = nil }, "clusterConfig/flowId")
	f(func(r *Flow) {
		r.ClusterMode = true
		r.ClusterConfig = cluster()
		r.ClusterConfig.FlowID, r.ClusterConfig.FallbackToLocalWhenFail = nil, true
	})
	f(func(r *Flow) {
		r.ClusterMode = true
		r.ClusterConfig = cluster()
		r.ClusterConfig.WindowIntervalMs = 1001
		r.ClusterConfig.Strategy = 1
	}, "clusterConfig/windowIntervalMs", "clusterConfig/strategy")
	f(func(r *Flow) {
		r.Grade = GradeThread
		r.ClusterMode = true
		r.ClusterConfig = cluster()
		r.ClusterConfig.ClientOfflineTime = 0
		r.ClusterConfig.ResourceTimeout = 0
		r.ClusterConfig.SampleCount = 0
	}, "clusterConfig/sampleCount", "clusterConfig/clientOfflineTime", "clusterConfig/resourceTimeout")
	memory := func(r *Flow) {
		r.MemoryAdaptive = true
		r.LowMemUsageThreshold, r.HighMemUsageThreshold = 100, 10
		r.MemLowWaterMarkBytes, r.MemHighWaterMarkBytes = 1<<20, 1<<30
	}
	f(memory)
	f(func(r *Flow) { memory(r); r.HighMemUsageThreshold = 100 }, "highMemUsageThreshold")
	f(func(r *Flow) { memory(r); r.MemLowWaterMarkBytes = 1 << 30 }, "memLowWaterMarkBytes")
	f(func(r *Flow) { memory(r); r.ControlBehavior = ControlWarmUp }, "controlBehavior")
}

// faults: F021 F022 F044
func TestInvalidDegradeAccepted(t *testing.T) {
	f := func(edit func(*Degrade), want ...string) {
		t.Helper()
		faultsOf(t, with(validDegrade(), edit), want...)
	}
	f(func(r *Degrade) {})
	f(func(r *Degrade) { r.MinRequestAmount = 0 }) // golang default
	f(func(r *Degrade) { r.MinRequestAmount = -1 }, "minRequestAmount")
	f(func(r *Degrade) { r.TimeWindowMs = 0 }, "timeWindow")
	f(func(r *Degrade) { r.StatIntervalMs = 0 }, "statIntervalMs")
	f(func(r *Degrade) { r.SlowRatioThreshold = 1.01 }, "slowRatioThreshold")
	f(func(r *Degrade) { r.SlowRatioThreshold = math.NaN() }, "slowRatioThreshold")
	f(func(r *Degrade) { r.Grade = DegradeErrorRatio; r.Count = 0.5; r.SlowRatioThreshold = 7 }) // plays no part
	f(func(r *Degrade) { r.Grade = DegradeErrorRatio; r.Count = 1.5 }, "count")
	f(func(r *Degrade) { r.Grade = DegradeErrorCount; r.Count = 40 })
	f(func(r *Degrade) { r.Grade = 3 }, "grade")
	f(func(r *Degrade) { r.ProbeNum = -1; r.StatSlidingWindowBucketCount = -1 }, "statSlidingWindowBucketCount", "probeNum")
	f(func(r *Degrade) { r.Resource = ""; r.Count = -1 }, "resource", "count")
	f(func(r *Degrade) { r.Regex = true; r.Resource = "*" }, "resource")
}

// faults: F022 F047
func TestInvalidSystemAccepted(t *testing.T) {
	f := func(edit func(*System), want ...string) { t.Helper(); faultsOf(t, with(validSystem(), edit), want...) }
	f(func(r *System) {})
	f(func(r *System) { r.MaxThread = 0 })
	f(func(r *System) { r.Strategy = AdaptiveBBR })
	f(func(r *System) { r.Strategy = 0 })
	f(func(r *System) { r.Strategy = 5 }, "strategy")
	f(func(r *System) { r.HighestCPUUsage = 1.5 }, "highestCpuUsage")
	f(func(r *System) { r.HighestCPUUsage = Unset }, "qps") // nothing set at all
	f(func(r *System) { r.QPS = math.NaN(); r.HighestSystemLoad = math.Inf(1) }, "highestSystemLoad", "qps")
}

func TestInvalidAuthorityAccepted(t *testing.T) {
	faultsOf(t, Authority{Resource: "a", LimitApp: "x,y", Strategy: AuthorityBlack})
	faultsOf(t, Authority{Resource: "a", LimitApp: " , "}, "limitApp")
	faultsOf(t, Authority{Strategy: 2}, "resource", "limitApp", "strategy")
	faultsOf(t, Authority{Resource: "(", LimitApp: "x", Regex: true}, "resource")
}

// faults: F022 F031 F045
func TestInvalidParamFlowAccepted(t *testing.T) {
	f := func(edit func(*ParamFlow), want ...string) {
		t.Helper()
		faultsOf(t, with(validParam(), edit), want...)
	}
	item := func(object, class string, want ...string) {
		t.Helper()
		f(func(r *ParamFlow) { r.Items = []ParamFlowItem{{Object: object, ClassType: class, Count: 1}} }, want...)
	}
	f(func(r *ParamFlow) {})
	f(func(r *ParamFlow) { r.ParamIdx = -1; r.ControlBehavior = ControlRateLimiter })
	f(func(r *ParamFlow) { r.ControlBehavior = ControlWarmUp }, "controlBehavior")
	f(func(r *ParamFlow) { r.DurationInSec = 0 }, "durationInSec")
	f(func(r *ParamFlow) { r.DurationInSec = 0; r.Grade = GradeThread })
	f(func(r *ParamFlow) { r.Grade = 7 }, "grade")
	f(func(r *ParamFlow) {
		r.Count = -1
		r.BurstCount = -1
		r.MaxQueueingTimeMs = -1
		r.ParamsMaxCapacity = -1
	},
		"count", "maxQueueingTimeMs", "burstCount", "paramsMaxCapacity")
	f(func(r *ParamFlow) { r.ParamKey = "user"; r.ParamIdx = 1 }, "paramKey")
	f(func(r *ParamFlow) { r.ParamKey = "user" })
	f(func(r *ParamFlow) { r.ClusterMode = true }, "clusterConfig")
	f(func(r *ParamFlow) {
		r.ClusterMode = true
		r.ClusterConfig = &ParamFlowClusterConfig{SampleCount: 3, WindowIntervalMs: 1000}
	}, "clusterConfig/flowId", "clusterConfig/windowIntervalMs")
	f(func(r *ParamFlow) { r.Regex = true; r.Resource = "(" }, "resource")
	for class, good := range map[string]string{"int": "9", "java.lang.Integer": "-9", "long": "9000000000", "short": "32767", "byte": "-128",
		"double": "1.5", "float": "1e3", "boolean": "true", "char": "ü", "String": "", "java.lang.String": "x", "": "x"} {
		item(good, class)
	}
	for class, bad := range map[string]string{"int": "x9", "long": "1.0", "short": "32768", "byte": "128", "double": "NaN",
		"java.lang.Float": "inf", "boolean": "yes", "char": "ab", "java.lang.Character": "", "java.lang.Long": " 9"} {
		item(bad, class, "paramFlowItemList/0/object")
	}
	item("x", "java.util.Date", "paramFlowItemList/0/classType")
	f(func(r *ParamFlow) {
		r.Items = []ParamFlowItem{{Object: "1", ClassType: "int"}, {Object: "2", ClassType: "int", Count: -1}, {Object: "1", ClassType: "int", Count: 5}}
	}, "paramFlowItemList/1/count", "paramFlowItemList/2/object")
}

func TestInvalidIsolationAccepted(t *testing.T) {
	faultsOf(t, Isolation{Resource: "a", Threshold: 1})
	faultsOf(t, Isolation{Resource: "a", Threshold: math.MaxUint32})
	faultsOf(t, Isolation{Resource: "a", Threshold: 0}, "threshold")
	faultsOf(t, Isolation{Threshold: math.MaxUint32 + 1, MetricType: 1}, "resource", "metricType", "threshold")
	faultsOf(t, Isolation{Resource: "(", Threshold: 1, Regex: true}, "resource")
}

func TestValidRuleCostsAllocations(t *testing.T) {
	f, d, s, a, p, i := validFlow(), validDegrade(), validSystem(), Authority{Resource: "a", LimitApp: "x"}, validParam(), Isolation{Resource: "a", Threshold: 1}
	f.ClusterMode, f.ClusterConfig = true, cluster()
	if n := testing.AllocsPerRun(100, func() {
		if f.Validate() != nil || d.Validate() != nil || s.Validate() != nil || a.Validate() != nil || p.Validate() != nil || i.Validate() != nil {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations to validate one valid rule of each kind", n)
	}
}

// faults: F048
func TestKindNameSpelledOtherwiseNotFound(t *testing.T) {
	for _, name := range []string{"param-flow", "param_flow", "PARAM_FLOW", "paramFlow", "ParamFlow", "param.flow"} {
		if k, err := ParseKind(name); err != nil || k != KindParamFlow {
			t.Errorf("ParseKind(%q) = %q, %v", name, k, err)
		}
	}
	for _, k := range Kinds() {
		if got, err := ParseKind(strings.ToUpper(string(k))); err != nil || got != k {
			t.Errorf("ParseKind(upper %q) = %q, %v", k, got, err)
		}
	}
	_, err := ParseKind("flows")
	if !errors.Is(err, ErrUnknownKind) {
		t.Fatalf("got %v", err)
	}
	for _, k := range Kinds() {
		if !strings.Contains(err.Error(), string(k)) {
			t.Errorf("the error does not list %q: %v", k, err)
		}
	}
}

func TestEnumTextIsABareNumber(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{GradeThread.String(), "thread"}, {GradeQPS.String(), "qps"}, {FlowGrade(9).String(), "unknown(9)"},
		{StrategyDirect.String(), "direct"}, {StrategyRelate.String(), "relate"}, {StrategyChain.String(), "chain"}, {RelationStrategy(9).String(), "unknown(9)"},
		{ControlReject.String(), "reject"}, {ControlWarmUp.String(), "warm-up"}, {ControlRateLimiter.String(), "rate-limiter"},
		{ControlWarmUpRateLimiter.String(), "warm-up-rate-limiter"}, {ControlBehavior(-1).String(), "unknown(-1)"},
		{DegradeSlowRequestRatio.String(), "slow-request-ratio"}, {DegradeErrorRatio.String(), "error-ratio"}, {DegradeErrorCount.String(), "error-count"}, {DegradeGrade(9).String(), "unknown(9)"},
		{AuthorityWhite.String(), "white"}, {AuthorityBlack.String(), "black"}, {AuthorityStrategy(9).String(), "unknown(9)"},
		{AdaptiveNone.String(), "none"}, {AdaptiveBBR.String(), "bbr"}, {AdaptiveStrategy(9).String(), "unknown(9)"},
		{IsolationConcurrency.String(), "concurrency"}, {IsolationMetric(9).String(), "unknown(9)"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for c := ItemString; c <= ItemChar; c++ {
		if back, err := ParseItemClass(c.String()); err != nil || back != c {
			t.Errorf("class %v reads back as %v, %v", c, back, err)
		}
	}
}

// A document of the size cap holds a hundred thousand items; each with each would be five thousand million comparisons,
// and the readable would not end for half a minute.
func TestManyHotParameterItemsTakeQuadraticTime(t *testing.T) {
	r := validParam()
	r.Items = nil
	for i := range 100_000 {
		r.Items = append(r.Items, ParamFlowItem{Object: strconv.Itoa(i), ClassType: "int", Count: 1})
	}
	faultsOf(t, r)
	r.Items = append(r.Items, ParamFlowItem{Object: "7", ClassType: "int", Count: 1}, ParamFlowItem{Object: "8", ClassType: "int", Count: 2})
	faultsOf(t, r, "paramFlowItemList/100001/object")
}
