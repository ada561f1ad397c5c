package apollo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apolloconfig/agollo/v4/env/config"

	"github.com/rulewire/rulewire/apollo"
	"github.com/rulewire/rulewire/apollo/apollotest"
	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
)

// bench is a server and one client's link to it, within a bubble.
type bench struct {
	*testing.T
	server *apollotest.Server
	link   *apollotest.Link
}

// inBubble runs f in fake time.
func inBubble(t *testing.T, f func(b *bench), options ...apollotest.Option) {
	synctest.Test(t, func(t *testing.T) {
		s := apollotest.NewServer(options...)
		t.Cleanup(s.Close)
		s.AddUser("rulewire")
		s.SetToken(token)
		f(&bench{t, s, s.Link()})
	})
}

func app(id string) *config.AppConfig { return &config.AppConfig{AppID: id, IP: apollotest.ConfigURL} }

func (b *bench) client(options ...apollo.ClientOption) *apollo.Client {
	return newClient(b, b.link, app(appID), options...)
}

func (b *bench) space(name string) *apollotest.Namespace {
	return b.server.Namespace(appID, "default", name)
}

func (b *bench) source(c *apollo.Client, namespace, key string, options ...apollo.Option) *apollo.Source {
	b.Helper()
	s, err := apollo.NewSource(c, namespace, key, options...)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bench) read(s *apollo.Source) datasource.Document {
	b.Helper()
	doc, err := s.Read(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return doc
}

func doc(n int) string { return fmt.Sprintf(`[{"resource":"n","count":%d}]`, n) }

// live is a readable whose listener keeps the newest number.
type live struct {
	*datasource.Readable[rule.Flow]
	n  atomic.Int64
	at atomic.Pointer[time.Time]
}

func (b *bench) open(s datasource.Source, options ...datasource.Option) *live {
	b.Helper()
	l := &live{}
	l.n.Store(-1)
	listener := property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
		n := int64(-1)
		if len(rules) > 0 {
			n = int64(rules[0].Count)
		}
		now := time.Now()
		l.at.Store(&now)
		l.n.Store(n)
		return nil
	})
	r, err := datasource.New(s, converter.JSON[rule.Flow](), listener, append([]datasource.Option{datasource.Logger(nil)}, options...)...)
	if err != nil {
		b.Fatal(err)
	}
	l.Readable = r
	b.Cleanup(func() { _ = r.Close() })
	if err := r.Start(b.Context()); err != nil {
		b.Fatal("Start:", err)
	}
	return l
}

// within gives how long it took until n was in force, and fails after limit.
func (b *bench) within(limit time.Duration, l *live, n int) time.Duration {
	b.Helper()
	begin := time.Now()
	for time.Since(begin) <= limit {
		if l.n.Load() == int64(n) {
			return time.Since(begin)
		}
		pass(5 * time.Millisecond)
	}
	b.Fatalf("after %v %d is in force, want %d: %+v", limit, l.n.Load(), n, l.Status())
	return 0
}

// pass lets fake time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

const inForce = 1500 * time.Millisecond

// The server tells of releases from its memory, and reads them from its database: where that is down alone, a release is
// heard and can't be read. It comes into force when it can, not when the engine's backoff is over.
//
// faults: F072
func TestReleaseThatWasHeardAndCouldNotBeRead(t *testing.T) {
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusUnauthorized} {
		inBubble(t, func(b *bench) {
			at := b.space("application")
			at.Put("rules", doc(1))
			l := b.open(b.source(b.client(), "application", "rules"), datasource.Relist(time.Hour))
			pass(time.Second)
			b.link.Answer(func(r *http.Request) *http.Response {
				if strings.HasPrefix(r.URL.Path, "/configs/") {
					return apollotest.Status(code)
				}
				return nil
			})
			at.Put("rules", doc(2))
			pass(30 * time.Second)
			before := b.link.Requests("/")
			pass(30 * time.Second)
			if n := b.link.Requests("/") - before; n > 30 {
				b.Errorf("%d: %d requests in 30 s", code, n)
			}
			b.link.Heal()
			limit := 2 * time.Second
			if code < http.StatusInternalServerError {
				limit = 5 * time.Second // a server that refuses is asked less often
			}
			b.Logf("%d: in force %v after the outage", code, b.within(limit, l, 2))
			pass(time.Minute)
			before = b.link.Requests("/configs")
			pass(10 * time.Minute)
			if n := b.link.Requests("/configs") - before; n > 1 {
				b.Errorf("%d reads in ten idle minutes", n)
			}
		})
	}
}

