package datasource

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"
)

// consider decides what a document that the store gave does. The error says why it is not in force.
func (l *run[T]) consider(doc Document, channel string, reconcile bool) error {
	err := l.weigh(doc, channel, reconcile)
	if err == nil {
		l.cut = false
	}
	return err
}

func (l *run[T]) weigh(doc Document, channel string, reconcile bool) error {
	r := l.r
	if doc.Order > 0 && doc.Order < r.newest.Order {
		if channel != byRead || !l.agreed(doc) {
			return l.older(doc, channel)
		}
		// Two reads agree: the store was restored and counts from a lower number now (F069).
	} else if l.confirm != nil && !l.same(*l.confirm, doc) {
		l.confirm = nil
	}
	moved := doc.Presence != r.newest.Presence || doc.Revision != r.newest.Revision
	r.mu.Lock()
	r.newest = doc
	r.mu.Unlock()
	l.oversize = false

	if r.inForce.Presence == doc.Presence && l.candidate == nil && l.same(r.inForce, doc) {
		return l.unchanged(doc, reconcile || moved)
	}
	if l.refused.Presence == doc.Presence && l.same(l.refused, doc) {
		l.settle() // still refused, for the same reason
		return l.docProblem.err
	}
	if doc.Presence == Missing {
		if r.overridden != nil && r.opts.onMissing == Clear && !moved && !reconcile && l.confirm == nil {
			// What was edited in memory was edited while there was no document, and there still is none: nothing new.
			l.settle()
			return nil
		}
		return l.missing(doc, channel)
	}
	if c := l.candidate; c != nil && l.same(c.doc, doc) {
		return l.docProblem.err // being retried
	}
	return l.judge(doc, channel)
}

// same compares two documents; where both have the same revision, of the same store, not even the bytes are looked at.
func (l *run[T]) same(a, b Document) bool {
	if a.Presence != b.Presence {
		return false
	}
	if a.Presence != Present || !l.cut && a.Revision != "" && a.Revision == b.Revision && len(a.Data) == len(b.Data) {
		return true
	}
	return bytes.Equal(a.Data, b.Data)
}

// agreed says whether doc is the second read in a row that gives this document.
func (l *run[T]) agreed(doc Document) bool {
	if l.confirm != nil && l.same(*l.confirm, doc) {
		l.confirm = nil
		return true
	}
	l.confirm = &doc
	return false
}

func (l *run[T]) older(doc Document, channel string) error {
	l.r.set(func(s *Status) { s.Counts.Older++ })
	if channel == byRead {
		l.endSession() // a watch that stands on a revision the store does not have would wait for ever
		l.cut = true
	}
	return &Error{Op: "read", SourceID: l.r.ID(), Revision: doc.Revision, Err: errOlder}
}

// unchanged is the cheap path: the document in force is still the store's.
func (l *run[T]) unchanged(doc Document, resent bool) error {
	r := l.r
	r.mu.Lock()
	if r.inForce.Revision != doc.Revision || r.inForce.Order != doc.Order {
		r.inForce.Revision, r.inForce.Order = doc.Revision, doc.Order
	}
	r.status.Counts.Unchanged++
	r.status.LastSuccess = time.Now()
	r.status.SnapshotSaved = time.Time{}
	r.mu.Unlock()
	l.refused, l.held, l.docProblem = Document{}, nil, nil
	if resent {
		// The same text was stored again, or an operator asks: what was changed behind the store's back goes (F126).
		if r.drifted() || r.overridden != nil {
			rules, _ := r.prop.Value()
			if r.overridden != nil {
				rules = r.overridden.store
			}
			return l.apply(candidate[T]{doc: doc, channel: byRead, verdict: verdict[T]{rules: rules, report: r.status.Report, skipped: r.status.Skipped, duplicates: r.status.Duplicates}})
		}
	}
	if l.unsaved {
		l.save(doc)
	}
	l.decide(nil)
	l.settle()
	return nil
}

func (l *run[T]) missing(doc Document, channel string) error {
	r := l.r
	reason := &Error{Op: "read", SourceID: r.ID(), Revision: doc.Revision, Err: ErrMissing}
	if _, generation := r.prop.Value(); generation == 0 && l.candidate == nil {
		// Nothing was ever in force, so there is nothing to keep: the store's answer is the decision.
		first := l.docProblem == nil || l.docProblem.cause != CauseMissing
		l.docProblem = &problem{CauseMissing, reason}
		l.refused, l.held = Document{}, nil // should the refused bytes come back, they are judged anew
		if r.opts.onMissing == Keep && slices.Contains(l.policies, Snapshot) && l.loadSnapshot() == nil {
			return reason // what was in force before the restart is kept, as it is while running
		}
		l.decide(nil)
		l.settle()
		if first {
			l.log("missing", reason)
		}
		return reason
	}
	if r.opts.onMissing == Clear {
		// A deletion that the store ordered after the document in force needs no second opinion; a read that finds
		// nothing does: a restarted or a lagging server is empty for a moment (F012, F013).
		if !(channel == byWatch && doc.Order > r.inForce.Order) && !l.agreed(doc) {
			return &Error{Op: "guard", SourceID: r.ID(), Revision: doc.Revision, Err: fmt.Errorf("%w: %w", errUnconfirmed, ErrMissing)}
		}
		return l.apply(candidate[T]{doc: doc, channel: channel, verdict: verdict[T]{rules: []T{}}})
	}
	v := refuse[T](CauseMissing, ErrMissing)
	return l.refuse(doc, v)
}

