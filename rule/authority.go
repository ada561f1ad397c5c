package rule

// AuthorityStrategy says whether the listed origins are let in or kept out.
// Source: RuleConstant, AUTHORITY_WHITE and AUTHORITY_BLACK.
type AuthorityStrategy int32

const (
	// AuthorityWhite lets only the listed origins in. The default.
	AuthorityWhite AuthorityStrategy = 0
	// AuthorityBlack keeps the listed origins out.
	AuthorityBlack AuthorityStrategy = 1
)

// Authority admits calls by origin. sentinel-golang has no counterpart.
// Source: com.alibaba.csp.sentinel.slots.block.authority.AuthorityRule (1.8.9).
type Authority struct {
	// ID names the rule.
	ID string
	// Resource is the protected resource. Required, not blank. The first rule of a resource is the one in effect.
	Resource string
	// LimitApp is the list of origins, separated by commas. Required, not blank.
	LimitApp string
	// Strategy is white or black list. Default AuthorityWhite.
	Strategy AuthorityStrategy
	// Regex makes Resource a regular expression. Default false.
	Regex bool

	// Extra holds unknown members.
	Extra Extra
}
