package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/redis"
	"github.com/rulewire/rulewire/testcontainers/internal/shared"
	"github.com/rulewire/rulewire/testcontainers/link"
	"github.com/rulewire/rulewire/testcontainers/redistest"
	"github.com/rulewire/rulewire/writable"
)

const password = "s3cret-pass"

// once turns off the client's own attempts: the engine tries again, at its pace.
func once(o *goredis.Options) *goredis.Options {
	o.MaxRetries, o.DialerRetries = -1, 1
	return o
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plain is the Redis of all tests that leave it as they found it.
var plain = shared.New(func(t testing.TB) *redistest.Server { return redistest.Run(t) })

func TestMain(m *testing.M) { shared.Main(m, plain.End) }

var keys atomic.Int64

func newKey() string {
	return fmt.Sprintf("sentinel/orders/flow-%d-%d", time.Now().UnixNano(), keys.Add(1))
}

// ownKey gives a key that is deleted after the test, for the server may be somebody's.
func ownKey(t testing.TB, s *redistest.Server) string {
	key := newKey()
	t.Cleanup(func() { must(t, s.Client().Del(context.Background(), key).Err()) })
	return key
}

// harness plays the suite on a real server behind a link of its own. Its editor publishes what it stores, or, with
// Keyspace, only stores.
type harness struct {
	t        testing.TB
	s        *redistest.Server
	link     *link.Link
	c        *goredis.Client
	requests *requests
	key      string
	options  []redis.Option
	publish  bool
	open     bool // without a user
	scramble bool
	last     []byte
}

// newGuarded makes harnesses on one server, each with a key, a client and a user of its own.
func newGuarded(s *redistest.Server, publish bool, options ...redis.Option) datasourcetest.New {
	return func(t testing.TB) datasourcetest.Harness { return &guarded{newHarness(t, s, publish, false, options)} }
}

// newOpen makes harnesses whose clients do not log in.
func newOpen(s *redistest.Server, publish bool, options ...redis.Option) datasourcetest.New {
	return func(t testing.TB) datasourcetest.Harness { return newHarness(t, s, publish, true, options) }
}

func newHarness(t testing.TB, s *redistest.Server, publish, open bool, options []redis.Option) *harness {
	l, err := link.Listen(s.Admin(6379))
	must(t, err)
	h := &harness{t: t, s: s, link: l, requests: new(requests), key: newKey(), publish: publish, open: open}
	must(t, h.allow())
	o := once(s.Options())
	o.Addr = l.Addr()
	if !open {
		o.Username, o.Password = h.user(), password
	}
	h.c = goredis.NewClient(o)
	h.c.AddHook(h.requests)
	h.options = append([]redis.Option{redis.Silence(5 * time.Second)}, options...)
	// Connections come first, so that what grows later is the driver's.
	var conns []*goredis.Conn
	for range 3 {
		conns = append(conns, h.c.Conn())
		must(t, conns[len(conns)-1].Ping(t.Context()).Err())
	}
	for _, c := range conns {
		must(t, c.Close())
	}
	t.Cleanup(func() {
		if err := h.Heal(); err != nil {
			t.Error(err)
		}
		if err := h.c.Close(); err != nil {
			t.Errorf("the driver closed a client that it borrowed: %v", err)
		}
		must(t, l.Close())
		must(t, s.Client().Del(h.ctx(), h.key, h.key+neighbour).Err())
		must(t, s.Client().Do(h.ctx(), "acl", "deluser", h.user()).Err())
	})
	return h
}

// neighbour is what PutNeighbour adds to the key.
const neighbour = "-more"

// requests counts what a client asks, and how often it connects. Pings belong to a connection, not to a source.
type requests struct{ n, dials atomic.Int64 }

// count is what was asked or how often somebody connected, whichever is more: a command that needs a connection counts once.
func (r *requests) count() int { return int(max(r.n.Load(), r.dials.Load())) }

func (r *requests) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		r.dials.Add(1)
		return next(ctx, network, addr)
	}
}

func (r *requests) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		r.n.Add(1)
		return next(ctx, cmd)
	}
}

func (r *requests) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		r.n.Add(1)
		return next(ctx, cmds)
	}
}

func (h *harness) ctx() context.Context { return context.Background() }

func (h *harness) Source() (datasource.Source, error) {
	return redis.NewSource(h.c, h.key, h.options...)
}
func (h *harness) Sink() (writable.Sink, error) { return redis.NewSink(h.c, h.key) }
func (h *harness) Limit() int                   { return redis.DefaultMaxBytes }

