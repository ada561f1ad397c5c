package etcd

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/writable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "/rules/flow"

// harness plays the conformance suite on the fake server.
type harness struct {
	*server
	c *clientv3.Client
}

func newHarness(t testing.TB) datasourcetest.Harness {
	s := newServer(t)
	c := s.client(t)
	// The connection's own goroutines are there before the suite counts.
	for conn := c.ActiveConnection(); conn.GetState() != connectivity.Ready; {
		conn.Connect()
		conn.WaitForStateChange(t.Context(), conn.GetState())
	}
	return &harness{s, c}
}

func (h *harness) Source() (datasource.Source, error) { return NewSource(h.c, key) }
func (h *harness) Sink() (writable.Sink, error)       { return NewSink(h.c, key) }
func (h *harness) Put(data []byte) error              { h.put(key, string(data)); return nil }
func (h *harness) Delete() error                      { h.remove(key); return nil }
func (h *harness) Expire() error                      { h.remove(key); return nil }
func (h *harness) PutNeighbour(data []byte) error     { h.put(key+"2", string(data)); return nil }
func (h *harness) Break() error {
	h.do(func() { h.redial = true })
	h.link.cut(true)
	return nil
}
func (h *harness) Stall() error       { h.hang(); return nil }
func (h *harness) Deny() error        { h.fail(rpctypes.ErrGRPCPermissionDenied); return nil }
func (h *harness) Heal() error        { h.heal(); return nil }
func (h *harness) Compact() error     { h.compact(); return nil }
func (h *harness) Requests() int      { return h.count() }
func (h *harness) Subscriptions() int { return h.subscriptions() }
func (h *harness) Limit() int         { return requestLimit - requestOverhead - 3*len(key) }

func (h *harness) Restart() error {
	h.link.cut(true)
	h.link.cut(false)
	return nil
}

func (h *harness) Reset(data []byte) error {
	h.restore(5, change{key: key, value: data})
	return nil
}

func (h *harness) DeletePut(data []byte) error {
	h.do(func() { h.commit(change{key: key, delete: true}, change{key: key, value: data}) })
	return nil
}

func (h *harness) ClientClosed() bool { return h.c.Ctx().Err() != nil }

func (h *harness) Misconfigured() map[string]error {
	said := map[string]error{}
	try := func(name string, c *clientv3.Client, key string, options ...Option) {
		_, source := NewSource(c, key, options...)
		_, sink := NewSink(c, key, options...)
		said["source: "+name], said["sink: "+name] = source, sink
	}
	try("no client", nil, key)
	try("empty key", h.c, "")
	try("prefix only", h.c, "", Prefix("/rules"))
	try("range end", h.c, "\x00")
	try("folder", h.c, "/rules/")
	try("nil option", h.c, key, nil)
	try("Timeout", h.c, key, Timeout(0))
	try("MaxBytes", h.c, key, MaxBytes(0))
	return said
}

// In etcd's own words a key that ends with NUL is the end of a range, and a folder is a range, too: neither is a document.
func TestRangeOfKeysIsRefusedByName(t *testing.T) {
	t.Parallel()
	c := newServer(t).client(t)
	for _, key := range []string{"\x00", "/rules\x00", "/rules/"} {
		for _, options := range [][]Option{nil, {Prefix("/team")}} {
			_, source := NewSource(c, key, options...)
			_, sink := NewSink(c, key, options...)
			for _, err := range []error{source, sink} {
				if err == nil || !strings.Contains(err.Error(), "range of keys") || !strings.Contains(err.Error(), strconv.Quote(key)[1:len(strconv.Quote(key))-1]) {
					t.Errorf("%q: %v", key, err)
				}
			}
		}
	}
}

func TestConformance(t *testing.T) {
	datasourcetest.Run(t, datasourcetest.Config{New: newHarness, Bubble: true})
}

func TestSinkConformance(t *testing.T) {
	datasourcetest.RunSink(t, datasourcetest.Config{New: newHarness, Bubble: true})
}

// soon is more than enough for anything that needs no waiting.
const soon = 10 * time.Second

