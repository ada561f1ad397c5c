package converter

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/rulewire/rulewire/rule"
)

// A field is one member of a rule, declared once: how each dialect spells it, and how its value is read and written.
type field[R any] struct {
	java, golang spelling
	value        value[R]
}

// spelling is a member in one dialect. The zero value: the dialect does not have the member.
type spelling struct {
	name string
	mode mode
	// std is the value of an absent or null member, as JSON; "" is the Go zero value.
	std string
	// least and most bound an integer; both 0 in a table: any int64.
	least, most int64
	// seldom members are optional ones that the schema's rare asks for all at once.
	seldom bool
}

type mode uint8

const (
	// always members are written also when they hold the default; a reader's default is counted in the report.
	always mode = iota
	// optional members are written only when they differ from the default.
	optional
	// required members must be there. They are always written.
	required
	// metadata members of the Dashboard are dropped.
	metadata
)

func own(name, std string) spelling { return spelling{name: name, std: std} }
func opt(name, std string) spelling { return spelling{name: name, std: std, mode: optional} }
func req(name string) spelling      { return spelling{name: name, mode: required} }

// seldom is opt for a member that the schema's rare knows of.
func seldom(name string) spelling { return spelling{name: name, mode: optional, seldom: true} }

func (s spelling) in(least, most int64) spelling { s.least, s.most = least, most; return s }

// The ranges of the numbers of both sides: what is outside makes the other side refuse the whole list.
func (s spelling) int32() spelling  { return s.in(math.MinInt32, math.MaxInt32) }
func (s spelling) uint32() spelling { return s.in(0, math.MaxUint32) }
func (s spelling) uint64() spelling { return s.in(0, math.MaxInt64) }

// exact is the range of the integers that a double holds exactly.
func (s spelling) exact(least int64) spelling { return s.in(least, 1<<53) }

// maxMembers is the number of bits in the masks of an object.
const maxMembers = 64

// schema is one kind of object in one dialect.
type schema[R any] struct {
	dialect DialectName
	members []member[R]
	// written are the members that are no metadata.
	written []member[R]
	// rare, where set, says that a rule has one of the seldom members; where it has none, as most rules, only the usual
	// members are looked at: half the work of encoding was to find that fifteen of them are not to be written.
	rare  func(r *R) bool
	usual []member[R]
	index map[string]uint8
	// foreign holds the names that only the other dialect has, each with this dialect's name for it; "" where there is
	// no single one.
	foreign map[string]string
	// spelled maps the java names of members that the dialect calls otherwise.
	spelled map[string]string

	required, counted uint64
	template          R

	extra func(r *R) *rule.Extra
	// resource is nil for parts of rules.
	resource func(r *R) string
	// finish runs when an object has been read: it turns what was read into what is meant.
	finish func(d *reader, r *R, o object)
	// check refuses to write a rule that the dialect can't say.
	check func(w *writer, r *R)
	// wrapped says that the Dashboard stores this kind in a "rule" member.
	wrapped bool
}

type member[R any] struct {
	spelling
	value[R]
	folded string
	// prefix is the member's name with quotes and colon, as it is most often read; comma is the same after a comma.
	prefix, comma []byte
	// padded is comma in an array of fixed length, size its length; 0 where it does not fit.
	padded [32]byte
	size   int
	// standard is the default in Go, for the plain kinds; whole is the member with it, as it is written, and wholeSize its
	// length, 0 where it does not fit or is never written.
	standard  standard
	whole     [32]byte
	wholeSize int
}

// standard is a default by kind.
type standard struct {
	text   string
	double float64
	number int64 // integers and choices
	flag   bool
}

// object is what is known of one object while it is read.
type object struct {
	// named members were there, seen ones not as null.
	named, seen uint64
	unknown     []unknown
	// places makes the check for repeated unknown names linear; nil while there are few.
	places map[string]bool
	// at is the object's offset.
	at int
	// inner is the offset of a wrapped rule; 0 = none.
	inner int
	// numericID says that the id was a number.
	numericID bool
}

type unknown struct {
	name string
	at   int
}

