package datasource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rulewire/rulewire/converter"
)

const (
	// confirmDelay lies between the two reads that must agree before rules are cleared or a revision may fall.
	confirmDelay = 500 * time.Millisecond
	// failureSpacing is the least time between reads of a failing store, however many hints arrive.
	failureSpacing = time.Second
	// logEvery lets an unchanged failure into the log once more.
	logEvery = time.Minute
)

var (
	errNotReadable = errors.New("driver returned neither a present nor a missing document")
	errNotStopped  = errors.New("driver did not return within a second after its context had ended")
	errOlder       = errors.New("an older revision than the one seen before; a second read must agree")
	errUnconfirmed = errors.New("rules would be cleared; a second read must agree")
)

// The ways a document comes, as Status.LastChannel names them.
const (
	byRead     = "read"
	byWatch    = "watch"
	bySnapshot = "snapshot"
	byWrite    = "write"
	byAccept   = "accept"
)

// run is the life of a readable between Start and Close. All but the channels belongs to its loop's goroutine.
type run[T any] struct {
	r        *Readable[T]
	ctx      context.Context
	cancel   context.CancelFunc
	requests chan request[T]
	decided  chan struct{} // closed by the first decision; startErr is set before
	startErr error
	ended    chan struct{}

	policies []StartPolicy // those not yet tried; nil after the decision
	policy   alarm         // end of a Wait policy
	waiting  bool

	nextRead  alarm
	hintRead  alarm
	nextApply alarm
	reads     backoff
	applies   backoff
	hints     bucket
	lastRead  time.Time

	session *session

	// confirm is the document of the last read if a second read must agree with it.
	confirm *Document
	// refused is the newest document if the guard refused it, so that it is not judged again.
	refused  Document
	oversize bool
	// held is the verdict on refused if an operator may accept it.
	held *verdict[T]
	// candidate is what a listener has not taken yet, or a document whose converter panicked.
	candidate *candidate[T]

	readProblem, docProblem *problem
	logged                  string
	loggedAt                time.Time
}

type request[T any] struct {
	fn   func(*run[T]) error
	done chan error
}

type candidate[T any] struct {
	doc     Document
	verdict verdict[T]
	channel string
}

type problem struct {
	cause Cause
	err   error
}

// alarm is a timer that is off until it is set.
type alarm struct{ t *time.Timer }

func (a *alarm) set(d time.Duration) {
	if a.t == nil {
		a.t = time.NewTimer(d)
		return
	}
	a.t.Reset(d)
}

func (a *alarm) stop() {
	if a.t != nil {
		a.t.Stop()
		a.t = nil
	}
}

func (a *alarm) ring() <-chan time.Time {
	if a.t == nil {
		return nil
	}
	return a.t.C
}

