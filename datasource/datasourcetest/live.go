package datasourcetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
)

// live is a readable over a source of the driver, and the listener at its end.
type live struct {
	*datasource.Readable[rule.Flow]
	x *play
	*listener
	closed bool
}

// quiet keeps the safety read out of a case that is about the watch.
const quiet = time.Hour

// open makes a readable; Start is the case's.
func (x *play) open(src datasource.Source, opts ...datasource.Option) *live {
	x.Helper()
	l := &live{x: x, listener: &listener{signal: x.signal}}
	all := []datasource.Option{
		datasource.Logger(nil), datasource.Interval(x.c.Interval), datasource.Relist(quiet),
		datasource.ReadTimeout(x.c.Latency),
		datasource.WithObserver(datasource.ObserverFunc(func(datasource.Event) { x.signal.notify() })),
	}
	if !x.c.Bubble {
		all = append(all, datasource.Backoff(realMinBackoff, realMaxBackoff))
	}
	all = append(append(all, x.c.Options...), opts...)
	r, err := datasource.New(src, flowConverter(), l.listener, all...)
	if err != nil {
		x.Fatal("datasource.New:", err)
	}
	l.Readable = r
	x.lives = append(x.lives, l)
	return l
}

// start makes a readable over a new source and starts it.
func (x *play) start(opts ...datasource.Option) *live {
	x.Helper()
	return x.startOver(x.source(), opts...)
}

func (x *play) startOver(src datasource.Source, opts ...datasource.Option) *live {
	x.Helper()
	l := x.open(src, opts...)
	l.mustStart()
	return l
}

func (l *live) mustStart() {
	l.x.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), l.x.c.Recovery)
	defer cancel()
	if err := l.Start(ctx); err != nil {
		l.x.Fatal("Start:", err)
	}
}

// refresh reads once more and gives what the engine says of it.
func (l *live) refresh() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*l.x.c.Latency)
	defer cancel()
	return l.Refresh(ctx)
}

// inForce waits until exactly these rules are in force and the engine says so.
func (l *live) inForce(within time.Duration, rules string) {
	l.x.Helper()
	l.x.eventually(within, func() string {
		told := l.updates()
		now := ""
		if len(told) > 0 {
			now = told[len(told)-1]
		}
		// The listener knows a moment before the status does.
		s := l.Status()
		if now != rules || s.Counts.Applied != uint64(len(told)) || s.LastError != nil {
			return fmt.Sprintf("in force: %q at revision %q (%s, %v), want %q", now, s.Revision, s.State, s.LastError, rules)
		}
		return ""
	})
}

// neverWiped fails the case if the listener was ever told that there are no rules.
func (l *live) neverWiped() {
	l.x.Helper()
	for i, u := range l.updates() {
		if u == "" {
			l.x.Fatalf("update %d took every rule away: %q", i, l.updates())
		}
	}
}

// wantUpdates compares all that the listener was told.
func (l *live) wantUpdates(want ...string) {
	l.x.Helper()
	if got := l.updates(); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		l.x.Fatalf("the listener was told %q, want %q", got, want)
	}
}

// close closes within the limit.
func (l *live) close() {
	l.x.Helper()
	if l.closed {
		return
	}
	l.closed = true
	begin := time.Now()
	if err := l.Close(); err != nil {
		l.x.Error("Close:", err)
	}
	if d := time.Since(begin); d >= closeLimit {
		l.x.Errorf("Close took %v", d)
	}
}

var errBusy = errors.New("listener is busy")

// listener keeps what it was told, as texts that document gives the bytes of.
type listener struct {
	signal *signal

	mu    sync.Mutex
	told  []string
	fails int
	lost  bool
}

// OnUpdate takes the rules, or refuses them as often as it was told to.
func (l *listener) OnUpdate(_ context.Context, rules []rule.Flow) error {
	defer l.signal.notify()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails > 0 {
		l.fails--
		return errBusy
	}
	l.told = append(l.told, summary(rules))
	l.lost = false
	return nil
}

// InForce implements datasource.Verifier.
func (l *listener) InForce() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.lost
}

// CheckRule implements datasource.RuleChecker: this core has no chains.
func (l *listener) CheckRule(r *rule.Flow) error {
	if r.Strategy == rule.StrategyChain {
		return fmt.Errorf("%w: strategy chain", datasource.ErrUnsupported)
	}
	return nil
}

func (l *listener) now() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.told) == 0 {
		return ""
	}
	return l.told[len(l.told)-1]
}

func (l *listener) updates() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.told...)
}

// fail makes the next n updates fail.
func (l *listener) fail(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = n
}

// drift acts as if somebody had changed the rules behind the listener's back.
func (l *listener) drift() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

func summary(rules []rule.Flow) string {
	parts := make([]string, len(rules))
	for i, r := range rules {
		parts[i] = fmt.Sprintf("%s=%g", r.Resource, r.Count)
	}
	return strings.Join(parts, " ")
}

// intercept stands between the engine and a source, to answer in its place or to act at a moment that the store can't
// be made to meet.
type intercept struct {
	datasource.Source
	signal *signal

	mu          sync.Mutex
	answers     []datasource.Document
	beforeWatch func()
	reads       int
	watches     int
}

type interceptWatcher struct{ *intercept }

// intercept gives the source that stands for src.
func (x *play) intercept(src datasource.Source) (*intercept, datasource.Source) {
	i := &intercept{Source: src, signal: x.signal}
	if _, ok := src.(datasource.Watcher); ok {
		return i, interceptWatcher{i}
	}
	return i, i
}

// answer makes the next reads give docs.
func (i *intercept) answer(docs ...datasource.Document) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answers = docs
}

// Read implements datasource.Source.
func (i *intercept) Read(ctx context.Context) (datasource.Document, error) {
	i.mu.Lock()
	i.reads++
	if len(i.answers) > 0 {
		doc := i.answers[0]
		i.answers = i.answers[1:]
		i.mu.Unlock()
		return doc, nil
	}
	i.mu.Unlock()
	i.signal.notify()
	return i.Source.Read(ctx)
}

// Watch implements datasource.Watcher.
func (i interceptWatcher) Watch(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
	i.mu.Lock()
	i.watches++
	hook := i.beforeWatch
	i.beforeWatch = nil
	i.mu.Unlock()
	if hook != nil {
		hook()
	}
	i.signal.notify()
	return i.Source.(datasource.Watcher).Watch(ctx, last, deliver)
}

func (i *intercept) calls() (reads, watches int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reads, i.watches
}
