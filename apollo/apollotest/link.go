package apollotest

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// ErrCut is what a connection over a link that was cut says.
var ErrCut = errors.New("the link is cut")

// Link is the way from one client to the servers. What it does to the client nobody else feels.
type Link struct {
	dial      func(context.Context, string) (net.Conn, error)
	transport *http.Transport

	mu       sync.Mutex
	cut      bool
	stalled  bool
	conns    map[*conn]struct{}
	requests map[string]int
	fault    func(*http.Request) *http.Response
	lost     func(*http.Request) bool
}

// Dial makes a link whose connections dial makes; nil is TCP.
func Dial(dial func(ctx context.Context, address string) (net.Conn, error)) *Link {
	if dial == nil {
		var d net.Dialer
		dial = func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
	}
	l := &Link{dial: dial, conns: map[*conn]struct{}{}, requests: map[string]int{}}
	l.transport = &http.Transport{DialContext: l.connect, MaxIdleConnsPerHost: 4}
	return l
}

// Client is an http.Client over the link.
func (l *Link) Client() *http.Client { return &http.Client{Transport: l} }

// CloseIdleConnections is for http.Client's method of that name.
func (l *Link) CloseIdleConnections() { l.transport.CloseIdleConnections() }

// RoundTrip counts a request, lets faults answer it, and sends it.
func (l *Link) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	l.requests[r.URL.Path]++
	fault, lost := l.fault, l.lost
	l.mu.Unlock()
	if fault != nil {
		if answer := fault(r); answer != nil {
			answer.Request = r
			return answer, nil
		}
	}
	answer, err := l.transport.RoundTrip(r)
	if err == nil && lost != nil && lost(r) {
		// It was done, and the answer is gone.
		_ = answer.Body.Close()
		return nil, ErrCut
	}
	return answer, err
}

// Requests counts the requests so far whose path begins with prefix, also those that got no answer.
func (l *Link) Requests(prefix string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for path, count := range l.requests {
		if strings.HasPrefix(path, prefix) {
			n += count
		}
	}
	return n
}

// Cut ends all connections and lets none be made.
func (l *Link) Cut() {
	l.mu.Lock()
	l.cut = true
	conns := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// Stall makes the link silent: connections that are open look alive and carry nothing any more, also after Heal, as when a
// gateway on the way forgot them. New ones are no better.
func (l *Link) Stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = true
	for c := range l.conns {
		c.dead = true
	}
}

// Answer lets fault answer requests in the servers' place; nil answers are sent on. It is called at once from several
// goroutines.
func (l *Link) Answer(fault func(*http.Request) *http.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = fault
}

// LoseAnswers lets requests through for which lost says yes, and loses the answers.
func (l *Link) LoseAnswers(lost func(*http.Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = lost
}

// Heal ends what Cut, Stall, Answer and LoseAnswers began.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.stalled, l.fault, l.lost = false, false, nil, nil
}

// Close ends all connections.
func (l *Link) Close() {
	l.Cut()
	l.transport.CloseIdleConnections()
}

func (l *Link) connect(ctx context.Context, _, address string) (net.Conn, error) {
	l.mu.Lock()
	cut, stalled := l.cut, l.stalled
	l.mu.Unlock()
	if cut {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ErrCut}
	}
	var inner net.Conn
	var err error
	if stalled {
		// Something on the way accepts, and that is all it does.
		inner, _ = net.Pipe()
	} else if inner, err = l.dial(ctx, address); err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, link: l, closed: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		_ = inner.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ErrCut}
	}
	c.dead = stalled || l.stalled
	l.conns[c] = struct{}{}
	return c, nil
}

// conn is a connection that can go silent.
type conn struct {
	net.Conn
	link   *Link
	closed chan struct{}
	once   sync.Once
	dead   bool // under the link's mutex
}

func (c *conn) silent() bool {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.dead
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.silent() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if c.silent() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}

// Status is an answer without a body, for Answer.
func Status(code int) *http.Response { return Page(code, "text/plain", "") }

// Page is an answer with a body, for Answer.
func Page(code int, kind, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}
