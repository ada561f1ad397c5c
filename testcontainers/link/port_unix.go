//go:build unix

package link

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// port is a loopback port that belongs to a link also while nobody listens on it, so that it refuses connections as
// the port of a dead process does and no other process gets it meanwhile. A second socket that is bound and never
// listens holds it.
type port struct {
	fd   int
	addr *net.TCPAddr
}

func reserve() (*port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	unix.CloseOnExec(fd)
	p := &port{fd: fd}
	if err := p.bind(); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return p, nil
}

func (p *port) bind() error {
	if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return fmt.Errorf("share the port: %w", err)
	}
	if err := unix.Bind(p.fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	name, err := unix.Getsockname(p.fd)
	if err != nil {
		return fmt.Errorf("address: %w", err)
	}
	p.addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*unix.SockaddrInet4).Port}
	return nil
}

func (p *port) listen() (*net.TCPListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); e != nil {
			return e
		}
		return err
	}}
	listener, err := config.Listen(context.Background(), "tcp4", p.addr.String())
	if err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener), nil
}

func (p *port) release() { _ = unix.Close(p.fd) }
