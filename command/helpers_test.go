package command_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/command"
	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is a service: readables and writables on a store, rule managers, and a command centre.
type process struct {
	t      *testing.T
	store  *datasourcetest.Store
	url    string
	centre *command.Centre
	agent  string // User-Agent of the requests
	audit  *audit

	flow      *rule.Manager[rule.Flow]
	degrade   *rule.Manager[rule.Degrade]
	system    *rule.Manager[rule.System]
	authority *rule.Manager[rule.Authority]
	paramFlow *rule.Manager[rule.ParamFlow]

	close func()
}

type audit struct {
	mu      sync.Mutex
	records []writable.Record
}

func (a *audit) Audit(_ context.Context, r writable.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.records = append(a.records, r)
}

func (a *audit) last() writable.Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.records) == 0 {
		return writable.Record{}
	}
	return a.records[len(a.records)-1]
}

// keys of the documents in the store.
const (
	flowKey      = "/app/flow"
	degradeKey   = "/app/degrade"
	systemKey    = "/app/system"
	authorityKey = "/app/authority"
	paramFlowKey = "/app/param-flow"
)

// start makes a process on store with a command port of its own. Without a sink edits stay in memory.
func start(t *testing.T, store *datasourcetest.Store, opts ...command.Option) *process {
	t.Helper()
	return launch(t, store, true, opts...)
}

func launch(t *testing.T, store *datasourcetest.Store, sinks bool, opts ...command.Option) *process {
	t.Helper()
	p := &process{t: t, store: store, audit: &audit{}, agent: "Apache-HttpAsyncClient/4.1.5 (Java/17.0.15)"}
	g := &writable.Registry{}
	var closes []func() error
	p.flow = join(p, g, flowKey, sinks, &closes, rule.NewManager[rule.Flow]())
	p.degrade = join(p, g, degradeKey, sinks, &closes, rule.NewManager[rule.Degrade]())
	p.system = join(p, g, systemKey, sinks, &closes, rule.NewManager[rule.System]())
	p.authority = join(p, g, authorityKey, sinks, &closes, rule.NewManager[rule.Authority]())
	p.paramFlow = join(p, g, paramFlowKey, sinks, &closes, rule.NewManager[rule.ParamFlow]())
	var err error
	p.centre, err = command.New(append([]command.Option{command.Registry(g), command.Address("127.0.0.1:0"), command.App("orders", command.AppCommon),
		command.Logger(nil)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.centre.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.url = "http://" + p.centre.Addr().String()
	p.close = sync.OnceFunc(func() {
		if err := p.centre.Close(); err != nil {
			t.Error(err)
		}
		for _, c := range closes {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(p.close)
	return p
}

// in gives the process to a subtest.
func (p *process) in(t *testing.T) *process {
	copied := *p
	copied.t = t
	return &copied
}

func join[T any](p *process, g *writable.Registry, key string, sinks bool, closes *[]func() error, m *rule.Manager[T]) *rule.Manager[T] {
	p.t.Helper()
	r, err := datasource.New(p.store.Source(key, datasourcetest.Pushed), converter.JSON[T](), m,
		datasource.Logger(nil), datasource.OnStart(datasource.Empty))
	if err != nil {
		p.t.Fatal(err)
	}
	pair := writable.Pair[T]{Readable: r}
	if !sinks {
		if pair.Writable, err = writable.NewVolatile(r, writable.Logger(nil)); err != nil {
			p.t.Fatal(err)
		}
	} else {
		pair.Writable, err = writable.New(p.store.Sink(key, datasourcetest.Pushed), converter.JSON[T](), writable.Readable(r),
			writable.Logger(nil), writable.Audit(p.audit))
		if err != nil {
			p.t.Fatal(err)
		}
	}
	if err := writable.Register(g, "", pair); err != nil {
		p.t.Fatal(err)
	}
	if err := r.Start(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	*closes = append(*closes, r.Close)
	return m
}

// client is one that leaves nothing running.
func (p *process) do(req *http.Request) (int, string) {
	p.t.Helper()
	if p.agent != "" && req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", p.agent)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (p *process) get(path string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.do(req)
}

// post sends a form as the Dashboard does.
func (p *process) post(path string, form ...string) (int, string) {
	p.t.Helper()
	v := url.Values{}
	for i := 0; i < len(form); i += 2 {
		v.Set(form[i], form[i+1])
	}
	return p.raw(path, "application/x-www-form-urlencoded; charset=UTF-8", v.Encode())
}

func (p *process) raw(path, kind, body string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	return p.do(req)
}

// set pushes rules and wants success.
func (p *process) set(kind, data string) {
	p.t.Helper()
	if status, text := p.push(kind, data); status != 200 || text != "success" {
		p.t.Fatalf("set %s: %d %s", kind, status, text)
	}
}

func (p *process) push(kind, data string) (int, string) {
	p.t.Helper()
	if kind == "param-flow" {
		return p.post("/setParamFlowRules", "data", data)
	}
	return p.post("/setRules", "type", kind, "data", data)
}

func (p *process) read(kind string) string {
	p.t.Helper()
	path := "/getRules?type=" + kind
	if kind == "param-flow" {
		path = "/getParamFlowRules"
	}
	status, text := p.get(path)
	if status != 200 {
		p.t.Fatalf("read %s: %d %s", kind, status, text)
	}
	return text
}

// stored gives the document in the store.
func (p *process) stored(key string) string {
	p.t.Helper()
	doc, err := p.store.Sink(key, datasourcetest.Pushed).Read(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(doc.Data)
}

// flows shows flow rules as "a=5 b=6".
func flows(t *testing.T, doc string) string {
	t.Helper()
	if doc == "" {
		return ""
	}
	dec, err := converter.JSON[rule.Flow]().Decode([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, r := range dec.Rules {
		n, err := json.Marshal(r.Count)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, r.Resource+"="+string(n))
	}
	return strings.Join(parts, " ")
}

// flowDoc makes a document of "a=5 b=6", as the Dashboard pushes it.
func flowDoc(text string) string {
	var parts []string
	for part := range strings.FieldsSeq(text) {
		name, count, _ := strings.Cut(part, "=")
		quoted, _ := json.Marshal(name)
		parts = append(parts, `{"clusterMode":false,"controlBehavior":0,"count":`+count+`.0,"grade":1,"limitApp":"default","maxQueueingTimeMs":500,"regex":false,"resource":`+
			string(quoted)+`,"strategy":0,"warmUpPeriodSec":10}`)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// until waits for a condition that comes from outside.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not within 10 s: " + what)
		}
	}
}

// exchange sends bytes as they are and reads one answer.
func exchange(t *testing.T, addr string, request []byte) (*http.Response, string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// recorded gives the requests of a sample file, as they went over the wire.
func recorded(t *testing.T, name string) [][]byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for part := range bytes.SplitSeq(data, []byte("-----\n")) {
		if len(bytes.TrimSpace(part)) == 0 {
			continue
		}
		// Only the line end before the next separator was added by the recorder.
		all = append(all, bytes.TrimSuffix(part, []byte("\n")))
	}
	return all
}
