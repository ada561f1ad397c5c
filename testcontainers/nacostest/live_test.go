package nacostest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/nacos"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/testcontainers/link"
	"github.com/rulewire/rulewire/testcontainers/nacostest"
)

// soon is within which a change is in force on a machine that is busy with other tests.
const soon = 10 * time.Second

// open starts a readable of a document whose numbers go to place i of the board.
func open(t testing.TB, c *client, at nacostest.Config, i int, b *board, options ...datasource.Option) *datasource.Readable[rule.Flow] {
	t.Helper()
	src, err := nacos.NewSource(c, at.DataID, at.Group)
	must(t, err)
	listener := property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
		if len(rules) > 0 {
			b.got(i, int(rules[0].Count))
		}
		return nil
	})
	r, err := datasource.New(src, converter.JSON[rule.Flow](), listener, append([]datasource.Option{datasource.Logger(nil)}, options...)...)
	must(t, err)
	must(t, r.Start(t.Context()))
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

func inForce(t testing.TB, b *board, n int, within time.Duration) {
	t.Helper()
	if lost := b.wait(n, within); lost > 0 {
		t.Fatalf("%d documents are not at %d within %v", lost, n, within)
	}
}

// quick keeps backoffs short, so that a test measures the driver.
func quick() datasource.Option { return datasource.Backoff(50*time.Millisecond, 500*time.Millisecond) }

// Two hundred documents of one client, over one connection; the last of several quick changes of each is in force, and
// no periodic read brought it.
//
// faults: F080 F081
func TestTwoHundredDocuments(t *testing.T) {
	s := nacostest.Run(t)
	web, err := link.Listen(s.AdminHTTP())
	must(t, err)
	defer web.Close()
	grpc, err := link.Listen(s.AdminGRPC())
	must(t, err)
	defer grpc.Close()
	c := newClient(t, constant.ClientConfig{}, nacostest.ServerConfigs(web, grpc))
	const documents = 200
	at := make([]nacostest.Config, documents)
	b := newBoard(documents)
	for i := range at {
		at[i] = nacostest.Config{Group: group, DataID: newName()}
		must(t, s.Store(t.Context(), at[i], numbered(1)))
	}
	before := runtime.NumGoroutine()
	reads := make([]*datasource.Readable[rule.Flow], documents)
	for i := range at {
		reads[i] = open(t, c, at[i], i, b, datasource.Relist(time.Hour), quick())
	}
	inForce(t, b, 1, soon)
	if n := grpc.Stats().Open; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	t.Logf("%.2f goroutines for each document, the links' own among them", float64(runtime.NumGoroutine()-before)/documents)
	for n := 2; n <= 4; n++ {
		for i := range at {
			must(t, s.Store(t.Context(), at[i], numbered(n)))
		}
	}
	inForce(t, b, 4, soon)
	for _, r := range reads {
		if st := r.Status(); st.Counts.Reconnects > 0 {
			t.Errorf("%s reconnected: %v", st.SourceID, st.LastError)
		}
	}
}

// faults: F148 F149
func TestHundredCyclesLeaveNothing(t *testing.T) {
	s := nacostest.Run(t)
	c := newClient(t, constant.ClientConfig{}, s.ServerConfigs())
	at := nacostest.Config{Group: group, DataID: newName()}
	must(t, s.Put(t.Context(), at, numbered(1)))
	cycle := func() {
		b := newBoard(1)
		src, err := nacos.NewSource(c, at.DataID, at.Group)
		must(t, err)
		r, err := datasource.New(src, converter.JSON[rule.Flow](), property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
			b.got(0, int(rules[0].Count))
			return nil
		}), datasource.Logger(nil))
		must(t, err)
		must(t, r.Start(t.Context()))
		inForce(t, b, 1, soon)
		must(t, r.Close())
	}
	cycle()
	goroutines, files := atRest(t, s), openFiles(t)
	for range 100 {
		cycle()
	}
	if n := atRest(t, s); n > goroutines+3 {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if n := openFiles(t); n > files+3 {
		t.Errorf("%d open files, %d before", n, files)
	}
}

// atRest counts goroutines once the links have no connection of the driver any more.
func atRest(t *testing.T, s *nacostest.Server) int {
	t.Helper()
	for end := time.Now().Add(soon); s.GRPC().Stats().Open > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d connections are left", s.GRPC().Stats().Open)
		}
	}
	n := runtime.NumGoroutine()
	for end := time.Now().Add(time.Second); time.Now().Before(end); runtime.Gosched() {
		n = min(n, runtime.NumGoroutine())
	}
	return n
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here:", err)
	}
	return len(entries)
}

