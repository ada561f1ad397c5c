package sentinel

import (
	"maps"
	"math"

	"github.com/alibaba/sentinel-golang/core/circuitbreaker"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/core/hotspot"
	"github.com/alibaba/sentinel-golang/core/isolation"
	"github.com/alibaba/sentinel-golang/core/system"
)

// module is one of the core's rule managers, which are global to the process.
type module[C any] struct {
	name     string
	resource func(*C) string
	id       func(*C) string
	valid    func(*C) error
	load     func([]*C) (bool, error)
	// loadOf replaces the rules of one resource; nil where the core has no such thing.
	loadOf func(string, []*C) (bool, error)
	// live copies the rules that the core has in force.
	live   func() []C
	liveOf func(string) []C
	// same says that two rules have the same effect: everything but the ID.
	same func(a, b *C) bool
	// alike says that the core takes two rules for the same one: it then goes on with the rule, the statistics and the
	// breaker that it has, and throws the new rule away. Where the core's comparison forgets a field, two rules are
	// alike but not the same. nil where the core keeps no state.
	alike func(a, b *C) bool
	// step gives a rule that is alike to neither the old nor the new one; nil where alike implies same.
	step func(C) C
	// keepsID says that the core goes on showing the old ID if nothing but the ID changed.
	keepsID bool
	// clone copies what a rule points to; nil where it points to nothing.
	clone func(*C)
}

// near is the core's comparison of float64s (util.Float64Equals, 1.0.4).
func near(a, b float64) bool { return math.Abs(a-b) < 1e-8 }

// sameFlow: the threshold is all that a comparison of the other fields leaves.
func flowRest(a, b flow.Rule) bool {
	a.ID, b.ID, a.Threshold, b.Threshold = "", "", 0, 0
	return a == b
}

func flowModule() *module[flow.Rule] {
	return &module[flow.Rule]{
		name:     "flow",
		resource: func(r *flow.Rule) string { return r.Resource },
		id:       func(r *flow.Rule) string { return r.ID },
		valid:    flow.IsValidRule,
		load:     flow.LoadRules,
		loadOf:   flow.LoadRulesOfResource,
		live:     flow.GetRules,
		liveOf:   flow.GetRulesOfResource,
		same:     func(a, b *flow.Rule) bool { return a.Threshold == b.Threshold && flowRest(*a, *b) },
		alike:    func(a, b *flow.Rule) bool { return near(a.Threshold, b.Threshold) && flowRest(*a, *b) },
		step: func(r flow.Rule) flow.Rule {
			r.MaxQueueingTimeMs ^= 1
			return r
		},
		keepsID: true,
	}
}

func isolationModule() *module[isolation.Rule] {
	return &module[isolation.Rule]{
		name:     "isolation",
		resource: func(r *isolation.Rule) string { return r.Resource },
		id:       func(r *isolation.Rule) string { return r.ID },
		valid:    isolation.IsValidRule,
		load:     isolation.LoadRules,
		loadOf:   isolation.LoadRulesOfResource,
		live:     isolation.GetRules,
		liveOf:   isolation.GetRulesOfResource,
		same: func(a, b *isolation.Rule) bool {
			return a.Resource == b.Resource && a.MetricType == b.MetricType && a.Threshold == b.Threshold
		},
	}
}

// breakerAlike is circuitbreaker.Rule.isEqualsTo: it forgets ProbeNum and compares thresholds roughly.
func breakerAlike(a, b *circuitbreaker.Rule) bool {
	if a.Resource != b.Resource || a.Strategy != b.Strategy || a.RetryTimeoutMs != b.RetryTimeoutMs ||
		a.MinRequestAmount != b.MinRequestAmount || a.StatIntervalMs != b.StatIntervalMs ||
		a.StatSlidingWindowBucketCount != b.StatSlidingWindowBucketCount || !near(a.Threshold, b.Threshold) {
		return false
	}
	return a.Strategy != circuitbreaker.SlowRequestRatio || a.MaxAllowedRtMs == b.MaxAllowedRtMs
}

func breakerModule() *module[circuitbreaker.Rule] {
	return &module[circuitbreaker.Rule]{
		name:     "circuitbreaker",
		resource: func(r *circuitbreaker.Rule) string { return r.Resource },
		id:       func(r *circuitbreaker.Rule) string { return r.Id },
		valid:    circuitbreaker.IsValidRule,
		load:     circuitbreaker.LoadRules,
		loadOf:   circuitbreaker.LoadRulesOfResource,
		live:     circuitbreaker.GetRules,
		liveOf:   circuitbreaker.GetRulesOfResource,
		same: func(a, b *circuitbreaker.Rule) bool {
			x, y := *a, *b
			x.Id, y.Id = "", ""
			return x == y
		},
		alike: breakerAlike,
		step: func(r circuitbreaker.Rule) circuitbreaker.Rule {
			if r.RetryTimeoutMs == 1 {
				r.RetryTimeoutMs = 2 // 0 is not valid
			} else {
				r.RetryTimeoutMs ^= 1
			}
			return r
		},
	}
}

func systemModule() *module[system.Rule] {
	return &module[system.Rule]{
		name:     "system",
		resource: func(*system.Rule) string { return "" },
		id:       func(r *system.Rule) string { return r.ID },
		valid:    system.IsValidSystemRule,
		load:     system.LoadRules,
		live:     system.GetRules,
		same: func(a, b *system.Rule) bool {
			// What is not BBR acts as no strategy, and a program that says nothing has 0 there.
			return a.MetricType == b.MetricType && a.TriggerCount == b.TriggerCount && (a.Strategy == system.BBR) == (b.Strategy == system.BBR)
		},
	}
}

// hotspotSame is hotspot.Rule.Equals, which leaves out only what plays no part: the burst of a rate limiter and the
// queue of a rule that rejects.
func hotspotSame(a, b *hotspot.Rule) bool {
	if a.Resource != b.Resource || a.MetricType != b.MetricType || a.ControlBehavior != b.ControlBehavior ||
		a.ParamsMaxCapacity != b.ParamsMaxCapacity || a.ParamIndex != b.ParamIndex || a.ParamKey != b.ParamKey ||
		a.Threshold != b.Threshold || a.DurationInSec != b.DurationInSec || !maps.Equal(a.SpecificItems, b.SpecificItems) {
		return false
	}
	if a.ControlBehavior == hotspot.Throttling {
		return a.MaxQueueingTimeMs == b.MaxQueueingTimeMs
	}
	return a.BurstCount == b.BurstCount
}

func hotspotModule() *module[hotspot.Rule] {
	return &module[hotspot.Rule]{
		name:     "hotspot",
		resource: func(r *hotspot.Rule) string { return r.Resource },
		id:       func(r *hotspot.Rule) string { return r.ID },
		valid:    hotspot.IsValidRule,
		load:     hotspot.LoadRules,
		loadOf:   hotspot.LoadRulesOfResource,
		live:     hotspot.GetRules,
		liveOf:   hotspot.GetRulesOfResource,
		same:     hotspotSame,
		alike:    hotspotSame,
		keepsID:  true,
		clone:    func(r *hotspot.Rule) { r.SpecificItems = maps.Clone(r.SpecificItems) },
	}
}
