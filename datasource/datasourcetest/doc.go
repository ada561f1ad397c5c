// Package datasourcetest is the conformance suite that every backend passes, and a store in memory to test against.
//
// A driver is right if [Run] passes for its source, and [RunSink] for its sink. The cases are the numbered steps of the
// driver contract (in the comment of datasource.Source), the rows of the guard table, the event sequences and documents
// that users of such systems met, recoveries, and what all of it costs: requests while idle and while the store fails,
// the time that Close takes, what is left afterwards. docs/conformance.md says of each case what it checks and why.
//
// A backend's test file is one call and a [Harness], which is how the suite creates, edits and breaks the store:
//
//	func TestConformance(t *testing.T) {
//		datasourcetest.Run(t, datasourcetest.Config{New: newHarness})
//	}
//
// Only Source, Put and Delete are required. What else the store can be made to do (break and heal the link, stall it,
// restart, compact, restore, expire …) the harness offers by implementing the small interfaces of this package; a case
// that needs one which is not there is skipped, and says so by name. A single thing that a store can't do, such as
// holding zero bytes, is an error that wraps [ErrUnplayable].
//
// The suite edits the document in the role of somebody else, over a link of their own: Break, Stall and Deny are about
// the driver's client only. Cases play one after the other, but for the scenes of Idle and ErrorStorm in real time, which
// spend their time waiting for nothing to happen, and do so at once: harnesses must not disturb each other.
//
// A driver that spins without ever waiting stops the clock of its bubble: such a case ends by -timeout, whose report names
// the case and shows the loop.
//
// [Store] is the reference. It has revisions, compare-and-set writes, watches, compaction and restore, and [Faults] that
// stand between it and its clients. Its three flavours of source push documents, hint, or are pulled. It works in
// testing/synctest bubbles, where a case that takes ten minutes takes none, and in real time. Users may test their own
// code against it.
package datasourcetest
