package consul

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "rules/flow"

// harness plays the conformance suite on the fake server, in fake time.
type harness struct {
	*server
	c *api.Client
}

func newHarness(t testing.TB) datasourcetest.Harness {
	s := newServer(t)
	return &harness{s, s.client(t)}
}

func (h *harness) Source() (datasource.Source, error) { return NewSource(h.c, key) }
func (h *harness) Sink() (writable.Sink, error)       { return NewSink(h.c, key) }
func (h *harness) Put(data []byte) error              { h.put(key, string(data)); return nil }
func (h *harness) Delete() error                      { h.remove(key); return nil }
func (h *harness) Expire() error                      { h.remove(key); return nil }
func (h *harness) PutNeighbour(data []byte) error     { h.put(key+"2", string(data)); return nil }
func (h *harness) Break() error                       { h.link.cut(true); return nil }
func (h *harness) Stall() error                       { h.hang(); return nil }
func (h *harness) Heal() error                        { h.heal(); return nil }
func (h *harness) Requests() int                      { return h.count() }
func (h *harness) Limit() int                         { return valueLimit }
func (h *harness) Secrets() []string                  { return []string{secret} }

func (h *harness) Deny() error {
	h.fail(http.StatusForbidden, "Permission denied")
	return nil
}

func (h *harness) Restart() error {
	h.link.cut(true)
	h.link.cut(false)
	return nil
}

func (h *harness) Reset(data []byte) error {
	h.restore(5, key, string(data))
	return h.Restart()
}

func (h *harness) DeletePut(data []byte) error {
	h.do(func() {
		h.commit(key, nil, 0)
		h.commit(key, data, 0)
	})
	return nil
}

func (h *harness) Misconfigured() map[string]error {
	said := map[string]error{}
	try := func(name string, c *api.Client, key string, options ...Option) {
		_, source := NewSource(c, key, options...)
		_, sink := NewSink(c, key, options...)
		said["source: "+name], said["sink: "+name] = source, sink
	}
	try("no client", nil, key)
	try("empty key", h.c, "")
	try("leading slash", h.c, "/"+key)
	try("folder", h.c, "rules/")
	try("empty segment", h.c, "rules//flow")
	try("parent", h.c, "rules/../flow")
	try("nil option", h.c, key, nil)
	try("Timeout", h.c, key, Timeout(0))
	try("MaxBytes", h.c, key, MaxBytes(0))
	try("WaitTime too short", h.c, key, WaitTime(1))
	try("WaitTime too long", h.c, key, WaitTime(maxWaitTime+1))
	try("Consistency", h.c, key, Consistency(7))
	_, said["a sink that waits"] = NewSink(h.c, key, WaitTime(DefaultWaitTime))
	_, said["a sink that reads old values"] = NewSink(h.c, key, Consistency(Stale))
	try("Token", h.c, key, Token(nil))
	return said
}

// In Consul's own words a key that ends with a slash is a folder, and it may exist.
func TestFolderIsRefusedByName(t *testing.T) {
	c, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"rules/", "/"} {
		_, source := NewSource(c, key)
		_, sink := NewSink(c, key)
		for _, err := range []error{source, sink} {
			if err == nil || !strings.Contains(err.Error(), strconv.Quote(key)) || !strings.Contains(err.Error(), "slash") {
				t.Errorf("%q: %v", key, err)
			}
		}
	}
}

func TestConformance(t *testing.T) {
	datasourcetest.Run(t, datasourcetest.Config{New: newHarness, Bubble: true})
}

func TestSinkConformance(t *testing.T) {
	datasourcetest.RunSink(t, datasourcetest.Config{New: newHarness, Bubble: true})
}

// bubble runs a test with a server, a source and fake time.
func bubble(t *testing.T, f func(t *testing.T, s *server, src *Source), options ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		src, err := NewSource(s.client(t), key, options...)
		if err != nil {
			t.Fatal(err)
		}
		f(t, s, src)
	})
}

// following is one Watch on a goroutine of its own.
type following struct {
	docs  chan datasource.Document
	ended chan error
	stop  context.CancelFunc
}

