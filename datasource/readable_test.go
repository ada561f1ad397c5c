package datasource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
)

const (
	v1 = `[{"Name":"a","Max":1}]`
	v2 = `[{"Name":"a","Max":2}]`
	v3 = `[{"Name":"a","Max":3}]`
)

func TestPullReadsEachIntervalAndAppliesChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := &store{}, &engine{}
		s.put(v1)
		r := start(t, s, e)
		want(t, "after Start", e.got(), "[[{a 1}]]")
		s.put(v2)
		pass(DefaultInterval * 11 / 10)
		want(t, "after an interval", e.got(), "[[{a 1}] [{a 2}]]")
		st := r.Status()
		want(t, "status", words(st.State, st.Revision, st.Rules, st.Generation, st.LastChannel, st.LastError), "live 2 1 2 read <nil>")
		pass(10 * time.Minute)
		reads, _ := s.count()
		if reads < 180 || reads > 225 {
			t.Errorf("%d reads in ten minutes of 3 s", reads)
		}
		want(t, "unchanged documents tell nobody", e.got(), "[[{a 1}] [{a 2}]]")
	})
}

// faults: F081 F083
func TestPushAppliesWhatIsDeliveredAndRelists(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.put(v1)
		r := start(t, s, e)
		s.deliver(s.put(v2))
		synctest.Wait()
		want(t, "delivered", e.got(), "[[{a 1}] [{a 2}]]")
		want(t, "channel", r.Status().LastChannel, "watch")
		reads, _ := s.count()
		want(t, "a delivered document is not read again", reads, 1)

		s.put(v3) // the notification is lost
		pass(DefaultRelist * 11 / 10)
		want(t, "relisted", e.got(), "[[{a 1}] [{a 2}] [{a 3}]]")
		want(t, "channel", r.Status().LastChannel, "read")
		pass(time.Hour)
		reads, watches := s.count()
		if reads > 70 || watches != 1 {
			t.Errorf("idle for an hour: %d reads, %d watches", reads, watches)
		}
	})
}

func TestHintMakesOneRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.put(v1)
		start(t, s, e)
		s.put(v2)
		s.deliver(Hint())
		synctest.Wait()
		want(t, "read", e.got(), "[[{a 1}] [{a 2}]]")
	})
}

// faults: F076 F119 F122
func TestBurstOfHintsCostsFewReadsAndEndsWithTheNewest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.put(v1)
		start(t, s, e)
		for i := range 1000 {
			s.put(fmt.Sprintf(`[{"Name":"a","Max":%d}]`, i))
			s.deliver(Hint())
			pass(20 * time.Microsecond)
		}
		pass(100 * time.Millisecond)
		reads, _ := s.count()
		if reads > 40 {
			t.Errorf("%d reads for a burst of 1000 hints", reads)
		}
		if !strings.HasSuffix(e.got(), "[{a 999}]]") {
			t.Error("the newest is not in force")
		}
	})
}

// faults: F073 F087 F125
func TestE10FailedApplyIsRetriedAlthoughTheStoreIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.put(v1)
		r := start(t, s, e)
		e.do(func() { e.fails = 3 })
		s.deliver(s.put(v2))
		synctest.Wait()
		st := r.Status()
		want(t, "while it fails", words(st.State, st.Cause, st.Revision, st.StoreRevision), "degraded apply 1 2")
		pass(10 * time.Second)
		want(t, "retried", e.got(), "[[{a 1}] [{a 2}]]")
		st = r.Status()
		want(t, "after", words(st.State, st.Revision, st.LastError, st.Counts.ApplyFailures), "live 2 <nil> 3")
	})
}

func TestNewerDocumentReplacesOneThatAListenerRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.put(v1)
		r := start(t, s, e)
		e.do(func() { e.fails = 1 })
		s.deliver(s.put(v2))
		synctest.Wait()
		s.deliver(s.put(v3))
		pass(time.Minute)
		want(t, "calls", e.got(), "[[{a 1}] [{a 3}]]")
		want(t, "state", r.Status().State, StateLive)
	})
}

func TestStoreGoesBackWhileTheNewDocumentWasTakenByOneListenerOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e, second := pushed{&store{}}, &engine{}, &engine{}
		s.put(v1)
		r := start(t, s, e)
		if _, err := r.Property().Add(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		second.do(func() { second.fails = 1 })
		s.deliver(s.put(v2))
		synctest.Wait()
		s.deliver(s.put(v1))
		synctest.Wait()
		want(t, "first", e.got(), "[[{a 1}] [{a 2}] [{a 1}]]")
		want(t, "second", second.got(), "[[{a 1}] [{a 1}]]")
		s.deliver(s.put(v2))
		second.do(func() { second.fails = 1 })
		synctest.Wait()
		// A refused document after a half-taken one: all get the rules in force.
		s.deliver(s.put(`{`))
		pass(time.Minute)
		if a, b := e.got(), second.got(); a[strings.LastIndex(a, "{"):] != b[strings.LastIndex(b, "{"):] {
			t.Fatalf("listeners differ: %s and %s", a, b)
		}
		_ = r
	})
}

func TestLateListenerThatRefusesIsRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e, late := &store{}, &engine{}, &engine{fails: 2}
		s.put(v1)
		r := start(t, s, e)
		if _, err := r.Property().Add(t.Context(), late); err == nil {
			t.Fatal("the refusal is hidden")
		}
		pass(10 * time.Second)
		want(t, "late", late.got(), "[[{a 1}]]")
		want(t, "first", e.got(), "[[{a 1}]]")
	})
}

