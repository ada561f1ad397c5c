package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/etcd"
	"github.com/rulewire/rulewire/testcontainers/internal/shared"
	"github.com/rulewire/rulewire/testcontainers/internal/trial"
	"github.com/rulewire/rulewire/testcontainers/internal/wait"
	"github.com/rulewire/rulewire/testcontainers/link"
	"github.com/rulewire/rulewire/writable"
)

// The driver on a real etcd.

// plain is the etcd of all tests that leave it as they found it.
var plain = shared.New(func(t testing.TB) *Server { return Run(t) })

// helpers are what the helper keeps: the Docker client between two requests, and links that open again with the server.
var helpers = []goleak.Option{
	goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	goleak.IgnoreAnyFunction("github.com/rulewire/rulewire/testcontainers/link.(*Link).accept"),
}

// soon is more than enough for anything that needs no waiting.
const soon = 20 * time.Second

var keys atomic.Uint64

// newKey gives a key of the test's own, for the server may be somebody's.
func newKey(t testing.TB, s *Server) string {
	key := fmt.Sprintf("/suite-%d-%d/rules", time.Now().UnixNano(), keys.Add(1))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		err := s.with(func(c *clientv3.Client) error {
			_, err := c.Delete(ctx, key, clientv3.WithPrefix()) // what a test adds to the key goes with it
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	return key
}

// harness plays the conformance suite: one server for all cases, and for each a key, a client and a link of its own.
type harness struct {
	server *Server
	key    string
	link   *link.Link
	admin  *clientv3.Client
	client *clientv3.Client
	sent   wire
}

func newHarness(t testing.TB, s *Server, user, password string) *harness {
	// The helper's own client would come and go with the server, and be taken for a leak.
	s.close()
	h := &harness{server: s, key: fmt.Sprintf("/suite-%d-%d/rules", time.Now().UnixNano(), keys.Add(1))}
	var err error
	if h.link, err = link.Listen(s.Admin(port)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.link.Close() })
	h.admin = h.connect(t, clientv3.Config{Endpoints: []string{s.Admin(port)}, Username: s.user, Password: s.pass})
	t.Cleanup(func() {
		err := h.do(func(ctx context.Context) error {
			_, err := h.admin.Delete(ctx, h.key, clientv3.WithPrefix()) // the neighbour, too
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	h.client = h.connect(t, clientv3.Config{
		Endpoints: []string{h.link.Addr()}, Username: user, Password: password,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		DialOptions: h.sent.options(),
	})
	return h
}

func (h *harness) connect(t testing.TB, config clientv3.Config) *clientv3.Client {
	t.Helper()
	config.TLS, config.Logger, config.DialTimeout = h.server.TLS(), zap.NewNop(), soon
	c, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// do gives the other people of the store a time-out.
func (h *harness) do(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return f(ctx)
}

func (h *harness) Source() (datasource.Source, error) { return etcd.NewSource(h.client, h.key) }
func (h *harness) Sink() (writable.Sink, error)       { return etcd.NewSink(h.client, h.key) }

func (h *harness) put(key string, data []byte) error {
	return h.do(func(ctx context.Context) error {
		_, err := h.admin.Put(ctx, key, string(data))
		return err
	})
}

func (h *harness) Put(data []byte) error          { return h.put(h.key, data) }
func (h *harness) PutNeighbour(data []byte) error { return h.put(h.key+"2", data) }

func (h *harness) Delete() error {
	return h.do(func(ctx context.Context) error {
		_, err := h.admin.Delete(ctx, h.key)
		return err
	})
}

func (h *harness) DeletePut([]byte) error {
	return fmt.Errorf("%w: etcd takes no two changes of one key in one transaction; TestE5Gap has both in one response", datasourcetest.ErrUnplayable)
}

func (h *harness) Expire() error {
	return h.do(func(ctx context.Context) error {
		gone := h.admin.Watch(ctx, h.key, clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
		<-gone
		now, err := h.admin.Get(ctx, h.key)
		if err != nil {
			return err
		}
		lease, err := h.admin.Grant(ctx, 1)
		if err != nil {
			return err
		}
		if _, err := h.admin.Put(ctx, h.key, string(now.Kvs[0].Value), clientv3.WithLease(lease.ID)); err != nil {
			return err
		}
		answer := <-gone
		return answer.Err()
	})
}

func (h *harness) Compact() error {
	return h.do(func(ctx context.Context) error {
		now, err := h.admin.Get(ctx, h.key)
		if err == nil {
			_, err = h.admin.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
		}
		return err
	})
}

func (h *harness) Restart() error {
	return h.do(func(ctx context.Context) error {
		defer h.server.close()
		if err := h.server.Restart(ctx); err != nil {
			return fmt.Errorf("%w: %w", datasourcetest.ErrUnplayable, err)
		}
		return nil
	})
}

func (h *harness) Break() error { h.link.Cut(); return nil }
func (h *harness) Stall() error { h.link.Stall(link.Both); return nil }
func (h *harness) Heal() error  { h.link.Heal(); return nil }

func (h *harness) Requests() int      { return h.sent.count() }
func (h *harness) ClientClosed() bool { return h.client.Ctx().Err() != nil }
func (h *harness) Limit() int         { return 1536<<10 - 1<<10 - 3*len(h.key) }

func (h *harness) Misconfigured() map[string]error {
	_, timeout := etcd.NewSource(h.client, h.key, etcd.Timeout(-1))
	_, size := etcd.NewSink(h.client, h.key, etcd.MaxBytes(0))
	_, rangeEnd := etcd.NewSource(h.client, "\x00")
	return map[string]error{"timeout": timeout, "max bytes": size, "range end": rangeEnd}
}

// open is the harness on a server without authentication, which may be replaced by an empty one.
type open struct{ *harness }

func (h open) Reset(data []byte) error {
	err := h.do(func(ctx context.Context) error {
		defer h.server.close()
		return h.server.Renew(ctx)
	})
	if errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", datasourcetest.ErrUnplayable, err)
	}
	if err != nil {
		return err
	}
	return h.Put(data)
}

// guarded is the harness on a server with authentication, whose user may do what the driver needs and no more.
type guarded struct {
	*harness
	role string
}

func (h guarded) Secrets() []string { return []string{password} }

// Requests are without the dials: this client logged in when it was made, and goes back to the server by itself.
func (h guarded) Requests() int { return int(h.sent.messages.Load()) }

func (h guarded) Deny() error {
	return h.do(func(ctx context.Context) error {
		_, err := h.admin.RoleRevokePermission(ctx, h.role, h.key, "")
		return err
	})
}

func (h guarded) allow() error {
	return h.do(func(ctx context.Context) error {
		_, err := h.admin.RoleGrantPermission(ctx, h.role, h.key, "", clientv3.PermissionType(clientv3.PermReadWrite))
		return err
	})
}

func (h guarded) Heal() error {
	h.link.Heal()
	return h.allow()
}

const password = "correct horse"

func newGuarded(t testing.TB, s *Server) datasourcetest.Harness {
	name := fmt.Sprintf("user%d", keys.Add(1))
	s.close()
	// The role must be there before the user's client, which logs in at once.
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Admin(port)}, Username: s.user, Password: s.pass, Logger: zap.NewNop(), DialTimeout: soon})
	if err != nil {
		t.Fatal(err)
	}
	_, roleErr := admin.RoleAdd(t.Context(), name)
	_, userErr := admin.UserAdd(t.Context(), name, password)
	_, grantErr := admin.UserGrantRole(t.Context(), name, name)
	if err := errors.Join(roleErr, userErr, grantErr, admin.Close()); err != nil {
		t.Fatal(err)
	}
	h := guarded{newHarness(t, s, name, password), name}
	if err := h.allow(); err != nil {
		t.Fatal(err)
	}
	return h
}

// wire counts what a client sends, and the connections that it makes.
type wire struct{ messages, dials atomic.Int64 }

func (w *wire) count() int { return int(w.messages.Load() + w.dials.Load()) }

func (w *wire) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithStatsHandler(w), grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		w.dials.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	})}
}

