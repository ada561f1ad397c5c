package redis

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a small Redis in memory, reached without a network, so that the driver runs in a synctest bubble with a server that
// fails on demand. It knows the commands that the driver sends, RESP2 and RESP3, transactions and pub/sub.
type server struct {
	mu     sync.Mutex
	values map[string]string
	writes map[string]int // bumped by each write to a key, for WATCH
	types  map[string]bool
	config string // notify-keyspace-events
	peers  map[*peer]struct{}
	counts map[string]int
	resp2  bool
	down   bool // refuses connections
	mute   bool // takes requests, answers nothing, sends nothing
	deaf   bool // loses publishes on their way to subscribers
	// fault may answer a command (as written) instead of the server, with a raw RESP reply; "" lets it be. It is called
	// with mu held.
	fault func(p *peer, cmd []string) string
	// answered is called after a command took effect and before its reply is sent; false cuts the connection instead.
	answered func(p *peer, cmd []string) bool
}

// peer is the client's end of a connection and the server's state of it. A write serves at once, so that no goroutine
// stands behind a connection.
type peer struct {
	s     *server
	ready chan struct{} // has an item while there may be something to read

	// The rest belongs to s.mu.
	in, out  []byte
	closed   bool
	deadline time.Time
	timer    *time.Timer
	resp3    bool
	channels map[string]bool
	watched  map[string]int
	queue    [][]string
	multi    bool
	dirty    bool
}

func newServer() *server {
	return &server{
		values: map[string]string{}, writes: map[string]int{}, types: map[string]bool{},
		peers: map[*peer]struct{}{}, counts: map[string]int{},
	}
}

// client gives a client with go-redis's own defaults, but for how often it tries again.
func (s *server) client(t testing.TB, change ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{
		Addr:   "127.0.0.1:6379", // not a name: go-redis resolves it, and the resolver does not live in bubbles
		Dialer: s.dial, MaxRetries: -1, DialerRetries: 1,
		// After as many failures go-redis connects only once a second; in fake time that falls into step with a link that
		// the suite breaks each 25 ms.
		PoolSize: 1 << 16,
		Username: "app", Password: "s3cret-pass",
	}
	for _, f := range change {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("the driver closed a client that it borrowed: %v", err)
		}
	})
	return c
}

var errRefused = errors.New("connection refused")

func (s *server) dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts["dial"]++
	if s.down {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errRefused}
	}
	p := &peer{s: s, ready: make(chan struct{}, 1), channels: map[string]bool{}, watched: map[string]int{}}
	s.peers[p] = struct{}{}
	return p, nil
}

// set changes the server while it runs.
func (s *server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// kill breaks every connection.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		p.cut()
	}
}

func (s *server) count(cmd string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[cmd]
}

func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peers)
}

// subscribers counts the connections with subscriptions.
func (s *server) subscribers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for p := range s.peers {
		if len(p.channels) > 0 {
			n++
		}
	}
	return n
}

// subscriptions counts channels over all connections.
func (s *server) subscriptions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for p := range s.peers {
		n += len(p.channels)
	}
	return n
}

func (s *server) value(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key]
	return v, ok
}

// put is a plain SET of somebody else.
func (s *server) put(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(key, value)
}

func (s *server) store(key, value string) {
	s.values[key] = value
	s.writes[key]++
	s.event(key, "set")
}

func (s *server) remove(key, event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, key)
	s.writes[key]++
	s.event(key, event)
}

func (s *server) event(key, event string) {
	if s.config != "" {
		s.publish("__keyspace@0__:"+key, event)
	}
}

// announce is a PUBLISH of somebody else.
func (s *server) announce(channel, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish(channel, text)
}

func (s *server) publish(channel, text string) int {
	n := 0
	for p := range s.peers {
		if p.channels[channel] {
			n++
			if !s.deaf {
				p.send(p.push("message", bulk(channel), bulk(text)))
			}
		}
	}
	return n
}

func bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

func (p *peer) push(kind string, parts ...string) string {
	mark := "*"
	if p.resp3 {
		mark = ">"
	}
	return mark + strconv.Itoa(len(parts)+1) + "\r\n" + bulk(kind) + strings.Join(parts, "")
}

func (p *peer) null() string {
	if p.resp3 {
		return "_\r\n"
	}
	return "$-1\r\n"
}

func (p *peer) send(reply string) {
	if !p.s.mute {
		p.out = append(p.out, reply...)
		p.wake()
	}
}

func (p *peer) wake() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

func (p *peer) cut() {
	p.closed = true
	delete(p.s.peers, p)
	if p.timer != nil {
		p.timer.Stop()
	}
	p.wake()
}

// Read implements net.Conn.
func (p *peer) Read(b []byte) (int, error) {
	for {
		p.s.mu.Lock()
		n := copy(b, p.out)
		p.out = p.out[n:]
		closed, late := p.closed, !p.deadline.IsZero() && !time.Now().Before(p.deadline)
		p.s.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case closed:
			return 0, io.EOF
		case late:
			return 0, os.ErrDeadlineExceeded
		}
		<-p.ready
	}
}

