package sentinel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
)

// Held is a rule that is in Rulewire's rule set but not in the core, which can't enforce it.
type Held struct {
	// SourceID is the source that the rule came from.
	SourceID string
	Resource string
	ID       string
	// Err says why, and wraps rule.ErrUnsupported.
	Err error
}

// kindState joins the sources of one kind, in declared order, each with its last good rules.
type kindState[R any] struct {
	kind    rule.Kind
	cores   *cores
	mapOne  mapper[R]
	traits  rule.Traits[R]
	manager *rule.Manager[R]

	mu    sync.Mutex
	parts []part[R]
}

type part[R any] struct {
	rules  []R
	mapped coreRules
	held   []Held
}

func newKindState[R any](kind rule.Kind, c *cores, m mapper[R]) *kindState[R] {
	return &kindState[R]{kind: kind, cores: c, mapOne: m, traits: rule.TraitsOf[R](), manager: rule.NewManager[R]()}
}

// update replaces one source's rules: in the core first, then in the rule manager, which so never shows rules that are
// not in force. On an error everything is as it was.
func (k *kindState[R]) update(index int, p part[R]) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.parts[index]
	k.parts[index] = p
	all, mapped := p.rules, p.mapped
	if len(k.parts) > 1 {
		all, mapped = nil, coreRules{}
		for i := range k.parts {
			all = append(all, k.parts[i].rules...)
			mapped.add(&k.parts[i].mapped)
		}
	}
	undo, err := k.cores.set(k.kind, &mapped)
	if err != nil {
		k.parts[index] = before
		return err
	}
	if _, err := k.manager.Load(all); err != nil {
		k.parts[index] = before
		return errors.Join(err, undo())
	}
	return nil
}

func (k *kindState[R]) held() []Held {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Held
	for _, p := range k.parts {
		all = append(all, p.held...)
	}
	return all
}

// listener takes the rules of one source. It is what a readable tells.
type listener[R any] struct {
	state    *kindState[R]
	index    int
	sourceID string
	mapping  mapping
	hold     bool
	// guest: the kind has no source; its managers are the application's as much as ours.
	guest bool
}

// OnUpdate maps rules, brings them into the core and checks that they are in force there.
func (l *listener[R]) OnUpdate(_ context.Context, rules []R) error {
	p := part[R]{rules: rules}
	p.mapped.grow(l.state.kind, len(rules))
	for i := range rules {
		r := &rules[i]
		err := l.state.mapOne(r, &l.mapping, &p.mapped)
		switch {
		case err == nil:
		case l.hold && errors.Is(err, rule.ErrUnsupported):
			p.held = append(p.held, Held{SourceID: l.sourceID, Resource: l.state.traits.Key(r), ID: l.state.traits.ID(r), Err: err})
		default:
			return fmt.Errorf("rule %d (%s): %w", i, l.state.traits.Key(r), err)
		}
	}
	return l.state.update(l.index, p)
}

// CheckRule refuses a rule that the core can't enforce, unless such rules are held.
func (l *listener[R]) CheckRule(r *R) error {
	var scratch coreRules
	err := l.state.mapOne(r, &l.mapping, &scratch)
	if l.hold && errors.Is(err, rule.ErrUnsupported) {
		return nil
	}
	return err
}

// CheckOverride refuses an edit in memory that would take away what the application has loaded into the core meanwhile.
func (l *listener[R]) CheckOverride(rules []R) error {
	if !l.guest {
		return nil
	}
	var mapped coreRules
	for i := range rules {
		_ = l.state.mapOne(&rules[i], &l.mapping, &mapped) // what the core can't enforce is checked elsewhere
	}
	strangers := l.state.cores.strangers(l.state.kind, &mapped)
	if len(strangers) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the application has loaded %d rules of its own, which would go: %s; give the kind a source, or load them before Open",
		datasource.ErrRefused, len(strangers), strings.Join(strangers[:min(len(strangers), maxShown)], " "))
}

// InForce says whether the core still has what it took last.
func (l *listener[R]) InForce() bool {
	for _, m := range l.state.cores.of(l.state.kind) {
		if !m.drift().none() {
			return false
		}
	}
	return true
}