func (w *wire) HandleRPC(_ context.Context, r stats.RPCStats) {
	if _, ok := r.(*stats.OutPayload); ok {
		w.messages.Add(1)
	}
}

func (w *wire) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (w *wire) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (w *wire) HandleConn(context.Context, stats.ConnStats)                       {}

// The suites look for goroutines that are left, so they do not run beside other tests.

func TestConformance(t *testing.T) {
	s := plain.Get(t)
	t.Cleanup(func() { must(t, s.connect(context.Background())) }) // for the others
	c := datasourcetest.Config{Leaks: helpers, New: func(t testing.TB) datasourcetest.Harness { return open{newHarness(t, s, "", "")} }}
	datasourcetest.Run(t, c)
	datasourcetest.RunSink(t, c)
}

// The same with authentication, and tokens that live for two seconds.
func TestConformanceWithAuthentication(t *testing.T) {
	s := Run(t, WithArgs("--auth-token-ttl=2", "--bcrypt-cost=4"))
	must(t, s.EnableAuth(t.Context(), "root", "root password"))
	c := datasourcetest.Config{Leaks: helpers, Edits: 200, New: func(t testing.TB) datasourcetest.Harness { return newGuarded(t, s) }}
	datasourcetest.Run(t, c)
	datasourcetest.RunSink(t, c)
}

