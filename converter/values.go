package converter

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/rulewire/rulewire/rule"
)

// The values a member can have. Each takes a function that points at the Go field, so that reading, writing and
// comparing with the default come from one line of a table.

// kind is the type of a member's value. The plain kinds are read and written by one switch each: a call less for each of
// the hundred thousand members of a large document.
type kind uint8

const (
	// custom values bring their own functions.
	custom kind = iota
	textKind
	doubleKind
	integerKind
	flagKind
	typedKind
	enumKind
)

// value says where a member's value is in the Go rule.
type value[R any] struct {
	kind    kind
	text    func(*R) *string
	double  func(*R) *float64
	integer func(*R) *int64
	flag    func(*R) *bool
	typed   func(*R) *int32
	get     func(*R) int64
	set     func(*R, int64)
	choices []choice

	// read, write and same are for the custom kind. read starts at a value that is not null and steps over it.
	read  func(d *reader, r *R, m *spelling)
	write func(w *writer, b []byte, r *R, m *spelling) []byte
	same  func(r, std *R) bool
}

// text is a string. Numbers and booleans are not taken for strings, nor strings for numbers: fastjson does, Jackson does
// in part and sentinel-golang does not, so such a document means different things to its readers.
func text[R any](at func(*R) *string) value[R] { return value[R]{kind: textKind, text: at} }

// double is a floating point number.
func double[R any](at func(*R) *float64) value[R] { return value[R]{kind: doubleKind, double: at} }

// integer is a whole number.
func integer[R any](at func(*R) *int64) value[R] { return value[R]{kind: integerKind, integer: at} }

// flag is true or false.
func flag[R any](at func(*R) *bool) value[R] { return value[R]{kind: flagKind, flag: at} }

// enum is a number that must be one of a few. One that does not exist is never let through: Sentinel itself takes some
// for another behaviour, silently.
func enum[R any](get func(*R) int64, set func(*R, int64), cs ...choice) value[R] {
	return value[R]{kind: enumKind, get: get, set: set, choices: cs}
}

// typed is enum for a field that holds the same number.
func typed[R any](at func(*R) *int32, cs ...choice) value[R] {
	return value[R]{kind: typedKind, typed: at, choices: cs}
}

// choice is one number of an enumeration and what it means.
type choice struct {
	number  int64
	meaning string
}

func isChoice(cs []choice, n int64) bool {
	for i := range cs {
		if cs[i].number == n {
			return true
		}
	}
	return false
}

func choices(cs []choice) string {
	texts := make([]string, len(cs))
	for i, c := range cs {
		texts[i] = strconv.FormatInt(c.number, 10) + " (" + c.meaning + ")"
	}
	return list(texts, "or")
}

// scan reads the value at the cursor, which is not null, and steps over it.
func (v *value[R]) scan(d *reader, r *R, m *spelling) {
	switch b := d.text[d.pos]; v.kind {
	case textKind:
		if b != '"' {
			d.wrong(m.name, "a string")
			return
		}
		*v.text(r) = d.string()
	case doubleKind:
		if !isNumber(b) {
			d.wrong(m.name, "a number")
			return
		}
		start := d.pos
		raw := d.bare()
		f, ok := parseFloat(raw)
		if !ok {
			d.invalid(start, m.name, "a number that fits a double", raw)
			return
		}
		*v.double(r) = f
	case integerKind:
		if n, ok := d.number(m); ok {
			*v.integer(r) = n
		}
	case flagKind:
		if b != 't' && b != 'f' {
			d.wrong(m.name, "true or false")
			return
		}
		*v.flag(r) = d.bare()[0] == 't'
	case typedKind, enumKind:
		if !isNumber(b) {
			d.wrong(m.name, "a number: "+choices(v.choices))
			return
		}
		start := d.pos
		raw := d.bare()
		n, integral := parseInt(raw)
		if integral != isInteger || !isChoice(v.choices, n) {
			d.invalid(start, m.name, choices(v.choices), raw)
			return
		}
		if v.kind == typedKind {
			*v.typed(r) = int32(n)
		} else {
			v.set(r, n)
		}
	default:
		v.read(d, r, m)
	}
}

// open appends the comma, name and colon. Copying a fixed number of bytes and taking some back is several times cheaper than
// copying an unknown number, and this is most of what encoding does.
func (m *member[R]) open(b []byte) []byte {
	n := len(b)
	if cap(b)-n < len(m.padded) || m.size == 0 {
		return append(b, m.comma...)
	}
	b = b[:n+len(m.padded)]
	*(*[32]byte)(b[n:]) = m.padded
	return b[:n+m.size]
}

