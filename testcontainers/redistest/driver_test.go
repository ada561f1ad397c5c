package redistest_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/redis"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/testcontainers/internal/wait"
	"github.com/rulewire/rulewire/testcontainers/link"
	"github.com/rulewire/rulewire/testcontainers/redistest"
	"github.com/rulewire/rulewire/writable"
)

const (
	maxBackoff = 200 * time.Millisecond
	// patience is for a machine that is busy. How long it really took is reported.
	patience = 30 * time.Second
)

// numbered is a document that carries n.
func numbered(n int) []byte { return fmt.Appendf(nil, `[{"resource":"orders","count":%d}]`, n) }

// life is a readable over a Redis source, and what came into force of it.
type life struct {
	*datasource.Readable[rule.Flow]
	t   testing.TB
	src *redis.Source

	mu  sync.Mutex
	all []int
}

func live(t testing.TB, client goredis.UniversalClient, key string, relist time.Duration, options ...redis.Option) *life {
	t.Helper()
	src, err := redis.NewSource(client, key, options...)
	must(t, err)
	l := &life{t: t, src: src}
	l.Readable, err = datasource.New(src, converter.JSON[rule.Flow](), property.ListenerFunc[[]rule.Flow](l.update),
		datasource.Relist(relist), datasource.Backoff(20*time.Millisecond, maxBackoff), datasource.Logger(nil))
	must(t, err)
	must(t, l.Start(t.Context()))
	t.Cleanup(func() {
		begin := time.Now()
		must(t, l.Close())
		if d := time.Since(begin); d > time.Second {
			t.Errorf("Close took %v", d)
		}
	})
	return l
}

func (l *life) update(_ context.Context, rules []rule.Flow) error {
	n := 0
	if len(rules) > 0 {
		n = int(rules[0].Count)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, n)
	return nil
}

// now is the number in force; 0 before any.
func (l *life) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return 0
	}
	return l.all[len(l.all)-1]
}

// wants waits until number n is in force.
func (l *life) wants(n int, within time.Duration) {
	l.t.Helper()
	l.until(within, func(s datasource.Status) error {
		if now := l.now(); now != n {
			return fmt.Errorf("in force is %d, want %d (%s %s, %v)", now, n, s.State, s.Cause, s.LastError)
		}
		return nil
	})
}

// until waits until the status is as wanted.
func (l *life) until(within time.Duration, problem func(datasource.Status) error) {
	l.t.Helper()
	eventually(l.t, within, func() error { return problem(l.Status()) })
}

// subscribed waits until the subscription is in place and its hint was met.
func (l *life) subscribed() {
	l.t.Helper()
	l.until(patience, func(s datasource.Status) error {
		if s.Counts.Hints == 0 || s.Cause != datasource.CauseNone && s.Cause != datasource.CauseMissing {
			return fmt.Errorf("%d hints, %s %s, %v", s.Counts.Hints, s.State, s.Cause, s.LastError)
		}
		return nil
	})
}

// neverBack fails the test if a lower number came after a higher one.
func (l *life) neverBack() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, n := range l.all[min(1, len(l.all)):] {
		if n < l.all[i] {
			l.t.Errorf("%d came into force after %d", n, l.all[i])
		}
	}
}

func eventually(t testing.TB, within time.Duration, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), within, fmt.Errorf("not within %v", within))
	defer cancel()
	must(t, wait.Until(ctx, func(context.Context) error { return f() }))
}

func client(t testing.TB, o *goredis.Options) *goredis.Client {
	c := goredis.NewClient(once(o))
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// faults: F075 F080
func TestPublishWhileCutIsFoundAfterwards(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t)
	key := ownKey(t, s)
	must(t, s.Publish(t.Context(), key, key, numbered(1)))
	l := live(t, client(t, s.Options()), key, time.Hour)
	l.wants(1, patience)
	l.subscribed()
	s.Link().Cut()
	l.until(patience, func(st datasource.Status) error {
		if st.Cause != datasource.CauseWatch && st.Cause != datasource.CauseRead {
			return fmt.Errorf("%s %s", st.State, st.Cause)
		}
		return nil
	})
	must(t, s.Publish(t.Context(), key, key, numbered(2)))
	if l.now() != 1 {
		t.Error("the rules did not stay")
	}
	s.Link().Heal()
	l.wants(2, patience)
	must(t, s.Publish(t.Context(), key, key, numbered(3)))
	l.wants(3, patience)
	l.neverBack()
}