func newSource(t *testing.T, c *clientv3.Client, key string, options ...etcd.Option) *etcd.Source {
	t.Helper()
	src, err := etcd.NewSource(c, key, options...)
	must(t, err)
	return src
}

// What comes between the read and the watch is not lost. etcd takes no two changes of one key in one transaction; in one
// response they come to a watch that begins before them.
//
// faults: F063 F144
func TestE5Gap(t *testing.T) {
	t.Parallel()
	s := plain.Get(t)
	c, key := client(t, s, nil), newKey(t, s)
	put := func(n int) { must(t, s.Put(t.Context(), key, trial.Document(n))) }
	clearing := []datasource.Option{datasource.OnMissing(datasource.Clear), datasource.OnEmptyList(datasource.Clear)}

	l := trial.Open(t, &gapped{Source: newSource(t, c, key), gap: func() { put(1) }}, clearing...)
	l.InForce(t, soon, 1)
	must(t, l.Close())

	l = trial.Open(t, &gapped{Source: newSource(t, c, key), gap: func() {
		must(t, s.Delete(t.Context(), key))
		put(2)
	}}, clearing...)
	l.InForce(t, soon, 2)
	if got := l.Numbers(); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("in force, one after the other: %v", got)
	}
}

// gapped does something between the read and the first watch.
type gapped struct {
	*etcd.Source
	once sync.Once
	gap  func()
}

func (g *gapped) Watch(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
	g.once.Do(g.gap)
	return g.Source.Watch(ctx, last, deliver)
}

// faults: F064 F065 F090
func TestKilledTenTimes(t *testing.T) {
	t.Parallel()
	s := Run(t)
	if !s.Contained() {
		t.Skip("the server is not ours to kill")
	}
	c := client(t, s, nil)
	put := func(ctx context.Context, data []byte) error { return s.Put(ctx, "k", data) }
	trial.Kills(t, s, put, newSource(t, c, "k"), newSource(t, c, "k")) // two on one client
}

