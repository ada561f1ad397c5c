package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/file"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
)

// storm is a manager whose rules are swapped all the time.
func storm() (m *rule.Manager[rule.Flow], stop func(), err error) {
	m = rule.NewManager[rule.Flow]()
	sets := [2][]rule.Flow{}
	for s := range sets {
		for i := range documentRules {
			sets[s] = append(sets[s], rule.Flow{Resource: fmt.Sprintf("/api/orders/%05d", i), LimitApp: "default", Grade: rule.GradeQPS, Count: float64(s)})
		}
	}
	if _, err := m.Load(sets[0]); err != nil {
		return nil, nil, err
	}
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(20 * time.Millisecond)
		defer t.Stop()
		for i := 1; ; i++ {
			select {
			case <-end:
				return
			case <-t.C:
				_, _ = m.Load(sets[i%2]) // the rules are known to be valid
			}
		}
	})
	return m, func() { close(end); wg.Wait() }, nil
}

// hot is what a service looks up: a few resources among many.
var hot = func() (names [64]string) {
	for i := range names {
		names[i] = fmt.Sprintf("/api/orders/%05d", i*150)
	}
	return names
}()

// lookups gives lookups per second of n readers for d; reader i uses manager i, as far as there are any.
func lookups(managers []*rule.Manager[rule.Flow], n int, d time.Duration) float64 {
	var stop atomic.Bool
	var total atomic.Uint64
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range n {
		m := managers[i%len(managers)]
		wg.Go(func() {
			var done uint64
			for !stop.Load() {
				for range 1000 {
					if len(m.Lookup(hot[done%uint64(len(hot))])) != 1 {
						panic("a rule is missing")
					}
					done++
				}
			}
			total.Add(done)
		})
	}
	time.Sleep(d)
	stop.Store(true)
	wg.Wait()
	return float64(total.Load()) / time.Since(begin).Seconds()
}

func lookupRow(context.Context, settings) (result, error) {
	m, stop, err := storm()
	if err != nil {
		return result{}, err
	}
	defer stop()
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if len(m.Lookup(hot[i%len(hot)])) != 1 {
				b.Fatal("a rule is missing")
			}
			i++
		}
	})
	// The swapping itself allocates, on another goroutine, in the same counters.
	allocs := testing.AllocsPerRun(1000, func() { m.Lookup(hot[1]) })
	ns := perOp(got)
	return result{
		ours: fmt.Sprintf("%s, %.0f allocs", duration(ns), allocs), theirs: "–", ratio: "–",
		budget: "≤ 20 ns, 0 allocs", met: ns <= 20 && allocs == 0,
	}, nil
}

// readersRow asks whether a second reader slows the first one down. What two processors give on a machine that does
// other things too is measured in the same rounds: two readers that share nothing, each with a manager of its own.
func readersRow(_ context.Context, s settings) (result, error) {
	// No storm here: on two processors the swapping goroutine would be the third runner and be measured instead.
	var managers [2]*rule.Manager[rule.Flow]
	for i := range managers {
		m, stop, err := storm()
		if err != nil {
			return result{}, err
		}
		stop()
		managers[i] = m
	}
	const each = 200 * time.Millisecond
	shared, apart := managers[:1], managers[:]
	var ratios, control []float64
	var two []float64
	for range s.rounds {
		one := lookups(shared, 1, each)
		both := lookups(shared, 2, each)
		two, ratios, control = append(two, both), append(ratios, both/one), append(control, lookups(apart, 2, each)/one)
	}
	r, c := median(ratios), median(control)
	return result{
		ours: fmt.Sprintf("%.3g M/s, %.2f × one reader", median(two)/1e6, r), theirs: fmt.Sprintf("%.2f × (sharing nothing)", c),
		ratio: fmt.Sprintf("%.2f ×", r/c), budget: "≥ 1.9 ×, or ≥ 0.95 of what sharing nothing gives", met: r >= 1.9 || r/c >= 0.95,
	}, nil
}

