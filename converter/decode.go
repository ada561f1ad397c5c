package converter

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rulewire/rulewire/rule"
)

// maxFaults bounds what is said about one document. One with more wrong places is refused as a whole: it is no rule
// document, and naming each of a million empty objects would cost more memory than the rules.
const maxFaults = 10_000

// codec reads and writes one kind of rule in one dialect.
type codec[T any] interface {
	// read reads the object at the cursor.
	read(d *reader, r *T)
	// write appends the elements that the rule becomes: one, or several joined by commas.
	write(w *writer, b []byte, r *T) []byte
	// traits says what a locator needs to know.
	traits() (wrapped bool, spell func(field string, has func(string) (string, bool)) string)
	// defaults names the members that a reader counted as defaulted.
	defaults(counts *[maxMembers]int) map[string]int
	// name gives the resource, for messages.
	name(r *T) string
}

// reader is one decode under way.
type reader struct {
	cursor
	set *settings
	// index is the element being read; below is the pointer inside it.
	index  int
	single bool
	below  []byte

	// follow[0] says for each member of a rule which one came after it in the rule before: writers keep an order, and
	// comparing with the one expected name is much cheaper than a look-up. follow[1] is the same for parts of rules.
	follow [2][maxMembers + 1]uint8

	faults    []fault
	refused   bool
	report    Report
	defaulted [maxMembers]int
}

type fault struct {
	*Fault
	offset int
	whole  bool
}

func (d *reader) full() bool { return len(d.faults) >= maxFaults }

// add notes a fault. Its place in lines is worked out at the end, for all at once.
func (d *reader) add(whole bool, at int, name string, f *Fault) {
	if d.full() {
		return
	}
	f.Index = d.index
	f.Field = d.field(name)
	d.refused = d.refused || whole
	d.faults = append(d.faults, fault{f, at, whole})
}

// reject is about one rule.
func (d *reader) reject(at int, name string, f *Fault) {
	f.Pointer = d.pointer(name)
	d.add(false, at, name, f)
}

// rejectObject is about one rule, at the object at hand.
func (d *reader) rejectObject(at int, name string, f *Fault) {
	f.Pointer = d.pointer("")
	d.add(false, at, name, f)
}

// absent is about a member that one rule lacks.
func (d *reader) absent(at int, name, reason string) {
	d.rejectObject(at, name, &Fault{Reason: reason, Err: rule.ErrInvalid})
}

// refuse is about the document: with a member that may mean anything, no rule of it can be trusted.
func (d *reader) refuse(at int, name string, f *Fault) {
	if f.Pointer == "" {
		f.Pointer = d.pointer(name)
	}
	d.add(true, at, name, f)
}

func (d *reader) duplicate(at int, name string) {
	d.reject(at, name, &Fault{Reason: clip(name) + " stands twice in one object", Err: ErrDecode})
}

// wrong rejects the value at the cursor and steps over it.
func (d *reader) wrong(name, expected string) {
	at := d.pos
	d.reject(at, name, &Fault{Expected: expected, Found: found(d.value()), Err: ErrDecode})
}

// invalid is a value of the right type that does not exist or does not fit.
func (d *reader) invalid(at int, name, expected string, raw []byte) {
	d.reject(at, name, &Fault{Expected: expected, Found: found(raw), Err: rule.ErrInvalid})
}

func (d *reader) enter(name string) (depth int) {
	depth = len(d.below)
	d.below = append(append(d.below, '/'), name...)
	return depth
}

func (d *reader) leave(depth int) { d.below = d.below[:depth] }

func pointer(index int, single bool, below []byte) string {
	if single {
		return string(below)
	}
	return "/" + strconv.Itoa(index) + string(below)
}

func (d *reader) pointer(name string) string {
	p := pointer(d.index, d.single, d.below)
	if name != "" {
		p += "/" + escapePointer(name)
	}
	return p
}

