package datasourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// closeLimit is how long a Close or the end of a Watch may take.
const closeLimit = time.Second

// play is one case that runs: the test, the harness, and what must be ended.
type play struct {
	*testing.T
	c       Config
	h       Harness
	signal  *signal
	skipped *string

	lives            []*live
	followers        []*follower
	goroutinesBefore int
	kind             pace
}

// pace is how changes come; it is asked of the first source.
type pace uint8

const (
	unasked pace = iota
	byPush
	byPull
)

// signal wakes those who wait for a condition.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

func newSignal() *signal { return &signal{ch: make(chan struct{})} }

func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

func (s *signal) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}

// lookAgain is how often a condition is looked at that gives no signal (a count in the store).
const lookAgain = 50 * time.Millisecond

// eventually waits until problem gives "". It looks whenever the engine, the listener or a watch says something.
func (x *play) eventually(within time.Duration, problem func() string) {
	x.Helper()
	end := time.NewTimer(within)
	defer end.Stop()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		next := x.signal.next()
		last := problem()
		if last == "" {
			return
		}
		select {
		case <-next:
		case <-tick.C:
		case <-end.C:
			if last = problem(); last != "" {
				x.Fatalf("not within %v: %s", within, last)
			}
			return
		}
	}
}

// pass lets d go by, to see what happens, or does not, meanwhile.
func (x *play) pass(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
	x.settle()
}

// aWhile is long enough for what is under way to arrive, if it arrives at all.
func (x *play) aWhile() time.Duration {
	if x.c.Bubble {
		return x.latency()
	}
	return min(x.latency(), 500*time.Millisecond)
}

// settle waits, in a bubble, until everybody waits.
func (x *play) settle() {
	if x.c.Bubble {
		synctest.Wait()
	}
}

func (x *play) skip(reason string) {
	x.Helper()
	*x.skipped = reason
	if x.c.Bubble {
		x.SkipNow() // the reason is told once, outside
	}
	x.Skip(reason)
}

// rivals begins a case where two write at once.
func (x *play) rivals() {
	x.Helper()
	if why := x.c.NoCompareAndSet; why != "" {
		x.skip(why)
	}
}

// need gives an optional ability of the harness, or skips the case.
func need[A any](x *play) A {
	x.Helper()
	a, ok := x.h.(A)
	if !ok {
		x.skip(fmt.Sprintf("the harness does not implement %s", strings.TrimPrefix(fmt.Sprintf("%T", new(A)), "*")))
	}
	return a
}

// must ends the case on an error of the harness.
func (x *play) must(err error) {
	x.Helper()
	switch {
	case errors.Is(err, ErrUnplayable):
		x.skip(err.Error())
	case err != nil:
		x.Fatal("harness:", err)
	}
}

func (x *play) put(data []byte) {
	x.Helper()
	x.must(x.h.Put(data))
}

// source makes a source of the driver under test.
func (x *play) source() datasource.Source {
	x.Helper()
	src, err := x.h.Source()
	if err != nil {
		x.Fatal("constructor:", err)
	}
	if src == nil {
		x.Fatal("constructor: neither a source nor an error")
	}
	return src
}

// watcher makes a source that pushes, or skips the case.
func (x *play) watcher() datasource.Watcher {
	x.Helper()
	w, ok := x.source().(datasource.Watcher)
	if !ok {
		x.skip("the source does not push")
	}
	return w
}

func (x *play) pushes() bool {
	x.Helper()
	if x.kind == unasked {
		x.kind = byPull
		if _, ok := x.source().(datasource.Watcher); ok {
			x.kind = byPush
		}
	}
	return x.kind == byPush
}

// latency is within which a change must be in force.
func (x *play) latency() time.Duration {
	x.Helper()
	if x.pushes() {
		return x.c.Latency
	}
	return x.c.Latency + x.c.Interval*11/10
}

func (x *play) idlePeriod() time.Duration {
	x.Helper()
	switch {
	case x.c.IdlePeriod > 0:
		return x.c.IdlePeriod
	case x.pushes():
		return x.c.Relist
	default:
		return x.c.Interval
	}
}

