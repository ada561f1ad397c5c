package rule

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// faults collects what is wrong. It costs nothing while nothing is wrong.
type faults struct{ list []Fault }

func (f *faults) add(field, reason string) {
	f.list = append(f.list, Fault{Field: field, Reason: reason, Err: ErrInvalid})
}

func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &Invalid{Faults: f.list}
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func (f *faults) notBlank(field, v string) {
	if blank(v) {
		f.add(field, "must not be blank")
	}
}

// finite refuses NaN and infinities and says whether the value can be compared at all.
func (f *faults) finite(field string, v float64) bool {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		f.add(field, "must be a finite number, is "+strconv.FormatFloat(v, 'g', -1, 64))
		return false
	}
	return true
}

func (f *faults) count(field string, v float64) {
	if f.finite(field, v) && v < 0 {
		f.add(field, "must not be negative, is "+strconv.FormatFloat(v, 'g', -1, 64))
	}
}

func (f *faults) ratio(field string, v float64) {
	if f.finite(field, v) && (v < 0 || v > 1) {
		f.add(field, "must be in 0..1, is "+strconv.FormatFloat(v, 'g', -1, 64))
	}
}

func (f *faults) atLeast(field string, v, least int64) {
	if v < least {
		f.add(field, "must be at least "+strconv.FormatInt(least, 10)+", is "+strconv.FormatInt(v, 10))
	}
}

func (f *faults) inRange(field string, v, least, most int64) {
	if v < least || v > most {
		f.add(field, fmt.Sprintf("must be in %d..%d, is %d", least, most, v))
	}
}

// pattern checks a resource that is a regular expression. Go's syntax is that of RE2: a pattern with look-around or
// back-references, which Java takes, is a fault here.
func (f *faults) pattern(regex bool, resource string) {
	if !regex || blank(resource) {
		return
	}
	if _, err := regexp.Compile(resource); err != nil {
		f.add("resource", "is no regular expression: "+err.Error())
	}
}

func (f *faults) window(sampleCount, windowIntervalMs int64) {
	f.atLeast("clusterConfig/sampleCount", sampleCount, 1)
	f.atLeast("clusterConfig/windowIntervalMs", windowIntervalMs, 1)
	if sampleCount > 0 && windowIntervalMs > 0 && windowIntervalMs%sampleCount != 0 {
		f.add("clusterConfig/windowIntervalMs", fmt.Sprintf("must be a multiple of sampleCount %d, is %d", sampleCount, windowIntervalMs))
	}
}

// flowID asks for the id that a token server needs. A rule that may fall back to local counting can do without: the
// Dashboard writes "flowId":null until the server has given one, and the rule then counts locally.
func (f *faults) flowID(id *int64, fallback bool) {
	switch {
	case id != nil:
		f.atLeast("clusterConfig/flowId", *id, 1)
	case !fallback:
		f.add("clusterConfig/flowId", "is required in cluster mode without fallbackToLocalWhenFail")
	}
}

// maxStatIntervalMs is sentinel-golang's advice for the longest window of a flow rule; longer ones are a slip of units.
const maxStatIntervalMs = 10 * 60 * 1000