// Two hundred documents in twenty namespaces are told by one poll, and each release costs one or two reads of the
// namespace however many documents it holds.
//
// faults: F115 F120
func TestTwoHundredDocumentsShareOneLongPoll(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.client()
		var all []*live
		for n := range 20 {
			at := b.space("rules-" + strconv.Itoa(n))
			for k := range 10 {
				at.Edit("key-"+strconv.Itoa(k), doc(0), "apollo")
			}
			at.Release()
		}
		for n := range 20 {
			for k := range 10 {
				all = append(all, b.open(b.source(c, "rules-"+strconv.Itoa(n), "key-"+strconv.Itoa(k))))
			}
		}
		pass(time.Second)
		if n := b.server.Polls(); n != 1 {
			t.Fatalf("%d long polls are held, want one", n)
		}
		// A read takes a while, as everywhere but in memory.
		b.link.Answer(func(*http.Request) *http.Response { <-time.After(time.Millisecond); return nil })
		before := b.link.Requests("/configs")
		at := b.space("rules-7")
		for k := range 10 {
			at.Edit("key-"+strconv.Itoa(k), doc(k+1), "apollo")
		}
		at.Release()
		for k := range 10 {
			b.within(inForce, all[70+k], k+1)
		}
		pass(time.Second)
		if n := b.link.Requests("/configs") - before; n > 3 {
			t.Errorf("a release of one namespace with ten documents cost %d reads", n)
		}

		polls, reads := b.link.Requests("/notifications"), b.link.Requests("/configs")
		pass(10 * time.Minute)
		polls, reads = b.link.Requests("/notifications")-polls, b.link.Requests("/configs")-reads
		t.Logf("ten idle minutes, 200 documents: %d polls, %d reads: %.2f requests per document and minute", polls, reads, float64(polls+reads)/2000)
		if polls > 11 || reads > 2200+200 {
			t.Errorf("ten idle minutes cost %d polls and %d reads", polls, reads)
		}
		for n := range 20 {
			b.space("rules-"+strconv.Itoa(n)).Put("key-3", doc(99))
		}
		for n := range 20 {
			b.within(2*inForce, all[10*n+3], 99)
		}
	})
}

// A request line over 8 KiB is refused by what is in between, and one over 10 KiB by the server.
func TestTwoHundredNamespacesFitIntoRequestLines(t *testing.T) {
	inBubble(t, func(b *bench) {
		longest := 0
		var mu sync.Mutex
		b.link.Answer(func(r *http.Request) *http.Response {
			mu.Lock()
			defer mu.Unlock()
			longest = max(longest, len(r.URL.RequestURI()))
			return nil
		})
		c := b.client()
		var all []*live
		for n := range 200 {
			name := fmt.Sprintf("team.namespace-number-%d.json", n)
			b.space(name).Put(apollo.Content, doc(0))
			all = append(all, b.open(b.source(c, name, apollo.Content)))
		}
		pass(time.Second)
		if n := b.server.Polls(); n > 4 {
			t.Errorf("%d long polls are held", n)
		}
		if longest > 8000 {
			t.Errorf("a request line has %d bytes", longest)
		}
		for _, n := range []int{0, 99, 199} {
			b.space(fmt.Sprintf("team.namespace-number-%d.json", n)).Put(apollo.Content, doc(1))
			b.within(inForce, all[n], 1)
		}
	})
}

// What agollo does for half a minute after one 404: nothing.
//
// faults: F115 F090
func TestNamespaceThatDoesNotExistHoldsUpNobody(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		c := b.client()
		gone := b.open(b.source(c, "nosuch", flow))
		good := b.open(b.source(c, "application", flow))
		bad := b.open(b.source(c, "never.json", apollo.Content))
		for n := range 20 {
			at.Put(flow, doc(n+1))
			b.within(inForce, good, n+1)
			pass(300 * time.Millisecond)
		}
		if s := gone.Status(); s.Cause != datasource.CauseMissing {
			t.Errorf("the namespace that does not exist: %+v", s)
		}
		b.space("never.json").Put(apollo.Content, doc(5))
		b.within(inForce, bad, 5)
		b.space("nosuch").Put(flow, doc(6)) // made while we watch
		b.within(inForce, gone, 6)
	})
}

