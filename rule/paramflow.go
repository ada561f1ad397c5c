package rule

// ParamFlow limits calls by the value of one argument (hot parameters).
// Source: com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRule (1.8.9) and sentinel-golang core/hotspot.Rule (1.0.4).
type ParamFlow struct {
	// ID names the rule.
	ID string
	// Resource is the protected resource. Required, not blank.
	Resource string
	// LimitApp is the calling origin. Default "default".
	LimitApp string
	// Grade is what is counted per value: GradeQPS (default) or GradeThread.
	Grade FlowGrade
	// ParamIdx is the position of the argument; negative counts from the end. Required in the java dialect.
	ParamIdx int64
	// Count is the limit per value. Required, >= 0, finite. sentinel-golang takes whole numbers only.
	Count float64
	// ControlBehavior is ControlReject (default) or ControlRateLimiter.
	ControlBehavior ControlBehavior
	// MaxQueueingTimeMs is the longest wait of a queued call, milliseconds. Default 0.
	MaxQueueingTimeMs int64
	// BurstCount is what may pass above Count in one interval. Default 0.
	BurstCount int64
	// DurationInSec is the interval of Count, seconds. Java default 1. > 0.
	DurationInSec int64
	// Items are the values with a limit of their own.
	Items []ParamFlowItem
	// ClusterMode asks a token server. sentinel-golang cannot enforce it. Default false.
	ClusterMode bool
	// ClusterConfig belongs to ClusterMode. May be nil.
	ClusterConfig *ParamFlowClusterConfig
	// Regex makes Resource a regular expression. Default false.
	Regex bool

	// ParamKey takes the argument from the entry's attachments by key instead of by index (Go only).
	ParamKey string
	// ParamsMaxCapacity is the most values that are counted at once (Go only). 0 means the core's default.
	ParamsMaxCapacity int64

	// Extra holds unknown members.
	Extra Extra
}

// ParamFlowItem is one argument value with a limit of its own.
// Source: com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowItem (1.8.9).
type ParamFlowItem struct {
	// Object is the value, as text.
	Object string
	// ClassType is the value's type by its Java name: int, long, short, byte, double, float, boolean, char or
	// String, bare or as java.lang.*. Blank means String.
	ClassType string
	// Count is the limit for this value. >= 0.
	Count int64
	// Extra holds unknown members.
	Extra Extra
}

// ParamFlowClusterConfig is the cluster part of a hot-parameter rule.
// Source: com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowClusterConfig (1.8.9).
type ParamFlowClusterConfig struct {
	// FlowID is the cluster-wide id, > 0; nil where absent or null. Needed in cluster mode unless
	// FallbackToLocalWhenFail is set (Java's isValid asks for it always; the rule then counts locally here).
	FlowID *int64
	// ThresholdType is 0 (average per machine) or 1 (global). Default 0.
	ThresholdType int64
	// FallbackToLocalWhenFail falls back to local counting. Default false.
	FallbackToLocalWhenFail bool
	// SampleCount is the number of buckets of the window. Default 10.
	SampleCount int64
	// WindowIntervalMs is the window, milliseconds. Default 1000.
	WindowIntervalMs int64
	// Extra holds unknown members.
	Extra Extra
}
