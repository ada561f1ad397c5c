package apollo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
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
	return datasourcetest.Config{
		New: func(t testing.TB) datasourcetest.Harness { return newRemote(t, format, admin) }, Latency: 10 * time.Second, IdlePeriod: time.Second,
		Edits: 30, // each is served after about a second; the stand-in's suite has 1,000
	}
}

func TestServerConformance(t *testing.T) {
	apollotest.Open(t)
	t.Run("Properties", func(t *testing.T) { datasourcetest.Run(t, realSuite("properties", true)) })
	t.Run("Document", func(t *testing.T) { datasourcetest.Run(t, realSuite("json", true)) })
	t.Run("SinkAdmin", func(t *testing.T) { datasourcetest.RunSink(t, realSuite("properties", true)) })
	t.Run("SinkPortal", func(t *testing.T) { datasourcetest.RunSink(t, realSuite("json", false)) })
}

// What the stand-in shows in fake time, on the real server: many documents on one poll, beside a namespace that does not
// exist, over a cut.
//
// faults: F080 F091 F115
func TestServerReleaseIsInForceInTime(t *testing.T) {
	good := newRemote(t, "properties", true)
	if err := good.at.Put(flow, doc(0)); err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, link: good.link}
	b.open(b.source(good.client, "nosuch-"+good.at.Name(), flow))
	var all []*live
	for range 20 {
		// Nothing comes by relist; a notification that is lost is never made good.
		all = append(all, b.open(b.source(good.client, good.at.Name(), flow), datasource.Relist(time.Hour)))
	}
	// How long is reported, as a machine may be busy; that it comes is demanded.
	var took []time.Duration
	check := func(n int) {
		t.Helper()
		begin := time.Now()
		for _, l := range all {
			b.wait(time.Minute, l, n)
		}
		took = append(took, time.Since(begin))
	}
	report := func(what string) {
		t.Helper()
		slices.Sort(took)
		t.Logf("%s, %d times: median %v, longest %v", what, len(took), took[len(took)/2], took[len(took)-1])
		took = nil
	}
	check(0)
	took = nil
	for n := 1; n <= 15; n++ {
		if err := good.at.Put(flow, doc(n)); err != nil {
			t.Fatal(err)
		}
		check(n)
	}
	report("from a release to 20 listeners")
	for n := 16; n <= 19; n++ {
		good.link.Cut()
		if err := good.at.Put(flow, doc(n)); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Second)
		good.link.Heal()
		check(n)
	}
	report("from the end of a cut of 3 s")
}

// wait is within for real time.
func (b *bench) wait(limit time.Duration, l *live, n int) {
	b.Helper()
	end := time.After(limit)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for l.n.Load() != int64(n) {
		select {
		case <-tick.C:
		case <-end:
			b.Fatalf("after %v %d is in force, want %d: %+v", limit, l.n.Load(), n, l.Status())
		}
	}
}

// Nobody's draft is released on the real server either, through the portal and through the admin service.
func TestServerDrafts(t *testing.T) {
	for _, admin := range []bool{true, false} {
		t.Run(fmt.Sprint("admin=", admin), func(t *testing.T) {
			h := newRemote(t, "properties", admin)
			if err := errors.Join(h.at.Put(flow, doc(0)), h.at.Edit("other", "x", "alice")); err != nil {
				t.Fatal(err)
			}
			s, err := apollo.NewSink(h.client, h.editor, h.at.Name(), flow)
			if err != nil {
				t.Fatal(err)
			}
			now, err := s.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(t.Context(), []byte(doc(1)), now.Revision); !errors.Is(err, apollo.ErrDraft) {
				t.Errorf("%v", err)
			}
			if err := h.at.Release(); err != nil {
				t.Fatal(err)
			}
			if now, err = s.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"a/b?c d", "é", "x+y"} {
				odd, err := apollo.NewSink(h.client, h.editor, h.at.Name(), key)
				if err != nil {
					t.Fatal(err)
				}
				d, err := odd.Write(t.Context(), []byte(doc(1)), "")
				if err != nil {
					t.Errorf("key %q: %v", key, err)
					continue
				}
				if back, err := odd.Read(t.Context()); err != nil || back.Revision != d.Revision || string(back.Data) != doc(1) {
					t.Errorf("key %q: %+v %v", key, back, err)
				}
			}
		})
	}
}

// Writers in processes of their own, on the real server, whose releases are transactions and take their time. The writers
// come through the portal and through the admin service.
//
// faults: F139 F140
func TestServerWritersInSeveralProcesses(t *testing.T) {
	h := newRemote(t, "properties", false)
	if err := h.at.Put(flow, doc(0)); err != nil {
		t.Fatal(err)
	}
	var sinks []*apollo.Sink
	for n := range 4 {
		link := apollotest.Dial(nil)
		t.Cleanup(link.Close)
		e := h.editor
		if n%2 == 1 {
			e = apollo.Admin{Address: h.r.Admin, User: h.r.User}
		}
		s, err := apollo.NewSink(newClient(t, link, &config.AppConfig{AppID: h.r.App, IP: h.r.Config}, apollo.Direct()), e, h.at.Name(), flow)
		if err != nil {
			t.Fatal(err)
		}
		sinks = append(sinks, s)
	}
	rivals(t, sinks, 200)
}
