package apollotest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/apollo/apollotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apolloServer is what the protocol is tried on: the stand-in, or a real one.
type apolloServer struct {
	*testing.T
	config, admin, portal string
	app, env, user, token string
	http                  *http.Client
	space                 func(name, format string) (name2 string, edit func(key, value string) error, remove func(key string) error, release func() error)
}

// The same expectations for the stand-in and for a real Apollo: a difference is a fault of the stand-in.
func TestProtocol(t *testing.T) {
	for name, try := range map[string]func(*apolloServer){
		"configs": configs, "notifications": notifications, "coalescing": coalescing, "held": held, "openAPI": openAPI, "adminAPI": adminAPI, "gray": grayReleases,
	} {
		t.Run("StandIn/"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { try(standIn(t)) })
		})
		t.Run("Real/"+name, func(t *testing.T) { try(realOne(t)) })
	}
}

func standIn(t *testing.T) *apolloServer {
	s := apollotest.NewServer()
	t.Cleanup(s.Close)
	return &apolloServer{
		T: t, config: apollotest.ConfigURL, admin: apollotest.AdminURL, portal: apollotest.PortalURL,
		app: "orders", env: apollotest.Env, user: apollotest.Editor, token: s.Token(), http: s.Link().Client(),
		space: func(name, format string) (string, func(string, string) error, func(string) error, func() error) {
			if format != "properties" {
				name += "." + format
			}
			n := s.Namespace("orders", "default", name)
			return name, func(k, v string) error { n.Edit(k, v, apollotest.Editor); return nil },
				func(k string) error { n.Remove(k); return nil }, func() error { n.Release(); return nil }
		},
	}
}

func realOne(t *testing.T) *apolloServer {
	r := apollotest.Open(t)
	link := apollotest.Dial(nil)
	t.Cleanup(link.Close)
	return &apolloServer{
		T: t, config: r.Config, admin: r.Admin, portal: r.Portal, app: r.App, env: r.Env, user: r.User, token: r.Token, http: link.Client(),
		space: func(name, format string) (string, func(string, string) error, func(string) error, func() error) {
			n, err := r.Namespace(fmt.Sprintf("%s%x", name, time.Now().UnixNano()), format)
			if err != nil {
				t.Fatal(err)
			}
			return n.Name(), func(k, v string) error { return n.Edit(k, v, r.User) }, n.Remove, n.Release
		},
	}
}

type answer struct {
	status int
	body   string
	err    error
}

func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
}

func (s *apolloServer) do(within time.Duration, method, u, body string, header ...string) answer {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := s.http.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(b), err}
}

func (s *apolloServer) get(u string) answer { s.Helper(); return s.do(10*time.Second, "GET", u, "") }

// want checks status and, where parts are given, that the body has them.
func (s *apolloServer) want(what string, a answer, status int, parts ...string) {
	s.Helper()
	if a.err != nil || a.status != status {
		s.Fatalf("%s: %d %v %.200s, want %d", what, a.status, a.err, a.body, status)
	}
	for _, p := range parts {
		if !strings.Contains(a.body, p) {
			s.Errorf("%s: %s lacks %s", what, a.body, p)
		}
	}
	if len(parts) == 0 && status == http.StatusNotModified && a.body != "" {
		s.Errorf("%s: a body: %s", what, a.body)
	}
}

func (s *apolloServer) must(errs ...error) {
	s.Helper()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
}

func (s *apolloServer) configURL(app, name, query string) string {
	return s.config + "/configs/" + app + "/default/" + url.PathEscape(name) + "?" + query
}

type configBody struct {
	AppID          string            `json:"appId"`
	Cluster        string            `json:"cluster"`
	Name           string            `json:"namespaceName"`
	Configurations map[string]string `json:"configurations"`
	Key            string            `json:"releaseKey"`
}

