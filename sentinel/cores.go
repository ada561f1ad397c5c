package sentinel

import (
	"errors"

	"github.com/alibaba/sentinel-golang/core/circuitbreaker"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/core/hotspot"
	"github.com/alibaba/sentinel-golang/core/isolation"
	"github.com/alibaba/sentinel-golang/core/system"

	"github.com/rulewire/rulewire/rule"
)

// cores are the core's five rule managers. A kind may give rules to two of them, and a manager may get rules of two
// kinds: isolation rules come from their own kind and from thread-grade flow rules. They are joined, so that neither
// overwrites the other.
type cores struct {
	flow      *coreSet[flow.Rule]
	isolation *coreSet[isolation.Rule]
	breaker   *coreSet[circuitbreaker.Rule]
	system    *coreSet[system.Rule]
	hotspot   *coreSet[hotspot.Rule]
}

// newCores makes the managers' counterparts; kinds are those that have a source.
func newCores(kinds map[rule.Kind]bool) *cores {
	c := &cores{
		flow:      newCoreSet(flowModule(), rule.KindFlow),
		isolation: newCoreSet(isolationModule(), rule.KindFlow, rule.KindIsolation),
		breaker:   newCoreSet(breakerModule(), rule.KindDegrade),
		system:    newCoreSet(systemModule(), rule.KindSystem),
		hotspot:   newCoreSet(hotspotModule(), rule.KindParamFlow),
	}
	c.flow.sole, c.breaker.sole, c.system.sole, c.hotspot.sole = true, true, true, true
	c.isolation.sole = kinds[rule.KindIsolation]
	return c
}

// manager is what the cores need of a coreSet, whatever its rules are.
type manager interface {
	drift() Drift
	reconcile() error
	count(kind rule.Kind) int
}

// of gives the managers that a kind gives rules to.
func (c *cores) of(kind rule.Kind) []manager {
	switch kind {
	case rule.KindFlow:
		return []manager{c.flow, c.isolation}
	case rule.KindDegrade:
		return []manager{c.breaker}
	case rule.KindSystem:
		return []manager{c.system}
	case rule.KindParamFlow:
		return []manager{c.hotspot}
	case rule.KindIsolation:
		return []manager{c.isolation}
	default:
		return nil
	}
}

// set replaces one kind's rules in every manager that takes them: all or none.
func (c *cores) set(kind rule.Kind, rules *coreRules) (undo func() error, err error) {
	switch kind {
	case rule.KindFlow:
		undoFlow, err := c.flow.set(kind, rules.flow)
		if err != nil {
			return nil, err
		}
		undoThread, err := c.isolation.set(kind, rules.isolation)
		if err != nil {
			return nil, errors.Join(err, undoFlow())
		}
		return func() error { return errors.Join(undoThread(), undoFlow()) }, nil
	case rule.KindDegrade:
		return c.breaker.set(kind, rules.breaker)
	case rule.KindSystem:
		return c.system.set(kind, rules.system)
	case rule.KindParamFlow:
		return c.hotspot.set(kind, rules.hotspot)
	case rule.KindIsolation:
		return c.isolation.set(kind, rules.isolation)
	default:
		return func() error { return nil }, nil // authority rules have no place in the core
	}
}

// strangers are the rules that a kind's managers have in force and that neither came from Rulewire nor are among rules.
func (c *cores) strangers(kind rule.Kind, rules *coreRules) []string {
	switch kind {
	case rule.KindFlow:
		return append(c.flow.strangers(rules.flow), c.isolation.strangers(rules.isolation)...)
	case rule.KindDegrade:
		return c.breaker.strangers(rules.breaker)
	case rule.KindSystem:
		return c.system.strangers(rules.system)
	case rule.KindParamFlow:
		return c.hotspot.strangers(rules.hotspot)
	case rule.KindIsolation:
		return c.isolation.strangers(rules.isolation)
	default:
		return nil
	}
}

func (c *cores) all() []manager {
	return []manager{c.flow, c.isolation, c.breaker, c.system, c.hotspot}
}