// Validate gives every fault of the rule as an Invalid, or nil.
//
// It is FlowRuleUtil.isValidRule of Java 1.8.9 united with flow.IsValidRule of sentinel-golang 1.0.4. Deviations:
// strategy and controlBehavior out of range are faults (Java lets them act as direct and reject); maxQueueingTimeMs may
// be 0 with a rate limiter (Java asks > 0), which in sentinel-golang means an even pace without a queue; refResource is
// required for a strategy other than direct whatever the grade (Java's thread rules without it do nothing).
func (r *Flow) Validate() error {
	var f faults
	f.notBlank("resource", r.Resource)
	f.count("count", r.Count)
	f.inRange("grade", int64(r.Grade), int64(GradeThread), int64(GradeQPS))
	f.inRange("strategy", int64(r.Strategy), int64(StrategyDirect), int64(StrategyChain))
	if (r.Strategy == StrategyRelate || r.Strategy == StrategyChain) && blank(r.RefResource) {
		f.add("refResource", "is required for strategy "+r.Strategy.String())
	}
	f.inRange("controlBehavior", int64(r.ControlBehavior), int64(ControlReject), int64(ControlWarmUpRateLimiter))
	warm := r.ControlBehavior == ControlWarmUp || r.ControlBehavior == ControlWarmUpRateLimiter
	if warm && r.Grade != GradeThread {
		f.atLeast("warmUpPeriodSec", r.WarmUpPeriodSec, 1)
	} else {
		f.atLeast("warmUpPeriodSec", r.WarmUpPeriodSec, 0)
	}
	f.atLeast("maxQueueingTimeMs", r.MaxQueueingTimeMs, 0)
	if r.WarmUpColdFactor < 0 || r.WarmUpColdFactor == 1 {
		f.add("warmUpColdFactor", "must be 0 (the core's default) or more than 1, is "+strconv.FormatInt(r.WarmUpColdFactor, 10))
	}
	f.inRange("statIntervalInMs", r.StatIntervalInMs, 0, maxStatIntervalMs)
	f.pattern(r.Regex, r.Resource)
	if r.Regex && r.ClusterMode {
		f.add("regex", "can't be used in cluster mode")
	}
	if r.Regex && r.ControlBehavior != ControlReject {
		f.add("regex", "can be used with controlBehavior 0 (reject) only")
	}
	if r.ClusterMode {
		r.validateCluster(&f)
	}
	if r.MemoryAdaptive {
		r.validateMemory(&f, warm)
	}
	return f.err()
}

func (r *Flow) validateCluster(f *faults) {
	c := r.ClusterConfig
	if c == nil {
		f.add("clusterConfig", "is required in cluster mode")
		return
	}
	f.flowID(c.FlowID, c.FallbackToLocalWhenFail)
	f.window(c.SampleCount, c.WindowIntervalMs)
	f.inRange("clusterConfig/thresholdType", c.ThresholdType, 0, 1)
	if r.Grade == GradeThread {
		f.atLeast("clusterConfig/clientOfflineTime", c.ClientOfflineTime, 1)
		f.atLeast("clusterConfig/resourceTimeout", c.ResourceTimeout, 1)
		f.inRange("clusterConfig/resourceTimeoutStrategy", c.ResourceTimeoutStrategy, 0, 2)
		f.inRange("clusterConfig/acquireRefuseStrategy", c.AcquireRefuseStrategy, 0, 2)
	} else if c.Strategy != 0 {
		f.add("clusterConfig/strategy", "must be 0, is "+strconv.FormatInt(c.Strategy, 10))
	}
}

func (r *Flow) validateMemory(f *faults, warm bool) {
	if warm {
		f.add("controlBehavior", "warm-up can't be combined with a memory-adaptive limit")
	}
	f.atLeast("lowMemUsageThreshold", r.LowMemUsageThreshold, 1)
	f.atLeast("highMemUsageThreshold", r.HighMemUsageThreshold, 1)
	if r.HighMemUsageThreshold >= r.LowMemUsageThreshold {
		f.add("highMemUsageThreshold", fmt.Sprintf("must be less than lowMemUsageThreshold %d, is %d", r.LowMemUsageThreshold, r.HighMemUsageThreshold))
	}
	f.atLeast("memLowWaterMarkBytes", r.MemLowWaterMarkBytes, 1)
	f.atLeast("memHighWaterMarkBytes", r.MemHighWaterMarkBytes, 1)
	if r.MemLowWaterMarkBytes >= r.MemHighWaterMarkBytes {
		f.add("memLowWaterMarkBytes", fmt.Sprintf("must be less than memHighWaterMarkBytes %d, is %d", r.MemHighWaterMarkBytes, r.MemLowWaterMarkBytes))
	}
}