func follow(t *testing.T, src *Source, last datasource.Document) *following {
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{docs: make(chan datasource.Document, 1000), ended: make(chan error, 1), stop: cancel}
	go func() { f.ended <- src.Watch(ctx, last, func(d datasource.Document) { f.docs <- d }) }()
	t.Cleanup(cancel)
	synctest.Wait()
	return f
}

func mustRead(t *testing.T, src *Source) datasource.Document {
	t.Helper()
	doc, err := src.Read(t.Context())
	if err != nil {
		t.Fatal("Read:", err)
	}
	return doc
}

// took gives what was asked of the server since n requests.
func (s *server) since(n int) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[n:]
}

// faults: F118
func TestMissingKeyOfAServerThatDoesNotBlockIsNoHotLoop(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, src *Source) {
		s.do(func() { s.spurious = true })
		f := follow(t, src, mustRead(t, src))
		time.Sleep(5 * time.Second)
		before := s.count()
		time.Sleep(time.Minute)
		if n := s.count() - before; n > 61 {
			t.Errorf("%d queries in a minute", n)
		}
		s.put(key, "[]")
		time.Sleep(time.Second)
		if doc := <-f.docs; string(doc.Data) != "[]" {
			t.Errorf("delivered %+v", doc)
		}
	})
}

// faults: F071 F119
func TestWakeUpWithoutAChangeIsNotDelivered(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, src *Source) {
		s.put(key, "[]")
		f := follow(t, src, mustRead(t, src))
		s.do(func() {
			s.churn = true // the index moves with every answer, the document does not
			s.wake()
		})
		time.Sleep(5 * time.Second)
		before := s.count()
		time.Sleep(time.Minute)
		if n := s.count() - before; n > 61 {
			t.Errorf("%d queries in a minute", n)
		}
		if n := len(f.docs); n > 0 {
			t.Errorf("%d deliveries without a change", n)
		}
	})
}

// Fifty failures of the server, then its rate limit: the rules stay, and the server is left in peace.
//
// faults: F116 F117 F119
func TestErrorsOfTheServerAreNotAnsweredByAStorm(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, src *Source) {
		s.put(key, `[{"resource":"/seed","count":5}]`)
		m, err := datasource.New(src, converter.JSON[rule.Flow](), rule.NewManager[rule.Flow](), datasource.Logger(nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, status := range []int{http.StatusInternalServerError, http.StatusTooManyRequests} {
			s.fail(status, "sorry")
			time.Sleep(5 * time.Second)
			before := s.count()
			time.Sleep(time.Minute)
			if n := s.count() - before; n > 60 {
				t.Errorf("status %d: %d requests in a minute", status, n)
			}
			st := m.Status()
			var answer api.StatusError
			if st.State != datasource.StateDegraded || !errors.As(st.LastError, &answer) || answer.Code != status {
				t.Errorf("status %d: the readable is %s: %v", status, st.State, st.LastError)
			}
			if st.Rules != 1 {
				t.Errorf("status %d: %d rules in force", status, st.Rules)
			}
		}
		s.put(key, `[{"resource":"/seed","count":6},{"resource":"/more","count":6}]`)
		s.heal()
		time.Sleep(datasource.DefaultMaxBackoff + time.Second)
		if st := m.Status(); st.Rules != 2 || st.State != datasource.StateLive {
			t.Errorf("after recovery: %s, %d rules", st.State, st.Rules)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}

// faults: F069 F070
func TestWatchEndsWhereTheIndexFalls(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, src *Source) {
		for range 9 {
			s.put(key, "[]")
		}
		f := follow(t, src, mustRead(t, src))
		s.restore(11, key, `["new"]`)
		if err := <-f.ended; !errors.Is(err, errFell) {
			t.Errorf("Watch ended with %v", err)
		}
		if doc := mustRead(t, src); string(doc.Data) != `["new"]` || doc.Order != 12 {
			t.Errorf("read again: %+v", doc)
		}
	})
}

// faults: F089
func TestBlockingQueryThatIsNeverAnsweredEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, src *Source) {
		s.put(key, "[]")
		last := mustRead(t, src)
		s.hang()
		begin := time.Now()
		f := follow(t, src, last)
		if err := <-f.ended; !errors.Is(err, errSilent) {
			t.Errorf("Watch ended with %v", err)
		}
		if d := time.Since(begin); d > 6*time.Minute {
			t.Errorf("after %v", d)
		}
	})
}