// print appends the member; nothing where it is optional and holds the default.
func (m *member[R]) print(w *writer, b []byte, r, std *R) []byte {
	switch m.kind {
	case textKind:
		s := *m.text(r)
		if s == m.standard.text && m.known() {
			return m.unchanged(b)
		}
		return w.string(m.open(b), s, &m.spelling)
	case doubleKind:
		f := *m.double(r)
		if f == m.standard.double && m.known() {
			return m.unchanged(b)
		}
		return w.double(m.open(b), f, &m.spelling)
	case integerKind:
		n := *m.integer(r)
		if n == m.standard.number && m.known() {
			return m.unchanged(b)
		}
		return w.number(m.open(b), n, &m.spelling)
	case flagKind:
		t := *m.flag(r)
		if t == m.standard.flag && m.known() {
			return m.unchanged(b)
		}
		return strconv.AppendBool(m.open(b), t)
	case typedKind:
		n := int64(*m.typed(r))
		if n == m.standard.number && m.known() {
			return m.unchanged(b)
		}
		return w.choice(m.open(b), n, m.choices, &m.spelling)
	case enumKind:
		n := m.get(r)
		if n == m.standard.number && m.known() {
			return m.unchanged(b)
		}
		return w.choice(m.open(b), n, m.choices, &m.spelling)
	}
	if m.known() && m.same(r, std) {
		return m.unchanged(b)
	}
	return m.write(w, m.open(b), r, &m.spelling)
}

// known says that it is known how the member with its default is written: not at all, or as whole.
func (m *member[R]) known() bool { return m.mode == optional || m.wholeSize > 0 }

// unchanged writes a member that has its default.
func (m *member[R]) unchanged(b []byte) []byte {
	if m.mode == optional {
		return b
	}
	n := len(b)
	if cap(b)-n < len(m.whole) {
		return append(b, m.whole[:m.wholeSize]...)
	}
	b = b[:n+len(m.whole)]
	*(*[32]byte)(b[n:]) = m.whole
	return b[:n+m.wholeSize]
}

// standardOf takes the default of a plain kind out of the template.
func (m *member[R]) standardOf(std *R) (s standard) {
	switch m.kind {
	case textKind:
		s.text = *m.text(std)
	case doubleKind:
		s.double = *m.double(std)
	case integerKind:
		s.number = *m.integer(std)
	case flagKind:
		s.flag = *m.flag(std)
	case typedKind:
		s.number = int64(*m.typed(std))
	case enumKind:
		s.number = m.get(std)
	}
	return s
}

// origin is limitApp where blank means the default; Java normalizes so when it loads a rule.
func origin[R any](at func(*R) *string) value[R] {
	or := func(r *R) string {
		if s := *at(r); s != "" && s[0] > ' ' {
			return s
		}
		return cmp.Or(strings.TrimSpace(*at(r)), "default")
	}
	plain := text(at)
	return value[R]{
		read: func(d *reader, r *R, m *spelling) {
			plain.scan(d, r, m)
			*at(r) = or(r)
		},
		write: func(w *writer, b []byte, r *R, m *spelling) []byte { return w.string(b, or(r), m) },
		same:  func(r, std *R) bool { return or(r) == *at(std) },
	}
}

// string reads the string at the cursor. The few values that most rules share are not allocated again.
func (d *reader) string() string {
	start := d.pos
	raw, plain := d.quoted()
	if !plain {
		return string(unquote(d.text[start:d.pos]))
	}
	switch string(raw) {
	case "":
		return ""
	case "default":
		return "default"
	case "int":
		return "int"
	case "java.lang.String":
		return "java.lang.String"
	}
	return string(raw)
}

func isNumber(b byte) bool { return b == '-' || b >= '0' && b <= '9' }

// number reads an integer within the member's range.
func (d *reader) number(m *spelling) (int64, bool) {
	if !isNumber(d.text[d.pos]) {
		d.wrong(m.name, "a whole number")
		return 0, false
	}
	start := d.pos
	raw := d.bare()
	n, kind := parseInt(raw)
	if kind == notIntegral {
		d.reject(start, m.name, &Fault{Expected: "a whole number", Found: found(raw), Err: ErrDecode})
		return 0, false
	}
	if kind == tooLarge || n < m.least || n > m.most {
		d.invalid(start, m.name, "a whole number from "+strconv.FormatInt(m.least, 10)+" to "+strconv.FormatInt(m.most, 10), raw)
		return 0, false
	}
	return n, true
}

// pointerTo is a whole number that may be absent.
func pointerTo[R any](at func(*R) **int64) value[R] {
	return value[R]{
		read: func(d *reader, r *R, m *spelling) {
			if n, ok := d.number(m); ok {
				*at(r) = &n
			}
		},
		write: func(w *writer, b []byte, r *R, m *spelling) []byte { return w.number(b, **at(r), m) },
		same:  func(a, _ *R) bool { return *at(a) == nil },
	}
}

