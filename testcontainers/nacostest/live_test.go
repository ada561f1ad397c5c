package nacostest_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/nacos"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/testcontainers/certs"
	"github.com/rulewire/rulewire/testcontainers/link"
	"github.com/rulewire/rulewire/testcontainers/nacostest"
	"github.com/rulewire/rulewire/writable"
)

// soon is within which a change is in force on a machine that is busy with other tests.
const soon = 10 * time.Second

// open starts a readable of a document whose numbers go to place i of the board.
func open(t testing.TB, c *client, at nacostest.Config, i int, b *board, options ...datasource.Option) *datasource.Readable[rule.Flow] {
	t.Helper()
	src, err := nacos.NewSource(c, at.DataID, at.Group)
	must(t, err)
	return follower(t, src, i, b, options...)
}

func follower(t testing.TB, src *nacos.Source, i int, b *board, options ...datasource.Option) *datasource.Readable[rule.Flow] {
	t.Helper()
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

// until waits for what a status will say.
func until(t testing.TB, within time.Duration, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(within); !is(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %v", within)
		}
	}
}

// admin is the configuration of a user who may do everything.
func admin(s *nacostest.Server) constant.ClientConfig {
	return constant.ClientConfig{Username: s.User(), Password: s.Password()}
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
func twoHundredDocuments(t *testing.T, s *nacostest.Server) {
	web, err := link.Listen(s.AdminHTTP())
	must(t, err)
	defer web.Close()
	grpc, err := link.Listen(s.AdminGRPC())
	must(t, err)
	defer grpc.Close()
	c := newClient(t, admin(s), nacostest.ServerConfigs(web, grpc))
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
func hundredCyclesLeaveNothing(t *testing.T, s *nacostest.Server) {
	c := newClient(t, admin(s), s.ServerConfigs())
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

// Killed and started again and again while numbered writes go on: what was acknowledged is never undone, numbers in force only
// rise, and the last one gets there.
//
// faults: F080 F164
func kills(t *testing.T, s *nacostest.Server) {
	times, err := strconv.Atoi(cmp.Or(os.Getenv("RULEWIRE_NACOS_KILLS"), "3")) // the stand-in's test has ten
	must(t, err)
	c := newClient(t, admin(s), s.ServerConfigs())
	at := nacostest.Config{Group: group, DataID: newName()}
	sink, err := newSink(c, at)
	must(t, err)
	now, err := sink.Write(t.Context(), numbered(1), "")
	must(t, err)
	addresses := s.ServerConfigs()
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
	for i := range times {
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
	if !reflect.DeepEqual(s.ServerConfigs(), addresses) {
		t.Error("the server's address changed")
	}
}

// The server speaks TLS and lets in who shows a certificate. A client's files may be renewed: each connection reads them.
//
// faults: F112
func mutualTLS(t *testing.T, s *nacostest.Server) {
	file := func(name string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, data, 0o600))
		return path
	}
	at := nacostest.Config{Group: group, DataID: newName()}
	must(t, s.Put(t.Context(), at, numbered(7)))
	config := admin(s)
	config.TLSCfg = constant.TLSConfig{Appointed: true, Enable: true, CaFile: file("ca.pem", s.CA()),
		CertFile: file("cert.pem", s.ClientCert().Cert), KeyFile: file("key.pem", s.ClientCert().Key)}
	b := newBoard(1)
	open(t, newClient(t, config, s.ServerConfigs()), at, 0, b)
	inForce(t, b, 7, soon)
	must(t, s.Put(t.Context(), at, numbered(8)))
	inForce(t, b, 8, soon)

	stranger := certs.New(t)
	pair := stranger.Sign(t, "client")
	for name, spoil := range map[string]func(*constant.TLSConfig){
		"nobody vouches for the server":    func(c *constant.TLSConfig) { c.CaFile = "" },
		"another authority vouches for it": func(c *constant.TLSConfig) { c.CaFile = file("ca.pem", stranger.PEM) },
		"the client has no certificate":    func(c *constant.TLSConfig) { c.CertFile, c.KeyFile = "", "" },
		"the client's is of another authority": func(c *constant.TLSConfig) {
			c.CertFile, c.KeyFile = file("cert.pem", pair.Cert), file("key.pem", pair.Key)
		},
		"the server is expected by another name": func(c *constant.TLSConfig) { c.ServerNameOverride = "nacos.example" },
	} {
		spoiled := config
		spoil(&spoiled.TLSCfg)
		src, err := nacos.NewSource(newClient(t, spoiled, s.ServerConfigs()), at.DataID, at.Group)
		must(t, err)
		if doc, err := src.Read(t.Context()); err == nil {
			t.Errorf("%s: %s", name, doc.Data)
		}
	}
}

// Login and requests over TLS that ends at a proxy before the server.
//
// faults: F112
func tlsProxy(t *testing.T, s *nacostest.Server) {
	authority := certs.New(t)
	pair := authority.Sign(t, "nacos", "127.0.0.1")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, authority.PEM, 0o600))
	at := nacostest.Config{Group: group, DataID: newName()}
	must(t, s.Put(t.Context(), at, numbered(7)))
	config := admin(s)
	config.TLSCfg = constant.TLSConfig{Appointed: true, Enable: true, CaFile: ca}
	servers := []constant.ServerConfig{{Scheme: "https", ContextPath: "/nacos", IpAddr: "127.0.0.1",
		Port: terminate(t, s.AdminHTTP(), pair), GrpcPort: terminate(t, s.AdminGRPC(), pair)}}
	c := newClient(t, config, servers)
	b := newBoard(1)
	open(t, c, at, 0, b)
	inForce(t, b, 7, soon)
	sink, err := newSink(c, at)
	must(t, err)
	doc, err := sink.Read(t.Context())
	must(t, err)
	if _, err = sink.Write(t.Context(), numbered(8), doc.Revision); err != nil {
		t.Fatal(err)
	}
	inForce(t, b, 8, soon)

	config.TLSCfg.CaFile = ""
	src, err := nacos.NewSource(newClient(t, config, servers), at.DataID, at.Group)
	must(t, err)
	if doc, err := src.Read(t.Context()); err == nil {
		t.Errorf("a certificate that nobody vouches for was accepted: %s", doc.Data)
	}
}