// faults: F080 F091
func TestChangeDuringACutIsInForceTwoSecondsAfterIt(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		c := b.client()
		l := b.open(b.source(c, "application", flow))
		b.open(b.source(c, "nosuch", flow))
		longest := time.Duration(0)
		for n, d := range []time.Duration{
			100 * time.Millisecond, time.Second, 3 * time.Second, 3300 * time.Millisecond, 10 * time.Second, 29 * time.Second,
			time.Minute, 61300 * time.Millisecond, 10 * time.Minute,
		} {
			b.link.Cut()
			pass(d / 2)
			at.Put(flow, doc(n+1))
			pass(d / 2)
			if d >= 3*time.Second {
				if s := l.Status(); s.State != datasource.StateDegraded || s.LastError == nil {
					t.Errorf("a cut of %v does not show: %s", d, s.State)
				}
				if note := l.Status().Note; !strings.Contains(note, "poll only") {
					t.Errorf("note during a cut: %q", note)
				}
			}
			b.link.Heal()
			longest = max(longest, b.within(2*time.Second, l, n+1))
			pass(3 * time.Second)
			if s := l.Status(); s.State != datasource.StateLive || s.Note != "" {
				t.Errorf("after a cut of %v: %s %q", d, s.State, s.Note)
			}
		}
		t.Log("longest:", longest)
	})
}

// A connection that was forgotten on the way looks alive. The next read that gets through ends its poll.
//
// faults: F083 F089
func TestPollOnADeadConnectionEndsWhenReadsRecover(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		l := b.open(b.source(b.client(), "application", flow))
		pass(2 * time.Second)
		b.link.Stall()
		pass(2 * time.Minute)
		b.link.Heal()
		_ = l.Refresh(b.Context()) // as the relist does
		pass(time.Second)
		at.Put(flow, doc(1))
		b.within(inForce, l, 1)
	})
}

// The notification is taken, and the read that it asks for fails.
//
// faults: F072
func TestFailedReadAfterANotificationIsTriedAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		l := b.open(b.source(b.client(), "application", flow), datasource.Relist(time.Hour))
		pass(2 * time.Second)
		var fails atomic.Int32
		fails.Store(3)
		b.link.Answer(func(r *http.Request) *http.Response {
			if strings.HasPrefix(r.URL.Path, "/configs") && fails.Add(-1) >= 0 {
				return apollotest.Status(http.StatusInternalServerError)
			}
			return nil
		})
		at.Put(flow, doc(1))
		b.within(10*time.Second, l, 1)
	})
}

// The cut begins between the notification and the read that it asks for, and lasts until the engine's backoff is long.
//
// faults: F072 F080
func TestCutBetweenNotificationAndRead(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 10 * time.Second, 50 * time.Second, 5 * time.Minute} {
		t.Run(d.String(), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				at := b.space("application")
				at.Put(flow, doc(0))
				l := b.open(b.source(b.client(), "application", flow), datasource.Relist(time.Hour))
				pass(3 * time.Second)
				b.link.Answer(func(r *http.Request) *http.Response {
					if strings.HasPrefix(r.URL.Path, "/configs") {
						b.link.Cut()
					}
					return nil
				})
				at.Put(flow, doc(1))
				pass(d)
				if l.n.Load() != 0 {
					t.Fatal("the cut came too late")
				}
				b.link.Heal()
				b.within(2*time.Second, l, 1)
			})
		})
	}
}

// Each third poll's answer is lost on the way: every release is in force nevertheless, without waiting for a relist.
//
// faults: F072 F081
func TestLostNotificationsAreAnsweredAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		l := b.open(b.source(b.client(), "application", flow), datasource.Relist(time.Hour))
		var n atomic.Int32
		b.link.LoseAnswers(func(r *http.Request) bool { return r.URL.Path == "/notifications/v2" && n.Add(1)%3 == 0 })
		for n := range 60 {
			at.Put(flow, doc(n+1))
			b.within(2*time.Second, l, n+1)
		}
	})
}

