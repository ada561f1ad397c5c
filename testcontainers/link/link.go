package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Direction is a way through a link; directions add up.
type Direction uint8

const (
	// Up is from the client to the server.
	Up Direction = 1 << iota
	// Down is from the server to the client.
	Down
	// Both is either way.
	Both = Up | Down
)

// ErrClosed means that the link is closed.
var ErrClosed = errors.New("link is closed")

// dialTimeout bounds how long a client's connection waits for the server behind the link.
const dialTimeout = 10 * time.Second

// queued is how many chunks may be under way in one direction of one connection. It stands for the buffers of a network.
const queued = 64

// Link is a TCP proxy on a loopback port. Its methods may be called from any goroutine.
type Link struct {
	port *port
	wg   sync.WaitGroup

	mu       sync.Mutex
	listener *net.TCPListener // nil while connections are refused
	target   string
	cut      bool
	refusing bool
	stalled  Direction
	delay    time.Duration
	closed   bool
	changed  chan struct{} // closed and replaced whenever one of the above changes
	pairs    map[*pair]struct{}

	accepted   atomic.Int64
	bytes      [2]atomic.Int64
	chunks     [2]atomic.Int64
	dialErrors atomic.Int64
}

// Stats are counts since the link was made.
type Stats struct {
	// Accepted are connections that clients made and the link let in, Open those that are there now.
	Accepted, Open int
	// DialErrors are those of them whose server did not answer.
	DialErrors int
	// UpBytes and DownBytes are bytes passed on to the server and to the client.
	UpBytes, DownBytes int64
	// UpChunks and DownChunks are how many writes carried them: for a client that is idle but for its requests, about one each.
	UpChunks, DownChunks int64
}

// Listen makes a link from a free loopback port to target, a host and port.
func Listen(target string) (*Link, error) {
	port, err := reserve()
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	l := &Link{port: port, target: target, changed: make(chan struct{}), pairs: map[*pair]struct{}{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		port.release()
		return nil, err
	}
	return l, nil
}

// Addr is the address for the client.
func (l *Link) Addr() string { return l.port.addr.String() }

// SetTarget moves the server. Connections that are open stay with the old one.
func (l *Link) SetTarget(target string) { l.change(func() { l.target = target }) }

// Cut resets every connection and refuses new ones, until Heal.
func (l *Link) Cut() {
	l.change(func() { l.cut = true })
	l.Reset()
}

// Refuse refuses new connections, as the port of a process that ended does, until Admit. Those that are open are left
// to their server's end.
func (l *Link) Refuse() { l.change(func() { l.refusing = true }) }

// Admit ends Refuse.
func (l *Link) Admit() { l.change(func() { l.refusing = false }) }

// Stall holds every byte in the directions without a sign to either side: connections stay open, new ones are
// accepted. What is held flows on after Heal.
func (l *Link) Stall(d Direction) { l.change(func() { l.stalled |= d & Both }) }

// Delay adds a latency to each way, until Heal. Order is kept.
func (l *Link) Delay(d time.Duration) { l.change(func() { l.delay = d }) }

// Reset breaks every connection with a TCP reset. New ones are let in.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.reset()
	}
}

// Heal ends Cut, Stall and Delay, but not Refuse: that is about the server.
func (l *Link) Heal() { l.change(func() { l.cut, l.stalled, l.delay = false, 0, 0 }) }

// Stats gives the counts.
func (l *Link) Stats() Stats {
	l.mu.Lock()
	open := len(l.pairs)
	l.mu.Unlock()
	return Stats{
		Accepted: int(l.accepted.Load()), Open: open,
		DialErrors: int(l.dialErrors.Load()),
		UpBytes:    l.bytes[0].Load(), DownBytes: l.bytes[1].Load(),
		UpChunks: l.chunks[0].Load(), DownChunks: l.chunks[1].Load(),
	}
}

// Close breaks every connection and waits until nothing of the link runs any more. A second Close returns ErrClosed.
func (l *Link) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closed = true
	l.shut()
	for p := range l.pairs {
		p.reset()
	}
	l.mu.Unlock()
	l.wg.Wait()
	l.port.release()
	return nil
}

