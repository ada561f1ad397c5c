package rule

import (
	"cmp"
	"hash/maphash"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Changes is the difference between an old and a new set of rules. Order plays no part in it: rules are grouped by key
// (resource); within a group equal rules are unchanged, then rules with the same ID and then the rest, in order, are
// taken for edits of one another; what is left over was added or removed.
//
// It refers to both sets (not copies); do not change them while it is in use.
type Changes[R any] struct {
	// Added are positions in the new set, ascending.
	Added []int
	// Removed are positions in the old set, ascending.
	Removed []int
	// Changed are the edited rules, by ascending position in the new set.
	Changed []Pair
	// Unchanged is the number of equal rules.
	Unchanged int
	// Reordered says that rules which are in both sets stand in another order.
	Reordered bool

	old, new []R
	traits   Traits[R]
}

// Pair is one edited rule: its position in the old and in the new set.
type Pair struct{ Old, New int }

// Change is one edited rule.
type Change[R any] struct{ Old, New R }

// Empty says that both sets hold the same rules, in whatever order.
func (c Changes[R]) Empty() bool {
	return len(c.Added) == 0 && len(c.Removed) == 0 && len(c.Changed) == 0
}

// AddedRules yields copies of the added rules.
func (c Changes[R]) AddedRules() iter.Seq[R] {
	return func(yield func(R) bool) {
		for _, i := range c.Added {
			if !yield(c.traits.Clone(&c.new[i])) {
				return
			}
		}
	}
}

// RemovedRules yields copies of the removed rules.
func (c Changes[R]) RemovedRules() iter.Seq[R] {
	return func(yield func(R) bool) {
		for _, i := range c.Removed {
			if !yield(c.traits.Clone(&c.old[i])) {
				return
			}
		}
	}
}

// ChangedRules yields copies of the edited rules, before and after.
func (c Changes[R]) ChangedRules() iter.Seq[Change[R]] {
	return func(yield func(Change[R]) bool) {
		for _, p := range c.Changed {
			if !yield(Change[R]{Old: c.traits.Clone(&c.old[p.Old]), New: c.traits.Clone(&c.new[p.New])}) {
				return
			}
		}
	}
}

// Summary gives the counts, e.g. "1 added, 2 changed, 97 unchanged"; "no change" for none.
func (c Changes[R]) Summary() string {
	if c.Empty() {
		if c.Reordered {
			return "order only"
		}
		return "no change"
	}
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{len(c.Added), "added"}, {len(c.Removed), "removed"}, {len(c.Changed), "changed"}, {c.Unchanged, "unchanged"}} {
		if p.n > 0 {
			parts = append(parts, strconv.Itoa(p.n)+" "+p.what)
		}
	}
	return strings.Join(parts, ", ")
}

// Lines gives one readable line per change, removed first, then changed, then added. A changed rule shows only the
// fields that differ: "flow /order: count 10 → 20".
func (c Changes[R]) Lines() []string {
	return c.FirstLines(len(c.Removed) + len(c.Changed) + len(c.Added))
}

// FirstLines is Lines, but no more than limit of them are made.
func (c Changes[R]) FirstLines(limit int) []string {
	lines := make([]string, 0, max(0, min(limit, len(c.Removed)+len(c.Changed)+len(c.Added))))
	for _, i := range c.Removed[:min(len(c.Removed), cap(lines))] {
		lines = append(lines, "- "+Describe(&c.old[i]))
	}
	for _, p := range c.Changed[:min(len(c.Changed), cap(lines)-len(lines))] {
		lines = append(lines, "~ "+DescribeChange(&c.old[p.Old], &c.new[p.New]))
	}
	for _, i := range c.Added[:min(len(c.Added), cap(lines)-len(lines))] {
		lines = append(lines, "+ "+Describe(&c.new[i]))
	}
	return lines
}

// String gives the lines, or Summary for no change.
func (c Changes[R]) String() string {
	if c.Empty() {
		return c.Summary()
	}
	return strings.Join(c.Lines(), "\n")
}

// Compare finds what changed from old to new. It takes time in proportion to the number of rules and almost none for
// the parts that did not move; equal sets cost no allocation. The result refers to old and new.
func Compare[R any](old, new []R) Changes[R] {
	return compare(old, new, TraitsOf[R](), false)
}