// faults: F080 F091
func TestServerRestartedTenTimesDuringNumberedWrites(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		var seen []int64
		var mu sync.Mutex
		src := b.source(b.client(), "application", flow)
		l := b.open(src, datasource.WithObserver(datasource.ObserverFunc(func(e datasource.Event) {})))
		prev := int64(0)
		for n := range 100 {
			at.Put(flow, doc(n+1))
			if n%10 == 5 {
				b.server.Restart()
			}
			pass(130 * time.Millisecond)
			now := l.n.Load()
			mu.Lock()
			seen = append(seen, now)
			mu.Unlock()
			if now < prev {
				t.Fatalf("%d is in force after %d", now, prev)
			}
			prev = now
		}
		b.within(2*time.Second, l, 100)
		slices.Sort(seen)
		t.Logf("%d of 100 were in force at some moment", len(slices.Compact(seen)))
	})
}

// The server's database was restored from a backup: its notifications count from a lower number, so that it holds polls
// that name a higher one. The relist finds the document, and the next release is pushed again.
//
// faults: F069 F070 F083
func TestNotificationsThatCountFromALowerNumberAreFollowed(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		for n := range 30 {
			at.Put(flow, doc(n))
		}
		l := b.open(b.source(b.client(), "application", flow))
		b.within(inForce, l, 29)
		pass(2 * time.Second)
		b.server.Restore(at, map[string]string{flow: doc(3)})
		b.within(70*time.Second, l, 3)
		pass(time.Second)
		at.Put(flow, doc(4))
		b.within(inForce, l, 4)
	})
}

// What a namespace, a release and a key can lack is told apart.
//
// faults: F005 F115 F136
func TestWhatIsMissingIsToldApart(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.client()
		inspect := apollo.Inspect(portal(token))
		b.space("never")
		at := b.space("application")
		at.Put("other", "1")
		check := func(s *apollo.Source, note string) {
			t.Helper()
			if doc := b.read(s); doc.Presence != datasource.Missing || len(doc.Data) > 0 {
				t.Errorf("%s: %+v", s.ID(), doc)
			}
			if got := s.Note(); !strings.Contains(got, note) {
				t.Errorf("%s: note %q, want %q", s.ID(), got, note)
			}
		}
		check(b.source(c, "nosuch", flow), "never released, or app id")
		check(b.source(c, "nosuch", flow, inspect), "no such namespace")
		check(b.source(c, "never", flow), "never released, or app id")
		check(b.source(c, "never", flow, inspect), "exists, and was never released")
		check(b.source(newClient(b, b.link, app("nosuch")), "application", flow, inspect), "no such namespace")
		key := b.source(c, "application", flow)
		check(key, `has no key "flow-rules"`)
		at.Edit(flow, doc(1), "alice")
		check(key, "has no key") // edited, not released
		at.Release()
		if doc := b.read(key); string(doc.Data) != `[{"resource":"n","count":1}]` || key.Note() != "" {
			t.Errorf("%+v %q", doc, key.Note())
		}
		at.Delete(flow)
		check(key, "was deleted")
		at.Put(flow, "")
		if doc := b.read(key); doc.Presence != datasource.Present || len(doc.Data) != 0 {
			t.Errorf("empty value: %+v", doc)
		}
		at.Drop()
		check(key, "nothing is released")
	})
}

// faults: F136 F137
func TestDeletedAndMadeAgainWhileAListenerIsBusy(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		busy := make(chan struct{})
		var told []float64
		listener := property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
			told = append(told, rules[0].Count)
			if len(told) == 2 {
				<-busy
			}
			return nil
		})
		r, err := datasource.New(b.source(b.client(), "application", flow), converter.JSON[rule.Flow](), listener, datasource.Logger(nil), datasource.OnMissing(datasource.Clear))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Start(b.Context()); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		at.Put(flow, doc(1))
		pass(1200 * time.Millisecond) // the listener hangs now
		at.Delete(flow)
		at.Put(flow, doc(2))
		at.Delete(flow)
		at.Put(flow, doc(3))
		pass(1200 * time.Millisecond)
		close(busy)
		pass(1200 * time.Millisecond)
		if want := []float64{0, 1, 3}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

