// Package redistest runs real Redis servers for tests: one alone, a master with a replica and Sentinels, or a cluster.
//
// Servers of a group name each other by addresses inside their network. A client under test gets through with the
// Dial of the group, which goes through each server's link:
//
//	group := redistest.RunSentinel(t)
//	client := redis.NewFailoverClient(group.Options())
package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/testcontainers"
	"github.com/rulewire/rulewire/testcontainers/certs"
	"github.com/rulewire/rulewire/testcontainers/internal/wait"
	"github.com/rulewire/rulewire/testcontainers/link"
)

// AddrEnv names the variable with the host and port of a standalone Redis that is already up.
const AddrEnv = "RULEWIRE_REDIS_ADDR"

const (
	port         = 6379
	sentinelPort = 26379
	program      = "/usr/local/bin/redis-server"
)

var (
	errNoMaster = errors.New("no master yet")
	errDown     = errors.New("redis is down")
)

// Server is one Redis process.
type Server struct {
	*testcontainers.Node
	port     int
	tls      *tls.Config
	password string

	mu     sync.Mutex
	client *redis.Client
}

type settings struct {
	args     []string
	password string
	tls      bool
	mutual   bool
}

// Option is an option of Run, RunSentinel and RunCluster.
type Option func(*settings)

// WithArgs adds arguments of redis-server, such as "--notify-keyspace-events", "KEA".
func WithArgs(args ...string) Option { return func(s *settings) { s.args = append(s.args, args...) } }

// WithPassword has the servers ask for a password.
func WithPassword(password string) Option { return func(s *settings) { s.password = password } }

// WithTLS has a standalone server speak TLS only. With mutual it also asks the client for a certificate.
func WithTLS(mutual bool) Option { return func(s *settings) { s.tls, s.mutual = true, mutual } }

func (s *settings) apply(options []Option) {
	for _, option := range options {
		option(s)
	}
}

// arguments of a data server. Every write is on disk before it is acknowledged, so that a kill loses none.
func (s *settings) arguments() []string {
	args := []string{program, "--dir", "/data", "--protected-mode", "no", "--appendonly", "yes", "--appendfsync", "always", "--save", ""}
	if s.password != "" {
		args = append(args, "--requirepass", s.password, "--masterauth", s.password)
	}
	return append(args, s.args...)
}

