package command

import (
	"strconv"

	"github.com/rulewire/rulewire/rule"
)

// form is what the command centre needs to know of one kind beyond the kind's own type.
type form[T any] struct {
	// split gives a rule as the Dashboard sees it: nil = as it is. join is its inverse.
	split func(r *T) []T
	join  func(parts []T) T
	// key is what a rule is about, and shape tells rules with the same key apart where it can.
	key   func(r *T) string
	shape func(r *T) string
	// hide takes away what does not come back from the Dashboard, so that a rule that went through it equals itself.
	hide func(r *T)
	// merge fills what the Dashboard does not know into a pushed rule, from the rule that was there.
	merge func(pushed, before *T)
}

func itoa[N ~int32 | ~int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// keep gives before where pushed has nothing to say.
func keep[V comparable](pushed *V, before V) {
	var none V
	if *pushed == none {
		*pushed = before
	}
}

// keepExtra adds the unknown members that the push lacks.
func keepExtra(pushed *rule.Extra, before rule.Extra) {
	has := make(map[string]bool, len(*pushed))
	for _, m := range *pushed {
		has[m.Name] = true
	}
	for _, m := range before {
		if !has[m.Name] {
			*pushed = append(*pushed, m)
		}
	}
}

// The Dashboard builds flow, degrade and system rules anew, field by field: ids are dropped, regex comes back false, what it
// does not know is gone. Authority and hot-parameter rules come back as the Java object, with id and regex.
// Source: dashboard 1.8.9, FlowRuleEntity, DegradeRuleEntity, SystemRuleEntity.toRule; AbstractRuleEntity.

func flowForm() form[rule.Flow] {
	return form[rule.Flow]{
		key: func(r *rule.Flow) string { return r.Resource },
		shape: func(r *rule.Flow) string {
			return itoa(r.Grade) + "|" + itoa(r.Strategy) + "|" + r.RefResource + "|" + r.LimitApp
		},
		hide: func(r *rule.Flow) {
			r.ID, r.Regex, r.Extra = "", false, nil
			r.MemoryAdaptive, r.WarmUpColdFactor, r.StatIntervalInMs = false, 0, 0
			r.LowMemUsageThreshold, r.HighMemUsageThreshold, r.MemLowWaterMarkBytes, r.MemHighWaterMarkBytes = 0, 0, 0, 0
			if r.ClusterConfig != nil {
				c := *r.ClusterConfig
				c.Extra = nil
				r.ClusterConfig = &c
			}
		},
		merge: func(p, b *rule.Flow) {
			keep(&p.ID, b.ID)
			keep(&p.Regex, b.Regex)
			keepExtra(&p.Extra, b.Extra)
			keep(&p.WarmUpColdFactor, b.WarmUpColdFactor)
			keep(&p.StatIntervalInMs, b.StatIntervalInMs)
			if p.ControlBehavior == b.ControlBehavior { // else somebody chose another way of counting
				keep(&p.MemoryAdaptive, b.MemoryAdaptive)
				keep(&p.LowMemUsageThreshold, b.LowMemUsageThreshold)
				keep(&p.HighMemUsageThreshold, b.HighMemUsageThreshold)
				keep(&p.MemLowWaterMarkBytes, b.MemLowWaterMarkBytes)
				keep(&p.MemHighWaterMarkBytes, b.MemHighWaterMarkBytes)
			}
			switch {
			case b.ClusterConfig == nil:
			case p.ClusterConfig != nil:
				keepExtra(&p.ClusterConfig.Extra, b.ClusterConfig.Extra)
			case !p.ClusterMode:
				p.ClusterConfig = b.ClusterConfig
			}
		},
	}
}

func degradeForm() form[rule.Degrade] {
	// The dashboard has whole seconds; the converter writes a fraction rounded up, and the exact time beside it.
	shown := func(ms int64) int64 { return (ms + 999) / 1000 * 1000 }
	return form[rule.Degrade]{
		key:   func(r *rule.Degrade) string { return r.Resource },
		shape: func(r *rule.Degrade) string { return itoa(r.Grade) + "|" + r.LimitApp },
		hide: func(r *rule.Degrade) {
			r.ID, r.Regex, r.Extra = "", false, nil
			r.TimeWindowMs = shown(r.TimeWindowMs)
			r.StatSlidingWindowBucketCount, r.ProbeNum = 0, 0
		},
		merge: func(p, b *rule.Degrade) {
			keep(&p.ID, b.ID)
			keep(&p.Regex, b.Regex)
			keepExtra(&p.Extra, b.Extra)
			keep(&p.StatSlidingWindowBucketCount, b.StatSlidingWindowBucketCount)
			keep(&p.ProbeNum, b.ProbeNum)
			if p.TimeWindowMs == shown(b.TimeWindowMs) {
				p.TimeWindowMs = b.TimeWindowMs
			}
		},
	}
}

// systemLimit names the limit of a rule that has one.
func systemLimit(r *rule.System) string {
	switch {
	case !(r.HighestSystemLoad < 0):
		return "highestSystemLoad"
	case !(r.HighestCPUUsage < 0):
		return "highestCpuUsage"
	case !(r.QPS < 0):
		return "qps"
	case r.AvgRT >= 0:
		return "avgRt"
	case r.MaxThread >= 0:
		return "maxThread"
	}
	return ""
}

// systemForm: the Dashboard has a row, and so a rule, for each limit that is set.
func systemForm() form[rule.System] {
	return form[rule.System]{
		split: func(r *rule.System) []rule.System {
			var parts []rule.System
			bare := *r
			bare.HighestSystemLoad, bare.HighestCPUUsage, bare.QPS, bare.AvgRT, bare.MaxThread =
				rule.Unset, rule.Unset, rule.Unset, rule.Unset, rule.Unset
			add := func(set func(p *rule.System)) {
				p := bare
				set(&p)
				parts = append(parts, p)
			}
			if !(r.HighestSystemLoad < 0) {
				add(func(p *rule.System) { p.HighestSystemLoad = r.HighestSystemLoad })
			}
			if !(r.HighestCPUUsage < 0) {
				add(func(p *rule.System) { p.HighestCPUUsage = r.HighestCPUUsage })
			}
			if !(r.QPS < 0) {
				add(func(p *rule.System) { p.QPS = r.QPS })
			}
			if r.AvgRT >= 0 {
				add(func(p *rule.System) { p.AvgRT = r.AvgRT })
			}
			if r.MaxThread >= 0 {
				add(func(p *rule.System) { p.MaxThread = r.MaxThread })
			}
			if parts == nil {
				parts = append(parts, bare) // no limit at all: invalid, and for validation to say so
			}
			return parts
		},
		join: func(parts []rule.System) rule.System {
			r := parts[0]
			for _, p := range parts[1:] {
				r.HighestSystemLoad = max(r.HighestSystemLoad, p.HighestSystemLoad)
				r.HighestCPUUsage = max(r.HighestCPUUsage, p.HighestCPUUsage)
				r.QPS = max(r.QPS, p.QPS)
				r.AvgRT = max(r.AvgRT, p.AvgRT)
				r.MaxThread = max(r.MaxThread, p.MaxThread)
			}
			return r
		},
		key:   systemLimit,
		shape: func(*rule.System) string { return "" },
		hide: func(r *rule.System) {
			r.ID, r.Resource, r.LimitApp, r.Regex, r.Extra = "", "", "", false, nil
			r.Strategy = rule.AdaptiveNone
		},
		merge: func(p, b *rule.System) {
			keep(&p.ID, b.ID)
			keep(&p.Resource, b.Resource)
			keep(&p.LimitApp, b.LimitApp)
			keep(&p.Regex, b.Regex)
			keepExtra(&p.Extra, b.Extra)
			if p.Strategy == rule.AdaptiveNone {
				p.Strategy = b.Strategy
			}
		},
	}
}

func authorityForm() form[rule.Authority] {
	return form[rule.Authority]{
		key:   func(r *rule.Authority) string { return r.Resource },
		shape: func(*rule.Authority) string { return "" },
		hide:  func(r *rule.Authority) { r.ID, r.Extra = "", nil },
		merge: func(p, b *rule.Authority) {
			keep(&p.ID, b.ID)
			keepExtra(&p.Extra, b.Extra)
		},
	}
}

func paramFlowForm() form[rule.ParamFlow] {
	return form[rule.ParamFlow]{
		key:   func(r *rule.ParamFlow) string { return r.Resource },
		shape: func(r *rule.ParamFlow) string { return itoa(r.ParamIdx) + "|" + itoa(r.Grade) + "|" + r.LimitApp },
		hide: func(r *rule.ParamFlow) {
			r.ID, r.Extra, r.ParamKey, r.ParamsMaxCapacity = "", nil, "", 0
			items := make([]rule.ParamFlowItem, len(r.Items))
			for i, item := range r.Items {
				item.Extra = nil
				items[i] = item
			}
			r.Items = items
			if r.ClusterConfig != nil {
				c := *r.ClusterConfig
				c.Extra = nil
				r.ClusterConfig = &c
			}
		},
		merge: func(p, b *rule.ParamFlow) {
			keep(&p.ID, b.ID)
			keepExtra(&p.Extra, b.Extra)
			keep(&p.ParamKey, b.ParamKey)
			keep(&p.ParamsMaxCapacity, b.ParamsMaxCapacity)
			for i := range p.Items {
				for j := range b.Items {
					if p.Items[i].Object == b.Items[j].Object && p.Items[i].ClassType == b.Items[j].ClassType {
						keepExtra(&p.Items[i].Extra, b.Items[j].Extra)
					}
				}
			}
			switch {
			case b.ClusterConfig == nil:
			case p.ClusterConfig != nil:
				keepExtra(&p.ClusterConfig.Extra, b.ClusterConfig.Extra)
			case !p.ClusterMode:
				p.ClusterConfig = b.ClusterConfig
			}
		},
	}
}

func isolationForm() form[rule.Isolation] {
	return form[rule.Isolation]{
		key:   func(r *rule.Isolation) string { return r.Resource },
		shape: func(r *rule.Isolation) string { return itoa(r.MetricType) },
		hide:  func(r *rule.Isolation) { r.ID, r.Extra = "", nil },
		merge: func(p, b *rule.Isolation) {
			keep(&p.ID, b.ID)
			keepExtra(&p.Extra, b.Extra)
		},
	}
}
