package rule

import "math"

// Equality covers every field, also ID and Extra: an edit of any of them is a change that a store and a dashboard must
// see. The property test in equal_test.go mutates each field of each kind, so a field that is added and forgotten here
// fails. An absent list equals an empty one; NaN equals NaN, so that a rule always equals its clone.

func sameFloat(a, b float64) bool { return a == b || (math.IsNaN(a) && math.IsNaN(b)) }

// Equal says whether both hold the same members in the same order.
func (e Extra) Equal(other Extra) bool {
	if len(e) != len(other) {
		return false
	}
	for i := range e {
		if e[i] != other[i] {
			return false
		}
	}
	return true
}

func sameID(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// Equal compares every field.
func (r *Flow) Equal(o *Flow) bool {
	return r.Resource == o.Resource && sameFloat(r.Count, o.Count) && r.ID == o.ID && r.LimitApp == o.LimitApp &&
		r.Grade == o.Grade && r.Strategy == o.Strategy && r.RefResource == o.RefResource &&
		r.ControlBehavior == o.ControlBehavior && r.WarmUpPeriodSec == o.WarmUpPeriodSec &&
		r.MaxQueueingTimeMs == o.MaxQueueingTimeMs && r.ClusterMode == o.ClusterMode && r.Regex == o.Regex &&
		r.MemoryAdaptive == o.MemoryAdaptive && r.WarmUpColdFactor == o.WarmUpColdFactor &&
		r.StatIntervalInMs == o.StatIntervalInMs && r.LowMemUsageThreshold == o.LowMemUsageThreshold &&
		r.HighMemUsageThreshold == o.HighMemUsageThreshold && r.MemLowWaterMarkBytes == o.MemLowWaterMarkBytes &&
		r.MemHighWaterMarkBytes == o.MemHighWaterMarkBytes && r.ClusterConfig.Equal(o.ClusterConfig) && r.Extra.Equal(o.Extra)
}

// Equal compares every field; nil equals nil only.
func (c *ClusterFlowConfig) Equal(o *ClusterFlowConfig) bool {
	if c == nil || o == nil {
		return c == o
	}
	return sameID(c.FlowID, o.FlowID) && c.ThresholdType == o.ThresholdType &&
		c.FallbackToLocalWhenFail == o.FallbackToLocalWhenFail && c.Strategy == o.Strategy &&
		c.SampleCount == o.SampleCount && c.WindowIntervalMs == o.WindowIntervalMs &&
		c.ResourceTimeout == o.ResourceTimeout && c.ResourceTimeoutStrategy == o.ResourceTimeoutStrategy &&
		c.AcquireRefuseStrategy == o.AcquireRefuseStrategy && c.ClientOfflineTime == o.ClientOfflineTime && c.Extra.Equal(o.Extra)
}

// Equal compares every field.
func (r *Degrade) Equal(o *Degrade) bool {
	return r.Resource == o.Resource && sameFloat(r.Count, o.Count) && r.ID == o.ID && r.LimitApp == o.LimitApp &&
		r.Grade == o.Grade && r.TimeWindowMs == o.TimeWindowMs && r.MinRequestAmount == o.MinRequestAmount &&
		sameFloat(r.SlowRatioThreshold, o.SlowRatioThreshold) && r.StatIntervalMs == o.StatIntervalMs && r.Regex == o.Regex &&
		r.StatSlidingWindowBucketCount == o.StatSlidingWindowBucketCount && r.ProbeNum == o.ProbeNum && r.Extra.Equal(o.Extra)
}

// Equal compares every field. All negative limits are the same: off.
func (r *System) Equal(o *System) bool {
	return sameLimit(r.HighestSystemLoad, o.HighestSystemLoad) && sameLimit(r.HighestCPUUsage, o.HighestCPUUsage) &&
		sameLimit(r.QPS, o.QPS) && (r.AvgRT == o.AvgRT || (r.AvgRT < 0 && o.AvgRT < 0)) &&
		(r.MaxThread == o.MaxThread || (r.MaxThread < 0 && o.MaxThread < 0)) && r.ID == o.ID &&
		r.Resource == o.Resource && r.LimitApp == o.LimitApp && r.Regex == o.Regex && r.Strategy == o.Strategy && r.Extra.Equal(o.Extra)
}

func sameLimit(a, b float64) bool { return sameFloat(a, b) || (a < 0 && b < 0) }

// Equal compares every field.
func (r *Authority) Equal(o *Authority) bool {
	return r.Resource == o.Resource && r.LimitApp == o.LimitApp && r.Strategy == o.Strategy && r.ID == o.ID &&
		r.Regex == o.Regex && r.Extra.Equal(o.Extra)
}

// Equal compares every field and every item.
func (r *ParamFlow) Equal(o *ParamFlow) bool {
	if !(r.Resource == o.Resource && sameFloat(r.Count, o.Count) && r.ID == o.ID && r.LimitApp == o.LimitApp &&
		r.Grade == o.Grade && r.ParamIdx == o.ParamIdx && r.ControlBehavior == o.ControlBehavior &&
		r.MaxQueueingTimeMs == o.MaxQueueingTimeMs && r.BurstCount == o.BurstCount && r.DurationInSec == o.DurationInSec &&
		r.ClusterMode == o.ClusterMode && r.Regex == o.Regex && r.ParamKey == o.ParamKey &&
		r.ParamsMaxCapacity == o.ParamsMaxCapacity && len(r.Items) == len(o.Items) &&
		r.ClusterConfig.Equal(o.ClusterConfig) && r.Extra.Equal(o.Extra)) {
		return false
	}
	for i := range r.Items {
		if !r.Items[i].Equal(&o.Items[i]) {
			return false
		}
	}
	return true
}

// Equal compares every field.
func (i *ParamFlowItem) Equal(o *ParamFlowItem) bool {
	return i.Object == o.Object && i.ClassType == o.ClassType && i.Count == o.Count && i.Extra.Equal(o.Extra)
}

// Equal compares every field; nil equals nil only.
func (c *ParamFlowClusterConfig) Equal(o *ParamFlowClusterConfig) bool {
	if c == nil || o == nil {
		return c == o
	}
	return sameID(c.FlowID, o.FlowID) && c.ThresholdType == o.ThresholdType &&
		c.FallbackToLocalWhenFail == o.FallbackToLocalWhenFail && c.SampleCount == o.SampleCount &&
		c.WindowIntervalMs == o.WindowIntervalMs && c.Extra.Equal(o.Extra)
}

// Equal compares every field.
func (r *Isolation) Equal(o *Isolation) bool {
	return r.Resource == o.Resource && r.Threshold == o.Threshold && r.ID == o.ID && r.MetricType == o.MetricType &&
		r.Regex == o.Regex && r.Extra.Equal(o.Extra)
}
