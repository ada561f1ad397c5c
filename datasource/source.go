package datasource

import (
	"context"
)

// Presence says what a store knows of a document.
type Presence uint8

const (
	// Unknown is a hint: something changed, read again. Only Watch may deliver it.
	Unknown Presence = iota
	// Missing means that the store answered and has no such document: never written, deleted or expired.
	Missing
	// Present means that the document is there; it may have no bytes.
	Present
)

// String gives "unknown", "missing" or "present".
func (p Presence) String() string {
	switch p {
	case Missing:
		return "missing"
	case Present:
		return "present"
	default:
		return "unknown"
	}
}

// Document is what a store holds under one name at one moment.
type Document struct {
	// Presence tells present, missing and (from Watch) hint apart.
	Presence Presence
	// Data are the bytes; empty unless Present. Nobody changes them once they are handed over.
	Data []byte
	// Revision is the store's own version, opaque outside its driver. A missing document may have one too
	// (the store's revision at which it was seen missing), so that a watch can join it.
	Revision string
	// Order is the place of Revision in the store's own sequence (etcd mod revision, Consul ModifyIndex) and 0 where
	// the store has none. Only documents of one source are ever compared by it.
	Order uint64
}

// Hint is the document that means "something changed, read again".
func Hint() Document { return Document{} }

// Source reads one document from one store. A driver implements Source, and Watcher if its store can push.
//
// The contract, each step with the case of package datasourcetest that checks it:
//
//  1. A constructor validates its options and does no I/O. It borrows the client; it never closes a client that it
//     did not make. (case Constructor)
//  2. Read returns the document as the store has it now: present (with bytes, maybe none) or missing; anything else
//     is an error, which wraps ErrDenied where the store refuses the client's credentials or rights. A getter that
//     can't tell "missing" from "empty" must find out. Reads ask for the store's strongest consistency by default.
//     (case Read)
//  3. Watch(ctx, last, deliver) joins last without a gap: it subscribes before it reads, or watches from the revision
//     after last, also when the document was missing. (case WatchJoins)
//  4. Watch returns when ctx ends (within 1 s) or when the subscription can no longer be trusted (compaction, lost
//     leader, lost connection, falling index): the engine reads again and watches again. It never loops on its own
//     error. (case WatchEnds)
//  5. deliver gets documents in store order; it may coalesce to the newest; it must never deliver an older one after
//     a newer one. (case Order)
//  6. A callback of a client library only hands over; it never decodes, blocks or panics. (case Callback)
//  7. Deletion, expiry and "empty string" callbacks become a missing document. (case Deletion)
//  8. An idle source costs at most one request per relist period (Consul: one blocking query per wait period). (case Idle)
//  9. A failing store costs at most one request per second after five seconds, whatever the status code. (case ErrorStorm)
//  10. After Close no goroutine, subscription, file handle or callback is left; Close is safe in every state, twice,
//     and at once. (case Close)
type Source interface {
	// ID names the document for people: store, scope and key, never a secret. It is constant.
	ID() string
	// Read reads the document as it is now. It blocks at most until ctx ends.
	Read(ctx context.Context) (Document, error)
}

// Watcher is a Source whose store pushes changes.
type Watcher interface {
	Source
	// Watch delivers what comes after last, which is the document of the last Read (or the last one delivered), until
	// ctx ends or the subscription can't be trusted any more. deliver returns at once and may be called from any
	// goroutine, one call at a time; after Watch has returned it must not be called. A driver whose store does not
	// order its messages delivers Hint and lets the engine read.
	Watch(ctx context.Context, last Document, deliver func(Document)) error
}