// compare is Compare. uniqueOld says that no two rules of old have the same key: positions then pair up without a map.
func compare[R any](old, new []R, t Traits[R], uniqueOld bool) Changes[R] {
	c := Changes[R]{old: old, new: new, traits: t}
	shorter := min(len(old), len(new))
	start := 0
	for start < shorter && t.Equal(&old[start], &new[start]) {
		start++
	}
	oldEnd, newEnd := len(old), len(new)
	for oldEnd > start && newEnd > start && t.Equal(&old[oldEnd-1], &new[newEnd-1]) {
		oldEnd--
		newEnd--
	}
	c.Unchanged = start + len(old) - oldEnd

	// What remains after the common head and tail; of the same length, equal rules at equal places go first.
	var oldLeft, newLeft []int32
	if oldEnd-start == newEnd-start {
		sameKeys := true
		for i := start; i < oldEnd; i++ {
			// The ends of the middle are known to differ, so are single edits.
			if i > start && i < oldEnd-1 && t.Equal(&old[i], &new[i]) {
				c.Unchanged++
				continue
			}
			oldLeft = append(oldLeft, int32(i))
			sameKeys = sameKeys && t.Key(&old[i]) == t.Key(&new[i])
		}
		if sameKeys && (uniqueOld || len(oldLeft) <= 1) {
			for _, i := range oldLeft {
				c.Changed = append(c.Changed, Pair{Old: int(i), New: int(i)})
			}
			return c
		}
		newLeft = oldLeft
	} else {
		oldLeft, newLeft = span32(start, oldEnd), span32(start, newEnd)
		if len(oldLeft) == 0 {
			c.Added = ints(newLeft)
			return c
		}
		if len(newLeft) == 0 {
			c.Removed = ints(oldLeft)
			return c
		}
	}
	c.match(oldLeft, newLeft, start, oldEnd-newEnd, newEnd)
	return c
}

func span32(from, to int) []int32 {
	s := make([]int32, 0, to-from)
	for i := from; i < to; i++ {
		s = append(s, int32(i))
	}
	return s
}

func ints(s []int32) []int {
	out := make([]int, len(s))
	for i, v := range s {
		out[i] = int(v)
	}
	return out
}

// group is the left-over rules of one key, as linked lists through next.
type group struct{ oldHead, oldTail, newHead, newTail int32 }

// match pairs up the left-over rules. start, shift and newEnd say where the common head and tail are, for the order.
func (c *Changes[R]) match(oldLeft, newLeft []int32, start, shift, newEnd int) {
	groups := make([]group, 0, len(oldLeft))
	byKey := make(map[string]int32, len(oldLeft))
	oldNext := make([]int32, len(oldLeft))
	for at, i := range oldLeft {
		oldNext[at] = -1
		key := c.traits.Key(&c.old[i])
		if g, ok := byKey[key]; ok {
			oldNext[groups[g].oldTail] = int32(at)
			groups[g].oldTail = int32(at)
			continue
		}
		byKey[key] = int32(len(groups))
		groups = append(groups, group{oldHead: int32(at), oldTail: int32(at), newHead: -1})
	}
	newNext := make([]int32, len(newLeft))
	for at, i := range newLeft {
		newNext[at] = -1
		g, ok := byKey[c.traits.Key(&c.new[i])]
		switch {
		case !ok:
			c.Added = append(c.Added, int(i))
		case groups[g].newHead < 0:
			groups[g].newHead, groups[g].newTail = int32(at), int32(at)
		default:
			newNext[groups[g].newTail] = int32(at)
			groups[g].newTail = int32(at)
		}
	}

	// oldOf gives the old place of each new rule, to see whether the order is the same.
	oldOf := make([]int32, len(c.new))
	for i := range oldOf {
		switch {
		case i < start:
			oldOf[i] = int32(i)
		case i >= newEnd:
			oldOf[i] = int32(i + shift)
		case len(oldLeft) == len(newLeft):
			oldOf[i] = int32(i) // the same length: what is not left over is in its place
		default:
			oldOf[i] = -1
		}
	}
	for _, i := range newLeft {
		oldOf[i] = -1
	}

	var olds, news []int32
	for _, g := range groups {
		olds, news = olds[:0], news[:0]
		for at := g.oldHead; at >= 0; at = oldNext[at] {
			olds = append(olds, oldLeft[at])
		}
		for at := g.newHead; at >= 0; at = newNext[at] {
			news = append(news, newLeft[at])
		}
		c.matchGroup(olds, news, oldOf)
	}
	slices.Sort(c.Added)
	slices.Sort(c.Removed)
	slices.SortFunc(c.Changed, func(a, b Pair) int { return cmp.Compare(a.New, b.New) })
	last := int32(-1)
	for _, o := range oldOf {
		if o < 0 {
			continue
		}
		if o < last {
			c.Reordered = true
			break
		}
		last = o
	}
}

// matchGroup pairs the rules of one key. It uses olds and news up.
func (c *Changes[R]) matchGroup(olds, news []int32, oldOf []int32) {
	if len(news) > 0 {
		olds, news = c.matchBy(olds, news, c.equalFinder(olds, news), func(o, n int32) {
			c.Unchanged++
			oldOf[n] = o
		})
	}
	if len(olds) > 0 && len(news) > 0 && c.traits.identified {
		olds, news = c.matchBy(olds, news, c.idFinder(olds), func(o, n int32) {
			c.Changed = append(c.Changed, Pair{Old: int(o), New: int(n)})
			oldOf[n] = o
		})
	}
	both := min(len(olds), len(news))
	for i := range both {
		c.Changed = append(c.Changed, Pair{Old: int(olds[i]), New: int(news[i])})
		oldOf[news[i]] = olds[i]
	}
	for _, o := range olds[both:] {
		c.Removed = append(c.Removed, int(o))
	}
	for _, n := range news[both:] {
		c.Added = append(c.Added, int(n))
	}
}

