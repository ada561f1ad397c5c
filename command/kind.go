package command

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
)

// ruleset is a kind, whatever its rules are.
type ruleset interface {
	// read gives what is in force as a document of the Java dialect.
	read(peer string) []byte
	// set makes data the rules of the kind, as far as a push may.
	set(ctx context.Context, data []byte, from pusher) error
	accept(ctx context.Context, id string, from pusher) error
	pending() []Pending
	stale() uint64
}

// pusher is who pushes.
type pusher struct{ actor, peer string }

// kind is one kind of rule: its documents, what was shown to whom, and the pushes that were held back.
type kind[T any] struct {
	name   rule.Kind
	docs   func() []Document[T]
	conv   converter.Converter[T]
	form   form[T]
	traits rule.Traits[T]
	limit  int // of rules that one push may remove; negative = any
	logger *slog.Logger
	seed   maphash.Seed

	mu    sync.Mutex
	shown history
	held  []heldPush[T] // oldest first
	next  uint64        // number of the next held push
	// logged is what the last read said about rules that Java can't be shown.
	logged string
}

func newKind[T any](docs func() []Document[T], f form[T], o *options) *kind[T] {
	name, _ := rule.KindOf[T]()
	return &kind[T]{name: name, docs: docs, conv: converter.JSON[T](), form: f, traits: rule.TraitsOf[T](), limit: o.maxRemoved,
		logger: o.logger, seed: maphash.MakeSeed(), next: 1}
}

// view is a rule as the Dashboard sees it: one row.
type view[T any] struct {
	rule T
	// from is the rule's place in its list, and part its place among the rows of that rule.
	from, part int
	print
	// unshown: the Java dialect has no words for it, so that no push can hold it.
	unshown bool
}

// print tells rules apart by what comes back from the Dashboard.
type print struct{ key, full uint64 }

func (k *kind[T]) views(rules []T) []view[T] {
	all := make([]view[T], 0, len(rules))
	for i := range rules {
		parts := []T{rules[i]}
		if k.form.split != nil {
			parts = k.form.split(&rules[i])
		}
		for j := range parts {
			v := view[T]{rule: parts[j], from: i, part: j}
			bare := k.traits.Clone(&parts[j])
			k.form.hide(&bare)
			v.key = maphash.String(k.seed, k.form.key(&bare))
			text, err := k.conv.Encode([]T{bare})
			if err != nil {
				v.unshown = true
			}
			v.full = maphash.Bytes(k.seed, text)
			all = append(all, v)
		}
	}
	return all
}

func (k *kind[T]) inForce(docs []Document[T]) []T {
	if len(docs) == 1 {
		return docs[0].InForce()
	}
	var all []T
	for _, d := range docs {
		all = append(all, d.InForce()...)
	}
	return all
}

// read never fails: an error would empty the Dashboard's memory of the kind, and its next push with it.
func (k *kind[T]) read(peer string) []byte {
	views := k.views(k.inForce(k.docs()))
	rows := make([]T, 0, len(views))
	var prints []print
	var unshown error
	for i := range views {
		if views[i].unshown {
			_, unshown = k.conv.Encode([]T{views[i].rule})
			continue
		}
		rows = append(rows, views[i].rule)
		prints = append(prints, views[i].print)
	}
	text, err := k.conv.Encode(rows)
	if err != nil { // what is hidden from the Dashboard does not encode: show the rules without it
		for i := range rows {
			if _, bad := k.conv.Encode(rows[i : i+1]); bad != nil {
				rows[i] = k.traits.Clone(&rows[i])
				k.form.hide(&rows[i])
				unshown = bad
			}
		}
		if text, err = k.conv.Encode(rows); err != nil {
			text, unshown = []byte("[]"), err
		}
	}
	k.mu.Lock()
	k.shown.add(peer, prints, 1)
	note := ""
	if unshown != nil {
		note = unshown.Error()
	}
	changed := note != k.logged
	k.logged = note
	k.mu.Unlock()
	if changed && note != "" {
		k.logger.Warn("rulewire: rules in force that the Dashboard can't be shown", "kind", k.name, "error", note)
	}
	return text
}

func (k *kind[T]) set(ctx context.Context, data []byte, from pusher) error {
	pushed, err := k.decode(data)
	if err != nil {
		return err
	}
	return k.push(ctx, pushed, from, nil)
}

// decode reads a push; every rule of it must be readable and valid, for the Dashboard is shown one reason only.
func (k *kind[T]) decode(data []byte) ([]T, error) {
	if _, err := datasource.Check(k.conv, data); err != nil {
		return nil, &StatusError{http.StatusBadRequest, err}
	}
	// Rows that look alike may be rules that differ in what the Dashboard does not know, so that each counts.
	dec, err := k.conv.Decode(data)
	if err != nil {
		return nil, &StatusError{http.StatusBadRequest, err}
	}
	return dec.Rules, nil
}