// Ten times killed and started while numbered writes go on: what was acknowledged is never undone, numbers in force only
// rise, and the last one gets there.
//
// faults: F080 F164
func TestTenKills(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server ten times")
	}
	s := nacostest.Run(t)
	if !s.Contained() {
		t.Skip("the server is not ours to kill")
	}
	c := newClient(t, constant.ClientConfig{}, s.ServerConfigs())
	at := nacostest.Config{Group: group, DataID: newName()}
	sink, err := nacos.NewSink(c, at.DataID, at.Group)
	must(t, err)
	now, err := sink.Write(t.Context(), numbered(1), "")
	must(t, err)
	b := newBoard(1)
	r := open(t, c, at, 0, b, quick())
	inForce(t, b, 1, soon)

	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer stop()
	var mu sync.Mutex
	sent, sure := 1, 1
	writers.Go(func() {
		for ctx.Err() == nil {
			n := sent + 1
			doc, err := sink.Write(ctx, numbered(n), now.Revision)
			mu.Lock()
			switch {
			case err == nil:
				now, sent, sure = doc, n, n
			case errors.Is(err, datasource.ErrUnknownOutcome):
				sent = n
			}
			mu.Unlock()
			if err == nil {
				continue
			}
			for ctx.Err() == nil {
				doc, err := sink.Read(ctx)
				if err != nil {
					select { // the server is down: ask at the pace of a person, not of a loop
					case <-ctx.Done():
					case <-time.After(100 * time.Millisecond):
					}
					continue
				}
				if n := parse(string(doc.Data)); n < sure || n > sent {
					t.Errorf("the store has %d; acknowledged %d, sent %d", n, sure, sent)
				}
				now = doc
				break
			}
		}
	})
	for i := range 10 {
		must(t, s.Kill(t.Context()))
		up := time.Now()
		must(t, s.Start(t.Context()))
		ready := time.Now()
		mu.Lock()
		n := sent
		mu.Unlock()
		for end := ready.Add(30 * time.Second); ; {
			b.mu.Lock()
			last := b.last[0]
			b.mu.Unlock()
			if last > n {
				break
			}
			select {
			case <-b.tell:
			case <-time.After(time.Until(end)):
				t.Fatalf("kill %d: %d in force, %d sent before; %+v", i, last, n, r.Status())
			}
		}
		t.Logf("kill %d: ready after %v, first new value in force %v later", i, ready.Sub(up).Round(time.Millisecond), time.Since(ready).Round(time.Millisecond))
	}
	stop()
	writers.Wait()
	final, err := sink.Read(t.Context())
	must(t, err)
	inForce(t, b, parse(string(final.Data)), soon)
}

// faults: F112
func TestTLS(t *testing.T) {
	s := nacostest.Run(t, nacostest.WithTLS(), nacostest.WithAuth())
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, s.CA(), 0o600))
	at := nacostest.Config{Group: group, DataID: newName()}
	must(t, s.Put(t.Context(), at, numbered(7)))
	config := constant.ClientConfig{Username: s.User(), Password: s.Password(), TLSCfg: constant.TLSConfig{Appointed: true, Enable: true, CaFile: ca}}
	b := newBoard(1)
	open(t, newClient(t, config, s.ServerConfigs()), at, 0, b)
	inForce(t, b, 7, soon)
	must(t, s.Put(t.Context(), at, numbered(8)))
	inForce(t, b, 8, soon)

	config.TLSCfg.CaFile = ""
	src, err := nacos.NewSource(newClient(t, config, s.ServerConfigs()), at.DataID, at.Group)
	must(t, err)
	if doc, err := src.Read(t.Context()); err == nil {
		t.Errorf("a certificate that nobody vouches for was accepted: %s", doc.Data)
	}
}

