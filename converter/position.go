package converter

import (
	"sort"
	"strings"
	"sync"
	"unicode/utf8"
)

// ruler turns offsets into lines and columns. It remembers where it was, so that a document's faults, which come in
// order, cost one pass together.
type ruler struct {
	mu           sync.Mutex
	text         []byte
	offset       int
	line, column int

	// nodes is set for YAML: the offsets of the JSON text that the tree became, with the places they came from.
	nodes []node
}

type node struct{ offset, line, column int }

func (r *ruler) place(offset int) (line, column int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes != nil {
		i := sort.Search(len(r.nodes), func(i int) bool { return r.nodes[i].offset > offset })
		if i == 0 {
			return 0, 0
		}
		return r.nodes[i-1].line, r.nodes[i-1].column
	}
	if r.line == 0 || offset < r.offset {
		r.offset, r.line, r.column = 0, 1, 1
	}
	for r.offset < offset && r.offset < len(r.text) {
		b := r.text[r.offset]
		if b == '\n' {
			r.offset, r.line, r.column = r.offset+1, r.line+1, 1
			continue
		}
		size := 1
		if b >= utf8.RuneSelf {
			_, size = utf8.DecodeRune(r.text[r.offset:])
		}
		r.offset += size
		r.column++
	}
	return r.line, r.column
}

// locator answers Decoded.Locate. Nothing is computed before the first question; the elements are then found once.
type locator struct {
	ruler  *ruler
	text   []byte
	single bool
	// wrapped says that the kind may stand in a "rule" member.
	wrapped bool
	// spell gives the document's name for a member that is named in the java dialect.
	spell func(field string, has func(name string) (value string, ok bool)) string

	once     sync.Once
	elements []int
}

func (l *locator) locate(index int, field string) (p Position) {
	p.Pointer = pointer(index, l.single, nil)
	// The text belongs to the caller, who was asked not to change it; one who does gets no place, not a crash.
	defer func() {
		if recover() != nil {
			p.Line, p.Column = 0, 0
		}
	}()
	l.once.Do(l.index)
	if index < 0 || index >= len(l.elements) {
		return Position{}
	}
	c := cursor{text: l.text, pos: l.elements[index]}
	at := c.pos
	if inner, ok := c.member("rule"); l.wrapped && ok && l.text[inner] == '{' {
		p.Pointer += "/rule"
		at = inner
	}
	for i, step := range steps(field) {
		if i == 0 && l.spell != nil {
			step = l.spell(step, func(name string) (string, bool) {
				c := cursor{text: l.text, pos: at}
				v, ok := c.member(name)
				if !ok {
					return "", false
				}
				c.pos = v
				return string(c.value()), true
			})
		}
		c.pos = at
		next, ok := c.child(step)
		if !ok {
			break
		}
		at = next
		p.Pointer += "/" + escapePointer(step)
	}
	p.Line, p.Column = l.ruler.place(at)
	return p
}

func (l *locator) index() {
	c := cursor{text: l.text}
	c.blanksToEnd()
	if l.single {
		l.elements = []int{c.pos}
		return
	}
	for c.more() {
		l.elements = append(l.elements, c.pos)
		c.value()
		c.blanks()
	}
}

func (c *cursor) blanksToEnd() {
	for c.pos < len(c.text) && c.text[c.pos] <= ' ' {
		c.pos++
	}
}

// member finds a member of the object at the cursor.
func (c *cursor) member(name string) (at int, ok bool) {
	for c.more() {
		if string(c.name()) == name {
			return c.pos, true
		}
		c.value()
		c.blanks()
	}
	return 0, false
}

// child finds a member of an object, or an element of a list by its number.
func (c *cursor) child(step string) (at int, ok bool) {
	switch c.text[c.pos] {
	case '{':
		return c.member(step)
	case '[':
		want, ok := parseInt([]byte(step))
		if ok != isInteger || step[0] < '0' || step[0] > '9' {
			return 0, false
		}
		for i := int64(0); c.more(); i++ {
			if i == want {
				return c.pos, true
			}
			c.value()
			c.blanks()
		}
	}
	return 0, false
}

// steps splits a field's path in any usual spelling: "a/0/b", "a[0].b".
func steps(field string) []string {
	return strings.FieldsFunc(field, func(r rune) bool { return r == '/' || r == '.' || r == '[' || r == ']' })
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