// A source that is watching does not notice that its token ended; one that begins on the same client must not either.
//
// faults: F110
func TestTokenThatExpired(t *testing.T) {
	t.Parallel()
	s := Run(t, WithArgs("--auth-token-ttl=1", "--bcrypt-cost=4"))
	must(t, s.EnableAuth(t.Context(), "app", password))
	must(t, s.Put(t.Context(), "k", trial.Document(1)))
	c := client(t, s, func(config *clientv3.Config) { config.Username, config.Password = "app", password })
	first := trial.Open(t, newSource(t, c, "k"))
	for round := range 2 {
		expired := time.NewTimer(3 * time.Second)
		<-expired.C
		second := trial.Open(t, newSource(t, c, "k"))
		must(t, s.Put(t.Context(), "k", trial.Document(round+2)))
		first.InForce(t, soon, round+2)
		second.InForce(t, soon, round+2)
		// The read that follows a refused watch may be what brought it into force; the watch comes after the read.
		must(t, wait.Until(t.Context(), func(context.Context) error {
			if st := second.Status(); st.Counts.Watches-st.Counts.Reconnects != 1 {
				return fmt.Errorf("the second has %d watches, %d of which ended: %w", st.Counts.Watches, st.Counts.Reconnects, st.LastError)
			}
			return nil
		}))
	}
	if st := first.Status(); st.Counts.Reconnects > 0 {
		t.Logf("the first had to watch again %d times", st.Counts.Reconnects)
	}
}

// What is wrong with the credentials is said, with etcd's own error.
//
// faults: F111 F112
func TestRefusedUsers(t *testing.T) {
	t.Parallel()
	s := Run(t, WithArgs("--bcrypt-cost=4"))
	must(t, s.EnableAuth(t.Context(), "app", password))
	_, err := s.Client().UserAdd(t.Context(), "stranger", password)
	must(t, err)
	_, err = clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), Username: "app", Password: "wrong", Logger: zap.NewNop(), DialTimeout: soon})
	if !errors.Is(err, rpctypes.ErrAuthFailed) {
		t.Errorf("wrong password: %v", err)
	}
	for user, want := range map[string]error{"stranger": rpctypes.ErrPermissionDenied, "": rpctypes.ErrUserEmpty} {
		c := client(t, s, func(config *clientv3.Config) {
			if user != "" {
				config.Username, config.Password = user, password
			}
		})
		src := newSource(t, c, "k")
		if _, err := src.Read(t.Context()); !errors.Is(err, want) {
			t.Errorf("user %q reads: %v", user, err)
		}
		sink, err := etcd.NewSink(c, "k")
		must(t, err)
		if _, err := sink.Write(t.Context(), trial.Document(1), writable.Absent); !errors.Is(err, want) || errors.Is(err, datasource.ErrUnknownOutcome) {
			t.Errorf("user %q writes: %v", user, err)
		}
		if err := src.Watch(t.Context(), datasource.Document{Presence: datasource.Missing, Order: 1}, func(datasource.Document) {}); err == nil {
			t.Errorf("user %q watches", user)
		}
	}
}

// faults: F112 F113 F114
func TestMutualTLSAndNamespace(t *testing.T) {
	t.Parallel()
	s := Run(t, WithTLS(true))
	c := client(t, s, nil)
	c.KV, c.Watcher = namespace.NewKV(c.KV, "/team"), namespace.NewWatcher(c.Watcher, "/team")
	wrapped := trial.Open(t, newSource(t, c, "/k"))
	prefixed := trial.Open(t, newSource(t, client(t, s, nil), "/k", etcd.Prefix("/team")))
	sink, err := etcd.NewSink(c, "/k")
	must(t, err)
	_, err = sink.Write(t.Context(), trial.Document(1), writable.Absent)
	must(t, err)
	wrapped.InForce(t, soon, 1)
	prefixed.InForce(t, soon, 1)
	if got := get(t, s.Client(), "/team/k"); got != string(trial.Document(1)) {
		t.Errorf("the store has %q", got)
	}
	for name, change := range map[string]func(*clientv3.Config){
		"other name": func(c *clientv3.Config) {
			// The name in the endpoint is the one that the certificate must have.
			dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", s.Addr(port))
			})
			c.Endpoints, c.DialOptions = []string{"https://elsewhere.test:2379"}, []grpc.DialOption{dial}
		},
		"no certificate": func(c *clientv3.Config) { c.TLS.Certificates = nil },
		"no authority":   func(c *clientv3.Config) { c.TLS.RootCAs = nil },
	} {
		broken := client(t, s, func(config *clientv3.Config) {
			config.DialTimeout = 0
			change(config)
		})
		begin := time.Now()
		_, err := newSource(t, broken, "/k").Read(t.Context())
		if err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s, after %v: %v", name, time.Since(begin).Round(time.Millisecond), err)
	}
}

