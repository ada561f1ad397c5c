package converter

// Converter turns the bytes of one document into typed rules and back.
// It must not keep or change data, and must be safe for concurrent use.
type Converter[T any] interface {
	// Decode reads a whole document. The error (a Faults) is about the document: nothing in it can be used.
	// Single rules that can't be read go into Decoded.Rejected instead, so that all of them are named at once.
	// Decode does not ask whether rules are valid; the guard does that with rule.Validator.
	Decode(data []byte) (Decoded[T], error)
	// Encode writes rules as one document; no rules are the empty list, never null.
	Encode(rules []T) ([]byte, error)
}

// Portable is implemented by converters whose documents other programs load, too, and which know a rule that those can't
// stand although it is a good one. JSON and YAML of the java dialect do.
type Portable[T any] interface {
	// Portable gives the reason why a document that holds r can't be loaded elsewhere, without an index; nil = it can.
	Portable(r *T) *Fault
}

// Decoded is what a document holds.
type Decoded[T any] struct {
	// Rules are the rules that could be read, in document order.
	Rules []T
	// Indexes gives each rule's position in the document's list; nil means that Rules[i] is the document's element i.
	Indexes []int
	// Rejected are the faults of elements that could not be read (wrong type, missing member, unknown enum value), in document order.
	Rejected Faults
	// Report says what was read with tolerance.
	Report Report
	// Locate finds a member of the document's element index, for error messages; "" is the element itself.
	// It may be slow and may be nil. It may read the document's bytes again, which must not change until it is done with.
	Locate func(index int, field string) Position
}

// Report says what a decode accepted although it was not plain.
type Report struct {
	// Unknown counts members that are not known, by name. They are kept in the rules' Extra.
	Unknown map[string]int
	// Defaulted counts absent or null members that took the dialect's default, by name.
	Defaulted map[string]int
	// Metadata counts dashboard members that were dropped (app, ip, port, gmtCreate, gmtModified).
	Metadata int
	// Unwrapped counts rules that came wrapped in a "rule" member.
	Unwrapped int
}

// Position is a place in a document.
type Position struct {
	// Line and Column count from 1, Column in characters (runes); 0 = not known.
	Line, Column int
	// Pointer is the JSON pointer (RFC 6901), also for YAML.
	Pointer string
}
