package rule

// FlowGrade says what a flow rule counts.
// Source: com.alibaba.csp.sentinel.slots.block.RuleConstant, FLOW_GRADE_*.
type FlowGrade int32

const (
	// GradeThread limits concurrent calls. sentinel-golang enforces it as an isolation rule.
	GradeThread FlowGrade = 0
	// GradeQPS limits calls per second (per StatIntervalInMs where that is set). The default.
	GradeQPS FlowGrade = 1
)

// RelationStrategy says whose traffic a flow rule counts.
// Source: RuleConstant, STRATEGY_*.
type RelationStrategy int32

const (
	// StrategyDirect counts the resource itself. The default.
	StrategyDirect RelationStrategy = 0
	// StrategyRelate counts RefResource instead.
	StrategyRelate RelationStrategy = 1
	// StrategyChain counts calls that came through the entry RefResource. sentinel-golang cannot enforce it.
	StrategyChain RelationStrategy = 2
)

// ControlBehavior says what happens to traffic over the limit.
// Source: RuleConstant, CONTROL_BEHAVIOR_*. The numbers are Java's; the golang dialect
// spells the same four as a pair (tokenCalculateStrategy, controlBehavior), see package converter.
type ControlBehavior int32

const (
	// ControlReject refuses at once. The default.
	ControlReject ControlBehavior = 0
	// ControlWarmUp raises the limit slowly from Count/WarmUpColdFactor, then refuses.
	ControlWarmUp ControlBehavior = 1
	// ControlRateLimiter lets calls pass at an even pace and queues the rest up to MaxQueueingTimeMs.
	ControlRateLimiter ControlBehavior = 2
	// ControlWarmUpRateLimiter is both: a warm-up whose excess queues.
	ControlWarmUpRateLimiter ControlBehavior = 3
)

// Flow limits the traffic of one resource.
// Source: com.alibaba.csp.sentinel.slots.block.flow.FlowRule (1.8.9) and sentinel-golang core/flow.Rule (1.0.4).
type Flow struct {
	// ID names the rule for people and dashboards; a number in Java, a string in Go. It plays no part in equality of effect.
	ID string
	// Resource is the protected resource. Required, not blank.
	Resource string
	// LimitApp is the calling origin the rule is for: "default" (all), "other", or an origin. Default "default".
	LimitApp string
	// Grade is what is counted. Default GradeQPS.
	Grade FlowGrade
	// Count is the limit: calls per second, or concurrent calls for GradeThread. Required, >= 0, finite. "threshold" in the golang dialect.
	Count float64
	// Strategy is whose traffic is counted. Default StrategyDirect.
	Strategy RelationStrategy
	// RefResource is the related resource or entry; required for StrategyRelate and StrategyChain.
	RefResource string
	// ControlBehavior is what happens over the limit. Default ControlReject.
	ControlBehavior ControlBehavior
	// WarmUpPeriodSec is the length of the warm-up, seconds. Java default 10, golang default 0. > 0 for warm-up behaviours.
	WarmUpPeriodSec int64
	// MaxQueueingTimeMs is the longest wait of a queued call, milliseconds. Java default 500, golang default 0.
	MaxQueueingTimeMs int64
	// ClusterMode asks a token server instead of counting locally. sentinel-golang cannot enforce it. Default false.
	ClusterMode bool
	// ClusterConfig belongs to ClusterMode; the Dashboard writes one on every rule. May be nil.
	ClusterConfig *ClusterFlowConfig
	// Regex makes Resource a regular expression for the whole name (Java 1.8.7 and later). Default false.
	Regex bool

	// MemoryAdaptive makes the limit follow the memory use (Go only; tokenCalculateStrategy 2). Default false.
	MemoryAdaptive bool
	// WarmUpColdFactor divides Count at the start of a warm-up (Go only). 0 means the core's default, 3; else > 1.
	WarmUpColdFactor int64
	// StatIntervalInMs is the time window of Count, milliseconds (Go only). 0 means one second. At most ten minutes.
	StatIntervalInMs int64
	// LowMemUsageThreshold is the limit while memory use is at or below MemLowWaterMarkBytes (Go only, MemoryAdaptive).
	LowMemUsageThreshold int64
	// HighMemUsageThreshold is the limit while memory use is at or above MemHighWaterMarkBytes (Go only, MemoryAdaptive).
	HighMemUsageThreshold int64
	// MemLowWaterMarkBytes is the lower water mark, bytes (Go only, MemoryAdaptive).
	MemLowWaterMarkBytes int64
	// MemHighWaterMarkBytes is the upper water mark, bytes (Go only, MemoryAdaptive).
	MemHighWaterMarkBytes int64

	// Extra holds the members of the document that Rulewire does not know, so that a write-back keeps them.
	Extra Extra
}

// ClusterFlowConfig is the cluster part of a flow rule.
// Source: com.alibaba.csp.sentinel.slots.block.flow.ClusterFlowConfig (1.8.9).
type ClusterFlowConfig struct {
	// FlowID is the cluster-wide id, > 0; nil where absent or null. Needed in cluster mode unless
	// FallbackToLocalWhenFail is set (Java's isValid asks for it always; the rule then counts locally here).
	FlowID *int64
	// ThresholdType is 0 (average per machine) or 1 (global). Default 0.
	ThresholdType int64
	// FallbackToLocalWhenFail falls back to local counting when no token server answers. Default true.
	FallbackToLocalWhenFail bool
	// Strategy is the cluster strategy. Default 0.
	Strategy int64
	// SampleCount is the number of buckets of the window. Default 10, > 0 in cluster mode.
	SampleCount int64
	// WindowIntervalMs is the window, milliseconds. Default 1000; a multiple of SampleCount in cluster mode.
	WindowIntervalMs int64
	// ResourceTimeout is the life of a concurrency token, milliseconds. Default 2000.
	ResourceTimeout int64
	// ResourceTimeoutStrategy is 0 (ignore), 1 (release) or 2 (keep). Default 0.
	ResourceTimeoutStrategy int64
	// AcquireRefuseStrategy is 0 (block), 1 (retry) or 2 (retry until success). Default 0.
	AcquireRefuseStrategy int64
	// ClientOfflineTime is when an unseen client counts as gone, milliseconds. Default 2000.
	ClientOfflineTime int64
	// Extra holds unknown members.
	Extra Extra
}
