package sentinel

import (
	"context"
	"errors"
	"fmt"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// Rules are the rules that Open keeps in step with their sources. All methods are safe for concurrent use; those that
// read work on nil, as if there were no sources.
type Rules struct {
	group   datasource.Group
	members []member
	cores   *cores
	// writables has the writing side of each member.
	writables writable.Registry

	flow      *kindState[rule.Flow]
	degrade   *kindState[rule.Degrade]
	system    *kindState[rule.System]
	authority *kindState[rule.Authority]
	paramFlow *kindState[rule.ParamFlow]
	isolation *kindState[rule.Isolation]
}

type member struct {
	kind     rule.Kind
	readable datasource.Managed
}

// Open reads every source once, all at the same time, brings the rules into the core, and keeps them there in step.
// It returns when each source has decided (its document is in force, it has none, or its start policy decided).
//
// After an error nothing runs. It names every wrong part (a nil source, a bad option, the same source twice; no store
// was asked then), or every source whose start policy gave up; what the others brought into the core by then stays in
// force. With a start policy that ends in Snapshot or Empty, as OnStart(datasource.Wait(5*time.Second), datasource.Empty),
// a broken source is no error and holds back nobody: the others run, and it is tried again until it works.
func Open(ctx context.Context, parts ...Part) (*Rules, error) {
	var p plan
	for _, part := range parts {
		if part == nil {
			return nil, errors.New("sentinel.Open: nil part")
		}
		part.join(&p)
	}
	if len(p.entries) == 0 {
		return nil, errors.New("sentinel.Open: no source")
	}
	kinds := make(map[rule.Kind]bool)
	for _, e := range p.entries {
		kinds[e.kind] = true
	}
	c := newCores(kinds)
	r := &Rules{
		cores:     c,
		flow:      newKindState(rule.KindFlow, c, mapFlow),
		degrade:   newKindState(rule.KindDegrade, c, mapDegrade),
		system:    newKindState(rule.KindSystem, c, mapSystem),
		authority: newKindState(rule.KindAuthority, c, mapAuthority),
		paramFlow: newKindState(rule.KindParamFlow, c, mapParamFlow),
		isolation: newKindState(rule.KindIsolation, c, mapIsolation),
	}
	var errs []error
	for _, e := range p.entries {
		if err := e.add(r, p.defaults); err != nil {
			errs = append(errs, fmt.Errorf("sentinel.Open: %s: %w", e.kind, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := claim(r, kinds); err != nil {
		return nil, err
	}
	for _, init := range p.inits {
		err := errors.New("sentinel.Open: nil Init")
		if init != nil {
			err = init()
		}
		if err != nil {
			release(r)
			return nil, fmt.Errorf("sentinel.Open: init: %w", err)
		}
	}
	if err := r.group.Start(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close stops reading and watching. The rules stay in force in the core. It is safe twice and on nil.
func (r *Rules) Close() error {
	if r == nil {
		return nil
	}
	defer release(r)
	return r.group.Close()
}

// Refresh reads every source now and returns once what was read is in force, and puts back what drifted.
func (r *Rules) Refresh(ctx context.Context) error {
	if r == nil {
		return fmt.Errorf("sentinel: %w", datasource.ErrClosed)
	}
	return r.group.Refresh(ctx)
}

// Reconcile loads into the core what it took last, wherever other code has changed that. It asks no store.
func (r *Rules) Reconcile() error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, m := range r.cores.all() {
		errs = append(errs, m.reconcile())
	}
	return errors.Join(errs...)
}

// Drift lists the core's managers that have other rules in force than they took from Rulewire; none is the good case.
func (r *Rules) Drift() []Drift {
	if r == nil {
		return nil
	}
	return drifts(r.cores.all())
}

func drifts(managers []manager) []Drift {
	var all []Drift
	for _, m := range managers {
		if d := m.drift(); !d.none() {
			all = append(all, d)
		}
	}
	return all
}

// Status is the way of one kind's rules from the store into the core.
type Status struct {
	Kind rule.Kind
	// Sources are the kind's sources in declared order: what the store has and what came into force.
	Sources []datasource.Status
	// Rules is the number of rules in the rule manager, and Generation its number.
	Rules      int
	Generation uint64
	// Live is the number of the core's rules that come from this kind. It differs from Rules where a rule becomes
	// several (system), is held, or drifted.
	Live int
	// Held are the rules that are kept out of the core.
	Held []Held
	// Drift is what the core has in force otherwise.
	Drift []Drift
}

// Status gives the kinds that have a source, in the order of rule.Kinds.
func (r *Rules) Status() []Status {
	if r == nil {
		return nil
	}
	var all []Status
	for _, kind := range rule.Kinds() {
		s := Status{Kind: kind}
		for _, m := range r.members {
			if m.kind == kind {
				s.Sources = append(s.Sources, m.readable.Status())
			}
		}
		if len(s.Sources) == 0 {
			continue
		}
		switch kind {
		case rule.KindFlow:
			fill(&s, r.flow)
		case rule.KindDegrade:
			fill(&s, r.degrade)
		case rule.KindSystem:
			fill(&s, r.system)
		case rule.KindAuthority:
			fill(&s, r.authority)
		case rule.KindParamFlow:
			fill(&s, r.paramFlow)
		case rule.KindIsolation:
			fill(&s, r.isolation)
		}
		managers := r.cores.of(kind)
		for _, m := range managers {
			s.Live += m.count(kind)
		}
		s.Drift = drifts(managers)
		all = append(all, s)
	}
	return all
}

func fill[R any](s *Status, k *kindState[R]) {
	s.Rules, s.Generation, s.Held = k.manager.Len(), k.manager.Generation(), k.held()
}

// Flow is the rule manager of the flow rules in force, held ones included, whatever grade they have.
func (r *Rules) Flow() *rule.Manager[rule.Flow] {
	if r == nil {
		return nil
	}
	return r.flow.manager
}

// Degrade is the rule manager of the circuit breakers in force.
func (r *Rules) Degrade() *rule.Manager[rule.Degrade] {
	if r == nil {
		return nil
	}
	return r.degrade.manager
}

// System is the rule manager of the system rules in force.
func (r *Rules) System() *rule.Manager[rule.System] {
	if r == nil {
		return nil
	}
	return r.system.manager
}

// Authority is the rule manager of the authority rules that are held.
func (r *Rules) Authority() *rule.Manager[rule.Authority] {
	if r == nil {
		return nil
	}
	return r.authority.manager
}

// ParamFlow is the rule manager of the hot-parameter rules in force.
func (r *Rules) ParamFlow() *rule.Manager[rule.ParamFlow] {
	if r == nil {
		return nil
	}
	return r.paramFlow.manager
}

// Isolation is the rule manager of the isolation rules in force; thread-grade flow rules are in Flow.
func (r *Rules) Isolation() *rule.Manager[rule.Isolation] {
	if r == nil {
		return nil
	}
	return r.isolation.manager
}

// Readables gives the engines of the kind whose rule type is R, in declared order: for Accept, for more listeners, and
// for a writable that shall tell its readable of a write.
func Readables[R any](r *Rules) []*datasource.Readable[R] {
	if r == nil {
		return nil
	}
	var all []*datasource.Readable[R]
	for _, m := range r.members {
		if readable, ok := m.readable.(*datasource.Readable[R]); ok {
			all = append(all, readable)
		}
	}
	return all
}
