package command

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// As the Java client does it: a port that is taken is tried three times, then the next one. Source: SimpleHttpCommandCenter.
// There it goes on without end.
const (
	portTries = 3
	portPause = 30 * time.Millisecond
	portsMost = 100
)

// listen binds the address of the options or, if its port is taken, the next free one.
func listen(ctx context.Context, o *options) (net.Listener, error) {
	host, portText, err := net.SplitHostPort(o.address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", portText)
	if err != nil {
		return nil, err
	}
	var conf net.ListenConfig
	first := port
	for try := 1; ; try++ {
		l, err := conf.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			l = newLimit(l, o.maxConns)
			if o.tls != nil {
				l = tls.NewListener(l, o.tls)
			}
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || o.exact || first == 0 {
			return nil, err
		}
		if try%portTries == 0 {
			if port++; port > 65535 || port > first+portsMost {
				return nil, err
			}
			continue
		}
		t := time.NewTimer(portPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

// exposed says whether other machines can reach an address.
func exposed(a net.Addr) bool {
	return !ipOf(a.String()).IsLoopback()
}

// limit accepts no more than so many connections at once.
type limit struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newLimit(l net.Listener, n int) *limit {
	return &limit{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

func (l *limit) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: conn, leave: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limit) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	leave func()
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}
