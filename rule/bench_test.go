package rule

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// flows makes n valid rules, one per resource. round moves every count.
func flows(n, round int) []Flow {
	rules := make([]Flow, n)
	for i := range rules {
		rules[i] = Flow{
			ID: fmt.Sprint(i), Resource: fmt.Sprintf("/api/v1/resource/%d", i), LimitApp: "default", Grade: GradeQPS,
			Count: float64(10 + round), WarmUpPeriodSec: 10, MaxQueueingTimeMs: 500,
			ClusterConfig: &ClusterFlowConfig{FallbackToLocalWhenFail: true, SampleCount: 10, WindowIntervalMs: 1000},
		}
	}
	return rules
}

func BenchmarkManagerLoad10k(b *testing.B) {
	const n = 10_000
	sets := [2][]Flow{flows(n, 0), flows(n, 1)}
	one := [2][]Flow{flows(n, 0), flows(n, 0)}
	one[1][n/2].Count = 99
	added := [2][]Flow{flows(n, 0), append([]Flow{{Resource: "/new", Grade: GradeQPS}}, flows(n, 0)...)}
	reversed := [2][]Flow{flows(n, 0), flows(n, 0)}
	for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
		reversed[1][i], reversed[1][j] = reversed[1][j], reversed[1][i]
	}
	for _, c := range []struct {
		name string
		sets [2][]Flow
	}{{"same", [2][]Flow{sets[0], flows(n, 0)}}, {"one-changed", one}, {"all-changed", sets}, {"one-added-first", added}, {"reversed", reversed}} {
		b.Run(c.name, func(b *testing.B) {
			m := NewManager[Flow]()
			if _, err := m.Load(c.sets[1]); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := m.Load(c.sets[i%2]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := NewManager[Flow]().Load(sets[0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// swapStorm swaps two sets of rules a thousand times a second for as long as the benchmark runs; more would measure
// how two readers and a loader share two cores.
func swapStorm(b *testing.B, m *Manager[Flow]) {
	a, c := flows(1000, 0), flows(1000, 1)
	if _, err := m.Load(a); err != nil {
		b.Fatal(err)
	}
	stop := make(chan struct{})
	tick := time.NewTicker(time.Millisecond)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			_, _ = m.Load([2][]Flow{a, c}[i%2])
		}
	})
	b.Cleanup(func() { close(stop); wg.Wait() })
}

func BenchmarkManagerLookup(b *testing.B) {
	m := NewManager[Flow]()
	if _, err := m.Load(flows(10_000, 0)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(m.Lookup("/api/v1/resource/5000")) != 1 {
			b.Fatal("lost")
		}
	}
}

func BenchmarkManagerLookupUnderSwapStorm(b *testing.B) {
	for _, readers := range []int{1, 2} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			m := NewManager[Flow]()
			swapStorm(b, m)
			b.ReportAllocs()
			var wg sync.WaitGroup
			share := b.N / readers
			b.ResetTimer()
			for range readers {
				wg.Go(func() {
					for range share {
						if len(m.Lookup("/api/v1/resource/500")) != 1 {
							panic("lost")
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