// The store's answer while v1 is in force.
//
// faults: F003 F007 F016 F019
func TestGuardTable(t *testing.T) {
	tooLarge := `[{"Name":"` + strings.Repeat("x", 200) + `","Max":1}]`
	cases := []struct {
		name  string
		doc   Document
		opts  []Option
		calls string
		cause Cause
		is    error
	}{
		{name: "missing", doc: Document{Presence: Missing, Order: 9}, cause: CauseMissing, is: ErrMissing},
		{name: "missing, Clear", doc: Document{Presence: Missing, Order: 9}, opts: []Option{OnMissing(Clear)}, calls: " []"},
		{name: "zero bytes", doc: doc(9, ``), cause: CauseEmpty, is: ErrDecode},
		{name: "empty list", doc: doc(9, `[]`), cause: CauseEmptyList, is: ErrRefused},
		{name: "empty list, Clear", doc: doc(9, `[]`), opts: []Option{OnEmptyList(Clear)}, calls: " []"},
		{name: "no JSON", doc: doc(9, `<html>`), cause: CauseDecode, is: ErrDecode},
		{name: "wrong shape", doc: doc(9, `{}`), cause: CauseDecode, is: ErrDecode},
		{name: "too large", doc: doc(9, tooLarge), opts: []Option{MaxBytes(100)}, cause: CauseDecode, is: ErrTooLarge},
		{name: "one invalid", doc: doc(9, `[{"Name":"a","Max":5},{"Name":"b","Max":-1}]`), cause: CauseInvalid, is: ErrInvalid},
		{name: "one invalid, SkipRule", doc: doc(9, `[{"Name":"b","Max":-1},{"Name":"a","Max":5}]`), opts: []Option{OnInvalid(SkipRule)}, calls: " [{a 5}]"},
		{name: "all invalid, SkipRule", doc: doc(9, `[{"Name":"b","Max":-1}]`), opts: []Option{OnInvalid(SkipRule)}, cause: CauseInvalid, is: ErrInvalid},
		{name: "shrink", doc: doc(9, `[{"Name":"b","Max":1}]`), opts: []Option{MaxShrink(0.5)}, cause: CauseShrink, is: ErrRefused},
		{name: "shrink, not set", doc: doc(9, `[{"Name":"b","Max":1}]`), calls: " [{b 1}]"},
		{name: "an edit is no shrink", doc: doc(9, v2), opts: []Option{MaxShrink(0.5)}, calls: " [{a 2}]"},
	}
	for _, push := range []bool{false, true} {
		for _, c := range cases {
			t.Run(fmt.Sprintf("push=%v/%s", push, c.name), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s, e := &store{}, &engine{}
					s.set(doc(5, v1))
					var src Source = s
					if push {
						src = pushed{s}
					}
					r := start(t, src, e, c.opts...)
					s.set(c.doc)
					if push {
						pushed{s}.deliver(c.doc)
					}
					pass(2 * DefaultRelist)
					want(t, "calls", e.got(), "[[{a 1}]"+c.calls+"]")
					st := r.Status()
					want(t, "cause", st.Cause, c.cause)
					if c.cause == CauseNone {
						want(t, "state", st.State, StateLive)
						want(t, "revision", st.Revision, c.doc.Revision)
						return
					}
					want(t, "state", st.State, StateDegraded)
					want(t, "the revision in force did not advance", st.Revision, "5")
					want(t, "counted once", st.Refused[c.cause], 1)
					if !errors.Is(st.LastError, c.is) || !errors.Is(st.LastError, ErrRefused) {
						t.Errorf("error %v is not %v", st.LastError, c.is)
					}
					var de *Error
					if !errors.As(st.LastError, &de) || de.SourceID != "fake:limits" {
						t.Errorf("error %v does not name the source", st.LastError)
					}
					// The store's good document comes back: live again, and nobody is told what they have.
					s.set(doc(10, v1))
					if push {
						pushed{s}.deliver(s.doc)
					}
					pass(2 * DefaultRelist)
					st = r.Status()
					want(t, "after", words(st.State, st.LastError, st.Refused[c.cause], st.Pending), "live <nil> 1 <nil>")
					want(t, "calls", e.got(), "[[{a 1}]]")
				})
			})
		}
	}
}

// faults: F012 F013
func TestStaleEmptyReadDoesNotClearEvenWhereClearingIsWanted(t *testing.T) {
	for name, empty := range map[string]Document{"missing": {Presence: Missing}, "empty list": doc(0, `[]`)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, e := &store{}, &engine{}
				good := doc(0, v1)
				s.set(good)
				start(t, s, e, OnMissing(Clear), OnEmptyList(Clear))
				s.mu.Lock()
				s.queue = []Document{empty}
				s.mu.Unlock()
				pass(time.Minute)
				want(t, "one empty read", e.got(), "[[{a 1}]]")
				s.set(empty)
				pass(5 * time.Second)
				want(t, "two that agree", e.got(), "[[{a 1}] []]")
			})
		})
	}
}

// faults: F067 F143
func TestOlderRevisionIsIgnored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.set(doc(7, v2))
		r := start(t, s, e)
		s.deliver(doc(6, v1))
		synctest.Wait()
		want(t, "delivered late", e.got(), "[[{a 2}]]")
		s.mu.Lock()
		s.queue = []Document{doc(6, v1)} // a lagging server answers once
		s.mu.Unlock()
		pass(3 * DefaultRelist)
		want(t, "read from a lagging server", e.got(), "[[{a 2}]]")
		st := r.Status()
		want(t, "older", st.Counts.Older, 2)
		want(t, "state", st.State, StateLive)
	})
}

