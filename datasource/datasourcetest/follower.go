package datasourcetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// follower calls Watch as the engine does, and keeps what it delivers. A watch that ended by itself is joined again
// after a read, as the contract has it.
type follower struct {
	x      *play
	src    datasource.Watcher
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	docs     []datasource.Document
	hints    int
	over     bool
	err      error
	ends     int
	inside   int
	overlaps int
	late     int

	readHints int       // hints that were followed by a read; of the test's goroutine
	joined    time.Time // last Watch; of the test's goroutine
}

func (x *play) follow(src datasource.Watcher, last datasource.Document) *follower {
	x.Helper()
	f := &follower{x: x, src: src}
	x.followers = append(x.followers, f)
	f.watch(last)
	return f
}

func (f *follower) watch(last datasource.Document) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	f.cancel, f.done, f.joined = cancel, done, time.Now()
	f.mu.Lock()
	f.over = false
	f.mu.Unlock()
	go func() {
		defer close(done)
		err := f.call(ctx, last)
		f.mu.Lock()
		f.over, f.err = true, err
		f.ends++
		f.mu.Unlock()
		f.x.signal.notify()
	}()
}

func (f *follower) call(ctx context.Context, last datasource.Document) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f.x.Errorf("Watch panicked: %v", p)
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f.src.Watch(ctx, last, f.deliver)
}

func (f *follower) deliver(doc datasource.Document) {
	f.mu.Lock()
	f.inside++
	switch {
	case f.over:
		f.late++
	case f.inside > 1:
		f.overlaps++
	}
	if doc.Presence == datasource.Unknown {
		f.hints++
	} else {
		f.docs = append(f.docs, doc)
	}
	f.inside--
	f.mu.Unlock()
	f.x.signal.notify()
}

// newest gives the document delivered last.
func (f *follower) newest() datasource.Document {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.docs) == 0 {
		return datasource.Document{}
	}
	return f.docs[len(f.docs)-1]
}

func (f *follower) ended() (over bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over, f.err
}

func (f *follower) count() (docs, hints int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.docs), f.hints
}

// sees waits until the document (nil = missing) arrived: delivered, or found by the read that a hint or the end of the
// watch asks for.
func (f *follower) sees(within time.Duration, want []byte) {
	f.x.Helper()
	f.x.eventually(within, func() string { return f.unseen(want) })
}

func (f *follower) unseen(want []byte) string {
	newest := f.newest()
	if differs(newest, want) == "" {
		return ""
	}
	_, hints := f.count()
	over, err := f.ended()
	if over && time.Since(f.joined) < 2*lookAgain {
		return fmt.Sprintf("watch ended: %v", err)
	}
	if hints == f.readHints && !over {
		return "watch did not deliver it; newest delivered: " + shown(newest)
	}
	doc, readErr := f.x.tryRead(f.src)
	if readErr != nil {
		f.joined = time.Now()
		return fmt.Sprintf("read after a hint or the end of the watch (%v): %v", err, readErr)
	}
	f.readHints = hints
	if over {
		f.watch(doc)
	}
	return differs(doc, want)
}

// stragglers is for how long a watch that has ended is listened to.
const stragglers = 10 * time.Millisecond

// stop ends the watch and checks that it ends in time, and is silent afterwards.
func (f *follower) stop() {
	f.x.Helper()
	f.cancel()
	t := time.NewTimer(closeLimit)
	defer t.Stop()
	select {
	case <-f.done:
	case <-t.C:
		f.x.Errorf("Watch did not return within %v after its ctx had ended", closeLimit)
		return
	}
	f.x.pass(stragglers)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.overlaps > 0 {
		f.x.Errorf("deliver was called %d times while another call ran", f.overlaps)
	}
	if f.late > 0 {
		f.x.Errorf("deliver was called %d times after Watch had returned", f.late)
	}
}
