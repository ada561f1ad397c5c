package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// server speaks Consul's key-value protocol over pipes, so that the real client runs against it in a synctest bubble.
// Faults are made where a real Consul can't be made to have them at will.
type server struct {
	link *pipes

	mu      sync.Mutex
	index   uint64
	pairs   map[string]api.KVPair
	changed chan struct{} // closed at each change
	// abandoned is closed when a snapshot is restored.
	abandoned chan struct{}
	requests  int
	asked     []request
	// status and body, if set, answer every request.
	status int
	body   string
	stall  chan struct{}
	// spurious: blocking queries return at once, churn also with a higher index.
	spurious, churn bool
	leaderless      bool
	tokens          map[string]bool // nil: no access control
	// losePut drops the answer of the next write after it was done, or before; afterPut acts right after it.
	losePut  func(done bool) bool
	afterPut func()
}

type request struct {
	method, query, token string
	at                   time.Time
}

func newServer(t testing.TB) *server {
	s, stop := startServer()
	t.Cleanup(stop)
	return s
}

func startServer() (s *server, stop func()) {
	s = &server{
		index: 20, pairs: map[string]api.KVPair{}, changed: make(chan struct{}), abandoned: make(chan struct{}),
		link: &pipes{accept: make(chan net.Conn), closed: make(chan struct{}), conns: map[net.Conn]bool{}},
	}
	h := &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.Serve(s.link)
	}()
	return s, func() {
		s.heal()
		_ = h.Close()
		<-ended
	}
}

// client gives a new client of the server, as a user would make one.
func (s *server) client(t testing.TB) *api.Client {
	t.Helper()
	c, err := s.connect()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *server) connect() (*api.Client, error) {
	// Idle connections are the client's; without them what a case leaves behind can be counted.
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.link.dial(ctx) }}
	return api.NewClient(&api.Config{Address: "consul.test", HttpClient: &http.Client{Transport: transport}, Token: secret})
}

const secret = "c0ffee00-secret"

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	s.asked = append(s.asked, request{r.Method, r.URL.RawQuery, r.Header.Get("X-Consul-Token"), time.Now()})
	status, body, stall := s.status, s.body, s.stall
	allowed := s.tokens == nil || s.tokens[r.Header.Get("X-Consul-Token")]
	s.mu.Unlock()
	if stall != nil {
		select {
		case <-stall:
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case status != 0:
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	case !allowed:
		http.Error(w, "Permission denied", http.StatusForbidden)
	case r.Method == http.MethodGet:
		s.get(w, r)
	default:
		s.write(w, r)
	}
}

func (s *server) get(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/v1/kv/")
	after, _ := strconv.ParseUint(r.FormValue("index"), 10, 64)
	s.mu.Lock()
	old, oldIndex, oldFound := s.find(key)
	s.mu.Unlock()
	abandoned := after > 0 && s.wait(r, key, after)
	s.mu.Lock()
	defer s.mu.Unlock()
	pair, index, found := s.find(key)
	if abandoned {
		pair, index, found = old, oldIndex, oldFound
	}
	if s.churn {
		s.index++
		index = s.index
	}
	w.Header().Set("X-Consul-Index", strconv.FormatUint(index, 10))
	w.Header().Set("X-Consul-KnownLeader", strconv.FormatBool(!s.leaderless))
	w.Header().Set("X-Consul-LastContact", "0")
	if !found {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode([]api.KVPair{pair})
}

// find gives the pair and the index of the answer, which for a pair is its own. The lock is held.
func (s *server) find(key string) (pair api.KVPair, index uint64, found bool) {
	if pair, found = s.pairs[key]; found {
		return pair, pair.ModifyIndex, true
	}
	return pair, s.index, false
}

// wait blocks as Consul does: until the answer's index is above after, whatever that means for a lower one.
func (s *server) wait(r *http.Request, key string, after uint64) (abandoned bool) {
	limit, err := time.ParseDuration(r.FormValue("wait"))
	if err != nil {
		limit = 5 * time.Minute
	}
	t := time.NewTimer(limit + limit/16)
	defer t.Stop()
	s.mu.Lock()
	gone := s.abandoned
	s.mu.Unlock()
	for {
		s.mu.Lock()
		_, index, _ := s.find(key)
		changed, spurious := s.changed, s.spurious || s.churn
		s.mu.Unlock()
		select {
		case <-gone:
			return true
		default:
		}
		if index > after || spurious {
			return false
		}
		select {
		case <-changed:
		case <-gone:
			return true
		case <-t.C:
			return false
		case <-r.Context().Done():
			return false
		}
	}
}

func (s *server) write(w http.ResponseWriter, r *http.Request) {
	value, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if len(value) > valueLimit {
		http.Error(w, "Request body too large", http.StatusRequestEntityTooLarge)
		return
	}
	key := strings.TrimPrefix(r.URL.Path, "/v1/kv/")
	flags, _ := strconv.ParseUint(r.FormValue("flags"), 10, 64)
	cas, err := strconv.ParseUint(r.FormValue("cas"), 10, 64)
	if err != nil {
		http.Error(w, "only check-and-set is expected", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lose := s.losePut
	s.losePut = nil
	if lose != nil && lose(false) {
		panic(http.ErrAbortHandler)
	}
	done := s.pairs[key].ModifyIndex == cas
	if done {
		s.commit(key, value, flags)
	}
	if f := s.afterPut; f != nil {
		s.afterPut = nil
		f()
	}
	if lose != nil && lose(true) {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprint(w, done)
}

// commit stores or, with a nil value, deletes. The lock is held.
func (s *server) commit(key string, value []byte, flags uint64) {
	s.index++
	if value == nil {
		delete(s.pairs, key)
	} else {
		s.pairs[key] = api.KVPair{Key: key, Value: value, Flags: flags, ModifyIndex: s.index}
	}
	s.wake()
}

func (s *server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// What somebody else does to the store.

func (s *server) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) put(key, value string) { s.do(func() { s.commit(key, []byte(value), 0) }) }

func (s *server) remove(key string) { s.do(func() { s.commit(key, nil, 0) }) }

func (s *server) restore(index uint64, key, value string) {
	s.do(func() {
		s.index, s.pairs = index, map[string]api.KVPair{}
		s.commit(key, []byte(value), 0)
		close(s.abandoned) // whoever waits gets the old answer
		s.abandoned = make(chan struct{})
	})
}

func (s *server) fail(status int, body string) {
	s.do(func() {
		s.status, s.body = status, body
		s.wake()
	})
	s.link.cut(true) // what blocks now is asked again, and refused
	s.link.cut(false)
}

func (s *server) hang() { s.do(func() { s.stall = make(chan struct{}) }) }

func (s *server) heal() {
	s.do(func() {
		s.status, s.body = 0, ""
		if s.stall != nil {
			close(s.stall)
			s.stall = nil
		}
	})
	s.link.cut(false)
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests + s.link.refused()
}

// pipes is a network of one listener.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	broken bool
	tried  int
	conns  map[net.Conn]bool
}

var errConn = errors.New("connection refused")

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		p.tried++
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errConn}
	}
	ours, theirs := net.Pipe()
	p.conns[theirs] = true
	go func() {
		select {
		case p.accept <- theirs:
		case <-p.closed:
			_ = theirs.Close()
		}
	}()
	return ours, ctx.Err()
}

func (p *pipes) cut(broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = broken
	if broken {
		for c := range p.conns {
			_ = c.Close()
		}
		clear(p.conns)
	}
}

func (p *pipes) refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tried
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "consul.test" }