// The database finds the app in any letter case, the notifications do not.
//
// faults: F082
func TestAppIDInAnotherLetterCaseIsNoticed(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		pass(2 * time.Second)
		wrong := b.source(newClient(b, b.link, app("ORDERS")), "application", flow)
		l := b.open(wrong)
		right := b.open(b.source(b.client(), "Application", flow)) // a namespace's case does not matter
		b.within(inForce, l, 0)
		pass(10 * time.Second)
		if note := l.Status().Note; !strings.Contains(note, "poll only") || !strings.Contains(note, "ORDERS") {
			t.Errorf("note: %q", note)
		}
		if note := right.Status().Note; note != "" {
			t.Errorf("note of the right one: %q", note)
		}
		at.Put(flow, doc(1))
		b.within(inForce, right, 1)
		b.within(70*time.Second, l, 1)
		if n := b.server.Polls(); n != 2 {
			t.Errorf("%d polls", n)
		}
	}, apollotest.AnyCase())
}

func TestSecretIsRotatedWhileRunning(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		b.server.SetSecrets(appID, "old")
		var now atomic.Pointer[string]
		set := func(s string) { now.Store(&s) }
		set("old")
		c := b.client(apollo.Secret(func(context.Context) (string, error) { return *now.Load(), nil }))
		l := b.open(b.source(c, "application", flow))
		b.server.SetSecrets(appID, "old", "new") // both are good for a while
		set("new")
		at.Put(flow, doc(1))
		b.within(inForce, l, 1)
		b.server.SetSecrets(appID, "new")
		at.Put(flow, doc(2))
		b.within(inForce, l, 2)

		// The other order: the server first.
		b.server.SetSecrets(appID, "newest")
		at.Put(flow, doc(3))
		pass(20 * time.Second)
		s := l.Status()
		var status *apollo.StatusError
		if !errors.As(s.LastError, &status) || status.Code != http.StatusUnauthorized {
			t.Errorf("with a secret that was revoked: %v", s.LastError)
		}
		if strings.Contains(fmt.Sprint(s.LastError, s.Note), "new") {
			t.Errorf("a secret shows: %v %q", s.LastError, s.Note)
		}
		set("newest")
		b.within(6*time.Second, l, 3)
		at.Put(flow, doc(4))
		b.within(inForce+5*time.Second, l, 4)
	})
}

// A wrong secret of one app is nothing to another on the same server.
func TestTwoAppsDoNotHoldUpEachOther(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.server.SetSecrets("billing", "x")
		b.server.Namespace("billing", "default", "application").Put(flow, doc(7))
		at := b.space("application")
		at.Put(flow, doc(0))
		denied := b.open(b.source(newClient(b, b.link, app("billing")), "application", flow), datasource.OnStart(datasource.Empty))
		good := b.open(b.source(b.client(), "application", flow))
		for n := range 5 {
			pass(7 * time.Second)
			at.Put(flow, doc(n+1))
			b.within(inForce, good, n+1)
		}
		if denied.Status().LastError == nil {
			t.Error("no error")
		}
		signed := app("billing")
		signed.Secret = "x"
		b.within(inForce, b.open(b.source(newClient(b, b.link, signed), "application", flow)), 7)
	})
}

// faults: F060
func TestAnswersOfOthersAreErrors(t *testing.T) {
	page := "<html><body>Please sign in</body></html>"
	const html, text, js = "text/html", "text/plain", "application/json"
	for name, c := range map[string]struct {
		status     int
		kind, body string
		is         error
		code       int
	}{
		"sign-in page":           {200, html, page, apollo.ErrNotApollo, 0},
		"page not found":         {404, html, page, apollo.ErrNotApollo, 404},
		"default backend":        {404, text, "default backend - 404", apollo.ErrNotApollo, 404},
		"empty 404":              {404, text, "", apollo.ErrNotApollo, 404},
		"not modified by nobody": {304, text, "", apollo.ErrNotApollo, 304},
		"another service":        {200, js, `{"status":"UP"}`, apollo.ErrNotApollo, 0},
		"another namespace":      {200, js, `{"namespaceName":"x","releaseKey":"k","configurations":{}}`, apollo.ErrNotApollo, 0},
		"no key":                 {200, js, `{"namespaceName":"application","configurations":{}}`, apollo.ErrNotApollo, 0},
		"half an answer":         {200, js, `{"namespaceName":"application","releaseKey":"k","configurations":{"a":`, apollo.ErrNotApollo, 0},
		"a list":                 {200, js, `[]`, apollo.ErrNotApollo, 0},
		"unauthorized":           {401, html, page, nil, 401},
		"forbidden":              {403, text, "", nil, 403},
		"too many":               {429, text, "", nil, 429},
		"bad gateway":            {502, html, page, nil, 502},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.space("application").Put(flow, doc(0))
				src := b.source(b.client(), "application", flow)
				l := b.open(src)
				b.link.Answer(func(*http.Request) *http.Response { return apollotest.Page(c.status, c.kind, c.body) })
				fresh := b.source(newClient(b, b.link, app(appID)), "application", flow)
				for which, s := range map[string]*apollo.Source{"first": fresh, "later": src} {
					_, err := s.Read(b.Context())
					if which == "later" && c.code == 304 {
						continue // "not modified" is an answer to who has read before
					}
					var status *apollo.StatusError
					if err == nil || c.is != nil && !errors.Is(err, c.is) || c.code != 0 && (!errors.As(err, &status) || status.Code != c.code) {
						t.Errorf("%s read: %v", which, err)
					}
				}
				pass(10 * time.Minute)
				if l.n.Load() != 0 || len(l.Status().Refused) > 0 {
					t.Errorf("in force: %d, refused %v", l.n.Load(), l.Status().Refused)
				}
				b.link.Heal()
				b.space("application").Put(flow, doc(1))
				b.within(6*time.Second, l, 1)
			})
		})
	}
}

