package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The core library's collectors run for the life of the process; it has no way to stop them.
		goleak.IgnoreAnyFunction("github.com/alibaba/sentinel-golang/core/system_metric.InitLoadCollector.func1.1"),
		goleak.IgnoreAnyFunction("github.com/alibaba/sentinel-golang/core/system_metric.InitCpuCollector.func1.1"),
		goleak.IgnoreAnyFunction("github.com/alibaba/sentinel-golang/core/system_metric.InitMemoryCollector.func1.1"),
	)
}

// service is one that runs on a folder of its own.
type service struct {
	t   *testing.T
	dir string
	url string

	mu    sync.Mutex
	lines []string
	more  chan struct{}
	stop  func() // safe twice
}

func start(t *testing.T, files map[string]string) *service {
	t.Helper()
	dir := t.TempDir()
	s := &service{t: t, dir: dir}
	for name, text := range files {
		s.write(name, text)
	}
	return startIn(t, dir, port{})
}

// startIn runs a service on dir until stop, or until the test ends.
func startIn(t *testing.T, dir string, cmd port) *service {
	t.Helper()
	s := &service{t: t, dir: dir, more: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, dir, "127.0.0.1:0", cmd, w); w.Close() }()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for sc := bufio.NewScanner(r); sc.Scan(); {
			s.mu.Lock()
			s.lines = append(s.lines, sc.Text())
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
		}
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-read
		http.DefaultClient.CloseIdleConnections()
	})
	t.Cleanup(s.stop)
	s.url = strings.TrimPrefix(s.line("listening on "), "listening on ")
	if got := s.line("rules in /"); got != "rules in "+s.dir {
		t.Errorf("got %q", got)
	}
	return s
}

// line waits for a line of output that has text in it.
func (s *service) line(text string) string {
	s.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		for _, l := range s.lines {
			if strings.Contains(l, text) {
				s.mu.Unlock()
				return l
			}
		}
		s.mu.Unlock()
		select {
		case <-s.more:
		case <-deadline:
			s.t.Fatalf("no line with %q in\n%s", text, strings.Join(s.lines, "\n"))
		}
	}
}

func (s *service) write(name, text string) {
	s.t.Helper()
	tmp := filepath.Join(s.dir, "."+name+".tmp")
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) get(path, accept string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (s *service) kind(name string) map[string]any {
	s.t.Helper()
	_, body := s.get("/rules", "application/json")
	var all map[string]map[string]any
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		s.t.Fatal(err)
	}
	return all[name]
}

// passes counts how many of n calls pass.
func (s *service) passes(path string, n int) (passed int, last string) {
	for range n {
		code, body := s.get(path, "*/*")
		switch code {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
			last = body
		default:
			s.t.Fatalf("%s: %d %s", path, code, body)
		}
	}
	return passed, last
}

// faults: F054 F092 F173
func TestEditingAFileChangesWhatCurlGets(t *testing.T) {
	s := start(t, map[string]string{"flow.json": `[{"resource":"/order/create","count":1000}]`})
	if n, _ := s.passes("/call/%2Forder%2Fcreate", 20); n != 20 {
		t.Fatalf("%d of 20 calls passed under a limit of 1000", n)
	}
	s.write("flow.json", "\ufeff"+`[{"resource":"/order/create","count":0}]`)
	s.line("count 1000 → 0")
	n, body := s.passes("/call//order/create", 5)
	if n != 0 || !strings.Contains(body, `"kind": "flow"`) || !strings.Contains(body, `"threshold": 0`) {
		t.Fatalf("%d passed; %s", n, body)
	}
	if code, body := s.get("/rules/flow", "*/*"); code != 200 || !strings.HasPrefix(body, `[{`) || !strings.Contains(body, `"count":0`) {
		t.Errorf("document: %d %s", code, body)
	}

	// Breaking the file changes nothing but the status.
	before := s.kind("flow")
	s.write("flow.json", "[\n  {\"resource\": \"/order/create\", \"count\": \"many\"}\n]")
	s.line("refused (decode)")
	after := s.kind("flow")
	e, _ := after["last_error"].(map[string]any)
	if after["state"] != "degraded" || after["revision"] != before["revision"] || e["line"] != 2.0 || e["pointer"] != "/0/count" || e["column"] == nil {
		t.Errorf("status: %v", after)
	}
	if refused, _ := after["refused"].(map[string]any); refused["decode"] != 1.0 {
		t.Errorf("refused: %v", after["refused"])
	}
	if n, _ := s.passes("/call//order/create", 3); n != 0 {
		t.Error("the rule is gone")
	}

	s.write("flow.json", `[]`)
	s.line("refused (empty_list)")
	if p, _ := s.kind("flow")["pending"].(map[string]any); p["removed"] != 1.0 {
		t.Errorf("pending: %v", p)
	}
	if err := os.Remove(filepath.Join(s.dir, "flow.json")); err != nil {
		t.Fatal(err)
	}
	s.line("refused (missing)")
	s.write("flow.json", `[{"resource":"/order/create","count":500}]`)
	s.line("count 0 → 500")
	if k := s.kind("flow"); k["state"] != "live" || k["last_error"] != nil {
		t.Errorf("status: %v", k)
	}
}

