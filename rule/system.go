package rule

// AdaptiveStrategy is the Go-only strategy of a system rule.
// Source: sentinel-golang core/system.AdaptiveStrategy.
type AdaptiveStrategy int32

const (
	// AdaptiveNone refuses as soon as the limit is reached. The default.
	AdaptiveNone AdaptiveStrategy = -1
	// AdaptiveBBR also asks whether the load is more than the system can carry (load and CPU limits only).
	AdaptiveBBR AdaptiveStrategy = 1
)

// Unset is the value of a limit of a System rule that is off. Any negative number means the same and is read as this.
const Unset = -1

// System limits the whole process. One rule may set several limits; the golang dialect writes one rule for each.
// Source: com.alibaba.csp.sentinel.slots.system.SystemRule (1.8.9) and sentinel-golang core/system.Rule (1.0.4).
type System struct {
	// ID names the rule.
	ID string
	// HighestSystemLoad is the highest load average over one minute. Unset = off.
	HighestSystemLoad float64
	// HighestCPUUsage is the highest CPU usage, 0..1. Unset = off.
	HighestCPUUsage float64
	// QPS is the most inbound calls per second. Unset = off.
	QPS float64
	// AvgRT is the highest average response time of inbound calls, milliseconds. Unset = off.
	AvgRT int64
	// MaxThread is the most concurrent inbound calls. Unset = off; 0 refuses all.
	MaxThread int64
	// Resource is there because every Java rule has it; it plays no part.
	Resource string
	// LimitApp is there because every Java rule has it; it plays no part.
	LimitApp string
	// Regex is there because every Java rule has it; it plays no part.
	Regex bool

	// Strategy is the adaptive strategy (Go only). Default AdaptiveNone.
	Strategy AdaptiveStrategy

	// Extra holds unknown members.
	Extra Extra
}
