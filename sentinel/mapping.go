package sentinel

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/alibaba/sentinel-golang/core/circuitbreaker"
	coreconfig "github.com/alibaba/sentinel-golang/core/config"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/core/hotspot"
	"github.com/alibaba/sentinel-golang/core/isolation"
	"github.com/alibaba/sentinel-golang/core/system"

	"github.com/rulewire/rulewire/rule"
)

// coreRules are rules as sentinel-golang knows them, by the manager that takes them.
type coreRules struct {
	flow      []flow.Rule
	isolation []isolation.Rule
	breaker   []circuitbreaker.Rule
	system    []system.Rule
	hotspot   []hotspot.Rule
}

func (c *coreRules) add(o *coreRules) {
	c.flow = append(c.flow, o.flow...)
	c.isolation = append(c.isolation, o.isolation...)
	c.breaker = append(c.breaker, o.breaker...)
	c.system = append(c.system, o.system...)
	c.hotspot = append(c.hotspot, o.hotspot...)
}

// grow makes room for the rules of a kind.
func (c *coreRules) grow(kind rule.Kind, n int) {
	switch kind {
	case rule.KindFlow:
		c.flow = slices.Grow(c.flow, n)
	case rule.KindDegrade:
		c.breaker = slices.Grow(c.breaker, n)
	case rule.KindParamFlow:
		c.hotspot = slices.Grow(c.hotspot, n)
	case rule.KindIsolation:
		c.isolation = slices.Grow(c.isolation, n)
	}
}

// mapper turns one rule into the core's rules, or says why the core can't enforce it: a *rule.Invalid whose faults wrap
// rule.ErrUnsupported. It appends nothing then.
type mapper[R any] func(r *R, o *mapping, out *coreRules) error

// mapping is what a user can choose.
type mapping struct{ localFallback bool }

// reasons collects why the core can't take a rule. It costs nothing while there are none.
type reasons struct{ list []rule.Fault }

func (r *reasons) add(field, reason string) {
	r.list = append(r.list, rule.Fault{Field: field, Reason: reason, Err: rule.ErrUnsupported})
}

func (r *reasons) err() error {
	if len(r.list) == 0 {
		return nil
	}
	return &rule.Invalid{Faults: r.list}
}

func (r *reasons) regex(on bool) {
	if on {
		r.add("regex", "sentinel-golang 1.0.4 has no regular expressions for resources")
	}
}

// cluster refuses cluster mode unless the user takes local counting for it and the rule's owner allowed that.
func (r *reasons) cluster(mode, fallback bool, o *mapping) {
	switch {
	case !mode:
	case !o.localFallback:
		r.add("clusterMode", "sentinel-golang has no cluster mode; option LocalFallback counts locally where the rule allows it")
	case !fallback:
		r.add("clusterConfig/fallbackToLocalWhenFail", "sentinel-golang has no cluster mode, and the rule does not allow local counting")
	}
}

// uint32s refuses what the core's 32 bits would cut off.
func (r *reasons) uint32s(field string, v int64) {
	if v < 0 || v > math.MaxUint32 {
		r.add(field, "sentinel-golang takes at most 4294967295, is "+strconv.FormatInt(v, 10))
	}
}

// whole refuses a fraction where the core has whole numbers only: rounding would change the limit silently.
func (r *reasons) whole(field string, v, most float64) {
	switch {
	case v != math.Trunc(v):
		r.add(field, "sentinel-golang takes whole numbers only here, is "+strconv.FormatFloat(v, 'g', -1, 64))
	case v > most:
		r.add(field, "sentinel-golang takes at most "+strconv.FormatFloat(most, 'f', 0, 64)+", is "+strconv.FormatFloat(v, 'g', -1, 64))
	}
}

// core adds what the core itself says of the rule.
func (r *reasons) core(err error) {
	if err != nil {
		r.add("", "sentinel-golang refuses it: "+err.Error())
	}
}

