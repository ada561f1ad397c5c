package sentinel

import (
	"fmt"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

// Sink gives a kind's source its other side: edits through Rules.Writables are then written to the store first and come
// into force when they return. sink must be of the same document (the same ID), and writes with the converter that the
// source reads with. opts are further options of package writable. Default: none; edits then change this process's memory
// only, and their results say volatile.
func Sink(sink writable.Sink, opts ...writable.Option) Option {
	return func(c *config) error {
		if sink == nil {
			return fmt.Errorf("Sink: nil sink")
		}
		c.sink, c.write = sink, opts
		return nil
	}
}

// Name is what the kind's source is called in Rules.Writables. Default "" for the first source of a kind, and the source's
// ID for each further one.
func Name(name string) Option {
	return func(c *config) error { c.name = &name; return nil }
}

// Writables holds the writable of each source, by rule type and name: what a command centre edits.
//
//	flow, err := writable.Lookup[rule.Flow](rules.Writables(), "")
//	result, err := flow.Writable.Edit(ctx, change)
//
// It is nil for a nil Rules.
func (r *Rules) Writables() *writable.Registry {
	if r == nil {
		return nil
	}
	return &r.writables
}

// register makes the writing side of a source.
func register[R any](r *Rules, c *config, first bool, readable *datasource.Readable[R], conv converter.Converter[R]) error {
	name := readable.ID()
	switch {
	case c.name != nil:
		name = *c.name
	case first:
		name = ""
	}
	p := writable.Pair[R]{Readable: readable}
	var err error
	if c.sink != nil {
		p.Writable, err = writable.New(c.sink, conv, append([]writable.Option{writable.Readable(readable)}, c.write...)...)
		if err != nil {
			return err
		}
	}
	return writable.Register(&r.writables, name, p)
}