// faults: F076 F119 F122
func TestThousandPublishesAreFewReads(t *testing.T) {
	t.Parallel()
	s := plain.Get(t)
	key := ownKey(t, s)
	l := live(t, client(t, s.Options()), key, time.Hour)
	l.subscribed()
	before := l.Status().Counts
	p := s.Client().Pipeline()
	for i := range 1000 {
		p.Set(t.Context(), key, numbered(i+1), 0)
		p.Publish(t.Context(), key, "x")
	}
	_, err := p.Exec(t.Context())
	must(t, err)
	l.wants(1000, patience)
	l.until(patience, func(st datasource.Status) error {
		if n := st.Counts.Hints - before.Hints; n != 1000 {
			return fmt.Errorf("%d hints", n)
		}
		return nil
	})
	if n := l.Status().Counts.Reads - before.Reads; n > 100 {
		t.Errorf("1000 messages cost %d reads", n)
	}
	l.neverBack()
}

// faults: F077 F089
func TestSilentOldMasterIsLeft(t *testing.T) {
	t.Parallel()
	g := redistest.RunSentinel(t, redistest.WithPassword("secret"))
	o := g.Options()
	o.MaxRetries, o.DialerRetries, o.DialTimeout, o.ReadTimeout = -1, 1, time.Second, time.Second
	c := goredis.NewFailoverClient(o)
	defer c.Close()
	key := newKey()
	old, err := g.Master(t.Context())
	must(t, err)
	must(t, old.Publish(t.Context(), key, key, numbered(1)))
	const silence = 4 * time.Second
	l := live(t, c, key, time.Hour, redis.Silence(silence))
	l.wants(1, patience)
	l.subscribed()

	old.Link().Stall(link.Both)
	must(t, old.Pause(t.Context()))
	master, err := g.AwaitMaster(t.Context(), old)
	must(t, err)
	must(t, master.Publish(t.Context(), key, key, numbered(2)))
	begin := time.Now()
	l.wants(2, patience)
	t.Logf("read from the new master %v after its write; silence is noticed after %v", time.Since(begin).Round(time.Millisecond), silence)
	eventually(t, patience, func() error { return oneSubscription(t, master, key) })
	must(t, master.Publish(t.Context(), key, key, numbered(3)))
	l.wants(3, patience)
	l.neverBack()

	// A sink on the same client writes to the new master.
	k, err := redis.NewSink(c, key)
	must(t, err)
	now, err := k.Read(t.Context())
	must(t, err)
	_, err = k.Write(t.Context(), numbered(4), now.Revision)
	must(t, err)
	l.wants(4, patience)
	old.Link().Heal()
	must(t, old.Resume(t.Context()))
}

func oneSubscription(t testing.TB, s *redistest.Server, channel string) error {
	n, err := s.Client().PubSubNumSub(t.Context(), channel).Result()
	if err == nil && n[channel] != 1 {
		err = fmt.Errorf("%d subscriptions", n[channel])
	}
	return err
}