// faults: F119
func TestWaitTimeHasJitter(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, src *Source) {
		s.put(key, "[]")
		follow(t, src, mustRead(t, src))
		time.Sleep(2 * time.Hour)
		waits := map[string]int{}
		for _, r := range s.since(1) {
			q, _ := url.ParseQuery(r.query)
			if q.Get("wait") == "" {
				continue // a question that does not wait
			}
			d, err := time.ParseDuration(q.Get("wait"))
			if err != nil || d < 9*time.Minute/2 || d > 5*time.Minute {
				t.Errorf("waits %v (%v)", d, err)
			}
			waits[q.Get("wait")]++
		}
		if len(waits) < 10 {
			t.Errorf("%d different wait times: %v", len(waits), waits)
		}
	})
}

// faults: F113 F114
func TestScopeIsThatOfReadWatchAndWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(t)
		options := []Option{Datacenter("dc2"), Namespace("team"), Partition("p")}
		src, err := NewSource(c, key, options...)
		if err != nil {
			t.Fatal(err)
		}
		sink, err := NewSink(c, key, options...)
		if err != nil {
			t.Fatal(err)
		}
		const id = "consul:rules/flow?dc=dc2&ns=team&partition=p"
		if src.ID() != id || sink.ID() != id {
			t.Errorf("IDs %q and %q", src.ID(), sink.ID())
		}
		follow(t, src, mustRead(t, src))
		if _, err := sink.Write(t.Context(), []byte("[]"), writable.Absent); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		asked := s.since(0)
		if len(asked) < 5 {
			t.Fatalf("only %d requests", len(asked))
		}
		for _, r := range asked {
			q, _ := url.ParseQuery(r.query)
			if q.Get("dc") != "dc2" || q.Get("ns") != "team" || q.Get("partition") != "p" {
				t.Errorf("%s ?%s", r.method, r.query)
			}
		}
	})
}

// faults: F111 F112
func TestTokenIsAskedForBeforeEachRequest(t *testing.T) {
	token := "first"
	var tokenErr error
	bubble(t, func(t *testing.T, s *server, src *Source) {
		s.do(func() { s.tokens = map[string]bool{"first": true, "second": true} })
		s.put(key, "[]")
		f := follow(t, src, mustRead(t, src))
		token = "second"
		s.do(func() { delete(s.tokens, "first") }) // rotated: what blocks with the old one goes on to its end
		s.put(key, `["new"]`)
		if doc := <-f.docs; string(doc.Data) != `["new"]` {
			t.Errorf("delivered %+v", doc)
		}
		synctest.Wait()
		if asked := s.since(0); asked[len(asked)-1].token != "second" {
			t.Errorf("the query after the rotation came with %q", asked[len(asked)-1].token)
		}
		token = "revoked"
		var answer api.StatusError
		if _, err := src.Read(t.Context()); !errors.As(err, &answer) || answer.Code != http.StatusForbidden || strings.Contains(err.Error(), token) {
			t.Errorf("with a revoked token: %v", err)
		}
		tokenErr = errors.New("vault is sealed")
		before := s.count()
		if _, err := src.Read(t.Context()); !errors.Is(err, tokenErr) || s.count() != before {
			t.Errorf("without a token: %v, %d requests", err, s.count()-before)
		}
	}, Token(func(context.Context) (string, error) { return token, tokenErr }))
}

