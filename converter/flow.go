package converter

import "github.com/rulewire/rulewire/rule"

var flowCodecs = build(func(dialect DialectName) codec[rule.Flow] {
	cluster := newSchema(dialect, func(c *rule.ClusterFlowConfig) *rule.Extra { return &c.Extra }, clusterFlowFields())
	s := newSchema(dialect, func(r *rule.Flow) *rule.Extra { return &r.Extra }, flowFields(cluster))
	s.resource = func(r *rule.Flow) string { return r.Resource }
	s.rare = func(r *rule.Flow) bool {
		return r.RefResource != "" || r.ClusterConfig != nil || r.MemoryAdaptive || r.WarmUpColdFactor != 0 || r.StatIntervalInMs != 0 ||
			r.LowMemUsageThreshold != 0 || r.HighMemUsageThreshold != 0 || r.MemLowWaterMarkBytes != 0 || r.MemHighWaterMarkBytes != 0
	}
	if dialect == Java {
		return s
	}
	s.template.Grade = rule.GradeQPS // the only one there is
	s.spelled["strategy"] = "relationStrategy"
	s.check = func(w *writer, r *rule.Flow) {
		// Left out, a thread limit would be written as a limit of calls per second, and a chain rule as one for all callers.
		if r.Grade != rule.GradeQPS {
			w.fail("grade", rule.ErrUnsupported, "the golang dialect has no flow rule on threads; write an isolation rule")
		}
		if r.MemoryAdaptive && r.ControlBehavior&1 != 0 {
			w.fail("controlBehavior", rule.ErrUnsupported, "the golang dialect can't warm up a memory-adaptive limit")
		}
	}
	return s
})

var (
	gradeChoices = []choice{{0, "threads"}, {1, "QPS"}}

	relationChoices = []choice{{0, "direct"}, {1, "relate"}, {2, "chain"}}

	behaviorChoices = []choice{{0, "reject"}, {1, "warm up"}, {2, "rate limiter"}, {3, "warm up and rate limiter"}}
)

func flowFields(cluster codec[rule.ClusterFlowConfig]) []field[rule.Flow] {
	type r = rule.Flow
	return append(entity(func(r *r) *string { return &r.ID }),
		same(req("resource"), text(func(r *r) *string { return &r.Resource })),
		both(req("count"), req("threshold"), double(func(r *r) *float64 { return &r.Count })),
		java(own("grade", "1"), typed(func(r *r) *int32 { return (*int32)(&r.Grade) }, gradeChoices...)),
		java(own("strategy", "0"), typed(func(r *r) *int32 { return (*int32)(&r.Strategy) }, relationChoices...)),
		golang(own("relationStrategy", "0"),
			typed(func(r *r) *int32 { return (*int32)(&r.Strategy) }, choice{0, "current resource"}, choice{1, "associated resource"})),
		same(seldom("refResource"), text(func(r *r) *string { return &r.RefResource })),

		// Java's four behaviours are the golang dialect's pair: bit 0 is the warm-up, bit 1 the queue.
		java(own("controlBehavior", "0"), typed(func(r *r) *int32 { return (*int32)(&r.ControlBehavior) }, behaviorChoices...)),
		golang(own("controlBehavior", "0"), enum(
			func(r *r) int64 { return int64(r.ControlBehavior >> 1) },
			func(r *r, n int64) { r.ControlBehavior = r.ControlBehavior&1 | rule.ControlBehavior(n<<1) },
			choice{0, "reject"}, choice{1, "throttling"})),
		golang(own("tokenCalculateStrategy", "0"), enum(
			func(r *r) int64 {
				if r.MemoryAdaptive {
					return 2
				}
				return int64(r.ControlBehavior & 1)
			},
			func(r *r, n int64) {
				r.ControlBehavior = r.ControlBehavior&^1 | rule.ControlBehavior(n&1)
				r.MemoryAdaptive = n == 2
			},
			choice{0, "direct"}, choice{1, "warm up"}, choice{2, "memory adaptive"})),
		// In the java dialect 0 and 1 would be a second, contradicting way to write controlBehavior.
		java(seldom("tokenCalculateStrategy"), enum(
			func(r *r) int64 {
				if r.MemoryAdaptive {
					return 2
				}
				return 0
			},
			func(r *r, n int64) { r.MemoryAdaptive = n == 2 }, choice{2, "memory adaptive; the rest is controlBehavior"})),

		both(own("warmUpPeriodSec", "10").int32(), own("warmUpPeriodSec", "0").uint32(), integer(func(r *r) *int64 { return &r.WarmUpPeriodSec })),
		both(own("maxQueueingTimeMs", "500").int32(), own("maxQueueingTimeMs", "0").uint32(), integer(func(r *r) *int64 { return &r.MaxQueueingTimeMs })),
		both(own("limitApp", `"default"`), opt("limitApp", `"default"`), origin(func(r *r) *string { return &r.LimitApp })),
		both(own("clusterMode", "false"), opt("clusterMode", "false"), flag(func(r *r) *bool { return &r.ClusterMode })),
		same(seldom("clusterConfig"), nested(func(r *r) **rule.ClusterFlowConfig { return &r.ClusterConfig }, cluster)),
		both(own("regex", ""), opt("regex", ""), flag(func(r *r) *bool { return &r.Regex })),

		both(seldom("warmUpColdFactor").uint32(), own("warmUpColdFactor", "0").uint32(), integer(func(r *r) *int64 { return &r.WarmUpColdFactor })),
		both(seldom("statIntervalInMs").uint32(), own("statIntervalInMs", "0").uint32(), integer(func(r *r) *int64 { return &r.StatIntervalInMs })),
		same(seldom("lowMemUsageThreshold"), integer(func(r *r) *int64 { return &r.LowMemUsageThreshold })),
		same(seldom("highMemUsageThreshold"), integer(func(r *r) *int64 { return &r.HighMemUsageThreshold })),
		same(seldom("memLowWaterMarkBytes"), integer(func(r *r) *int64 { return &r.MemLowWaterMarkBytes })),
		same(seldom("memHighWaterMarkBytes"), integer(func(r *r) *int64 { return &r.MemHighWaterMarkBytes })),
	)
}

func clusterFlowFields() []field[rule.ClusterFlowConfig] {
	type c = rule.ClusterFlowConfig
	return []field[c]{
		same(opt("flowId", ""), pointerTo(func(c *c) **int64 { return &c.FlowID })),
		same(own("thresholdType", "0").int32(), integer(func(c *c) *int64 { return &c.ThresholdType })),
		same(own("fallbackToLocalWhenFail", "true"), flag(func(c *c) *bool { return &c.FallbackToLocalWhenFail })),
		same(own("strategy", "0").int32(), integer(func(c *c) *int64 { return &c.Strategy })),
		same(own("sampleCount", "10").int32(), integer(func(c *c) *int64 { return &c.SampleCount })),
		same(own("windowIntervalMs", "1000").int32(), integer(func(c *c) *int64 { return &c.WindowIntervalMs })),
		same(own("resourceTimeout", "2000"), integer(func(c *c) *int64 { return &c.ResourceTimeout })),
		same(own("resourceTimeoutStrategy", "0").int32(), integer(func(c *c) *int64 { return &c.ResourceTimeoutStrategy })),
		same(own("acquireRefuseStrategy", "0").int32(), integer(func(c *c) *int64 { return &c.AcquireRefuseStrategy })),
		same(own("clientOfflineTime", "2000"), integer(func(c *c) *int64 { return &c.ClientOfflineTime })),
	}
}