// The old master answers every ping, but nothing that happens on the new one reaches it.
//
// faults: F077 F082
func TestHealthyLinkToAnOldMasterThatTellsNothing(t *testing.T) {
	t.Parallel()
	g := redistest.RunSentinel(t, redistest.WithPassword("secret"))
	o := g.Options()
	o.MaxRetries = -1
	c := goredis.NewFailoverClient(o)
	defer c.Close()
	key := newKey()
	old, err := g.Master(t.Context())
	must(t, err)
	must(t, old.Publish(t.Context(), key, key, numbered(1)))
	l := live(t, c, key, time.Second, redis.Silence(time.Second))
	l.wants(1, patience)
	l.subscribed()

	must(t, old.Client().ConfigSet(t.Context(), "masterauth", "wrong").Err()) // it will never follow the new one
	must(t, g.Sentinels[0].Client().Do(t.Context(), "sentinel", "failover", redistest.MasterName).Err())
	master, err := g.AwaitMaster(t.Context(), old)
	must(t, err)
	// Reads go to the new master once the client was told; the subscription stays where it is.
	must(t, oneSubscription(t, old, key))
	must(t, master.Publish(t.Context(), key, key, numbered(2)))
	l.wants(2, patience)
	eventually(t, patience, func() error { return oneSubscription(t, master, key) })
	reconnects := l.Status().Counts.Reconnects
	must(t, master.Publish(t.Context(), key, key, numbered(3)))
	l.wants(3, patience)
	if n := l.Status().Counts.Reconnects; n != reconnects {
		t.Errorf("%d reconnects more", n-reconnects)
	}
	if note := l.src.Note(); note != "" {
		t.Errorf("note %q after a message", note)
	}
	l.neverBack()
}

