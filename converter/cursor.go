package converter

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// cursor walks text that jsontext has accepted as one JSON value. Splitting the work this way (one strict pass that
// builds nothing, then a walk that cannot fail on syntax) is what makes decoding several times faster than a
// token loop with error paths, and lets positions be worked out only when something is wrong.
type cursor struct {
	text []byte
	pos  int
}

func (c *cursor) blanks() {
	for c.text[c.pos] <= ' ' {
		c.pos++
	}
}

// quoted steps over a string and gives what stands between its quotes; plain says that it holds no escapes.
func (c *cursor) quoted() (raw []byte, plain bool) {
	start := c.pos + 1
	end := start + bytes.IndexByte(c.text[start:], '"')
	if bytes.IndexByte(c.text[start:end], '\\') < 0 {
		c.pos = end + 1
		return c.text[start:end], true
	}
	for end = start; c.text[end] != '"'; end++ {
		if c.text[end] == '\\' {
			end++
		}
	}
	c.pos = end + 1
	return c.text[start:end], false
}

// name steps over a member's name and its colon and stops at its value.
func (c *cursor) name() []byte {
	at := c.pos
	raw, plain := c.quoted()
	if !plain {
		raw = unquote(c.text[at:c.pos])
	}
	c.blanks()
	c.pos++
	c.blanks()
	return raw
}

// bare steps over a number, true, false or null.
func (c *cursor) bare() []byte {
	start := c.pos
	for c.pos < len(c.text) {
		switch c.text[c.pos] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return c.text[start:c.pos]
		}
		c.pos++
	}
	return c.text[start:]
}

// value steps over any value and gives its text.
func (c *cursor) value() []byte {
	start, depth := c.pos, 0
	for {
		switch c.text[c.pos] {
		case '"':
			c.quoted()
		case '{', '[':
			depth++
			c.pos++
		case '}', ']':
			depth--
			c.pos++
		case ',', ':', ' ', '\t', '\n', '\r':
			c.pos++
			continue
		default:
			c.bare()
		}
		if depth == 0 {
			return c.text[start:c.pos]
		}
	}
}

// more starts or continues a list or an object: it steps over "[", "{" or "," and blanks, and says whether an element
// or member follows; if not, it has stepped over the closing bracket.
func (c *cursor) more() bool {
	switch c.text[c.pos] {
	case '[', '{', ',':
		c.pos++
		c.blanks()
	}
	switch c.text[c.pos] {
	case ']', '}':
		c.pos++
		return false
	}
	return true
}

func unquote(quoted []byte) []byte {
	// Can't fail: the text was checked.
	raw, _ := jsontext.AppendUnquote([]byte(nil), quoted)
	return raw
}

// found describes a value in an error: what it is, and its beginning.
func found(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "the string " + shorten(raw)
	case 't', 'f', 'n':
		return string(raw)
	}
	return shorten(raw)
}

// shorten keeps an error readable and a payload out of it.
func shorten(raw []byte) string { return cut(raw, 40) }

// The most bytes of names, pointers and values, and of a whole reason, that a message prints.
const (
	mostName   = 200
	mostReason = 1000
)

// clip bounds a name, pointer or value that comes from a document.
func clip(text string) string { return cut(text, mostName) }

// cut ends a long text at a rune, and says how long it was.
func cut[T string | []byte](text T, most int) string {
	if len(text) <= most {
		return string(text)
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return string(text[:n]) + "… (" + strconv.Itoa(len(text)) + " bytes)"
}
