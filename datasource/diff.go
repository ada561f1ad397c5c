package datasource

import "github.com/rulewire/rulewire/rule"

// maxDiffLines bounds the diff of an event and of a pending candidate.
const maxDiffLines = 100

func compare[T any](before, after []T) rule.Changes[T] { return rule.Compare(before, after) }

// describe fills in the difference between two rule sets. A rule type of the user's own may panic in its methods; then
// the event goes without.
func describe[T any](e *Event, before, after []T) {
	defer func() { _ = recover() }()
	c := compare(before, after)
	e.Added, e.Changed, e.Removed = len(c.Added), len(c.Changed), len(c.Removed)
	e.Diff = c.FirstLines(maxDiffLines)
}
