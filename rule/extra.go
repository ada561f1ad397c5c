package rule

// Extra holds members of a rule document that Rulewire does not know, in document order.
// They are kept so that a write-back does not lose what a newer Sentinel or another tool wrote.
type Extra []Member

// Member is one unknown member: its name and its value as compact JSON text.
type Member struct {
	Name  string
	Value string
}
