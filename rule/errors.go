package rule

import (
	"errors"
	"strings"
)

// ErrInvalid is wrapped by every error about a rule that breaks its kind's ranges.
var ErrInvalid = errors.New("invalid rule")

// ErrUnsupported is wrapped by every error about a rule, an option or a store feature that is understood but can't be carried out.
var ErrUnsupported = errors.New("unsupported")

// Fault is one thing wrong with one rule: the member by its name in the java dialect, and why.
type Fault struct {
	Field  string
	Reason string
	// Err is ErrInvalid (also when nil) or ErrUnsupported.
	Err error
}

// Invalid is every fault of one rule.
type Invalid struct{ Faults []Fault }

// Error lists every fault.
func (e *Invalid) Error() string {
	parts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		parts[i] = f.Field + ": " + f.Reason
	}
	return strings.Join(parts, "; ")
}

// Unwrap gives the sentinel of each fault.
func (e *Invalid) Unwrap() []error {
	errs := make([]error, 0, len(e.Faults))
	for _, f := range e.Faults {
		if f.Err == nil {
			errs = append(errs, ErrInvalid)
		} else {
			errs = append(errs, f.Err)
		}
	}
	return errs
}