// change changes the state under the lock, and wakes whoever waits for it.
func (l *Link) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	switch open := !l.cut && !l.refusing && !l.closed; {
	case open && l.listener == nil:
		if err := l.open(); err != nil {
			panic(err) // The port is ours and a moment ago it worked: nothing that a test could do about it.
		}
	case !open:
		l.shut()
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// open lets connections in. The caller holds the lock.
func (l *Link) open() error {
	listener, err := l.port.listen()
	if err != nil {
		return fmt.Errorf("link: %w", err)
	}
	l.listener = listener
	l.wg.Go(func() { l.accept(listener) })
	return nil
}

// shut refuses connections. The caller holds the lock.
func (l *Link) shut() {
	if l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
}

func (l *Link) accept(listener *net.TCPListener) {
	for {
		client, err := listener.AcceptTCP()
		if err != nil {
			return // Only shut makes a listener fail.
		}
		p := &pair{client: client, done: make(chan struct{})}
		l.mu.Lock()
		if l.listener != listener { // Shut since.
			l.mu.Unlock()
			p.reset()
			return
		}
		l.pairs[p] = struct{}{}
		target := l.target
		l.mu.Unlock()
		l.accepted.Add(1)
		l.wg.Go(func() {
			l.serve(p, target)
			l.mu.Lock()
			delete(l.pairs, p)
			l.mu.Unlock()
		})
	}
}

// serve carries one connection until both sides ended it or something broke it.
func (l *Link) serve(p *pair, target string) {
	defer p.reset()
	if !l.pass(p, Up) {
		return // A stalled link does not reach the server either.
	}
	if err := p.dial(target); err != nil {
		l.dialErrors.Add(1)
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.carry(p, Up, 0, p.client, p.server) })
	both.Go(func() { l.carry(p, Down, 1, p.server, p.client) })
	both.Wait()
	p.finish()
}

// chunk is a piece of a stream under way; data is nil at its end.
type chunk struct {
	data []byte
	at   time.Time
}

// carry moves one direction of one connection. The reader notes when a chunk is due, the writer waits for that and for
// stalls: so a delay is a latency, and not a limit of the throughput.
func (l *Link) carry(p *pair, d Direction, index int, from, to *net.TCPConn) {
	queue := make(chan chunk, queued)
	var reader sync.WaitGroup
	reader.Go(func() { l.read(p, from, queue) })
	defer reader.Wait()
	for {
		var c chunk
		select {
		case c = <-queue:
		case <-p.done:
			return
		}
		if !p.wait(c.at) || !l.pass(p, d) {
			return
		}
		if c.data == nil {
			_ = to.CloseWrite()
			return
		}
		// Counted before it is written, so that whoever saw the answer also sees the count.
		l.bytes[index].Add(int64(len(c.data)))
		l.chunks[index].Add(1)
		if _, err := to.Write(c.data); err != nil {
			p.reset()
			return
		}
	}
}

func (l *Link) read(p *pair, from *net.TCPConn, queue chan<- chunk) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		at := time.Now().Add(l.delay)
		l.mu.Unlock()
		if n > 0 {
			select {
			case queue <- chunk{append([]byte(nil), buf[:n]...), at}:
			case <-p.done:
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			select {
			case queue <- chunk{nil, at}:
			case <-p.done:
			}
			return
		default:
			// A reset of one side is one of the other, also past a stall: it is what a firewall without state does.
			p.reset()
			return
		}
	}
}

// pass waits while a direction is stalled; false means that the connection is gone.
func (l *Link) pass(p *pair, d Direction) bool {
	for {
		l.mu.Lock()
		stalled, changed := l.stalled&d != 0, l.changed
		l.mu.Unlock()
		if !stalled {
			return true
		}
		select {
		case <-changed:
		case <-p.done:
			return false
		}
	}
}

// pair is a client's connection and the one to the server behind it.
type pair struct {
	client *net.TCPConn
	done   chan struct{}

	mu     sync.Mutex
	server *net.TCPConn
	ended  bool
}

// dial connects to the server unless the pair ends meanwhile.
func (p *pair) dial(target string) error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer cancel()
	watcher.Go(func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	})
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		_ = conn.Close()
		return net.ErrClosed
	}
	p.server = conn.(*net.TCPConn)
	return nil
}

// wait waits until a chunk is due; false means that the connection is gone.
func (p *pair) wait(at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.done:
		return false
	}
}

// finish ends a pair whose streams both came to their end, so that what was written last still arrives.
func (p *pair) finish() { p.end(false) }

// reset ends both sides with a TCP reset. It and finish may be called more than once.
func (p *pair) reset() { p.end(true) }

func (p *pair) end(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	close(p.done)
	for _, conn := range []*net.TCPConn{p.client, p.server} {
		if conn != nil {
			if reset {
				_ = conn.SetLinger(0)
			}
			_ = conn.Close()
		}
	}
}
