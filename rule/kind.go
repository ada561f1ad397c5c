package rule

// Kind names a kind of rule. The texts are the names used in status, files and the command line.
type Kind string

// The kinds of rule.
const (
	KindFlow      Kind = "flow"
	KindDegrade   Kind = "degrade"
	KindSystem    Kind = "system"
	KindAuthority Kind = "authority"
	KindParamFlow Kind = "param-flow"
	KindIsolation Kind = "isolation"
)

// Kinds lists every kind, in the order in which pages and tools show them.
func Kinds() []Kind {
	return []Kind{KindFlow, KindDegrade, KindSystem, KindAuthority, KindParamFlow, KindIsolation}
}
