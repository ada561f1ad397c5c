package certs

import (
	"crypto/tls"
	"net"
	"sync"
	"testing"
)

// handshake connects a client to a server that asks for a certificate of the authority.
func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	var serverErr error
	wg.Go(func() {
		serverErr = tls.Server(a, server).HandshakeContext(t.Context())
		_ = a.Close()
	})
	conn := tls.Client(b, client)
	err := conn.HandshakeContext(t.Context())
	_, _ = conn.Read(make([]byte, 1)) // TLS 1.3: the server's word on the client's certificate comes after.
	wg.Wait()
	if err == nil {
		err = serverErr
	}
	return err
}

func TestHandshakes(t *testing.T) {
	a := New(t)
	pair := a.Sign(t, "server", "127.0.0.1", "example")
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: a.Client(t).RootCAs, ClientAuth: tls.RequireAndVerifyClientCert}
	named := func(name string, config *tls.Config) *tls.Config {
		config.ServerName = name
		return config
	}
	if err := handshake(t, server, named("example", a.Client(t, a.Sign(t, "client")))); err != nil {
		t.Errorf("by name: %v", err)
	}
	if err := handshake(t, server, named("127.0.0.1", a.Client(t, a.Sign(t, "client")))); err != nil {
		t.Errorf("by address: %v", err)
	}
	for what, client := range map[string]*tls.Config{
		"another name":      named("other", a.Client(t, a.Sign(t, "client"))),
		"another authority": named("example", New(t).Client(t, a.Sign(t, "client"))),
		"no certificate":    named("example", a.Client(t)),
		"a stranger's":      named("example", a.Client(t, New(t).Sign(t, "client"))),
	} {
		if err := handshake(t, server, client); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}