func newRun[T any](ctx context.Context, r *Readable[T]) *run[T] {
	l := &run[T]{
		r: r, requests: make(chan request[T]), decided: make(chan struct{}), ended: make(chan struct{}),
		policies: r.opts.start,
		reads:    backoff{first: r.opts.minBackoff, longest: r.opts.maxBackoff},
		applies:  backoff{first: r.opts.minBackoff, longest: r.opts.maxBackoff},
	}
	if len(l.policies) == 0 {
		l.policies = []StartPolicy{Fail}
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// ready waits for the first decision.
func (l *run[T]) ready(ctx context.Context) error {
	select {
	case <-l.decided:
		return l.startErr
	case <-l.ended:
		return ErrClosed
	case <-ctx.Done():
		l.r.mu.Lock()
		last := l.r.status.LastError
		l.r.mu.Unlock()
		if last == nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w; last: %w", ctx.Err(), last)
	}
}

// stop ends the loop and waits for it.
func (l *run[T]) stop() error {
	l.cancel()
	t := time.NewTimer(stopGrace)
	defer t.Stop()
	select {
	case <-l.ended:
		return nil
	case <-t.C:
		return errNotStopped
	}
}

func (l *run[T]) loop() {
	defer close(l.ended)
	defer l.cancel()
	defer func() {
		l.nextRead.stop()
		l.hintRead.stop()
		l.nextApply.stop()
		l.policy.stop()
		l.endSession()
	}()
	_ = l.refresh(false) // what it says is in the status
	for l.ctx.Err() == nil {
		var mail <-chan struct{}
		var done <-chan error
		if l.session != nil {
			mail, done = l.session.mail, l.session.done
		}
		select {
		case <-l.ctx.Done():
		case <-l.nextRead.ring():
			_ = l.refresh(false)
		case <-l.hintRead.ring():
			l.hintRead.stop()
			_ = l.refresh(false)
		case <-l.nextApply.ring():
			l.nextApply.stop()
			l.retry()
		case <-l.policy.ring():
			l.policy.stop()
			l.policies, l.waiting = l.policies[1:], false
			l.undecided(errors.New("start: waited long enough"))
		case <-mail:
			l.delivered()
		case err := <-done:
			l.watchEnded(err)
		case <-l.r.prop.Behind():
			l.nextApply.set(l.applies.next(time.Now()))
		case req := <-l.requests:
			req.done <- req.fn(l)
		}
	}
}

// refresh reads once and considers what it read. With reconcile it also puts back rules that a listener has lost.
func (l *run[T]) refresh(reconcile bool) error {
	l.hintRead.stop()
	doc, err := l.read()
	if l.ctx.Err() != nil {
		return &Error{Op: "read", SourceID: l.r.ID(), Err: ErrClosed}
	}
	if errors.Is(err, ErrTooLarge) {
		// The driver stopped reading at its cap. The store answered: this is a refusal, not an outage.
		l.readProblem = nil
		err = l.refuseUnread(err)
		l.schedule()
		return err
	}
	if err != nil {
		wait := l.reads.next(time.Now())
		l.nextRead.set(wait)
		return l.readFailed("read", CauseRead, err)
	}
	l.readProblem = nil
	err = l.consider(doc, byRead, reconcile)
	l.schedule()
	return err
}

func (l *run[T]) read() (doc Document, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.r.opts.readTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read: %w", recovered(p))
		}
		if err == nil && doc.Presence == Unknown {
			err = errNotReadable
		}
		if err != nil && l.ctx.Err() == nil && ctx.Err() != nil {
			err = fmt.Errorf("no answer within %v: %w", l.r.opts.readTimeout, err)
		}
		l.lastRead = time.Now()
		l.r.set(func(s *Status) {
			s.Counts.Reads++
			if err != nil {
				s.Counts.ReadErrors++
			} else {
				s.LastRead = l.lastRead
			}
		})
	}()
	return l.r.source.Read(ctx)
}

// schedule plans the next read after a good one, and sees to it that a source that pushes is watched.
func (l *run[T]) schedule() {
	w, push := l.r.source.(Watcher)
	switch {
	case l.confirm != nil:
		l.nextRead.set(confirmDelay)
		return // no watch may join a document that is in doubt
	case push:
		l.nextRead.set(jitter(l.r.opts.relist))
	default:
		l.nextRead.set(jitter(l.r.opts.interval))
		return
	}
	if l.session == nil && l.ctx.Err() == nil {
		l.session = startSession(l.ctx, w, l.r.newest)
		l.r.set(func(s *Status) { s.Counts.Watches++ })
	}
}

// delivered takes what Watch delivered.
func (l *run[T]) delivered() {
	var doc Document
	var full, hint bool
	session := l.session
	l.r.set(func(s *Status) { doc, full, hint = session.take(&s.Counts) })
	if full {
		_ = l.consider(doc, byWatch, false)
		if l.confirm != nil {
			l.nextRead.set(confirmDelay)
		}
	}
	if !hint || l.hintRead.t != nil {
		return
	}
	wait := l.hints.take(time.Now())
	if l.readProblem != nil {
		wait = max(wait, failureSpacing-time.Since(l.lastRead))
	}
	if wait > 0 {
		l.hintRead.set(wait)
		return
	}
	_ = l.refresh(false)
}