// push brings a list of rules into the store. accepted is the held push that an operator takes, nil for one that comes in.
func (k *kind[T]) push(ctx context.Context, rules []T, from pusher, accepted *heldPush[T]) error {
	docs := k.docs()
	if len(docs) == 0 {
		return failf(http.StatusBadRequest, "no %s rules can be set here: nothing is registered for them", k.name)
	}
	pushed := k.views(rules)
	page := printsOf(pushed)
	target, pushed, err := k.target(docs, pushed)
	if err != nil {
		return err
	}
	doc := docs[target]
	inForce := k.views(doc.InForce())
	res, err := doc.Edit(ctx, func(current []T) ([]T, error) {
		// Equal rules count once in force, and the page shows one: its twins in the document follow it.
		current, _ = rule.Unique(current)
		p := k.plan(current, inForce, pushed, page, from.peer, accepted != nil)
		if accepted != nil && p.summary != accepted.summary {
			return nil, fmt.Errorf("%w: the rules are not those any more that the push was compared with", datasource.ErrConflict)
		}
		if p.stale {
			return nil, &staleError[T]{plan: p}
		}
		next, _ := rule.Unique(p.next)
		return next, nil
	})
	var stale *staleError[T]
	if errors.As(err, &stale) {
		return k.hold(rules, from, stale)
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.held = nil // what was held back was compared with other rules
	if accepted == nil {
		if l, _, _ := k.shown.oneOff(from.peer, page, true); l != nil {
			l.clicks++
		}
		k.shown.add(from.peer, page, 0) // the Dashboard's memory now
	}
	k.mu.Unlock()
	if res.Apply != nil {
		return failf(http.StatusInternalServerError, "stored as revision %s, but not in force here yet: %w", res.Revision, res.Apply)
	}
	return nil
}

// target finds the document that a push changes, and what of the push is about that one. With several documents a push may
// change one of them: two can't be written at once.
func (k *kind[T]) target(docs []Document[T], pushed []view[T]) (int, []view[T], error) {
	if len(docs) == 1 {
		return 0, pushed, nil
	}
	left := pushed
	own := make([][]view[T], len(docs))
	dirty := -1
	for i, d := range docs {
		current := k.views(d.InForce())
		m := k.match(current, left)
		for _, p := range m.pairs {
			own[i] = append(own[i], left[p[1]])
		}
		if differ(current, left, m) > len(m.added) { // what is added may be another document's
			if dirty >= 0 {
				return 0, nil, failf(http.StatusBadRequest, "the push changes rules of %s and of %s; one edit can change one document", docs[dirty].ID(), d.ID())
			}
			dirty = i
		}
		rest := make([]view[T], len(m.added))
		for n, j := range m.added {
			rest[n] = left[j]
		}
		left = rest
	}
	if dirty < 0 {
		dirty = slices.IndexFunc(docs, func(d Document[T]) bool {
			v, ok := d.(interface{ Volatile() bool })
			return !ok || !v.Volatile()
		})
		dirty = max(dirty, 0)
	}
	return dirty, append(own[dirty], left...), nil
}

// Pending is a push that was held back, because it would have removed more rules in force than one click does.
type Pending struct {
	Kind rule.Kind
	// ID is what Accept wants. It is not used again while the process runs.
	ID string
	// Actor is who pushed.
	Actor string
	Since time.Time
	// Rules is how many rules the push holds; Added, Changed and Removed compare it with the rules in force.
	Rules, Added, Changed, Removed int
	// Diff has a line for each difference, at most 100.
	Diff []string
}

// maxHeld bounds the pushes that are kept for each kind; the oldest goes first.
const maxHeld = 8

type heldPush[T any] struct {
	Pending
	rules   []T
	from    pusher
	summary summary
}

type staleError[T any] struct{ plan plan[T] }

func (e *staleError[T]) Error() string { return ErrStale.Error() }
func (e *staleError[T]) Unwrap() error { return ErrStale }

// maxNamed bounds the rules that an answer names.
const maxNamed = 10

func (k *kind[T]) hold(rules []T, from pusher, e *staleError[T]) error {
	p := e.plan
	changes := rule.Compare(p.before, p.replaced)
	k.mu.Lock()
	h := heldPush[T]{rules: rules, from: from, summary: p.summary, Pending: Pending{
		Kind: k.name, ID: itoa(int64(k.next)), Actor: from.actor, Since: time.Now(), Rules: len(rules),
		Added: len(changes.Added), Changed: len(changes.Changed), Removed: len(changes.Removed), Diff: changes.FirstLines(100),
	}}
	k.next++
	k.held = append(k.held, h)
	if len(k.held) > maxHeld {
		k.held = slices.Delete(k.held, 0, 1)
	}
	k.mu.Unlock()
	names := ""
	for i, name := range p.removed {
		if i == maxNamed {
			names += fmt.Sprintf(" and %d more", len(p.removed)-maxNamed)
			break
		}
		if i > 0 {
			names += ", "
		}
		names += name
	}
	return failf(http.StatusBadRequest, "refused: this would remove %d %s rules that are in force: %s. Open the rules page first, so that the Dashboard knows them, then edit again "+
		"(%w; at most %d at once; held as pending %s)", len(p.removed), k.name, names, ErrStale, k.limit, h.ID)
}

func (k *kind[T]) pending() []Pending {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]Pending, len(k.held))
	for i := range k.held {
		all[i] = k.held[i].Pending
	}
	return all
}

// stale counts the pushes that were held back.
func (k *kind[T]) stale() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.next - 1
}

func (k *kind[T]) accept(ctx context.Context, id string, by pusher) error {
	k.mu.Lock()
	i := slices.IndexFunc(k.held, func(h heldPush[T]) bool { return h.ID == id })
	if i < 0 {
		k.mu.Unlock()
		return failf(http.StatusBadRequest, "%w: %s %q", ErrNotPending, k.name, id)
	}
	h := k.held[i]
	k.mu.Unlock()
	by.peer = h.from.peer
	return k.push(ctx, h.rules, by, &h)
}
