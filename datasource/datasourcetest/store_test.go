package datasourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

func text(t *testing.T, src datasource.Source) string {
	t.Helper()
	doc, err := src.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return doc.Presence.String() + " " + string(doc.Data)
}

func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

// watching starts a watch of the pushed flavour and gives what it delivered so far.
func watching(t *testing.T, s *Store) (delivered func() string) {
	t.Helper()
	src := s.Source("k", Pushed).(datasource.Watcher)
	last, err := src.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var log []string
	var wg sync.WaitGroup
	wg.Go(func() {
		err := src.Watch(ctx, last, func(doc datasource.Document) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, doc.Presence.String()[:1]+string(doc.Data))
		})
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			log = append(log, errors.Unwrap(err).Error())
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	synctest.Wait()
	return func() string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(log)
	}
}

func TestStaleReads(t *testing.T) {
	s := NewStore()
	s.Put("k", []byte("1"))
	s.Put("k", []byte("2"))
	src := s.Source("k", Pulled)
	s.Inject(Faults{StaleEmpty: 1, StaleOld: 1})
	wantText(t, "first", text(t, src), "missing ")
	wantText(t, "second", text(t, src), "present 1")
	wantText(t, "third", text(t, src), "present 2")
}

func TestNotificationFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults Faults
		want   string
	}{
		{"healthy", Faults{}, "[p1 p2 m p3]"},
		{"every second is lost", Faults{LoseEvery: 2}, "[p1 m]"},
		{"repeated and reordered, the driver sorts it out", Faults{Duplicate: true, Reorder: true}, "[p1 p2 m p3]"},
		{"stalled", Faults{Stalled: true}, "[]"},
		{"late", Faults{Latency: time.Second}, "[p1 p2 m p3]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewStore()
				delivered := watching(t, s)
				s.Inject(c.faults)
				s.Put("k", []byte("1"))
				s.Put("k", []byte("2"))
				s.Delete("k")
				s.Put("k", []byte("3"))
				time.Sleep(5 * time.Second)
				wantText(t, "delivered", delivered(), c.want)
			})
		})
	}
}

func TestCutCompactAndRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		s.Put("k", []byte("1"))
		src := s.Source("k", Pushed).(datasource.Watcher)
		old, err := src.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		delivered := watching(t, s)
		s.CutWatches(ErrCut)
		wantText(t, "cut", delivered(), "["+ErrCut.Error()+"]")
		s.Put("k", []byte("2"))
		s.Compact()
		if err := src.Watch(t.Context(), old, nil); !errors.Is(err, ErrCompacted) {
			t.Errorf("watch from before the compaction: %v", err)
		}
		newest, err := src.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.Restore(0, Op{Key: "k", Data: []byte("0")})
		if err := src.Watch(t.Context(), newest, nil); !errors.Is(err, ErrReset) {
			t.Errorf("watch from before the restore: %v", err)
		}
		wantText(t, "restored", text(t, src), "present 0")
		if s.Revision() != 1 {
			t.Errorf("revision %d", s.Revision())
		}
	})
}

func TestBeforeWatchFallsBetweenReadAndWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		s.Inject(Faults{BeforeWatch: func() { s.Put("k", []byte("1")) }})
		wantText(t, "delivered", watching(t, s)(), "[p1]")
	})
}

func TestStallAndLatencyEndWithTheContext(t *testing.T) {
	for name, f := range map[string]Faults{"stalled": {Stalled: true}, "slow": {Latency: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewStore()
				s.Inject(f)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begin := time.Now()
				_, err := s.Source("k", Pulled).Read(ctx)
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
					t.Errorf("%v after %v", err, time.Since(begin))
				}
			})
		})
	}
}

func TestLostAnswerIsResolvedByReadingBack(t *testing.T) {
	s := NewStore()
	sink := s.Sink("k", Pushed)
	s.Inject(Faults{LostAnswer: ErrBroken})
	doc, err := sink.Write(t.Context(), []byte("1"), writable.Absent)
	if err != nil || doc.Revision != "1" || !bytes.Equal(doc.Data, []byte("1")) {
		t.Fatalf("%v, %v", doc, err)
	}
	s.Inject(Faults{LostAnswer: ErrBroken, Reads: ErrBroken})
	if _, err := sink.Write(t.Context(), []byte("2"), "1"); !errors.Is(err, datasource.ErrUnknownOutcome) {
		t.Errorf("neither answer nor read-back: %v", err)
	}
	s.Inject(Faults{LostAnswer: ErrBroken, StaleOld: 1})
	if _, err := sink.Write(t.Context(), []byte("3"), "2"); !errors.Is(err, ErrBroken) || errors.Is(err, datasource.ErrUnknownOutcome) {
		t.Errorf("read back as something else: %v", err)
	}
}

func TestCountsAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		watching(t, s)
		if s.Requests() != 2 || s.Subscriptions() != 1 || s.Closes() != 0 {
			t.Errorf("%d requests, %d subscriptions, %d closes", s.Requests(), s.Subscriptions(), s.Closes())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Source("k", Pulled).Read(t.Context()); !errors.Is(err, ErrStoreClosed) {
			t.Errorf("read after Close: %v", err)
		}
		if s.Subscriptions() != 0 || s.Closes() != 1 {
			t.Errorf("%d subscriptions, %d closes", s.Subscriptions(), s.Closes())
		}
	})
}

func TestStoreKeepsNobodysBytes(t *testing.T) {
	s := NewStore()
	data := []byte("1")
	s.Put("k", data)
	data[0] = 'x'
	src := s.Source("k", Pulled)
	doc, err := src.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	doc.Data[0] = 'y'
	wantText(t, "read", text(t, src), "present 1")
}
