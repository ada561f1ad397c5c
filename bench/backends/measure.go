package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// store is one line or two of the table.
type store struct {
	name   string
	writes int
	// limit is the budget for our p99; 0 means that ours may not be slower than theirs, if there is a peer to measure.
	limit time.Duration
	// patience is how long a write may take to arrive before it counts as lost.
	patience time.Duration
	note     string
	// open starts or finds the server, and our side first, theirs second if there is one.
	open func(ctx context.Context, tb testing.TB) ([]side, error)
}

// side is a data source that is open, and the writer of its document.
type side struct {
	name  string
	write func(ctx context.Context, data []byte) error
	told  *told
}

// told has what a listener was given.
type told struct{ sightings chan sighting }

type sighting struct {
	number int
	at     time.Time
}

func newTold() *told { return &told{make(chan sighting, 10_000)} }

// number notes what has arrived just now.
func (t *told) number(n int) { t.seen(sighting{n, time.Now()}) }

// seen does not block, as a listener must not.
func (t *told) seen(s sighting) {
	select {
	case t.sightings <- s:
	default:
	}
}

// document is a small document of ten rules in the dialect that both sides read; its number is the threshold of all.
func document(number int) []byte {
	out := []byte{'['}
	for i := range 10 {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `{"resource":"/api/orders/%d","tokenCalculateStrategy":0,"controlBehavior":0,"threshold":%d,"relationStrategy":0,"statIntervalInMs":1000}`, i, number)
	}
	return append(out, ']')
}

// measured is what a side did.
type measured struct {
	name string
	// took is until the listener was called, acknowledged until the writer was answered.
	took, acknowledged []time.Duration
	lost               int
}

// errStart means that a side was not given the document that was there before it began.
var errStart = errors.New("the first document did not arrive")

func (s store) measure(ctx context.Context, sides []side) ([]measured, error) {
	got := make([]measured, len(sides))
	for i, one := range sides {
		got[i].name = one.name
		if ok, _, err := one.await(ctx, 0, max(s.patience, 30*time.Second)); err != nil || !ok {
			return nil, fmt.Errorf("%s: %w", one.name, errors.Join(errStart, err))
		}
	}
	for n := 1; n <= s.writes+warmUp; n++ {
		for i := range sides {
			i := (i + n) % len(sides) // whoever comes second meets the other's garbage: take turns
			begin := time.Now()
			if err := sides[i].write(ctx, document(n)); err != nil {
				return nil, fmt.Errorf("%s: write %d: %w", sides[i].name, n, err)
			}
			acknowledged := time.Since(begin)
			ok, at, err := sides[i].await(ctx, n, s.patience)
			switch {
			case err != nil:
				return nil, err
			case n <= warmUp:
			case !ok:
				got[i].lost++
			default:
				got[i].took = append(got[i].took, at.Sub(begin))
				got[i].acknowledged = append(got[i].acknowledged, acknowledged)
			}
		}
	}
	return got, nil
}

// warmUp writes come first and are not counted.
const warmUp = 5

// await waits for a number or a later one.
func (s side) await(ctx context.Context, n int, patience time.Duration) (ok bool, at time.Time, err error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case seen := <-s.told.sightings:
			if seen.number >= n {
				return true, seen.at, nil
			}
		case <-late.C:
			return false, at, nil
		case <-ctx.Done():
			return false, at, context.Cause(ctx)
		}
	}
}

// even is the share by which ours may be slower and still counts as "not slower": the server's own tick is most of what is
// measured where this budget holds (Nacos tells after 100 ms, Apollo scans once a second).
const even = 0.05

func (s store) met(got []measured) bool {
	ours := got[0]
	if ours.lost > 0 || len(ours.took) == 0 {
		return false
	}
	if s.limit > 0 {
		return percentile(ours.took, 0.99) <= s.limit
	}
	notSlower := func(p float64) bool {
		return float64(percentile(ours.took, p)) <= (1+even)*float64(percentile(got[1].took, p))
	}
	return len(got) == 1 || len(got[1].took) == 0 || notSlower(0.5) && notSlower(0.99)
}

func (s store) budget() string {
	if s.limit > 0 {
		return fmt.Sprintf("p99 ≤ %v, 0 lost", s.limit)
	}
	if peer() == "" {
		return "0 lost"
	}
	return fmt.Sprintf("p50, p99 ≥ %.2f ×, 0 lost", 1/(1+even))
}

func (m measured) row() string {
	return fmt.Sprintf("%d\t%d\t%s\t%s\t%s\t%s, %s", len(m.took)+m.lost, m.lost, short(percentile(m.took, 0.5)), short(percentile(m.took, 0.99)),
		short(percentile(m.took, 1)), short(percentile(m.acknowledged, 0.5)), short(percentile(m.acknowledged, 0.99)))
}

// ratio is theirs to ours: more than 1 is in our favour.
func (m measured) ratio(theirs measured) string {
	of := func(p float64) string {
		ours := percentile(m.took, p)
		if ours == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f ×", float64(percentile(theirs.took, p))/float64(ours))
	}
	return of(0.5) + ", " + of(0.99)
}

// percentile is the nearest-rank percentile; p is 0..1.
func percentile(values []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

func short(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
