package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/rulewire/rulewire/command"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
)

// faults: F161
func TestEveryRecordedRequestOfTheDashboardGetsAnAnswerThatItAccepts(t *testing.T) {
	p := start(t, datasourcetest.NewStore())
	accepts := map[string]func(body string) error{
		"/setRules":            exactly("success"),
		"/setParamFlowRules":   exactly("success"),
		"/gateway/updateRules": exactly("success"),
		"/getRules":            array(1),
		"/getParamFlowRules":   array(1),
		"/jsonTree":            array(2), // [] breaks the page
		"/clusterNode":         array(0),
		"/getClusterMode": func(body string) error {
			var v struct {
				Mode                             *int
				LastModified                     *int64
				ClientAvailable, ServerAvailable *bool
			}
			if err := json.Unmarshal([]byte(body), &v); err != nil || v.Mode == nil || *v.Mode != -1 || *v.LastModified != -1 || *v.ClientAvailable || *v.ServerAvailable {
				return fmt.Errorf("got %s, %v", body, err)
			}
			return nil
		},
	}
	requests := recorded(t, "dashboard-requests-v1.8.9.txt")
	if len(requests) != 9 {
		t.Fatalf("%d requests", len(requests))
	}
	for _, request := range requests {
		line, _, _ := strings.Cut(string(request), "\r\n")
		resp, body := exchange(t, p.centre.Addr().String(), request)
		u, err := url.ParseRequestURI(strings.Fields(line)[1])
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 200 {
			t.Errorf("%s: %s %s", line, resp.Status, body)
		}
		if err := accepts[u.Path](body); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if got := flows(t, p.stored(flowKey)); got != "GET:/a b+c?x=1%2中=5" {
		t.Errorf("stored %q", got)
	}
	if got := p.stored(degradeKey); got != "[]" {
		t.Errorf("stored %q", got)
	}
}

func exactly(want string) func(string) error {
	return func(body string) error {
		if body != want {
			return fmt.Errorf("got %q", body)
		}
		return nil
	}
}

func array(least int) func(string) error {
	return func(body string) error {
		var v []map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &v); err != nil || v == nil || len(v) < least {
			return fmt.Errorf("got %s, %v", body, err)
		}
		return nil
	}
}

