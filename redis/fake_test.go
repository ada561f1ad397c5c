package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// server is a small Redis in memory, reached over pipes, so that the driver runs in a synctest bubble with a server that
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
	wg       sync.WaitGroup
}

type peer struct {
	s        *server
	conn     net.Conn
	out      chan string
	done     chan struct{}
	resp3    bool
	channels map[string]bool
	watched  map[string]int
	queue    [][]string
	multi    bool
	dirty    bool
}

func newServer(t testing.TB) *server {
	s := &server{
		values: map[string]string{}, writes: map[string]int{}, types: map[string]bool{},
		peers: map[*peer]struct{}{}, counts: map[string]int{},
	}
	t.Cleanup(func() {
		s.kill()
		s.wg.Wait()
	})
	return s
}

// client gives a client with go-redis's own defaults, but for how often it tries again.
func (s *server) client(t testing.TB, change ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{
		Dialer: s.dial, MaxRetries: -1, DialerRetries: 1,
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
	near, far := net.Pipe()
	p := &peer{s: s, conn: far, out: make(chan string, 1<<12), done: make(chan struct{}), channels: map[string]bool{}, watched: map[string]int{}}
	s.peers[p] = struct{}{}
	s.wg.Add(2)
	go p.read()
	go p.write()
	return near, nil
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
		_ = p.conn.Close()
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
	if p.s.mute || reply == "" {
		return
	}
	p.out <- reply
}

func (p *peer) write() {
	defer p.s.wg.Done()
	for {
		select {
		case reply := <-p.out:
			if _, err := io.WriteString(p.conn, reply); err != nil {
				_ = p.conn.Close()
			}
		case <-p.done:
			return
		}
	}
}

func (p *peer) read() {
	defer p.s.wg.Done()
	defer func() {
		p.s.mu.Lock()
		delete(p.s.peers, p)
		p.s.mu.Unlock()
		_ = p.conn.Close()
		close(p.done)
	}()
	r := bufio.NewReader(p.conn)
	for {
		cmd, err := parse(r)
		if err != nil {
			return
		}
		p.s.mu.Lock()
		reply := p.serve(cmd)
		cut := p.s.answered != nil && !p.s.answered(p, cmd)
		if !cut {
			p.send(reply)
		}
		p.s.mu.Unlock()
		if cut {
			return
		}
	}
}

func parse(r *bufio.Reader) ([]string, error) {
	number := func(mark byte) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil || line[0] != mark {
			return 0, fmt.Errorf("%q: %w", line, err)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	cmd := make([]string, n)
	for i := range cmd {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		cmd[i] = string(b[:size])
	}
	cmd[0] = strings.ToLower(cmd[0])
	return cmd, nil
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
