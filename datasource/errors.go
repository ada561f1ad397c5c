package datasource

import (
	"errors"
	"strings"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
)

// The sentinel values of Rulewire, tested with errors.Is. Those of the lower packages are here under the same name.
var (
	// ErrMissing: the store has no such document.
	ErrMissing = errors.New("document is missing")
	// ErrDecode: the bytes are not a rule document.
	ErrDecode = converter.ErrDecode
	// ErrInvalid: a rule breaks its kind's ranges.
	ErrInvalid = rule.ErrInvalid
	// ErrUnsupported: understood, but the core library or the store can't do it.
	ErrUnsupported = rule.ErrUnsupported
	// ErrRefused: the guard kept the rules in force. It is beside the reason in every refusal.
	ErrRefused = errors.New("refused, rules in force kept")
	// ErrConflict: the document changed since the expected revision; nothing was written.
	ErrConflict = errors.New("conflict")
	// ErrTooLarge: the document is over the size cap or over the store's limit.
	ErrTooLarge = errors.New("document is too large")
	// ErrDenied: the store refuses the client's credentials, or what they allow is less than was asked.
	ErrDenied = errors.New("the store denies access")
	// ErrClosed: the readable, writable or group is closed or not started.
	ErrClosed = errors.New("closed")
	// ErrNil: a constructor was given nil where it needs something, or an interface that holds a nil pointer or function.
	ErrNil = property.ErrNil
	// ErrUnknownOutcome: a write was sent and neither its answer nor a read-back told whether it took place.
	ErrUnknownOutcome = errors.New("outcome of the write is unknown")
)

// Error says which operation on which source failed. Err holds the cause, with one of the sentinel values in its chain
// where one fits.
type Error struct {
	// Op is "start", "read", "watch", "guard", "apply", "snapshot", "refresh", "accept", "write" or "close".
	Op       string
	SourceID string
	// Revision is the document's where one is known.
	Revision string
	Err      error
}

// Error gives operation, source, revision and cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	b.WriteString(" ")
	b.WriteString(e.SourceID)
	if e.Revision != "" {
		b.WriteString(" at revision ")
		b.WriteString(e.Revision)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
