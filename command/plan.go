package command

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
)

// plan is what a push makes of the rules in the store.
type plan[T any] struct {
	next []T
	// before are the store's rules; replaced are the rules if the push were taken at its word.
	before, replaced []T
	// removed names what would go.
	removed []string
	// stale: that is more than one push may remove.
	stale   bool
	summary summary
}

// summary identifies what a held push was compared with and what it would do.
type summary struct{ before, removed uint64 }

// pairs says which row of the store each pushed row is an edit of.
type pairs struct {
	pairs   [][2]int // store, push
	missing []int    // store rows that the push lacks
	added   []int    // pushed rows that the store lacks
}

// match pairs the rows of two lists: equal ones first, then those of one key with the same ID, the same shape, and the rest
// in order. The Dashboard never edits a rule's key.
func (k *kind[T]) match(store, push []view[T]) pairs {
	var m pairs
	byKey := make(map[uint64][]int, len(push))
	for j := range push {
		byKey[push[j].key] = append(byKey[push[j].key], j)
	}
	takenStore, takenPush := make([]bool, len(store)), make([]bool, len(push))
	round := func(same func(s, p *view[T]) bool) {
		for i := range store {
			if takenStore[i] || store[i].unshown {
				continue
			}
			for _, j := range byKey[store[i].key] {
				if !takenPush[j] && same(&store[i], &push[j]) {
					takenStore[i], takenPush[j] = true, true
					m.pairs = append(m.pairs, [2]int{i, j})
					break
				}
			}
		}
	}
	round(func(s, p *view[T]) bool { return s.full == p.full })
	if len(m.pairs) < len(store) || len(m.pairs) < len(push) {
		round(func(s, p *view[T]) bool {
			id := k.traits.ID(&p.rule)
			return id != "" && id == k.traits.ID(&s.rule)
		})
		round(func(s, p *view[T]) bool { return k.form.shape(&s.rule) == k.form.shape(&p.rule) })
		round(func(s, p *view[T]) bool { return true })
	}
	for i := range store {
		if !takenStore[i] && !store[i].unshown {
			m.missing = append(m.missing, i)
		}
	}
	for j := range push {
		if !takenPush[j] {
			m.added = append(m.added, j)
		}
	}
	return m
}

