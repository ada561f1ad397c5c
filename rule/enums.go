package rule

import "strconv"

// The texts are for people (diffs, status, faults). Documents carry the numbers.

// String gives "thread" or "qps".
func (g FlowGrade) String() string {
	switch g {
	case GradeThread:
		return "thread"
	case GradeQPS:
		return "qps"
	default:
		return number(int64(g))
	}
}

// String gives "direct", "relate" or "chain".
func (s RelationStrategy) String() string {
	switch s {
	case StrategyDirect:
		return "direct"
	case StrategyRelate:
		return "relate"
	case StrategyChain:
		return "chain"
	default:
		return number(int64(s))
	}
}

// String gives "reject", "warm-up", "rate-limiter" or "warm-up-rate-limiter".
func (b ControlBehavior) String() string {
	switch b {
	case ControlReject:
		return "reject"
	case ControlWarmUp:
		return "warm-up"
	case ControlRateLimiter:
		return "rate-limiter"
	case ControlWarmUpRateLimiter:
		return "warm-up-rate-limiter"
	default:
		return number(int64(b))
	}
}

// String gives "slow-request-ratio", "error-ratio" or "error-count".
func (g DegradeGrade) String() string {
	switch g {
	case DegradeSlowRequestRatio:
		return "slow-request-ratio"
	case DegradeErrorRatio:
		return "error-ratio"
	case DegradeErrorCount:
		return "error-count"
	default:
		return number(int64(g))
	}
}

// String gives "white" or "black".
func (s AuthorityStrategy) String() string {
	switch s {
	case AuthorityWhite:
		return "white"
	case AuthorityBlack:
		return "black"
	default:
		return number(int64(s))
	}
}

// String gives "none" or "bbr".
func (s AdaptiveStrategy) String() string {
	switch s {
	case AdaptiveNone, 0:
		return "none"
	case AdaptiveBBR:
		return "bbr"
	default:
		return number(int64(s))
	}
}

// String gives "concurrency".
func (m IsolationMetric) String() string {
	if m == IsolationConcurrency {
		return "concurrency"
	}
	return number(int64(m))
}

func number(n int64) string { return "unknown(" + strconv.FormatInt(n, 10) + ")" }
