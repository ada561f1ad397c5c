package nacostest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"github.com/nacos-group/nacos-sdk-go/v2/clients/nacos_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/nacos"
	"github.com/rulewire/rulewire/testcontainers/internal/shared"
	"github.com/rulewire/rulewire/testcontainers/link"
	"github.com/rulewire/rulewire/testcontainers/nacostest"
	"github.com/rulewire/rulewire/writable"
)

const (
	group    = "SENTINEL_GROUP"
	password = "s3cret-pass"
	// limit is less than the server's, whose database takes seconds for some megabytes on a busy machine.
	limit = 1 << 20
	// latency is what such a machine takes for a login, a new connection and a write.
	latency = 15 * time.Second
	// edits of each of two writers: a server takes a tenth of a second for one. On the driver's stand-in it is a thousand.
	edits = 50
	// tokenLife is how long a token of TestKilledServer lasts.
	tokenLife = 5 * time.Second
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var names atomic.Int64

func newName() string {
	return fmt.Sprintf("orders-flow-%d-%d", time.Now().UnixNano(), names.Add(1))
}

// client is a client of the SDK as far as the driver has to do with it: what it was configured with. The real one starts
// goroutines and writes files; TestClientOfTheSDK has it.
type client struct {
	config_client.IConfigClient
	nacos_client.NacosClient
}

func newClient(t testing.TB, config constant.ClientConfig, servers []constant.ServerConfig) *client {
	t.Helper()
	c := new(client)
	must(t, c.SetClientConfig(config))
	must(t, c.SetServerConfig(servers))
	return c
}

// harness plays the suite on a real server, over links of its own and with a user of its own.
type harness struct {
	t         testing.TB
	s         *nacostest.Server
	web, grpc *link.Link
	c         *client
	at        nacostest.Config
	user      string
	denied    bool
}

// newHarness makes harnesses on one server. A namespace of its own gives each user rights that can be taken away.
func newHarness(s *nacostest.Server) datasourcetest.New {
	return func(t testing.TB) datasourcetest.Harness {
		web, err := link.Listen(s.AdminHTTP())
		must(t, err)
		grpc, err := link.Listen(s.AdminGRPC())
		must(t, err)
		h := &harness{t: t, s: s, web: web, grpc: grpc, at: nacostest.Config{Group: group, DataID: newName()}}
		config := constant.ClientConfig{AppName: "orders"}
		if s.User() != "" {
			h.user = "u" + strconv.FormatInt(names.Add(1), 10)
			h.at.Namespace = "ns-" + h.user
			must(t, s.AddUser(h.ctx(), h.user, password, h.at.Namespace, "rw"))
			config.Username, config.Password, config.NamespaceId = h.user, password, h.at.Namespace
		}
		h.c = newClient(t, config, nacostest.ServerConfigs(web, grpc))
		t.Cleanup(func() {
			must(t, web.Close())
			must(t, grpc.Close())
		})
		return h
	}
}

func (h *harness) ctx() context.Context { return context.Background() }

func (h *harness) Source() (datasource.Source, error) {
	return nacos.NewSource(h.c, h.at.DataID, h.at.Group, nacos.Timeout(latency))
}
func (h *harness) Sink() (writable.Sink, error) {
	return newSink(h.c, h.at, nacos.MaxBytes(limit), nacos.Timeout(latency))
}

// weaker are the options of all sinks on a server that is up and that ignores checksums, as rnacos does.
var weaker []nacos.Option

func newSink(c config_client.IConfigClient, at nacostest.Config, options ...nacos.Option) (*nacos.Sink, error) {
	return nacos.NewSink(c, at.DataID, at.Group, append(options, weaker...)...)
}

// ignoresChecksums asks the driver, whose finding nacos.TestServerThatDoesNotCompare holds against a stand-in.
func ignoresChecksums(t *testing.T, s *nacostest.Server) bool {
	t.Helper()
	sink, err := newSink(newClient(t, admin(s), s.ServerConfigs()), nacostest.Config{Group: group, DataID: newName()})
	must(t, err)
	_, err = sink.Write(t.Context(), numbered(1), writable.Absent)
	if !errors.Is(err, datasource.ErrUnsupported) {
		must(t, err)
		return false
	}
	t.Logf("sinks read, compare and write: %v", err)
	return true
}

func (h *harness) Secrets() []string { return []string{password} }
func (h *harness) Limit() int        { return limit }

func (h *harness) Put(data []byte) error {
	switch {
	case len(strings.TrimSpace(string(data))) == 0:
		return fmt.Errorf("%w: Nacos refuses an empty document", datasourcetest.ErrUnplayable)
	case !utf8.Valid(data):
		return fmt.Errorf("%w: Nacos holds text", datasourcetest.ErrUnplayable)
	}
	return h.s.Put(h.ctx(), h.at, data)
}

func (h *harness) Delete() error { return h.s.Delete(h.ctx(), h.at) }

func (h *harness) DeletePut(data []byte) error {
	if err := h.s.Remove(h.ctx(), h.at); err != nil {
		return err
	}
	return h.s.Put(h.ctx(), h.at, data)
}

func (h *harness) PutNeighbour(data []byte) error {
	at := h.at
	at.DataID += "-more"
	return h.s.Put(h.ctx(), at, data)
}

func (h *harness) Break() error {
	h.web.Cut()
	h.grpc.Cut()
	return nil
}

func (h *harness) Stall() error {
	h.web.Stall(link.Both)
	h.grpc.Stall(link.Both)
	return nil
}

func (h *harness) Heal() error {
	h.web.Heal()
	h.grpc.Heal()
	if !h.denied {
		return nil
	}
	h.denied = false
	return h.s.Allow(h.ctx(), h.user, h.at.Namespace, "rw")
}

func (h *harness) Deny() error {
	if h.user == "" {
		return fmt.Errorf("%w: the server asks nobody who he is", datasourcetest.ErrUnplayable)
	}
	h.denied = true
	return h.s.Forbid(h.ctx(), h.user, h.at.Namespace, "rw")
}

func (h *harness) Restart() error {
	if !h.s.Contained() {
		return fmt.Errorf("%w: the server is not ours", datasourcetest.ErrUnplayable)
	}
	if err := h.s.Kill(h.ctx()); err != nil { // a stop takes seconds longer
		return err
	}
	return h.s.Start(h.ctx())
}

func (h *harness) Misconfigured() map[string]error {
	said := map[string]error{}
	try := func(name string, c config_client.IConfigClient, dataID, group string, options ...nacos.Option) {
		_, source := nacos.NewSource(c, dataID, group, options...)
		_, sink := nacos.NewSink(c, dataID, group, options...)
		said["source: "+name], said["sink: "+name] = source, sink
	}
	try("no client", nil, h.at.DataID, group)
	try("no data id", h.c, "", group)
	try("slash", h.c, "a/b", group)
	try("timeout", h.c, h.at.DataID, group, nacos.Timeout(0))
	return said
}

// The log of a client of the SDK has a goroutine that nothing ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

// TestServer has one server for all that it can be asked to do: a server takes longer to start than most of this to run.
// It asks for a user, looks his rights up each time, and speaks TLS with who wants it; or it is the one of the environment.
func TestServer(t *testing.T) {
	var s *nacostest.Server
	external := os.Getenv(nacostest.AddrEnv) != ""
	if external {
		s = nacostest.Run(t)
	} else {
		s = nacostest.Run(t, nacostest.WithAuth(), nacostest.WithMutualTLS(), nacostest.WithProperty("nacos.core.auth.caching.enabled", "false"))
	}
	// Cases look for goroutines that are left, so they run one after the other.
	config := datasourcetest.Config{New: newHarness(s), Latency: latency, Leaks: shared.Leaks(), Edits: edits}
	if external && ignoresChecksums(t, s) {
		weaker = []nacos.Option{nacos.ReadCompareWrite()}
		config.NoCompareAndSet = "the server ignores the checksum of a conditional write"
	}
	t.Run("Conformance", func(t *testing.T) { datasourcetest.Run(t, config) })
	t.Run("SinkConformance", func(t *testing.T) { datasourcetest.RunSink(t, config) })
	for _, c := range []struct {
		name string
		run  func(*testing.T, *nacostest.Server)
		own  bool // needs what only a server of ours is set to
	}{
		{"TwoHundredDocuments", twoHundredDocuments, false},
		{"HundredCyclesLeaveNothing", hundredCyclesLeaveNothing, false},
		{"DeletedAndWrittenAgainWhileAListenerRuns", deletedAndWrittenAgainWhileAListenerRuns, false},
		{"Sizes", sizes, false},
		{"ClientOfTheSDK", clientOfTheSDK, false},
		{"TLSProxy", tlsProxy, false},
		{"MutualTLS", mutualTLS, true},
		{"RightsAndNamespaces", rightsAndNamespaces, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.own && external {
				t.Skip("the server is not ours to configure")
			}
			c.run(t, s)
		})
	}
}

// TestKilledServer is about a server that is killed, and about one that gives tokens of a few seconds.
func TestKilledServer(t *testing.T) {
	s := nacostest.Run(t, nacostest.WithAuth(), nacostest.WithProperty("nacos.core.auth.caching.enabled", "false"),
		nacostest.WithProperty("nacos.core.auth.plugin.nacos.token.expire.seconds", strconv.Itoa(int(tokenLife.Seconds()))))
	t.Run("TokensThatExpire", func(t *testing.T) { tokensThatExpire(t, s) })
	t.Run("RotatedPassword", func(t *testing.T) { rotatedPassword(t, s) })
	t.Run("Kills", func(t *testing.T) { kills(t, s) })
}