// fileRow replaces a rule file again and again and times each until the listener is called.
func fileRow(ctx context.Context, _ settings) (result, error) {
	dir, err := os.MkdirTemp("", "rulewire-bench")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "flow.json")
	replace := func(n int) error {
		tmp := filepath.Join(dir, ".tmp")
		if err := os.WriteFile(tmp, fmt.Appendf(nil, `[{"resource":"a","count":%d}]`, n), 0o600); err != nil {
			return err
		}
		return os.Rename(tmp, name)
	}
	if err := replace(0); err != nil {
		return result{}, err
	}
	src, err := file.NewSource(name)
	if err != nil {
		return result{}, err
	}
	seen := make(chan int, 1)
	r, err := datasource.New(src, converter.JSON[rule.Flow](), property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
		seen <- int(rules[0].Count)
		return nil
	}), datasource.Logger(nil))
	if err == nil {
		err = r.Start(ctx)
	}
	if err != nil {
		return result{}, err
	}
	defer r.Close()
	<-seen
	// The watch is armed in the background; the first change shows that it is there.
	const writes = 1000
	var took []time.Duration
	for n := 1; n <= writes; n++ {
		begin := time.Now()
		if err := replace(n); err != nil {
			return result{}, err
		}
		for got := -1; got != n; {
			select {
			case got = <-seen:
			case <-ctx.Done():
				return result{}, ctx.Err()
			}
		}
		if n > 1 {
			took = append(took, time.Since(begin))
		}
	}
	p99 := percentile(took, 0.99)
	return result{
		ours:   fmt.Sprintf("p50 %s, p99 %s", duration(float64(percentile(took, 0.5))), duration(float64(p99))),
		theirs: "–", ratio: "–", budget: "p99 ≤ 20 ms", met: p99 <= 20*time.Millisecond,
	}, nil
}

// manyRow starts a thousand readables of files over one shared notifier and counts what they cost at rest.
func manyRow(ctx context.Context, _ settings) (result, error) {
	const n = 1000
	dir, err := os.MkdirTemp("", "rulewire-bench")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.json", i)), []byte(`[{"resource":"a","count":1}]`), 0o600); err != nil {
			return result{}, err
		}
	}
	held, err := documentsAndRules(dir, n)
	if err != nil {
		return result{}, err
	}
	notifier := file.NewNotifier()
	defer notifier.Close()
	before, goroutines := footprint(), runtime.NumGoroutine()
	var group datasource.Group
	for i := range n {
		src, err := file.NewSource(filepath.Join(dir, fmt.Sprintf("%d.json", i)), file.WithNotifier(notifier))
		if err != nil {
			return result{}, err
		}
		r, err := datasource.New(src, converter.JSON[rule.Flow](), rule.NewManager[rule.Flow](), datasource.Logger(nil))
		if err == nil {
			err = group.Add(r)
		}
		if err != nil {
			return result{}, err
		}
	}
	if err := group.Start(ctx); err != nil {
		return result{}, err
	}
	defer group.Close()
	time.Sleep(time.Second) // every watch is armed and its first hint met
	each := (float64(footprint()-before) - held) / n / 1024
	per := float64(runtime.NumGoroutine()-goroutines) / n
	return result{
		ours: fmt.Sprintf("%.2f goroutines, %.1f KiB each", per, each), theirs: "–", ratio: "–",
		// The notifier's own goroutines are for all of them.
		budget: "≤ 2 goroutines, ≤ 16 KiB each", met: per <= 2.01 && each <= 16,
	}, nil
}

// documentsAndRules is what n documents, the rules decoded from them and the managers' copies take by themselves.
func documentsAndRules(dir string, n int) (float64, error) {
	type kept struct {
		data    []byte
		rules   []rule.Flow
		manager *rule.Manager[rule.Flow]
	}
	all := make([]kept, 0, n)
	before := footprint()
	for i := range n {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.json", i)))
		if err != nil {
			return 0, err
		}
		dec, err := converter.JSON[rule.Flow]().Decode(data)
		if err != nil {
			return 0, err
		}
		m := rule.NewManager[rule.Flow]()
		if _, err := m.Load(dec.Rules); err != nil {
			return 0, err
		}
		all = append(all, kept{data, dec.Rules, m})
	}
	size := float64(footprint() - before)
	runtime.KeepAlive(all)
	return size, nil
}

// footprint is heap and stacks in use, in bytes.
func footprint() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
