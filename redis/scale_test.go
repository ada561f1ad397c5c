package redis

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
)

// sizes is a converter whose rules take next to nothing.
type sizes struct{}

func (sizes) Decode(data []byte) (d converter.Decoded[int], err error) {
	d.Rules = []int{len(data)}
	return d, nil
}

func (sizes) Encode([]int) ([]byte, error) { return nil, nil }

// raceDetector: memory is not measured under it.
var raceDetector = false

// The budget of a process with a thousand documents: two goroutines and 16 KiB each, and one connection for what all are
// told.
func TestThousandReadablesKeepToTheirBudget(t *testing.T) {
	s := newServer()
	c := s.client(t, func(o *redis.Options) { o.PoolSize = 4 })
	shared, err := NewSubscriptions(c)
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000
	told := make(chan struct{}, 4*n)
	listener := property.ListenerFunc[[]int](func(context.Context, []int) error {
		told <- struct{}{}
		return nil
	})
	wait := func() {
		t.Helper()
		for range n {
			select {
			case <-told:
			case <-time.After(30 * time.Second):
				t.Fatal("rules do not arrive")
			}
		}
	}
	name := func(i int) string { return fmt.Sprintf("sentinel/%d/flow", i) }
	for i := range n {
		s.put(name(i), `[{"resource":"a","count":1}]`)
	}
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	measure := func() (goroutines, bytes int) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), int(m.HeapAlloc + m.StackInuse)
	}
	goroutines, bytes := measure()
	all := make([]*datasource.Readable[int], n)
	for i := range all {
		src, err := NewSource(c, name(i), Shared(shared))
		if err != nil {
			t.Fatal(err)
		}
		if all[i], err = datasource.New(src, sizes{}, listener, datasource.Logger(nil)); err != nil {
			t.Fatal(err)
		}
		if err := all[i].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer all[i].Close()
	}
	wait()
	for i := range n { // each is subscribed: each hears of its change
		s.put(name(i), `[{"resource":"a","count":22}]`)
		s.announce(name(i), "")
	}
	wait()
	more, heap := measure()
	t.Logf("%d goroutines, %d bytes for each of %d readables, %d connections", (more-goroutines)/n, (heap-bytes)/n, n, s.connections())
	if more -= goroutines; more > 2*n+20 {
		t.Errorf("%d goroutines for %d readables", more, n)
	}
	if per := (heap - bytes) / n; per > 16<<10 && !raceDetector {
		t.Errorf("%d bytes for each readable", per)
	}
	if subscribers := s.subscribers(); subscribers != 1 {
		t.Errorf("%d connections with subscriptions", subscribers)
	}
}
