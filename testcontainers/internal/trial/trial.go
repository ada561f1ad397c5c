// Package trial has the trials by fire that every backend goes through on its real server.
package trial

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
)

// Process is a server that can be killed.
type Process interface {
	Kill(context.Context) error
	Start(context.Context) error
}

// Document is the numbered document.
func Document(n int) []byte {
	return []byte(`[{"resource":"numbered","count":` + strconv.Itoa(n) + `}]`)
}

// Live is a readable and the numbers of the documents that came into force.
type Live struct {
	*datasource.Readable[rule.Flow]

	mu      sync.Mutex
	numbers []int
	changed chan struct{}
}

// Open starts a readable over src with the engine's own times. It is closed after the test.
func Open(t testing.TB, src datasource.Source, options ...datasource.Option) *Live {
	t.Helper()
	l := &Live{changed: make(chan struct{})}
	all := append([]datasource.Option{
		datasource.Logger(nil), datasource.WithObserver(datasource.ObserverFunc(func(datasource.Event) { l.tell() })),
	}, options...)
	r, err := datasource.New(src, converter.JSON[rule.Flow](), l, all...)
	if err != nil {
		t.Fatal(err)
	}
	l.Readable = r
	t.Cleanup(func() { _ = r.Close() })
	if err := r.Start(t.Context()); err != nil {
		t.Fatal("Start:", err)
	}
	return l
}

// OnUpdate notes the number.
func (l *Live) OnUpdate(_ context.Context, rules []rule.Flow) error {
	n := -1
	if len(rules) == 1 {
		n = int(rules[0].Count)
	}
	l.mu.Lock()
	l.numbers = append(l.numbers, n)
	l.mu.Unlock()
	l.tell()
	return nil
}

func (l *Live) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Numbers are those that came into force, in order.
func (l *Live) Numbers() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.numbers)
}

// Until waits until ok says so, which is asked whenever something happened.
func (l *Live) Until(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	end := time.NewTimer(within)
	defer end.Stop()
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-end.C:
			st := l.Status()
			t.Fatalf("not within %v: %s; %s, %v; in force: %v", within, what, st.State, st.LastError, last(l.Numbers()))
		}
	}
}

// InForce waits until a number is in force.
func (l *Live) InForce(t testing.TB, within time.Duration, n int) {
	t.Helper()
	l.Until(t, within, "document "+strconv.Itoa(n)+" in force", func() bool { return last(l.Numbers()) == n })
}

func last(numbers []int) int {
	if len(numbers) == 0 {
		return -1
	}
	return numbers[len(numbers)-1]
}

const (
	// kills is how often the server is killed.
	kills = 10
	// The engine's backoff, shorter than its own so that ten recoveries take a minute.
	minBackoff, maxBackoff = 100 * time.Millisecond, 3 * time.Second
	// patience is for a machine that is busy. How long it really took is reported.
	patience = 30 * time.Second
)

// Kills kills and starts the server again, ten times, while numbered documents are written. Afterwards the last
// document that was acknowledged, or a later one, must be in force within one backoff period, and nothing may ever have
// gone backwards.
func Kills(t *testing.T, server Process, put func(context.Context, []byte) error, sources ...datasource.Source) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := put(ctx, Document(0)); err != nil {
		t.Fatal(err)
	}
	var lives []*Live
	for _, src := range sources {
		lives = append(lives, Open(t, src, datasource.Backoff(minBackoff, maxBackoff)))
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := make(chan struct{})
	acknowledged, sent := 0, 0
	wg.Go(func() {
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-stop:
				return
			case <-pace.C:
			}
			sent++
			limited, cancel := context.WithTimeout(ctx, time.Second)
			if put(limited, Document(sent)) == nil {
				acknowledged = sent
			}
			cancel()
		}
	})
	for range kills {
		// The stream must be flowing again before it is cut the next time.
		from := last(lives[0].Numbers())
		lives[0].Until(t, patience, fmt.Sprintf("anything after %d", from), func() bool { return last(lives[0].Numbers()) > from })
		if err := server.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	begin := time.Now()
	for _, l := range lives {
		// What was sent last may have been done without an answer.
		l.Until(t, patience, fmt.Sprintf("document %d in force", acknowledged), func() bool { return last(l.Numbers()) >= acknowledged })
		if numbers := l.Numbers(); !slices.IsSorted(numbers) {
			t.Errorf("went backwards: %v", numbers)
		}
	}
	t.Logf("%d documents sent, the last acknowledged is %d, in force %v after the end, the longest backoff is %v; %d applied", sent, acknowledged,
		time.Since(begin).Round(time.Millisecond), maxBackoff, len(lives[0].Numbers()))
}
