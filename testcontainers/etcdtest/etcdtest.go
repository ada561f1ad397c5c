// Package etcdtest runs a real etcd for tests.
//
//	server := etcdtest.Run(t)
//	client, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints()})
//	server.Link().Stall(link.Down)
//	server.Put(ctx, "/rules", data) // by another way
//	server.Link().Heal()
package etcdtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rulewire/rulewire/testcontainers"
	"github.com/rulewire/rulewire/testcontainers/certs"
	"github.com/rulewire/rulewire/testcontainers/link"
)

// AddrEnv names the variable with the host and port of an etcd that is already up.
const AddrEnv = "RULEWIRE_ETCD_ADDR"

const (
	port     = 2379
	peerPort = 2380
)

// Server is one etcd, or one member of a cluster.
type Server struct {
	*testcontainers.Node
	tls *tls.Config

	mu     sync.Mutex
	client *clientv3.Client
	user   string
	pass   string
}

type settings struct {
	args   []string
	tls    bool
	mutual bool
}

// Option is an option of Run and RunCluster.
type Option func(*settings)

// WithArgs adds flags of the etcd server, such as "--auth-token-ttl=3".
func WithArgs(args ...string) Option { return func(s *settings) { s.args = append(s.args, args...) } }

// WithTLS has the server speak TLS only. With mutual it also asks the client for a certificate.
func WithTLS(mutual bool) Option { return func(s *settings) { s.tls, s.mutual = true, mutual } }

// Run starts an etcd of one member, or uses the one that AddrEnv names if there are no options.
func Run(t testing.TB, options ...Option) *Server {
	t.Helper()
	if addr := os.Getenv(AddrEnv); addr != "" && len(options) == 0 {
		s := &Server{Node: testcontainers.External(t, "etcd", map[int]string{port: addr})}
		t.Cleanup(s.close)
		if err := s.connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	return run(t, nil, []string{"etcd1"}, options)[0]
}

// RunCluster starts an etcd of n members, which can lose its leader.
func RunCluster(t testing.TB, n int, options ...Option) []*Server {
	t.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("etcd%d", i+1)
	}
	return run(t, testcontainers.NewNetwork(t), names, options)
}

func run(t testing.TB, network *testcontainers.Network, names []string, options []Option) []*Server {
	t.Helper()
	var set settings
	for _, option := range options {
		option(&set)
	}
	image := testcontainers.EtcdImage(t)
	var authority *certs.Authority
	scheme := "http"
	if set.tls {
		authority, scheme = certs.New(t), "https"
	}
	peer := func(name string) string {
		if network == nil {
			return fmt.Sprintf("http://127.0.0.1:%d", peerPort)
		}
		return fmt.Sprintf("http://%s:%d", name, peerPort)
	}
	members := make([]string, len(names))
	for i, name := range names {
		members[i] = name + "=" + peer(name)
	}
	servers := make([]*Server, len(names))
	specs := make([]testcontainers.Spec, len(names))
	for i, name := range names {
		s := &Server{}
		servers[i] = s
		args := []string{
			"/usr/local/bin/etcd", "--name=" + name, "--data-dir=/data/etcd", "--log-level=warn",
			fmt.Sprintf("--listen-client-urls=%s://0.0.0.0:%d", scheme, port),
			fmt.Sprintf("--advertise-client-urls=%s://127.0.0.1:%d", scheme, port),
			fmt.Sprintf("--listen-peer-urls=http://0.0.0.0:%d", peerPort),
			"--initial-advertise-peer-urls=" + peer(name),
			"--initial-cluster=" + strings.Join(members, ","),
		}
		files := map[string][]byte{}
		if set.tls {
			pair := authority.Sign(t, name, "127.0.0.1", "localhost", name)
			files = map[string][]byte{"/tls/ca.pem": authority.PEM, "/tls/cert.pem": pair.Cert, "/tls/key.pem": pair.Key}
			args = append(args, "--cert-file=/tls/cert.pem", "--key-file=/tls/key.pem")
			s.tls = authority.Client(t)
			if set.mutual { // an authority for clients alone makes etcd ask for their certificates
				args = append(args, "--client-cert-auth", "--trusted-ca-file=/tls/ca.pem")
				s.tls = authority.Client(t, authority.Sign(t, "client"))
			}
		}
		specs[i] = testcontainers.Spec{
			Name: name, Image: image, Command: append(args, set.args...), Ports: []int{port}, Files: files,
			Network: network, Alias: name,
			Ready: func(ctx context.Context, n *testcontainers.Node) error {
				if s.Node == nil { // Later starts find it in use.
					s.Node = n
				}
				return s.connect(ctx)
			},
			Down: s.close,
		}
		t.Cleanup(s.close)
	}
	testcontainers.RunAll(t, specs...)
	return servers
}

// connect makes a new admin client, so that no backoff of an old one is waited for, and asks the server something
// that needs a leader.
func (s *Server) connect(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		_ = s.client.Close()
		s.client = nil
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.Admin(port)}, TLS: s.tls, Username: s.user, Password: s.pass,
		DialTimeout: 2 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	if _, err := client.Get(ctx, "rulewire-ready"); err != nil {
		_ = client.Close()
		return err
	}
	s.client = client
	return nil
}

func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		_ = s.client.Close()
		s.client = nil
	}
}

// Endpoints are the addresses for the client under test, through the link.
func (s *Server) Endpoints() []string { return []string{s.Addr(port)} }

// Link is the link to the server.
func (s *Server) Link() *link.Link { return s.Node.Link(port) }

// TLS is the configuration for clients; nil without WithTLS.
func (s *Server) TLS() *tls.Config {
	if s.tls == nil {
		return nil
	}
	return s.tls.Clone()
}

// errDown means that the server was stopped and not started again.
var errDown = errors.New("etcd is down")

// Client is a client by the other way, for what the helper has no method for. It is another one after each Start.
func (s *Server) Client() *clientv3.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

func (s *Server) with(f func(*clientv3.Client) error) error {
	client := s.Client()
	if client == nil {
		return errDown
	}
	return f(client)
}

// Put writes a key.
func (s *Server) Put(ctx context.Context, key string, value []byte) error {
	return s.with(func(c *clientv3.Client) error {
		_, err := c.Put(ctx, key, string(value))
		return err
	})
}

// Delete deletes a key; it need not exist.
func (s *Server) Delete(ctx context.Context, key string) error {
	return s.with(func(c *clientv3.Client) error {
		_, err := c.Delete(ctx, key)
		return err
	})
}

// Compact drops the history up to now: a watch from an older revision can't be served any more.
func (s *Server) Compact(ctx context.Context) error {
	return s.with(func(c *clientv3.Client) error {
		now, err := c.Get(ctx, "rulewire-ready")
		if err != nil {
			return err
		}
		_, err = c.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
		return err
	})
}

// EnableAuth turns authentication on, with one user who may do everything.
func (s *Server) EnableAuth(ctx context.Context, user, password string) error {
	err := s.with(func(c *clientv3.Client) error {
		if _, err := c.UserAdd(ctx, "root", password); err != nil {
			return err
		}
		if _, err := c.UserGrantRole(ctx, "root", "root"); err != nil {
			return err
		}
		if user != "root" {
			if _, err := c.UserAdd(ctx, user, password); err != nil {
				return err
			}
			if _, err := c.UserGrantRole(ctx, user, "root"); err != nil {
				return err
			}
		}
		_, err := c.AuthEnable(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("etcd: enable authentication: %w", err)
	}
	s.mu.Lock()
	s.user, s.pass = "root", password
	s.mu.Unlock()
	return s.connect(ctx)
}