func cluster(t testing.TB, g *redistest.Cluster, change ...func(*goredis.ClusterOptions)) *goredis.ClusterClient {
	o := g.Options()
	o.DialTimeout = time.Second
	for _, f := range change {
		f(o)
	}
	c := goredis.NewClusterClient(o)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// faults: F078
func TestClusterMovesTheSlotAndLosesItsMaster(t *testing.T) {
	t.Parallel()
	g := redistest.RunCluster(t, redistest.WithArgs("--notify-keyspace-events", "K$gx"))
	c := cluster(t, g)
	key := newKey()
	k, err := redis.NewSink(c, key)
	must(t, err)
	revision := writable.Absent
	write := func(n int) {
		t.Helper()
		// A slot that moves and a master that died refuse writes for a moment; neither writes by halves.
		eventually(t, patience, func() error {
			doc, err := k.Write(t.Context(), numbered(n), revision)
			if errors.Is(err, datasource.ErrUnknownOutcome) || errors.Is(err, datasource.ErrConflict) {
				if now, readErr := k.Read(t.Context()); readErr == nil {
					revision = now.Revision
					if string(now.Data) == string(numbered(n)) {
						return nil
					}
				}
			}
			if err == nil {
				revision = doc.Revision
			}
			return err
		})
	}
	write(1)
	const silence = 2 * time.Second
	plain := live(t, c, key, time.Hour, redis.Silence(silence))
	// The other hears keyspace notifications only, for nobody publishes on its channel; and its client sends nothing but
	// the reads, so that nobody tells it that the slot moved.
	events := live(t, cluster(t, g), key, time.Hour, redis.Silence(silence), redis.Keyspace(), redis.Channel("nobody"))
	both := func(n int, within time.Duration) {
		t.Helper()
		plain.wants(n, within)
		events.wants(n, within)
	}
	both(1, patience)
	plain.subscribed()
	events.subscribed()
	write(2)
	both(2, patience)

	owner, err := g.Owner(t.Context(), key)
	must(t, err)
	other := g.Masters[0]
	if owner == other {
		other = g.Masters[1]
	}
	must(t, g.Migrate(t.Context(), key, other))
	write(3)
	plain.wants(3, patience)
	events.wants(3, patience)
	write(4)
	both(4, patience)

	must(t, other.Kill(t.Context()))
	eventually(t, patience, func() error {
		now, err := g.Owner(t.Context(), key)
		if err == nil && now == other {
			err = errors.New("no failover yet")
		}
		return err
	})
	write(5)
	both(5, patience)
	write(6)
	both(6, patience)
	plain.neverBack()
	events.neverBack()
}

func TestClusterClientThatReadsReplicasReadsRulesFromTheMaster(t *testing.T) {
	t.Parallel()
	g := redistest.RunCluster(t)
	key := newKey()
	// It may do no more than docs/redis.md says that it must.
	for _, s := range append(append([]*redistest.Server{}, g.Masters...), g.Replicas...) {
		must(t, s.Client().ACLSetUser(t.Context(), "app", "on", ">"+password, "~"+key, "&"+key, "+get", "+getrange", "+watch", "+unwatch",
			"+multi", "+exec", "+set", "+publish", "+cluster|slots", "+cluster|shards", "+command", "+readonly").Err())
	}
	c := cluster(t, g, func(o *goredis.ClusterOptions) {
		o.RouteRandomly, o.Username, o.Password = true, "app", password
	})
	k, err := redis.NewSink(c, key)
	must(t, err)
	src, err := redis.NewSource(c, key)
	must(t, err)
	revision := writable.Absent
	for i := range 300 {
		doc, err := k.Write(t.Context(), numbered(i), revision)
		must(t, err)
		revision = doc.Revision
		read, err := src.Read(t.Context())
		must(t, err)
		if read.Revision != revision {
			t.Fatalf("read %s after %s was written", read.Data, doc.Data)
		}
	}
	owner, err := g.Owner(t.Context(), key)
	must(t, err)
	must(t, owner.Delete(t.Context(), key))
	if doc, err := src.Read(t.Context()); err != nil || doc.Presence != datasource.Missing {
		t.Errorf("%v %v", doc.Presence, err)
	}
}

// faults: F019
func TestStatusSaysWhatIsWrongAndTheRulesStay(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.WithArgs("--user", "app", "on", ">"+password, "~*", "&*", "+@all"))
	key := newKey()
	must(t, s.Put(t.Context(), key, numbered(1)))
	o := s.Options()
	o.Username, o.Password = "app", password
	l := live(t, client(t, o), key, 200*time.Millisecond)
	l.wants(1, patience)
	l.subscribed()
	acl := func(rules ...string) {
		t.Helper()
		must(t, s.Client().ACLSetUser(t.Context(), "app", rules...).Err())
	}
	problem := func(name string, is func(error) bool) {
		t.Helper()
		l.until(patience, func(st datasource.Status) error {
			if st.State != datasource.StateDegraded || !is(st.LastError) {
				return fmt.Errorf("%s: %s %s %v", name, st.State, st.Cause, st.LastError)
			}
			if strings.Contains(st.LastError.Error(), password) {
				t.Errorf("%s: a secret shows in %v", name, st.LastError)
			}
			return nil
		})
		if l.now() != 1 {
			t.Errorf("%s: the rules did not stay", name)
		}
	}
	well := func() {
		t.Helper()
		l.until(patience, func(st datasource.Status) error {
			if st.State != datasource.StateLive {
				return fmt.Errorf("%s %s %v", st.State, st.Cause, st.LastError)
			}
			return nil
		})
	}
	kick := func() { // new connections, new log-in
		t.Helper()
		s.Link().Reset()
	}

	must(t, s.Client().Del(t.Context(), key).Err())
	must(t, s.Client().RPush(t.Context(), key, "a", "b").Err())
	problem("a list at the key", func(err error) bool { return errors.Is(err, redis.ErrWrongType) })
	must(t, s.Put(t.Context(), key, numbered(1)))
	well()

	acl("resetkeys")
	problem("no permission for the key", goredis.IsPermissionError)
	acl("~*")
	well()

	acl("resetchannels") // the server also cuts the subscription
	problem("no permission for the channel", func(err error) bool {
		return goredis.IsPermissionError(err) && strings.Contains(err.Error(), key)
	})
	acl("&*")
	well()

	acl("resetpass", ">another")
	kick()
	problem("wrong password", goredis.IsAuthError)
	acl(">" + password)
	well()

	acl("off")
	kick()
	problem("user is off", goredis.IsAuthError)
	acl("on")
	well()
}