// faults: F053 F061
func TestNamespaceFormats(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.client()
		for _, name := range []string{"flow.json", "flow.yaml", "flow.yml", "flow.txt", "flow.xml"} {
			b.space(name).Put(apollo.Content, doc(3))
			if got := b.read(b.source(c, name, apollo.Content)); string(got.Data) != doc(3) {
				t.Errorf("%s: %+v", name, got)
			}
		}
		b.space("plain").Put(flow, doc(4))
		s := b.source(c, "plain.properties", flow)
		if got := b.read(s); string(got.Data) != doc(4) || s.ID() != "apollo:orders/default/plain/flow-rules" {
			t.Errorf("%s: %+v", s.ID(), got)
		}
		// A text that was encoded twice is refused by the converter, and the note says what it is.
		at := b.space("flow.json")
		l := b.open(b.source(c, "flow.json", apollo.Content))
		at.Put(apollo.Content, strconv.Quote(doc(5)))
		pass(inForce)
		if st := l.Status(); !errors.Is(st.LastError, datasource.ErrDecode) || !strings.Contains(st.Note, "encoded twice") || l.n.Load() != 3 {
			t.Errorf("encoded twice: %v %q", st.LastError, st.Note)
		}
		at.Put(apollo.Content, doc(6))
		b.within(inForce, l, 6)
	})
}

func TestClustersAndPublicNamespaces(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.space("application").Put(flow, doc(1))
		conf := app(appID)
		conf.Cluster = "shanghai"
		c := newClient(b, b.link, conf)
		s := b.source(c, "application", flow)
		l := b.open(s)
		b.within(inForce, l, 1)
		if note := s.Note(); !strings.Contains(note, `cluster "default"`) {
			t.Errorf("note: %q", note)
		}
		sink, err := apollo.NewSink(c, portal(token), "application", flow)
		if err != nil {
			t.Fatal(err)
		}
		at := b.server.Namespace(appID, "shanghai", "application")
		if _, err := sink.Write(b.Context(), []byte("[]"), b.read(s).Revision); !errors.Is(err, datasource.ErrUnsupported) {
			t.Errorf("a write over another cluster's release: %v", err)
		}
		at.Put(flow, doc(2))
		b.within(inForce, l, 2)
		if note := s.Note(); note != "" {
			t.Errorf("note: %q", note)
		}

		b.server.PublicNamespace("platform", "default", "shared.rules").Put(flow, doc(8))
		public := b.open(b.source(c, "shared.rules", flow))
		b.within(inForce, public, 8)
		b.server.PublicNamespace("platform", "default", "shared.rules").Put(flow, doc(9))
		b.within(inForce, public, 9)
	})
}

