package sentinel

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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
)

// Command starts a command centre once every source has decided, so that its first answer and its first beat tell of the
// rules in force; Rules.Command gives it, Rules.Close stops it. Without options it listens on 127.0.0.1:8719 and beats to
// nobody; application name and type are those of the core's configuration.
//
// Every source can be edited: with Sink the edit reaches its store, else it changes the rules in memory only, as with a
// Java client, until the store's next document. The kinds without a source (but for isolation rules) start with what the
// application loaded into the core itself and are edited in memory too; after an edit they belong to Rulewire.
func Command(opts ...command.Option) Part { return commandPart{opts} }

type commandPart struct{ opts []command.Option }

func (c commandPart) join(p *plan) {
	p.completes = append(p.completes, completeKinds)
	p.starts = append(p.starts, c.start)
}

func (c commandPart) start(ctx context.Context, r *Rules) (func() error, error) {
	if r.centre != nil {
		return nil, errors.New("Command: given twice")
	}
	centre, err := command.New(slices.Concat([]command.Option{
		command.Registry(&r.writables), command.Stats(Statistics()), command.App(coreconfig.AppName(), command.AppType(coreconfig.AppType())),
	}, c.opts)...)
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
	own, err := told(flow.GetRules())
	add(rule.KindFlow, own, err, Flow)
	own, err = told(circuitbreaker.GetRules())
	add(rule.KindDegrade, own, err, Degrade)
	own, err = told(system.GetRules())
	add(rule.KindSystem, own, err, System)
	add(rule.KindAuthority, nil, nil, Authority)
	own, err = told(hotspot.GetRules()) // keys of any type are no JSON: an error if there are some
	add(rule.KindParamFlow, own, err, ParamFlow)
}

// told gives rules as JSON, nil for none.
func told[R any](rules []R) ([]byte, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	return json.Marshal(rules)
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