// faults: F069 F070
func TestRestoredStoreWithALowerRevisionIsBelievedWhenTwoReadsAgree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.set(doc(900, v1))
		r := start(t, s, e)
		s.set(doc(12, v2))
		s.cut()
		pass(3 * time.Second)
		want(t, "calls", e.got(), "[[{a 1}] [{a 2}]]")
		want(t, "revision", r.Status().Revision, "12")
		s.mu.Lock()
		want(t, "the new watch joins the restored revision", s.last.Order, 12)
		s.mu.Unlock()
		s.deliver(doc(13, v3))
		synctest.Wait()
		want(t, "calls", e.got(), "[[{a 1}] [{a 2}] [{a 3}]]")
	})
}

// A store that was restored from a backup counts on from there, so it gives a revision twice: etcd's mod revision after
// "etcdctl snapshot restore". Two documents of one revision and one length are two documents all the same.
//
// faults: F069
func TestRestoredStoreThatGivesTheSameRevisionAgainIsNotTakenForUnchanged(t *testing.T) {
	for name, c := range map[string]struct {
		before, restored []Document
		calls            string
	}{
		"in force":                       {[]Document{doc(900, v1)}, []Document{doc(900, v2)}, "[[{a 1}] [{a 2}]]"},
		"refused":                        {[]Document{doc(899, v3), doc(900, `[{"Name":"a","Max":x}]`)}, []Document{doc(900, v2)}, "[[{a 3}] [{a 2}]]"},
		"fallen":                         {[]Document{doc(900, v1), doc(901, `{}`)}, []Document{doc(900, v2)}, "[[{a 1}] [{a 2}]]"},
		"seen before the revision comes": {[]Document{doc(900, v1)}, []Document{doc(899, `{}`), doc(900, v2)}, "[[{a 1}] [{a 2}]]"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, e := pushed{&store{}}, &engine{}
				s.set(c.before[0])
				r := start(t, s, e)
				for _, d := range c.before[1:] {
					s.set(d)
					s.deliver(d)
					synctest.Wait()
				}
				s.set(c.restored[0])
				s.cut()
				pass(5 * time.Second)
				for _, d := range c.restored[1:] {
					s.set(d)
					s.deliver(d)
					synctest.Wait()
				}
				want(t, "calls", e.got(), c.calls)
				want(t, "revision", r.Status().Revision, "900")
				want(t, "state", r.Status().State, StateLive)
			})
		})
	}
}

// The same between the read and the watch: the driver joins the other store without knowing, and the relist finds it.
//
// faults: F069
func TestStoreThatWasReplacedBetweenReadAndWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.set(doc(900, v1))
		s.onRead = func() { s.set(doc(900, v2)) }
		start(t, s, e)
		pass(time.Minute + 10*time.Second)
		want(t, "calls", e.got(), "[[{a 1}] [{a 2}]]")
	})
}

// The same, where the store was restored while the process was down.
//
// faults: F069
func TestSnapshotOfARevisionThatARestoredStoreGivesAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.set(Document{Presence: Missing}) // with which the snapshot stays, as it would while running
		start(t, s, e, OnStart(Snapshot), Snapshots(&memory{doc: doc(900, v1)}))
		s.set(doc(900, v2))
		s.deliver(doc(900, v2))
		synctest.Wait()
		want(t, "calls", e.got(), "[[{a 1}] [{a 2}]]")
	})
}

// faults: F068 F091 F130
func TestResyncWithEqualContentLoadsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.put(v1)
		r := start(t, s, e)
		for range 5 {
			s.cut()
			pass(5 * time.Second * 10)
			s.put(v1)
		}
		want(t, "calls", e.got(), "[[{a 1}]]")
		if r.Status().Counts.Reconnects != 5 {
			t.Errorf("reconnects: %d", r.Status().Counts.Reconnects)
		}
	})
}

// faults: F116 F117 F121 F118
func TestFailingStoreCostsAtMostOneRequestPerSecondAfterFiveSeconds(t *testing.T) {
	for name, breakIt := range map[string]func(*store){
		"reads fail":   func(s *store) { s.fail(errors.New("503")) },
		"watches fail": func(s *store) { s.mu.Lock(); s.watchErr = errors.New("403"); close(s.ended); s.mu.Unlock() },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // the waits are random
				bubble(t, func(t *testing.T) {
					s, e := pushed{&store{}}, &engine{}
					s.put(v1)
					start(t, s, e)
					breakIt(s.store)
					if name == "reads fail" {
						s.deliver(Hint())
					}
					pass(5 * time.Second)
					r0, w0 := s.count()
					for range 60 {
						s.mu.Lock()
						live := s.live
						s.mu.Unlock()
						live(Hint()) // a client that reports each of its own failures must not speed it up
						pass(time.Second)
					}
					r1, w1 := s.count()
					if n := r1 - r0 + w1 - w0; n > 60 {
						t.Fatalf("%d requests in a minute", n)
					}
					want(t, "calls", e.got(), "[[{a 1}]]")
				})
			}
		})
	}
}

func TestBackoffStartsOverAfterTwoQuietMinutes(t *testing.T) {
	b := backoff{first: DefaultMinBackoff, longest: DefaultMaxBackoff}
	now := time.Unix(0, 0)
	for range 10 {
		now = now.Add(b.next(now))
	}
	if d := b.next(now.Add(119 * time.Second)); d < 15*time.Second {
		t.Errorf("after 119 s: %v", d)
	}
	b.last = now
	if d := b.next(now.Add(2 * time.Minute)); d > 500*time.Millisecond {
		t.Errorf("after two quiet minutes: %v", d)
	}
}

