package command_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rulewire/rulewire/command"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
)

// fake is a Dashboard: it takes beats, and answers as the real one does.
type fake struct {
	*httptest.Server
	mu     sync.Mutex
	answer string
	status int
	beats  chan url.Values
	raw    chan string
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{answer: `{"success":true,"code":0,"msg":"success","data":null}`, status: 200, beats: make(chan url.Values, 1000), raw: make(chan string, 1000)}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		form, err := url.ParseQuery(body.String())
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/registry/machine" ||
			r.Header.Get("Content-Type") != "application/x-www-form-urlencoded; charset=UTF-8" {
			t.Errorf("beat %s %s %v: %v", r.Method, r.URL, r.Header, err)
		}
		f.raw <- body.String()
		f.beats <- form
		f.mu.Lock()
		defer f.mu.Unlock()
		w.WriteHeader(f.status)
		fmt.Fprint(w, f.answer)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) say(status int, answer string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.answer = status, answer
}

func (f *fake) beat(t *testing.T) url.Values {
	t.Helper()
	select {
	case b := <-f.beats:
		return b
	case <-time.After(10 * time.Second):
		t.Fatal("no beat")
		return nil
	}
}

func (f *fake) host() string { return strings.TrimPrefix(f.URL, "http://") }

func TestADashboardGetsBeatsThatItAccepts(t *testing.T) {
	f := newFake(t)
	p := start(t, datasourcetest.NewStore(), command.Dashboards(f.host()), command.HeartbeatPeriod(20*time.Millisecond))
	got, raw := f.beat(t), <-f.raw
	// The same parameters in the same order as the Java client's.
	recordedBody := string(bytes.SplitN(recorded(t, "heartbeat.txt")[0], []byte("\r\n\r\n"), 2)[1])
	if names(raw) != names(strings.TrimSpace(recordedBody)) {
		t.Errorf("parameters %s, recorded %s", names(raw), names(recordedBody))
	}
	_, port, err := net.SplitHostPort(p.centre.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	stamp, err := strconv.ParseInt(got.Get("version"), 10, 64)
	if err != nil || time.Since(time.UnixMilli(stamp)) > time.Minute {
		t.Errorf("time stamp %q", got.Get("version"))
	}
	if got.Get("app") != "orders" || got.Get("app_type") != "0" || got.Get("port") != port || got.Get("ip") != "127.0.0.1" || got.Get("v") != "1.8.9-rulewire" || got.Get("hostname") == "" {
		t.Errorf("beat %v", got)
	}
	// The port is bound when the first beat comes, and it is repeated.
	if status, text := p.get("/version"); status != 200 || text != got.Get("v") {
		t.Errorf("%d %s", status, text)
	}
	f.beat(t)
	f.beat(t)
	until(t, "the state is known", func() bool {
		h := p.centre.Status().Heartbeat
		return h.Beats >= 2 && h.LastError == nil && h.Dashboard == f.URL && h.IP == netip.MustParseAddr("127.0.0.1") && !h.LastBeat.IsZero()
	})
	p.close()
	for len(f.beats) > 0 {
		<-f.beats
	}
	select {
	case <-f.beats:
		t.Error("a beat after Close")
	default:
	}
}

func names(body string) string {
	var all []string
	for part := range strings.SplitSeq(body, "&") {
		name, _, _ := strings.Cut(part, "=")
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func TestBeatsGoToTheNextDashboardWhereOneFails(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := dead.Addr().String()
	dead.Close()
	broken, good := newFake(t), newFake(t)
	broken.say(500, "")
	start(t, datasourcetest.NewStore(), command.Dashboards(nobody+", "+broken.host()+","+good.URL), command.HeartbeatPeriod(20*time.Millisecond))
	good.beat(t)
	broken.beat(t)
	good.beat(t)
	good.beat(t)
	if n := len(broken.beats); n != 0 {
		t.Errorf("%d beats more to the broken one", n)
	}
	good.say(503, "")
	broken.say(200, `{"success":true,"code":0,"msg":"success","data":null}`)
	broken.beat(t)
}

// Java's senders look at the status only, so that a refusal passes unnoticed.
func TestARefusalIsLoggedOnceForEachReason(t *testing.T) {
	f := newFake(t)
	f.say(200, `{"success":false,"code":-1,"msg":"your port not set yet","data":null}`)
	var log syncBuffer
	p := start(t, datasourcetest.NewStore(), command.Dashboards(f.URL), command.HeartbeatPeriod(10*time.Millisecond), command.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	for range 4 {
		f.beat(t)
	}
	if s := p.centre.Status().Heartbeat; s.LastError == nil || !strings.Contains(s.LastError.Error(), "your port not set yet") || s.Beats != 0 {
		t.Errorf("state %+v", s)
	}
	f.say(200, "<html>Please sign in</html>")
	until(t, "another reason", func() bool { return log.count("not a dashboard's") > 0 })
	f.say(200, `{"success":true,"code":0,"msg":"success","data":null}`)
	until(t, "taken", func() bool { return log.count("heartbeat taken") > 0 })
	if log.count("your port not set yet") != 1 || log.count("not a dashboard's") != 1 || log.count("heartbeat taken") != 1 {
		t.Errorf("log:\n%s", log.text())
	}
}

// The text of such an error has the local port in it.
func TestADashboardThatResetsEveryConnectionIsLoggedWithEachBeat(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	beats := make(chan struct{})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(beats)
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset
			conn.Close()
			beats <- struct{}{}
		}
	}()
	var log syncBuffer
	p := start(t, datasourcetest.NewStore(), command.Dashboards(l.Addr().String()), command.HeartbeatPeriod(5*time.Millisecond), command.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	for range 5 {
		<-beats
	}
	until(t, "the failures are counted", func() bool { return p.centre.Status().Heartbeat.Failures >= 4 })
	l.Close()
	for range beats { // until the listener has ended
	}
	p.close()
	// Once nobody listens any more, the reason is another one.
	if n := log.count("connection reset"); n != 1 {
		t.Errorf("%d records:\n%s", n, log.text())
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) count(text string) int { return strings.Count(s.text(), text) }

func TestTheAddressToCallBackCanBeChosen(t *testing.T) {
	f := newFake(t)
	start(t, datasourcetest.NewStore(), command.Dashboards(f.URL), command.HeartbeatIP(netip.MustParseAddr("10.1.2.3")), command.App("gate", command.AppGateway), command.Version("1.8.8"))
	if b := f.beat(t); b.Get("ip") != "10.1.2.3" || b.Get("app") != "gate" || b.Get("app_type") != "1" || b.Get("v") != "1.8.8" {
		t.Errorf("beat %v", b)
	}
	// Listening on all networks: the way to the dashboard says which.
	g := newFake(t)
	start(t, datasourcetest.NewStore(), command.Dashboards(g.URL), command.Address("0.0.0.0:0"))
	if b := g.beat(t); b.Get("ip") != "127.0.0.1" {
		t.Errorf("beat %v", b)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, o := range map[string]command.Option{
		"nil":             nil,
		"address":         command.Address("8719"),
		"app":             command.App(" ", command.AppCommon),
		"long app":        command.App(strings.Repeat("x", 257), command.AppCommon),
		"version":         command.Version(""),
		"body":            command.MaxBody(0),
		"connections":     command.MaxConns(0),
		"edit time-out":   command.EditTimeout(0),
		"token":           command.Token("x", ""),
		"token's blanks":  command.Token("x", "a b"),
		"TLS":             command.TLS(nil),
		"peers":           command.Peers(netip.Prefix{}),
		"command":         command.Handle(command.Command{Name: "x"}),
		"command's name":  command.Handle(command.Command{Name: "/x", Run: func(context.Context, *command.Request) (command.Answer, error) { return command.Answer{}, nil }}),
		"period":          command.HeartbeatPeriod(0),
		"IP":              command.HeartbeatIP(netip.Addr{}),
		"client":          command.HeartbeatClient(nil),
		"registry":        command.Registry(nil),
		"dashboard":       command.Dashboards("ftp://x"),
		"dashboard path":  command.Dashboards("http://x/y"),
		"dashboard port":  command.Dashboards("x:99999"),
		"dashboard login": command.Dashboards("http://u:p@x"),
	} {
		if _, err := command.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := command.New(command.Dashboards(" ", "a, https://b ,c:1")); err != nil {
		t.Error(err)
	}
}