func (l *run[T]) watchEnded(err error) {
	session := l.session
	session.cancel()
	l.session = nil
	if l.ctx.Err() != nil {
		return
	}
	var doc Document
	var full bool
	l.r.set(func(s *Status) { doc, full, _ = session.take(&s.Counts) })
	if full {
		_ = l.consider(doc, byWatch, false) // what came before the end still counts; a hint is met by the read that follows
	}
	if err == nil {
		err = errors.New("subscription ended without a reason")
	}
	l.r.set(func(s *Status) { s.Counts.Reconnects++ })
	l.hintRead.stop()
	l.nextRead.set(l.reads.next(time.Now()))
	_ = l.readFailed("watch", CauseWatch, err)
}

// endSession ends the watch and waits for the driver, but no longer than it is allowed to take.
func (l *run[T]) endSession() {
	if l.session == nil {
		return
	}
	s := l.session
	l.session = nil
	s.cancel()
	t := time.NewTimer(stopGrace)
	defer t.Stop()
	select {
	case <-s.done:
	case <-t.C:
		l.r.opts.logger.Error("rulewire: watch did not end", "source", l.r.ID(), "error", errNotStopped)
	}
}

// consider decides what a document that the store gave does. The error says why it is not in force.
func (l *run[T]) consider(doc Document, channel string, reconcile bool) error {
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
		return l.missing(doc, channel)
	}
	if c := l.candidate; c != nil && l.same(c.doc, doc) {
		return l.docProblem.err // being retried
	}
	return l.judge(doc, channel)
}