// pace refuses a rate limiter whose pace is below one call in an interval, at first if it warms up. Java spaces such calls
// out; the core refuses each of them, and so never warms up either. A count of 0 refuses every call in both.
func (r *reasons) pace(c *flow.Rule) {
	if c.ControlBehavior != flow.Throttling || c.Threshold <= 0 {
		return
	}
	least := 1.0
	if c.TokenCalculateStrategy == flow.WarmUp {
		least = float64(c.WarmUpColdFactor)
	}
	if c.TokenCalculateStrategy != flow.MemoryAdaptive && c.Threshold < least {
		r.add("count", "sentinel-golang refuses every call of a rate limiter below "+strconv.FormatFloat(least, 'f', -1, 64)+
			", is "+strconv.FormatFloat(c.Threshold, 'g', -1, 64))
	}
}

// mapFlow maps a QPS rule to a flow rule and a thread rule to an isolation rule.
func mapFlow(r *rule.Flow, o *mapping, out *coreRules) error {
	var no reasons
	if r.LimitApp != "" && r.LimitApp != "default" {
		no.add("limitApp", "sentinel-golang knows no origins; without "+strconv.Quote(r.LimitApp)+" the rule would limit every caller")
	}
	fallback := r.ClusterConfig != nil && r.ClusterConfig.FallbackToLocalWhenFail
	no.cluster(r.ClusterMode, fallback, o)
	no.regex(r.Regex)
	if r.Strategy == rule.StrategyChain {
		no.add("strategy", "sentinel-golang knows no entries, so no chain strategy")
	}
	if r.Grade == rule.GradeThread {
		return mapThread(r, &no, out)
	}
	no.uint32s("warmUpPeriodSec", r.WarmUpPeriodSec)
	no.uint32s("maxQueueingTimeMs", r.MaxQueueingTimeMs)
	no.uint32s("warmUpColdFactor", r.WarmUpColdFactor)
	no.uint32s("statIntervalInMs", r.StatIntervalInMs)
	c := flow.Rule{
		ID:                    r.ID,
		Resource:              r.Resource,
		Threshold:             r.Count,
		RelationStrategy:      flow.CurrentResource,
		RefResource:           r.RefResource,
		MaxQueueingTimeMs:     uint32(r.MaxQueueingTimeMs),
		WarmUpPeriodSec:       uint32(r.WarmUpPeriodSec),
		WarmUpColdFactor:      uint32(r.WarmUpColdFactor),
		StatIntervalInMs:      uint32(r.StatIntervalInMs),
		LowMemUsageThreshold:  r.LowMemUsageThreshold,
		HighMemUsageThreshold: r.HighMemUsageThreshold,
		MemLowWaterMarkBytes:  r.MemLowWaterMarkBytes,
		MemHighWaterMarkBytes: r.MemHighWaterMarkBytes,
	}
	if r.Strategy == rule.StrategyRelate {
		c.RelationStrategy = flow.AssociatedResource
	}
	// Java says in one number what the core says in two: how tokens are counted and what happens without one.
	switch r.ControlBehavior {
	case rule.ControlReject:
		c.TokenCalculateStrategy, c.ControlBehavior = flow.Direct, flow.Reject
	case rule.ControlWarmUp:
		c.TokenCalculateStrategy, c.ControlBehavior = flow.WarmUp, flow.Reject
	case rule.ControlRateLimiter:
		c.TokenCalculateStrategy, c.ControlBehavior = flow.Direct, flow.Throttling
	case rule.ControlWarmUpRateLimiter:
		c.TokenCalculateStrategy, c.ControlBehavior = flow.WarmUp, flow.Throttling
	default:
		no.add("controlBehavior", "sentinel-golang has no "+r.ControlBehavior.String())
	}
	if r.MemoryAdaptive {
		c.TokenCalculateStrategy = flow.MemoryAdaptive
	}
	if c.TokenCalculateStrategy == flow.WarmUp && c.WarmUpColdFactor == 0 {
		// The core writes its default into the rule that it was given. The same rule, sent again with 0, would count as
		// another one and lose its warm-up.
		c.WarmUpColdFactor = coreconfig.DefaultWarmUpColdFactor
	}
	if c.TokenCalculateStrategy == flow.WarmUp && uint64(2*float64(c.WarmUpPeriodSec)*c.Threshold/float64(1+c.WarmUpColdFactor)) == 0 {
		// The core divides by this number of whole tokens: the limit becomes NaN, and no comparison with NaN blocks.
		no.add("count", "sentinel-golang lets every call pass where count × warmUpPeriodSec is less than "+
			strconv.FormatFloat(float64(1+c.WarmUpColdFactor)/2, 'g', -1, 64)+" for a warm-up")
	}
	no.pace(&c)
	if len(no.list) == 0 {
		// Among others, water marks are compared with the memory of this very machine.
		no.core(flow.IsValidRule(&c))
	}
	if err := no.err(); err != nil {
		return err
	}
	out.flow = append(out.flow, c)
	return nil
}

