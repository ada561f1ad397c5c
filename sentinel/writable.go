package sentinel

import (
	"errors"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// WriteTo makes the source's document editable through Rules.Registry, and so through Command: sink must be of the same
// document. Options of package writable come with it: Audit, for example. Default: edits change the rules in memory only,
// until the store's next document.
func WriteTo(sink writable.Sink, opts ...writable.Option) Option {
	return func(c *config) error {
		if sink == nil {
			return errors.New("WriteTo: nil sink")
		}
		c.sink, c.write = sink, opts
		return nil
	}
}

// Registry has every source with its writable: under the name "" the first of each kind, under its ID each further one.
// Nil on nil.
func (r *Rules) Registry() *writable.Registry {
	if r == nil {
		return nil
	}
	return &r.registry
}

// register puts both sides of a source into the registry.
func register[R any](r *Rules, kind rule.Kind, conv converter.Converter[R], readable *datasource.Readable[R], c *config) error {
	p := writable.Pair[R]{Readable: readable}
	if c.sink != nil {
		w, err := writable.New(c.sink, conv, append([]writable.Option{writable.Readable(readable)}, c.write...)...)
		if err != nil {
			return err
		}
		p.Writable = w
	}
	name := ""
	for _, m := range r.members {
		if m.kind == kind {
			name = readable.ID()
		}
	}
	return writable.Register(&r.registry, name, p)
}
