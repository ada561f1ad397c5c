package datasource

import (
	"math/rand/v2"
	"time"
)

// backoff gives the wait after each failure in a row. A wait is drawn from the upper half of its step, not from all of
// it: with full jitter a few short draws in a row break the promise of at most one request per second after five
// seconds (docs/decisions/0004-engine.md).
type backoff struct {
	first, longest time.Duration
	failures       int
	last           time.Time
}

// next counts a failure and gives the wait before the next attempt.
func (b *backoff) next(now time.Time) time.Duration {
	if !b.last.IsZero() && now.Sub(b.last) >= quietPeriod {
		b.failures = 0
	}
	step := b.longest
	if b.failures < 16 {
		step = min(b.first<<b.failures, b.longest)
	}
	b.failures++
	wait := step/2 + rand.N(step/2+1)
	// The quiet time starts when the attempt that follows could have failed.
	b.last = now.Add(wait)
	return wait
}

func (b *backoff) reset() { b.failures, b.last = 0, time.Time{} }

// jitter gives d, a tenth shorter or longer.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// bucket bounds how often hints may cause reads: a burst of reads, then one each refill. A single writer that waits for
// its own update meets it only if all takes less than a refill; a thousand publishes at once cost a few reads (F119, F122).
type bucket struct {
	tokens float64
	last   time.Time
}

const (
	hintBurst  = 16
	hintRefill = 2 * time.Millisecond
)

// take pays for one read and gives how long to wait before it; zero is now.
func (b *bucket) take(now time.Time) time.Duration {
	if b.last.IsZero() {
		b.tokens = hintBurst
	} else {
		b.tokens = min(hintBurst, b.tokens+float64(now.Sub(b.last))/float64(hintRefill))
	}
	b.last = now
	b.tokens--
	return max(0, time.Duration(-b.tokens*float64(hintRefill)))
}
