package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// command sends a form to the command port.
func (s *service) command(path string, form url.Values) (int, string) {
	s.t.Helper()
	resp, err := http.PostForm(strings.TrimPrefix(s.line("command port http://"), "command port ")+path, form)
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

// faults: F157 F164
func TestTheDashboardsEditsLandInTheFilesAndAreThereAfterARestart(t *testing.T) {
	beats := make(chan string, 100)
	dashboard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case beats <- r.FormValue("app") + " " + r.FormValue("port"):
		default:
		}
		fmt.Fprint(w, `{"success":true,"code":0,"msg":"success","data":null}`)
	}))
	t.Cleanup(dashboard.Close)
	rules := map[string]string{
		"flow":      `[{"resource":"hello","count":1},{"resource":"two","count":2,"grade":0}]`,
		"degrade":   `[{"resource":"r","grade":0,"count":200,"timeWindow":10}]`,
		"system":    `[{"qps":5000}]`,
		"authority": `[{"resource":"r","limitApp":"a,b"}]`,
	}
	dir := t.TempDir()
	first := startIn(t, dir, port{"127.0.0.1:0", dashboard.URL})
	for kind, data := range rules {
		if status, text := first.command("/setRules", url.Values{"type": {kind}, "data": {data}}); status != 200 || text != "success" {
			t.Errorf("%s: %d %s", kind, status, text)
		}
	}
	if status, text := first.command("/setParamFlowRules", url.Values{"data": {`[{"resource":"r","paramIdx":0,"count":3}]`}}); status != 200 || text != "success" {
		t.Errorf("param-flow: %d %s", status, text)
	}
	command := strings.TrimPrefix(first.line("command port http://"), "command port http://127.0.0.1:")
	if beat := <-beats; beat != "rulewire-example "+command {
		t.Errorf("beat %q, port %s", beat, command)
	}
	if passed, _ := first.passes("/call/hello", 5); passed == 5 {
		t.Error("the edit is not in force")
	}
	before := map[string]string{}
	for _, kind := range []string{"flow", "degrade", "system", "authority", "param-flow"} {
		data, err := os.ReadFile(filepath.Join(dir, kind+".json"))
		if err != nil {
			t.Fatal(err)
		}
		before[kind] = string(data)
	}
	// A push that forgot a rule too many is shown for an operator.
	if status, _ := first.command("/setRules", url.Values{"type": {"flow"}, "data": {`[{"resource":"x","count":1}]`}}); status != 400 {
		t.Errorf("status %d", status)
	}
	flow := first.kind("flow")
	pending, _ := flow["pending"].(map[string]any)
	if pending == nil || pending["cause"] != "stale_push" || pending["removed"] != 2.0 || flow["refused"].(map[string]any)["stale_push"] != 1.0 {
		t.Errorf("flow %v", flow)
	}
	if _, page := first.get("/rules", "text/html"); !strings.Contains(page, "stale_push") || !strings.Contains(page, "acceptRules") {
		t.Error("the page does not show it")
	}
	first.stop()
	again := startIn(t, dir, port{"127.0.0.1:0", ""})
	for kind, text := range before {
		data, err := os.ReadFile(filepath.Join(dir, kind+".json"))
		if err != nil || string(data) != text {
			t.Errorf("%s: %s, %v", kind, data, err)
		}
		if n := again.kind(kind)["rules"]; n == 0.0 {
			t.Errorf("%s: no rules after the restart", kind)
		}
	}
	if _, text := again.command("/getRules", url.Values{"type": {"authority"}}); !json.Valid([]byte(text)) || !strings.Contains(text, "a,b") {
		t.Errorf("authority %s", text)
	}
}
