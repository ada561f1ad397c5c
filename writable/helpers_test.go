package writable_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" {
		os.Exit(play()) // one of the processes of TestTenProcesses...
	}
	goleak.VerifyTestMain(m)
}

const docKey = "/rules/flow"

func flow(resource string, count float64) rule.Flow {
	return rule.Flow{Resource: resource, LimitApp: "default", Grade: rule.GradeQPS, Count: count, WarmUpPeriodSec: 10, MaxQueueingTimeMs: 500}
}

func flows(n int) []rule.Flow {
	all := make([]rule.Flow, n)
	for i := range all {
		all[i] = flow("/r/"+strconv.Itoa(i), float64(i))
	}
	return all
}

// core is the rule manager of a process, which counts what it is told.
type core struct {
	*rule.Manager[rule.Flow]
	mu    sync.Mutex
	calls int
	fail  error
	check func(*rule.Flow) error
}

func newCore() *core { return &core{Manager: rule.NewManager[rule.Flow]()} }

func (c *core) OnUpdate(ctx context.Context, rules []rule.Flow) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	c.calls++
	return c.Manager.OnUpdate(ctx, rules)
}

func (c *core) CheckRule(r *rule.Flow) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.check == nil {
		return nil
	}
	return c.check(r)
}

func (c *core) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *core) told() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// process is what a process has of a document: both sides and a rule manager.
type process struct {
	*writable.Writable[rule.Flow]
	readable *datasource.Readable[rule.Flow]
	core     *core
	sink     *sink
}

// sink is a sink whose answers a test can change.
type sink struct {
	writable.Sink
	mu     sync.Mutex
	writes int
	reads  int
	// write and read stand in for the sink's own where they are set.
	write func(ctx context.Context, data []byte, expected string) (datasource.Document, error)
	read  func(ctx context.Context) (datasource.Document, error)
}

func (s *sink) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	s.mu.Lock()
	s.writes++
	write := s.write
	s.mu.Unlock()
	if write != nil {
		return write(ctx, data, expected)
	}
	return s.Sink.Write(ctx, data, expected)
}

func (s *sink) Read(ctx context.Context) (datasource.Document, error) {
	s.mu.Lock()
	s.reads++
	read := s.read
	s.mu.Unlock()
	if read != nil {
		return read(ctx)
	}
	return s.Sink.Read(ctx)
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

var quiet = datasource.Logger(nil)

// join makes a process on the store.
func join(t testing.TB, store *datasourcetest.Store, f datasourcetest.Flavour, opts ...datasource.Option) *process {
	t.Helper()
	p := &process{core: newCore(), sink: &sink{Sink: store.Sink(docKey, f)}}
	var err error
	p.readable, err = datasource.New(store.Source(docKey, f), converter.JSON[rule.Flow](), p.core, append([]datasource.Option{quiet}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	p.Writable, err = writable.New(p.sink, converter.JSON[rule.Flow](), writable.Readable(p.readable), writable.Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.readable.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.readable.Close() })
	return p
}

// alone makes a writable without a readable.
func alone(t testing.TB, s writable.Sink, opts ...writable.Option) *writable.Writable[rule.Flow] {
	t.Helper()
	w, err := writable.New(s, converter.JSON[rule.Flow](), append([]writable.Option{writable.Logger(nil)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func put(store *datasourcetest.Store, rules []rule.Flow) {
	data, err := converter.JSON[rule.Flow]().Encode(rules)
	if err != nil {
		panic(err)
	}
	store.Put(docKey, data)
}

// stored gives what is in the store.
func stored(t testing.TB, store *datasourcetest.Store) string {
	t.Helper()
	doc, err := store.Sink(docKey, datasourcetest.Pushed).Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if doc.Presence != datasource.Present {
		return doc.Presence.String()
	}
	return string(doc.Data)
}

func add(r rule.Flow) func([]rule.Flow) ([]rule.Flow, error) {
	return func(rules []rule.Flow) ([]rule.Flow, error) { return append(rules, r), nil }
}

func resources(rules []rule.Flow) []string {
	names := []string{}
	for _, r := range rules {
		names = append(names, r.Resource)
	}
	return names
}

func wantIs(t testing.TB, what string, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s: error %v, want one that wraps %q", what, err, target)
		}
	}
}

func wantEqual[T any](t testing.TB, what string, got, want []T) {
	t.Helper()
	if c := rule.Compare(want, got); !c.Empty() || c.Reordered {
		t.Errorf("%s: %s\n%s", what, c.Summary(), c)
	}
}

func wantNames(t testing.TB, what string, got []rule.Flow, want ...string) {
	t.Helper()
	if !slices.Equal(resources(got), want) {
		t.Errorf("%s: %v, want %v", what, resources(got), want)
	}
}

// logs collects log records as JSON lines.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }
