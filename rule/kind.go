package rule

import (
	"errors"
	"fmt"
	"strings"
)

// Kind names a kind of rule. The texts are the names used in status, files and the command line.
type Kind string

// The kinds of rule.
const (
	KindFlow      Kind = "flow"
	KindDegrade   Kind = "degrade"
	KindSystem    Kind = "system"
	KindAuthority Kind = "authority"
	KindParamFlow Kind = "param-flow"
	KindIsolation Kind = "isolation"
)

// Kinds lists every kind, in the order in which pages and tools show them.
func Kinds() []Kind {
	return []Kind{KindFlow, KindDegrade, KindSystem, KindAuthority, KindParamFlow, KindIsolation}
}

// ErrUnknownKind is wrapped by the error of ParseKind.
var ErrUnknownKind = errors.New("unknown rule kind")

// ParseKind finds a kind by name. Case, dashes, underscores, dots and spaces do not matter: "param-flow", "param_flow",
// "PARAM_FLOW" and "paramFlow" are the same. The error lists the names there are.
func ParseKind(name string) (Kind, error) {
	plain := plainName(name)
	for _, k := range Kinds() {
		if plain == plainName(string(k)) {
			return k, nil
		}
	}
	names := make([]string, 0, len(Kinds()))
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return "", fmt.Errorf("%w %q; known are %s", ErrUnknownKind, name, strings.Join(names, ", "))
}

// plainName lower-cases s and drops the characters in which people's spellings differ.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '-', '_', '.', ' ':
			return -1
		}
		if r >= 'A' && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}

// KindOf gives the kind that R is the type of; false for a type of the user's own.
func KindOf[R any]() (Kind, bool) {
	switch any((*R)(nil)).(type) {
	case *Flow:
		return KindFlow, true
	case *Degrade:
		return KindDegrade, true
	case *System:
		return KindSystem, true
	case *Authority:
		return KindAuthority, true
	case *ParamFlow:
		return KindParamFlow, true
	case *Isolation:
		return KindIsolation, true
	default:
		return "", false
	}
}
