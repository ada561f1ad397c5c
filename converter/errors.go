package converter

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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

// Error gives the place and the reason in one line of bounded length: what comes from the document is cut, and says how long it
// was. The fields have it whole where they name a place.
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
		b.WriteString(clip(f.Pointer) + ": ")
	case f.Index >= 0 && f.Field != "":
		fmt.Fprintf(&b, "/%d/%s: ", f.Index, clip(f.Field))
	case f.Index >= 0:
		fmt.Fprintf(&b, "/%d: ", f.Index)
	}
	if f.unnamed() {
		b.WriteString(clip(f.Field) + ": ")
	}
	var wanted string
	if f.Expected != "" && f.Found != "" {
		wanted = "expected " + cut(f.Expected, mostReason) + ", found " + clip(f.Found)
	}
	switch {
	case f.Reason != "" && wanted != "":
		b.WriteString(cut(f.Reason, mostReason) + " (" + wanted + ")")
	case f.Reason != "":
		b.WriteString(cut(f.Reason, mostReason))
	case wanted != "":
		b.WriteString(wanted)
	case f.Err != nil:
		b.WriteString(cut(f.Err.Error(), mostReason))
	}
	if f.Hint != "" {
		b.WriteString("; " + cut(f.Hint, mostReason))
	}
	return b.String()
}

// unnamed says that neither the pointer nor the reason says which member is meant: a pointer to a rule can't end with a
// member that the rule lacks.
func (f *Fault) unnamed() bool {
	if f.Field == "" || f.Pointer == "" && f.Index >= 0 {
		return false
	}
	if strings.HasSuffix(f.Pointer, "/"+f.Field) || strings.HasSuffix(f.Pointer, "/"+escapePointer(f.Field)) {
		return false
	}
	path := steps(f.Field)
	if len(path) == 0 {
		return true
	}
	around, last := "", path[len(path)-1]
	for _, step := range path[:len(path)-1] {
		around += "/" + escapePointer(step)
	}
	if strings.HasSuffix(f.Pointer, around+"/"+escapePointer(last)) {
		return false
	}
	return !strings.HasSuffix(f.Pointer, around) || !says(f.Reason, last)
}

// says tells whether a text has a name as a word of its own.
func says(text, name string) bool {
	letter := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(name)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[end:])
		if !letter(before) && !letter(after) {
			return true
		}
		from = start + 1
	}
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