// judge decodes, asks the guard, and applies or refuses.
func (l *run[T]) judge(doc Document, channel string) error {
	rules, generation := l.r.prop.Value()
	v := l.r.guard.judge(doc.Data, rules, generation > 0, channel == byWrite || l.r.expects(doc.Data))
	if v.err != nil {
		if v.transient {
			return l.again(candidate[T]{doc: doc, verdict: v, channel: channel}, CauseDecode, v.err)
		}
		return l.refuse(doc, v)
	}
	if v.confirm && !(channel == byWatch && doc.Order > l.r.inForce.Order && l.r.inForce.Order > 0) && !l.agreed(doc) {
		return &Error{Op: "guard", SourceID: l.r.ID(), Revision: doc.Revision, Err: errUnconfirmed}
	}
	return l.apply(candidate[T]{doc: doc, verdict: v, channel: channel})
}

// apply offers the rules to the listeners. Only if all take them does the document become the one in force.
func (l *run[T]) apply(c candidate[T]) error {
	if c.verdict.rules == nil {
		c.verdict.rules = []T{}
	}
	before, _ := l.r.prop.Value()
	if err := l.r.prop.Update(l.ctx, c.verdict.rules); err != nil {
		return l.again(c, CauseApply, err)
	}
	l.applied(c, before)
	return nil
}

// applied records that the candidate is in force.
func (l *run[T]) applied(c candidate[T], before []T) {
	r := l.r
	l.candidate, l.held, l.confirm, l.lateProblem = nil, nil, nil, nil
	if c.channel != bySnapshot || l.docProblem != nil && l.docProblem.cause == CauseApply {
		// A snapshot answers nothing: what is wrong with the store's own document is still wrong.
		l.docProblem, l.refused = nil, Document{}
	}
	l.nextApply.stop()
	l.applies.reset()
	now := time.Now()
	r.mu.Lock()
	r.inForce, r.overridden = c.doc, nil
	r.status.Counts.Applied++
	r.status.LastChange, r.status.LastChannel = now, c.channel
	r.status.Skipped, r.status.Report, r.status.Duplicates = c.verdict.skipped, c.verdict.report, c.verdict.duplicates
	if c.channel != bySnapshot {
		r.status.LastSuccess = now
		r.status.SnapshotSaved = time.Time{}
	}
	r.mu.Unlock()
	e := Event{Kind: EventApplied, Revision: c.doc.Revision, Channel: c.channel, Rules: len(c.verdict.rules)}
	if r.opts.observer != nil {
		describe(&e, before, c.verdict.rules)
	}
	if len(c.verdict.skipped) > 0 {
		e.Cause, e.Err = CauseInvalid, c.verdict.skipped
	}
	r.opts.logger.Info("rulewire: rules in force", "source", r.ID(), "revision", c.doc.Revision, "bytes", len(c.doc.Data),
		"rules", len(c.verdict.rules), "skipped", len(c.verdict.skipped), "by", c.channel)
	r.opts.logger.Debug("rulewire: document", "source", r.ID(), "revision", c.doc.Revision, "document", payload(c.doc.Data))
	l.decide(nil)
	l.settle()
	r.observe(e)
	if c.channel != bySnapshot {
		l.save(c.doc)
	}
}

// payload is a document that becomes text only if a debug record is really written.
type payload []byte

func (p payload) String() string { return string(p) }

// MarshalText makes slog write the text in JSON too.
func (p payload) MarshalText() ([]byte, error) { return p, nil }

// save keeps the document in force on disk. What could not be saved is tried again with the next document that the
// store gives, also an unchanged one.
func (l *run[T]) save(doc Document) {
	if l.r.opts.snapshots == nil {
		return
	}
	err := l.saveSnapshot(doc)
	l.unsaved = err != nil
	l.r.set(func(s *Status) { s.SnapshotError = err })
	if err != nil {
		l.log("snapshot not saved", &Error{Op: "snapshot", SourceID: l.r.ID(), Revision: doc.Revision, Err: err})
	}
}

func (l *run[T]) saveSnapshot(doc Document) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = recovered(p)
		}
	}()
	// Not the loop's ctx: a Close right after Start must not cost the only copy (F170). It is bounded like a read.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), l.r.opts.readTimeout)
	defer cancel()
	return l.r.opts.snapshots.Save(ctx, l.r.ID(), doc)
}