// faults: F012
func TestConsistency(t *testing.T) {
	for mode, want := range map[Mode]string{Consistent: "consistent", Default: "", Stale: "stale"} {
		bubble(t, func(t *testing.T, s *server, src *Source) {
			s.put(key, "[]")
			follow(t, src, mustRead(t, src))
			for _, r := range s.since(0) {
				q, _ := url.ParseQuery(r.query)
				for _, word := range []string{"consistent", "stale"} {
					if q.Has(word) != (word == want) {
						t.Errorf("mode %d asks ?%s", mode, r.query)
					}
				}
			}
			s.do(func() { s.leaderless = true })
			if _, err := src.Read(t.Context()); errors.Is(err, errNoLeader) != (mode == Stale) {
				t.Errorf("mode %d, server without a leader: %v", mode, err)
			}
		}, Consistency(mode))
	}
}

// faults: F005 F060
func TestWhatIsNotConsulsIsNeitherMissingNorRules(t *testing.T) {
	page := "<html>" + strings.Repeat("é", 5000)
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"proxy's 404":   {http.StatusNotFound, "no such page"},
		"sign-in page":  {http.StatusOK, page},
		"empty list":    {http.StatusOK, "[]"},
		"null":          {http.StatusOK, "null"},
		"bad gateway":   {http.StatusBadGateway, page},
		"not permitted": {http.StatusForbidden, "Permission denied"},
	} {
		bubble(t, func(t *testing.T, s *server, src *Source) {
			s.put(key, "[]")
			last := mustRead(t, src)
			s.fail(c.status, c.body)
			_, err := src.Read(t.Context())
			if err == nil || len(err.Error()) > 300 || strings.Contains(err.Error(), "consul.test") {
				t.Errorf("%s: Read says %v", name, err)
			}
			f := follow(t, src, last)
			if err := <-f.ended; err == nil || len(f.docs) > 0 {
				t.Errorf("%s: Watch ended with %v after %d deliveries", name, err, len(f.docs))
			}
		})
	}
}

// faults: F056
func TestDocumentOverTheCap(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, src *Source) {
		s.put(key, "[]")
		f := follow(t, src, mustRead(t, src))
		s.put(key, "[ 12345678 ]")
		if doc := <-f.docs; doc.Presence != datasource.Unknown {
			t.Errorf("delivered %+v", doc)
		}
		if _, err := src.Read(t.Context()); !errors.Is(err, datasource.ErrTooLarge) {
			t.Errorf("Read says %v", err)
		}
		s.put(key, "[1]")
		if doc := <-f.docs; string(doc.Data) != "[1]" {
			t.Errorf("delivered %+v", doc)
		}
	}, MaxBytes(8))
}

// writing runs a test with a sink over a document "old".
func writing(t *testing.T, f func(t *testing.T, s *server, sink *Sink, old string), options ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		sink, err := NewSink(s.client(t), key, options...)
		if err != nil {
			t.Fatal(err)
		}
		s.do(func() { s.commit(key, []byte("old"), 42) })
		doc, err := sink.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f(t, s, sink, doc.Revision)
	})
}

func (s *server) flags() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pairs[key].Flags
}

func TestWriteKeepsTheFlags(t *testing.T) {
	writing(t, func(t *testing.T, s *server, sink *Sink, old string) {
		if _, err := sink.Write(t.Context(), []byte("new"), old); err != nil {
			t.Fatal(err)
		}
		if f := s.flags(); f != 42 {
			t.Errorf("flags are %d", f)
		}
	})
}

func TestConflictSaysTheCurrentRevision(t *testing.T) {
	writing(t, func(t *testing.T, s *server, sink *Sink, old string) {
		s.put(key, "theirs")
		now, _ := sink.Read(t.Context())
		_, err := sink.Write(t.Context(), []byte("new"), old)
		var e *datasource.Error
		if !errors.Is(err, datasource.ErrConflict) || !errors.As(err, &e) || e.Revision != now.Revision {
			t.Errorf("%v (%+v), want a conflict at revision %s", err, e, now.Revision)
		}
	})
}