func newSource(t *testing.T, c *clientv3.Client, options ...Option) *Source {
	t.Helper()
	src, err := NewSource(c, key, options...)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func mustRead(t *testing.T, src *Source) datasource.Document {
	t.Helper()
	doc, err := src.Read(t.Context())
	if err != nil {
		t.Fatal("Read:", err)
	}
	return doc
}

// following is one Watch on a goroutine of its own.
type following struct {
	t     *testing.T
	docs  chan datasource.Document
	ended chan error
	stop  context.CancelFunc
}

func follow(t *testing.T, src *Source, last datasource.Document) *following {
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{t: t, docs: make(chan datasource.Document, 100), ended: make(chan error, 1), stop: cancel}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		f.ended <- src.Watch(ctx, last, func(d datasource.Document) { f.docs <- d })
	}()
	t.Cleanup(func() {
		cancel()
		<-returned
	})
	return f
}

func wait[T any](t *testing.T, what string, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(soon):
		t.Fatal("waited too long for", what)
	}
	return got
}

// open waits until the watch is in the server.
func (s *server) open(t *testing.T, n int) {
	t.Helper()
	s.until(t, func() bool { return len(s.watches) == n })
}

// until waits for a state of the server.
func (s *server) until(t *testing.T, there func() bool) {
	t.Helper()
	end := time.After(soon)
	for {
		s.mu.Lock()
		ok, changed := there(), s.changed
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("the server did not get there: it has %d watches on %d streams", len(s.watches), len(s.streams))
		}
	}
}

// A Get is repeated by the client a hundred times within 2.5 s of a server that says so; how often a failing store is
// asked is the engine's.
//
// faults: F116
func TestReadOfAnUnavailableServerIsSentOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	src := newSource(t, s.client(t))
	mustRead(t, src)
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.Internal, codes.PermissionDenied, codes.Canceled, codes.DeadlineExceeded} {
		s.fail(status.Error(code, "try again"))
		before := s.count()
		if _, err := src.Read(t.Context()); status.Code(err) != code {
			t.Errorf("%v: Read says %v", code, err)
		}
		if n := s.count() - before; n != 1 {
			t.Errorf("%v: %d requests", code, n)
		}
	}
}

func TestRefusedReadSaysWhich(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	src := newSource(t, s.client(t))
	for answer, want := range map[error]error{
		rpctypes.ErrGRPCPermissionDenied: rpctypes.ErrPermissionDenied,
		rpctypes.ErrGRPCUserEmpty:        rpctypes.ErrUserEmpty,
		rpctypes.ErrGRPCNoLeader:         rpctypes.ErrNoLeader,
	} {
		s.fail(answer)
		if _, err := src.Read(t.Context()); !errors.Is(err, want) {
			t.Errorf("Read says %v, want %v", err, want)
		}
	}
}

// faults: F089
func TestReadWithoutAConnectionSaysWhy(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	src := newSource(t, s.client(t))
	s.link.cut(true)
	begin := time.Now()
	for range 2 { // the first dial, and later ones that wait for gRPC's backoff
		if _, err := src.Read(t.Context()); err == nil || !strings.Contains(err.Error(), errRefused.Error()) {
			t.Errorf("Read says %v", err)
		}
	}
	if d := time.Since(begin); d >= DefaultTimeout {
		t.Errorf("after %v", d)
	}
	s.link.cut(false)
	mustRead(t, src)
}

// faults: F063 F144
func TestBatchCountsByItsLastEvent(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	src := newSource(t, s.client(t))
	last := mustRead(t, src)
	s.put(key, "v1") // between the read and the watch
	f := follow(t, src, last)
	if doc := wait(t, "v1", f.docs); string(doc.Data) != "v1" {
		t.Errorf("delivered %+v", doc)
	}
	s.do(func() { s.commit(change{key: key, delete: true}, change{key: key, value: []byte("v2")}) })
	if doc := wait(t, "v2", f.docs); string(doc.Data) != "v2" {
		t.Errorf("delivered %+v", doc)
	}
	s.do(func() { s.commit(change{key: key, value: []byte("v3")}, change{key: key, delete: true}) })
	if doc := wait(t, "the deletion", f.docs); doc.Presence != datasource.Missing || doc.Order == 0 {
		t.Errorf("delivered %+v", doc)
	}
}