// read reads, and fails the case on an error.
func (x *play) read(src datasource.Source) datasource.Document {
	x.Helper()
	doc, err := x.tryRead(src)
	if err != nil {
		x.Fatal("Read:", err)
	}
	return doc
}

// tryRead reads within Latency, and checks what every answer must be.
func (x *play) tryRead(src datasource.Source) (datasource.Document, error) {
	x.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), x.c.Latency)
	defer cancel()
	doc, err := src.Read(ctx)
	if err == nil {
		x.checkDocument("Read", doc)
		if doc.Presence == datasource.Unknown {
			x.Error("Read: neither present nor missing, and no error")
		}
	}
	return doc, err
}

func (x *play) checkDocument(op string, doc datasource.Document) {
	x.Helper()
	if doc.Presence != datasource.Present && len(doc.Data) > 0 {
		x.Errorf("%s: a document that is %s has %d bytes", op, doc.Presence, len(doc.Data))
	}
	if doc.Presence == datasource.Present && doc.Revision == "" {
		x.Errorf("%s: a present document has no revision", op)
	}
}

// wantDocument compares; nil means missing.
func (x *play) wantDocument(op string, doc datasource.Document, want []byte) {
	x.Helper()
	if problem := differs(doc, want); problem != "" {
		x.Fatalf("%s: %s", op, problem)
	}
}

func differs(doc datasource.Document, want []byte) string {
	switch {
	case want == nil && doc.Presence == datasource.Missing:
		return ""
	case want != nil && doc.Presence == datasource.Present && bytes.Equal(doc.Data, want):
		return ""
	case want == nil:
		return fmt.Sprintf("got %s, want missing", shown(doc))
	default:
		return fmt.Sprintf("got %s, want %q", shown(doc), brief(want))
	}
}

func shown(doc datasource.Document) string {
	if doc.Presence != datasource.Present {
		return doc.Presence.String()
	}
	return fmt.Sprintf("present %q at revision %q", brief(doc.Data), doc.Revision)
}

func brief(data []byte) string {
	if len(data) > 80 {
		return fmt.Sprintf("%s… (%d bytes)", data[:60], len(data))
	}
	return string(data)
}

// requests gives the count of the harness since from; -1 if it can't count.
func (x *play) requests() int {
	if r, ok := x.h.(Requester); ok {
		return r.Requests()
	}
	return -1
}

// bounded runs f and fails the case if it takes longer than limit; f may go on then.
func (x *play) bounded(what string, limit time.Duration, f func()) {
	x.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		x.Fatalf("%s took longer than %v", what, limit)
	}
}

// end closes what the case began, and checks that nothing is left.
func (x *play) end() {
	x.Helper()
	for _, f := range slices.Backward(x.followers) {
		f.stop()
	}
	for _, l := range slices.Backward(x.lives) {
		l.close()
	}
	if x.Failed() || x.Skipped() {
		return
	}
	if s, ok := x.h.(Subscriber); ok {
		x.eventually(closeLimit, func() string {
			if n := s.Subscriptions(); n > 0 {
				return fmt.Sprintf("%d subscriptions are left in the store", n)
			}
			return ""
		})
	}
	if k, ok := x.h.(ClientKeeper); ok && k.ClientClosed() {
		x.Error("the driver closed the client that it had borrowed")
	}
	if x.c.Bubble {
		x.settle()
		if n := bubbleGoroutines() - x.goroutinesBefore; n > 0 {
			x.Errorf("%d goroutines are left:\n%s", n, stacks())
		}
	}
}

func stacks() []byte {
	for size := 1 << 16; ; size *= 2 {
		b := make([]byte, size)
		if n := runtime.Stack(b, true); n < size {
			return b[:n]
		}
	}
}

// bubbleGoroutines counts the goroutines of the caller's bubble, 0 outside of one. Unlike runtime.NumGoroutine it is
// not disturbed by what the rest of the test binary does.
func bubbleGoroutines() int {
	all := stacks()
	head, _, _ := bytes.Cut(all, []byte("\n"))
	_, bubble, ok := bytes.Cut(head, []byte("synctest bubble "))
	if !ok {
		return 0
	}
	return bytes.Count(all, append([]byte("synctest bubble "), bubble...))
}