func TestWrongNameOrAuthorityOfTLS(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.WithTLS(false))
	key := newKey()
	must(t, s.Put(t.Context(), key, numbered(1)))
	l := live(t, client(t, s.Options()), key, time.Hour)
	l.wants(1, patience)
	l.subscribed()
	must(t, s.Publish(t.Context(), key, key, numbered(2)))
	l.wants(2, patience)

	read := func(o *goredis.Options) error {
		src, err := redis.NewSource(client(t, o), key)
		must(t, err)
		_, err = src.Read(t.Context())
		return err
	}
	o := s.Options()
	o.TLSConfig.ServerName = "elsewhere.example"
	var name x509.HostnameError
	if err := read(o); !errors.As(err, &name) {
		t.Errorf("%v does not say that the name is wrong", err)
	}
	o = s.Options()
	o.TLSConfig.RootCAs = x509.NewCertPool()
	var authority x509.UnknownAuthorityError
	if err := read(o); !errors.As(err, &authority) {
		t.Errorf("%v does not say that the authority is unknown", err)
	}
}

// faults: F003 F079
func TestDeletionAndExpiryAreMissing(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.WithArgs("--notify-keyspace-events", "K$gx", "--user", "app", "on", ">"+password, "~*", "&*", "+@all", "-config"))
	key := newKey()
	o := s.Options()
	o.Username, o.Password = "app", password
	events := live(t, client(t, s.Options()), key, time.Hour, redis.Keyspace())
	relist := live(t, client(t, o), key, 500*time.Millisecond, redis.Keyspace())
	is := func(p datasource.Presence) {
		t.Helper()
		for _, l := range []*life{events, relist} {
			l.until(patience, func(st datasource.Status) error {
				if st.Presence != p {
					return fmt.Errorf("%v", st.Presence)
				}
				return nil
			})
		}
	}
	events.subscribed()
	relist.subscribed()
	if note := events.Status().Note; note != "" {
		t.Errorf("note %q", note)
	}
	if note := relist.Status().Note; !strings.Contains(note, "NOPERM") {
		t.Errorf("CONFIG is forbidden, and the note is %q", note)
	}
	is(datasource.Missing)
	must(t, s.Put(t.Context(), key, numbered(1)))
	is(datasource.Present)
	must(t, s.Delete(t.Context(), key))
	is(datasource.Missing)
	must(t, s.Client().Set(t.Context(), key, numbered(2), 0).Err())
	is(datasource.Present)
	must(t, s.Client().PExpire(t.Context(), key, 300*time.Millisecond).Err()) // only now: a busy machine may not read for as long
	is(datasource.Missing)
	if events.now() != 2 || relist.now() != 2 {
		t.Error("the rules did not stay")
	}
	must(t, s.Client().ConfigSet(t.Context(), "notify-keyspace-events", "").Err())
	s.Link().Reset()
	events.until(patience, func(st datasource.Status) error {
		if !strings.Contains(st.Note, "are off") {
			return fmt.Errorf("note %q", st.Note)
		}
		return nil
	})
}

// faults: F123 F148
func TestHundredReconnectsLeaveOneSubscription(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t)
	key := ownKey(t, s)
	must(t, s.Publish(t.Context(), key, key, numbered(1)))
	l := live(t, client(t, s.Options()), key, time.Hour)
	l.subscribed()
	for i := range 100 {
		hints := l.Status().Counts.Hints
		s.Link().Reset()
		l.until(patience, func(st datasource.Status) error {
			if st.Counts.Hints == hints {
				return fmt.Errorf("no subscription after reset %d: %v", i, st.LastError)
			}
			return nil
		})
	}
	eventually(t, patience, func() error { return oneSubscription(t, s, key) })
	eventually(t, patience, func() error { return connections(t, s, "pubsub", 1) })
	must(t, s.Publish(t.Context(), key, key, numbered(2)))
	l.wants(2, patience)
	must(t, l.Close())
	eventually(t, patience, func() error { return connections(t, s, "pubsub", 0) })
}

func connections(t testing.TB, s *redistest.Server, kind string, want int) error {
	list, err := s.Client().Do(t.Context(), "client", "list", "type", kind).Text()
	if n := strings.Count(list, "\n"); err == nil && n != want {
		err = fmt.Errorf("%d %s connections, want %d", n, kind, want)
	}
	return err
}