// The document's own revision is compacted long ago when the watch begins.
//
// faults: F064 F015
func TestWatchOfAQuietDocumentJoinsTheReadNotTheDocument(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	src := newSource(t, s.client(t), MaxBytes(8))
	for _, data := range []string{"v1", "[ 12345678 ]"} { // also where it is too large for anybody to know its revision
		s.put(key, data)
		for range 3 {
			s.put("other", "")
		}
		s.compact()
		doc, err := src.Read(t.Context())
		if err != nil && !errors.Is(err, datasource.ErrTooLarge) {
			t.Fatal(err)
		}
		if err == nil && string(doc.Data) != data {
			t.Errorf("read %+v, want %q", doc, data)
		}
		if err != nil {
			doc.Order = 1 // the one that the engine still has
		}
		f := follow(t, src, doc)
		s.open(t, 1)
		s.put(key, "v2")
		if doc := wait(t, "v2", f.docs); string(doc.Data) != "v2" {
			t.Errorf("delivered %+v", doc)
		}
		f.stop()
		s.open(t, 0)
	}
}

// faults: F064 F065
func TestCompactedWatchEndsWithTheReason(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	src := newSource(t, s.client(t))
	s.put(key, "v1")
	last := mustRead(t, src)
	s.put(key, "v2")
	s.put(key, "v3")
	s.compact()
	f := follow(t, src, last)
	if err := wait(t, "the end", f.ended); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("Watch ended with %v", err)
	}
}

// faults: F089 F091
func TestWatchEndsWithTheLeader(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	src := newSource(t, s.client(t))
	f := follow(t, src, mustRead(t, src))
	s.open(t, 1)
	s.endStreams(rpctypes.ErrGRPCNoLeader)
	if err := wait(t, "the end", f.ended); !errors.Is(err, rpctypes.ErrNoLeader) {
		t.Errorf("Watch ended with %v", err)
	}
}

// parts is a client that was made of parts, as users make one for their tests.
type parts struct {
	clientv3.Watcher
	answer func(context.Context) clientv3.WatchChan
}

func (p parts) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	return p.answer(ctx)
}

// faults: F066 F171
func TestClosedWatchChannelIsAReason(t *testing.T) {
	t.Parallel()
	c := clientv3.NewCtxClient(t.Context())
	c.Watcher = parts{answer: func(context.Context) clientv3.WatchChan {
		closed := make(chan clientv3.WatchResponse)
		close(closed)
		return closed
	}}
	src := newSource(t, c)
	f := follow(t, src, datasource.Document{Presence: datasource.Missing, Order: 7})
	if err := wait(t, "the end", f.ended); !errors.Is(err, errEnded) {
		t.Errorf("Watch ended with %v", err)
	}
}

// faults: F089
func TestWatchThatIsNotOpenedEnds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	src := newSource(t, s.client(t), Timeout(100*time.Millisecond))
	last := mustRead(t, src)
	s.hang()
	f := follow(t, src, last)
	if err := wait(t, "the end", f.ended); !errors.Is(err, errNotOpened) {
		t.Errorf("Watch ended with %v", err)
	}
}

// A connection that is never made must not hold the watch for longer than Timeout: gRPC itself tries for 20 s.
//
// faults: F089
func TestWatchWithoutAConnectionEnds(t *testing.T) {
	t.Parallel()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://etcd.test"}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	f := follow(t, newSource(t, c, Timeout(100*time.Millisecond)), datasource.Document{Presence: datasource.Missing, Order: 20})
	if err := wait(t, "the end", f.ended); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("Watch ended with %v", err)
	}
}

// A client that its owner has closed never changes its state again, so there is nothing to wait for.
//
// faults: F089
func TestClosedClientIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.client(t)
	src := newSource(t, c, Timeout(time.Hour))
	last := mustRead(t, src)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if _, err := src.Read(ctx); !errors.Is(err, errClientClosed) {
		t.Errorf("Read says %v", err)
	}
	if err := src.Watch(ctx, last, func(datasource.Document) {}); !errors.Is(err, errClientClosed) {
		t.Errorf("Watch ended with %v", err)
	}
}

