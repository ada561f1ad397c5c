package converter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// A YAML document is read by turning its tree into JSON text, with a note of where each value came from. So both formats
// have one meaning, and one set of checks.

// maxYAMLDepth bounds the nesting of a tree; aliases can make one endless.
const maxYAMLDepth = 1000

// Aliases may say more than the text holds, but not without bound: a few lines can stand for gigabytes. What a text without
// aliases becomes is never nearly as much; a list of short rules that share one long part is.
const (
	yamlGrowth = 20
	yamlRoom   = 64 << 10
)

// fromYAML gives the JSON text of a YAML document, and a ruler that finds the YAML places of its offsets.
func fromYAML(text []byte) (out []byte, place *ruler, fault *Fault) {
	root, fault := parseYAML(text)
	if fault != nil {
		return nil, nil, fault
	}
	y := &yamlReader{
		size:  len(text),
		most:  yamlGrowth*len(text) + yamlRoom,
		place: &ruler{nodes: []node{}},
	}
	if fault := y.value(root, 0); fault != nil {
		return nil, nil, fault
	}
	return y.buf, y.place, nil
}

// parseYAML reads exactly one document.
func parseYAML(text []byte) (root *yaml.Node, fault *Fault) {
	// The parser panics on some bytes that are no YAML.
	defer func() {
		if p := recover(); p != nil {
			root, fault = nil, whole(fmt.Sprintf("not YAML: %s", clip(fmt.Sprint(p))))
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	switch err := d.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, empty("only comments")
	case err != nil:
		fault := whole("not YAML: " + clip(strings.TrimPrefix(err.Error(), "yaml: ")))
		// The parser tells its line only in the text; a text of another form leaves the line unknown.
		_, _ = fmt.Sscanf(err.Error(), "yaml: line %d:", &fault.Line)
		return nil, fault
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		fault := whole("more than one YAML document")
		fault.Line, fault.Column = second.Line, second.Column
		return nil, fault
	}
	if first.Kind != yaml.DocumentNode || len(first.Content) != 1 {
		return nil, empty("no value")
	}
	return first.Content[0], nil
}

type yamlReader struct {
	buf   []byte
	size  int // of the document
	most  int // of buf
	place *ruler
}

// room refuses what would become too long, before it is written.
func (y *yamlReader) room(n *yaml.Node, more int) *Fault {
	if len(y.buf)+more <= y.most {
		return nil
	}
	return y.fault(n, fmt.Sprintf("aliases make the document too large: its %d bytes would become more than %d bytes of JSON", y.size, y.most))
}

func (y *yamlReader) fault(n *yaml.Node, reason string) *Fault {
	f := whole(reason)
	f.Line, f.Column = n.Line, n.Column
	return f
}

func (y *yamlReader) value(n *yaml.Node, depth int) *Fault {
	if depth > maxYAMLDepth {
		return y.fault(n, "nested too deep, or an alias to itself")
	}
	if fault := y.room(n, len(n.Value)); fault != nil {
		return fault
	}
	if n.Kind != yaml.AliasNode {
		y.place.nodes = append(y.place.nodes, node{len(y.buf), n.Line, n.Column})
	}
	switch n.Kind {
	case yaml.AliasNode:
		return y.value(n.Alias, depth+1)
	case yaml.ScalarNode:
		return y.scalar(n)
	case yaml.SequenceNode:
		if n.ShortTag() != "!!seq" {
			return y.fault(n, "tag "+clip(n.Tag)+" is not supported")
		}
		y.buf = append(y.buf, '[')
		for i, e := range n.Content {
			if i > 0 {
				y.buf = append(y.buf, ',')
			}
			if fault := y.value(e, depth+1); fault != nil {
				return fault
			}
		}
		y.buf = append(y.buf, ']')
		return nil
	case yaml.MappingNode:
		if n.ShortTag() != "!!map" {
			return y.fault(n, "tag "+clip(n.Tag)+" is not supported")
		}
		return y.mapping(n, depth)
	}
	return y.fault(n, "not a YAML value")
}

func (y *yamlReader) mapping(n *yaml.Node, depth int) *Fault {
	y.buf = append(y.buf, '{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if i > 0 {
			y.buf = append(y.buf, ',')
		}
		y.place.nodes = append(y.place.nodes, node{len(y.buf), key.Line, key.Column})
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge":
			return y.fault(key, "merge keys (<<) are not supported; write the members out")
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			return y.fault(key, "a name must be a string")
		}
		if fault := y.string(key); fault != nil {
			return fault
		}
		y.buf = append(y.buf, ':')
		// Repeated names are found where JSON's are.
		if fault := y.value(n.Content[i+1], depth+1); fault != nil {
			return fault
		}
	}
	y.buf = append(y.buf, '}')
	return nil
}

func (y *yamlReader) string(n *yaml.Node) *Fault {
	if fault := y.room(n, len(n.Value)); fault != nil {
		return fault
	}
	buf, err := jsontext.AppendQuote(y.buf, n.Value)
	if err != nil {
		return y.fault(n, "not valid UTF-8")
	}
	y.buf = buf
	return nil
}

func (y *yamlReader) scalar(n *yaml.Node) *Fault {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return y.string(n)
	case "!!null":
		y.buf = append(y.buf, "null"...)
		return nil
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return y.fault(n, "not a bool: "+quote(clip(n.Value)))
		}
		y.buf = strconv.AppendBool(y.buf, b)
		return nil
	case "!!int", "!!float":
		return y.number(n)
	default:
		return y.fault(n, "tag "+clip(tag)+" is not supported")
	}
}