// The last acknowledged write is in force after the last restart, and nothing ever went backwards.
//
// faults: F080 F090
func TestTenKillsDuringNumberedWrites(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t)
	if !s.Contained() {
		t.Skip("the server is not ours to kill")
	}
	key := ownKey(t, s)
	c := client(t, s.Options())
	k, err := redis.NewSink(c, key)
	must(t, err)
	shared, err := redis.NewSubscriptions(c)
	must(t, err)
	lives := []*life{live(t, c, key, time.Hour, redis.Shared(shared)), live(t, c, key, time.Hour, redis.Shared(shared))}

	ctx, stop := context.WithCancel(t.Context())
	last := make(chan int)
	go func() {
		acknowledged, n, revision := 0, 0, writable.Absent
		defer func() { last <- acknowledged }()
		for ctx.Err() == nil {
			n++
			doc, err := k.Write(ctx, numbered(n), revision)
			if err == nil {
				acknowledged, revision = n, doc.Revision
				continue
			}
			for ctx.Err() == nil { // whether it was written or not, the store says
				if now, err := k.Read(ctx); err == nil {
					revision = now.Revision
					if now.Presence == datasource.Present && string(now.Data) == string(numbered(n)) {
						acknowledged = n
					}
					break
				}
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		}
	}()
	for range 10 {
		before := lives[0].now()
		eventually(t, patience, func() error {
			if lives[0].now() < before+10 {
				return errors.New("writes do not arrive")
			}
			return nil
		})
		must(t, s.Kill(t.Context()))
		must(t, s.Start(t.Context()))
	}
	stop()
	want := <-last
	begin := time.Now()
	for _, l := range lives {
		l.until(patience, func(st datasource.Status) error {
			// The write that was under way when the test stopped may have come through.
			if now := l.now(); now != want && now != want+1 {
				return fmt.Errorf("in force is %d, acknowledged %d (%v)", now, want, st.LastError)
			}
			return nil
		})
		l.neverBack()
	}
	t.Logf("%d writes, the last acknowledged or a later one in force %v after the end, the longest backoff is %v; in force %d; %d reconnects",
		want, time.Since(begin).Round(time.Millisecond), maxBackoff, lives[0].now(), lives[0].Status().Counts.Reconnects)
}

// faults: F090
func TestThousandSourcesShareOneConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t)
	c := client(t, s.Options())
	shared, err := redis.NewSubscriptions(c)
	must(t, err)
	const n = 1000
	prefix := newKey()
	lives := make([]*life, n)
	all := make([]string, n)
	for i := range lives {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
		lives[i] = live(t, c, all[i], time.Hour, redis.Shared(shared))
	}
	t.Cleanup(func() { must(t, s.Client().Del(context.Background(), all...).Err()) })
	for _, l := range lives {
		l.subscribed()
	}
	must(t, connections(t, s, "pubsub", 1))
	write := func(from int, publish bool) {
		t.Helper()
		p := s.Client().Pipeline()
		for i, key := range all {
			p.Set(t.Context(), key, numbered(from+i), 0)
			if publish {
				p.Publish(t.Context(), key, "x")
			}
		}
		_, err := p.Exec(t.Context())
		must(t, err)
	}
	write(1, true)
	for i, l := range lives {
		l.wants(i+1, patience)
	}
	s.Link().Cut()
	write(1001, false)
	s.Link().Heal()
	for i, l := range lives {
		l.wants(i+1001, patience)
	}
	eventually(t, patience, func() error { return connections(t, s, "pubsub", 1) })
}

