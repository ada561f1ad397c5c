package consultest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/rulewire/rulewire/consul"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/testcontainers/internal/shared"
	"github.com/rulewire/rulewire/testcontainers/internal/trial"
	"github.com/rulewire/rulewire/testcontainers/internal/wait"
	"github.com/rulewire/rulewire/testcontainers/link"
	"github.com/rulewire/rulewire/writable"
)

// The driver on a real Consul.

// plain is the Consul of all tests that leave it as they found it.
var plain = shared.New(func(t testing.TB) *Server { return Run(t) })

const (
	// soon is more than enough for anything that needs no waiting.
	soon = 20 * time.Second
	root = "5b1b1c0e-7a0f-4f3e-9d2a-0d8f5f7c1a11"
	// waitTime is short, so that the idle cases see more than one period.
	waitTime = 2 * time.Second
)

var keys atomic.Uint64

// newKey gives a key of the test's own, for the server may be somebody's.
func newKey(t testing.TB, s *Server) string {
	key := fmt.Sprintf("suite-%d-%d/rules", time.Now().UnixNano(), keys.Add(1))
	t.Cleanup(func() {
		err := s.with(func(c *api.Client) error {
			_, err := c.KV().DeleteTree(key, nil) // what a test adds to the key goes with it
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	return key
}

// harness plays the conformance suite: one server for all cases, and for each a key, a client and a link of its own.
type harness struct {
	server *Server
	key    string
	link   *link.Link
	admin  *api.Client
	client *api.Client
	sent   atomic.Int64
}

func newHarness(t testing.TB, s *Server, token string) *harness {
	h := &harness{server: s, key: fmt.Sprintf("suite-%d-%d/rules", time.Now().UnixNano(), keys.Add(1))}
	var err error
	if h.link, err = link.Listen(s.Admin(port)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.link.Close() })
	h.admin = h.connect(t, s.Admin(port), s.token, nil)
	h.client = h.connect(t, h.link.Addr(), token, &h.sent)
	t.Cleanup(func() {
		if _, err := h.admin.KV().DeleteTree(h.key, nil); err != nil { // the neighbour, too
			t.Error(err)
		}
	})
	return h
}

func (h *harness) connect(t testing.TB, addr, token string, sent *atomic.Int64) *api.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	config := h.server.config(addr, transport)
	config.Token = token
	if sent != nil {
		config.HttpClient = &http.Client{Transport: counting{transport, sent}}
	}
	c, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// counting counts requests.
type counting struct {
	http.RoundTripper
	n *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

func (h *harness) Source() (datasource.Source, error) {
	return consul.NewSource(h.client, h.key, consul.WaitTime(waitTime))
}
func (h *harness) Sink() (writable.Sink, error) { return consul.NewSink(h.client, h.key) }

func (h *harness) put(key string, data []byte) error {
	_, err := h.admin.KV().Put(&api.KVPair{Key: key, Value: data}, nil)
	var status api.StatusError
	if errors.As(err, &status) && status.Code == http.StatusRequestEntityTooLarge {
		return fmt.Errorf("%w: %w", datasourcetest.ErrUnplayable, err)
	}
	return err
}

func (h *harness) Put(data []byte) error          { return h.put(h.key, data) }
func (h *harness) PutNeighbour(data []byte) error { return h.put(h.key+"2", data) }

func (h *harness) Delete() error {
	_, err := h.admin.KV().Delete(h.key, nil)
	return err
}

func (h *harness) DeletePut(data []byte) error {
	done, answer, _, err := h.admin.KV().Txn(api.KVTxnOps{
		{Verb: api.KVDelete, Key: h.key}, {Verb: api.KVSet, Key: h.key, Value: data},
	}, nil)
	if err == nil && !done {
		err = fmt.Errorf("transaction: %v", answer.Errors)
	}
	return err
}

func (h *harness) Misconfigured() map[string]error {
	_, wait := consul.NewSource(h.client, h.key, consul.WaitTime(0))
	_, size := consul.NewSink(h.client, h.key, consul.MaxBytes(0))
	_, folder := consul.NewSource(h.client, "rules/")
	return map[string]error{"wait time": wait, "max bytes": size, "folder": folder}
}

func (h *harness) Restart() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer h.server.close()
	return playable(h.server.Restart(ctx))
}

func playable(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", datasourcetest.ErrUnplayable, err)
	}
	return err
}

func (h *harness) Break() error { h.link.Cut(); return nil }
func (h *harness) Stall() error { h.link.Stall(link.Both); return nil }
func (h *harness) Heal() error  { h.link.Heal(); return nil }

func (h *harness) Requests() int { return int(h.sent.Load()) }
func (h *harness) Limit() int    { return 512 << 10 }

// open is the harness on a server without access control, which may be replaced by an empty one.
type open struct{ *harness }

func (h open) Reset(data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer h.server.close()
	if err := playable(h.server.Renew(ctx)); err != nil {
		return err
	}
	return h.Put(data)
}

// guarded is the harness on a server with access control, whose token may do what the driver needs and no more.
type guarded struct {
	*harness
	good, bad string
	denied    *atomic.Bool
}

func (h guarded) token(context.Context) (string, error) {
	if h.denied.Load() {
		return h.bad, nil
	}
	return h.good, nil
}

func (h guarded) Source() (datasource.Source, error) {
	return consul.NewSource(h.client, h.key, consul.WaitTime(waitTime), consul.Token(h.token))
}

func (h guarded) Sink() (writable.Sink, error) {
	return consul.NewSink(h.client, h.key, consul.Token(h.token))
}

func (h guarded) Secrets() []string { return []string{root, h.good, h.bad} }

func (h guarded) Deny() error {
	h.denied.Store(true)
	h.link.Reset() // what blocks is asked again
	return nil
}

func (h guarded) Heal() error {
	h.denied.Store(false)
	return h.harness.Heal()
}

func newGuarded(t testing.TB, s *Server) datasourcetest.Harness {
	s.close() // as for TestConformance
	h := guarded{newHarness(t, s, ""), "", "", &atomic.Bool{}}
	name := fmt.Sprintf("policy%d", keys.Add(1))
	h.good = newToken(t, h.admin, name, fmt.Sprintf("key %q { policy = \"write\" }", h.key))
	h.bad = newToken(t, h.admin, name+"-other", `key "other" { policy = "write" }`)
	return h
}

func newToken(t testing.TB, c *api.Client, policy, rules string) string {
	t.Helper()
	if _, _, err := c.ACL().PolicyCreate(&api.ACLPolicy{Name: policy, Rules: rules}, nil); err != nil {
		t.Fatal(err)
	}
	token, _, err := c.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{Name: policy}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}

// The suites look for goroutines that are left, so they do not run beside other tests.

func TestConformance(t *testing.T) {
	s := plain.Get(t)
	t.Cleanup(func() { must(t, s.connect(context.Background())) }) // for the others
	c := datasourcetest.Config{Leaks: shared.Leaks(), IdlePeriod: waitTime / 2, New: func(t testing.TB) datasourcetest.Harness {
		s.close() // The helper's own client would come and go with the server, and be taken for a leak.
		return open{newHarness(t, s, "")}
	}}
	datasourcetest.Run(t, c)
	datasourcetest.RunSink(t, c)
}

func TestConformanceWithAccessControl(t *testing.T) {
	s := Run(t, WithToken(root))
	c := datasourcetest.Config{Leaks: shared.Leaks(), Edits: 200, IdlePeriod: waitTime / 2, New: func(t testing.TB) datasourcetest.Harness { return newGuarded(t, s) }}
	datasourcetest.Run(t, c)
	datasourcetest.RunSink(t, c)
}

func newSource(t *testing.T, c *api.Client, key string, options ...consul.Option) *consul.Source {
	t.Helper()
	src, err := consul.NewSource(c, key, options...)
	must(t, err)
	return src
}

// faults: F069 F070 F090
func TestKilledTenTimes(t *testing.T) {
	t.Parallel()
	s := Run(t)
	if !s.Contained() {
		t.Skip("the server is not ours to kill")
	}
	c := client(t, s)
	put := func(ctx context.Context, data []byte) error { return s.Put(ctx, "k", data) }
	trial.Kills(t, s, put, newSource(t, c, "k"), newSource(t, c, "k")) // two on one client
}

// A restored snapshot lowers the index of the key; what it holds comes into force without another write: at once, for the
// restore wakes who waits, or by the relist, if it came between two queries.
//
// faults: F069 F070
func TestE7RestoredSnapshot(t *testing.T) {
	t.Parallel()
	s := Run(t)
	must(t, s.Put(t.Context(), "k", trial.Document(1)))
	backup, err := s.Snapshot(t.Context())
	must(t, err)
	for i := range 20 {
		must(t, s.Put(t.Context(), "k", trial.Document(i+2)))
	}
	proxy, c := newFaulty(t, s)
	l := trial.Open(t, newSource(t, c, "k"))
	l.InForce(t, soon, 21)
	<-proxy.blocks
	begin := time.Now()
	must(t, s.Restore(t.Context(), backup))
	l.InForce(t, datasource.DefaultRelist+soon, 1)
	t.Logf("restored document in force after %v", time.Since(begin).Round(time.Millisecond))
	must(t, s.Put(t.Context(), "k", trial.Document(99)))
	l.InForce(t, soon, 99)
}

// Between client and server: failures, then a rate limit.
//
// faults: F116 F117 F119
func TestE7StormOfErrors(t *testing.T) {
	t.Parallel()
	s := plain.Get(t)
	key := newKey(t, s)
	must(t, s.Put(t.Context(), key, trial.Document(1)))
	proxy, c := newFaulty(t, s)
	l := trial.Open(t, newSource(t, c, key))
	l.InForce(t, soon, 1)
	<-proxy.blocks

	proxy.set(http.StatusInternalServerError, 3)        // a minute of each, in fake time: consul.TestErrorsOfTheServerAreNotAnsweredByAStorm
	must(t, s.Put(t.Context(), key, trial.Document(2))) // wakes the query that blocks, as the same bytes would not
	l.Until(t, soon, "degraded", func() bool { return l.Status().State == datasource.StateDegraded })
	keeps(t, l, proxy.count)
	proxy.set(0, 0)
	must(t, s.Put(t.Context(), key, trial.Document(3)))
	l.InForce(t, 2*datasource.DefaultMaxBackoff, 3)
}

// keeps checks what holds while a store has been failing for five seconds: at most one request a second, and the rules stay.
func keeps(t *testing.T, l *trial.Live, requests func() int) {
	t.Helper()
	<-time.NewTimer(5 * time.Second).C
	before := requests()
	<-time.NewTimer(5 * time.Second).C
	if n := requests() - before; n > 5 {
		t.Errorf("%d requests in 5 s", n)
	}
	if st := l.Status(); st.State != datasource.StateDegraded || st.Rules != 1 {
		t.Errorf("%s, %d rules in force, %+v", st.State, st.Rules, st.Counts)
	}
	t.Log("rules kept:", l.Status().LastError)
}

// faulty answers in place of a server: failures times with a status, then with 429.
type faulty struct {
	addr      string // of the server
	transport *http.Transport
	blocks    chan struct{} // has an item once a query was sent on that blocks

	mu       sync.Mutex
	status   int
	failures int
	n        int
}

func newFaulty(t *testing.T, s *Server) (*faulty, *api.Client) {
	t.Helper()
	f := &faulty{addr: s.Addr(), transport: &http.Transport{}, blocks: make(chan struct{}, 1)}
	t.Cleanup(f.transport.CloseIdleConnections)
	c, err := api.NewClient(&api.Config{Address: "in-process", HttpClient: &http.Client{Transport: f}})
	must(t, err)
	return f, c
}

func (f *faulty) set(status, failures int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.failures = status, failures
}

func (f *faulty) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.n++
	status := f.status
	if status > 0 && f.failures == 0 {
		status = http.StatusTooManyRequests
	}
	f.failures = max(0, f.failures-1)
	f.mu.Unlock()
	if status == 0 {
		if r.URL.Query().Get("wait") != "" {
			select {
			case f.blocks <- struct{}{}:
			default:
			}
		}
		r = r.Clone(r.Context())
		r.URL.Host, r.Host = f.addr, f.addr
		return f.transport.RoundTrip(r)
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// Consul limits the connections of one address, and answers 429 to those that are too many.
//
// faults: F116 F119
func TestE7LimitOfConnections(t *testing.T) {
	t.Parallel()
	const limit = 10
	s := Run(t, WithConfig(fmt.Sprintf(`{"limits":{"http_max_conns_per_client":%d}}`, limit)))
	h := newHarness(t, s, "")
	must(t, h.Put(trial.Document(1)))
	l := trial.Open(t, newSource(t, h.client, h.key))
	l.InForce(t, soon, 1)

	ctx, stop := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	defer crowd.Wait()
	defer stop()
	for range 2 * limit {
		crowd.Go(func() {
			for ctx.Err() == nil {
				occupy(ctx, s.Admin(port))
			}
		})
	}
	// Whoever had a connection does not get it again, unless it comes before the crowd: then once more.
	var last time.Time
	eventually(t, func() error {
		st := l.Status()
		if st.State == datasource.StateDegraded {
			return nil
		}
		if time.Since(last) > time.Second {
			h.link.Reset()
			last = time.Now()
		}
		return fmt.Errorf("the source is %s", st.State)
	})
	keeps(t, l, h.Requests)
	stop()
	crowd.Wait()
	h.link.Reset()
	eventually(t, func() error { return h.Put(trial.Document(2)) })
	l.InForce(t, 2*datasource.DefaultMaxBackoff, 2)
}

// occupy holds a connection until the server closes it or ctx ends.
func occupy(ctx context.Context, addr string) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	must(t, wait.Until(ctx, func(context.Context) error { return f() }))
}

// A missing key blocks on the real server, too.
//
// faults: F118
func TestE7MissingKeyBlocks(t *testing.T) {
	t.Parallel()
	s := plain.Get(t)
	h := newHarness(t, s, s.token)
	key := newKey(t, s)
	l := trial.Open(t, newSource(t, h.client, key))
	before, begin := h.Requests(), time.Now()
	for i := range 20 {
		must(t, s.Put(t.Context(), key+strconv.Itoa(i), nil)) // its neighbours change
	}
	pause := time.NewTimer(2 * time.Second)
	<-pause.C
	// Each time it is woken for nothing it pauses twice as long, from 20 ms to 2 s, and then asks twice: once at once, once
	// to block. So it takes seven times to the longest pause, and what a busy machine adds is one for each 2 s.
	most := 2 * (8 + int(time.Since(begin)/(2*time.Second)))
	if n := h.Requests() - before; n > most {
		t.Errorf("%d requests for a key that is missing, at most %d were expected", n, most)
	}
	t.Logf("%d requests while 20 neighbours changed", h.Requests()-before)
	must(t, s.Put(t.Context(), key, trial.Document(1)))
	l.InForce(t, soon, 1)
	must(t, s.Delete(t.Context(), key))
	l.Until(t, soon, "missing again", func() bool { return l.Status().Cause == datasource.CauseMissing })
	must(t, s.Put(t.Context(), key, trial.Document(2)))
	l.InForce(t, soon, 2)
}

// faults: F110 F111 F112
func TestTokenIsRotated(t *testing.T) {
	t.Parallel()
	s := Run(t, WithToken(root))
	must(t, s.Put(t.Context(), "k", trial.Document(1)))
	const rules = `key "k" { policy = "write" }`
	var token atomic.Value
	token.Store(newToken(t, s.Client(), "first", rules))
	config := s.Config()
	config.Token = ""
	c, err := api.NewClient(config)
	must(t, err)
	t.Cleanup(config.HttpClient.CloseIdleConnections)
	option := consul.Token(func(context.Context) (string, error) { return token.Load().(string), nil })
	l := trial.Open(t, newSource(t, c, "k", option))
	sink, err := consul.NewSink(c, "k", option)
	must(t, err)
	for round := range 3 {
		old := token.Load().(string)
		token.Store(newToken(t, s.Client(), fmt.Sprintf("next%d", round), rules))
		self, _, err := s.Client().ACL().TokenReadSelf(&api.QueryOptions{Token: old})
		must(t, err)
		_, err = s.Client().ACL().TokenDelete(self.AccessorID, nil)
		must(t, err)
		now, err := sink.Read(t.Context())
		must(t, err)
		_, err = sink.Write(t.Context(), trial.Document(round+2), now.Revision)
		must(t, err)
		l.InForce(t, soon, round+2)
	}
	token.Store("11111111-2222-3333-4444-555555555555")
	var status api.StatusError
	if _, err := newSource(t, c, "k", option).Read(t.Context()); !errors.As(err, &status) || status.Code != http.StatusForbidden {
		t.Errorf("with an unknown token: %v", err)
	} else {
		t.Log("with an unknown token:", err)
	}
	token.Store(newToken(t, s.Client(), "stranger", `key "other" { policy = "write" }`))
	if _, err := newSource(t, c, "k", option).Read(t.Context()); !errors.As(err, &status) || status.Code != http.StatusForbidden {
		t.Errorf("without permission: %v", err)
	} else {
		t.Log("without permission:", err)
	}
	if _, err := sink.Write(t.Context(), trial.Document(9), "1"); !errors.As(err, &status) || errors.Is(err, datasource.ErrUnknownOutcome) {
		t.Errorf("write without permission: %v", err)
	}
}

// Over HTTPS the blocking queries of a client share connections, far beyond the agent's limit of 200 of them.
//
// faults: F112 F120
func TestMutualTLSAndManySourcesOnOneClient(t *testing.T) {
	t.Parallel()
	s := Run(t, WithTLS(true))
	transport := &http.Transport{TLSClientConfig: s.TLS(), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := api.NewClient(&api.Config{Address: s.Addr(), Scheme: "https", HttpClient: &http.Client{Transport: transport}})
	must(t, err)
	const n = 300
	lives := make([]*trial.Live, n)
	for i := range lives {
		lives[i] = trial.Open(t, newSource(t, c, fmt.Sprintf("k%d", i)))
	}
	for i := range lives {
		must(t, s.Put(t.Context(), fmt.Sprintf("k%d", i), trial.Document(i)))
	}
	for i, l := range lives {
		l.InForce(t, soon, i)
	}
	open := s.Link().Stats().Open
	t.Logf("%d sources share %d connections", n, open)
	if open > 4 {
		t.Errorf("%d connections", open)
	}
	for name, change := range map[string]func(*tls.Config){
		"other name":     func(c *tls.Config) { c.ServerName = "elsewhere.test" },
		"no certificate": func(c *tls.Config) { c.Certificates = nil },
		"no authority":   func(c *tls.Config) { c.RootCAs = nil },
	} {
		broken := s.TLS()
		change(broken)
		transport := &http.Transport{TLSClientConfig: broken}
		t.Cleanup(transport.CloseIdleConnections)
		c, err := api.NewClient(&api.Config{Address: s.Addr(), Scheme: "https", HttpClient: &http.Client{Transport: transport}})
		must(t, err)
		_, err = newSource(t, c, "k0").Read(t.Context())
		if err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, err)
	}
}

// faults: F059
func TestLimitOfTheServer(t *testing.T) {
	t.Parallel()
	s := plain.Get(t)
	c, key := client(t, s), newKey(t, s)
	sink, err := consul.NewSink(c, key, consul.MaxBytes(1<<20))
	must(t, err)
	doc, err := sink.Write(t.Context(), bytes.Repeat([]byte(" "), 512<<10), writable.Absent)
	must(t, err)
	_, err = sink.Write(t.Context(), bytes.Repeat([]byte(" "), 512<<10+1), doc.Revision)
	var status api.StatusError
	if !errors.Is(err, datasource.ErrTooLarge) || !errors.As(err, &status) || status.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("over the limit: %v", err)
	}
}

// faults: F003
func TestKeyOfAnExpiredSession(t *testing.T) {
	t.Parallel()
	s := plain.Get(t)
	c, key := client(t, s), newKey(t, s)
	session, _, err := s.Client().Session().CreateNoChecks(&api.SessionEntry{Behavior: api.SessionBehaviorDelete, TTL: "10s"}, nil)
	must(t, err)
	_, _, err = s.Client().KV().Acquire(&api.KVPair{Key: key, Value: trial.Document(1), Session: session}, nil)
	must(t, err)
	l := trial.Open(t, newSource(t, c, key))
	l.InForce(t, soon, 1)
	_, err = s.Client().Session().Destroy(session, nil)
	must(t, err)
	l.Until(t, soon, "missing", func() bool { return l.Status().Cause == datasource.CauseMissing })
	l.InForce(t, soon, 1)
}
