package sentinel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
// application loaded into the core itself and are edited in memory too; after an edit they belong to Rulewire. A kind of
// which Rulewire can't take every rule as it is (one out of rule's ranges, or that it holds for unsupported) stays the
// application's: its page is empty and edits are refused. So are edits that would take away rules that the application
// loads later.
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
	complete(p, has[rule.KindFlow], memory[rule.Flow, flow.Rule]{rule.KindFlow, flowModule(), told[flow.Rule], mapFlow,
		func(c *coreRules) []flow.Rule { return c.flow }, Flow})
	complete(p, has[rule.KindDegrade], memory[rule.Degrade, circuitbreaker.Rule]{rule.KindDegrade, breakerModule(), told[circuitbreaker.Rule], mapDegrade,
		func(c *coreRules) []circuitbreaker.Rule { return c.breaker }, Degrade})
	complete(p, has[rule.KindSystem], memory[rule.System, system.Rule]{rule.KindSystem, systemModule(), told[system.Rule], mapSystem,
		func(c *coreRules) []system.Rule { return c.system }, System})
	complete(p, has[rule.KindParamFlow], memory[rule.ParamFlow, hotspot.Rule]{rule.KindParamFlow, hotspotModule(), toldHotspot, mapParamFlow,
		func(c *coreRules) []hotspot.Rule { return c.hotspot }, ParamFlow})
	if !has[rule.KindAuthority] {
		Authority(&memorySource{kind: rule.KindAuthority}, inMemory...).join(p)
	}
}

var inMemory = []Option{func(c *config) error { c.guest = true; return nil }, Dialect(converter.Golang), Unsupported(Hold), Engine(datasource.OnStart(datasource.Empty), datasource.Interval(24*time.Hour))}

// memory is how a kind's rules come from the core and go there.
type memory[R, C any] struct {
	kind rule.Kind
	mod  *module[C]
	tell func([]C) ([]byte, error)
	back mapper[R]
	of   func(*coreRules) []C
	part func(datasource.Source, ...Option) Part
}

// complete adds a kind that has no source. One whose rules Rulewire would not load exactly as the core has them stays out of
// reach: with the first edit of another rule they would be gone.
func complete[R, C any](p *plan, has bool, m memory[R, C]) {
	if has {
		return
	}
	src := &memorySource{kind: m.kind}
	if live := m.mod.live(); len(live) > 0 {
		var err error
		if src.own, err = m.tell(live); err != nil || !m.keeps(src.own) {
			return
		}
	}
	m.part(src, inMemory...).join(p)
}

// keeps says whether the document brings back what the core has.
func (m memory[R, C]) keeps(own []byte) bool {
	rules, err := datasource.Check(converter.JSON[R](converter.Dialect(converter.Golang)), own)
	if err != nil {
		return false
	}
	var mapped coreRules
	for i := range rules {
		if m.back(&rules[i], &mapping{}, &mapped) != nil {
			return false
		}
	}
	set := newCoreSet(m.mod, m.kind)
	set.sole, set.touched, set.wanted = true, true, m.of(&mapped)
	return set.drift().none()
}

// told gives rules as JSON.
func told[C any](rules []C) ([]byte, error) { return json.Marshal(rules) }

// toldHotspot is told for hot-parameter rules, whose special items have keys of any type and so are no JSON by themselves.
func toldHotspot(rules []hotspot.Rule) ([]byte, error) {
	all := make([]rule.ParamFlow, len(rules))
	for i := range rules {
		c := &rules[i]
		r := rule.NewParamFlow(c.Resource, int64(c.ParamIndex), float64(c.Threshold))
		r.ID, r.ParamKey, r.ParamsMaxCapacity = c.ID, c.ParamKey, c.ParamsMaxCapacity
		r.MaxQueueingTimeMs, r.BurstCount, r.DurationInSec = c.MaxQueueingTimeMs, c.BurstCount, c.DurationInSec
		if c.MetricType == hotspot.Concurrency {
			r.Grade = rule.GradeThread
		}
		if c.ControlBehavior == hotspot.Throttling {
			r.ControlBehavior = rule.ControlRateLimiter
		}
		for key, limit := range c.SpecificItems {
			item := rule.ParamFlowItem{Object: fmt.Sprint(key), Count: limit}
			switch key.(type) {
			case string:
				item.ClassType = rule.ItemString.String()
			case int:
				item.ClassType = rule.ItemInt.String()
			case int64:
				item.ClassType = rule.ItemLong.String()
			case int16:
				item.ClassType = rule.ItemShort.String()
			case bool:
				item.ClassType = rule.ItemBoolean.String()
			case float64:
				item.ClassType = rule.ItemDouble.String()
			default:
				return nil, fmt.Errorf("%w: a key of type %T", rule.ErrUnsupported, key)
			}
			r.Items = append(r.Items, item)
		}
		slices.SortFunc(r.Items, func(a, b rule.ParamFlowItem) int {
			return cmp.Or(strings.Compare(a.Object, b.Object), strings.Compare(a.ClassType, b.ClassType))
		})
		all[i] = r
	}
	return converter.JSON[rule.ParamFlow](converter.Dialect(converter.Golang)).Encode(all)
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