func TestGrayReleases(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(1))
		byIP := newClient(b, b.link, app(appID), apollo.ClientIP("10.9.9.9"))
		conf := app(appID)
		conf.Label = "canary"
		byLabel := newClient(b, b.link, conf)
		plain := b.client()
		one, two, three := b.open(b.source(byIP, "application", flow)), b.open(b.source(byLabel, "application", flow)), b.open(b.source(plain, "application", flow))
		at.Gray([]string{"10.9.9.9"}, []string{"canary"}, map[string]string{flow: doc(2)})
		b.within(inForce, one, 2)
		b.within(inForce, two, 2)
		b.within(inForce, three, 1)
		sink, err := apollo.NewSink(byIP, portal(token), "application", flow)
		if err != nil {
			t.Fatal(err)
		}
		now, err := sink.Read(b.Context())
		if err != nil {
			t.Fatal(err)
		}
		releases := at.Releases()
		if _, err := sink.Write(b.Context(), []byte(doc(9)), now.Revision); !errors.Is(err, datasource.ErrUnsupported) || at.Releases() != releases {
			t.Errorf("a write where a gray release is served: %v", err)
		}
		at.EndGray()
		b.within(inForce, one, 1)
	})
}

// faults: F150
func TestServersAreFoundAndLeft(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.space("application").Put(flow, doc(0))
		list := `[{"appName":"APOLLO-CONFIGSERVICE","instanceId":"a","homepageUrl":"http://a.test/"},{"appName":"APOLLO-CONFIGSERVICE","instanceId":"b","homepageUrl":"http://b.test:8080"}]`
		var down atomic.Pointer[map[string]bool]
		down.Store(&map[string]bool{})
		meta := func(r *http.Request) *http.Response {
			if (*down.Load())[r.URL.Host] {
				return apollotest.Status(http.StatusBadGateway)
			}
			if r.URL.Host == "meta.test" {
				if strings.HasPrefix(r.URL.Path, "/services/config") {
					return apollotest.Page(200, "application/json", list)
				}
				return apollotest.Page(404, "text/plain", "only a meta server")
			}
			return nil
		}
		b.link.Answer(meta)
		set := func(hosts ...string) {
			m := map[string]bool{}
			for _, h := range hosts {
				m[h] = true
			}
			down.Store(&m)
		}
		conf := app(appID)
		conf.IP = "http://meta.test"
		l := b.open(b.source(newClient(b, b.link, conf), "application", flow))
		pass(2 * time.Second)
		n := 0
		check := func(hosts ...string) {
			t.Helper()
			set(hosts...)
			n++
			b.space("application").Put(flow, doc(n))
			b.within(2500*time.Millisecond, l, n)
			pass(3 * time.Second)
		}
		check()
		check("a.test")
		check("b.test")
		check("a.test", "meta.test")
		check("meta.test")
		if t.Failed() {
			return
		}
		// An address that only the server's own network knows: the configured one serves as well.
		list = `[{"appName":"APOLLO-CONFIGSERVICE","instanceId":"a","homepageUrl":"http://inside.test/"}]`
		set("inside.test")
		conf.IP = apollotest.ConfigURL
		b.link.Answer(func(r *http.Request) *http.Response {
			if strings.HasPrefix(r.URL.Path, "/services/config") {
				return apollotest.Page(200, "application/json", list)
			}
			return meta(r)
		})
		b.within(inForce, b.open(b.source(newClient(b, b.link, conf), "application", flow)), n)
		// No list at all, an empty one, a page.
		for _, body := range []string{"", "[]", "<html>", `{"a":1}`} {
			b.link.Answer(func(r *http.Request) *http.Response {
				if strings.HasPrefix(r.URL.Path, "/services/config") {
					return apollotest.Page(200, "text/html", body)
				}
				return nil
			})
			b.within(inForce, b.open(b.source(newClient(b, b.link, conf), "application", flow)), n)
		}
		// Direct asks for no list.
		before := b.link.Requests("/services")
		b.within(inForce, b.open(b.source(newClient(b, b.link, conf, apollo.Direct()), "application", flow)), n)
		if b.link.Requests("/services") != before {
			t.Error("Direct asked for the list")
		}
	})
}