// terminate is a proxy that speaks TLS to its clients and TCP to target.
func terminate(t *testing.T, target string, pair certs.Pair) (port uint64) {
	t.Helper()
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	must(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12})
	must(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer in.Close()
				out, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				wg.Go(func() {
					_, _ = io.Copy(in, out)
					_ = in.Close()
				})
				_, _ = io.Copy(out, in)
				_ = out.Close()
			})
		}
	})
	return uint64(l.Addr().(*net.TCPAddr).Port)
}

// Tokens of five seconds: the connection lives on, each request has a token that is good.
//
// faults: F111 F112
func tokensThatExpire(t *testing.T, s *nacostest.Server) {
	at := nacostest.Config{Group: group, DataID: newName()}
	must(t, s.Put(t.Context(), at, numbered(1)))
	c := newClient(t, admin(s), s.ServerConfigs())
	b := newBoard(1)
	r := open(t, c, at, 0, b, datasource.Relist(time.Second))
	inForce(t, b, 1, soon)
	end := time.After(2*tokenLife + time.Second)
	for n := 2; ; n++ {
		must(t, s.Put(t.Context(), at, numbered(n)))
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

// A user's password is changed: once his token is over the status says that he is refused, his rules stay, and they
// follow again when the application has the new password.
//
// faults: F111
func rotatedPassword(t *testing.T, s *nacostest.Server) {
	at := nacostest.Config{Namespace: "rotated", Group: group, DataID: newName()}
	must(t, s.Put(t.Context(), at, numbered(1)))
	must(t, s.AddUser(t.Context(), "rotated", password, at.Namespace, "r"))
	login := nacos.NewLogin("rotated", password)
	src, err := nacos.NewSource(newClient(t, constant.ClientConfig{NamespaceId: at.Namespace}, s.ServerConfigs()), at.DataID, at.Group, nacos.SignIn(login))
	must(t, err)
	b := newBoard(1)
	r := follower(t, src, 0, b, datasource.Relist(time.Second), quick())
	inForce(t, b, 1, soon)
	const next = "an0ther-pass"
	must(t, s.SetPassword(t.Context(), "rotated", next))
	until(t, 3*tokenLife+soon, func() bool { return errors.Is(r.Status().LastError, nacos.ErrDenied) })
	if st := r.Status(); st.Rules != 1 {
		t.Errorf("%d rules in force while the password is refused", st.Rules)
	}
	must(t, s.Put(t.Context(), at, numbered(2)))
	login.Set("rotated", next)
	inForce(t, b, 2, soon)
}

// faults: F112 F113
func rightsAndNamespaces(t *testing.T, s *nacostest.Server) {
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
	config.Username = "nobody" // 2.3.2 answers with status 500, so that the error is a failure of the server's
	src, err = nacos.NewSource(newClient(t, config, s.ServerConfigs()), at.DataID, at.Group)
	must(t, err)
	if doc, err := src.Read(t.Context()); err == nil || strings.Contains(err.Error(), config.Password) {
		t.Errorf("a user that does not exist: %s, %v", doc.Data, err)
	}
	// A namespace in another letter case is another one: nothing is there, and the ID says which was asked.
	config = admin(s)
	config.NamespaceId = "Team-A"
	src, err = nacos.NewSource(newClient(t, config, s.ServerConfigs()), at.DataID, at.Group)
	must(t, err)
	r := follower(t, src, 0, newBoard(1), datasource.OnStart(datasource.Empty))
	until(t, soon, func() bool {
		return r.Status().Presence == datasource.Missing && strings.Contains(r.Status().SourceID, "Team-A")
	})
	for _, c := range []nacostest.Config{at, elsewhere} {
		if data, ok, err := s.Get(t.Context(), c); err != nil || !ok || string(data) == string(numbered(9)) {
			t.Errorf("%+v is %s (%v, %v)", c, data, ok, err)
		}
	}
}

// The user's own client, as clients.NewConfigClient makes it: the driver takes its configuration, leaves it open, writes
// no file, and takes no value from the client's files when the server can't be reached.
//
// The link is never cut under a client of the SDK that is connected: 2.3.2 writes RpcClient.currentConnection in
// reconnect while its event loop and CloseClient read it, with no lock, and the race detector blames the test that runs.
//
// faults: F166
func clientOfTheSDK(t *testing.T, s *nacostest.Server) {
	files := t.TempDir()
	newSDK := func() config_client.IConfigClient {
		return sdk(t, s, s.ServerConfigs(), func(c *constant.ClientConfig) {
			c.CacheDir, c.DisableUseSnapShot = files, false
		})
	}
	c := newSDK()
	at := nacostest.Config{Group: group, DataID: newName()}
	src, err := nacos.NewSource(c, at.DataID, at.Group)
	must(t, err)
	sink, err := newSink(c, at)
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
	if kept := texts(t, files); len(kept) > 0 {
		t.Errorf("the driver left %q in the client's cache", kept)
	}
	text, err := c.GetConfig(vo.ConfigParam{DataId: at.DataID, Group: at.Group}) // which keeps it in a file
	if err != nil || text != string(numbered(1)) {
		t.Fatalf("the client was closed, or does not work: %q, %v", text, err)
	}
	c.CloseClient()
	if kept := texts(t, files); !slices.Contains(kept, string(numbered(1))) {
		t.Fatalf("the client's cache holds %q, no old value to be misled by", kept)
	}
	// Another client with the same files, as after a restart; it connects when it is first asked, which it isn't.
	src, err = nacos.NewSource(newSDK(), at.DataID, at.Group)
	must(t, err)
	s.HTTP().Cut()
	s.GRPC().Cut()
	defer s.HTTP().Heal()
	defer s.GRPC().Heal()
	if doc, err := src.Read(t.Context()); err == nil {
		t.Errorf("with the link cut a read says %s", doc.Data)
	}
}

// texts are the contents of all files under dir.
func texts(t *testing.T, dir string) (all []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all = append(all, string(text))
		return err
	}))
	return all
}