// matchBy takes out of both lists what find pairs up. find gives a position in olds that is not taken (negative), or -1.
func (c *Changes[R]) matchBy(olds, news []int32, find func(n int32) int, matched func(o, n int32)) (restOld, restNew []int32) {
	restNew = news[:0]
	for _, n := range news {
		at := find(n)
		if at < 0 {
			restNew = append(restNew, n)
			continue
		}
		matched(olds[at], n)
		olds[at] = -1
	}
	restOld = olds[:0]
	for _, o := range olds {
		if o >= 0 {
			restOld = append(restOld, o)
		}
	}
	return restOld, restNew
}

// equalFinder looks for an equal old rule: each with each while there are few, by hash where there are many.
func (c *Changes[R]) equalFinder(olds, news []int32) func(int32) int {
	if len(olds) <= manyPerKey || len(news) <= manyPerKey {
		return func(n int32) int {
			for at, o := range olds {
				if o >= 0 && c.traits.Equal(&c.old[o], &c.new[n]) {
					return at
				}
			}
			return -1
		}
	}
	seed := maphash.MakeSeed()
	byHash := make(map[uint64][]int32, len(olds))
	for at, o := range olds {
		h := deepHash(seed, reflect.ValueOf(&c.old[o]))
		byHash[h] = append(byHash[h], int32(at))
	}
	return func(n int32) int {
		h := deepHash(seed, reflect.ValueOf(&c.new[n]))
		ats := byHash[h]
		for k, at := range ats {
			if c.traits.Equal(&c.old[olds[at]], &c.new[n]) {
				byHash[h] = append(ats[:k], ats[k+1:]...)
				return int(at)
			}
		}
		return -1
	}
}

// idFinder looks for an old rule with the same ID; no ID matches nothing.
func (c *Changes[R]) idFinder(olds []int32) func(int32) int {
	byID := make(map[string]int32, len(olds))
	for at, o := range olds {
		id := c.traits.ID(&c.old[o])
		if _, taken := byID[id]; !taken && id != "" {
			byID[id] = int32(at)
		}
	}
	return func(n int32) int {
		id := c.traits.ID(&c.new[n])
		at, ok := byID[id]
		if !ok {
			return -1
		}
		delete(byID, id)
		return int(at)
	}
}

// Unique drops every rule that equals an earlier one in every field, and says how many there were. Without any, and for
// a type that is no Keyer, it gives rules itself.
func Unique[R any](rules []R) (unique []R, duplicates int) {
	if len(rules) < 2 {
		return rules, 0
	}
	if _, ok := any(&rules[0]).(Keyer); !ok {
		return rules, 0 // one group of all rules would take quadratic time
	}
	t := TraitsOf[R]()
	first := make(map[string]int, len(rules))
	var later map[string][]int   // further rules of a key, where there are any
	var hashed map[string]hashes // for keys with many of them
	var drop []int
	for i := range rules {
		key := t.Key(&rules[i])
		j, seen := first[key]
		if !seen {
			first[key] = i
			continue
		}
		among := later[key]
		h, many := hashed[key]
		var sum uint64
		if many {
			sum = deepHash(h.seed, reflect.ValueOf(&rules[i]))
			among = ints(h.at[sum])
		}
		if t.Equal(&rules[i], &rules[j]) || slices.ContainsFunc(among, func(k int) bool { return t.Equal(&rules[i], &rules[k]) }) {
			drop = append(drop, i)
			continue
		}
		if many {
			h.add(sum, int32(i))
			continue
		}
		if later == nil {
			later = make(map[string][]int)
		}
		later[key] = append(later[key], i)
		if len(later[key]) >= manyPerKey {
			h = hashes{seed: maphash.MakeSeed(), at: make(map[uint64][]int32, 2*manyPerKey)}
			for _, k := range later[key] {
				h.add(deepHash(h.seed, reflect.ValueOf(&rules[k])), int32(k))
			}
			if hashed == nil {
				hashed = make(map[string]hashes)
			}
			hashed[key] = h
		}
	}
	if len(drop) == 0 {
		return rules, 0
	}
	unique = make([]R, 0, len(rules)-len(drop))
	for i, next := 0, 0; i < len(rules); i++ {
		if next < len(drop) && drop[next] == i {
			next++
			continue
		}
		unique = append(unique, rules[i])
	}
	return unique, len(drop)
}