// A server that does not hold polls is not asked without end.
//
// faults: F116 F119
func TestPollsThatAreNotHeldKeepAPace(t *testing.T) {
	for name, answer := range map[string]func() *http.Response{
		"304":     func() *http.Response { return apollotest.Status(304) },
		"nothing": func() *http.Response { return apollotest.Page(200, "application/json", "[]") },
		"404":     func() *http.Response { return apollotest.Status(404) },
		"400":     func() *http.Response { return apollotest.Status(400) },
		"429":     func() *http.Response { return apollotest.Status(429) },
		"500":     func() *http.Response { return apollotest.Status(500) },
		"page":    func() *http.Response { return apollotest.Page(200, "text/html", "<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				at := b.space("application")
				at.Put(flow, doc(0))
				l := b.open(b.source(b.client(), "application", flow))
				b.link.Answer(func(r *http.Request) *http.Response {
					if r.URL.Path == "/notifications/v2" {
						return answer()
					}
					return nil
				})
				b.server.Restart()
				pass(5 * time.Second)
				before := b.link.Requests("")
				pass(time.Minute)
				if n := b.link.Requests("") - before; n > 60 {
					t.Errorf("%d requests in a minute", n)
				}
				if note := l.Status().Note; name != "304" && name != "nothing" && !strings.Contains(note, "poll only") {
					t.Errorf("note: %q", note)
				}
				at.Put(flow, doc(1))
				b.within(70*time.Second, l, 1)
			})
		})
	}
}

// faults: F123 F145 F148
func TestHundredClientsLeaveNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		for range 100 {
			c := b.client()
			src := b.source(c, "application", flow)
			l := b.open(src)
			if err := errors.Join(l.Close(), c.Close(), c.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := src.Read(b.Context()); !errors.Is(err, datasource.ErrClosed) {
				t.Fatalf("Read after Close: %v", err)
			}
			if err := src.Watch(b.Context(), datasource.Document{}, func(datasource.Document) {}); !errors.Is(err, datasource.ErrClosed) {
				t.Fatalf("Watch after Close: %v", err)
			}
		}
		synctest.Wait()
		if n := b.server.Polls(); n != 0 {
			t.Errorf("%d polls are left", n)
		}
	}) // the bubble fails if a goroutine is left
}

// The client is closed before the sources: the rules stay in force.
func TestClientClosedUnderAReadable(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.space("application").Put(flow, doc(0))
		c := b.client()
		l := b.open(b.source(c, "application", flow))
		pass(2 * time.Second)
		_ = c.Close()
		pass(time.Minute)
		if s := l.Status(); !errors.Is(s.LastError, datasource.ErrClosed) || l.n.Load() != 0 {
			t.Errorf("%v, %d in force", s.LastError, l.n.Load())
		}
	})
}

func TestSizesAreBounded(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.space("application").Put(flow, doc(0)+strings.Repeat(" ", 1000))
		_, err := b.source(b.client(), "application", flow, apollo.MaxBytes(500)).Read(b.Context())
		if !errors.Is(err, datasource.ErrTooLarge) {
			t.Errorf("over MaxBytes: %v", err)
		}
	})
}

// agollo puts a backup file over live values. Here none is read, whatever AppConfig says and wherever it lies, and none is
// written.
func TestNoBackupFileIsReadOrWritten(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	stale := `{"Configurations":{"` + flow + `":"[{\"resource\":\"n\",\"count\":66}]"},"AppID":"orders","Cluster":"default","NamespaceName":"application","ReleaseKey":"k"}`
	names := []string{"orders-application.json", "application.json", "app.properties"}
	for _, name := range names {
		if err := os.WriteFile(name, []byte(stale), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inBubble(t, func(b *bench) {
		conf := app(appID)
		conf.NamespaceName, conf.IsBackupConfig, conf.BackupConfigPath, conf.MustStart = "application", true, dir, true
		at := b.space("application")
		at.Put(flow, doc(1))
		b.link.Cut()
		src := b.source(newClient(b, b.link, conf), "application", flow)
		down := b.open(src, datasource.OnStart(datasource.Empty))
		pass(time.Minute)
		if n := down.n.Load(); n != -1 || down.Status().Presence == datasource.Present {
			b.Errorf("with the server down %d is in force", n)
		}
		b.link.Heal()
		b.within(31*time.Second, down, 1) // nothing is watched before the first good read; the engine's backoff
		at.Put(flow, doc(2))
		b.within(inForce, down, 2)
		b.link.Cut()
		pass(time.Minute)
		if n := down.n.Load(); n != 2 {
			b.Errorf("during a cut %d is in force", n)
		}
	})
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(names) {
		t.Errorf("files: %v", list)
	}
	for _, name := range names {
		if b, err := os.ReadFile(name); err != nil || string(b) != stale {
			t.Errorf("%s: %s %v", name, b, err)
		}
	}
}