func configs(s *apolloServer) {
	name, edit, remove, release := s.space("conf", "properties")
	s.want("unknown app", s.get(s.configURL("no-such-app", name, "")), 404, `"status":404`, `"path":"/configs/no-such-app/default/`)
	s.want("unknown namespace", s.get(s.configURL(s.app, "nosuch", "")), 404, `"status":404`)
	s.want("never released", s.get(s.configURL(s.app, name, "")), 404, `"status":404`)
	s.must(edit("a", "1"), edit("zero", ""))
	s.want("edited, not released", s.get(s.configURL(s.app, name, "")), 404)
	s.must(release())
	a := s.get(s.configURL(s.app, name, ""))
	s.want("released", a, 200)
	var first configBody
	a.into(s, &first)
	if first.AppID != s.app || first.Cluster != "default" || first.Name != name || first.Key == "" ||
		fmt.Sprint(first.Configurations) != "map[a:1 zero:]" {
		s.Errorf("%+v", first)
	}
	s.want("another cluster falls back", s.get(strings.Replace(s.configURL(s.app, name, ""), "/default/", "/elsewhere/", 1)), 200, `"cluster":"default"`)
	s.want("properties suffix", s.get(s.configURL(s.app, name+".properties", "")), 200, first.Key)
	s.want("same key", s.get(s.configURL(s.app, name, "releaseKey="+first.Key)), 304)
	s.want("other key", s.get(s.configURL(s.app, name, "releaseKey=x")), 200)
	s.must(edit("a", "2"))
	s.want("edited again, not released", s.get(s.configURL(s.app, name, "releaseKey="+first.Key)), 304)
	s.must(release())
	a = s.get(s.configURL(s.app, name, "releaseKey="+first.Key))
	s.want("read right after the release", a, 200, `"a":"2"`)
	var second configBody
	a.into(s, &second)
	s.must(release())
	a = s.get(s.configURL(s.app, name, "releaseKey="+second.Key))
	s.want("a release without a change has a key of its own", a, 200)
	s.must(remove("a"), remove("zero"), release())
	a = s.get(s.configURL(s.app, name, ""))
	s.want("nothing left", a, 200, `"configurations":{}`)

	list := s.get(s.config + "/services/config?appId=" + s.app + "&ip=10.0.0.1")
	s.want("servers", list, 200, `"homepageUrl"`)

	// The files lag behind: they are cached until the next scan.
	files := s.config + "/configfiles/json/" + s.app + "/default/" + name
	s.must(edit("a", "3"), release())
	<-time.After(1500 * time.Millisecond)
	s.want("file", s.get(files), 200, `{"a":"3"}`)
	s.want("letter case of the namespace", s.get(s.configURL(s.app, strings.ToUpper(name), "")), 200, strings.ToUpper(name))
	s.want("unknown file", s.get(s.config+"/configfiles/json/"+s.app+"/default/nosuch"), 404)
	s.must(edit("a", "4"), release())
	if got := s.get(files); got.status != 200 || got.body != `{"a":"3"}` && got.body != `{"a":"4"}` {
		s.Errorf("cached file: %+v", got) // the scan may just have been
	}
	<-time.After(1500 * time.Millisecond)
	s.want("file after the scan", s.get(files), 200, `{"a":"4"}`)
}

type noteBody struct {
	Name     string `json:"namespaceName"`
	ID       int64  `json:"notificationId"`
	Messages struct {
		Details map[string]int64 `json:"details"`
	} `json:"messages"`
}

func (s *apolloServer) poll(within time.Duration, app, list string) answer {
	s.Helper()
	q := url.Values{"appId": {app}, "cluster": {"default"}, "notifications": {list}}
	return s.do(within, "GET", s.config+"/notifications/v2?"+q.Encode(), "")
}

func known(name string, id int64) string {
	return fmt.Sprintf(`[{"namespaceName":%q,"notificationId":%d}]`, name, id)
}

// isHeld checks that a poll is not answered for a while.
func (s *apolloServer) isHeld(what string, app, list string) {
	s.Helper()
	if a := s.poll(2500*time.Millisecond, app, list); !errors.Is(a.err, context.DeadlineExceeded) {
		s.Errorf("%s: %d %s %v, want it held", what, a.status, a.body, a.err)
	}
}

func (s *apolloServer) note(what string, a answer, name string) noteBody {
	s.Helper()
	s.want(what, a, 200)
	var notes []noteBody
	a.into(s, &notes)
	if len(notes) != 1 || notes[0].Name != name || notes[0].ID <= 0 || len(notes[0].Messages.Details) == 0 {
		s.Fatalf("%s: %s", what, a.body)
	}
	return notes[0]
}

