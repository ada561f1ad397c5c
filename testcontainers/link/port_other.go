//go:build !unix

package link

import "net"

// port is a loopback port. Here it can't be held while nobody listens, so that another process may take it.
type port struct{ addr *net.TCPAddr }

func reserve() (*port, error) {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	return &port{listener.Addr().(*net.TCPAddr)}, nil
}

func (p *port) listen() (*net.TCPListener, error) { return net.ListenTCP("tcp4", p.addr) }

func (p *port) release() {}
