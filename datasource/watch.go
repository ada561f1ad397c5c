package datasource

import (
	"context"
	"fmt"
	"sync"
)

// session is one Watch call. Its goroutine only moves what the driver delivers into the mailbox.
type session struct {
	cancel context.CancelFunc
	done   chan error    // has the one result of Watch
	mail   chan struct{} // has an item while something is in the box

	mu     sync.Mutex
	box    Document
	full   bool
	hint   bool
	closed bool
	// counts since the last look
	deliveries, hints, older uint64
}

func startSession(ctx context.Context, w Watcher, last Document) *session {
	ctx, cancel := context.WithCancel(ctx)
	s := &session{cancel: cancel, done: make(chan error, 1), mail: make(chan struct{}, 1)}
	go func() {
		s.done <- s.watch(ctx, w, last)
	}()
	return s
}

func (s *session) watch(ctx context.Context, w Watcher, last Document) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("watch: %w", recovered(r))
		}
		s.mu.Lock()
		s.closed = true // what a driver delivers after its Watch has returned is not trusted
		s.mu.Unlock()
	}()
	return w.Watch(ctx, last, s.deliver)
}

// deliver only hands over: a driver calls it from its client's callbacks. The newest document wins (F143).
func (s *session) deliver(doc Document) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	if doc.Presence == Unknown {
		s.hints++
		s.hint = true
	} else {
		s.deliveries++
		if s.full && doc.Order > 0 && doc.Order < s.box.Order {
			s.older++
		} else {
			s.box, s.full = doc, true
		}
	}
	s.mu.Unlock()
	select {
	case s.mail <- struct{}{}:
	default:
	}
}

// take empties the mailbox.
func (s *session) take(c *Counts) (doc Document, full, hint bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc, full, hint = s.box, s.full, s.hint
	s.box, s.full, s.hint = Document{}, false, false
	c.Deliveries += s.deliveries
	c.Hints += s.hints
	c.Older += s.older
	s.deliveries, s.hints, s.older = 0, 0, 0
	return doc, full, hint
}