// Consul answers "true" without an index. Whoever writes before it is read back must not be taken for us.
//
// faults: F140 F156
func TestWriteThatIsOvertakenBeforeItIsReadBack(t *testing.T) {
	for name, overtake := range map[string]func(*server){
		"written": func(s *server) { s.commit(key, []byte("theirs"), 0) },
		"deleted": func(s *server) { s.commit(key, nil, 0) },
	} {
		writing(t, func(t *testing.T, s *server, sink *Sink, old string) {
			s.do(func() { s.afterPut = func() { overtake(s) } })
			doc, err := sink.Write(t.Context(), []byte("new"), old)
			if err != nil || string(doc.Data) != "new" {
				t.Fatalf("%s: %+v, %v", name, doc, err)
			}
			now, err := sink.Read(t.Context())
			if err != nil || doc.Revision == now.Revision || doc.Order >= now.Order || doc.Revision <= old {
				t.Errorf("%s: written as %s (%d), now %s (%d), %v", name, doc.Revision, doc.Order, now.Revision, now.Order, err)
			}
			if _, err := sink.Write(t.Context(), []byte("newer"), doc.Revision); !errors.Is(err, datasource.ErrConflict) {
				t.Errorf("%s: a write over it says %v", name, err)
			}
		})
	}
}

func TestLostAnswerIsLookedInto(t *testing.T) {
	writing(t, func(t *testing.T, s *server, sink *Sink, old string) { // after it was done
		s.do(func() { s.losePut = func(done bool) bool { return done } })
		doc, err := sink.Write(t.Context(), []byte("new"), old)
		if now, _ := sink.Read(t.Context()); err != nil || doc.Revision != now.Revision || !bytes.Equal(now.Data, []byte("new")) {
			t.Errorf("done: %+v, %v; the store has %+v", doc, err, now)
		}
	})
	writing(t, func(t *testing.T, s *server, sink *Sink, old string) { // before
		s.do(func() { s.losePut = func(done bool) bool { return !done } })
		_, err := sink.Write(t.Context(), []byte("new"), old)
		if err == nil || errors.Is(err, datasource.ErrUnknownOutcome) || errors.Is(err, datasource.ErrConflict) {
			t.Errorf("not done: %v", err)
		}
		if now, _ := sink.Read(t.Context()); now.Revision != old {
			t.Errorf("not done: the store has %+v", now)
		}
	})
	writing(t, func(t *testing.T, s *server, sink *Sink, old string) { // and somebody else came
		s.do(func() {
			s.losePut = func(done bool) bool {
				if !done {
					s.commit(key, []byte("theirs"), 0)
				}
				return !done
			}
		})
		if _, err := sink.Write(t.Context(), []byte("new"), old); !errors.Is(err, datasource.ErrUnknownOutcome) {
			t.Errorf("another document: %v", err)
		}
	})
	writing(t, func(t *testing.T, s *server, sink *Sink, old string) { // and the store went away
		s.do(func() {
			s.losePut = func(bool) bool {
				go s.link.cut(true)
				return true
			}
		})
		if _, err := sink.Write(t.Context(), []byte("new"), old); !errors.Is(err, datasource.ErrUnknownOutcome) {
			t.Errorf("store away: %v", err)
		}
	})
}

// faults: F059
func TestLimitOfTheAgentIsTooLarge(t *testing.T) {
	writing(t, func(t *testing.T, s *server, sink *Sink, old string) {
		_, err := sink.Write(t.Context(), make([]byte, valueLimit+1), old)
		var answer api.StatusError
		if !errors.Is(err, datasource.ErrTooLarge) || !errors.As(err, &answer) {
			t.Errorf("over the agent's limit: %v", err)
		}
	}, MaxBytes(1<<20))
}

func TestIDWithoutScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, err := NewSource(newServer(t).client(t), key)
		if err != nil || src.ID() != "consul:rules/flow" {
			t.Errorf("%v, %v", src.ID(), err)
		}
	})
}

// One wait period, one query.
//
// faults: F120
func TestIdleSourceAsksOncePerWaitPeriod(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, src *Source) {
		s.put(key, "[]")
		follow(t, src, mustRead(t, src))
		before := s.count()
		time.Sleep(time.Hour)
		if n := s.count() - before; n > 14 {
			t.Error(strconv.Itoa(n) + " queries in an hour")
		}
	})
}