func notifications(s *apolloServer) {
	name, edit, _, release := s.space("note", "json")
	for what, list := range map[string]string{"empty": "", "empty list": "[]", "no list": "{}", "broken": "[{", "no name": `[{"notificationId":1}]`} {
		s.want(what, s.poll(10*time.Second, s.app, list), 400, `"status":400`)
	}
	s.isHeld("never released", s.app, known(name, -1))
	s.isHeld("unknown namespace", s.app, known("nosuch", -1))
	s.isHeld("unknown app", "no-such-app", known(name, -1))
	s.must(edit("content", "[]"), release())
	<-time.After(1500 * time.Millisecond)
	first := s.note("released", s.poll(10*time.Second, s.app, known(name, -1)), name)
	if id := first.Messages.Details[s.app+"+default+"+name]; id != first.ID {
		s.Errorf("%+v", first)
	}
	s.isHeld("known", s.app, known(name, first.ID))
	s.isHeld("above the server's", s.app, known(name, first.ID+1000000))
	upper := s.note("letter case of the namespace", s.poll(10*time.Second, s.app, known(strings.ToUpper(name), -1)), strings.ToUpper(name))
	if upper.ID != first.ID {
		s.Errorf("%+v", upper)
	}
	s.isHeld("letter case of the app", strings.ToUpper(s.app), known(name, -1))
	both := fmt.Sprintf(`[{"namespaceName":"nosuch","notificationId":-1},{"namespaceName":%q,"notificationId":-1}]`, name)
	s.note("beside one that does not exist", s.poll(10*time.Second, s.app, both), name)
	s.must(release())
	<-time.After(1500 * time.Millisecond)
	second := s.note("a release without a change raises the number", s.poll(10*time.Second, s.app, known(name, first.ID)), name)
	if second.ID <= first.ID {
		s.Errorf("%d after %d", second.ID, first.ID)
	}
	// A poll that is held is answered when the scan finds the release.
	done := make(chan answer, 1)
	go func() { done <- s.poll(10*time.Second, s.app, known(name, second.ID)) }()
	<-time.After(500 * time.Millisecond)
	begin := time.Now()
	s.must(release())
	third := s.note("held", <-done, name)
	if d := time.Since(begin); d > 3*time.Second || third.ID <= second.ID {
		s.Errorf("after %v: %+v", d, third)
	}
}

// Of several releases between two scans a held poll is told one, and the next poll the last.
func coalescing(s *apolloServer) {
	name, edit, _, release := s.space("many", "json")
	s.must(edit("content", "0"), release())
	<-time.After(1500 * time.Millisecond)
	id := s.note("first", s.poll(10*time.Second, s.app, known(name, -1)), name).ID
	done := make(chan answer, 1)
	go func() { done <- s.poll(10*time.Second, s.app, known(name, id)) }()
	<-time.After(200 * time.Millisecond)
	for n := range 10 {
		s.must(edit("content", fmt.Sprint(n+1)), release())
	}
	s.note("held", <-done, name)
	s.want("read", s.get(s.configURL(s.app, name, "")), 200) // whatever the notification was
	<-time.After(1500 * time.Millisecond)
	last := s.note("next", s.poll(10*time.Second, s.app, known(name, id)), name)
	s.want("the last is read", s.get(s.configURL(s.app, name, "")), 200, `"content":"10"`)
	s.isHeld("the last is known", s.app, known(name, last.ID))
}

func held(s *apolloServer) {
	name, edit, _, release := s.space("held", "json")
	s.must(edit("content", "0"), release())
	<-time.After(1500 * time.Millisecond)
	id := s.note("first", s.poll(10*time.Second, s.app, known(name, -1)), name).ID
	begin := time.Now()
	s.want("held for a minute", s.poll(90*time.Second, s.app, known(name, id)), 304)
	if d := time.Since(begin); d < 59*time.Second || d > 63*time.Second {
		s.Errorf("held for %v", d)
	}
}

