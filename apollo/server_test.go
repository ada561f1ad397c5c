package apollo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/apolloconfig/agollo/v4/env/config"

	"github.com/rulewire/rulewire/apollo"
	"github.com/rulewire/rulewire/apollo/apollotest"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/writable"
)

// remote plays the suite on an Apollo that is up, as the environment names it. What it can't be made to do (restart, be
// restored) is skipped by name.
type remote struct {
	r      *apollotest.Remote
	at     *apollotest.RemoteNamespace
	key    string
	link   *apollotest.Link
	client *apollo.Client
	editor apollo.Editor
}

// spaces numbers the namespaces of this run; the server keeps those of earlier ones.
var spaces atomic.Int64

func newRemote(t testing.TB, format string, admin bool) *remote {
	r := apollotest.Open(t)
	at, err := r.Namespace(fmt.Sprintf("t%x-%d-%d", time.Now().UnixMilli(), os.Getpid(), spaces.Add(1)), format)
	if err != nil {
		t.Fatal(err)
	}
	h := &remote{r: r, at: at, key: flow, link: apollotest.Dial(nil)}
	if format != "properties" {
		h.key = apollo.Content
	}
	t.Cleanup(h.link.Close)
	h.client = newClient(t, h.link, &config.AppConfig{AppID: r.App, IP: r.Config}, apollo.Direct())
	h.editor = apollo.Admin{Address: r.Admin, User: r.User}
	if !admin {
		if r.Portal == "" {
			t.Skip(apollotest.PortalEnv, "is not set")
		}
		h.editor = apollo.Portal{
			Address: r.Portal, Env: r.Env, User: r.User, Token: func(context.Context) (string, error) { return r.Token, nil },
		}
	}
	return h
}

func (h *remote) Source() (datasource.Source, error) {
	return apollo.NewSource(h.client, h.at.Name(), h.key)
}

func (h *remote) Sink() (writable.Sink, error) {
	s, err := apollo.NewSink(h.client, h.editor, h.at.Name(), h.key)
	return limited{s}, err
}

// limited tells the suite that its larger documents can't be played on a server with the default limit.
type limited struct{ writable.Sink }

func (l limited) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	doc, err := l.Sink.Write(ctx, data, expected)
	if errors.Is(err, datasource.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", datasourcetest.ErrUnplayable, err)
	}
	return doc, err
}

func (h *remote) Put(data []byte) error {
	if !utf8.Valid(data) || len(utf16.Encode([]rune(string(data)))) > h.Limit() {
		return datasourcetest.ErrUnplayable
	}
	return h.at.Put(h.key, string(data))
}

func (h *remote) Delete() error                  { return h.at.Delete(h.key) }
func (h *remote) PutNeighbour(data []byte) error { return h.at.Put(h.key+"-more", string(data)) }

func (h *remote) DeletePut(data []byte) error {
	if err := h.at.Remove(h.key); err != nil {
		return err
	}
	return h.Put(data)
}

func (h *remote) Break() error { h.link.Cut(); return nil }
func (h *remote) Stall() error { h.link.Stall(); return nil }
func (h *remote) Heal() error  { h.link.Heal(); return nil }

func (h *remote) Deny() error {
	h.link.Answer(func(*http.Request) *http.Response { return apollotest.Status(http.StatusForbidden) })
	return nil
}

func (h *remote) LoseNotifications() error {
	h.link.Answer(loseNotifications)
	return nil
}

func (h *remote) Requests() int     { return h.link.Requests("") }
func (h *remote) Secrets() []string { return []string{h.r.Token + "-"} }
func (h *remote) Limit() int        { return apollo.DefaultMaxChars }

func realSuite(format string, admin bool) datasourcetest.Config {
	return datasourcetest.Config{New: func(t testing.TB) datasourcetest.Harness { return newRemote(t, format, admin) }, Latency: 10 * time.Second}
}

func TestServerConformance(t *testing.T) {
	apollotest.Open(t)
	t.Run("Properties", func(t *testing.T) { datasourcetest.Run(t, realSuite("properties", true)) })
	t.Run("Document", func(t *testing.T) { datasourcetest.Run(t, realSuite("json", true)) })
	t.Run("SinkAdmin", func(t *testing.T) { datasourcetest.RunSink(t, realSuite("properties", true)) })
	t.Run("SinkPortal", func(t *testing.T) { datasourcetest.RunSink(t, realSuite("json", false)) })
}
