// Package consultest runs a real Consul server for tests.
//
//	server := consultest.Run(t)
//	client, err := api.NewClient(server.Config())
//	backup, err := server.Snapshot(ctx)
//	server.Put(ctx, "rules/flow", data)
//	server.Restore(ctx, backup) // every index falls
package consultest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/rulewire/rulewire/testcontainers"
	"github.com/rulewire/rulewire/testcontainers/certs"
	"github.com/rulewire/rulewire/testcontainers/link"
)

const (
	// AddrEnv names the variable with the host and port of a Consul that is already up.
	AddrEnv = "RULEWIRE_CONSUL_ADDR"
	// TokenEnv names the variable with a token for it that may do everything, if it asks for one.
	TokenEnv = "RULEWIRE_CONSUL_TOKEN"
)

const port = 8500

var (
	errNoLeader = errors.New("consul has no leader yet")
	errDown     = errors.New("consul is down")
)

// Server is one Consul server.
type Server struct {
	*testcontainers.Node
	tls   *tls.Config
	token string

	mu        sync.Mutex
	client    *api.Client
	transport *http.Transport
}

type settings struct {
	config map[string]any
	token  string
	tls    bool
	mutual bool
}

// Option is an option of Run.
type Option func(*settings) error

// WithConfig adds to the server's configuration, a JSON object as in Consul's own configuration files.
func WithConfig(text string) Option {
	return func(s *settings) error {
		var config map[string]any
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			return fmt.Errorf("consul: configuration: %w", err)
		}
		maps.Copy(s.config, config)
		return nil
	}
}

// WithToken turns access control on: nothing is allowed but what a token allows, and this one, a UUID, allows everything.
func WithToken(token string) Option {
	return func(s *settings) error {
		s.token = token
		s.config["acl"] = map[string]any{
			"enabled": true, "default_policy": "deny", "tokens": map[string]string{"initial_management": token, "agent": token},
		}
		return nil
	}
}

// WithTLS has the server speak HTTPS only. With mutual it also asks the client for a certificate.
func WithTLS(mutual bool) Option {
	return func(s *settings) error { s.tls, s.mutual = true, mutual; return nil }
}