// Write implements net.Conn.
func (p *peer) Write(b []byte) (int, error) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.closed {
		return 0, net.ErrClosed
	}
	p.in = append(p.in, b...)
	for !p.closed {
		cmd, rest, ok := parse(p.in)
		if !ok {
			break
		}
		p.in = rest
		reply := p.serve(cmd)
		if p.s.answered != nil && !p.s.answered(p, cmd) {
			p.cut()
			break
		}
		p.send(reply)
	}
	return len(b), nil
}

// Close implements net.Conn.
func (p *peer) Close() error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.cut()
	return nil
}

// SetReadDeadline implements net.Conn.
func (p *peer) SetReadDeadline(t time.Time) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.deadline = t
	if p.timer != nil {
		p.timer.Stop()
	}
	if !t.IsZero() && !p.closed {
		p.timer = time.AfterFunc(time.Until(t), p.wake)
	}
	return nil
}

// SetDeadline implements net.Conn.
func (p *peer) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn; a write never waits.
func (p *peer) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (p *peer) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (p *peer) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// parse takes one command off a buffer; ok is false if it is not whole yet.
func parse(in []byte) (cmd []string, rest []byte, ok bool) {
	number := func() (n int, ok bool) {
		line, after, ok := bytes.Cut(in, []byte("\r\n"))
		if ok {
			n, _ = strconv.Atoi(string(line[1:]))
			in = after
		}
		return n, ok
	}
	n, ok := number()
	for range n {
		size, whole := number()
		if !whole || len(in) < size+2 {
			return nil, nil, false
		}
		cmd = append(cmd, string(in[:size]))
		in = in[size+2:]
	}
	if !ok || len(cmd) == 0 {
		return nil, nil, false
	}
	cmd[0] = strings.ToLower(cmd[0])
	return cmd, in, true
}

func (p *peer) serve(cmd []string) string {
	s := p.s
	s.counts[cmd[0]]++
	if s.fault != nil {
		if reply := s.fault(p, cmd); reply != "" {
			p.dirty = p.dirty || p.multi && reply[0] == '-'
			return reply
		}
	}
	switch cmd[0] {
	case "exec":
		return p.exec()
	case "multi":
		p.multi, p.dirty, p.queue = true, false, nil
		return "+OK\r\n"
	}
	if p.multi {
		p.queue = append(p.queue, cmd)
		return "+QUEUED\r\n"
	}
	return p.do(cmd)
}

func (p *peer) exec() string {
	s := p.s
	p.multi = false
	changed := false
	for key, at := range p.watched {
		changed = changed || s.writes[key] != at
	}
	clear(p.watched)
	switch {
	case p.dirty:
		return "-EXECABORT Transaction discarded because of previous errors.\r\n"
	case changed && p.resp3:
		return "_\r\n"
	case changed:
		return "*-1\r\n"
	}
	reply := "*" + strconv.Itoa(len(p.queue)) + "\r\n"
	for _, cmd := range p.queue {
		reply += p.do(cmd)
	}
	return reply
}

func (p *peer) do(cmd []string) string {
	s := p.s
	const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	switch cmd[0] {
	case "hello":
		if s.resp2 {
			return "-ERR unknown command 'HELLO', with args beginning with: '3' 'auth' 'app' 's3cret-pass' \r\n"
		}
		p.resp3 = true
		return "%1\r\n" + bulk("proto") + ":3\r\n"
	case "ping":
		if len(p.channels) > 0 && !p.resp3 {
			return p.push("pong", bulk(""))
		}
		return "+PONG\r\n"
	case "get":
		if s.types[cmd[1]] {
			return wrongType
		}
		v, ok := s.values[cmd[1]]
		if !ok {
			return p.null()
		}
		return bulk(v)
	case "getrange":
		if s.types[cmd[1]] {
			return wrongType
		}
		end, _ := strconv.Atoi(cmd[3])
		v := s.values[cmd[1]]
		return bulk(v[:min(len(v), end+1)])
	case "set":
		s.store(cmd[1], cmd[2])
		return "+OK\r\n"
	case "publish":
		return ":" + strconv.Itoa(s.publish(cmd[1], cmd[2])) + "\r\n"
	case "watch":
		for _, key := range cmd[1:] {
			p.watched[key] = s.writes[key]
		}
		return "+OK\r\n"
	case "unwatch":
		clear(p.watched)
		return "+OK\r\n"
	case "config":
		return "*2\r\n" + bulk("notify-keyspace-events") + bulk(s.config)
	case "subscribe":
		p.channels[cmd[1]] = true
		return p.push("subscribe", bulk(cmd[1]), ":"+strconv.Itoa(len(p.channels))+"\r\n")
	case "unsubscribe":
		delete(p.channels, cmd[1])
		return p.push("unsubscribe", bulk(cmd[1]), ":"+strconv.Itoa(len(p.channels))+"\r\n")
	case "auth", "client", "select", "readonly":
		return "+OK\r\n"
	}
	return "-ERR unknown command '" + cmd[0] + "', with args beginning with: " + strings.Join(cmd[1:], " ") + "\r\n"
}