// faults: F025 F177
func TestConverterPanicIsAnErrorAndIsRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.put(v1)
		panics := 0
		good := limits()
		c := converterFunc(func(data []byte) (converter.Decoded[limit], error) {
			if string(data) == v2 && panics < 2 {
				panics++
				panic("half-built converter")
			}
			return good.Decode(data)
		})
		r, err := New[limit](s, c, e, Logger(nil))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.deliver(s.put(v2))
		synctest.Wait()
		st := r.Status()
		want(t, "state", words(st.State, st.Cause, st.Revision), "degraded decode 1")
		if st.LastError == nil || strings.Contains(fmt.Sprint(e.got()), "{a 2}") {
			t.Fatal("a panic passes for success")
		}
		pass(10 * time.Second)
		want(t, "calls", e.got(), "[[{a 1}] [{a 2}]]")
	})
}

type converterFunc func([]byte) (converter.Decoded[limit], error)

func (f converterFunc) Decode(data []byte) (converter.Decoded[limit], error) { return f(data) }
func (f converterFunc) Encode([]limit) ([]byte, error)                       { return nil, ErrUnsupported }

func TestPanicsOfDriversListenersAndObserversStayInside(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.put(v1)
		r := start(t, s, e, WithObserver(ObserverFunc(func(Event) { panic("observer") })))
		s.mu.Lock()
		s.onRead = func() { panic("driver") }
		s.mu.Unlock()
		s.deliver(Hint())
		synctest.Wait()
		want(t, "state", words(r.Status().State, r.Status().Cause), "degraded read")
		s.mu.Lock()
		s.onRead = nil
		s.mu.Unlock()
		pass(time.Minute)
		want(t, "state", r.Status().State, StateLive)
		if _, err := r.Property().Add(t.Context(), property.ListenerFunc[[]limit](func(context.Context, []limit) error { panic("listener") })); !errors.Is(err, property.ErrPanic) {
			t.Fatal(err)
		}
		pass(time.Minute)
	})
}

// faults: F094 F099 F150 F151
func TestStartPolicies(t *testing.T) {
	down := errors.New("connection refused")
	t.Run("Fail", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s, e := &store{err: down}, &engine{}
			r := made(t, s, e)
			if err := r.Start(t.Context()); !errors.Is(err, down) {
				t.Fatalf("Start: %v", err)
			}
			n, _ := s.count()
			pass(time.Hour)
			if m, _ := s.count(); m != n {
				t.Fatal("something goes on after a failed start")
			}
			// F094, F096: a Start after a failed one works.
			s.fail(nil)
			s.put(v1)
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := r.Start(t.Context()); err != nil {
				t.Fatal("second Start:", err)
			}
			want(t, "calls", e.got(), "[[{a 1}]]")
		})
	})
	t.Run("Fail on a bad document", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s, e := &store{}, &engine{}
			s.put(`nonsense`)
			r := made(t, s, e)
			if err := r.Start(t.Context()); !errors.Is(err, ErrDecode) || !errors.Is(err, ErrRefused) {
				t.Fatalf("Start: %v", err)
			}
		})
	})
	t.Run("Wait", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s, e := &store{err: down}, &engine{}
			r := made(t, s, e, OnStart(Wait(10*time.Second)))
			time.AfterFunc(4*time.Second, func() { s.fail(nil); s.put(v1) })
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			want(t, "calls", e.got(), "[[{a 1}]]")
		})
	})
	t.Run("Wait in vain", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s, e := &store{err: down}, &engine{}
			r := made(t, s, e, OnStart(Wait(10*time.Second)))
			begin := time.Now()
			if err := r.Start(t.Context()); !errors.Is(err, down) {
				t.Fatalf("Start: %v", err)
			}
			want(t, "waited", time.Since(begin), 10*time.Second)
		})
	})
	t.Run("Empty", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s, e := &store{err: down}, &engine{}
			r := start(t, s, e, OnStart(Empty))
			want(t, "calls", e.got(), "[]")
			want(t, "state", words(r.Status().State, r.Status().Cause), "degraded read")
			// F099: the store comes up later.
			s.fail(nil)
			s.put(v1)
			pass(time.Minute)
			want(t, "calls", e.got(), "[[{a 1}]]")
			want(t, "state", r.Status().State, StateLive)
		})
	})
	t.Run("ctx ends", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s, e := &store{err: down}, &engine{}
			r := made(t, s, e, OnStart(Wait(time.Hour)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := r.Start(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, down) {
				t.Fatalf("Start: %v", err)
			}
		})
	})
}

// faults: F018 F093 F096 F100 F152
func TestMissingAtStartThenCreated(t *testing.T) {
	for _, push := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			s, e := &store{doc: Document{Presence: Missing}}, &engine{}
			var src Source = s
			if push {
				src = pushed{s}
			}
			r := start(t, src, e)
			want(t, "state", words(r.Status().State, r.Status().Cause, r.Status().Presence), "degraded missing missing")
			want(t, "nobody is told of nothing", e.got(), "[]")
			d := s.put(v1)
			if push {
				pushed{s}.deliver(d)
			}
			pass(5 * time.Second)
			want(t, "calls", e.got(), "[[{a 1}]]")
			want(t, "state", r.Status().State, StateLive)
			want(t, "nothing was refused", len(r.Status().Refused), 0)
		})
	}
}

// memory keeps snapshots for tests.
type memory struct {
	mu    sync.Mutex
	doc   Document
	saved time.Time
	err   error
	saves int
}

func (m *memory) Save(_ context.Context, _ string, doc Document) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saves++
	if m.err == nil {
		m.doc, m.saved = doc, time.Now()
	}
	return m.err
}

func (m *memory) Load(context.Context, string) (Document, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil && m.doc.Presence == Unknown {
		return Document{}, time.Time{}, ErrMissing
	}
	return m.doc, m.saved, m.err
}