// again keeps the candidate and tries it again after a while, although the store stays silent (F073, F125).
func (l *run[T]) again(c candidate[T], cause Cause, err error) error {
	r := l.r
	l.candidate = &c
	l.held, l.refused = nil, Document{}
	reason := &Error{Op: "apply", SourceID: r.ID(), Revision: c.doc.Revision, Err: err}
	l.docProblem = &problem{cause, reason}
	r.set(func(s *Status) {
		if cause == CauseApply {
			s.Counts.ApplyFailures++
		}
	})
	l.nextApply.set(l.applies.next(time.Now()))
	l.settle()
	l.log("not applied, will be retried", reason)
	r.observe(Event{Kind: EventFailed, Revision: c.doc.Revision, Channel: c.channel, Cause: cause, Err: reason})
	l.undecided(reason)
	return reason
}

func (l *run[T]) retry() {
	r := l.r
	c := l.candidate
	if c == nil {
		// A listener that came late refused its first value.
		err := r.prop.Retry(l.ctx)
		if err == nil {
			l.lateProblem = nil
			l.applies.reset()
			l.settle()
			return
		}
		reason := &Error{Op: "apply", SourceID: r.ID(), Revision: r.inForce.Revision, Err: err}
		l.lateProblem = &problem{CauseApply, reason}
		r.set(func(s *Status) { s.Counts.ApplyFailures++ })
		l.nextApply.set(l.applies.next(time.Now()))
		l.settle()
		l.log("a late listener refused the rules in force", reason)
		r.observe(Event{Kind: EventFailed, Revision: r.inForce.Revision, Cause: CauseApply, Err: reason})
		return
	}
	if c.verdict.transient {
		l.candidate = nil
		_ = l.judge(c.doc, c.channel)
		return
	}
	before, _ := r.prop.Value()
	if err := r.prop.Retry(l.ctx); err != nil {
		_ = l.again(*c, CauseApply, err)
		return
	}
	l.applied(*c, before)
}

// refuse keeps the rules in force, counts, remembers and tells, once for each candidate.
func (l *run[T]) refuse(doc Document, v verdict[T]) error {
	r := l.r
	reason := &Error{Op: "guard", SourceID: r.ID(), Revision: doc.Revision, Err: v.err}
	l.refused, l.held, l.candidate = doc, nil, nil
	l.docProblem = &problem{v.cause, reason}
	e := Event{Kind: EventRefused, Revision: doc.Revision, Cause: v.cause, Err: reason}
	var pending *Pending
	inForce, generation := r.prop.Value()
	if v.held {
		l.held = &v
		describe(&e, inForce, v.rules)
		pending = &Pending{Revision: doc.Revision, Cause: v.cause, Rules: len(v.rules), Added: e.Added, Changed: e.Changed,
			Removed: e.Removed, Diff: e.Diff, Since: time.Now()}
	}
	r.set(func(s *Status) { s.Refused[v.cause]++; s.Pending = pending })
	if _, unsettled := r.prop.Pending(); unsettled {
		// An earlier candidate reached some listeners only. It is not the store's any more: all get the rules in force.
		// Where there are none yet, nobody is offered it again.
		l.nextApply.stop()
		if generation > 0 {
			if err := r.prop.Update(l.ctx, inForce); err != nil {
				l.nextApply.set(l.applies.next(time.Now()))
			} else {
				l.lateProblem = nil
			}
		}
	}
	e.Rules = len(inForce)
	l.settle()
	l.log("refused", reason)
	r.observe(e)
	l.undecided(reason)
	return reason
}

func (l *run[T]) refuseUnread(err error) error {
	if l.oversize {
		l.settle()
		return l.docProblem.err
	}
	l.oversize = true
	err = l.refuse(Document{}, refuse[T](CauseDecode, fmt.Errorf("%w: %w", ErrDecode, err)))
	return err
}

func (l *run[T]) accept(revision string) error {
	fail := func(err error) error { return &Error{Op: "accept", SourceID: l.r.ID(), Revision: revision, Err: err} }
	switch {
	case l.held == nil:
		return fail(fmt.Errorf("%w: nothing is pending", ErrMissing))
	case l.refused.Revision != revision:
		return fail(fmt.Errorf("%w: the pending revision is %s", ErrConflict, l.refused.Revision))
	}
	v := *l.held
	v.cause, v.err, v.held, v.confirm = CauseNone, nil, false, false
	l.r.set(func(s *Status) { s.Pending = nil })
	return l.apply(candidate[T]{doc: l.refused, verdict: v, channel: byAccept})
}

func (l *run[T]) written(doc Document) error {
	r := l.r
	if doc.Order > 0 && doc.Order < r.newest.Order {
		return nil // someone wrote after us, and we know it already
	}
	r.mu.Lock()
	r.newest = doc
	r.mu.Unlock()
	l.confirm, l.oversize = nil, false
	if doc.Presence == Present && r.inForce.Presence == Present && l.candidate == nil && l.same(r.inForce, doc) {
		return l.unchanged(doc, true)
	}
	if doc.Presence != Present {
		return l.missing(doc, byWrite)
	}
	return l.judge(doc, byWrite)
}
