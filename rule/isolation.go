package rule

// IsolationMetric is what an isolation rule counts.
// Source: sentinel-golang core/isolation.MetricType.
type IsolationMetric int32

// IsolationConcurrency counts calls in flight; the only metric there is.
const IsolationConcurrency IsolationMetric = 0

// Isolation limits the calls in flight of one resource. Go only; Java writes a flow rule of GradeThread.
// Source: sentinel-golang core/isolation.Rule (1.0.4).
type Isolation struct {
	// ID names the rule.
	ID string
	// Resource is the protected resource. Required, not blank.
	Resource string
	// MetricType is what is counted. Default IsolationConcurrency.
	MetricType IsolationMetric
	// Threshold is the most calls in flight. Required, > 0, at most 4294967295.
	Threshold int64
	// Regex makes Resource a regular expression. Default false.
	Regex bool

	// Extra holds unknown members.
	Extra Extra
}