// faults: F166 F167 F169 F170
func TestE13StartWithTheStoreDownAndASnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		snap := &memory{}
		s, e := &store{}, &engine{}
		s.set(doc(5, v1))
		first := start(t, s, e, Snapshots(snap))
		want(t, "saved", string(snap.doc.Data), v1)
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)

		down := errors.New("down")
		s.fail(down)
		e = &engine{}
		r := start(t, s, e, Snapshots(snap), OnStart(Snapshot))
		want(t, "rules of the snapshot", e.got(), "[[{a 1}]]")
		st := r.Status()
		want(t, "state", words(st.State, st.Cause, st.LastChannel), "stale read snapshot")
		if age := time.Since(st.SnapshotSaved); age < time.Hour || age > time.Hour+time.Minute {
			t.Errorf("age of the snapshot: %v", age)
		}
		if !errors.Is(st.LastError, down) {
			t.Errorf("last error: %v", st.LastError)
		}
		// The server wins once it can be reached, also with a lower revision than the snapshot's.
		s.fail(nil)
		s.set(doc(2, v2))
		pass(time.Minute)
		want(t, "calls", e.got(), "[[{a 1}] [{a 2}]]")
		st = r.Status()
		want(t, "state", words(st.State, st.SnapshotSaved.IsZero(), st.LastError), "live true <nil>")
	})
}

func TestSnapshotEqualToTheStoreIsNotStaleAnyMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		snap := &memory{doc: doc(5, v1), saved: time.Now()}
		s, e := &store{err: errors.New("down")}, &engine{}
		r := start(t, s, e, Snapshots(snap), OnStart(Snapshot))
		s.fail(nil)
		s.set(doc(9, v1))
		pass(time.Minute)
		want(t, "state", r.Status().State, StateLive)
		want(t, "calls", e.got(), "[[{a 1}]]")
	})
}

// faults: F169
func TestSnapshotIsUsedWhereTheStoreLostTheDocumentWhileWeWereDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		snap := &memory{doc: doc(5, v1), saved: time.Now()}
		s, e := &store{doc: Document{Presence: Missing}}, &engine{}
		r := start(t, s, e, Snapshots(snap), OnStart(Snapshot))
		want(t, "calls", e.got(), "[[{a 1}]]")
		want(t, "state", words(r.Status().State, r.Status().Cause), "stale missing")
		pass(time.Minute)
		want(t, "calls", e.got(), "[[{a 1}]]")
		s.put(v2)
		pass(time.Minute)
		want(t, "calls", e.got(), "[[{a 1}] [{a 2}]]")
	})
}

// faults: F167
func TestCorruptSnapshotIsIgnoredWithAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		corrupt := errors.New("corrupt")
		snap := &memory{err: corrupt}
		s, e := &store{err: errors.New("down")}, &engine{}
		r := made(t, s, e, Snapshots(snap), OnStart(Snapshot))
		if err := r.Start(t.Context()); !errors.Is(err, corrupt) {
			t.Fatalf("Start: %v", err)
		}
		r = made(t, s, e, Snapshots(snap), OnStart(Snapshot, Empty))
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(r.Status().SnapshotError, corrupt) {
			t.Errorf("status: %v", r.Status().SnapshotError)
		}
		// A save that fails never fails a good read.
		s.fail(nil)
		s.put(v1)
		pass(time.Minute)
		want(t, "calls", e.got(), "[[{a 1}]]")
		want(t, "state", r.Status().State, StateLive)
	})
}

// faults: F145 F146 F147 F149
func TestCloseIsSafeInEveryStateTwiceAndAtOnce(t *testing.T) {
	close2 := func(t *testing.T, r *Readable[limit]) {
		t.Helper()
		begin := time.Now()
		done := make(chan error, 3)
		for range 3 {
			go func() { done <- r.Close() }()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d >= time.Second {
			t.Errorf("Close took %v", d)
		}
		want(t, "state", r.Status().State, StateClosed)
		if err := r.Start(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Start after Close: %v", err)
		}
		if err := r.Refresh(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Refresh after Close: %v", err)
		}
	}
	t.Run("before Start", func(t *testing.T) {
		bubble(t, func(t *testing.T) { close2(t, made(t, &store{}, &engine{})) })
	})
	t.Run("during the first read", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			r := made(t, hanging{}, &engine{})
			started := make(chan error, 1)
			go func() { started <- r.Start(context.Background()) }()
			synctest.Wait()
			close2(t, r)
			if err := <-started; !errors.Is(err, ErrClosed) {
				t.Errorf("Start: %v", err)
			}
		})
	})
	t.Run("during backoff", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			r := start(t, &store{err: errors.New("down")}, &engine{}, OnStart(Empty))
			pass(time.Minute)
			close2(t, r)
		})
	})
	t.Run("while watching", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := pushed{&store{}}
			s.put(v1)
			e := &engine{}
			r := start(t, s, e)
			live := s.live
			close2(t, r)
			live(doc(99, v3)) // F146: a callback that comes too late reaches nobody
			pass(time.Minute)
			want(t, "calls", e.got(), "[[{a 1}]]")
		})
	})
}

type hanging struct{}

func (hanging) ID() string { return "fake:hanging" }
func (hanging) Read(ctx context.Context) (Document, error) {
	<-ctx.Done()
	return Document{}, ctx.Err()
}

// faults: F089
func TestHangingReadIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := made(t, hanging{}, &engine{}, ReadTimeout(2*time.Second))
		begin := time.Now()
		err := r.Start(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 2*time.Second {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestDriverThatDoesNotStopIsReportedAndDoesNotHoldUpClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		stuck := make(chan struct{})
		s := &store{onRead: func() { <-stuck }}
		r, err := New(s, limits(), &engine{}, Logger(nil))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = r.Start(context.Background()) }()
		synctest.Wait()
		if err := r.Close(); !errors.Is(err, errNotStopped) {
			t.Errorf("Close: %v", err)
		}
		close(stuck)
	})
}