// faults: F155 F161
func TestAnswersHaveTheJavaClientsWords(t *testing.T) {
	p := start(t, datasourcetest.NewStore())
	p.set("flow", flowDoc("a=5"))
	form := "application/x-www-form-urlencoded"
	big := make([]byte, command.DefaultMaxBody+1)
	for _, tc := range []struct {
		name, path, kind, body string
		status                 int
		want                   string
	}{
		{"no command", "/", "", "", 400, "Invalid command"},
		{"unknown command", "/nope?a=b", "", "", 400, "Unknown command `nope`"},
		{"unknown command with slashes", "/cluster/server/info", "", "", 400, "Unknown command `cluster/server/info`"},
		{"command in another case", "/GETRULES", "", "", 400, "Unknown command `GETRULES`"},
		{"unknown type", "/getRules?type=nope", "", "", 400, "invalid type"},
		{"no type", "/getRules", "", "", 400, "invalid type"},
		{"type in another case", "/getRules?type=DEGRADE", "", "", 200, "[]"},
		{"isolation, which only Go has", "/getRules?type=isolation", "", "", 200, "[]"},
		{"set without data", "/setRules", form, "type=flow", 400, "Bad data"},
		{"set with empty data", "/setRules", form, "type=flow&data=", 400, "Bad data"},
		{"set without a type", "/setRules", form, "data=%5B%5D", 400, "invalid type"},
		{"set by query without data", "/setRules?type=flow", "", "", 400, "Bad data"},
		{"hot parameters without data", "/setParamFlowRules", form, "x=1", 400, "Bad data"},
		{"gateway rules without data", "/gateway/updateRules", form, "x=1", 400, "Bad data"},
		{"gateway rules", "/gateway/updateRules", form, "data=" + url.QueryEscape(`[{"resource":"r"}]`), 400, "gateway rules are not supported by this client"},
		{"no gateway rules", "/gateway/updateApiDefinitions", form, "data=%5B+%5D", 200, "success"},
		{"get gateway rules", "/gateway/getRules", "", "", 200, "[]"},
		{"get API groups", "/gateway/getApiDefinitions", "", "", 200, "[]"},
		{"another content type", "/setRules", "application/json", "[]", 415, "Only form-encoded post request is supported"},
		{"multipart", "/setRules", "multipart/form-data; boundary=x", "--x--", 415, "Only form-encoded post request is supported"},
		{"no body", "/setRules", form, "", 411, "No legal Content-Length"},
		{"no content type", "/setRules?type=flow", "", "data=" + url.QueryEscape(flowDoc("a=5")), 200, "success"},
		{"the document itself as the body", "/setRules?type=flow", "", flowDoc("a=5"), 200, "success"},
		{"set by query", "/setRules?type=flow&data=" + url.QueryEscape(flowDoc("a=5")), "", "", 200, "success"},
		{"form over query, last over first", "/setRules?type=degrade", form, "type=x&type=flow&data=" + url.QueryEscape(flowDoc("a=5")), 200, "success"},
		{"too large", "/setRules", form, string(big), 413, "the body has 4194305 bytes, at most 4194304 are taken"},
		{"bad encoding", "/setRules", form, "type=flow&data=%zz", 400, `parameter "data" is not encoded right: invalid URL escape "%zz"`},
		{"no cluster", "/setClusterMode?mode=0", "", "", 400, "cluster mode is not supported by this client"},
		{"switch", "/getSwitch", "", "", 200, "Sentinel switch value: true"},
		{"switch on", "/setSwitch?value=true", "", "", 200, "Sentinel set switch value: true"},
		{"switch off", "/setSwitch?value=false", "", "", 400, "the switch can't be turned off: this client has none"},
		{"version", "/version", "", "", 200, "1.8.9-rulewire"},
		{"node without an id", "/clusterNodeById", "", "", 400, "Invalid parameter: empty clusterNode name"},
		{"table without an id", "/cnode", "", "", 400, "Invalid parameter: empty clusterNode name"},
		{"unknown node", "/clusterNodeById?id=x", "", "", 200, "{}"},
		{"unknown origin", "/origin?id=x", "", "", 200, "Not find cNode with id x"},
		{"metric without a start", "/metric", "", "", 200, ""},
		{"metric of nothing", "/metric?startTime=0&endTime=1&refetch=false", "", "", 200, ""},
		{"metric with a bad start", "/metric?startTime=x", "", "", 400, "startTime: invalid syntax"},
		{"status", "/systemStatus", "", "", 200, `{"rqps":0,"qps":0,"b":0,"r":0,"t":0}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := p.in(t)
			var status int
			var got string
			if tc.body == "" && tc.kind == "" {
				status, got = p.get(tc.path)
			} else {
				status, got = p.raw(tc.path, tc.kind, tc.body)
			}
			if status != tc.status || got != tc.want {
				t.Errorf("got %d %q", status, got)
			}
			if got := flows(t, p.stored(flowKey)); got != "a=5" {
				t.Errorf("stored %q", got)
			}
		})
	}
	if status, text := p.post("/setRules", "type", "flow"); status != 400 || text != "Bad data" {
		t.Errorf("got %d %q", status, text)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, p.url+"/setRules", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := p.do(req); status != 405 {
		t.Errorf("DELETE: %d", status)
	}
}

func TestTheListOfCommandsIsComplete(t *testing.T) {
	p := start(t, datasourcetest.NewStore(), command.Handle(command.Command{Name: "mine/too", Description: "mine", Run: func(context.Context, *command.Request) (command.Answer, error) {
		return command.Text("hello"), nil
	}}))
	_, text := p.get("/api")
	var list []struct{ URL, Desc string }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	have := make(map[string]bool)
	for _, c := range list {
		if c.Desc == "" {
			t.Errorf("%s has no description", c.URL)
		}
		have[c.URL] = true
	}
	for _, name := range strings.Fields("version api basicInfo getRules setRules getParamFlowRules setParamFlowRules metric jsonTree tree clusterNode clusterNodeById " +
		"cnode origin getClusterMode systemStatus getSwitch setSwitch mine/too gateway/getRules gateway/updateRules gateway/getApiDefinitions gateway/updateApiDefinitions") {
		if !have["/"+name] {
			t.Errorf("no command %s", name)
		}
	}
	if _, text := p.get("/mine/too"); text != "hello" {
		t.Errorf("got %q", text)
	}
	_, text = p.get("/basicInfo")
	var info map[string]string
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		t.Fatal(err)
	}
	if host, err := os.Hostname(); err == nil && info["machine"] != host || info["ip"] != "127.0.0.1" {
		t.Errorf("got %v", info)
	}
}

func TestACommandOfTheUsersOwnMayFailAndPanic(t *testing.T) {
	run := func(err error, boom bool) func(context.Context, *command.Request) (command.Answer, error) {
		return func(_ context.Context, r *command.Request) (command.Answer, error) {
			if boom {
				panic(r.Param("x"))
			}
			return command.Text("x"), err
		}
	}
	p := start(t, datasourcetest.NewStore(),
		command.Handle(command.Command{Name: "fails", Run: run(errors.New("no luck"), false)}),
		command.Handle(command.Command{Name: "gone", Run: run(&command.StatusError{Status: 410, Err: errors.New("gone")}, false)}),
		command.Handle(command.Command{Name: "panics", Run: run(nil, true)}))
	for path, want := range map[string]string{"/fails": "400 no luck", "/gone": "410 gone", "/panics?x=1": "500 Command server error"} {
		if status, text := p.get(path); fmt.Sprint(status, " ", text) != want {
			t.Errorf("%s: got %d %s", path, status, text)
		}
	}
}
