package etcd

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

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

// The budget of a process with a thousand documents: two goroutines and 16 KiB each, one connection and one stream. What the
// server in memory holds for each watch counts against ours.
func TestThousandReadablesKeepToTheirBudget(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	const n = 1000
	told := make(chan struct{}, 4*n)
	listener := property.ListenerFunc[[]int](func(context.Context, []int) error {
		told <- struct{}{}
		return nil
	})
	arrive := func() {
		t.Helper()
		for range n {
			wait(t, "rules", told)
		}
	}
	name := func(i int) string { return fmt.Sprintf("/sentinel/%d/flow", i) }
	for i := range n {
		s.put(name(i), `[{"resource":"a","count":1}]`)
	}
	mustRead(t, newSource(t, c)) // what the client and the connection need is there
	measure := func() (goroutines, bytes int) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), int(m.HeapAlloc + m.StackInuse)
	}
	goroutines, bytes := measure()
	for i := range n {
		src, err := NewSource(c, name(i))
		if err != nil {
			t.Fatal(err)
		}
		r, err := datasource.New(src, sizes{}, listener, datasource.Logger(nil), datasource.Relist(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer r.Close()
	}
	arrive()
	s.open(t, n)
	for i := range n {
		s.put(name(i), `[{"resource":"a","count":22}]`)
	}
	arrive()
	s.do(func() { s.history = nil }) // the server's, and it runs in this process
	more, heap := measure()
	s.do(func() {
		t.Logf("%.2f goroutines, %d bytes for each of %d readables, %d connection, %d stream", float64(more-goroutines)/n, (heap-bytes)/n, n, s.dials, len(s.streams))
		if s.dials != 1 || len(s.streams) != 1 {
			t.Errorf("%d connections, %d streams", s.dials, len(s.streams))
		}
	})
	if more -= goroutines; more > 2*n+20 {
		t.Errorf("%d goroutines for %d readables", more, n)
	}
	if per := (heap - bytes) / n; per > 16<<10 && !raceDetector {
		t.Errorf("%d bytes for each readable", per)
	}
}