func TestPendingAndAccept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := &store{}, &engine{}
		s.set(doc(1, `[{"Name":"a","Max":1},{"Name":"b","Max":1},{"Name":"c","Max":1}]`))
		r := start(t, s, e, MaxShrink(0.5))
		s.set(doc(2, `[{"Name":"a","Max":7}]`))
		if err := r.Refresh(t.Context()); !errors.Is(err, ErrRefused) {
			t.Fatalf("Refresh: %v", err)
		}
		p := r.Status().Pending
		if p == nil {
			t.Fatal("nothing is pending")
		}
		want(t, "pending", words(p.Revision, p.Cause, p.Rules, p.Added, p.Changed, p.Removed, len(p.Diff)), "2 shrink 1 0 1 2 3")
		if err := r.Accept(t.Context(), "1"); !errors.Is(err, ErrConflict) {
			t.Errorf("Accept of another revision: %v", err)
		}
		if err := r.Accept(t.Context(), "2"); err != nil {
			t.Fatal(err)
		}
		want(t, "in force", e.calls[len(e.calls)-1], "[{a 7}]")
		st := r.Status()
		want(t, "status", words(st.State, st.Revision, st.Pending, st.LastError, st.LastChannel), "live 2 <nil> <nil> accept")
		if err := r.Accept(t.Context(), "2"); !errors.Is(err, ErrMissing) {
			t.Errorf("Accept twice: %v", err)
		}
		s.set(doc(3, `[]`))
		_ = r.Refresh(t.Context())
		want(t, "pending", r.Status().Pending.Cause, CauseEmptyList)
		s.set(doc(4, `nonsense`))
		_ = r.Refresh(t.Context())
		if r.Status().Pending != nil {
			t.Error("a newer document that can't be accepted leaves the old candidate pending")
		}
		want(t, "refused", r.Status().Refused, "map[decode:1 empty_list:1 shrink:1]")
	})
}

func TestWrittenIsAppliedAtOnceWithoutTheGuardOfAccidentsAndItsEchoIsCheap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.set(doc(1, v1))
		r := start(t, s, e, MaxShrink(0.5))
		d := doc(2, `[]`)
		s.set(d)
		if err := r.Written(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		want(t, "calls", e.got(), "[[{a 1}] []]")
		s.deliver(d)
		pass(2 * DefaultRelist)
		want(t, "echo", e.got(), "[[{a 1}] []]")
		bad := doc(3, `[{"Name":"a","Max":-1}]`)
		if err := r.Written(t.Context(), bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("an invalid edit: %v", err)
		}
		if err := r.Written(t.Context(), doc(1, v3)); err != nil {
			t.Error(err)
		}
		want(t, "an edit that is already overtaken", e.got(), "[[{a 1}] []]")
	})
}

// faults: F126
func TestE11DriftIsShownAndTheStoresNextWordWins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.set(doc(1, v1))
		r := start(t, s, e)
		e.do(func() { e.lost = true }) // a console changed the rules in memory only
		pass(2 * DefaultRelist)
		want(t, "a read of the same revision does not undo a volatile edit", e.got(), "[[{a 1}]]")
		if !r.Status().Drift {
			t.Error("status hides the drift")
		}
		s.set(doc(2, v1))
		s.deliver(s.doc) // the store says the same again
		synctest.Wait()
		want(t, "reconciled", e.got(), "[[{a 1}] [{a 1}]]")
		if r.Status().Drift {
			t.Error("still drifting")
		}
		e.do(func() { e.lost = true })
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, "Refresh reconciles", e.got(), "[[{a 1}] [{a 1}] [{a 1}]]")
	})
}

// redialled is another text each time, as the own port of each connection is another one.
type redialled struct{ port atomic.Int64 }

func (r *redialled) Error() string {
	return fmt.Sprintf("read tcp 127.0.0.1:%d->10.0.0.1:6379: connection reset by peer", 40_000+r.port.Add(1))
}

// faults: F033 F174 F175
func TestUnchangedConditionIsLoggedOnceThenNowAndThen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var buf strings.Builder
		s, e := &store{}, &engine{}
		s.put(v1)
		r, err := New(s, limits(), e, Logger(slog.New(slog.NewTextHandler(&buf, nil))))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.put(`nonsense`)
		pass(time.Hour)
		want(t, "refusals", strings.Count(buf.String(), "guard fake:limits"), 1)
		s.fail(errors.New("down"))
		pass(10 * time.Minute)
		if n := strings.Count(buf.String(), "does not answer"); n < 5 || n > 11 {
			t.Errorf("%d records in ten minutes of the same failure", n)
		}
		buf.Reset()
		s.fail(new(redialled))
		pass(10 * time.Minute)
		if n := strings.Count(buf.String(), "does not answer"); n < 5 || n > 11 {
			t.Errorf("%d records in ten minutes of a failure that has the own port in its text", n)
		}
		if strings.Contains(buf.String(), `Max`) {
			t.Error("a payload is in the log above debug") // F175
		}
	})
}

func TestObserverIsToldWhatChanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var events []string
		s, e := &store{}, &engine{}
		s.put(v1)
		r := start(t, s, e, WithObserver(ObserverFunc(func(e Event) {
			events = append(events, fmt.Sprintf("%s %s %d/%d/%d", e.Kind, e.Cause, e.Added, e.Changed, e.Removed))
		})))
		s.put(v2)
		_ = r.Refresh(t.Context())
		s.put(`[]`)
		_ = r.Refresh(t.Context())
		s.put(v2)
		_ = r.Refresh(t.Context())
		_ = r.Close()
		want(t, "events", strings.Join(events, ", "), "applied  1/0/0, applied  0/1/0, refused empty_list 0/0/1, recovered  0/0/0, closed  0/0/0")
	})
}