func openAPI(s *apolloServer) {
	if s.portal == "" {
		s.Skip(apollotest.PortalEnv, "is not set")
	}
	name, _, _, _ := s.space("open", "properties")
	base := s.portal + "/openapi/v1/envs/" + s.env + "/apps/" + s.app + "/clusters/default/namespaces/"
	ask := func(method, path, body string) answer {
		s.Helper()
		return s.do(20*time.Second, method, base+path, body, "Authorization", s.token, "Content-Type", "application/json")
	}
	by := func(rest string) string {
		return `{"dataChangeCreatedBy":"` + s.user + `","dataChangeLastModifiedBy":"` + s.user + `",` + rest + `}`
	}
	s.want("without a token", s.do(20*time.Second, "GET", base+name, ""), 401)
	s.want("wrong token", s.do(20*time.Second, "GET", base+name, "", "Authorization", "wrong"), 401)
	s.want("unknown namespace", ask("GET", "nosuch", ""), 404, `"status":404`, "namespace not found")
	a := ask("GET", name, "")
	s.want("namespace", a, 200, `"namespaceName":"`+name+`"`, `"items":[]`)
	s.want("never released", ask("GET", name+"/releases/latest", ""), 200)
	if a := ask("GET", name+"/releases/latest", ""); a.body != "" {
		s.Errorf("never released: %s", a.body)
	}
	s.want("no item", ask("GET", name+"/items/a", ""), 404, `"status":404`)
	put := name + "/items/a?createIfNotExists=true"
	s.want("put", ask("PUT", put, by(`"key":"a","value":"1","comment":"why"`)), 200)
	if a := ask("PUT", put, by(`"key":"a","value":"2","comment":"why"`)); a.status != 200 || a.body != "" {
		s.Errorf("put: %+v", a)
	}
	s.want("item", ask("GET", name+"/items/a", ""), 200, `"value":"2"`, `"comment":"why"`, `"dataChangeLastModifiedBy":"`+s.user+`"`)
	s.want("another key than in the path", ask("PUT", put, by(`"key":"b","value":"1"`)), 400)
	s.want("put as nobody", ask("PUT", put, `{"key":"a","value":"1","dataChangeCreatedBy":"nobody","dataChangeLastModifiedBy":"nobody"}`), 400)
	s.want("put by nobody", ask("PUT", put, `{"key":"a","value":"1"}`), 400)
	s.want("the longest", ask("PUT", put, by(`"key":"a","value":"`+strings.Repeat("é", 20000)+`"`)), 200)
	s.want("longer", ask("PUT", put, by(`"key":"a","value":"`+strings.Repeat("é", 20001)+`"`)), 400, "value too long")
	s.want("longer in pairs", ask("PUT", put, by(`"key":"a","value":"`+strings.Repeat("😀", 10001)+`"`)), 400, "value too long")
	s.want("put", ask("PUT", put, by(`"key":"a","value":"3"`)), 200)
	s.want("encoded key", ask("PUT", name+"/encodedItems/YS9iP2MgZA==?createIfNotExists=true", by(`"key":"a/b?c d","value":"x"`)), 200)
	s.want("release as nobody", ask("POST", name+"/releases", `{"releaseTitle":"t","releasedBy":"nobody"}`), 400)
	s.want("release without a title", ask("POST", name+"/releases", `{"releasedBy":"`+s.user+`"}`), 400)
	s.want("release", ask("POST", name+"/releases", `{"releaseTitle":"t","releaseComment":"c","releasedBy":"`+s.user+`"}`), 200,
		`"id":`, `"a":"3"`, `"a/b?c d":"x"`, `"name":"t"`)
	s.want("latest", ask("GET", name+"/releases/latest", ""), 200, `"id":`, `"a":"3"`)
	s.want("delete as nobody", ask("DELETE", name+"/items/a?operator=nobody", ""), 400)
	if a := ask("DELETE", name+"/items/a?operator="+s.user, ""); a.status != 200 || a.body != "" {
		s.Errorf("delete: %+v", a)
	}
	s.want("delete again", ask("DELETE", name+"/items/a?operator="+s.user, ""), 404)
	s.want("still released", ask("GET", name+"/releases/latest", ""), 200, `"a":"3"`)
}

func adminAPI(s *apolloServer) {
	name, _, _, _ := s.space("admin", "properties")
	base := s.admin + "/apps/" + s.app + "/clusters/default/namespaces/"
	ask := func(method, path, body string) answer {
		s.Helper()
		kind := "application/json"
		if method == "POST" && !strings.HasPrefix(body, "{") {
			kind = "application/x-www-form-urlencoded"
		}
		return s.do(20*time.Second, method, base+path, body, "Content-Type", kind)
	}
	a := ask("GET", name, "")
	s.want("namespace", a, 200)
	var space struct {
		ID int64 `json:"id"`
	}
	a.into(s, &space)
	s.want("unknown namespace", ask("GET", "nosuch", ""), 404, `"status":404`)
	s.want("its items", ask("GET", "nosuch/items", ""), 200, "[]")
	if a := ask("GET", name+"/releases/latest", ""); a.status != 200 || a.body != "" {
		s.Errorf("never released: %+v", a)
	}
	item := func(rest string) string {
		return fmt.Sprintf(`{"key":"a","value":"1","dataChangeCreatedBy":%q,"dataChangeLastModifiedBy":%q%s}`, s.user, s.user, rest)
	}
	s.want("item without the namespace's number", ask("POST", name+"/items", item("")), 500)
	a = ask("POST", name+"/items", item(fmt.Sprintf(`,"namespaceId":%d`, space.ID)))
	s.want("item", a, 200, `"id":`, `"key":"a"`)
	var made struct {
		ID int64 `json:"id"`
	}
	a.into(s, &made)
	s.want("item again", ask("POST", name+"/items", item(fmt.Sprintf(`,"namespaceId":%d`, space.ID))), 400)
	s.want("put", ask("PUT", fmt.Sprintf("%s/items/%d", name, made.ID), fmt.Sprintf(`{"id":%d,"namespaceId":%d,"key":"a","value":"2","dataChangeLastModifiedBy":"x"}`, made.ID, space.ID)), 200, `"value":"2"`)
	s.want("items", ask("GET", name+"/items", ""), 200, `"value":"2"`, `"dataChangeLastModifiedBy":"x"`)
	a = ask("POST", name+"/releases", url.Values{"name": {"t"}, "comment": {"c"}, "operator": {s.user}}.Encode())
	s.want("release", a, 200, `"releaseKey":"`, `"configurations":"{\"a\":\"2\"}"`, `"isAbandoned":false`)
	s.want("latest", ask("GET", name+"/releases/latest", ""), 200, `"releaseKey":"`)
	s.want("delete", s.do(20*time.Second, "DELETE", fmt.Sprintf("%s/items/%d?operator=x", s.admin, made.ID), ""), 200)
	s.want("no items", ask("GET", name+"/items", ""), 200, "[]")
}