// field is a member's path inside its rule: count, clusterConfig.flowId, paramFlowItemList[2].object.
func (d *reader) field(name string) string {
	if len(d.below) == 0 {
		return name
	}
	var b strings.Builder
	for i, step := range strings.Split(string(d.below[1:]), "/") {
		switch {
		case i == 0 && step == "rule":
		case step[0] >= '0' && step[0] <= '9':
			b.WriteString("[" + step + "]")
		case b.Len() > 0:
			b.WriteString("." + step)
		default:
			b.WriteString(step)
		}
	}
	if b.Len() > 0 && name != "" {
		b.WriteByte('.')
	}
	return b.String() + name
}

// decode reads a list of rules (or one) from JSON text that was checked; place knows where its offsets are in what the
// user wrote.
func decode[T any](c codec[T], set *settings, text []byte, start int, place *ruler) (Decoded[T], error) {
	d := &reader{cursor: cursor{text: text, pos: start}, set: set}
	if fault := d.top(); fault != nil {
		fault.Line, fault.Column = place.place(start)
		return Decoded[T]{}, Faults{fault}
	}
	rules := []T{}
	var indexes []int
	for d.single || d.more() {
		before := len(d.faults)
		rules = grow(rules, d.index, d.pos-start, len(text))
		r := &rules[len(rules)-1]
		if d.text[d.pos] == '{' {
			c.read(d, r)
		} else {
			*r = *new(T) // the room may be a rejected rule's
			d.wrong("", "a rule")
		}
		switch bad := len(d.faults) > before; {
		case bad:
			for _, f := range d.faults[before:] {
				f.Resource = c.name(r)
			}
			if indexes == nil {
				indexes = make([]int, 0, len(rules))
				for i := range len(rules) - 1 {
					indexes = append(indexes, i)
				}
			}
			rules = rules[:len(rules)-1]
		case indexes != nil:
			indexes = append(indexes, d.index)
		}
		d.index++
		if d.single || d.full() {
			break
		}
		d.blanks()
	}
	faults := d.finish(place)
	if d.full() {
		end := whole("more than " + strconv.Itoa(maxFaults-1) + " faults; the rest of the document was not read")
		return Decoded[T]{}, append(faults, end)
	}
	if d.refused {
		return Decoded[T]{}, faults
	}
	d.report.Defaulted = c.defaults(&d.defaulted)
	wrapped, spell := c.traits()
	l := &locator{ruler: place, text: text, single: d.single, wrapped: wrapped, spell: spell}
	return Decoded[T]{Rules: rules, Indexes: indexes, Rejected: faults, Report: d.report, Locate: l.locate}, nil
}

// grow makes room for one rule more. After a few rules their mean length tells how many a document holds; growing
// once is cheaper than doubling, and bounded by what has really been read.
func grow[T any](rules []T, read, bytes, total int) []T {
	if n := len(rules); n == cap(rules) {
		more := 8
		if read >= 8 && bytes > 0 {
			more = max(more, min(int(float64(read)*float64(total-bytes)/float64(bytes))+8, 64*read))
		}
		rules = slices.Grow(rules, more)
	}
	return rules[:len(rules)+1]
}

// top looks at the document's outermost value and stops at the first element.
func (d *reader) top() *Fault {
	switch raw := d.text[d.pos:]; raw[0] {
	case '[':
		return nil
	case '{':
		if d.set.single {
			d.single = true
			return nil
		}
		fault := whole("object where array expected")
		fault.Expected, fault.Found = "a list of rules", "an object"
		c := d.cursor
		var names []string
		for len(names) < 5 && c.more() {
			names = append(names, shorten(c.name()))
			c.value()
			c.blanks()
		}
		if len(names) > 0 {
			fault.Found += " with " + list(names, "and")
		}
		return fault
	case 'n':
		return empty("null")
	}
	return &Fault{Index: -1, Reason: found(d.value()) + " where array expected", Err: ErrDecode}
}

// finish gives every fault its place, in document order.
func (d *reader) finish(place *ruler) Faults {
	if len(d.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(d.faults, func(a, b fault) int { return a.offset - b.offset })
	faults := make(Faults, len(d.faults))
	for i, f := range d.faults {
		f.Line, f.Column = place.place(f.offset)
		faults[i] = f.Fault
	}
	return faults
}