// wholeDouble is a whole number on the wire and a double in Rulewire (sentinel-golang counts in integers where Java doesn't).
func wholeDouble[R any](at func(*R) *float64) value[R] {
	return value[R]{
		read: func(d *reader, r *R, m *spelling) {
			if n, ok := d.number(m); ok {
				*at(r) = float64(n)
			}
		},
		write: func(w *writer, b []byte, r *R, m *spelling) []byte {
			f := *at(r)
			if n := int64(f); float64(n) == f && math.Abs(f) < 1<<63 {
				return w.number(b, n, m)
			}
			w.fail(m.name, rule.ErrUnsupported, "the "+string(w.dialect)+" dialect takes whole numbers only, found "+strconv.FormatFloat(f, 'g', -1, 64))
			return b
		},
		same: func(a, b *R) bool { return *at(a) == *at(b) },
	}
}

// ignored is a member of the Dashboard that no rule needs.
func ignored[R any]() value[R] { return value[R]{} }

// nested is an object inside a rule; nil where it is absent.
func nested[R, S any](at func(*R) **S, part codec[S]) value[R] {
	return value[R]{
		read: func(d *reader, r *R, m *spelling) {
			if d.text[d.pos] != '{' {
				d.wrong(m.name, "an object")
				return
			}
			depth := d.enter(m.name)
			s := new(S)
			part.read(d, s)
			*at(r) = s
			d.leave(depth)
		},
		write: func(w *writer, b []byte, r *R, m *spelling) []byte {
			before := len(w.faults)
			b = part.write(w, b, *at(r))
			w.inside(before, m.name)
			return b
		},
		same: func(a, b *R) bool { return *at(a) == nil && *at(b) == nil },
	}
}

// sequence is a list of objects inside a rule.
func sequence[R, S any](at func(*R) *[]S, part codec[S]) value[R] {
	return value[R]{
		read: func(d *reader, r *R, m *spelling) {
			if d.text[d.pos] != '[' {
				d.wrong(m.name, "a list")
				return
			}
			var all []S
			outer := d.enter(m.name)
			for i := 0; d.more(); i++ {
				depth := d.enter(strconv.Itoa(i))
				all = append(all, *new(S))
				if d.text[d.pos] == '{' {
					part.read(d, &all[i])
				} else {
					d.wrong("", "an object")
				}
				d.leave(depth)
				d.blanks()
			}
			d.leave(outer)
			*at(r) = all
		},
		write: func(w *writer, b []byte, r *R, m *spelling) []byte {
			b = append(b, '[')
			for i := range *at(r) {
				if i > 0 {
					b = append(b, ',')
				}
				before := len(w.faults)
				b = part.write(w, b, &(*at(r))[i])
				if len(w.faults) > before {
					w.inside(before, m.name+"["+strconv.Itoa(i)+"]")
				}
			}
			return append(b, ']')
		},
		same: func(a, b *R) bool { return len(*at(a)) == 0 && len(*at(b)) == 0 },
	}
}

// longID says whether an id is a Java Long in the only form in which it survives as a number.
func longID(id string) bool {
	digits := strings.TrimPrefix(id, "-")
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(id) > 1 {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	if len(digits) < 19 {
		return true
	}
	_, err := strconv.ParseInt(id, 10, 64)
	return err == nil
}

// ident is an id: a number in Java, a string in Go. Both are read, exactly, in both dialects.
func ident[R any](at func(*R) *string) value[R] {
	return value[R]{
		read: func(d *reader, r *R, m *spelling) {
			if id, ok := d.ident(m); ok {
				*at(r) = id
			}
		},
		write: func(w *writer, b []byte, r *R, m *spelling) []byte { return w.string(b, *at(r), m) },
		same:  func(a, b *R) bool { return *at(a) == *at(b) },
	}
}

// longIdent is Java's id. Java clients fail on the whole list when one id is no number, so that only numbers are written.
func longIdent[R any](at func(*R) *string) value[R] {
	v := ident(at)
	v.write = func(_ *writer, b []byte, r *R, _ *spelling) []byte { return append(b, *at(r)...) }
	v.same = func(a, _ *R) bool { return !longID(*at(a)) }
	return v
}

// textIdent is where the java dialect keeps an id that is no number. Java clients ignore it. Beside an "id" it is ignored.
func textIdent[R any](at func(*R) *string) value[R] {
	v := ident(at)
	v.read = func(d *reader, r *R, m *spelling) {
		if id, ok := d.ident(m); ok && *at(r) == "" {
			*at(r) = id
		}
	}
	v.same = func(a, _ *R) bool { return *at(a) == "" || longID(*at(a)) }
	return v
}

func (d *reader) ident(m *spelling) (id string, ok bool) {
	start := d.pos
	switch b := d.text[start]; {
	case b == '"':
		return d.string(), true
	case isNumber(b):
		raw := d.bare()
		n, kind := parseInt(raw)
		switch {
		case kind == isInteger:
			return strconv.FormatInt(n, 10), true
		case kind == tooLarge && !strings.ContainsAny(string(raw), ".eE"):
			return string(raw), true // longer than a long, still exact
		}
		d.reject(start, m.name, &Fault{Expected: "a whole number or a string", Found: found(raw), Err: ErrDecode})
	default:
		d.wrong(m.name, "a whole number or a string")
	}
	return "", false
}
