package writable

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// layout gives a new JSON document the lines of the one before, so that a file which people edit and compare stays
// readable: indented as the old one was, or a line for each rule. Without an old document, where that one stood on one
// line, and where either is not a JSON list, next stays as the converter made it. Only blanks are added.
func layout(before, next []byte) []byte {
	before = bytes.TrimPrefix(before, []byte("\xef\xbb\xbf"))
	before = bytes.TrimLeft(before, " \t\r\n")
	if len(before) == 0 || before[0] != '[' || len(next) < 2 || next[0] != '[' {
		return next
	}
	var end []byte
	if before[len(before)-1] == '\n' {
		end = []byte("\n")
	}
	if bytes.IndexByte(before, '\n') < 0 || next[1] == ']' {
		if next[len(next)-1] == '\n' {
			return next
		}
		return append(slices.Clip(next), end...)
	}
	indent, rest, apart := newLine(before[1:])
	if !apart {
		return append(slices.Clip(next), end...) // one line and a line end
	}
	if _, _, members := newLine(bytes.TrimPrefix(rest, []byte("{"))); members {
		v := jsontext.Value(bytes.Clone(next))
		if v.Indent(jsontext.WithIndent(string(indent))) != nil {
			return next // not JSON after all
		}
		return append(v, end...)
	}
	lines, err := perLine(next, indent)
	if err != nil {
		return next
	}
	return append(lines, end...)
}

// newLine says whether text goes on in a new line, how far that is indented, and what stands there.
func newLine(text []byte) (indent, rest []byte, ok bool) {
	rest = bytes.TrimLeft(text, " \t\r\n")
	blanks := text[:len(text)-len(rest)]
	line := bytes.LastIndexByte(blanks, '\n')
	if line < 0 {
		return nil, rest, false
	}
	// A carriage return may stand on either side of the line feed; an indent is made of blanks and tabs only.
	return bytes.ReplaceAll(blanks[line+1:], []byte("\r"), nil), rest, true
}

// perLine puts each element of a list on a line of its own.
func perLine(list, indent []byte) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(list))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(list)+len(list)/8), '[')
	for sep := ""; d.PeekKind() == '{'; sep = "," {
		v, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		out = append(out, sep...)
		out = append(out, '\n')
		out = append(out, indent...)
		out = append(out, v...)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	return append(out, '\n', ']'), nil
}