func TestEachKindRefusesInItsOwnWay(t *testing.T) {
	s := start(t, map[string]string{
		"isolation.json":  `[{"resource":"report","threshold":1}]`,
		"degrade.json":    `[{"resource":"stock","grade":1,"count":0.5,"timeWindow":60,"minRequestAmount":2,"statIntervalMs":60000}]`,
		"param-flow.json": `[{"resource":"user","paramIdx":0,"count":1,"durationInSec":60,"paramFlowItemList":[{"object":"vip","classType":"String","count":50},{"object":"7","classType":"int","count":50}]}]`,
		"authority.json":  `[{"resource":"x","limitApp":"a,b"}]`,
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		// The calls below may be in flight just then: again, until this one is in.
		for code := 0; code != http.StatusOK; {
			code, _ = s.get("/call/report?sleep=5s", "*/*")
		}
	})
	deadline := time.Now().Add(30 * time.Second)
	for {
		if n, body := s.passes("/call/report", 1); n == 0 {
			if !strings.Contains(body, `"kind": "isolation"`) {
				t.Errorf("got %s", body)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("never two at a time")
		}
	}
	wg.Wait()

	for range 2 {
		if code, _ := s.get("/call/stock?fail=1", "*/*"); code != http.StatusInternalServerError {
			t.Errorf("a failing call: %d", code)
		}
	}
	if n, body := s.passes("/call/stock", 1); n != 0 || !strings.Contains(body, `"kind": "degrade"`) {
		t.Errorf("after two failures: %d %s", n, body)
	}

	if n, body := s.passes("/call/user?arg=bob", 3); n != 1 || !strings.Contains(body, `"kind": "param-flow"`) {
		t.Errorf("bob: %d %s", n, body)
	}
	if n, _ := s.passes("/call/user?arg=vip", 5); n != 5 {
		t.Errorf("vip: %d", n)
	}
	if n, _ := s.passes("/call/user?arg=7", 5); n != 5 {
		t.Errorf("7: %d", n)
	}

	if k := s.kind("authority"); k["state"] != "degraded" || k["cause"] != "invalid" {
		t.Errorf("authority rules can't be enforced and are refused by name: %v", k)
	}
	if k := s.kind("system"); k["cause"] != "missing" || k["rules"] != 0.0 || k["state"] != "live" || k["last_error"] != nil {
		t.Errorf("an absent file: %v", k)
	}
	for path, code := range map[string]int{
		"/rules/nonsense": 404, "/call/": 404, "/nowhere": 404, "/call/x?sleep=1h": 400, "/rules/system": 200,
	} {
		if got, body := s.get(path, "*/*"); got != code {
			t.Errorf("%s: %d %s", path, got, body)
		}
	}
	if _, body := s.get("/rules/system", "*/*"); body != "[]\n" {
		t.Errorf("no rules: %q", body)
	}
	if code, body := s.get("/rules", "text/html,*/*"); code != 200 || !strings.Contains(body, "<h1>Rules in force</h1>") {
		t.Errorf("page: %d", code)
	}
}

func TestDefaultFolderIsMadeWithSamplesOnFirstUseOnly(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := prepare("")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "flow.json")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := prepare(""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("a file that the user removed came back")
	}
}
