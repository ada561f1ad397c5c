package rule

// Code that builds rules starts from these: they have Java's defaults, while the zero value of a struct means something
// else (a Flow of grade 0 counts threads, a System with limits of 0 refuses every call).

// NewFlow gives a flow rule that limits resource to count calls per second and refuses the rest.
func NewFlow(resource string, count float64) Flow {
	return Flow{Resource: resource, LimitApp: "default", Grade: GradeQPS, Count: count, WarmUpPeriodSec: 10, MaxQueueingTimeMs: 500}
}

// NewDegrade gives a circuit breaker that trips at count (milliseconds, ratio or number, by grade) and stays open for
// timeWindowMs milliseconds.
func NewDegrade(resource string, grade DegradeGrade, count float64, timeWindowMs int64) Degrade {
	return Degrade{Resource: resource, LimitApp: "default", Grade: grade, Count: count, TimeWindowMs: timeWindowMs,
		MinRequestAmount: 5, SlowRatioThreshold: 1, StatIntervalMs: 1000}
}

// NewSystem gives a system rule with every limit off; set at least one.
func NewSystem() System {
	return System{HighestSystemLoad: Unset, HighestCPUUsage: Unset, QPS: Unset, AvgRT: Unset, MaxThread: Unset, Strategy: AdaptiveNone}
}

// NewParamFlow gives a rule that limits each value of argument paramIdx to count calls per second.
func NewParamFlow(resource string, paramIdx int64, count float64) ParamFlow {
	return ParamFlow{Resource: resource, LimitApp: "default", Grade: GradeQPS, ParamIdx: paramIdx, Count: count, DurationInSec: 1}
}