// same compares two documents; where both have the same revision not even the bytes are looked at.
func (l *run[T]) same(a, b Document) bool {
	if a.Presence != b.Presence {
		return false
	}
	if a.Presence != Present || a.Revision != "" && a.Revision == b.Revision && len(a.Data) == len(b.Data) {
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
		if r.drifted() {
			rules, _ := r.prop.Value()
			return l.apply(candidate[T]{doc: doc, channel: byRead, verdict: verdict[T]{rules: rules, report: r.status.Report, skipped: r.status.Skipped}})
		}
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
		first := l.docProblem == nil
		l.docProblem = &problem{CauseMissing, reason}
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
	v := l.r.guard.judge(doc.Data, rules, generation > 0, channel == byWrite)
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
	l.candidate, l.held, l.confirm = nil, nil, nil
	if c.channel != bySnapshot || l.docProblem != nil && l.docProblem.cause == CauseApply {
		// A snapshot answers nothing: what is wrong with the store's own document is still wrong.
		l.docProblem, l.refused = nil, Document{}
	}
	l.nextApply.stop()
	l.applies.reset()
	now := time.Now()
	r.mu.Lock()
	r.inForce = c.doc
	r.status.Counts.Applied++
	r.status.LastChange, r.status.LastChannel = now, c.channel
	r.status.Skipped, r.status.Report = c.verdict.skipped, c.verdict.report
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
	l.save(c)
}

// payload is a document that becomes text only if a debug record is really written.
type payload []byte

func (p payload) String() string { return string(p) }

// MarshalText makes slog write the text in JSON too.
func (p payload) MarshalText() ([]byte, error) { return p, nil }

func (l *run[T]) save(c candidate[T]) {
	if l.r.opts.snapshots == nil || c.channel == bySnapshot {
		return
	}
	err := l.saveSnapshot(c.doc)
	l.r.set(func(s *Status) { s.SnapshotError = err })
	if err != nil {
		l.r.opts.logger.Warn("rulewire: snapshot not saved", "source", l.r.ID(), "error", err)
	}
}

func (l *run[T]) saveSnapshot(doc Document) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = recovered(p)
		}
	}()
	return l.r.opts.snapshots.Save(l.ctx, l.r.ID(), doc)
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
		if err := r.prop.Retry(l.ctx); err != nil {
			l.nextApply.set(l.applies.next(time.Now()))
			l.log("a late listener refused the rules in force", &Error{Op: "apply", SourceID: r.ID(), Revision: r.inForce.Revision, Err: err})
		}
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
	if _, unsettled := r.prop.Pending(); unsettled && generation > 0 {
		// An earlier candidate reached some listeners only. It is not the store's any more: all get the rules in force.
		if err := r.prop.Update(l.ctx, inForce); err != nil {
			l.nextApply.set(l.applies.next(time.Now()))
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

// readFailed records that the store, or the subscription to it, does not answer.
func (l *run[T]) readFailed(op string, cause Cause, err error) error {
	reason := &Error{Op: op, SourceID: l.r.ID(), Revision: l.r.newest.Revision, Err: err}
	l.readProblem = &problem{cause, reason}
	l.settle()
	l.log("store does not answer", reason)
	l.r.observe(Event{Kind: EventFailed, Cause: cause, Err: reason, Channel: op})
	l.undecided(reason)
	return reason
}

// log writes a condition once for each change, and once a minute while it lasts.
func (l *run[T]) log(msg string, err error) {
	text := err.Error()
	now := time.Now()
	if text == l.logged && now.Sub(l.loggedAt) < logEvery {
		return
	}
	l.logged, l.loggedAt = text, now
	l.r.opts.logger.Warn("rulewire: "+msg, "source", l.r.ID(), "error", err)
}

// settle brings the status in line with the problems that there are.
func (l *run[T]) settle() {
	p := l.docProblem
	if p == nil {
		p = l.readProblem
	}
	recovered := false
	l.r.set(func(s *Status) {
		was := s.State
		s.Cause, s.LastError = CauseNone, nil
		if p != nil {
			s.Cause, s.LastError = p.cause, p.err
		}
		if l.held == nil {
			s.Pending = nil
		}
		switch {
		case l.policies != nil:
			s.State = StateStarting
		case !s.SnapshotSaved.IsZero():
			s.State = StateStale
		case p != nil:
			s.State = StateDegraded
		default:
			s.State = StateLive
			recovered = was == StateDegraded || was == StateStale
		}
	})
	if recovered {
		l.logged = ""
		l.r.opts.logger.Info("rulewire: the newest document is in force again", "source", l.r.ID(), "revision", l.r.inForce.Revision)
		l.r.observe(Event{Kind: EventRecovered, Revision: l.r.inForce.Revision})
	}
}

// decide ends the start.
func (l *run[T]) decide(err error) {
	if l.policies == nil {
		return
	}
	l.policies = nil
	l.policy.stop()
	l.startErr = err
	l.settle() // before Start returns: whoever asks then must not be told "starting"
	close(l.decided)
}

// undecided goes on with the start policies after a failure.
func (l *run[T]) undecided(err error) {
	for l.policies != nil {
		if len(l.policies) == 0 {
			l.decideFailed(err)
			return
		}
		switch p := l.policies[0]; p.kind {
		case startWait:
			if !l.waiting {
				l.waiting = true
				l.policy.set(p.wait)
			}
			return
		case startSnapshot:
			l.policies = l.policies[1:]
			snapErr := l.loadSnapshot()
			if snapErr == nil {
				return // applied, or on its way
			}
			err = errors.Join(err, snapErr)
		case startEmpty:
			l.decide(nil)
		default:
			l.decideFailed(err)
		}
	}
}

func (l *run[T]) decideFailed(err error) {
	l.r.mu.Lock()
	last := l.r.status.LastError
	l.r.mu.Unlock()
	if last != nil && !errors.Is(err, last) {
		err = errors.Join(last, err)
	}
	l.decide(err)
}

// loadSnapshot puts the last-known-good document into force while the store gives none.
func (l *run[T]) loadSnapshot() (err error) {
	r := l.r
	fail := func(err error) error {
		reason := &Error{Op: "snapshot", SourceID: r.ID(), Err: err}
		l.log("snapshot not used", reason)
		r.set(func(s *Status) { s.SnapshotError = reason })
		return reason
	}
	defer func() {
		if p := recover(); p != nil {
			err = fail(recovered(p))
		}
	}()
	doc, saved, err := r.opts.snapshots.Load(l.ctx, r.ID())
	if err != nil {
		return fail(err)
	}
	v := verdict[T]{rules: []T{}, report: converter.Report{}}
	if doc.Presence == Present {
		// Nothing is in force yet, so the guard asks for validity only.
		if v = r.guard.judge(doc.Data, nil, false, false); v.err != nil {
			return fail(v.err)
		}
	}
	r.set(func(s *Status) { s.SnapshotSaved = saved })
	// The order of an old store may be higher than today's: a snapshot never makes the store's document look old.
	doc.Order = 0
	_ = l.apply(candidate[T]{doc: doc, verdict: v, channel: bySnapshot}) // if it fails it is retried
	return nil
}