func (y *yamlReader) number(n *yaml.Node) *Fault {
	if isJSONNumber(n.Value) {
		y.buf = append(y.buf, n.Value...) // as it stands: exact
		return nil
	}
	if digits := strings.TrimLeft(n.Value, "+-"); len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		return y.fault(n, clip(n.Value)+" is octal to some readers of YAML and decimal to others; quote it or drop the zero")
	}
	var i int64
	if err := n.Decode(&i); err == nil && n.ShortTag() == "!!int" {
		y.buf = strconv.AppendInt(y.buf, i, 10)
		return nil
	}
	var f float64
	if err := n.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return y.fault(n, clip(n.Value)+" is not a number that a rule can hold")
	}
	y.buf = strconv.AppendFloat(y.buf, f, 'g', -1, 64)
	return nil
}

func isJSONNumber(s string) bool {
	// IsValid allows blanks around a value.
	return s != "" && isNumber(s[0]) && s[len(s)-1] > ' ' && jsontext.Value(s).IsValid()
}

// toYAML writes JSON text that encode made as YAML in block style; what rules keep in Extra stays in flow style.
// Strings are quoted unless they can't be taken for anything else.
func toYAML(text []byte) []byte {
	w := &yamlWriter{cursor: cursor{text: text}, out: make([]byte, 0, len(text)+len(text)/2)}
	w.value(0)
	return append(w.out, '\n')
}

type yamlWriter struct {
	cursor
	out []byte
}

// blockDepth is as deep as a rule is: list, rule, member, item, its members.
const blockDepth = 4

// value writes the value at the cursor; what it writes in block style starts on the line at hand.
func (w *yamlWriter) value(depth int) {
	switch w.text[w.pos] {
	case '[', '{':
		closing := w.text[w.pos] + 2 // ']' and '}' stand two after their opening
		if w.text[w.pos+1] == closing || depth >= blockDepth {
			w.flow()
			return
		}
		object := closing == '}'
		for first := true; w.more(); first = false {
			if !first {
				w.line(depth)
			}
			if !object {
				w.out = append(w.out, "- "...)
				w.value(depth + 1)
				continue
			}
			w.key(w.name(), func() { w.line(depth) })
			if open := w.text[w.pos]; open == '[' || open == '{' {
				if next := w.text[w.pos+1]; depth+1 < blockDepth && next != ']' && next != '}' {
					w.line(depth + 1)
					w.value(depth + 1)
					continue
				}
			}
			w.out = append(w.out, ' ')
			w.value(blockDepth)
		}
	case '"':
		w.string(unquoteNext(&w.cursor))
	default:
		w.out = append(w.out, w.bare()...)
	}
}

func unquoteNext(c *cursor) string {
	start := c.pos
	raw, plain := c.quoted()
	if !plain {
		raw = unquote(c.text[start:c.pos])
	}
	return string(raw)
}

func (w *yamlWriter) line(depth int) {
	w.out = append(w.out, '\n')
	for range depth {
		w.out = append(w.out, "  "...)
	}
}

// key writes a name and its colon. Only short names may stand before a bare colon in YAML; line, where set, starts the
// line on which the colon of a long one stands.
func (w *yamlWriter) key(name []byte, line func()) {
	const most = 100
	if len(name) <= most {
		w.string(string(name))
		w.out = append(w.out, ':')
		return
	}
	w.out = append(w.out, "? "...)
	w.string(string(name))
	if line != nil {
		line()
	} else {
		w.out = append(w.out, ' ')
	}
	w.out = append(w.out, ':')
}

// flow writes a value in flow style.
func (w *yamlWriter) flow() {
	switch open := w.text[w.pos]; open {
	case '[', '{':
		w.out = append(w.out, open)
		for first := true; w.more(); first = false {
			if !first {
				w.out = append(w.out, ", "...)
			}
			if open == '{' {
				w.key(w.name(), nil)
				w.out = append(w.out, ' ')
			}
			w.flow()
		}
		w.out = append(w.out, open+2)
	case '"':
		w.string(unquoteNext(&w.cursor))
	default:
		w.out = append(w.out, w.bare()...)
	}
}

func (w *yamlWriter) string(s string) {
	if isPlain(s) {
		w.out = append(w.out, s...)
		return
	}
	w.out = append(w.out, '"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.out = append(w.out, '\\', byte(r))
		case r == '\n':
			w.out = append(w.out, `\n`...)
		case r == '\t':
			w.out = append(w.out, `\t`...)
		case r >= ' ' && r < 0x7f || r >= 0xa0 && r <= 0xd7ff && r != 0x2028 && r != 0x2029 || r >= 0xe000 && r < 0xfeff:
			w.out = append(w.out, s[i:i+utf8.RuneLen(r)]...)
		default:
			// Control characters, and what YAML takes for the end of a line.
			w.out = fmt.Appendf(w.out, `\U%08X`, r)
		}
	}
	w.out = append(w.out, '"')
}

// isPlain says whether every YAML reader takes s, unquoted, for that string and nothing else. It is narrow on purpose.
func isPlain(s string) bool {
	const most = 64
	if len(s) == 0 || len(s) > most {
		return false
	}
	for i := range len(s) {
		b := s[i]
		letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '/' && len(s) > 1
		if !letter && (i == 0 || (b < '0' || b > '9') && b != '.' && b != '_' && b != '-') {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return false
	}
	return true
}
