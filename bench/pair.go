package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// errBenchmark means that a side's benchmark function failed: testing.Benchmark tells no more than that.
var errBenchmark = errors.New("the benchmark failed")

// pair compares two functions that do the same work.
type pair struct {
	ours, theirs func(b *testing.B)
	// budget is the least theirs/ours. Below 1 it says how much slower than theirs ours may be.
	budget float64
	// allocs is the most allocations of ours; negative means that they are not judged.
	allocs int64
}

// measure runs ours and theirs in turns and takes the median of the rounds' ratios.
func (p pair) measure(ctx context.Context, s settings) (result, error) {
	var ours, theirs, ratios []float64
	var allocs int64
	for round := range s.rounds {
		if err := ctx.Err(); err != nil {
			return result{}, err
		}
		// Whoever comes second meets the other's garbage and a warm machine: take turns.
		first, second := p.ours, p.theirs
		if round%2 == 1 {
			first, second = second, first
		}
		a, b := testing.Benchmark(first), testing.Benchmark(second)
		if round%2 == 1 {
			a, b = b, a
		}
		if a.N == 0 || b.N == 0 {
			return result{}, errBenchmark
		}
		ours, theirs = append(ours, perOp(a)), append(theirs, perOp(b))
		ratios = append(ratios, perOp(b)/perOp(a))
		allocs = max(allocs, a.AllocsPerOp())
	}
	ratio := median(ratios)
	got := result{
		ours:   fmt.Sprintf("%s, %d allocs", duration(median(ours)), allocs),
		theirs: duration(median(theirs)),
		ratio:  fmt.Sprintf("%.2f ×", ratio),
		budget: fmt.Sprintf("≥ %.4g ×", p.budget),
		met:    ratio >= p.budget,
	}
	if p.allocs >= 0 {
		got.budget += fmt.Sprintf(", %d allocs", p.allocs)
		got.met = got.met && allocs <= p.allocs
	}
	return got, nil
}

// perOp is in nanoseconds, with the fraction that NsPerOp drops.
func perOp(r testing.BenchmarkResult) float64 { return float64(r.T.Nanoseconds()) / float64(r.N) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// percentile is the nearest-rank percentile; p is 0..1.
func percentile(values []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

// duration writes nanoseconds with three digits.
func duration(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.3g ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.3g µs", ns/1e3)
	case ns < 1e9:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	default:
		return fmt.Sprintf("%.3g s", ns/1e9)
	}
}