func TestNewRefusesWhatCanNotWork(t *testing.T) {
	s, e := &store{}, &engine{}
	for name, opts := range map[string][]Option{
		"interval":   {Interval(0)},
		"relist":     {Relist(-1)},
		"backoff":    {Backoff(time.Minute, time.Second)},
		"cap":        {MaxBytes(0)},
		"shrink":     {MaxShrink(1)},
		"action":     {OnMissing(9)},
		"invalid":    {OnInvalid(9)},
		"snapshot":   {OnStart(Snapshot)},
		"nil option": {nil},
	} {
		if _, err := New(s, limits(), e, opts...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New[limit](nil, nil, nil); err == nil { // F176
		t.Error("nil source, converter and listener: accepted")
	}
}

// What a constructor gave beside an error that nobody looked at is a nil pointer inside an interface. It would panic at the
// first document, on a goroutine of ours.
func TestATypedNilIsRefused(t *testing.T) {
	s, e, conv := pushed{&store{}}, &engine{}, limits()
	for name, try := range map[string]func() error{
		"source":    func() error { _, err := New((*pushed)(nil), conv, e); return err },
		"converter": func() error { _, err := New(s, (*nilConverter)(nil), property.Listener[[]limit](e)); return err },
		"listener":  func() error { _, err := New(s, conv, (*engine)(nil)); return err },
		"function":  func() error { _, err := New(s, conv, property.ListenerFunc[[]limit](nil)); return err },
		"manager":   func() error { _, err := New(s, conv, (*rule.Manager[limit])(nil)); return err },
		"merged": func() error {
			_, err := Merge((*rule.Manager[limit])(nil), Member[limit]{Source: s, Converter: conv})
			return err
		},
		"later": func() error {
			r, err := New(s, conv, e)
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Property().Add(t.Context(), (*engine)(nil))
			return err
		},
		"nothing at all": func() error { _, err := New[limit](nil, nil, nil); return err },
	} {
		if err := try(); !errors.Is(err, ErrNil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type nilConverter struct{ converter.Converter[limit] }

// faults: F095
func TestBadFirstDocumentThenAGoodOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.put(`nonsense`)
		r := start(t, s, e, OnStart(Empty))
		want(t, "state", words(r.Status().State, r.Status().Cause), "degraded decode")
		s.deliver(s.put(v1))
		synctest.Wait()
		want(t, "calls", e.got(), "[[{a 1}]]")
		want(t, "state", r.Status().State, StateLive)
	})
}

// ending is a source whose subscription ends without a word.
type ending struct{ *store }

func (s ending) Watch(context.Context, Document, func(Document)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches++
	return nil
}

// faults: F066 F091 F171 F172
func TestSubscriptionThatEndsWithoutAReasonIsReadAgainAndShown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := ending{&store{}}, &engine{}
		s.put(v1)
		r := start(t, s, e)
		st := r.Status()
		var de *Error
		if !errors.As(st.LastError, &de) || de.Op != "watch" || st.Cause != CauseWatch {
			t.Errorf("status: %s %v", st.Cause, st.LastError)
		}
		s.put(v2)
		pass(time.Second)
		want(t, "calls", e.got(), "[[{a 1}] [{a 2}]]")
		pass(time.Minute)
		st = r.Status()
		if st.Counts.Reconnects == 0 || st.Counts.Watches != st.Counts.Reconnects || st.Counts.Reads < st.Counts.Watches || st.LastRead.IsZero() || st.LastSuccess.IsZero() {
			t.Errorf("counts: %+v", st.Counts)
		}
	})
}

// faults: F017
func TestRepeatedDeletionsCallNobodyAndAreCountedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.set(doc(1, v1))
		r := start(t, s, e)
		for i := range 50 {
			d := Document{Presence: Missing, Order: uint64(2 + i)}
			s.set(d)
			s.deliver(d)
			s.deliver(doc(1, v1)) // an echo of the old value
			synctest.Wait()
		}
		want(t, "calls", e.got(), "[[{a 1}]]")
		want(t, "refused", r.Status().Refused, "map[missing:1]")
	})
}

// slow is a snapshot store that a Close overtakes.
type slow struct{ memory }

func (s *slow) Save(ctx context.Context, id string, doc Document) error {
	select {
	case <-time.After(100 * time.Millisecond):
		return s.memory.Save(ctx, id, doc)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// faults: F170
func TestCloseRightAfterStartDoesNotLoseTheFirstSnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		snap := &slow{}
		s, e := &store{}, &engine{}
		s.put(v1)
		r := made(t, s, e, Snapshots(snap))
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		want(t, "saved", string(snap.doc.Data), v1)
	})
}

// faults: F167
func TestSnapshotThatCouldNotBeSavedIsSavedLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		full := errors.New("disk full")
		snap := &memory{err: full}
		s, e := &store{}, &engine{}
		s.put(v1)
		r := start(t, s, e, Snapshots(snap))
		if !errors.Is(r.Status().SnapshotError, full) {
			t.Fatal("the failure is hidden")
		}
		snap.mu.Lock()
		snap.err = nil
		snap.mu.Unlock()
		pass(5 * time.Second)
		want(t, "saved", string(snap.doc.Data), v1)
		want(t, "error", r.Status().SnapshotError, nil)
		saves := snap.saves
		pass(time.Minute)
		want(t, "an unchanged document is not saved again and again", snap.saves, saves)
	})
}