// other is a watcher that the user put in the place of the client's own.
type other struct{ clientv3.Watcher }

// bothWatchers runs a test on our stream and through a watcher that was wrapped.
func bothWatchers(t *testing.T, test func(*testing.T, *server, *clientv3.Client)) {
	for _, name := range []string{"Own", "Wrapped"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			c := s.client(t)
			if name == "Wrapped" {
				c.Watcher = other{c.Watcher}
			}
			test(t, s, c)
		})
	}
}

// A watch stream goes by the token with which it was opened: one that lives longer takes no new watch (F110).
//
// faults: F110
func TestExpiredTokenOfASharedStream(t *testing.T) {
	t.Parallel()
	bothWatchers(t, func(t *testing.T, s *server, c *clientv3.Client) {
		a, b := newSource(t, c), newSource(t, c)
		fa := follow(t, a, mustRead(t, a))
		s.open(t, 1)
		s.expireTokens()
		fb := follow(t, b, mustRead(t, b))
		if err := wait(t, "the refusal", fb.ended); !errors.Is(err, datasource.ErrDenied) {
			t.Errorf("Watch ended with %v", err)
		}
		fb = follow(t, b, mustRead(t, b))
		s.open(t, 2)
		s.put(key, "v1")
		for _, f := range []*following{fa, fb} {
			if doc := wait(t, "v1", f.docs); string(doc.Data) != "v1" {
				t.Errorf("delivered %+v", doc)
			}
		}
		// Its own stream was opened with a fresh token each time, so it never meets this again.
		fb.stop()
		s.open(t, 1)
		s.expireTokens()
		fb = follow(t, b, mustRead(t, b))
		s.put(key, "v2")
		if doc := wait(t, "v2", fb.docs); string(doc.Data) != "v2" {
			t.Errorf("delivered %+v", doc)
		}
	})
}

// The client reconnects in silence, perhaps to a store that was restored; every watch on the connection must hear of it.
//
// faults: F083 F090
func TestLostConnectionEndsEveryWatch(t *testing.T) {
	t.Parallel()
	bothWatchers(t, func(t *testing.T, s *server, c *clientv3.Client) {
		var all []*following
		for range 3 {
			src := newSource(t, c)
			all = append(all, follow(t, src, mustRead(t, src)))
		}
		s.open(t, 3)
		for range 9 {
			s.put("other", "")
		}
		s.restore(5, change{key: key, value: []byte("v1")})
		for _, f := range all {
			// The latter where the client had not yet heard that the watch was open.
			if err := wait(t, "the end", f.ended); !errors.Is(err, errLost) && !errors.Is(err, errFell) {
				t.Errorf("Watch ended with %v", err)
			}
		}
		src := newSource(t, c)
		if doc := mustRead(t, src); string(doc.Data) != "v1" || doc.Order != 6 {
			t.Errorf("read %+v", doc)
		}
		// A watch from a revision that the store does not have says so.
		f := follow(t, src, datasource.Document{Presence: datasource.Missing, Order: 99})
		if err := wait(t, "the end", f.ended); !errors.Is(err, errFell) {
			t.Errorf("Watch ended with %v", err)
		}
	})
}

// faults: F120
func TestWatchesOfOneClientShareAConnectionAndAStream(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.client(t)
	for range 50 {
		src := newSource(t, c)
		follow(t, src, mustRead(t, src))
	}
	s.open(t, 50)
	s.do(func() {
		if s.dials != 1 || len(s.streams) != 1 {
			t.Errorf("%d connections, %d streams", s.dials, len(s.streams))
		}
	})
}

// A watch that is given up while it is opened must not stay in the server.
//
// faults: F148
func TestWatchThatIsGivenUpAtOnceLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	src := newSource(t, s.client(t))
	last := mustRead(t, src)
	keep := follow(t, src, last) // keeps the stream open
	s.open(t, 1)
	for range 20 {
		f := follow(t, src, last)
		f.stop()
		if err := wait(t, "the end", f.ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Watch ended with %v", err)
		}
	}
	// On a machine that stands still for half a second one may be given up before its answer came; the server forgets
	// that one at the next event.
	s.until(t, func() bool { return len(s.watches) <= 3 })
	s.put(key, "v1")
	wait(t, "v1", keep.docs)
	s.open(t, 1)
}

