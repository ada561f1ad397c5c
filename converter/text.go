package converter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// errEmpty is a document that holds nothing: it can't be decoded, and a guard may want to know that it is empty.
var errEmpty error = emptyError{}

type emptyError struct{}

func (emptyError) Error() string   { return ErrEmpty.Error() }
func (emptyError) Unwrap() []error { return []error{ErrDecode, ErrEmpty} }

func whole(reason string) *Fault { return &Fault{Index: -1, Reason: reason, Err: ErrDecode} }

func empty(what string) *Fault {
	return &Fault{Index: -1, Expected: "a list of rules", Found: what, Err: errEmpty}
}

// toText turns the bytes of a document into UTF-8 text, and refuses what is no text of rules by its name: the cause of
// such bytes (a login page, a compressed upload, an editor's encoding) is seldom visible from a parser's message.
func toText(data []byte) ([]byte, *Fault) {
	switch {
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		return nil, whole("the document is gzip data, not text")
	case bytes.HasPrefix(data, []byte{0xff, 0xfe, 0, 0}), bytes.HasPrefix(data, []byte{0, 0, 0xfe, 0xff}):
		return nil, whole("the document is UTF-32 text; write it as UTF-8")
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		return fromUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return fromUTF16(data[2:], binary.BigEndian)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	return checkText(data)
}

func checkText(text []byte) ([]byte, *Fault) {
	if i := bytes.IndexByte(text, 0); i >= 0 {
		fault := whole("the document holds a NUL byte")
		if len(text) > 1 && (text[0] == 0 || text[1] == 0) {
			fault.Hint = "it looks like UTF-16 without a byte order mark; write it as UTF-8"
		}
		fault.Line, fault.Column = (&ruler{text: text}).place(i)
		return nil, fault
	}
	start := bytes.TrimLeft(text, " \t\r\n")
	switch {
	case len(start) == 0 && len(text) == 0:
		return nil, empty("zero bytes")
	case len(start) == 0:
		return nil, empty("only blanks")
	case start[0] == '<':
		return nil, whole("the document is HTML or XML, not rules: " + shorten(start))
	}
	return text, nil
}

func fromUTF16(data []byte, order binary.ByteOrder) ([]byte, *Fault) {
	if len(data)%2 != 0 {
		return nil, whole("the document is UTF-16 text with half a character at its end (cut off?)")
	}
	text := make([]byte, 0, len(data))
	for i := 0; i < len(data); i += 2 {
		r := rune(order.Uint16(data[i:]))
		if utf16.IsSurrogate(r) {
			if i+4 > len(data) {
				return nil, whole("the document is UTF-16 text with half a character in it")
			}
			if r = utf16.DecodeRune(r, rune(order.Uint16(data[i+2:]))); r == utf8.RuneError {
				return nil, whole("the document is UTF-16 text with half a character in it")
			}
			i += 2
		}
		text = utf8.AppendRune(text, r)
	}
	return checkText(text)
}

// checkJSON accepts exactly one JSON value and gives its offset; blanks may be around it.
func checkJSON(text []byte) (start int, fault *Fault) {
	// Repeated names are looked for later, where the rule they belong to is known.
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
	value, err := d.ReadValue()
	if err != nil {
		fault = whole("not JSON")
		offset := len(text)
		var syntax *jsontext.SyntacticError
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			fault.Reason = "the document ends in the middle of a value (cut off?)"
		case errors.As(err, &syntax):
			fault.Reason = "not JSON: " + clip(syntax.Err.Error())
			offset = int(syntax.ByteOffset)
			fault.Pointer = string(syntax.JSONPointer)
			if comma := trailingComma(text, offset); comma >= 0 {
				fault.Reason = "not JSON: trailing comma before " + string(text[offset:offset+1])
				if text[offset] == ']' {
					// The pointer is to the element that does not follow.
					fault.Pointer = fault.Pointer[:max(0, strings.LastIndexByte(fault.Pointer, '/'))]
				}
				offset = comma
			}
		}
		fault.Line, fault.Column = (&ruler{text: text}).place(offset)
		return 0, fault
	}
	end := int(d.InputOffset())
	if rest := bytes.TrimLeft(text[end:], " \t\r\n"); len(rest) > 0 {
		fault = whole("trailing text after the document: " + shorten(rest))
		if string(bytes.TrimRight(rest, " \t\r\n")) == "," {
			fault.Reason = "not JSON: trailing comma after the document"
		}
		fault.Line, fault.Column = (&ruler{text: text}).place(len(text) - len(rest))
		return 0, fault
	}
	return end - len(value), nil
}

// trailingComma gives the place of the comma where nothing but a closing bracket follows it; -1 where the bracket at the
// offset has none before it.
func trailingComma(text []byte, offset int) int {
	if offset >= len(text) || text[offset] != ']' && text[offset] != '}' {
		return -1
	}
	before := bytes.TrimRight(text[:offset], " \t\r\n")
	if len(before) == 0 || before[len(before)-1] != ',' {
		return -1
	}
	return len(before) - 1
}

// compact checks a value that is kept for a write-back: what is copied blindly today is somebody's syntax error tomorrow.
func compact(raw []byte) (string, *Fault) {
	text, err := jsontext.AppendFormat([]byte(nil), raw)
	if err != nil {
		return "", &Fault{Reason: "a name stands twice in one object", Err: ErrDecode}
	}
	if bytes.Contains(text, []byte(`"$ref":`)) {
		return "", &Fault{Reason: "a fastjson reference instead of the object itself", Err: ErrDecode}
	}
	return string(text), nil
}

// list joins names: "a", "a and b", "a, b and c".
func list(names []string, last string) string {
	text := ""
	for i, n := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			text += " " + last + " "
		default:
			text += ", "
		}
		text += n
	}
	return text
}

func quote(s string) string { return fmt.Sprintf("%q", s) }