// faults: F140 F160
func TestWriteKeepsTheTimeToLiveAndMeetsPlainSet(t *testing.T) {
	t.Parallel()
	s := plain.Get(t)
	c := client(t, s.Options())
	key := ownKey(t, s)
	channel := key + "-channel"
	k, err := redis.NewSink(c, key, redis.Channel(channel))
	must(t, err)
	sub := c.Subscribe(t.Context(), channel)
	defer sub.Close()
	_, err = sub.Receive(t.Context())
	must(t, err)
	first, err := k.Write(t.Context(), numbered(1), writable.Absent)
	must(t, err)
	message, err := sub.ReceiveMessage(t.Context())
	must(t, err)
	if message.Payload != string(numbered(1)) {
		t.Errorf("Java services are told %q", message.Payload)
	}
	must(t, s.Client().Expire(t.Context(), key, time.Hour).Err())
	_, err = k.Write(t.Context(), numbered(2), first.Revision)
	must(t, err)
	if ttl := s.Client().TTL(t.Context(), key).Val(); ttl < 59*time.Minute {
		t.Errorf("time to live is %v", ttl)
	}

	// Sinks against each other and against somebody's plain SET: what a sink was acknowledged is never overwritten
	// unseen by another sink.
	var wg sync.WaitGroup
	var mu sync.Mutex
	wins, conflicts := 0, 0
	for w := range 8 {
		wg.Go(func() {
			for i := range 25 {
				now, err := k.Read(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if w == 0 {
					if err := s.Put(t.Context(), key, numbered(10000+i)); err != nil {
						t.Error(err)
					}
					continue
				}
				_, err = k.Write(t.Context(), numbered(1000*w+i), now.Revision)
				mu.Lock()
				switch {
				case err == nil:
					wins++
				case errors.Is(err, datasource.ErrConflict):
					conflicts++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if wins == 0 || conflicts == 0 {
		t.Errorf("%d writes, %d conflicts", wins, conflicts)
	}
}

// What docs/redis.md says of permissions is enough.
func TestPermissionsOfTheGuideAreEnough(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.WithArgs("--notify-keyspace-events", "K$gx"))
	key := newKey()
	as := func(user string, rules ...string) *goredis.Client {
		t.Helper()
		must(t, s.Client().ACLSetUser(t.Context(), user, append([]string{"reset", "on", ">" + password}, rules...)...).Err())
		o := s.Options()
		o.Username, o.Password = user, password
		return client(t, o)
	}
	reader := as("reader", "%R~"+key, "&rules", "+get", "+getrange", "+subscribe", "+unsubscribe", "+ping")
	listener := as("listener", "~"+key, "&rules", "+get", "+getrange", "+subscribe", "+unsubscribe", "+ping",
		"&__keyspace@0__:"+key, "+config|get")
	writer := as("writer", "~"+key, "&rules", "+get", "+getrange", "+watch", "+unwatch", "+multi", "+exec", "+set", "+publish")

	a := live(t, reader, key, time.Hour, redis.Channel("rules"), redis.Silence(time.Second))
	b := live(t, listener, key, time.Hour, redis.Channel("rules"), redis.Silence(time.Second), redis.Keyspace())
	a.subscribed()
	b.subscribed()
	if note := b.Status().Note; note != "" {
		t.Errorf("note %q", note)
	}
	k, err := redis.NewSink(writer, key, redis.Channel("rules"))
	must(t, err)
	first, err := k.Write(t.Context(), numbered(1), writable.Absent)
	must(t, err)
	a.wants(1, patience)
	b.wants(1, patience)
	if _, err := k.Write(t.Context(), numbered(2), writable.Absent); !errors.Is(err, datasource.ErrConflict) {
		t.Error(err)
	}
	_, err = k.Write(t.Context(), numbered(2), first.Revision)
	must(t, err)
	a.wants(2, patience)
	b.wants(2, patience)

	// Without one of them it says so, and nothing was written.
	must(t, s.Client().ACLSetUser(t.Context(), "writer", "-publish").Err())
	now, err := k.Read(t.Context())
	must(t, err)
	if _, err := k.Write(t.Context(), numbered(3), now.Revision); !goredis.IsPermissionError(err) || !strings.Contains(err.Error(), "publish") {
		t.Error(err)
	}
	if a.now() != 2 {
		t.Errorf("in force is %d", a.now())
	}
}