func mapThread(r *rule.Flow, no *reasons, out *coreRules) error {
	if r.Strategy == rule.StrategyRelate {
		no.add("strategy", "sentinel-golang can't count the concurrent calls of another resource")
	}
	if r.MemoryAdaptive {
		no.add("tokenCalculateStrategy", "sentinel-golang has no memory-adaptive limit for concurrent calls")
	}
	if r.Count == 0 {
		no.add("count", "sentinel-golang can't limit concurrent calls to 0; a QPS rule with count 0 refuses every call")
	}
	no.whole("count", r.Count, math.MaxUint32)
	if err := no.err(); err != nil {
		return err
	}
	c := isolation.Rule{ID: r.ID, Resource: r.Resource, MetricType: isolation.Concurrency, Threshold: uint32(r.Count)}
	no.core(isolation.IsValidRule(&c))
	if err := no.err(); err != nil {
		return err
	}
	out.isolation = append(out.isolation, c)
	return nil
}

// maxRtMs keeps a response time, or a number of errors, inside the core's whole numbers, and inside float64's exact ones.
const maxRtMs = 1 << 53

// leastRatio is the lowest ratio above the one that the core takes for 0 (util.Float64Equals, 1.0.4).
const leastRatio = 1e-8

// tripless refuses a limit of 0. Java's breakers open when a limit is passed, the core's when it is reached: 0 means the
// first error in Java, and in the core a resource that is refused although every call of it went well.
func (r *reasons) tripless(field string, v, least float64) {
	if v < least {
		r.add(field, "sentinel-golang opens a breaker that has a limit of "+strconv.FormatFloat(v, 'g', -1, 64)+
			" also when no call was slow or failed")
	}
}

// mapDegrade maps a circuit breaker. limitApp plays no part in Java's breakers either.
func mapDegrade(r *rule.Degrade, _ *mapping, out *coreRules) error {
	var no reasons
	no.regex(r.Regex)
	no.uint32s("timeWindow", r.TimeWindowMs)
	no.uint32s("statIntervalMs", r.StatIntervalMs)
	no.uint32s("statSlidingWindowBucketCount", r.StatSlidingWindowBucketCount)
	c := circuitbreaker.Rule{
		Id:                           r.ID,
		Resource:                     r.Resource,
		RetryTimeoutMs:               uint32(r.TimeWindowMs),
		MinRequestAmount:             uint64(r.MinRequestAmount),
		StatIntervalMs:               uint32(r.StatIntervalMs),
		StatSlidingWindowBucketCount: uint32(r.StatSlidingWindowBucketCount),
		Threshold:                    r.Count,
		ProbeNum:                     uint64(r.ProbeNum),
	}
	switch r.Grade {
	case rule.DegradeSlowRequestRatio:
		if r.Count > maxRtMs {
			no.add("count", "sentinel-golang takes at most 9007199254740992 ms, is "+strconv.FormatFloat(r.Count, 'g', -1, 64))
		} else {
			c.MaxAllowedRtMs = uint64(math.Floor(r.Count + 0.5)) // Java's Math.round
		}
		no.tripless("slowRatioThreshold", r.SlowRatioThreshold, leastRatio)
		c.Strategy, c.Threshold = circuitbreaker.SlowRequestRatio, r.SlowRatioThreshold
	case rule.DegradeErrorRatio:
		no.tripless("count", r.Count, leastRatio)
		c.Strategy = circuitbreaker.ErrorRatio
	case rule.DegradeErrorCount:
		no.whole("count", r.Count, maxRtMs) // the core cuts the fraction off
		if r.Count == math.Trunc(r.Count) {
			no.tripless("count", r.Count, 1)
		}
		c.Strategy = circuitbreaker.ErrorCount
	default:
		no.add("grade", "sentinel-golang has no "+r.Grade.String())
	}
	if len(no.list) == 0 {
		no.core(circuitbreaker.IsValidRule(&c))
	}
	if err := no.err(); err != nil {
		return err
	}
	out.breaker = append(out.breaker, c)
	return nil
}

