package datasource

import (
	"context"
	"errors"
	"fmt"

	"github.com/rulewire/rulewire/converter"
)

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
	// The order of an old store may be higher than today's: a snapshot never makes the store's document look old. Nor is its
	// revision a proof.
	doc.Order, l.cut = 0, true
	_ = l.apply(candidate[T]{doc: doc, verdict: v, channel: bySnapshot}) // if it fails it is retried
	return nil
}