func (h *harness) Put(data []byte) error {
	before := h.last
	h.last = data
	if !h.publish {
		return h.s.Put(h.ctx(), h.key, data)
	}
	if err := h.s.Publish(h.ctx(), h.key, h.key, data); err != nil || !h.scramble {
		return err
	}
	for range 2 { // late and twice
		if err := h.s.Client().Publish(h.ctx(), h.key, before).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (h *harness) remove(more func(goredis.Pipeliner)) error {
	_, err := h.s.Client().TxPipelined(h.ctx(), func(p goredis.Pipeliner) error {
		p.Del(h.ctx(), h.key)
		if more != nil {
			more(p)
		}
		if h.publish {
			p.Publish(h.ctx(), h.key, "")
		}
		return nil
	})
	return err
}

func (h *harness) Delete() error { return h.remove(nil) }

func (h *harness) DeletePut(data []byte) error {
	return h.remove(func(p goredis.Pipeliner) { p.Set(h.ctx(), h.key, data, 0) })
}

func (h *harness) Expire() error {
	if h.publish {
		return fmt.Errorf("%w: nobody publishes an expiry", datasourcetest.ErrUnplayable)
	}
	if err := h.s.Client().PExpire(h.ctx(), h.key, time.Millisecond).Err(); err != nil {
		return err
	}
	for {
		if n, err := h.s.Client().Exists(h.ctx(), h.key).Result(); err != nil || n == 0 {
			return err
		}
	}
}

func (h *harness) PutNeighbour(data []byte) error { return h.s.Put(h.ctx(), h.key+neighbour, data) }

func (h *harness) Break() error {
	h.link.Cut()
	return nil
}

func (h *harness) Stall() error {
	h.link.Stall(link.Both)
	return nil
}

func (h *harness) Heal() error {
	h.link.Heal()
	h.scramble = false
	return h.allow()
}

// user is the harness's own, so that what is denied in one case is not in another.
func (h *harness) user() string { return strings.ReplaceAll(h.key, "/", "-") }

func (h *harness) allow() error {
	if h.open {
		return nil
	}
	return h.acl("on", ">"+password, "~*", "&*", "+@all")
}

// guarded is the harness with a user, who may be refused.
type guarded struct{ *harness }

func (h *guarded) Secrets() []string { return []string{password} }

func (h *guarded) Deny() error { return h.acl("resetkeys") }

func (h *harness) acl(rules ...string) error {
	return h.s.Client().ACLSetUser(h.ctx(), h.user(), rules...).Err()
}

func (h *harness) Restart() error { return h.again(h.s.Restart) }

// Reset puts an empty server in the place of this one.
func (h *harness) Reset(data []byte) error {
	if err := h.again(h.s.Renew); err != nil {
		return err
	}
	return h.Put(data)
}

func (h *harness) again(start func(context.Context) error) error {
	err := start(h.ctx())
	if errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", datasourcetest.ErrUnplayable, err)
	}
	if err != nil {
		return err
	}
	return h.allow() // users are not on disk
}

func (h *harness) LoseNotifications() error {
	if !h.publish {
		return fmt.Errorf("%w: the server tells of every change", datasourcetest.ErrUnplayable)
	}
	h.publish = false
	return nil
}

func (h *harness) Scramble() error {
	h.scramble = true
	return nil
}

func (h *harness) Requests() int { return h.requests.count() }

func (h *harness) Subscriptions() int {
	event := "__keyspace@0__:" + h.key
	n, err := h.s.Client().PubSubNumSub(h.ctx(), h.key, event).Result()
	if err != nil {
		h.t.Error(err)
	}
	return int(max(n[h.key], n[event])) // one subscription to both
}

func (h *harness) Misconfigured() map[string]error {
	_, timeout := redis.NewSource(h.c, h.key, redis.Timeout(-1))
	_, size := redis.NewSource(h.c, h.key, redis.MaxBytes(0))
	_, noKey := redis.NewSource(h.c, "")
	return map[string]error{"timeout": timeout, "max bytes": size, "no key": noKey}
}

// The suites look for goroutines that are left, so they do not run beside other tests.

func TestConformance(t *testing.T) {
	s := plain.Get(t)
	c := datasourcetest.Config{New: newGuarded(s, true), Leaks: shared.Leaks()}
	datasourcetest.Run(t, c)
	datasourcetest.RunSink(t, c)
}

// The same without authentication, and where nobody publishes: the server tells by keyspace notifications.
func TestConformanceKeyspace(t *testing.T) {
	s := redistest.Run(t, redistest.WithArgs("--notify-keyspace-events", "K$gx"))
	c := datasourcetest.Config{New: newOpen(s, false, redis.Keyspace()), Leaks: shared.Leaks(), Edits: 200}
	datasourcetest.Run(t, c)
	datasourcetest.RunSink(t, c)
}
