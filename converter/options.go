package converter

import (
	"fmt"

	"github.com/rulewire/rulewire/rule"
)

// DialectName names the field names and defaults of a rule document.
type DialectName string

const (
	// Java is the dialect of Sentinel 1.8 and its Dashboard. The default.
	Java DialectName = "java"
	// Golang is the dialect of sentinel-golang 1.0.
	Golang DialectName = "golang"
)

// UnknownPolicy says what a member that is not known does to its document.
type UnknownPolicy string

const (
	// RefuseTypos refuses the document where an unknown member misspells a known, absent one, differs from a known
	// one only in case, "_" or "-", or belongs to the other dialect; any other is kept and reported. The default.
	RefuseTypos UnknownPolicy = "refuse-typos"
	// Refuse refuses the document where any member is unknown. Dashboard metadata stays known.
	Refuse UnknownPolicy = "refuse"
	// Note keeps and reports every unknown member, also a typo. A missing required member is a fault all the same.
	Note UnknownPolicy = "note"
)

// Option changes what JSON and YAML read and write.
type Option func(*settings)

// Dialect sets the dialect. Default Java.
func Dialect(name DialectName) Option { return func(s *settings) { s.dialect = name } }

// UnknownMembers sets what unknown members do. Default RefuseTypos.
func UnknownMembers(policy UnknownPolicy) Option { return func(s *settings) { s.unknown = policy } }

// AllowSingle accepts one object where a list is expected, as a list of that one rule. Default: refused.
func AllowSingle() Option { return func(s *settings) { s.single = true } }

// AllowQuoted unwraps a document that is one string holding the document, once. Default: refused as doubly encoded.
// Lines and columns in errors are then those of the inner text.
func AllowQuoted() Option { return func(s *settings) { s.quoted = true } }

type settings struct {
	dialect        DialectName
	unknown        UnknownPolicy
	single, quoted bool
	yaml           bool
}

func newSettings(opts []Option) *settings {
	s := &settings{dialect: Java, unknown: RefuseTypos}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	return s
}

// check names an option value that does not exist; it can come from a configuration file.
func (s *settings) check() error {
	if s.dialect != Java && s.dialect != Golang {
		return fmt.Errorf("dialect %q (want %q or %q): %w", s.dialect, Java, Golang, rule.ErrUnsupported)
	}
	if s.unknown != RefuseTypos && s.unknown != Refuse && s.unknown != Note {
		return fmt.Errorf("policy %q for unknown members (want %q, %q or %q): %w",
			s.unknown, RefuseTypos, Refuse, Note, rule.ErrUnsupported)
	}
	return nil
}