// Validate gives every fault of the rule as an Invalid, or nil.
//
// It is DegradeRuleManager.isValidRule of Java 1.8.9 united with circuitbreaker.IsValidRule of sentinel-golang 1.0.4.
// Deviation: minRequestAmount may be 0 (Java asks > 0): it is the golang dialect's default and means that the first call
// can trip the breaker. statIntervalMs need not be a multiple of statSlidingWindowBucketCount; sentinel-golang then
// uses one bucket.
func (r *Degrade) Validate() error {
	var f faults
	f.notBlank("resource", r.Resource)
	f.inRange("grade", int64(r.Grade), int64(DegradeSlowRequestRatio), int64(DegradeErrorCount))
	if r.Grade == DegradeErrorRatio {
		f.ratio("count", r.Count)
	} else {
		f.count("count", r.Count)
	}
	f.atLeast("timeWindow", r.TimeWindowMs, 1)
	f.atLeast("minRequestAmount", r.MinRequestAmount, 0)
	if r.Grade == DegradeSlowRequestRatio {
		f.ratio("slowRatioThreshold", r.SlowRatioThreshold)
	} else {
		f.finite("slowRatioThreshold", r.SlowRatioThreshold)
	}
	f.atLeast("statIntervalMs", r.StatIntervalMs, 1)
	f.atLeast("statSlidingWindowBucketCount", r.StatSlidingWindowBucketCount, 0)
	f.atLeast("probeNum", r.ProbeNum, 0)
	f.pattern(r.Regex, r.Resource)
	return f.err()
}

// Validate gives every fault of the rule as an Invalid, or nil.
//
// Java has no check for system rules but ignores a CPU usage above 1; sentinel-golang refuses that. Every negative limit
// means "off". A rule that sets no limit is a fault: it does nothing, and `{}` in a document is an accident. Strategy 0
// is what sentinel-golang writes for a rule without a strategy, and is read as AdaptiveNone.
func (r *System) Validate() error {
	var f faults
	f.finite("highestSystemLoad", r.HighestSystemLoad)
	if f.finite("highestCpuUsage", r.HighestCPUUsage) && r.HighestCPUUsage > 1 {
		f.add("highestCpuUsage", "must be at most 1, is "+strconv.FormatFloat(r.HighestCPUUsage, 'g', -1, 64))
	}
	f.finite("qps", r.QPS)
	if r.HighestSystemLoad < 0 && r.HighestCPUUsage < 0 && r.QPS < 0 && r.AvgRT < 0 && r.MaxThread < 0 {
		f.add("qps", "no limit is set: one of highestSystemLoad, highestCpuUsage, qps, avgRt, maxThread must not be negative")
	}
	if r.Strategy != AdaptiveNone && r.Strategy != 0 && r.Strategy != AdaptiveBBR {
		f.add("strategy", "must be -1 (none) or 1 (BBR), is "+strconv.FormatInt(int64(r.Strategy), 10))
	}
	return f.err()
}

// Validate gives every fault of the rule as an Invalid, or nil. It is AuthorityRuleManager.isValidRule of Java 1.8.9;
// limitApp must hold at least one origin, and a strategy out of range is a fault.
func (r *Authority) Validate() error {
	var f faults
	f.notBlank("resource", r.Resource)
	if strings.Trim(r.LimitApp, ", \t\r\n") == "" {
		f.add("limitApp", "must name at least one origin")
	}
	f.inRange("strategy", int64(r.Strategy), int64(AuthorityWhite), int64(AuthorityBlack))
	f.pattern(r.Regex, r.Resource)
	return f.err()
}

