package redis

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
)

// What ten idle minutes of twenty sources on one client cost on the wire: a read of each per relist, and for the one
// connection that all are told over a ping in half of Silence.
//
// faults: F119 F120
func TestTenIdleMinutesOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := s.client(t)
		shared, err := NewSubscriptions(c)
		if err != nil {
			t.Fatal(err)
		}
		const n = 20
		for i := range n {
			name := "sentinel/" + string(rune('a'+i))
			s.put(name, "[1]")
			src, err := NewSource(c, name, Shared(shared))
			if err != nil {
				t.Fatal(err)
			}
			r, err := datasource.New(src, sizes{}, property.ListenerFunc[[]int](func(context.Context, []int) error { return nil }), datasource.Logger(nil))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer r.Close()
		}
		time.Sleep(time.Minute)
		counts := func() (copied map[string]int) {
			s.set(func() { copied = maps.Clone(s.counts) })
			return copied
		}
		before := counts()
		time.Sleep(10 * time.Minute)
		reads, pings, others := 0, 0, 0
		for cmd, sent := range counts() {
			switch sent -= before[cmd]; cmd {
			case "get", "getrange":
				reads += sent
			case "ping":
				pings += sent
			default:
				others += sent
			}
		}
		t.Logf("each of %d sources: %.1f reads; all together: %d pings, %d other commands, %d connections", n, float64(reads)/n, pings, others, s.connections())
		if reads > n*12 || pings > 41 || others > 0 || s.subscribers() != 1 {
			t.Errorf("%d reads, %d pings, %d others, %d subscribed connections", reads, pings, others, s.subscribers())
		}
	})
}
