package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
)

var (
	// errNotRun means that the container helpers gave up.
	errNotRun = errors.New("it did not run")
	// errSkipped means that they did because there is no server, and no engine to run one.
	errSkipped = errors.New("skipped")
)

// host is the testing.TB that the container helpers need: a benchmark's, with what it says kept.
type host struct {
	*testing.B
	mu    sync.Mutex
	words []string
}

func (h *host) say(text string) {
	h.mu.Lock()
	h.words = append(h.words, strings.TrimSpace(text))
	h.mu.Unlock()
}

func (h *host) Log(args ...any)                 { h.say(fmt.Sprintln(args...)) }
func (h *host) Logf(format string, args ...any) { h.say(fmt.Sprintf(format, args...)) }
func (h *host) Error(args ...any)               { h.Log(args...); h.Fail() }
func (h *host) Errorf(f string, args ...any)    { h.Logf(f, args...); h.Fail() }
func (h *host) Fatal(args ...any)               { h.Log(args...); h.FailNow() }
func (h *host) Fatalf(f string, args ...any)    { h.Logf(f, args...); h.FailNow() }
func (h *host) Skip(args ...any)                { h.Log(args...); h.SkipNow() }
func (h *host) Skipf(f string, args ...any)     { h.Logf(f, args...); h.SkipNow() }

// onServer measures a store. What the helpers started is gone when it returns.
func onServer(ctx context.Context, s store) (got []measured, err error) {
	err = onHost(func(tb testing.TB) error {
		sides, err := s.open(ctx, tb)
		if err == nil {
			got, err = s.measure(ctx, sides)
		}
		return err
	})
	return got, err
}

// onHost runs f with a testing.TB for the container helpers.
func onHost(f func(testing.TB) error) error {
	if err := flag.Set("test.benchtime", "1x"); err != nil {
		return err
	}
	h := &host{}
	err := errNotRun
	testing.Benchmark(func(b *testing.B) {
		h.B = b
		err = f(h)
	})
	if h.Skipped() && errors.Is(err, errNotRun) {
		err = errSkipped
	}
	if err != nil && len(h.words) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.Join(h.words, "; "))
	}
	return err
}