// newSchema takes the dialect's part of a table, in alphabetical order, as fastjson writes it.
func newSchema[R any](dialect DialectName, extra func(*R) *rule.Extra, fields []field[R]) *schema[R] {
	s := &schema[R]{
		dialect: dialect, extra: extra, index: map[string]uint8{}, foreign: map[string]string{}, spelled: map[string]string{},
	}
	for _, f := range fields {
		own, other := f.java, f.golang
		if dialect == Golang {
			own, other = other, own
		}
		if own.name != "" {
			s.members = append(s.members, member[R]{spelling: own, value: f.value})
			if f.java.name != "" {
				s.spelled[f.java.name] = own.name
			}
		}
		if other.name != "" {
			s.foreign[other.name] = own.name
		}
	}
	slices.SortFunc(s.members, func(a, b member[R]) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	if len(s.members) > maxMembers {
		panic("converter: more members than bits")
	}
	d := &reader{}
	for i := range s.members {
		m := &s.members[i]
		s.index[m.name] = uint8(i)
		delete(s.foreign, m.name)
		m.folded = fold(m.name)
		if m.least == 0 && m.most == 0 {
			m.least, m.most = math.MinInt64, math.MaxInt64
		}
		m.comma = []byte(`,"` + m.name + `":`)
		m.prefix = m.comma[1:]
		if len(m.comma) <= len(m.padded) {
			m.size = copy(m.padded[:], m.comma)
		}
		switch {
		case m.mode == required:
			s.required |= 1 << i
		case m.mode == always && m.std != "":
			s.counted |= 1 << i
		}
		if m.std != "" {
			d.cursor = cursor{text: []byte(m.std + " ")}
			m.scan(d, &s.template, &m.spelling)
		}
	}
	if len(d.faults) > 0 {
		panic("converter: bad default: " + d.faults[0].Error())
	}
	for i := range s.members {
		m := &s.members[i]
		m.standard = m.standardOf(&s.template)
		if m.mode == always {
			text := m.print(&writer{dialect: dialect}, nil, &s.template, &s.template)
			if len(text) <= len(m.whole) {
				m.wholeSize = copy(m.whole[:], text)
			}
		}
	}
	for _, m := range s.members {
		if m.mode == metadata {
			continue
		}
		s.written = append(s.written, m)
		if !m.seldom {
			s.usual = append(s.usual, m)
		}
	}
	return s
}

// defaults names the counted members.
func (s *schema[R]) defaults(counts *[maxMembers]int) map[string]int {
	var names map[string]int
	for i := range s.members {
		if counts[i] > 0 {
			if names == nil {
				names = map[string]int{}
			}
			names[s.members[i].name] = counts[i]
		}
	}
	return names
}

// has says whether a member was there and not null.
func (s *schema[R]) has(o object, name string) bool {
	i, ok := s.index[name]
	return ok && o.seen&(1<<i) != 0
}

// read reads the object at the cursor.
func (s *schema[R]) read(d *reader, r *R) {
	*r = s.template
	o := object{at: d.pos}
	s.readMembers(d, r, &o)
	if o.inner != 0 {
		s.unwrap(d, r, &o)
	} else {
		s.settle(d, r, &o)
	}
}

// unwrap reads the rule inside a Dashboard entity; o is the entity around it.
func (s *schema[R]) unwrap(d *reader, r *R, o *object) {
	outer := *o
	var beside []string
	for mask := outer.seen; mask != 0; mask &= mask - 1 {
		if m := &s.members[bits.TrailingZeros64(mask)]; m.mode != metadata && m.name != "id" {
			beside = append(beside, m.name)
		}
	}
	if len(beside) > 0 {
		// Which of the two is meant can't be known; taking one would drop the other.
		d.rejectObject(outer.at, beside[0], &Fault{
			Reason: "a wrapped rule has " + list(beside, "and") + " beside \"rule\" instead of inside it", Err: ErrDecode})
	}
	end := d.pos
	depth := d.enter("rule")
	d.pos = outer.inner
	inner := object{at: d.pos, unknown: outer.unknown, places: outer.places, numericID: outer.numericID}
	s.readMembers(d, r, &inner)
	s.settle(d, r, &inner)
	d.leave(depth)
	d.pos = end
	d.report.Unwrapped++
}

func (s *schema[R]) readMembers(d *reader, r *R, o *object) {
	last, follow := maxMembers, &d.follow[min(1, len(d.below))]
	if s.wrapped {
		follow = &d.follow[0]
	}
	for d.more() {
		at := d.pos
		i, ok := follow[last], false
		var name []byte
		if int(i) < len(s.members) {
			ok = bytes.HasPrefix(d.text[at:], s.members[i].prefix)
		}
		if ok {
			d.pos += len(s.members[i].prefix)
			d.blanks()
		} else {
			name = d.name()
			if i, ok = s.index[string(name)]; ok {
				follow[last] = i
			}
		}
		switch {
		case ok:
			last = int(i)
			m, bit := &s.members[i], uint64(1)<<i
			if o.named&bit != 0 {
				d.duplicate(at, m.name)
			}
			o.named |= bit
			if d.text[d.pos] == 'n' {
				d.bare()
				break
			}
			o.seen |= bit
			if m.mode == metadata {
				d.value()
				d.report.Metadata++
				break
			}
			if m.name == "id" {
				o.numericID = d.text[d.pos] != '"'
			}
			m.scan(d, r, &m.spelling)
		case s.wrapped && string(name) == "rule" && len(d.below) == 0:
			if o.inner != 0 {
				d.duplicate(at, "rule")
			}
			if start := d.pos; d.text[start] == '{' {
				o.inner = start
			} else if d.text[start] != 'n' {
				d.wrong("rule", "an object")
				break
			}
			d.value()
		default:
			s.keep(d, r, o, string(name), at)
		}
		d.blanks()
	}
}

// keep puts a member that is not known into the rule's Extra.
func (s *schema[R]) keep(d *reader, r *R, o *object, name string, at int) {
	raw := d.value()
	if name == "$ref" {
		d.reject(at, name, &Fault{
			Reason: "a fastjson reference instead of the object itself",
			Hint:   "write the document with SerializerFeature.DisableCircularReferenceDetect", Err: ErrDecode})
		return
	}
	if s.wrapped && name == "rule" {
		d.reject(at, name, &Fault{Reason: "a rule inside a wrapped rule", Err: ErrDecode})
		return
	}
	if o.repeats(name) {
		d.duplicate(at, name)
		return
	}
	o.unknown = append(o.unknown, unknown{name, at})
	text, fault := compact(raw)
	if fault != nil {
		d.reject(at, name, fault)
		return
	}
	extra := s.extra(r)
	*extra = append(*extra, rule.Member{Name: name, Value: text})
}

// repeats says whether an unknown name was there before, without a quadratic search.
func (o *object) repeats(name string) bool {
	const few = 16
	if len(o.unknown) < few {
		return slices.ContainsFunc(o.unknown, func(u unknown) bool { return u.name == name })
	}
	if o.places == nil {
		o.places = make(map[string]bool, 2*few)
		for _, u := range o.unknown {
			o.places[u.name] = true
		}
	}
	if o.places[name] {
		return true
	}
	o.places[name] = true
	return false
}

// settle judges an object after its last member: what is missing, what is unknown, what took its default.
func (s *schema[R]) settle(d *reader, r *R, o *object) {
	missing := s.required &^ o.seen
	if len(o.unknown) > 0 {
		missing = s.judge(d, o, missing)
	}
	for ; missing != 0; missing &= missing - 1 {
		m := &s.members[bits.TrailingZeros64(missing)]
		reason := "missing required " + m.name
		if o.named&(missing&-missing) != 0 {
			reason += " (it is null)"
		}
		d.absent(o.at, m.name, reason)
	}
	if len(d.below) == 0 || s.wrapped {
		for mask := s.counted &^ o.seen; mask != 0; mask &= mask - 1 {
			d.defaulted[bits.TrailingZeros64(mask)]++
		}
	}
	if s.finish != nil {
		s.finish(d, r, *o)
	}
}

// judge applies the policy for unknown members. It answers which required members are still to be named as missing.
func (s *schema[R]) judge(d *reader, o *object, missing uint64) uint64 {
	var foreign []string
	at := 0
	for _, u := range o.unknown {
		known, kind := s.resembles(u.name, o.seen)
		if d.set.unknown == Note {
			kind = stranger
		}
		fault := &Fault{Reason: "unknown " + clip(u.name), Err: ErrDecode}
		switch kind {
		case foreignName:
			if len(foreign) == 0 {
				at = u.at
			}
			foreign = append(foreign, u.name)
			continue
		case foreignTypo:
			if i, ok := s.index[s.foreign[known]]; ok && missing&(1<<i) != 0 {
				fault.Reason = "missing " + s.members[i].name + ", unknown " + clip(u.name)
				missing &^= 1 << i
			}
			fault.Hint = fmt.Sprintf("%q is a name of the %s dialect: is this document in the %[2]s dialect?", known, s.other())
			d.refuse(u.at, u.name, fault)
			continue
		case typo:
			if i := s.index[known]; missing&(1<<i) != 0 {
				fault.Reason = "missing " + known + ", unknown " + clip(u.name)
				missing &^= 1 << i
			}
			fault.Hint = fmt.Sprintf("did you mean %q?", known)
			d.refuse(u.at, u.name, fault)
			continue
		}
		if d.set.unknown == Refuse {
			d.refuse(u.at, u.name, fault)
			continue
		}
		if d.report.Unknown == nil {
			d.report.Unknown = map[string]int{}
		}
		d.report.Unknown[u.name]++
	}
	if len(foreign) == 0 {
		return missing
	}
	name := foreign[0]
	fault := &Fault{Position: Position{Pointer: d.pointer(name)}, Err: ErrDecode}
	if missing != 0 {
		var names []string
		for ; missing != 0; missing &= missing - 1 {
			names = append(names, s.members[bits.TrailingZeros64(missing)].name)
		}
		name, fault.Reason = names[0], "missing required "+list(names, "and")+"; "
	}
	if o.numericID && s.dialect == Golang {
		fault.Reason += "id is a number and "
	}
	if fault.Reason += list(foreign, "and"); len(foreign) == 1 {
		fault.Reason += " is a name"
	} else {
		fault.Reason += " are names"
	}
	fault.Reason += " of the " + string(s.other()) + " dialect"
	fault.Hint = "is this document in the " + string(s.other()) + " dialect?"
	d.refuse(at, name, fault)
	return 0
}

func (s *schema[R]) other() DialectName {
	if s.dialect == Java {
		return Golang
	}
	return Java
}

type likeness uint8

const (
	stranger likeness = iota
	typo
	foreignName
	foreignTypo
)

// resembles finds the known name that an unknown one was meant to be. A difference in case, "_" or "-" alone counts
// against every known name (fastjson reads such a member as the known one, and so could a person); a misspelling
// only against names that are absent, so that a newer Sentinel's "count2" beside "count" is no typo. For the same reason
// a name of the other dialect may be misspelt only where its counterpart here is required and absent: "counts" beside a
// "threshold" is somebody's own.
func (s *schema[R]) resembles(name string, seen uint64) (known string, kind likeness) {
	if _, ok := s.foreign[name]; ok {
		return name, foreignName
	}
	folded := fold(name)
	for i := range s.members {
		m := &s.members[i]
		if m.mode == metadata {
			continue // dropped anyway: harmless
		}
		if folded == m.folded {
			return m.name, typo
		}
		if kind == stranger && seen&(1<<i) == 0 && near(folded, m.folded) && !continues(name, m.name) {
			known, kind = m.name, typo
		}
	}
	if kind != stranger {
		return known, kind
	}
	for other, here := range s.foreign {
		f := fold(other)
		like := f == folded
		if i, ok := s.index[here]; ok && !like && s.required&^seen&(1<<i) != 0 {
			like = near(folded, f) && !continues(name, other)
		}
		if like && (known == "" || other < known) {
			known, kind = other, foreignTypo
		}
	}
	return known, kind
}

// write appends one object.
func (s *schema[R]) write(w *writer, b []byte, r *R) []byte {
	if s.check != nil {
		s.check(w, r)
	}
	open := len(b)
	members := s.written
	if s.rare != nil && !s.rare(r) {
		members = s.usual
	}
	for i := range members {
		b = members[i].print(w, b, r, &s.template)
	}
	if extra := *s.extra(r); len(extra) > 0 {
		b = w.extra(b, extra, func(name string) bool { _, ok := s.index[name]; return ok || s.wrapped && name == "rule" })
	}
	if len(b) == open {
		return append(b, "{}"...)
	}
	b[open] = '{' // it was the first member's comma
	return append(b, '}')
}