// Tokens of five seconds: the connection lives on, each request has a token that is good.
//
// faults: F111 F112
func TestTokensThatExpire(t *testing.T) {
	s := nacostest.Run(t, nacostest.WithAuth(), nacostest.WithProperty("nacos.core.auth.plugin.nacos.token.expire.seconds", "5"),
		nacostest.WithProperty("nacos.core.auth.caching.enabled", "false"))
	at := nacostest.Config{Group: group, DataID: newName()}
	must(t, s.Put(t.Context(), at, numbered(1)))
	c := newClient(t, constant.ClientConfig{Username: s.User(), Password: s.Password()}, s.ServerConfigs())
	b := newBoard(1)
	r := open(t, c, at, 0, b, datasource.Relist(time.Second))
	inForce(t, b, 1, soon)
	end := time.After(15 * time.Second)
	for n := 2; ; n++ {
		must(t, put(t, s, at, numbered(n)))
		inForce(t, b, n, soon)
		select {
		case <-end:
			if st := r.Status(); st.Counts.ReadErrors > 0 || st.Counts.Reconnects > 0 {
				t.Errorf("%d reads failed, %d watches ended: %v", st.Counts.ReadErrors, st.Counts.Reconnects, st.LastError)
			}
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// put is Put once more where the helper's own token had expired.
func put(t testing.TB, s *nacostest.Server, at nacostest.Config, data []byte) error {
	if err := s.Put(t.Context(), at, data); err != nil {
		return s.Put(t.Context(), at, data)
	}
	return nil
}

// faults: F112 F113
func TestRightsAndNamespaces(t *testing.T) {
	s := nacostest.Run(t, nacostest.WithAuth(), nacostest.WithProperty("nacos.core.auth.caching.enabled", "false"))
	at := nacostest.Config{Namespace: "team-a", Group: group, DataID: newName()}
	elsewhere := at
	elsewhere.Namespace = "team-b"
	must(t, s.AddNamespace(t.Context(), at.Namespace))
	must(t, s.AddNamespace(t.Context(), elsewhere.Namespace))
	must(t, s.Put(t.Context(), at, numbered(1)))
	must(t, s.Put(t.Context(), elsewhere, numbered(2)))
	must(t, s.AddUser(t.Context(), "reader", password, at.Namespace, "r"))
	config := constant.ClientConfig{NamespaceId: at.Namespace, Username: "reader", Password: password}
	src, err := nacos.NewSource(newClient(t, config, s.ServerConfigs()), at.DataID, at.Group)
	must(t, err)
	doc, err := src.Read(t.Context())
	must(t, err)
	if string(doc.Data) != string(numbered(1)) {
		t.Errorf("read %s", doc.Data)
	}
	sink, err := nacos.NewSink(newClient(t, config, s.ServerConfigs()), at.DataID, at.Group)
	must(t, err)
	if _, err := sink.Write(t.Context(), numbered(9), doc.Revision); !errors.Is(err, nacos.ErrDenied) {
		t.Errorf("a reader's write: %v", err)
	}
	config.NamespaceId = elsewhere.Namespace
	src, err = nacos.NewSource(newClient(t, config, s.ServerConfigs()), at.DataID, at.Group)
	must(t, err)
	if doc, err := src.Read(t.Context()); !errors.Is(err, nacos.ErrDenied) {
		t.Errorf("another team's document: %s, %v", doc.Data, err)
	}
	config.Password = "wrong"
	src, err = nacos.NewSource(newClient(t, config, s.ServerConfigs()), at.DataID, at.Group)
	must(t, err)
	if _, err := src.Read(t.Context()); !errors.Is(err, nacos.ErrDenied) {
		t.Errorf("a wrong password: %v", err)
	}
	for _, c := range []nacostest.Config{at, elsewhere} {
		if data, ok, err := s.Get(t.Context(), c); err != nil || !ok || string(data) == string(numbered(9)) {
			t.Errorf("%+v is %s (%v, %v)", c, data, ok, err)
		}
	}
}

// The user's own client, as clients.NewConfigClient makes it: the driver takes its configuration, leaves it open, writes
// no file, and takes no value from the client's files when the server can't be reached.
//
// faults: F166
func TestClientOfTheSDK(t *testing.T) {
	s := nacostest.Run(t)
	dir := t.TempDir()
	c := sdk(t, s.ServerConfigs(), func(c *constant.ClientConfig) {
		c.LogDir, c.CacheDir, c.DisableUseSnapShot = filepath.Join(dir, "log"), filepath.Join(dir, "cache"), false
	})
	at := nacostest.Config{Group: group, DataID: newName()}
	src, err := nacos.NewSource(c, at.DataID, at.Group)
	must(t, err)
	sink, err := nacos.NewSink(c, at.DataID, at.Group)
	must(t, err)
	if src.ID() != sink.ID() {
		t.Errorf("IDs %q and %q", src.ID(), sink.ID())
	}
	written, err := sink.Write(t.Context(), numbered(1), "")
	must(t, err)
	doc, err := src.Read(t.Context())
	must(t, err)
	if doc.Revision != written.Revision || string(doc.Data) != string(numbered(1)) {
		t.Errorf("read %s at %s", doc.Data, doc.Revision)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "cache")); err == nil && len(entries) > 0 {
		t.Errorf("%d files in the client's cache", len(entries))
	}
	text, err := c.GetConfig(vo.ConfigParam{DataId: at.DataID, Group: at.Group}) // which keeps it in a file
	if err != nil || text != string(numbered(1)) {
		t.Fatalf("the client was closed, or does not work: %q, %v", text, err)
	}
	s.HTTP().Cut()
	s.GRPC().Cut()
	defer s.HTTP().Heal()
	defer s.GRPC().Heal()
	if text, err = c.GetConfig(vo.ConfigParam{DataId: at.DataID, Group: at.Group}); err != nil || text == "" {
		t.Logf("the client itself has no old value either: %q, %v", text, err)
	}
	if doc, err := src.Read(t.Context()); err == nil {
		t.Errorf("with the link cut a read says %s", doc.Data)
	}
}
