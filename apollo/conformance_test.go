package apollo_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/apolloconfig/agollo/v4/env/config"
	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/apollo"
	"github.com/rulewire/rulewire/apollo/apollotest"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/writable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	appID  = "orders"
	secret = "s3cret-of-the-app"
	token  = "t0ken-of-the-portal"
	flow   = "flow-rules"
	// limit is a longer one than the default: the suite writes 100 KB.
	limit = 200_000
)

// harness plays the suite on the stand-in. One client has all sources and sinks of a case; somebody else edits in the
// portal.
type harness struct {
	server *apollotest.Server
	at     *apollotest.Namespace
	key    string
	link   *apollotest.Link
	client *apollo.Client
	editor apollo.Editor
}

// variant is what differs from one run of the suite to another.
type variant struct {
	namespace, key string
	admin          bool
}

func (v variant) harness(t testing.TB) datasourcetest.Harness {
	s := apollotest.NewServer(apollotest.ItemLimit(2 << 20))
	t.Cleanup(s.Close)
	s.SetToken(token)
	s.SetSecrets(appID, secret)
	s.AddUser("rulewire")
	h := &harness{server: s, at: s.Namespace(appID, "default", v.namespace), key: v.key, link: s.Link()}
	h.at.Put("another", "1")
	if v.key == apollo.Content {
		h.at.Delete("another")
	}
	h.client = newClient(t, h.link, &config.AppConfig{AppID: appID, IP: apollotest.ConfigURL, Secret: secret})
	h.editor = portal(token)
	if v.admin {
		h.editor = apollo.Admin{Address: apollotest.AdminURL, User: "rulewire"}
	}
	return h
}

func portal(token string) apollo.Portal {
	return apollo.Portal{
		Address: apollotest.PortalURL, Env: apollotest.Env, User: "rulewire",
		Token: func(context.Context) (string, error) { return token, nil },
	}
}