// faults: F113 F114
func TestNamespace(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	wrapped := s.client(t)
	wrapped.KV = namespace.NewKV(wrapped.KV, "/team")
	wrapped.Watcher = namespace.NewWatcher(wrapped.Watcher, "/team")
	for name, c := range map[string]struct {
		client  *clientv3.Client
		options []Option
		id      string
	}{
		"client": {wrapped, nil, "etcd:/rules/flow"},
		"option": {s.client(t), []Option{Prefix("/team")}, "etcd:/team/rules/flow"},
	} {
		s.remove("/team" + key)
		src := newSource(t, c.client, c.options...)
		sink, err := NewSink(c.client, key, c.options...)
		if err != nil {
			t.Fatal(err)
		}
		if src.ID() != c.id || sink.ID() != c.id {
			t.Errorf("%s: IDs %q and %q", name, src.ID(), sink.ID())
		}
		f := follow(t, src, mustRead(t, src))
		doc, err := sink.Write(t.Context(), []byte("v1"), writable.Absent)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := wait(t, "v1", f.docs); got.Revision != doc.Revision || got.Order != doc.Order {
			t.Errorf("%s: wrote %+v, watched %+v", name, doc, got)
		}
		s.do(func() {
			if s.kvs["/team"+key] == nil || s.kvs[key] != nil {
				t.Errorf("%s: the document is not in its namespace", name)
			}
		})
		f.stop()
	}
}

// faults: F056
func TestDocumentOverTheCap(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	src := newSource(t, s.client(t), MaxBytes(8))
	f := follow(t, src, mustRead(t, src))
	s.put(key, "[ 12345678 ]")
	if doc := wait(t, "the hint", f.docs); doc.Presence != datasource.Unknown {
		t.Errorf("delivered %+v", doc)
	}
	if _, err := src.Read(t.Context()); !errors.Is(err, datasource.ErrTooLarge) {
		t.Errorf("Read says %v", err)
	}
}

// A document that was over the cap from the start leaves the engine nothing to join. The watch must stand all the same, for
// the smaller one that replaces it would else wait for the engine's next attempt.
//
// faults: F056 F072
func TestWatchStandsWhereTheFirstDocumentIsOverTheCap(t *testing.T) {
	t.Parallel()
	bothWatchers(t, func(t *testing.T, s *server, c *clientv3.Client) {
		s.put(key, "[ 12345678 ]")
		src := newSource(t, c, MaxBytes(8))
		if _, err := src.Read(t.Context()); !errors.Is(err, datasource.ErrTooLarge) {
			t.Fatalf("Read says %v", err)
		}
		f := follow(t, src, datasource.Document{})
		s.open(t, 1)
		s.put(key, "[]")
		for {
			select {
			case doc := <-f.docs:
				if doc.Presence == datasource.Unknown {
					continue // a read would say that it is too large
				}
				if string(doc.Data) != "[]" {
					t.Errorf("delivered %+v", doc)
				}
			case err := <-f.ended:
				t.Errorf("Watch ended with %v", err)
			case <-time.After(soon):
				t.Error("waited too long")
			}
			return
		}
	})
}

// newSink makes a sink over a document "old" and gives that one's revision.
func newSink(t *testing.T, s *server, options ...Option) (*Sink, string) {
	t.Helper()
	sink, err := NewSink(s.client(t), key, options...)
	if err != nil {
		t.Fatal(err)
	}
	s.put(key, "old")
	doc, err := sink.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sink, doc.Revision
}

func TestConflictSaysTheCurrentRevision(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	sink, old := newSink(t, s)
	s.put(key, "theirs")
	now, _ := sink.Read(t.Context())
	for _, expected := range []string{old, writable.Absent, "no number", "-1"} {
		_, err := sink.Write(t.Context(), []byte("new"), expected)
		var e *datasource.Error
		if !errors.Is(err, datasource.ErrConflict) || !errors.As(err, &e) || e.Revision != now.Revision {
			t.Errorf("over %q: %v, want a conflict at revision %s", expected, err, now.Revision)
		}
	}
}

