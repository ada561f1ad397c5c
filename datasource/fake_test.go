package datasource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is a rule type of a user's own engine.
type limit struct {
	Name string
	Max  int
}

func (l *limit) RuleKey() string { return l.Name }

func (l *limit) Validate() error {
	if l.Max < 0 {
		return &rule.Invalid{Faults: []rule.Fault{{Field: "Max", Reason: "is negative"}}}
	}
	return nil
}

// limits converts with encoding/json: the engine must serve any converter.
func limits() converter.Converter[limit] {
	return conv{decode: func(data []byte) ([]limit, error) {
		var l []limit
		err := json.Unmarshal(data, &l)
		return l, err
	}}
}

type conv struct {
	decode func([]byte) ([]limit, error)
}

func (c conv) Decode(data []byte) (converter.Decoded[limit], error) {
	if len(data) == 0 {
		return converter.Decoded[limit]{}, converter.Faults{{Index: -1, Reason: "no bytes", Err: errors.Join(converter.ErrDecode, converter.ErrEmpty)}}
	}
	rules, err := c.decode(data)
	return converter.Decoded[limit]{Rules: rules}, err
}

func (c conv) Encode(rules []limit) ([]byte, error) { return json.Marshal(rules) }

// store is a scripted store: what Read answers, and what a watch delivers.
type store struct {
	mu       sync.Mutex
	doc      Document
	err      error
	reads    int
	queue    []Document // answers of the next reads, before doc
	watches  int
	watchErr error
	live     func(Document)
	ended    chan struct{}
	last     Document
	onRead   func()
}

func (s *store) ID() string { return "fake:limits" }

func (s *store) Read(ctx context.Context) (Document, error) {
	s.mu.Lock()
	s.reads++
	doc, err, hook := s.doc, s.err, s.onRead
	if err == nil && len(s.queue) > 0 {
		doc, s.queue = s.queue[0], s.queue[1:]
	}
	s.mu.Unlock()
	if hook != nil {
		hook()
	}
	return doc, err
}

func (s *store) set(doc Document) {
	s.mu.Lock()
	s.doc = doc
	s.mu.Unlock()
}

func (s *store) put(text string) Document {
	s.mu.Lock()
	defer s.mu.Unlock()
	order := s.doc.Order + 1
	s.doc = doc(order, text)
	return s.doc
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *store) count() (reads, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads, s.watches
}

func doc(order uint64, text string) Document {
	return Document{Presence: Present, Data: []byte(text), Revision: strconv.FormatUint(order, 10), Order: order}
}

// pushed is a store that can be watched.
type pushed struct{ *store }

func (s pushed) Watch(ctx context.Context, last Document, deliver func(Document)) error {
	s.mu.Lock()
	s.watches++
	s.last = last
	err := s.watchErr
	ended := make(chan struct{})
	s.live, s.ended = deliver, ended
	s.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ended:
		return errors.New("cut")
	}
}

func (s pushed) deliver(doc Document) {
	s.mu.Lock()
	live := s.live
	s.mu.Unlock()
	live(doc)
}

func (s pushed) cut() {
	s.mu.Lock()
	close(s.ended)
	s.mu.Unlock()
}

// engine is the listener at the end.
type engine struct {
	mu    sync.Mutex
	calls []string
	fails int
	lost  bool
}

func (e *engine) OnUpdate(_ context.Context, rules []limit) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fails > 0 {
		e.fails--
		return errors.New("engine is busy")
	}
	e.calls = append(e.calls, fmt.Sprint(rules))
	e.lost = false
	return nil
}

func (e *engine) InForce() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.lost
}

func (e *engine) got() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprint(e.calls)
}

func (e *engine) do(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

// start makes a readable inside a bubble and closes it at the end.
func start(t *testing.T, src Source, e *engine, opts ...Option) *Readable[limit] {
	t.Helper()
	r := made(t, src, e, opts...)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal("Start:", err)
	}
	synctest.Wait()
	return r
}

func made(t *testing.T, src Source, e *engine, opts ...Option) *Readable[limit] {
	t.Helper()
	r, err := New(src, limits(), e, append([]Option{Logger(nil)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return r
}

// pass lets d of the bubble's time go by.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