func newClient(t testing.TB, link *apollotest.Link, app *config.AppConfig, options ...apollo.ClientOption) *apollo.Client {
	t.Helper()
	c, err := apollo.NewClient(app, append([]apollo.ClientOption{apollo.HTTPClient(link.Client()), apollo.ClientIP("10.1.2.3")}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (h *harness) Source() (datasource.Source, error) {
	return apollo.NewSource(h.client, h.at.Name(), h.key)
}

func (h *harness) Sink() (writable.Sink, error) {
	return apollo.NewSink(h.client, h.editor, h.at.Name(), h.key, apollo.MaxChars(limit))
}

func (h *harness) Put(data []byte) error {
	if !utf8.Valid(data) {
		return datasourcetest.ErrUnplayable
	}
	h.at.Put(h.key, string(data))
	return nil
}

func (h *harness) Delete() error {
	h.at.Delete(h.key)
	return nil
}

func (h *harness) DeletePut(data []byte) error {
	h.at.Remove(h.key)
	return h.Put(data)
}

func (h *harness) PutNeighbour(data []byte) error {
	h.at.Put(h.key+"-more", string(data))
	return nil
}

func (h *harness) Break() error { h.link.Cut(); return nil }
func (h *harness) Stall() error { h.link.Stall(); return nil }
func (h *harness) Heal() error  { h.link.Heal(); return nil }

func (h *harness) Deny() error {
	h.link.Answer(func(r *http.Request) *http.Response { return apollotest.Status(http.StatusForbidden) })
	return nil
}

func (h *harness) LoseNotifications() error {
	h.link.Answer(loseNotifications)
	return nil
}

// loseNotifications holds polls until the client gives them up.
func loseNotifications(r *http.Request) *http.Response {
	if r.URL.Path != "/notifications/v2" {
		return nil
	}
	<-r.Context().Done()
	return apollotest.Status(http.StatusBadGateway)
}

func (h *harness) Restart() error {
	h.server.Restart()
	return nil
}

func (h *harness) Reset(data []byte) error {
	h.server.Restore(h.at, map[string]string{h.key: string(data)})
	return nil
}

func (h *harness) Requests() int { return h.link.Requests("") }

// Subscriptions also closes idle connections: they are the client's, and no case's to count.
func (h *harness) Subscriptions() int {
	synctest.Wait()
	h.link.CloseIdleConnections()
	return h.server.Polls()
}

func (h *harness) ClientClosed() bool { return false }
func (h *harness) Secrets() []string  { return []string{secret, token} }
func (h *harness) Limit() int         { return limit }

func (h *harness) Misconfigured() map[string]error {
	said := map[string]error{}
	source := func(name string, c *apollo.Client, namespace, key string, options ...apollo.Option) {
		_, said["source: "+name] = apollo.NewSource(c, namespace, key, options...)
		_, said["sink: "+name] = apollo.NewSink(c, h.editor, namespace, key, options...)
	}
	source("no client", nil, "application", flow)
	source("no namespace", h.client, "", flow)
	source("two namespaces", h.client, "application,flow.json", flow)
	source("no key", h.client, "application", "")
	source("a key in a document", h.client, "flow.json", flow)
	source("a key that is a step in a path", h.client, "application", "..")
	source("nil option", h.client, "application", flow, nil)
	source("Timeout", h.client, "application", flow, apollo.Timeout(0))
	source("MaxBytes", h.client, "application", flow, apollo.MaxBytes(0))
	_, said["MaxChars at a source"] = apollo.NewSource(h.client, "application", flow, apollo.MaxChars(5))
	_, said["Actor at a source"] = apollo.NewSource(h.client, "application", flow, apollo.Actor(func(context.Context) string { return "" }))
	_, said["Settle at a source"] = apollo.NewSource(h.client, "application", flow, apollo.Settle(time.Second))
	_, said["Settle below zero"] = apollo.NewSink(h.client, h.editor, "application", flow, apollo.Settle(-1))
	_, said["Inspect at a sink"] = apollo.NewSink(h.client, h.editor, "application", flow, apollo.Inspect(h.editor))
	_, said["Inspect(nil)"] = apollo.NewSource(h.client, "application", flow, apollo.Inspect(nil))
	_, said["no editor"] = apollo.NewSink(h.client, nil, "application", flow)
	for name, e := range map[string]apollo.Editor{
		"portal without address": apollo.Portal{Env: "LOCAL", User: "u", Token: portal("").Token},
		"portal without env":     apollo.Portal{Address: "http://p", User: "u", Token: portal("").Token},
		"portal without user":    apollo.Portal{Address: "http://p", Env: "LOCAL", Token: portal("").Token},
		"portal without token":   apollo.Portal{Address: "http://p", Env: "LOCAL", User: "u"},
		"portal at no address":   apollo.Portal{Address: "ftp://p", Env: "LOCAL", User: "u", Token: portal("").Token},
		"admin without user":     apollo.Admin{Address: "http://a"},
	} {
		_, said[name] = apollo.NewSink(h.client, e, "application", flow)
	}
	client := func(name string, app *config.AppConfig, options ...apollo.ClientOption) {
		c, err := apollo.NewClient(app, options...)
		if err == nil {
			_ = c.Close()
		}
		said["client: "+name] = err
	}
	good := &config.AppConfig{AppID: appID, IP: "http://localhost"}
	client("no configuration", nil)
	client("no app id", &config.AppConfig{IP: "http://localhost"})
	client("no address", &config.AppConfig{AppID: appID})
	client("bad address", &config.AppConfig{AppID: appID, IP: "http://localhost,ftp://x"})
	client("nil option", good, nil)
	client("nil http client", good, apollo.HTTPClient(nil))
	client("http client that ends polls", good, apollo.HTTPClient(&http.Client{Timeout: 10 * time.Second}))
	client("nil secret", good, apollo.Secret(nil))
	client("empty ip", good, apollo.ClientIP(""))
	client("impatient", good, apollo.Patience(time.Second))
	return said
}

// config is the suite's. A release is found by the server's scan, once a second. Idle: a long poll each minute for all
// sources of the client, and a read each relist.
func suite(v variant) datasourcetest.Config {
	return datasourcetest.Config{New: v.harness, Bubble: true, Latency: 1500 * time.Millisecond, IdlePeriod: datasource.DefaultRelist / 2}
}

func TestConformance(t *testing.T) {
	datasourcetest.Run(t, suite(variant{namespace: "application", key: flow}))
}

func TestConformanceDocument(t *testing.T) {
	datasourcetest.Run(t, suite(variant{namespace: "flow.json", key: apollo.Content}))
}

func TestSinkConformance(t *testing.T) {
	datasourcetest.RunSink(t, suite(variant{namespace: "application", key: flow}))
}

func TestSinkConformanceAdmin(t *testing.T) {
	c := suite(variant{namespace: "flow.json", key: apollo.Content, admin: true})
	c.Edits = 100 // a thousand are made through the portal
	datasourcetest.RunSink(t, c)
}
