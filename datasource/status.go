package datasource

import (
	"maps"
	"time"

	"github.com/rulewire/rulewire/converter"
)

// State sums up a readable in one word.
type State string

const (
	// StateStarting: no decision yet.
	StateStarting State = "starting"
	// StateLive: the newest document of the store is in force.
	StateLive State = "live"
	// StateStale: rules from a snapshot are in force; the store has not been read yet.
	StateStale State = "stale"
	// StateDegraded: something newer is not in force, or the store can't be read; Cause says why. The last good rules,
	// if there were any, are in force.
	StateDegraded State = "degraded"
	// StateClosed: closed. The rules stay as they are.
	StateClosed State = "closed"
)

// Cause says why a document did not come into force, or why the readable is degraded.
type Cause string

const (
	// CauseNone: nothing is wrong.
	CauseNone Cause = ""
	// CauseMissing: the store has no such document.
	CauseMissing Cause = "missing"
	// CauseEmpty: zero bytes, blanks, null or "".
	CauseEmpty Cause = "empty"
	// CauseEmptyList: "[]" while rules were in force.
	CauseEmptyList Cause = "empty_list"
	// CauseDecode: not a rule document, or too large.
	CauseDecode Cause = "decode"
	// CauseInvalid: a rule that is out of range or that the core can't enforce.
	CauseInvalid Cause = "invalid"
	// CauseShrink: removes more than MaxShrink allows.
	CauseShrink Cause = "shrink"
	// CauseRead: the store can't be read.
	CauseRead Cause = "read"
	// CauseWatch: the subscription ended and is not back yet.
	CauseWatch Cause = "watch"
	// CauseApply: a listener has not taken the document; it is retried.
	CauseApply Cause = "apply"
)

// Status is what a readable knows of itself at one moment.
type Status struct {
	SourceID string
	State    State
	// Cause is why State is degraded (or why the snapshot of StateStale is still in use).
	Cause Cause
	// Presence, StoreRevision and StoreHash are of the newest document that was seen in the store.
	Presence      Presence
	StoreRevision string
	StoreHash     string
	// Revision and Hash are of the document in force; "" while there is none. Hash is the SHA-256 of the bytes, in hex.
	Revision string
	Hash     string
	// Generation counts the values of the property; 0 = none yet.
	Generation uint64
	// Rules is the number of rules in force.
	Rules int
	// Skipped are the rules that SkipRule left out of the document in force.
	Skipped converter.Faults
	// Report is the decode report of the document in force.
	Report converter.Report
	// Drift: what is in force is not what the store gave: changed behind its back, as a listener says, or by Override.
	Drift bool

	LastRead    time.Time // last answer of the store, of any kind
	LastChange  time.Time // last time that a document came into force
	LastSuccess time.Time // last time that the document in force was known to be the store's newest
	// LastChannel is how the last change came: "read", "watch", "snapshot", "write", "accept", "volatile" (Override). A
	// pushed source whose changes only come by read has a dead subscription (Apollo ids in another letter case, for
	// example).
	LastChannel string
	// LastError is nil while the newest document is in force.
	LastError error

	// Refused counts refused candidates by cause, once each; it only grows.
	Refused map[Cause]uint64
	Counts  Counts
	// Pending is the refused candidate that Accept could apply; nil if there is none.
	Pending *Pending

	// SnapshotSaved is when the snapshot that is in force was saved; zero if none is.
	SnapshotSaved time.Time
	// SnapshotError is what the last save of a snapshot ended with. It never fails a good read.
	SnapshotError error
	// Note is what the source has to say of itself, such as "polling only".
	Note string
}

// Counts only grow.
type Counts struct {
	Reads         uint64 // answers and errors of Read
	ReadErrors    uint64
	Watches       uint64 // Watch calls
	Reconnects    uint64 // Watch calls that ended by themselves
	Deliveries    uint64 // documents delivered by Watch
	Hints         uint64 // hints delivered by Watch
	Unchanged     uint64 // documents equal to the one in force
	Applied       uint64 // documents that came into force
	ApplyFailures uint64 // attempts that a listener refused
	Older         uint64 // documents ignored for an older revision
}

// Pending is a candidate that decoded and is valid, and that the guard holds back.
type Pending struct {
	Revision string
	Cause    Cause
	// Rules is how many rules it holds; Added, Changed and Removed compare it with the rules in force.
	Rules, Added, Changed, Removed int
	// Diff has a line for each difference, at most 100.
	Diff []string
	// Since is when it was refused.
	Since time.Time
}

// EventKind says what an Event is about.
type EventKind string

// The kinds of event.
const (
	EventApplied   EventKind = "applied"   // a document came into force
	EventRefused   EventKind = "refused"   // a candidate was refused
	EventFailed    EventKind = "failed"    // a read, a watch or a listener failed (each time)
	EventRecovered EventKind = "recovered" // the newest document is in force again
	EventClosed    EventKind = "closed"
)

// Event is one thing that happened to a readable.
type Event struct {
	Kind     EventKind
	Time     time.Time
	SourceID string
	Revision string
	Channel  string // as Status.LastChannel
	Cause    Cause
	Err      error
	// Rules is the number of rules in force after the event; Added, Changed, Removed and Diff (at most 100 lines)
	// describe an applied or a pending document.
	Rules, Added, Changed, Removed int
	Diff                           []string
}

// Observer is told of events, one at a time, on the readable's own goroutine: it must be quick. A panic is contained.
type Observer interface {
	Observe(Event)
}

// ObserverFunc is a function as an Observer.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }

// clone makes the parts that the readable goes on changing independent.
func (s Status) clone() Status {
	s.Refused = maps.Clone(s.Refused)
	if s.Refused == nil {
		s.Refused = map[Cause]uint64{}
	}
	if s.Pending != nil {
		p := *s.Pending
		s.Pending = &p
	}
	return s
}