// A member that lost its cluster answers no reads, and its watches end instead of staying silent.
//
// faults: F089
func TestMemberWithoutItsCluster(t *testing.T) {
	t.Parallel()
	members := RunCluster(t, 3)
	must(t, members[0].Put(t.Context(), "k", trial.Document(1)))
	l := trial.Open(t, newSource(t, client(t, members[2], nil), "k"))
	must(t, members[0].Pause(t.Context()))
	must(t, members[1].Kill(t.Context()))
	l.Until(t, 2*soon, "degraded", func() bool { return l.Status().State == datasource.StateDegraded })
	t.Log("without its cluster:", l.Status().LastError)
	must(t, members[0].Resume(t.Context()))
	must(t, members[1].Start(t.Context()))
	must(t, members[0].Put(t.Context(), "k", trial.Document(2)))
	l.InForce(t, 2*datasource.DefaultMaxBackoff, 2)
}

// faults: F120 F148
func TestThousandSourcesShareOneConnection(t *testing.T) {
	t.Parallel()
	s := plain.Get(t)
	way, err := link.Listen(s.Admin(port))
	must(t, err)
	t.Cleanup(func() { _ = way.Close() })
	c := client(t, s, func(config *clientv3.Config) { config.Endpoints = []string{way.Addr()} })
	const n, batch = 1000, 100
	keys, prefix := make([]string, n), newKey(t, s)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	put := func(from int) {
		for i := 0; i < n; i += batch {
			var ops []clientv3.Op
			for k := range batch {
				ops = append(ops, clientv3.OpPut(keys[i+k], string(trial.Document(from+i+k))))
			}
			_, err := s.Client().Txn(t.Context()).Then(ops...).Commit()
			must(t, err)
		}
	}
	put(0)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	lives := make([]*trial.Live, n)
	for i := range lives {
		lives[i] = trial.Open(t, newSource(t, c, keys[i]))
	}
	put(1)
	for i, l := range lives {
		l.InForce(t, soon, i+1)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if open := way.Stats().Open; open != 1 {
		t.Errorf("%d connections", open)
	}
	t.Logf("each source: %.1f goroutines, %.1f KiB of heap, %.1f KiB of stack", float64(runtime.NumGoroutine()-goroutines)/n,
		float64(after.HeapAlloc-before.HeapAlloc)/n/1024, float64(after.StackInuse-before.StackInuse)/n/1024)
}

// faults: F059
func TestLimitOfTheServer(t *testing.T) {
	t.Parallel()
	s := plain.Get(t)
	sink, err := etcd.NewSink(client(t, s, nil), newKey(t, s), etcd.MaxBytes(8<<20))
	must(t, err)
	for _, size := range []int{1600 << 10, 3 << 20} {
		if _, err := sink.Write(t.Context(), bytes.Repeat([]byte(" "), size), writable.Absent); !errors.Is(err, datasource.ErrTooLarge) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// faults: F003
func TestWriteKeepsTheLease(t *testing.T) {
	t.Parallel()
	s := plain.Get(t)
	c, key := client(t, s, nil), newKey(t, s)
	lease, err := s.Client().Grant(t.Context(), 3600)
	must(t, err)
	put, err := s.Client().Put(t.Context(), key, "[]", clientv3.WithLease(lease.ID))
	must(t, err)
	sink, err := etcd.NewSink(c, key)
	must(t, err)
	_, err = sink.Write(t.Context(), trial.Document(1), fmt.Sprint(put.Header.Revision))
	must(t, err)
	l := trial.Open(t, newSource(t, c, key))
	l.InForce(t, soon, 1)
	_, err = s.Client().Revoke(t.Context(), lease.ID)
	must(t, err)
	l.Until(t, soon, "missing", func() bool { return l.Status().Cause == datasource.CauseMissing })
	l.InForce(t, soon, 1)
}
