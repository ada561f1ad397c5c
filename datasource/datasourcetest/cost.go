package datasourcetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// stormQuiet is after how long a failing store must see at most one request per second.
const stormQuiet = 5 * time.Second

// measured is for how long requests to a failing store are counted.
func (x *play) measured() time.Duration {
	if x.c.Bubble {
		return time.Minute
	}
	return 3 * time.Second
}

// idle counts the requests of the readable that was started, which has nothing to do.
func idle(x *play) {
	x.Helper()
	need[Requester](x)
	x.pass(x.aWhile()) // the watch is open by now
	period := x.idlePeriod()
	d := 3 * period
	if x.c.Bubble {
		d = 10 * time.Minute
	}
	before := x.requests()
	x.pass(d)
	// A tenth for the jitter, one for each end of the time.
	n, budget := x.requests()-before, int(d*11/10/period)+2
	x.Logf("%d requests in %v; the budget is %d", n, d, budget)
	if n > budget {
		x.Errorf("an idle source sent %d requests in %v, the budget is %d", n, d, budget)
	}
}

// faults: F119
func idlePresent(x *play) {
	x.put(v1)
	x.start(datasource.Relist(x.c.Relist))
	idle(x)
}

// faults: F117 F118
func idleMissing(x *play) {
	x.start(datasource.Relist(x.c.Relist))
	idle(x)
}

// faults: F017 F118
func idleDeleted(x *play) {
	x.put(v1)
	x.start(datasource.Relist(x.c.Relist))
	x.must(x.h.Delete())
	idle(x)
}

// faults: F119
func idleRefused(x *play) {
	x.put(v1)
	x.start(datasource.Relist(x.c.Relist))
	x.put([]byte("nonsense"))
	idle(x)
}

// storm counts the requests of a readable whose store fails.
func storm(x *play, begin func() error) {
	x.Helper()
	need[Requester](x)
	x.put(v1)
	// The engine's own backoff, not the short one of the other cases.
	l := x.start(datasource.Relist(x.c.Relist), datasource.Backoff(datasource.DefaultMinBackoff, datasource.DefaultMaxBackoff))
	l.inForce(x.latency(), rules1)
	x.must(begin())
	x.pass(stormQuiet)
	before := x.requests()
	d := x.measured()
	x.pass(d)
	if n, budget := x.requests()-before, int(d/time.Second)+1; n > budget {
		x.Errorf("%d requests in %v to a store that has failed for %v, the budget is %d", n, d, stormQuiet, budget)
	}
	l.wantUpdates(rules1)
}

// faults: F116 F117 F121
func errorStormBroken(x *play) {
	storm(x, need[Breaker](x).Break)
}

// faults: F117
func errorStormDenied(x *play) {
	storm(x, need[Denier](x).Deny)
}

// faults: F116
func errorStormStalled(x *play) {
	storm(x, need[Staller](x).Stall)
}

// faults: F116 F117
func errorStormFromTheStart(x *play) {
	b := need[Breaker](x)
	need[Requester](x)
	x.must(b.Break())
	x.start(datasource.OnStart(datasource.Empty), datasource.Backoff(datasource.DefaultMinBackoff, datasource.DefaultMaxBackoff))
	x.pass(stormQuiet)
	before := x.requests()
	d := x.measured()
	x.pass(d)
	if n, budget := x.requests()-before, int(d/time.Second)+1; n > budget {
		x.Errorf("%d requests in %v to a store that was never there, the budget is %d", n, d, budget)
	}
}

// closeAtOnce closes from several goroutines, and once more.
func closeAtOnce(x *play, l *live) {
	x.Helper()
	l.closed = true
	begin := time.Now()
	ended := make(chan error, 3)
	for range cap(ended) {
		go func() { ended <- l.Close() }()
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			x.Error("Close:", err)
		}
	}
	if err := l.Close(); err != nil {
		x.Error("Close once more:", err)
	}
	if d := time.Since(begin); d >= closeLimit {
		x.Errorf("Close took %v", d)
	}
	if s := l.Status().State; s != datasource.StateClosed {
		x.Errorf("state after Close: %s", s)
	}
}

// faults: F147
func closeBeforeStart(x *play) {
	closeAtOnce(x, x.open(x.source()))
}

// faults: F147
func closeFirstRead(x *play) {
	s := need[Staller](x)
	x.must(s.Stall())
	i, src := x.intercept(x.source())
	l := x.open(src, datasource.ReadTimeout(time.Minute))
	started := make(chan error, 1)
	go func() { started <- l.Start(context.Background()) }()
	x.eventually(x.c.Latency, func() string {
		if reads, _ := i.calls(); reads == 0 {
			return "no read began"
		}
		return ""
	})
	x.settle()
	closeAtOnce(x, l)
	if err := <-started; !errors.Is(err, datasource.ErrClosed) {
		x.Errorf("Start that Close interrupted says %v", err)
	}
}

// faults: F147
func closeBackoff(x *play) {
	b := need[Breaker](x)
	x.must(b.Break())
	l := x.start(datasource.OnStart(datasource.Empty))
	x.settle()
	closeAtOnce(x, l)
}

// faults: F145 F146
func closeWatching(x *play) {
	x.put(v1)
	i, src := x.intercept(x.source())
	l := x.startOver(src)
	if x.pushes() {
		x.eventually(x.c.Latency, func() string {
			if _, watches := i.calls(); watches == 0 {
				return "no watch began"
			}
			return ""
		})
	}
	x.settle()
	closeAtOnce(x, l)
	// Nothing reaches the listener any more.
	x.put(v2)
	x.settle()
	l.wantUpdates(rules1)
}

// faults: F147
func closeStalled(x *play) {
	s := need[Staller](x)
	x.put(v1)
	l := x.start()
	x.settle()
	x.must(s.Stall())
	refreshed := make(chan error, 1)
	go func() { refreshed <- l.Refresh(context.Background()) }()
	x.settle()
	closeAtOnce(x, l)
	if err := <-refreshed; err == nil {
		x.Error("Refresh of a silent store succeeds")
	}
}

// faults: F147
func closeBroken(x *play) {
	b := need[Breaker](x)
	x.put(v1)
	l := x.start()
	x.settle()
	x.must(b.Break())
	closeAtOnce(x, l)
}

// A hundred lives on one client leave nothing behind.
//
// faults: F148
func closeCycles(x *play) {
	x.put(v1)
	cycle := func() {
		l := x.start()
		l.inForce(x.latency(), rules1)
		l.close()
		x.lives = x.lives[:0]
	}
	for range 3 {
		cycle() // the client's own goroutines come with the first use
	}
	// What is left stays for ever, and is a hundred times what one life leaves. What a real server still has under way, such
	// as a query that nobody waits for any more, ends in its own time, and a connection more or less in the client's pool is
	// several goroutines.
	count, within, most := runtime.NumGoroutine, x.c.Recovery, 50
	if x.c.Bubble {
		count, within, most = bubbleGoroutines, closeLimit, 5
	}
	x.settle()
	before := count()
	for range 100 {
		cycle()
	}
	x.eventually(within, func() string {
		if n := count() - before; n > most {
			return fmt.Sprintf("%d goroutines more after 100 cycles:\n%s", n, stacks())
		}
		return ""
	})
}
