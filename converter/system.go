package converter

import (
	"strconv"

	"github.com/rulewire/rulewire/rule"
)

// systemWire is a system rule of the golang dialect: one limit, named by a number.
type systemWire struct {
	rule.System
	metric  int64
	trigger float64
}

// The metric numbers of sentinel-golang's core/system.MetricType.
const (
	metricLoad = iota
	metricAvgRT
	metricConcurrency
	metricQPS
	metricCPU
)

var systemCodecs = build(func(dialect DialectName) codec[rule.System] {
	if dialect == Java {
		s := newSchema(dialect, func(r *rule.System) *rule.Extra { return &r.Extra }, systemFields())
		s.finish = func(d *reader, r *rule.System, o object) {
			any := false
			for _, limit := range systemLimits {
				any = any || s.has(o, limit)
			}
			if !any {
				d.absent(o.at, "", "a system rule must set at least one of "+list(systemLimits, "and"))
			}
			unset(r)
		}
		return s
	}
	s := newSchema(dialect, func(r *systemWire) *rule.Extra { return &r.Extra }, systemWireFields())
	s.finish = func(d *reader, r *systemWire, o object) {
		r.HighestSystemLoad, r.HighestCPUUsage, r.QPS, r.AvgRT, r.MaxThread = rule.Unset, rule.Unset, rule.Unset, rule.Unset, rule.Unset
		if !s.has(o, "triggerCount") {
			return
		}
		if r.trigger < 0 {
			// In Java a negative limit is off; here it would leave a rule without any limit.
			d.rejectObject(o.at, "triggerCount", &Fault{Expected: "a number >= 0", Found: string(appendFloat(nil, r.trigger)), Err: rule.ErrInvalid})
			return
		}
		switch r.metric {
		case metricLoad:
			r.HighestSystemLoad = r.trigger
		case metricCPU:
			r.HighestCPUUsage = r.trigger
		case metricQPS:
			r.QPS = r.trigger
		case metricAvgRT, metricConcurrency:
			n, kind := parseInt(appendFloat(nil, r.trigger))
			if kind != isInteger || n > 1<<53 {
				d.rejectObject(o.at, "triggerCount", &Fault{Expected: "a whole number up to 2^53 for metricType " + strconv.FormatInt(r.metric, 10),
					Found: string(appendFloat(nil, r.trigger)), Err: rule.ErrInvalid})
			}
			if r.metric == metricAvgRT {
				r.AvgRT = n
			} else {
				r.MaxThread = n
			}
		}
	}
	return &shaped[systemWire, rule.System]{
		schema: s,
		rule:   func(r *systemWire) rule.System { return r.System },
		wire: func(w *writer, r *rule.System) []systemWire {
			var all []systemWire
			add := func(metric int64, limit float64) {
				if !(limit < 0) {
					all = append(all, systemWire{System: *r, metric: metric, trigger: limit})
				}
			}
			add(metricLoad, r.HighestSystemLoad)
			add(metricAvgRT, float64(r.AvgRT))
			add(metricConcurrency, float64(r.MaxThread))
			add(metricQPS, r.QPS)
			add(metricCPU, r.HighestCPUUsage)
			if len(all) == 0 {
				w.fail("", rule.ErrUnsupported, "the golang dialect has no system rule without a limit")
			}
			if most := int64(1) << 53; r.AvgRT > most || r.MaxThread > most {
				w.fail("triggerCount", rule.ErrUnsupported, "a limit above 2^53 is no exact double")
			}
			return all
		},
		spell: func(field string, _ func(string) (string, bool)) string {
			for _, limit := range systemLimits {
				if field == limit {
					return "triggerCount"
				}
			}
			return field
		},
	}
})

var systemLimits = []string{"highestSystemLoad", "highestCpuUsage", "qps", "avgRt", "maxThread"}

// unset makes every negative limit the one value that means off.
func unset(r *rule.System) {
	for _, limit := range []*float64{&r.HighestSystemLoad, &r.HighestCPUUsage, &r.QPS} {
		if *limit < 0 {
			*limit = rule.Unset
		}
	}
	r.AvgRT, r.MaxThread = max(r.AvgRT, rule.Unset), max(r.MaxThread, rule.Unset)
}

// adaptive is the strategy. 0, what a Go program that leaves it out has and writes, acts in the core as none.
func adaptive[R any](at func(*R) *rule.AdaptiveStrategy) value[R] {
	return enum(
		func(r *R) int64 {
			if *at(r) == 0 {
				return int64(rule.AdaptiveNone)
			}
			return int64(*at(r))
		},
		func(r *R, n int64) {
			if *at(r) = rule.AdaptiveStrategy(n); n == 0 {
				*at(r) = rule.AdaptiveNone
			}
		},
		choice{-1, "none"}, choice{0, "none"}, choice{1, "BBR"})
}

func systemFields() []field[rule.System] {
	type r = rule.System
	return append(entity(func(r *r) *string { return &r.ID }),
		java(own("highestSystemLoad", "-1"), double(func(r *r) *float64 { return &r.HighestSystemLoad })),
		java(own("highestCpuUsage", "-1"), double(func(r *r) *float64 { return &r.HighestCPUUsage })),
		java(own("qps", "-1"), double(func(r *r) *float64 { return &r.QPS })),
		java(own("avgRt", "-1"), integer(func(r *r) *int64 { return &r.AvgRT })),
		java(own("maxThread", "-1"), integer(func(r *r) *int64 { return &r.MaxThread })),
		java(opt("resource", ""), text(func(r *r) *string { return &r.Resource })),
		java(opt("limitApp", ""), text(func(r *r) *string { return &r.LimitApp })),
		java(own("regex", ""), flag(func(r *r) *bool { return &r.Regex })),
		java(opt("strategy", "-1"), adaptive(func(r *r) *rule.AdaptiveStrategy { return &r.Strategy })),
		golang(req("metricType"), ignored[r]()),
		golang(req("triggerCount"), ignored[r]()),
	)
}

func systemWireFields() []field[systemWire] {
	type r = systemWire
	fields := append(entity(func(r *r) *string { return &r.ID }),
		golang(req("metricType"), enum(func(r *r) int64 { return r.metric }, func(r *r, n int64) { r.metric = n },
			choice{metricLoad, "load"}, choice{metricAvgRT, "average RT"}, choice{metricConcurrency, "concurrency"},
			choice{metricQPS, "inbound QPS"}, choice{metricCPU, "CPU usage"})),
		golang(req("triggerCount"), double(func(r *r) *float64 { return &r.trigger })),
		golang(own("strategy", "-1"), adaptive(func(r *r) *rule.AdaptiveStrategy { return &r.Strategy })),
		golang(opt("resource", ""), text(func(r *r) *string { return &r.Resource })),
		golang(opt("limitApp", ""), text(func(r *r) *string { return &r.LimitApp })),
		golang(opt("regex", ""), flag(func(r *r) *bool { return &r.Regex })),
	)
	for _, limit := range systemLimits {
		fields = append(fields, java(opt(limit, ""), ignored[r]()))
	}
	return fields
}
