package datasourcetest

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/datasource"
)

// Config says what is tested, and in which time.
type Config struct {
	// New makes the harness of each case. Required.
	New New
	// Bubble: the harness is pure Go without real I/O, so that each case runs in a synctest bubble with fake time.
	Bubble bool
	// Latency is within which a read answers and a watch delivers. Default 1 s in a bubble, else 5 s.
	Latency time.Duration
	// Recovery is within which a change is in force once a broken store works again. Default two relists and what the
	// longest backoff and Latency add.
	Recovery time.Duration
	// Interval and Relist are the engine's, shortened so that a suite in real time is short. Default: in a bubble the
	// engine's own, else 200 ms and 2 s.
	Interval, Relist time.Duration
	// IdlePeriod is the time in which an idle source may send one request. Default Relist for a source that pushes, else
	// Interval. A driver with a wait period of its own (Consul, a file's poll) says so here.
	IdlePeriod time.Duration
	// Edits is how often each of the two writers of case Edit/TwoWriters edits. Default 1000, and at most 100 with -short.
	Edits int
	// NoCompareAndSet says why the store can't tell two writers apart who write at once: the cases where they do are skipped.
	// Default "": it can.
	NoCompareAndSet string
	// Options are given to every readable, before those of the case.
	Options []datasource.Option
	// Leaks are goroutines that outlive a case for a good reason, such as those of a client that all harnesses share.
	Leaks []goleak.Option
}

// What the engine's backoff is in real time, so that a recovery is not waited for longer than it takes.
const (
	realMinBackoff = 50 * time.Millisecond
	realMaxBackoff = 500 * time.Millisecond
)

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, bubble, real time.Duration) {
		switch {
		case *d > 0:
		case c.Bubble:
			*d = bubble
		default:
			*d = real
		}
	}
	set(&c.Latency, time.Second, 5*time.Second)
	set(&c.Interval, datasource.DefaultInterval, 200*time.Millisecond)
	set(&c.Relist, datasource.DefaultRelist, 2*time.Second)
	if c.Edits <= 0 {
		c.Edits = 1000
	}
	set(&c.Recovery, 2*c.Relist+datasource.DefaultMaxBackoff+c.Latency, 2*c.Relist+realMaxBackoff+c.Latency)
	return c
}

// Run plays every case for the sources of one backend. The cases are listed in docs/conformance.md.
func Run(t *testing.T, c Config) {
	t.Helper()
	run(t, c, sourceGroups())
}

// RunSink plays every case for the sinks of one backend. The harnesses must implement Sinker.
func RunSink(t *testing.T, c Config) {
	t.Helper()
	run(t, c, sinkGroups())
}

func run(t *testing.T, c Config, groups []group) {
	t.Helper()
	if c.New == nil {
		t.Fatal("datasourcetest: Config.New is required")
	}
	c = c.withDefaults()
	if !c.Bubble {
		groups = c.measure(t, groups)
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, s := range g.scenes {
				t.Run(s.name, func(t *testing.T) {
					if !c.Bubble {
						c.checkLeaks(t)
					}
					c.play(t, s.run)
				})
			}
		})
	}
}

// measure plays all scenes of the groups that measure at the same time: they take as long as one, whatever -parallel
// says. It gives the other groups.
func (c Config) measure(t *testing.T, groups []group) (rest []group) {
	t.Helper()
	known := append([]goleak.Option{goleak.IgnoreCurrent()}, c.Leaks...)
	var wg sync.WaitGroup
	for _, g := range groups {
		if !g.measures {
			rest = append(rest, g)
			continue
		}
		wg.Go(func() {
			t.Run(g.name, func(t *testing.T) {
				var wg sync.WaitGroup
				defer wg.Wait()
				for _, s := range g.scenes {
					wg.Go(func() { t.Run(s.name, func(t *testing.T) { c.play(t, s.run) }) })
				}
			})
		})
	}
	wg.Wait()
	if err := goleak.Find(known...); err != nil && !t.Failed() {
		t.Error("after the harnesses of the cases that measure were cleaned up:", err)
	}
	return rest
}

// checkLeaks looks for goroutines at the very end of t, when the harness has been cleaned up, too. In a bubble the
// bubble does.
func (c Config) checkLeaks(t *testing.T) {
	known := append([]goleak.Option{goleak.IgnoreCurrent()}, c.Leaks...)
	t.Cleanup(func() {
		if err := goleak.Find(known...); err != nil && !t.Failed() {
			t.Error("after the harness was cleaned up:", err)
		}
	})
}

// play plays one case.
func (c Config) play(t *testing.T, scene func(*play)) {
	skipped := ""
	body := func(t *testing.T) {
		x := &play{T: t, c: c, signal: newSignal(), skipped: &skipped}
		x.h = c.New(t)
		x.settle() // what the harness has started is there, all of it
		x.goroutinesBefore = bubbleGoroutines()
		defer x.end()
		scene(x)
	}
	if !c.Bubble {
		body(t)
		return
	}
	synctest.Test(t, body)
	if skipped != "" {
		t.Skip(skipped) // a skip does not leave the bubble by itself
	}
}
