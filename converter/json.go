package converter

import (
	"bytes"
	"fmt"

	"github.com/rulewire/rulewire/rule"
)

// JSON converts JSON documents of one kind of rule: rule.Flow, Degrade, System, Authority, ParamFlow or Isolation.
// For any other T, or an option with a value that does not exist, both methods return an error that wraps
// rule.ErrUnsupported; Supports asks before.
func JSON[T any](opts ...Option) Converter[T] { return newFormat[T](newSettings(opts)) }

// YAML converts YAML documents, with the same rules as JSON. It writes block style.
func YAML[T any](opts ...Option) Converter[T] {
	s := newSettings(opts)
	s.yaml = true
	return newFormat[T](s)
}

// Supports says, with an error that wraps rule.ErrUnsupported, that JSON and YAML have no converter for T.
func Supports[T any]() error {
	if codecOf[T](Java) == nil {
		return fmt.Errorf("no converter for %T (want rule.Flow, Degrade, System, Authority, ParamFlow or Isolation): %w",
			*new(T), rule.ErrUnsupported)
	}
	return nil
}

func codecOf[T any](dialect DialectName) codec[T] {
	var found any
	switch any((*T)(nil)).(type) {
	case *rule.Flow:
		found = flowCodecs[dialect]
	case *rule.Degrade:
		found = degradeCodecs[dialect]
	case *rule.System:
		found = systemCodecs[dialect]
	case *rule.Authority:
		found = authorityCodecs[dialect]
	case *rule.ParamFlow:
		found = paramFlowCodecs[dialect]
	case *rule.Isolation:
		found = isolationCodecs[dialect]
	}
	c, _ := found.(codec[T])
	return c
}

type format[T any] struct {
	set   *settings
	codec codec[T]
	err   error
}

func newFormat[T any](set *settings) Converter[T] {
	f := &format[T]{set: set, codec: codecOf[T](set.dialect), err: set.check()}
	if f.err == nil {
		f.err = Supports[T]()
	}
	return f
}

// Check says beforehand what every Decode and Encode would: no converter for T, or no such dialect or policy. datasource.New
// asks it, so that a slip in the code is not taken for a bad document.
func (f *format[T]) Check() error { return f.err }

func (f *format[T]) Decode(data []byte) (Decoded[T], error) {
	if f.err != nil {
		return Decoded[T]{}, f.err
	}
	text, fault := toText(data)
	if fault != nil {
		return Decoded[T]{}, Faults{fault}
	}
	return f.decode(text, f.set.quoted)
}

func (f *format[T]) decode(text []byte, unwrap bool) (Decoded[T], error) {
	place := &ruler{text: text}
	if f.set.yaml {
		var fault *Fault
		if text, place, fault = fromYAML(text); fault != nil {
			return Decoded[T]{}, Faults{fault}
		}
	}
	start, fault := checkJSON(text)
	if fault != nil {
		if f.set.yaml {
			fault.Line, fault.Column = 0, 0 // of a text that nobody wrote
		}
		return Decoded[T]{}, Faults{fault}
	}
	if text[start] == '"' {
		c := cursor{text: text, pos: start}
		inner, fault := fromString(unquote(c.value()), unwrap)
		if fault != nil {
			fault.Line, fault.Column = place.place(start)
			return Decoded[T]{}, Faults{fault}
		}
		return f.decode(inner, false)
	}
	return decode(f.codec, f.set, text, start, place)
}

// slowestPace is the lowest count above 0 at which Java loads a rate limiter rule.
// Source: Sentinel 1.8.9, ThrottlingController: statDurationMs % Math.round(maxCountPerStat). The exception that it ends
// in leaves the whole document unloaded.
const slowestPace = 0.5

// Portable implements Portable: what a Java client of Sentinel 1.8.9 fails at, in documents of the java dialect.
func (f *format[T]) Portable(r *T) *Fault {
	flow, ok := any(r).(*rule.Flow)
	if !ok || f.set.dialect != Java || flow.Grade != rule.GradeQPS || flow.ControlBehavior != rule.ControlRateLimiter ||
		flow.Count <= 0 || flow.Count >= slowestPace {
		return nil
	}
	return &Fault{Index: -1, Resource: flow.Resource, Field: "count", Err: rule.ErrUnsupported,
		Reason: "a rate limiter (controlBehavior 2) of less than 0.5 calls per second keeps Java clients from loading the whole document",
		Hint:   "write 0.5 or more, or keep the document in the golang dialect"}
}

// fromString says what a document is that is one string.
func fromString(inner []byte, unwrap bool) ([]byte, *Fault) {
	trimmed := bytes.TrimSpace(inner)
	switch {
	case len(trimmed) == 0:
		return nil, empty("an empty string")
	case unwrap:
		return checkText(inner)
	case trimmed[0] == '[' || trimmed[0] == '{' || trimmed[0] == '"':
		fault := whole("the document is doubly encoded: a string that holds the document")
		fault.Hint = "write the list itself, or decode with AllowQuoted"
		return nil, fault
	}
	fault := whole("string where array expected")
	fault.Expected, fault.Found = "a list of rules", shorten(inner)
	return nil, fault
}

func (f *format[T]) Encode(rules []T) ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	text, err := encode(f.codec, f.set.dialect, rules)
	if err != nil || !f.set.yaml {
		return text, err
	}
	return toYAML(text), nil
}

// Func is a converter of the user's own, made of two functions. A nil encode makes Encode return rule.ErrUnsupported, for
// documents that are only read; a nil decode makes Decode do so.
func Func[T any](decode func(data []byte) ([]T, error), encode func(rules []T) ([]byte, error)) Converter[T] {
	return funcs[T]{decode, encode}
}

type funcs[T any] struct {
	decode func([]byte) ([]T, error)
	encode func([]T) ([]byte, error)
}

func (f funcs[T]) Decode(data []byte) (Decoded[T], error) {
	if f.decode == nil {
		return Decoded[T]{}, fmt.Errorf("converter of %T has no decode function: %w", *new(T), rule.ErrUnsupported)
	}
	rules, err := f.decode(data)
	if err != nil {
		return Decoded[T]{}, err
	}
	return Decoded[T]{Rules: rules}, nil
}

func (f funcs[T]) Encode(rules []T) ([]byte, error) {
	if f.encode == nil {
		return nil, fmt.Errorf("converter of %T has no encode function: %w", *new(T), rule.ErrUnsupported)
	}
	return f.encode(rules)
}
