package converter

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rulewire/rulewire/rule"
)

// writer is one encode under way.
type writer struct {
	dialect DialectName
	faults  Faults
	// index and resource say where the writer is, for faults.
	index    int
	resource string
}

// fail notes why the rules can't be written; what is written from then on is only to find the other faults.
func (w *writer) fail(err error, reason string) { w.failAt("", err, reason) }

func (w *writer) failAt(field string, err error, reason string) {
	if len(w.faults) < maxFaults {
		w.faults = append(w.faults, &Fault{Index: w.index, Resource: w.resource, Field: field, Reason: reason, Err: err})
	}
}

// in names the member of the faults from the first on: the functions that write values don't know it.
func (w *writer) in(first int, field string) {
	for _, f := range w.faults[first:] {
		switch {
		case f.Field == "":
			f.Field = field
		case f.Field != field:
			f.Field = field + "." + f.Field
		}
	}
}

func (w *writer) string(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return w.quote(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// quote writes a string that needs escapes or a check.
func (w *writer) quote(b []byte, s string) []byte {
	quoted, err := jsontext.AppendQuote(b, s)
	if err != nil {
		// Replacing the bad bytes would make another resource of it.
		w.fail(rule.ErrInvalid, "not valid UTF-8: "+quote(s))
		return b
	}
	return quoted
}

func (w *writer) double(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.fail(rule.ErrInvalid, "not a finite number: "+strconv.FormatFloat(f, 'g', -1, 64))
		return b
	}
	return appendFloat(b, f)
}

func (w *writer) number(b []byte, n int64, m *spelling) []byte {
	if least, most := m.bounds(); n < least || n > most {
		w.fail(rule.ErrInvalid, strconv.FormatInt(n, 10)+" is not from "+strconv.FormatInt(least, 10)+" to "+
			strconv.FormatInt(most, 10)+", as every reader of the "+string(w.dialect)+" dialect needs it")
	}
	return strconv.AppendInt(b, n, 10)
}

// extra writes the members that were kept. They are checked again: a rule can also come from code.
func (w *writer) extra(b []byte, members rule.Extra, known func(string) bool) []byte {
	names := make(map[string]bool, len(members))
	for _, m := range members {
		if names[m.Name] || known(m.Name) {
			w.failAt(m.Name, rule.ErrInvalid, quote(m.Name)+" in Extra is a member that is written already")
			continue
		}
		names[m.Name] = true
		b = append(w.string(append(b, ','), m.Name), ':')
		text, err := jsontext.AppendFormat(b, m.Value)
		if err != nil {
			w.failAt(m.Name, rule.ErrInvalid, "the value of "+quote(m.Name)+" in Extra is not JSON")
			continue
		}
		b = text
	}
	return b
}

// encode writes a list of rules as JSON.
func encode[T any](c codec[T], dialect DialectName, rules []T) ([]byte, error) {
	w := &writer{dialect: dialect}
	b := append(make([]byte, 0, 512), '[')
	for i := range rules {
		if i > 0 {
			b = append(b, ',')
		}
		if i == 16 {
			// The first rules tell how long the others are.
			b = slices.Grow(b, len(b)/16*(len(rules)-16)*9/8)
		}
		w.index, w.resource = i, c.name(&rules[i])
		b = c.write(w, b, &rules[i])
	}
	if len(w.faults) > 0 {
		return nil, w.faults
	}
	return append(b, ']'), nil
}
