// Package shared keeps one server for all tests of a package that leave it as they found it.
package shared

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/testcontainers"
)

// Server is a server that starts with the first test that asks for it and ends after the last.
type Server[S any] struct {
	start func(testing.TB) S

	once   sync.Once
	owner  *owner
	server S
	up     bool
}

// New gives a server that start will start.
func New[S any](start func(testing.TB) S) *Server[S] { return &Server[S]{start: start} }

// Get gives the server. Where there can be none the test is skipped, or fails, as by testcontainers.Require.
func (s *Server[S]) Get(t testing.TB) S {
	t.Helper()
	s.once.Do(func() {
		s.owner = &owner{TB: t}
		s.server = s.start(s.owner)
		s.up = true
	})
	if !s.up {
		testcontainers.Require(t)
		t.Fatal("the server that the package's tests share did not start; the first of them says why")
	}
	return s.server
}

// End ends the server, if it was started.
func (s *Server[S]) End() error {
	if s.owner == nil {
		return nil
	}
	return s.owner.end()
}

// Leaks are the goroutines of the ways to a server that outlive a case and are no driver's: those of the helpers' own clients,
// of links that open again with the server, and of connections that a server holds for a request nobody waits for any more,
// as Consul does with its blocking queries. The client under test closes its idle connections when its case ends.
func Leaks() []goleak.Option {
	all := []goleak.Option{
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	}
	for _, f := range []string{"accept", "serve", "carry", "read"} {
		all = append(all, goleak.IgnoreAnyFunction("github.com/rulewire/rulewire/testcontainers/link.(*Link)."+f))
	}
	return all
}

// atOnce is how many tests run at the same time: they wait for servers more than they compute.
const atOnce = 6

// Main runs the tests of a package, ends what they share, and looks for goroutines that are left.
func Main(m *testing.M, end ...func() error) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(atOnce)) // the flag is there and the number is one
	}
	goleak.VerifyTestMain(runner(func() int {
		code := m.Run()
		for _, f := range end {
			if err := f(); err != nil {
				fmt.Fprintln(os.Stderr, "the server that the package's tests share:", err)
				code = max(code, 1)
			}
		}
		return code
	}))
}

type runner func() int

// Run implements goleak.TestingM.
func (f runner) Run() int { return f() }

// owner stands for the tests of the package as the owner of what start makes. While it starts, the first test speaks for
// all of them; later there may be no test to speak.
type owner struct {
	testing.TB

	mu       sync.Mutex
	cleanups []func()
	errs     []error
}

// Context implements testing.TB: that of the first test would end with it.
func (o *owner) Context() context.Context { return context.Background() }

// Cleanup implements testing.TB.
func (o *owner) Cleanup(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cleanups = append(o.cleanups, f)
}

// Errorf implements testing.TB for clean-ups.
func (o *owner) Errorf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs = append(o.errs, fmt.Errorf(format, args...))
}

// Error implements testing.TB for clean-ups.
func (o *owner) Error(args ...any) { o.Errorf("%s", fmt.Sprint(args...)) }

// Log implements testing.TB.
func (o *owner) Log(args ...any) { fmt.Fprintln(os.Stderr, args...) }

// Logf implements testing.TB.
func (o *owner) Logf(format string, args ...any) { o.Log(fmt.Sprintf(format, args...)) }

// Failed implements testing.TB. It decides whether the server's log is shown, which nobody could assign to a test.
func (o *owner) Failed() bool { return false }

// Helper implements testing.TB.
func (o *owner) Helper() {}

func (o *owner) end() error {
	for _, f := range slices.Backward(o.cleanups) {
		f()
	}
	o.cleanups = nil
	return errors.Join(o.errs...)
}