// Validate gives every fault of the rule and of its items as an Invalid, or nil.
//
// It is ParamFlowRuleUtil.isValidRule of Java 1.8.9 united with hotspot.IsValidRule of sentinel-golang 1.0.4, plus the
// items: Java and sentinel-golang drop a bad item with a log line, here it is a fault. Deviations: controlBehavior is 0
// or 2; durationInSec may be 0 for a thread rule, where it plays no part.
func (r *ParamFlow) Validate() error {
	var f faults
	f.notBlank("resource", r.Resource)
	f.inRange("grade", int64(r.Grade), int64(GradeThread), int64(GradeQPS))
	f.count("count", r.Count)
	if r.ControlBehavior != ControlReject && r.ControlBehavior != ControlRateLimiter {
		f.add("controlBehavior", "must be 0 (reject) or 2 (rate limiter), is "+strconv.FormatInt(int64(r.ControlBehavior), 10))
	}
	f.atLeast("maxQueueingTimeMs", r.MaxQueueingTimeMs, 0)
	f.atLeast("burstCount", r.BurstCount, 0)
	if r.Grade == GradeThread {
		f.atLeast("durationInSec", r.DurationInSec, 0)
	} else {
		f.atLeast("durationInSec", r.DurationInSec, 1)
	}
	f.atLeast("paramsMaxCapacity", r.ParamsMaxCapacity, 0)
	if r.ParamKey != "" && r.ParamIdx > 0 {
		f.add("paramKey", "can't be combined with paramIdx "+strconv.FormatInt(r.ParamIdx, 10))
	}
	first := limitsOf(r.Items)
	for i := range r.Items {
		r.validateItem(&f, i, first)
	}
	f.pattern(r.Regex, r.Resource)
	if r.Regex && r.ClusterMode {
		f.add("regex", "can't be used in cluster mode")
	}
	if r.Regex && r.ControlBehavior != ControlReject {
		f.add("regex", "can be used with controlBehavior 0 (reject) only")
	}
	if r.ClusterMode {
		if c := r.ClusterConfig; c == nil {
			f.add("clusterConfig", "is required in cluster mode")
		} else {
			f.flowID(c.FlowID, c.FallbackToLocalWhenFail)
			f.window(c.SampleCount, c.WindowIntervalMs)
			f.inRange("clusterConfig/thresholdType", c.ThresholdType, 0, 1)
		}
	}
	return f.err()
}

func (r *ParamFlow) validateItem(f *faults, i int, first limits) {
	item := &r.Items[i]
	class, err := ParseItemClass(item.ClassType)
	if err != nil {
		f.add(itemField(i, "classType"), fmt.Sprintf("unknown class type %q; known are int, long, short, byte, double, float, boolean, char, String", item.ClassType))
	} else if !class.fits(item.Object) {
		f.add(itemField(i, "object"), fmt.Sprintf("%q is not a %s", item.Object, class))
	}
	if item.Count < 0 {
		f.add(itemField(i, "count"), "must not be negative, is "+strconv.FormatInt(item.Count, 10))
	}
	// Two limits for one value contradict each other; Java lets the last one win.
	if j := first.of(r.Items, i); j >= 0 {
		f.add(itemField(i, "object"), fmt.Sprintf("%q has two limits, see item %d", item.Object, j))
	}
}

// limits finds the first item of a value; nil where there are so few that looking at each is faster.
type limits map[itemValue]int

type itemValue struct{ object, class string }

func limitsOf(items []ParamFlowItem) limits {
	if len(items) < manyPerKey {
		return nil
	}
	first := make(limits, len(items))
	for i := range items {
		v := itemValue{items[i].Object, items[i].ClassType}
		if _, seen := first[v]; !seen {
			first[v] = i
		}
	}
	return first
}

// of gives the first item with the value of item i, if it has another limit; else -1.
func (l limits) of(items []ParamFlowItem, i int) int {
	v, count := itemValue{items[i].Object, items[i].ClassType}, items[i].Count
	j, ok := l[v]
	if l == nil {
		j = slices.IndexFunc(items[:i], func(o ParamFlowItem) bool { return o.Object == v.object && o.ClassType == v.class })
		ok = j >= 0
	}
	if !ok || items[j].Count == count {
		return -1
	}
	return j
}

func itemField(i int, name string) string {
	return "paramFlowItemList/" + strconv.Itoa(i) + "/" + name
}

// Validate gives every fault of the rule as an Invalid, or nil. It is isolation.IsValidRule of sentinel-golang 1.0.4.
func (r *Isolation) Validate() error {
	var f faults
	f.notBlank("resource", r.Resource)
	if r.MetricType != IsolationConcurrency {
		f.add("metricType", "must be 0 (concurrency), is "+strconv.FormatInt(int64(r.MetricType), 10))
	}
	f.inRange("threshold", r.Threshold, 1, math.MaxUint32)
	f.pattern(r.Regex, r.Resource)
	return f.err()
}