// Run starts a Consul server, or uses the one that AddrEnv names if there are no options.
func Run(t testing.TB, options ...Option) *Server {
	t.Helper()
	if addr := os.Getenv(AddrEnv); addr != "" && len(options) == 0 {
		s := &Server{Node: testcontainers.External(t, "consul", map[int]string{port: addr}), token: os.Getenv(TokenEnv)}
		t.Cleanup(s.close)
		if err := s.connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	set := settings{config: map[string]any{
		"server": true, "bootstrap_expect": 1, "node_name": "consul1", "data_dir": "/data/consul",
		// A single server's peers are itself, so that its address may change between two starts.
		"bind_addr": "127.0.0.1", "client_addr": "0.0.0.0",
		"log_level": "warn", "disable_update_check": true, "leave_on_terminate": false, "skip_leave_on_interrupt": true,
		"performance": map[string]any{"raft_multiplier": 1},
		"ports":       map[string]any{"http": port, "dns": -1, "grpc": -1},
	}}
	for _, option := range options {
		if err := option(&set); err != nil {
			t.Fatal(err)
		}
	}
	s := &Server{token: set.token}
	files := map[string][]byte{}
	if set.tls {
		authority := certs.New(t)
		pair := authority.Sign(t, "consul", "127.0.0.1", "localhost")
		files = map[string][]byte{"/tls/ca.pem": authority.PEM, "/tls/cert.pem": pair.Cert, "/tls/key.pem": pair.Key}
		set.config["tls"] = map[string]any{"https": map[string]any{
			"ca_file": "/tls/ca.pem", "cert_file": "/tls/cert.pem", "key_file": "/tls/key.pem", "verify_incoming": set.mutual,
		}}
		set.config["ports"] = map[string]any{"http": -1, "https": port, "dns": -1, "grpc": -1}
		s.tls = authority.Client(t)
		if set.mutual {
			s.tls = authority.Client(t, authority.Sign(t, "client"))
		}
	}
	config, err := json.Marshal(set.config)
	if err != nil {
		t.Fatal(err)
	}
	files["/etc/consul.json"] = config
	t.Cleanup(s.close)
	testcontainers.Run(t, testcontainers.Spec{
		Name: "consul", Image: testcontainers.ConsulImage(t), Ports: []int{port}, Files: files,
		Command: []string{"consul", "agent", "-config-file=/etc/consul.json"},
		Ready: func(ctx context.Context, n *testcontainers.Node) error {
			if s.Node == nil { // Later starts find it in use.
				s.Node = n
			}
			return s.connect(ctx)
		},
		Down: s.close,
	})
	return s
}

func (s *Server) config(addr string, transport *http.Transport) *api.Config {
	transport.TLSClientConfig = s.TLS()
	config := &api.Config{Address: addr, Scheme: "http", Token: s.token, HttpClient: &http.Client{Transport: transport}}
	if s.tls != nil {
		config.Scheme = "https"
	}
	return config
}

// connect makes a new admin client and waits for a leader that serves reads.
func (s *Server) connect(ctx context.Context) error {
	s.close()
	transport := &http.Transport{}
	client, err := api.NewClient(s.config(s.Admin(port), transport))
	if err != nil {
		return err
	}
	if err := leads(ctx, client); err != nil {
		transport.CloseIdleConnections()
		return err
	}
	s.mu.Lock()
	s.client, s.transport = client, transport
	s.mu.Unlock()
	return nil
}

func leads(ctx context.Context, client *api.Client) error {
	leader, err := client.Status().LeaderWithQueryOptions((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return err
	}
	if leader == "" {
		return errNoLeader
	}
	_, _, err = client.KV().Get("rulewire-ready", (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	return err
}

func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.transport.CloseIdleConnections()
		s.client, s.transport = nil, nil
	}
}

// Addr is the address for the client under test, through the link.
func (s *Server) Addr() string { return s.Node.Addr(port) }

// Link is the link to the server.
func (s *Server) Link() *link.Link { return s.Node.Link(port) }

// TLS is the configuration for clients; nil without WithTLS.
func (s *Server) TLS() *tls.Config {
	if s.tls == nil {
		return nil
	}
	return s.tls.Clone()
}

// Config is that of a client under test. Its transport is the client's own: close its idle connections at the end.
func (s *Server) Config() *api.Config { return s.config(s.Addr(), &http.Transport{}) }

// Client is a client by another way than the link, for what the helper has no method for. It is another one after each Start.
func (s *Server) Client() *api.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

func (s *Server) with(f func(*api.Client) error) error {
	client := s.Client()
	if client == nil {
		return errDown
	}
	return f(client)
}

// Put writes a key.
func (s *Server) Put(ctx context.Context, key string, value []byte) error {
	return s.with(func(c *api.Client) error {
		_, err := c.KV().Put(&api.KVPair{Key: key, Value: value}, (&api.WriteOptions{}).WithContext(ctx))
		return err
	})
}

// Delete deletes a key; it need not exist.
func (s *Server) Delete(ctx context.Context, key string) error {
	return s.with(func(c *api.Client) error {
		_, err := c.KV().Delete(key, (&api.WriteOptions{}).WithContext(ctx))
		return err
	})
}

// Snapshot is a backup of the whole store.
func (s *Server) Snapshot(ctx context.Context) ([]byte, error) {
	var backup []byte
	err := s.with(func(c *api.Client) error {
		r, _, err := c.Snapshot().Save((&api.QueryOptions{}).WithContext(ctx))
		if err != nil {
			return err
		}
		defer r.Close()
		backup, err = io.ReadAll(r)
		return err
	})
	return backup, err
}

// Restore puts a backup in place of the store's content. Indexes fall to those of the backup.
func (s *Server) Restore(ctx context.Context, backup []byte) error {
	return s.with(func(c *api.Client) error {
		return c.Snapshot().Restore((&api.WriteOptions{}).WithContext(ctx), bytes.NewReader(backup))
	})
}
