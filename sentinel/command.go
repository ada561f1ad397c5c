package sentinel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/alibaba/sentinel-golang/core/circuitbreaker"
	coreconfig "github.com/alibaba/sentinel-golang/core/config"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/core/hotspot"
	"github.com/alibaba/sentinel-golang/core/system"

	"github.com/rulewire/rulewire/command"
	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// Command starts a command centre once every source has decided, so that its first answer and its first beat tell of the
// rules in force; Rules.Command gives it, Rules.Close stops it. Without options it listens on 127.0.0.1:8719 and beats to
// nobody; application name and type are those of the core's configuration.
//
// Every source can be edited: those that have a writable in registry reach their store, and all others are edited in memory
// only, as with a Java client, until the store's next document. registry may be nil. The kinds without a source (but for
// isolation rules) start with what the application loaded into the core itself and are edited in memory too; after an edit
// they belong to Rulewire.
func Command(registry *writable.Registry, opts ...command.Option) Part {
	return commandPart{registry, opts}
}

type commandPart struct {
	registry *writable.Registry
	opts     []command.Option
}

func (c commandPart) join(p *plan) {
	p.completes = append(p.completes, completeKinds)
	p.starts = append(p.starts, c.start)
}

func (c commandPart) start(ctx context.Context, r *Rules) (func() error, error) {
	if r.centre != nil {
		return nil, errors.New("Command: given twice")
	}
	all := []command.Option{command.Stats(Statistics()), command.App(coreconfig.AppName(), command.AppType(coreconfig.AppType()))}
	for _, add := range []func(*Rules, *writable.Registry, *[]command.Option) error{
		commandDocuments[rule.Flow], commandDocuments[rule.Degrade], commandDocuments[rule.System], commandDocuments[rule.Authority], commandDocuments[rule.ParamFlow],
		commandDocuments[rule.Isolation],
	} {
		if err := add(r, c.registry, &all); err != nil {
			return nil, fmt.Errorf("Command: %w", err)
		}
	}
	centre, err := command.New(slices.Concat(all, c.opts)...)
	if err != nil {
		return nil, err
	}
	if err := centre.Start(ctx); err != nil {
		return nil, errors.Join(err, centre.Close())
	}
	r.centre = centre
	return centre.Close, nil
}

// Command is the command centre that part Command started; nil without one.
func (r *Rules) Command() *command.Centre {
	if r == nil {
		return nil
	}
	return r.centre
}

// commandDocuments gives the command centre the sources of one kind.
func commandDocuments[T any](r *Rules, registry *writable.Registry, opts *[]command.Option) error {
	var docs []command.Document[T]
	for _, readable := range Readables[T](r) {
		memory, err := writable.NewVolatile(readable)
		if err != nil {
			return err
		}
		d := &commandDocument[T]{readable: readable, memory: memory, registry: registry}
		docs = append(docs, d)
	}
	*opts = append(*opts, command.Rules(docs...))
	return nil
}

// commandDocument is a source, edited through the writable that the registry has for it at the moment, else in memory.
type commandDocument[T any] struct {
	readable *datasource.Readable[T]
	memory   *writable.Writable[T]
	registry *writable.Registry
	// last is the registry's writable that was found last: usually still the one.
	last atomic.Pointer[string]
}

// ID is the source's.
func (d *commandDocument[T]) ID() string { return d.readable.ID() }

// InForce gives the source's rules in force, held ones included.
func (d *commandDocument[T]) InForce() []T {
	rules, _ := d.readable.Property().Value()
	return rules
}

// Volatile says whether edits reach no store.
func (d *commandDocument[T]) Volatile() bool { return d.writer().Volatile() }

// Edit edits the store's document, or the rules in memory.
func (d *commandDocument[T]) Edit(ctx context.Context, change func([]T) ([]T, error)) (writable.Result[T], error) {
	return d.writer().Edit(ctx, change)
}

func (d *commandDocument[T]) writer() *writable.Writable[T] {
	if d.registry == nil {
		return d.memory
	}
	if name := d.last.Load(); name != nil {
		if p, err := writable.Lookup[T](d.registry, *name); err == nil && p.Writable.ID() == d.ID() {
			return p.Writable
		}
	}
	kind, _ := rule.KindOf[T]()
	for _, info := range d.registry.List() {
		if info.Kind != kind || info.SourceID != d.ID() {
			continue
		}
		if p, err := writable.Lookup[T](d.registry, info.Name); err == nil {
			d.last.Store(&info.Name)
			return p.Writable
		}
	}
	return d.memory
}

// completeKinds gives the kinds without a source one in memory, with what the application loaded into the core.
func completeKinds(p *plan) {
	has := make(map[rule.Kind]bool)
	for _, e := range p.entries {
		has[e.kind] = true
	}
	golang := []Option{Dialect(converter.Golang), Unsupported(Hold), Engine(datasource.OnStart(datasource.Empty), datasource.Interval(24*time.Hour))}
	add := func(kind rule.Kind, own []byte, err error, part func(datasource.Source, ...Option) Part) {
		if has[kind] || err != nil {
			return // a rule that can't be told as JSON stays out of reach: it must not be lost by an edit of another
		}
		part(&memorySource{kind: kind, own: own}, golang...).join(p)
	}
	list := func(n int, v any) ([]byte, error) {
		if n == 0 {
			return nil, nil
		}
		return json.Marshal(v)
	}
	flows, breakers, systems := flow.GetRules(), circuitbreaker.GetRules(), system.GetRules()
	own, err := list(len(flows), flows)
	add(rule.KindFlow, own, err, Flow)
	own, err = list(len(breakers), breakers)
	add(rule.KindDegrade, own, err, Degrade)
	own, err = list(len(systems), systems)
	add(rule.KindSystem, own, err, System)
	add(rule.KindAuthority, nil, nil, Authority)
	own, err = list(len(hotspot.GetRules()), hotspot.GetRules()) // keys of any type are no JSON: an error if there are some
	add(rule.KindParamFlow, own, err, ParamFlow)
}

// memorySource is the document of a kind that has no store.
type memorySource struct {
	kind rule.Kind
	own  []byte
}

func (m *memorySource) ID() string { return "memory:" + string(m.kind) }

func (m *memorySource) Read(context.Context) (datasource.Document, error) {
	if m.own == nil {
		return datasource.Document{Presence: datasource.Missing}, nil
	}
	return datasource.Document{Presence: datasource.Present, Data: m.own, Revision: "own"}, nil
}