// Deleted and written again, three times, while a listener is busy with an earlier text: the last text is in force.
//
// faults: F004 F017 F136
func deletedAndWrittenAgainWhileAListenerRuns(t *testing.T, s *nacostest.Server) {
	at := nacostest.Config{Group: group, DataID: newName()}
	must(t, s.Put(t.Context(), at, numbered(1)))
	src, err := nacos.NewSource(newClient(t, admin(s), s.ServerConfigs()), at.DataID, at.Group)
	must(t, err)
	busy, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b := newBoard(1)
	r, err := datasource.New(src, converter.JSON[rule.Flow](), property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
		if len(rules) > 0 && rules[0].Count == 2 {
			once.Do(func() {
				close(busy)
				<-hold
			})
		}
		n := 0
		if len(rules) > 0 {
			n = int(rules[0].Count)
		}
		b.got(0, n)
		return nil
	}), datasource.Logger(nil), datasource.OnMissing(datasource.Clear), datasource.Relist(time.Hour))
	must(t, err)
	must(t, r.Start(t.Context()))
	defer func() { must(t, r.Close()) }()
	inForce(t, b, 1, soon)
	must(t, s.Put(t.Context(), at, numbered(2)))
	<-busy
	for n := 3; n <= 5; n++ {
		must(t, s.Remove(t.Context(), at))
		must(t, s.Put(t.Context(), at, numbered(n)))
	}
	close(hold)
	inForce(t, b, 5, soon)
	must(t, s.Delete(t.Context(), at))
	inForce(t, b, 0, nacos.DefaultCompare+soon) // rnacos forgets who listens when a document goes, until checksums are compared
}

// A document over the 100 KB of Nacos's own default for managed capacity, which a server does not apply unless told to,
// is written; one over the 10 MiB of a request is refused by its type, and what was there stays.
func sizes(t *testing.T, s *nacostest.Server) {
	at := nacostest.Config{Group: group, DataID: newName()}
	sink, err := newSink(newClient(t, admin(s), s.ServerConfigs()), at, nacos.MaxBytes(32<<20), nacos.Timeout(latency))
	must(t, err)
	text := []byte(strings.Repeat(" ", 100<<10) + string(numbered(1)))
	doc, err := sink.Write(t.Context(), text, writable.Absent)
	must(t, err)
	switch next, err := sink.Write(t.Context(), bytes.Repeat([]byte("x"), 11<<20), doc.Revision); {
	case err == nil && len(weaker) > 0: // not Nacos itself: its limit is another
		doc = next
	case !errors.Is(err, datasource.ErrTooLarge):
		t.Errorf("over the limit of a request: %v", err)
	}
	if now, err := sink.Read(t.Context()); err != nil || now.Revision != doc.Revision {
		t.Errorf("afterwards: %d bytes, %v", len(now.Data), err)
	}
}
