package datasource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rulewire/rulewire/internal/condition"
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
	byVolatile = "volatile"
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
	// cut: since the document in force was last seen in the store, that did not answer, or the subscription to it began or
	// ended. It may be another one now, restored from a backup, that gives a revision a second time.
	cut bool

	// confirm is the document of the last read if a second read must agree with it.
	confirm *Document
	// refused is the newest document if the guard refused it, so that it is not judged again.
	refused  Document
	oversize bool
	// held is the verdict on refused if an operator may accept it.
	held *verdict[T]
	// unsaved: the document in force could not be kept as a snapshot.
	unsaved bool
	// candidate is what a listener has not taken yet, or a document whose converter panicked.
	candidate *candidate[T]

	readProblem, docProblem *problem
	// lateProblem: a listener that was added later refuses what the others have taken.
	lateProblem *problem
	logged      string
	loggedAt    time.Time
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
	// The mark tells a call that comes from a listener or a driver of this run, which would wait for itself.
	l.ctx, l.cancel = context.WithCancel(context.WithValue(context.WithoutCancel(ctx), insideKey[T]{r}, true))
	return l
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
			l.retry()
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
		l.session, l.cut = startSession(l.ctx, w, l.r.newest), true
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

// readFailed records that the store, or the subscription to it, does not answer.
func (l *run[T]) readFailed(op string, cause Cause, err error) error {
	reason := &Error{Op: op, SourceID: l.r.ID(), Revision: l.r.newest.Revision, Err: err}
	l.readProblem, l.cut = &problem{cause, reason}, true
	l.settle()
	l.log("store does not answer", reason)
	l.r.observe(Event{Kind: EventFailed, Cause: cause, Err: reason, Channel: op})
	l.undecided(reason)
	return reason
}

// log writes a condition once for each change, and once a minute while it lasts.
func (l *run[T]) log(msg string, err error) {
	text := condition.Of(err)
	now := time.Now()
	if text == l.logged && now.Sub(l.loggedAt) < logEvery {
		return
	}
	l.logged, l.loggedAt = text, now
	l.r.opts.logger.Warn("rulewire: "+msg, "source", l.r.ID(), "error", err)
}

// settle brings the status in line with the problems that there are.
func (l *run[T]) settle() {
	p := cmp.Or(l.docProblem, l.lateProblem, l.readProblem)
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