func TestBadThenMissingThenTheSameBadBytesSaysWhatIsWrong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := &store{}, &engine{}
		s.set(doc(0, `nonsense`))
		r := start(t, s, e, OnStart(Empty))
		s.set(Document{Presence: Missing})
		_ = r.Refresh(t.Context())
		want(t, "missing", r.Status().Cause, CauseMissing)
		s.set(doc(0, `nonsense`))
		if err := r.Refresh(t.Context()); !errors.Is(err, ErrDecode) {
			t.Errorf("Refresh: %v", err)
		}
		st := r.Status()
		want(t, "status", words(st.Cause, st.Presence), "decode present")
	})
}

func TestCallFromInsideAListenerIsAnErrorNotADeadlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &store{}
		s.put(v1)
		var r *Readable[limit]
		var handed, plain error
		listener := property.ListenerFunc[[]limit](func(ctx context.Context, _ []limit) error {
			handed = r.Refresh(ctx)
			if s.doc.Order > 1 {
				plain = r.Refresh(context.Background()) // the ctx was not handed on: Close frees it
			}
			return nil
		})
		r, err := New(s, limits(), listener, Logger(nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(handed, errInside) {
			t.Errorf("got %v", handed)
		}
		s.put(v2)
		pass(5 * time.Second)
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		synctest.Wait()
		if !errors.Is(plain, ErrClosed) {
			t.Errorf("got %v", plain)
		}
	})
}

// faults: F049
func TestConverterThatCanNeverDecodeIsRefusedByNew(t *testing.T) {
	listener := property.ListenerFunc[[]int](func(context.Context, []int) error { return nil })
	if _, err := New(Source(&store{}), converter.JSON[int](), listener); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a type without a converter: %v", err)
	}
	flows := property.ListenerFunc[[]rule.Flow](func(context.Context, []rule.Flow) error { return nil })
	if _, err := New(Source(&store{}), converter.JSON[rule.Flow](converter.Dialect("jav")), flows); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a dialect that there is not: %v", err)
	}
}

func TestLateListenerThatRefusesIsSeenInTheStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e, late := &store{}, &engine{}, &engine{fails: 3}
		s.put(v1)
		r := start(t, s, e)
		if _, err := r.Property().Add(t.Context(), late); err == nil {
			t.Fatal("the refusal is hidden")
		}
		synctest.Wait()
		st := r.Status()
		want(t, "status", words(st.State, st.Cause, st.Revision, st.Counts.ApplyFailures), "degraded apply 1 1")
		pass(10 * time.Second)
		st = r.Status()
		want(t, "status", words(st.State, st.LastError), "live <nil>")
	})
}

func TestErrorOfAClosedReadableNamesTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := made(t, &store{}, &engine{})
		var de *Error
		if err := r.Accept(t.Context(), "1"); !errors.As(err, &de) || de.Op != "accept" {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r = made(t, hanging{}, &engine{})
		_ = r.Start(ctx)
		want(t, "state when nothing runs", r.Status().State, StateDegraded)
	})
}

// faults: F132
func TestEqualRulesAreCountedAndComparedAsOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var lines []string
		s, e := &store{}, &engine{}
		s.put(`[{"Name":"a","Max":1},{"Name":"b","Max":1},{"Name":"a","Max":1}]`)
		r := start(t, s, e, WithObserver(ObserverFunc(func(e Event) { lines = append(lines, e.Diff...) })))
		st := r.Status()
		want(t, "status", words(st.Rules, st.Duplicates), "2 1")
		want(t, "calls", e.got(), "[[{a 1} {b 1}]]")
		lines = nil
		s.put(`[{"Name":"a","Max":1},{"Name":"b","Max":1},{"Name":"a","Max":5}]`)
		_ = r.Refresh(t.Context())
		want(t, "one is added, none changes", words(len(lines), lines[0][:1], r.Status().Duplicates), "1 + 0")
	})
}

// words joins like fmt.Sprintln.
func words(v ...any) string { return strings.TrimSuffix(fmt.Sprintln(v...), "\n") }

// Start returned on the loop's word while the loop had still to write the status.
func TestStatusIsSettledWhenStartReturns(t *testing.T) {
	for range 200 {
		s, e := &store{}, &engine{}
		s.put(v1)
		r := made(t, s, e)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, "read", r.Status().State, StateLive)

		snap := &memory{doc: doc(5, v1), saved: time.Now()}
		s = &store{doc: Document{Presence: Missing}}
		r = made(t, s, e, Snapshots(snap), OnStart(Snapshot))
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		st := r.Status()
		want(t, "snapshot", words(st.State, st.Cause, st.LastSuccess.IsZero()), "stale missing true")
	}
}

// The first document of all was waiting for a busy listener when the store got a bad one instead. The listener was given the
// one that was no longer there, and no status named it.
func TestSupersededFirstDocumentComesIntoForceBesideTheStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, next := range map[string]func(s *store){
			"refused": func(s *store) { s.put(`nonsense`) },
			"deleted": func(s *store) { s.set(Document{Presence: Missing}) },
		} {
			s, e := &store{}, &engine{fails: 1}
			s.put(v1)
			r := made(t, s, e, Backoff(10*time.Second, 10*time.Second), OnStart(Empty))
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			next(s)
			pass(time.Minute)
			st := r.Status()
			want(t, name, words(e.got(), st.Generation, st.Rules, st.Revision, st.Counts.Applied), words("[]", 0, 0, "", 0))
			s.put(v2)
			pass(5 * time.Second)
			want(t, name+", a good one", e.got(), "[[{a 2}]]")
		}
	})
}