// mapSystem maps each limit that is set to a rule of its own. Every limit that is off gives none; 0 is a limit.
func mapSystem(r *rule.System, _ *mapping, out *coreRules) error {
	strategy := system.NoAdaptive
	if r.Strategy == rule.AdaptiveBBR {
		strategy = system.BBR
	}
	limits := [...]struct {
		metric system.MetricType
		count  float64
		field  string
	}{
		{system.Load, r.HighestSystemLoad, "highestSystemLoad"},
		{system.AvgRT, float64(r.AvgRT), "avgRt"},
		{system.Concurrency, float64(r.MaxThread), "maxThread"},
		{system.InboundQPS, r.QPS, "qps"},
		{system.CpuUsage, r.HighestCPUUsage, "highestCpuUsage"},
	}
	var no reasons
	before := len(out.system)
	for _, l := range limits {
		if l.count < 0 {
			continue
		}
		c := system.Rule{ID: r.ID, MetricType: l.metric, TriggerCount: l.count, Strategy: strategy}
		if err := system.IsValidSystemRule(&c); err != nil {
			no.add(l.field, "sentinel-golang refuses it: "+err.Error())
			continue
		}
		out.system = append(out.system, c)
	}
	if err := no.err(); err != nil {
		out.system = out.system[:before]
		return err
	}
	return nil
}

// mapAuthority refuses: the core has no origins.
func mapAuthority(*rule.Authority, *mapping, *coreRules) error {
	var no reasons
	no.add("", "sentinel-golang has no authority rules")
	return no.err()
}

// mapParamFlow maps a hot-parameter rule. limitApp plays no part in Java's hot-parameter rules either.
func mapParamFlow(r *rule.ParamFlow, o *mapping, out *coreRules) error {
	var no reasons
	fallback := r.ClusterConfig != nil && r.ClusterConfig.FallbackToLocalWhenFail
	no.cluster(r.ClusterMode, fallback, o)
	no.regex(r.Regex)
	no.whole("count", r.Count, maxRtMs)
	if r.ParamIdx != int64(int(r.ParamIdx)) {
		no.add("paramIdx", "is too large for this machine: "+strconv.FormatInt(r.ParamIdx, 10))
	}
	c := hotspot.Rule{
		ID:                r.ID,
		Resource:          r.Resource,
		MetricType:        hotspot.QPS,
		ControlBehavior:   hotspot.Reject,
		ParamIndex:        int(r.ParamIdx),
		ParamKey:          r.ParamKey,
		MaxQueueingTimeMs: r.MaxQueueingTimeMs,
		BurstCount:        r.BurstCount,
		DurationInSec:     r.DurationInSec,
		ParamsMaxCapacity: r.ParamsMaxCapacity,
		// Never nil: the core replaces nil by an empty map in the rule it was given and then takes the same rule,
		// sent again with nil, for another one.
		SpecificItems: make(map[interface{}]int64, len(r.Items)),
	}
	if r.Grade == rule.GradeThread {
		c.MetricType = hotspot.Concurrency
	}
	if r.ControlBehavior == rule.ControlRateLimiter {
		c.ControlBehavior = hotspot.Throttling
	}
	mapItems(r.Items, c.SpecificItems, &no)
	if len(no.list) == 0 {
		c.Threshold = int64(r.Count)
		no.core(hotspot.IsValidRule(&c))
	}
	if err := no.err(); err != nil {
		return err
	}
	out.hotspot = append(out.hotspot, c)
	return nil
}