func TestWriteKeepsTheLease(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	sink, old := newSink(t, s)
	if _, err := sink.Write(t.Context(), []byte("new"), old); err != nil {
		t.Fatal(err)
	}
	s.do(func() {
		if !s.ignoredLease {
			t.Error("the write did not say that the lease stays")
		}
	})
}

func TestLostAnswerIsLookedInto(t *testing.T) {
	t.Parallel()
	lost := status.Error(codes.Unavailable, "connection lost")
	t.Run("done", func(t *testing.T) {
		s := newServer(t)
		sink, old := newSink(t, s)
		s.do(func() {
			s.loseTxn = func(done bool) error {
				if done {
					return lost
				}
				return nil
			}
		})
		doc, err := sink.Write(t.Context(), []byte("new"), old)
		if now, _ := sink.Read(t.Context()); err != nil || doc.Revision != now.Revision || string(now.Data) != "new" {
			t.Errorf("%+v, %v; the store has %+v", doc, err, now)
		}
	})
	// A proxy's answers, after which the client would send the write again and call it a conflict with itself.
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded} {
		t.Run("done, "+code.String(), func(t *testing.T) {
			s := newServer(t)
			sink, old := newSink(t, s)
			s.do(func() {
				s.loseTxn = func(done bool) error {
					if done {
						return status.Error(code, "upstream is gone")
					}
					return nil
				}
			})
			doc, err := sink.Write(t.Context(), []byte("new"), old)
			if now, _ := sink.Read(t.Context()); err != nil || doc.Revision != now.Revision || string(now.Data) != "new" {
				t.Errorf("%+v, %v; the store has %+v", doc, err, now)
			}
		})
	}
	t.Run("not done", func(t *testing.T) {
		s := newServer(t)
		sink, old := newSink(t, s)
		s.do(func() { s.loseTxn = func(bool) error { return lost } })
		_, err := sink.Write(t.Context(), []byte("new"), old)
		if status.Code(err) != codes.Unavailable || errors.Is(err, datasource.ErrUnknownOutcome) || errors.Is(err, datasource.ErrConflict) {
			t.Errorf("Write says %v", err)
		}
	})
	t.Run("another document", func(t *testing.T) {
		s := newServer(t)
		sink, old := newSink(t, s)
		s.do(func() {
			s.loseTxn = func(bool) error {
				s.commit(change{key: key, value: []byte("theirs")})
				return lost
			}
		})
		if _, err := sink.Write(t.Context(), []byte("new"), old); !errors.Is(err, datasource.ErrUnknownOutcome) {
			t.Errorf("Write says %v", err)
		}
	})
	t.Run("store away", func(t *testing.T) {
		s := newServer(t)
		sink, old := newSink(t, s, Timeout(time.Second))
		s.do(func() {
			s.loseTxn = func(bool) error {
				s.link.cut(true)
				return lost
			}
		})
		if _, err := sink.Write(t.Context(), []byte("new"), old); !errors.Is(err, datasource.ErrUnknownOutcome) {
			t.Errorf("Write says %v", err)
		}
	})
	t.Run("store away before", func(t *testing.T) {
		s := newServer(t)
		sink, old := newSink(t, s)
		s.link.cut(true)
		sink.client.ActiveConnection().WaitForStateChange(t.Context(), connectivity.Ready)
		if _, err := sink.Write(t.Context(), []byte("new"), old); err == nil || errors.Is(err, datasource.ErrUnknownOutcome) {
			t.Errorf("Write says %v; nothing was sent", err)
		}
	})
}

// faults: F059
func TestLimitOfTheServerIsTooLarge(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	sink, old := newSink(t, s, MaxBytes(16<<20))
	for _, n := range []int{requestLimit + 1, 3 << 20} { // over the server's limit, and over the client's
		if _, err := sink.Write(t.Context(), make([]byte, n), old); !errors.Is(err, datasource.ErrTooLarge) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
