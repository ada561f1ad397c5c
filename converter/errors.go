package converter

import (
	"errors"
	"fmt"
	"strings"
)

// ErrDecode is wrapped by every fault about bytes that are not a rule document.
var ErrDecode = errors.New("document can't be decoded")

// ErrEmpty is wrapped (beside ErrDecode) where the document holds nothing at all: zero bytes, blanks, null or "".
var ErrEmpty = errors.New("document is empty")

// Fault is one thing wrong with a document, with its place.
type Fault struct {
	// Index is the element of the document's list; -1 = the document as a whole.
	Index int
	// Resource is the rule's resource where it is known.
	Resource string
	// Field is the member's name; "" = the whole element or document.
	Field string
	Position
	// Expected and Found say what was wanted and what was there; Reason says it in words where the two are not enough.
	Expected, Found, Reason string
	// Hint is a "did you mean".
	Hint string
	// Err is ErrDecode, ErrEmpty, rule.ErrInvalid, rule.ErrUnsupported or an error that wraps one.
	Err error
}

// Error gives the place and the reason in one line.
func (f *Fault) Error() string {
	var b strings.Builder
	switch {
	case f.Line > 0 && f.Column > 0:
		fmt.Fprintf(&b, "line %d, column %d: ", f.Line, f.Column)
	case f.Line > 0:
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	switch {
	case f.Pointer != "":
		b.WriteString(f.Pointer + ": ")
	case f.Index >= 0 && f.Field != "":
		fmt.Fprintf(&b, "/%d/%s: ", f.Index, f.Field)
	case f.Index >= 0:
		fmt.Fprintf(&b, "/%d: ", f.Index)
	}
	switch {
	case f.Reason != "":
		b.WriteString(f.Reason)
	case f.Expected != "" && f.Found != "":
		b.WriteString("expected " + f.Expected + ", found " + f.Found)
	case f.Err != nil:
		b.WriteString(f.Err.Error())
	}
	if f.Reason != "" && f.Expected != "" && f.Found != "" {
		b.WriteString(" (expected " + f.Expected + ", found " + f.Found + ")")
	}
	if f.Hint != "" {
		b.WriteString("; " + f.Hint)
	}
	return b.String()
}

// Unwrap gives the sentinel.
func (f *Fault) Unwrap() error { return f.Err }

// Faults is every fault of a document; as an error it wraps each.
type Faults []*Fault

// maxListed bounds the length of a message; the faults themselves are all there.
const maxListed = 20

// Error lists the faults, the first twenty in full.
func (fs Faults) Error() string {
	parts := make([]string, 0, min(len(fs), maxListed+1))
	for i, f := range fs {
		if i == maxListed {
			parts = append(parts, fmt.Sprintf("and %d more", len(fs)-maxListed))
			break
		}
		parts = append(parts, f.Error())
	}
	return strings.Join(parts, "\n")
}

// Unwrap gives each fault.
func (fs Faults) Unwrap() []error {
	errs := make([]error, len(fs))
	for i, f := range fs {
		errs[i] = f
	}
	return errs
}
