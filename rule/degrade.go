package rule

// DegradeGrade says what trips a circuit breaker.
// Source: RuleConstant, DEGRADE_GRADE_*; the same numbers as sentinel-golang's circuitbreaker.Strategy.
type DegradeGrade int32

const (
	// DegradeSlowRequestRatio trips on the share of calls slower than Count milliseconds.
	DegradeSlowRequestRatio DegradeGrade = 0
	// DegradeErrorRatio trips on the share of failed calls, Count in 0..1.
	DegradeErrorRatio DegradeGrade = 1
	// DegradeErrorCount trips on the number of failed calls, Count.
	DegradeErrorCount DegradeGrade = 2
)

// Degrade is one circuit breaker.
// Source: com.alibaba.csp.sentinel.slots.block.degrade.DegradeRule (1.8.9) and sentinel-golang core/circuitbreaker.Rule (1.0.4).
type Degrade struct {
	// ID names the rule.
	ID string
	// Resource is the protected resource. Required, not blank.
	Resource string
	// LimitApp is the calling origin. Default "default".
	LimitApp string
	// Grade is what trips the breaker. Java default 0 (slow calls).
	Grade DegradeGrade
	// Count is the longest good response time in milliseconds (slow calls), the ratio 0..1 (error ratio) or the
	// number (error count). Required, >= 0, finite.
	Count float64
	// TimeWindowMs is how long the breaker stays open, milliseconds. > 0. Java's "timeWindow" is in seconds;
	// the golang dialect's "retryTimeoutMs" is this. Written to the java dialect as seconds where whole,
	// else the exact value goes beside it.
	TimeWindowMs int64
	// MinRequestAmount is the fewest calls in the interval that can trip it. Java default 5, golang default 0. > 0 in Java.
	MinRequestAmount int64
	// SlowRatioThreshold is the share of slow calls that trips it, 0..1 (slow calls only). Java default 1.0.
	SlowRatioThreshold float64
	// StatIntervalMs is the statistic interval, milliseconds. Java default 1000. > 0.
	StatIntervalMs int64
	// Regex makes Resource a regular expression. Default false.
	Regex bool

	// StatSlidingWindowBucketCount is the number of buckets of the interval (Go only). 0 means 1.
	StatSlidingWindowBucketCount int64
	// ProbeNum is the number of good trial calls that close a half-open breaker (Go only). 0 means 1.
	ProbeNum int64

	// Extra holds unknown members.
	Extra Extra
}