// Gray releases: a branch has items and releases of its own, and rules by address and by label.
func grayReleases(s *apolloServer) {
	name, edit, _, release := s.space("gray", "properties")
	s.must(edit("a", "1"), edit("b", "1"), release())
	base := s.admin + "/apps/" + s.app + "/clusters/default/namespaces/" + name
	send := func(method, u, body string) answer {
		s.Helper()
		kind := "application/json"
		if method == "POST" && !strings.HasPrefix(body, "{") {
			kind = "application/x-www-form-urlencoded"
		}
		return s.do(20*time.Second, method, u, body, "Content-Type", kind)
	}
	a := send("POST", base+"/branches?operator="+s.user, "{}")
	s.want("branch", a, 200, `"namespaceName":"`+name+`"`, `"clusterName":"`)
	var branch struct {
		ID      int64  `json:"id"`
		Cluster string `json:"clusterName"`
	}
	a.into(s, &branch)
	s.want("another branch", send("POST", base+"/branches?operator="+s.user, "{}"), 400)
	rules := fmt.Sprintf(`{"appId":%q,"clusterName":"default","namespaceName":%q,"branchName":%q,"dataChangeCreatedBy":%q,"dataChangeLastModifiedBy":%[4]q,`+
		`"ruleItems":[{"clientAppId":%[1]q,"clientIpList":["10.9.9.9"],"clientLabelList":[]},{"clientAppId":%[1]q,"clientIpList":[],"clientLabelList":["canary"]}]}`,
		s.app, name, branch.Cluster, s.user)
	s.want("rules", send("PUT", base+"/branches/"+branch.Cluster+"/rules", rules), 200)
	at := strings.Replace(base, "/default/", "/"+branch.Cluster+"/", 1)
	s.want("item", send("POST", at+"/items", fmt.Sprintf(`{"namespaceId":%d,"key":"a","value":"2","dataChangeCreatedBy":%q,"dataChangeLastModifiedBy":%[2]q}`, branch.ID, s.user)), 200)
	// The config service learns of it at a scan.
	serves := func(what, query string, parts ...string) {
		s.Helper()
		var got answer
		for range 30 {
			got = s.get(s.configURL(s.app, name, query))
			ok := got.status == 200
			for _, p := range parts {
				ok = ok && strings.Contains(got.body, p)
			}
			if ok {
				return
			}
			<-time.After(200 * time.Millisecond)
		}
		s.Errorf("%s: %+v, want %v", what, got, parts)
	}
	serves("before the branch is released", "ip=10.9.9.9", `"a":"1"`, `"b":"1"`)
	s.want("release", send("POST", at+"/releases", url.Values{"name": {"t"}, "operator": {s.user}}.Encode()), 200, `"releaseKey":"`)
	serves("by address", "ip=10.9.9.9", `"a":"2"`, `"b":"1"`)
	serves("by label", "ip=10.0.0.1&label=canary", `"a":"2"`, `"b":"1"`)
	serves("not meant", "ip=10.0.0.1", `"a":"1"`, `"b":"1"`)
	s.must(edit("b", "3"), release())
	serves("a release goes into the branch", "ip=10.9.9.9", `"a":"2"`, `"b":"3"`)
	s.want("give up", send("DELETE", base+"/branches/"+branch.Cluster+"?operator="+s.user, ""), 200)
	serves("given up", "ip=10.9.9.9", `"a":"1"`, `"b":"3"`)
}
