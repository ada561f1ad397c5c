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

// fail notes why a member can't be written; what is written from then on is only to find the other faults.
func (w *writer) fail(field string, err error, reason string) {
	if len(w.faults) < maxFaults {
		w.faults = append(w.faults, &Fault{Index: w.index, Resource: w.resource, Field: field, Reason: reason, Err: err})
	}
}

// inside says that the faults from the first on are inside a member.
func (w *writer) inside(first int, field string) {
	for _, f := range w.faults[first:] {
		f.Field = field + "." + f.Field
	}
}

// special are the bytes that make a string more than its bytes between quotes.
var special = func() (t [256]bool) {
	for c := range t {
		t[c] = c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf
	}
	return t
}()

func (w *writer) string(b []byte, s string, m *spelling) []byte {
	for i := range len(s) {
		if special[s[i]] {
			return w.quote(b, s, m.name)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// quote writes a string that needs escapes or a check.
func (w *writer) quote(b []byte, s, field string) []byte {
	quoted, err := jsontext.AppendQuote(b, s)
	if err != nil {
		// Replacing the bad bytes would make another resource of it.
		w.fail(field, rule.ErrInvalid, "not valid UTF-8: "+quote(clip(s)))
		return b
	}
	return quoted
}

func (w *writer) double(b []byte, f float64, m *spelling) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.fail(m.name, rule.ErrInvalid, "not a finite number: "+strconv.FormatFloat(f, 'g', -1, 64))
		return b
	}
	return appendFloat(b, f)
}

func (w *writer) number(b []byte, n int64, m *spelling) []byte {
	if n < m.least || n > m.most {
		w.fail(m.name, rule.ErrInvalid, strconv.FormatInt(n, 10)+" is not from "+strconv.FormatInt(m.least, 10)+" to "+
			strconv.FormatInt(m.most, 10)+", as every reader of the "+string(w.dialect)+" dialect needs it")
	}
	return appendInt(b, n)
}

func (w *writer) choice(b []byte, n int64, cs []choice, m *spelling) []byte {
	if !isChoice(cs, n) {
		w.fail(m.name, rule.ErrInvalid, "expected "+choices(cs)+", found "+strconv.FormatInt(n, 10))
	}
	return appendInt(b, n)
}

// extra writes the members that were kept. They are checked again: a rule can also come from code.
func (w *writer) extra(b []byte, members rule.Extra, known func(string) bool) []byte {
	names := make(map[string]bool, len(members))
	for _, m := range members {
		if names[m.Name] || known(m.Name) {
			w.fail(m.Name, rule.ErrInvalid, quote(clip(m.Name))+" in Extra is a member that is written already")
			continue
		}
		names[m.Name] = true
		b = append(w.quote(append(b, ','), m.Name, m.Name), ':')
		text, err := jsontext.AppendFormat(b, m.Value)
		if err != nil {
			w.fail(m.Name, rule.ErrInvalid, "the value of "+quote(clip(m.Name))+" in Extra is not JSON")
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
