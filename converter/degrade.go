package converter

import (
	"strconv"

	"github.com/rulewire/rulewire/rule"
)

// degradeWire is a circuit breaker as documents hold it: which member is the limit depends in the golang dialect on the
// strategy, and the time is in seconds in one dialect and in milliseconds in the other.
type degradeWire struct {
	rule.Degrade
	timeWindow, retryTimeoutMs int64
	maxAllowedRtMs, threshold  float64
}

var degradeCodecs = build(func(dialect DialectName) codec[rule.Degrade] {
	s := newSchema(dialect, func(r *degradeWire) *rule.Extra { return &r.Extra }, degradeFields())
	c := &shaped[degradeWire, rule.Degrade]{
		schema:   s,
		rule:     func(r *degradeWire) rule.Degrade { return r.Degrade },
		resource: func(r *rule.Degrade) string { return r.Resource },
	}
	if dialect == Java {
		s.finish = func(d *reader, r *degradeWire, o object) {
			r.TimeWindowMs = r.timeWindow * 1000
			if !s.has(o, "retryTimeoutMs") {
				return
			}
			r.TimeWindowMs = r.retryTimeoutMs
			if s.has(o, "timeWindow") && wholeSeconds(r.retryTimeoutMs) != r.timeWindow {
				// Somebody edited one of them; which, can't be known.
				d.rejectObject(o.at, "retryTimeoutMs", &Fault{Reason: "timeWindow of " + strconv.FormatInt(r.timeWindow, 10) +
					" s and retryTimeoutMs of " + strconv.FormatInt(r.retryTimeoutMs, 10) + " ms differ; remove one", Err: rule.ErrInvalid})
			}
		}
		c.wire = func(_ *writer, r *rule.Degrade) []degradeWire {
			w := degradeWire{Degrade: *r, timeWindow: wholeSeconds(r.TimeWindowMs)}
			if r.TimeWindowMs%1000 != 0 {
				w.retryTimeoutMs = r.TimeWindowMs
			}
			return []degradeWire{w}
		}
		return c
	}
	s.finish = func(d *reader, r *degradeWire, o object) {
		r.TimeWindowMs = r.retryTimeoutMs
		if r.Grade != rule.DegradeSlowRequestRatio {
			r.Count = r.threshold
			return
		}
		if !s.has(o, "maxAllowedRtMs") {
			d.absent(o.at, "maxAllowedRtMs", "missing maxAllowedRtMs, required for strategy 0 (slow requests)")
		}
		r.Count = r.maxAllowedRtMs
		if s.has(o, "slowRatioThreshold") && r.SlowRatioThreshold != r.threshold {
			d.rejectObject(o.at, "slowRatioThreshold", &Fault{Reason: "slowRatioThreshold and threshold differ; remove slowRatioThreshold", Err: rule.ErrInvalid})
		}
		r.SlowRatioThreshold = r.threshold
	}
	c.wire = func(_ *writer, r *rule.Degrade) []degradeWire {
		w := degradeWire{Degrade: *r, retryTimeoutMs: r.TimeWindowMs, threshold: r.Count}
		if r.Grade == rule.DegradeSlowRequestRatio {
			w.maxAllowedRtMs, w.threshold = r.Count, r.SlowRatioThreshold
			w.SlowRatioThreshold = s.template.SlowRatioThreshold // written as threshold
		} else {
			w.maxAllowedRtMs = -1
		}
		return []degradeWire{w}
	}
	c.spell = func(field string, has func(string) (string, bool)) string {
		grade, _ := has("strategy")
		slow := grade == "" || grade == "0"
		switch {
		case field == "count" && slow:
			return "maxAllowedRtMs"
		case field == "count", field == "slowRatioThreshold" && slow:
			return "threshold"
		case field == "timeWindow":
			return "retryTimeoutMs"
		}
		if name, ok := s.spelled[field]; ok {
			return name
		}
		return field
	}
	return c
})

// wholeSeconds rounds up: a breaker that a Java client opens a little longer protects; 0 s would be no rule at all.
func wholeSeconds(ms int64) int64 {
	s := ms / 1000
	if ms%1000 > 0 {
		s++
	}
	return s
}

func degradeFields() []field[degradeWire] {
	type r = degradeWire
	limit := wholeDouble(func(r *r) *float64 { return &r.maxAllowedRtMs })
	limit.same = func(a, _ *r) bool { return a.maxAllowedRtMs < 0 && a.Grade != rule.DegradeSlowRequestRatio }
	return append(entity(func(r *r) *string { return &r.ID }),
		same(req("resource"), text(func(r *r) *string { return &r.Resource })),
		both(own("limitApp", `"default"`), opt("limitApp", `"default"`), origin(func(r *r) *string { return &r.LimitApp })),
		both(own("grade", "0"), own("strategy", "0"), typed(func(r *r) *int32 { return (*int32)(&r.Grade) },
			choice{0, "slow requests"}, choice{1, "error ratio"}, choice{2, "error count"})),
		java(req("count"), double(func(r *r) *float64 { return &r.Count })),
		golang(opt("maxAllowedRtMs", "").exact(0), limit),
		golang(req("threshold"), double(func(r *r) *float64 { return &r.threshold })),
		both(own("slowRatioThreshold", "1"), opt("slowRatioThreshold", "1"), double(func(r *r) *float64 { return &r.SlowRatioThreshold })),
		java(own("timeWindow", "0").int32(), integer(func(r *r) *int64 { return &r.timeWindow })),
		both(opt("retryTimeoutMs", "").uint32(), own("retryTimeoutMs", "0").uint32(), integer(func(r *r) *int64 { return &r.retryTimeoutMs })),
		both(own("minRequestAmount", "5").int32(), own("minRequestAmount", "0").uint64(), integer(func(r *r) *int64 { return &r.MinRequestAmount })),
		both(own("statIntervalMs", "1000").int32(), own("statIntervalMs", "0").uint32(), integer(func(r *r) *int64 { return &r.StatIntervalMs })),
		both(own("regex", ""), opt("regex", ""), flag(func(r *r) *bool { return &r.Regex })),
		both(opt("statSlidingWindowBucketCount", "").uint32(), own("statSlidingWindowBucketCount", "0").uint32(),
			integer(func(r *r) *int64 { return &r.StatSlidingWindowBucketCount })),
		both(opt("probeNum", "").uint64(), own("probeNum", "0").uint64(), integer(func(r *r) *int64 { return &r.ProbeNum })),
	)
}