// plan works out what becomes of the store's rules. inForce are those that are in force here; literal takes the push at its
// word, as an operator has seen it: all that it lacks and that is in force goes. page are the prints of the whole push, of which
// push may be the part that is about one of several documents.
func (k *kind[T]) plan(current []T, inForce, push []view[T], page []print, peer string, literal bool) plan[T] {
	store := k.views(current)
	m := k.match(store, push)
	// A rule that somebody else changed is in force here, if with its value of before.
	here := make(map[int]bool, len(inForce))
	for _, p := range k.match(store, inForce).pairs {
		here[p[0]] = true
	}
	p := plan[T]{before: current}
	p.summary.before = digest(k, store)
	gone := make(map[int]bool, len(m.missing))
	var removed []view[T]
	for _, i := range m.missing {
		if !here[i] {
			continue // not in force here yet: it came meanwhile, from somebody else
		}
		gone[i] = true
		p.removed = append(p.removed, k.describe(&store[i].rule))
		removed = append(removed, store[i])
	}
	p.summary.removed = digest(k, removed)
	p.replaced = k.build(current, store, push, m, gone)
	p.next = p.replaced
	if literal {
		return p
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// What was never shown to who pushes can't be meant by what the push lacks.
	spare := func() {
		seen, all := k.shown.seen(peer), len(gone)
		maps.DeleteFunc(gone, func(i int, _ bool) bool { return seen != nil && !seen[store[i].key] })
		if len(gone) < all {
			p.next = k.build(current, store, push, m, gone)
		}
	}
	if differ(store, push, m) <= 1 { // one click on what the store has
		spare()
		return p
	}
	click, ok := k.click(store, push, m, page, peer, false)
	if !ok && k.limit >= 0 && len(gone) > k.limit {
		p.stale = true
		return p
	}
	if !ok {
		click, ok = k.click(store, push, m, page, peer, true)
	}
	if ok {
		p.next = k.build(current, store, push, click, nil)
		return p
	}
	if k.shown.removal(peer, page) {
		// A rule was removed on that page. The others stand there as they were shown, which is no wish to undo what somebody
		// else made of them meanwhile.
		m = pairs{}
		p.next = k.build(current, store, push, m, gone)
	}
	spare()
	return p
}

// click finds the one change that somebody made on a page which was opened before others changed more. If the push differs
// from a list that was shown to its peer by exactly one rule that was added or changed, then that is what was meant, and what
// others did meanwhile stays. Nothing is inferred of a removal: it can't be told from a page that never had the rule. A list
// that shares no rule with the push (loose) may belong to a memory that was lost; it counts only where no more would go than
// may. The caller holds mu.
func (k *kind[T]) click(store, push []view[T], m pairs, page []print, peer string, loose bool) (pairs, bool) {
	_, at, before := k.shown.oneOff(peer, page, loose)
	if at < 0 {
		return pairs{}, false
	}
	clicked := page[at]
	if at = slices.IndexFunc(push, func(v view[T]) bool { return v.print == clicked }); at < 0 {
		return pairs{}, false // on a rule of another document
	}
	if slices.ContainsFunc(store, func(v view[T]) bool { return v.full == clicked.full }) {
		// It was made before, so something else is meant now, unless the same list comes once more.
		return pairs{}, k.shown.has(peer, page)
	}
	if before == nil {
		// Added. If somebody else added a rule of the same resource meanwhile, this is one more.
		return pairs{added: []int{at}}, true
	}
	for i := range store {
		if store[i].print == *before {
			return pairs{pairs: [][2]int{{i, at}}}, true
		}
	}
	// It was changed by others too: the later edit of the same rule wins, as in every rule page. If it was removed, it is
	// wanted again.
	for _, p := range m.pairs {
		if p[1] == at {
			return pairs{pairs: [][2]int{p}}, true
		}
	}
	return pairs{added: []int{at}}, true
}

// printsOf gives the prints of a list, each once.
func printsOf[T any](views []view[T]) []print {
	prints := make([]print, 0, len(views))
	seen := make(map[uint64]bool, len(views))
	for i := range views {
		if full := views[i].full; !seen[full] {
			seen[full] = true
			prints = append(prints, views[i].print)
		}
	}
	return prints
}

// differ counts the rules in which a push is not what the store has.
func differ[T any](store, push []view[T], m pairs) int {
	n := len(m.missing) + len(m.added)
	for _, p := range m.pairs {
		if store[p[0]].full != push[p[1]].full {
			n++
		}
	}
	return n
}

// build makes the next rules: the store's in their order, with the pairs' pushed values, without what is gone, and the added
// ones at the end.
func (k *kind[T]) build(current []T, store, push []view[T], m pairs, gone map[int]bool) []T {
	to := make(map[int]int, len(m.pairs))
	for _, p := range m.pairs {
		to[p[0]] = p[1]
	}
	next := make([]T, 0, len(current)+len(m.added))
	for i := 0; i < len(store); {
		var parts []T
		whole, from := true, store[i].from
		for ; i < len(store) && store[i].from == from; i++ {
			switch j, paired := to[i]; {
			case gone[i]:
				whole = false
			case paired:
				merged := k.traits.Clone(&push[j].rule)
				k.form.merge(&merged, &store[i].rule)
				whole = whole && k.traits.Equal(&merged, &store[i].rule)
				parts = append(parts, merged)
			default:
				parts = append(parts, store[i].rule)
			}
		}
		switch {
		case whole:
			next = append(next, current[from])
		case len(parts) == 0:
		case k.form.join != nil:
			next = append(next, k.form.join(parts))
		default:
			next = append(next, parts...)
		}
	}
	// Rows of one pushed rule stay one rule.
	for n := 0; n < len(m.added); {
		from := push[m.added[n]].from
		var parts []T
		for ; n < len(m.added) && push[m.added[n]].from == from; n++ {
			parts = append(parts, push[m.added[n]].rule)
		}
		if k.form.join != nil {
			next = append(next, k.form.join(parts))
		} else {
			next = append(next, parts...)
		}
	}
	return next
}

func (k *kind[T]) describe(r *T) string {
	name := k.form.key(r)
	if name == "" {
		name = string(k.name)
	}
	return short(name)
}

func digest[T any](k *kind[T], views []view[T]) uint64 {
	var h maphash.Hash
	h.SetSeed(k.seed)
	for i := range views {
		_ = binary.Write(&h, binary.LittleEndian, views[i].full) // never fails
	}
	return h.Sum64()
}

// history is what was shown to whom, newest last: the answers to reads, and the lists that were pushed, which is what the
// pusher remembers. It holds prints only, and is bounded.
type history struct {
	lists []shownList
	rules int
}

type shownList struct {
	peer string
	set  map[uint64]uint64 // full → key
	// reads counts how often it was shown, clicks how many pushes it has explained.
	reads, clicks int
}

// The bounds of a history: lists, and rules over all lists. A list of its own is always kept.
const (
	maxLists = 512
	maxShown = 100_000
)

func (h *history) add(peer string, prints []print, reads int) {
	set := make(map[uint64]uint64, len(prints))
	for _, p := range prints {
		set[p.full] = p.key
	}
	for i := len(h.lists) - 1; i >= 0; i-- {
		if l := h.lists[i]; l.peer == peer && maps.Equal(l.set, set) {
			// The same page again: it is the newest now.
			l.reads += reads
			h.lists = append(slices.Delete(h.lists, i, i+1), l)
			return
		}
		if len(h.lists)-i > 8 {
			break // far back, telling would cost more than a list
		}
	}
	h.lists = append(h.lists, shownList{peer: peer, set: set, reads: reads})
	h.rules += len(set)
	drop := 0
	for len(h.lists)-drop > 1 && (len(h.lists)-drop > maxLists || h.rules > maxShown) {
		h.rules -= len(h.lists[drop].set)
		drop++
	}
	h.lists = slices.Delete(h.lists, 0, drop)
}

// seen has the keys of the rules that were shown to peer; it is nil if nothing was.
func (h *history) seen(peer string) map[uint64]bool {
	var keys map[uint64]bool
	for i := range h.lists {
		if h.lists[i].peer != peer {
			continue
		}
		if keys == nil {
			keys = make(map[uint64]bool)
		}
		for _, key := range h.lists[i].set {
			keys[key] = true
		}
	}
	return keys
}

// has says whether push is a list that was shown to peer.
func (h *history) has(peer string, push []print) bool {
	return slices.ContainsFunc(h.lists, func(l shownList) bool {
		return l.peer == peer && len(l.set) == len(push) && l.holds(push)
	})
}

// removal says whether push is a list that was shown to peer, without one of its rules.
func (h *history) removal(peer string, push []print) bool {
	return slices.ContainsFunc(h.lists, func(l shownList) bool {
		return l.peer == peer && len(l.set) == len(push)+1 && l.holds(push)
	})
}

// holds says whether every rule of push was shown.
func (l *shownList) holds(push []print) bool {
	return !slices.ContainsFunc(push, func(p print) bool {
		_, ok := l.set[p.full]
		return !ok
	})
}

// oneOff looks, newest first, for a list that was shown to peer and that push differs from by one added rule (before is nil)
// or by one changed one; at is that rule's place in push, -1 if there is no such list. loose also takes a list that shares no
// rule with the push, as long as it was shown to more readers than have pushed since.
func (h *history) oneOff(peer string, push []print, loose bool) (list *shownList, at int, before *print) {
	pushed := make(map[uint64]bool, len(push))
	for _, p := range push {
		pushed[p.full] = true
	}
	for i := len(h.lists) - 1; i >= 0; i-- {
		l := &h.lists[i]
		if l.peer != peer || len(l.set) > len(push)+1 || len(l.set)+1 < len(push) {
			continue
		}
		at, more := -1, false
		for j, p := range push {
			if _, ok := l.set[p.full]; ok {
				continue
			}
			if at >= 0 {
				more = true
				break
			}
			at = j
		}
		if at < 0 && len(l.set) == len(push)+1 && len(push) > 0 {
			return nil, -1, nil // a removal explains it, and that is newer than whatever else does
		}
		if more || at < 0 {
			continue
		}
		var lacks []print
		for full, key := range l.set {
			if !pushed[full] {
				lacks = append(lacks, print{key, full})
				if len(lacks) > 1 {
					break
				}
			}
		}
		shares := len(l.set) > len(lacks)
		switch {
		case len(lacks) > 1, !shares && (!loose || l.reads <= l.clicks), len(lacks) == 1 && lacks[0].key != push[at].key:
		case len(lacks) == 0:
			return l, at, nil
		default:
			return l, at, &lacks[0]
		}
	}
	return nil, -1, nil
}