// mapItems fills in the values with a limit of their own. The core finds an argument by equality of Go values, type
// included, so the key has the Go type that a caller passes for the Java type. For byte, float and char a caller may
// pass one of two; the second key stands beside the first unless another item claims it.
//
//	int → int, long → int64, short → int16, boolean → bool, double → float64, String → string
//	byte → int8 and uint8, float → float32 and float64, char → rune and string
func mapItems(items []rule.ParamFlowItem, into map[interface{}]int64, no *reasons) {
	second := make(map[interface{}]int64)
	for i := range items {
		item := &items[i]
		field := "paramFlowItemList/" + strconv.Itoa(i) + "/object"
		key, also, ok := itemKeys(item)
		if !ok {
			no.add(field, strconv.Quote(item.Object)+" is not a "+item.ClassType)
			continue
		}
		if limit, taken := into[key]; taken && limit != item.Count {
			no.add(field, strconv.Quote(item.Object)+" has two limits")
			continue
		}
		into[key] = item.Count
		if also != nil {
			second[also] = item.Count
		}
	}
	for key, limit := range second {
		if _, taken := into[key]; !taken {
			into[key] = limit
		}
	}
}

func itemKeys(item *rule.ParamFlowItem) (key, also interface{}, ok bool) {
	class, err := rule.ParseItemClass(item.ClassType)
	if err != nil {
		return nil, nil, false
	}
	integer := func(bits int) int64 {
		var n int64
		n, err = strconv.ParseInt(item.Object, 10, bits)
		return n
	}
	switch class {
	case rule.ItemString:
		key = item.Object
	case rule.ItemInt:
		key = int(integer(strconv.IntSize))
	case rule.ItemLong:
		key = integer(64)
	case rule.ItemShort:
		key = int16(integer(16))
	case rule.ItemByte:
		n := integer(8)
		key = int8(n)
		if n >= 0 {
			also = uint8(n)
		}
	case rule.ItemDouble:
		var f float64
		f, err = strconv.ParseFloat(item.Object, 64)
		key = f
	case rule.ItemFloat:
		var f, exact float64
		f, err = strconv.ParseFloat(item.Object, 32)
		exact, _ = strconv.ParseFloat(item.Object, 64)
		key, also = float32(f), exact
	case rule.ItemBoolean:
		on := strings.EqualFold(item.Object, "true")
		return on, nil, on || strings.EqualFold(item.Object, "false")
	case rule.ItemChar:
		c, n := utf8.DecodeRuneInString(item.Object)
		if n == 0 || n != len(item.Object) {
			return nil, nil, false
		}
		key, also = c, item.Object
	}
	return key, also, err == nil
}

// mapIsolation maps an isolation rule.
func mapIsolation(r *rule.Isolation, _ *mapping, out *coreRules) error {
	var no reasons
	no.regex(r.Regex)
	no.uint32s("threshold", r.Threshold)
	c := isolation.Rule{ID: r.ID, Resource: r.Resource, MetricType: isolation.MetricType(r.MetricType), Threshold: uint32(r.Threshold)}
	if len(no.list) == 0 {
		no.core(isolation.IsValidRule(&c))
	}
	if err := no.err(); err != nil {
		return err
	}
	out.isolation = append(out.isolation, c)
	return nil
}