// Run starts a standalone Redis, or uses the one that AddrEnv names if there are no options.
func Run(t testing.TB, options ...Option) *Server {
	t.Helper()
	if addr := os.Getenv(AddrEnv); addr != "" && len(options) == 0 {
		s := &Server{Node: testcontainers.External(t, "redis", map[int]string{port: addr}), port: port}
		t.Cleanup(s.close)
		if err := s.connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	var set settings
	set.apply(options)
	s := &Server{port: port, password: set.password}
	args, files := set.arguments(), map[string][]byte{}
	if set.tls {
		authority := certs.New(t)
		pair := authority.Sign(t, "redis", "127.0.0.1", "localhost")
		files = map[string][]byte{"/tls/ca.pem": authority.PEM, "/tls/cert.pem": pair.Cert, "/tls/key.pem": pair.Key}
		args = append(args, "--port", "0", "--tls-port", strconv.Itoa(port), "--tls-cert-file", "/tls/cert.pem",
			"--tls-key-file", "/tls/key.pem", "--tls-ca-cert-file", "/tls/ca.pem")
		s.tls = authority.Client(t)
		if set.mutual {
			s.tls = authority.Client(t, authority.Sign(t, "client"))
		} else {
			args = append(args, "--tls-auth-clients", "no")
		}
	}
	spec := s.spec("redis", testcontainers.RedisImage(t), args)
	spec.Files = files
	t.Cleanup(s.close)
	testcontainers.Run(t, spec)
	return s
}

func (s *Server) spec(name, image string, command []string) testcontainers.Spec {
	return testcontainers.Spec{
		Name: name, Image: image, Command: command, Ports: []int{s.port},
		Ready: func(ctx context.Context, n *testcontainers.Node) error {
			if s.Node == nil { // Later starts find it in use.
				s.Node = n
			}
			return s.connect(ctx)
		},
		Down: s.close,
	}
}

// connect makes a new admin client, so that nothing of an old connection is left.
func (s *Server) connect(ctx context.Context) error {
	s.close()
	client := redis.NewClient(&redis.Options{
		Addr: s.Admin(s.port), Password: s.password, TLSConfig: s.TLS(), MaxRetries: -1,
		// go-redis would ask the server for notices of maintenance, which only some servers know.
		DisableIdentity: true,
	})
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return err
	}
	s.mu.Lock()
	s.client = client
	s.mu.Unlock()
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

// Addr is the address for the client under test, through the link.
func (s *Server) Addr() string { return s.Node.Addr(s.port) }

// Link is the link to the server.
func (s *Server) Link() *link.Link { return s.Node.Link(s.port) }

// TLS is the configuration for clients; nil without WithTLS.
func (s *Server) TLS() *tls.Config {
	if s.tls == nil {
		return nil
	}
	return s.tls.Clone()
}

// Options are those of a client under test of this one server.
func (s *Server) Options() *redis.Options {
	return &redis.Options{Addr: s.Addr(), Password: s.password, TLSConfig: s.TLS()}
}

// Client is a client by another way than the link, for what the helper has no method for. It is another one after each Start.
func (s *Server) Client() *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// Put sets a key and tells nobody, as a plain SET does.
func (s *Server) Put(ctx context.Context, key string, value []byte) error {
	client := s.Client()
	if client == nil {
		return errDown
	}
	return client.Set(ctx, key, value, 0).Err()
}

// Publish sets a key and publishes the value on a channel in one transaction, as the Sentinel Dashboard's Java side does.
func (s *Server) Publish(ctx context.Context, key, channel string, value []byte) error {
	client := s.Client()
	if client == nil {
		return errDown
	}
	_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, key, value, 0)
		p.Publish(ctx, channel, value)
		return nil
	})
	return err
}

// Delete deletes a key; it need not exist.
func (s *Server) Delete(ctx context.Context, key string) error {
	client := s.Client()
	if client == nil {
		return errDown
	}
	return client.Del(ctx, key).Err()
}

// group is servers on one network.
type group struct {
	servers map[string]*Server // by address inside the network
}

// Dial connects to a server of the group by the address that the servers tell, through its link. It is the Dialer of a
// client under test. A server that is not of the group is dialled as it is.
func (g *group) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if s := g.servers[addr]; s != nil {
		addr = s.Addr()
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// learn notes under which address the others know a server.
func (g *group) learn(t testing.TB, servers ...*Server) {
	t.Helper()
	if g.servers == nil {
		g.servers = map[string]*Server{}
	}
	for _, s := range servers {
		g.servers[s.inside(t)] = s
	}
}

func (s *Server) inside(t testing.TB) string {
	t.Helper()
	ip, err := s.IP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(ip, strconv.Itoa(s.port))
}

// MasterName is the name under which Sentinels know the master.
const MasterName = "rulewire"

// Sentinel is a master, a replica and three Sentinels that replace the master when it is gone for a second.
type Sentinel struct {
	group
	// Data are the master and the replica as they started, Sentinels the three.
	Data, Sentinels []*Server
	password        string
}

// RunSentinel starts them.
func RunSentinel(t testing.TB, options ...Option) *Sentinel {
	t.Helper()
	var set settings
	set.apply(options)
	image, network := testcontainers.RedisImage(t), testcontainers.NewNetwork(t)
	g := &Sentinel{password: set.password}
	start := func(servers []*Server, command func(i int) []string, files map[string][]byte, name string) {
		t.Helper()
		specs := make([]testcontainers.Spec, len(servers))
		for i, s := range servers {
			specs[i] = s.spec(fmt.Sprintf("%s%d", name, i+1), image, command(i))
			specs[i].Network, specs[i].Alias, specs[i].Files = network, specs[i].Name, files
			t.Cleanup(s.close)
		}
		testcontainers.RunAll(t, specs...)
		g.learn(t, servers...)
	}
	master := &Server{port: port, password: set.password}
	start([]*Server{master}, func(int) []string { return set.arguments() }, nil, "master")
	masterIP, _, err := net.SplitHostPort(master.inside(t))
	if err != nil {
		t.Fatal(err)
	}
	replica := &Server{port: port, password: set.password}
	start([]*Server{replica}, func(int) []string {
		return append(set.arguments(), "--replicaof", fmt.Sprintf("%s %d", masterIP, port))
	}, nil, "replica")
	g.Data = []*Server{master, replica}

	lines := []string{
		fmt.Sprintf("port %d", sentinelPort), "dir /tmp", "protected-mode no",
		fmt.Sprintf("sentinel monitor %s %s %d 2", MasterName, masterIP, port),
		"sentinel down-after-milliseconds " + MasterName + " 1000",
		"sentinel failover-timeout " + MasterName + " 3000",
	}
	if set.password != "" {
		lines = append(lines, "sentinel auth-pass "+MasterName+" "+set.password)
	}
	files := map[string][]byte{"/etc/sentinel.conf": []byte(strings.Join(lines, "\n") + "\n")}
	g.Sentinels = []*Server{{port: sentinelPort}, {port: sentinelPort}, {port: sentinelPort}}
	start(g.Sentinels, func(int) []string { return []string{program, "/etc/sentinel.conf", "--sentinel"} }, files, "sentinel")

	// A failover needs Sentinels that know each other and the replica.
	err = wait.Until(t.Context(), func(ctx context.Context) error {
		for _, s := range g.Sentinels {
			state, err := redis.NewMapStringStringCmd(ctx, "sentinel", "master", MasterName), error(nil)
			if err = s.Client().Process(ctx, state); err != nil {
				return err
			}
			if m := state.Val(); m["num-other-sentinels"] != "2" || m["num-slaves"] != "1" || m["flags"] != "master" {
				return fmt.Errorf("%w: %s sentinels, %s replicas, %s", errNoMaster, m["num-other-sentinels"], m["num-slaves"], m["flags"])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Options are those of a client under test.
func (g *Sentinel) Options() *redis.FailoverOptions {
	o := &redis.FailoverOptions{MasterName: MasterName, Password: g.password, Dialer: g.Dial}
	for _, s := range g.Sentinels {
		o.SentinelAddrs = append(o.SentinelAddrs, s.Addr())
	}
	return o
}

// Master is the server that the Sentinels call master now.
func (g *Sentinel) Master(ctx context.Context) (*Server, error) {
	var last error
	for _, s := range g.Sentinels {
		client := s.Client()
		if client == nil {
			continue
		}
		answer := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", MasterName)
		if last = client.Process(ctx, answer); last != nil {
			continue
		}
		if at := answer.Val(); len(at) == 2 {
			if master := g.servers[net.JoinHostPort(at[0], at[1])]; master != nil {
				return master, nil
			}
		}
	}
	return nil, errors.Join(errNoMaster, last)
}

// AwaitMaster waits until the master is another one than old and takes writes.
func (g *Sentinel) AwaitMaster(ctx context.Context, old *Server) (*Server, error) {
	var master *Server
	err := wait.Until(ctx, func(ctx context.Context) error {
		var err error
		if master, err = g.Master(ctx); err != nil {
			return err
		}
		if master == old {
			return errNoMaster
		}
		role, err := master.Client().Do(ctx, "role").Slice()
		if err != nil {
			return err
		}
		if len(role) == 0 || role[0] != "master" {
			return errNoMaster
		}
		return nil
	})
	return master, err
}
