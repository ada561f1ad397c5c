package apollo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apolloconfig/agollo/v4/env/config"
	"github.com/go-json-experiment/json"

	"github.com/rulewire/rulewire/apollo"
	"github.com/rulewire/rulewire/apollo/apollotest"
	"github.com/rulewire/rulewire/datasource"
)

// What can be seen of apps, clusters, secrets, gray releases and restarts on a real server only.

// generous is for what has to come, on a machine that may be busy; how long it took is reported.
const generous = 2 * time.Minute

// adminService asks the real admin service, in place of a person at the portal.
type adminService struct {
	*bench
	r    *apollotest.Remote
	http *http.Client
}

func newAdminService(t *testing.T) *adminService {
	r := apollotest.Open(t)
	link := apollotest.Dial(nil)
	t.Cleanup(link.Close)
	return &adminService{&bench{T: t, link: link}, r, link.Client()}
}

func (a *adminService) try(method, path string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(a.Context(), method, a.r.Admin+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %d %.300s", method, path, res.StatusCode, text)
	}
	if out != nil {
		return json.Unmarshal(text, out)
	}
	return nil
}

func (a *adminService) do(method, path string, in, out any) {
	a.Helper()
	if err := a.try(method, path, in, out); err != nil {
		a.Fatal(err)
	}
}

// app makes an app of its own, which has namespace application in cluster default.
func (a *adminService) app() string {
	a.Helper()
	id := fmt.Sprintf("Rulewire-%x-%d", time.Now().UnixNano(), os.Getpid())
	a.do("POST", "/apps", map[string]string{
		"appId": id, "name": id, "orgId": "TEST1", "orgName": "test", "ownerName": a.r.User, "ownerEmail": "nobody@example.com",
		"dataChangeCreatedBy": a.r.User, "dataChangeLastModifiedBy": a.r.User,
	}, nil)
	return id
}

// put edits the flow rules of namespace application and releases it.
func (a *adminService) put(app, cluster string, n int) error {
	at := "/apps/" + app + "/clusters/" + cluster + "/namespaces/application"
	var namespace struct {
		ID int64 `json:"id"`
	}
	var items []map[string]any
	if err := errors.Join(a.try("GET", at, nil, &namespace), a.try("GET", at+"/items", nil, &items)); err != nil {
		return err
	}
	item := map[string]any{"namespaceId": namespace.ID, "key": flow, "dataChangeCreatedBy": a.r.User}
	method, path := "POST", at+"/items"
	for _, i := range items {
		if i["key"] == flow {
			item, method, path = i, "PUT", fmt.Sprintf("%s/items/%.0f", at, i["id"])
		}
	}
	item["value"], item["dataChangeLastModifiedBy"] = doc(n), a.r.User
	if err := a.try(method, path, item, nil); err != nil {
		return err
	}
	return a.try("POST", at+"/releases?name=by+hand&operator="+a.r.User, nil, nil)
}

func (a *adminService) mustPut(app, cluster string, n int) {
	a.Helper()
	if err := a.put(app, cluster, n); err != nil {
		a.Fatal(err)
	}
}

func (a *adminService) client(conf config.AppConfig, options ...apollo.ClientOption) *apollo.Client {
	a.Helper()
	conf.IP = a.r.Config
	return newClient(a, a.link, &conf, append([]apollo.ClientOption{apollo.Direct()}, options...)...)
}

// until gives how long it took until n was in force.
func (a *adminService) until(l *live, n int) time.Duration {
	a.Helper()
	begin := time.Now()
	a.wait(generous, l, n)
	return time.Since(begin).Round(time.Millisecond)
}

// Access keys of a real server: rotated with both good for a while, and revoked without a word.
//
// faults: F082
func TestServerSecretIsRotated(t *testing.T) {
	a := newAdminService(t)
	id := a.app()
	a.mustPut(id, "default", 0)
	key := func(secret string) int64 {
		t.Helper()
		var made struct {
			ID int64 `json:"id"`
		}
		a.do("POST", "/apps/"+id+"/accesskeys", map[string]any{
			"appId": id, "secret": secret, "dataChangeCreatedBy": a.r.User, "dataChangeLastModifiedBy": a.r.User,
		}, &made)
		return made.ID
	}
	turn := func(key int64, way string) {
		t.Helper()
		a.do("PUT", fmt.Sprintf("/apps/%s/accesskeys/%d/%s?operator=%s", id, key, way, a.r.User), nil, nil)
	}
	var now atomic.Pointer[string]
	set := func(s string) { now.Store(&s) }
	set("")
	l := a.open(a.source(a.client(config.AppConfig{AppID: id}, apollo.Secret(func(context.Context) (string, error) { return *now.Load(), nil })),
		"application", flow), datasource.Relist(time.Hour))
	a.until(l, 0)

	// refused waits until the server lets nobody in who has secret.
	refused := func(secret string) {
		t.Helper()
		probe := a.source(a.client(config.AppConfig{AppID: id, Secret: secret}), "application", flow)
		for begin := time.Now(); ; <-time.After(50 * time.Millisecond) {
			_, err := probe.Read(t.Context())
			var status *apollo.StatusError
			if errors.As(err, &status) && status.Code == http.StatusUnauthorized {
				return
			}
			if err != nil || time.Since(begin) > generous {
				t.Fatalf("secret %q: %v", secret, err)
			}
		}
	}
	first, second, third := key("first"), key("second"), key("third")
	turn(first, "enable")
	refused("")
	set("first")
	a.mustPut(id, "default", 1)
	t.Log("keys turned on, the client's secret right after: in force after", a.until(l, 1))
	turn(second, "enable")
	<-time.After(5 * time.Second) // the server's scan for keys
	set("second")
	a.mustPut(id, "default", 2)
	t.Log("the client's secret changed, both good: in force after", a.until(l, 2))
	turn(first, "disable")
	refused("first")
	a.mustPut(id, "default", 3)
	t.Log("the old one turned off: in force after", a.until(l, 3))
	var longest time.Duration
	for n := 4; n < 9; n++ {
		// Revoked: the server first, the client some seconds later.
		old, next, name := second, third, "third"
		if n%2 == 1 {
			old, next, name = third, second, "second"
		}
		turn(next, "enable")
		turn(old, "disable")
		refused(*now.Load())
		a.mustPut(id, "default", n)
		<-time.After(time.Duration(n) * time.Second)
		if l.n.Load() == int64(n) {
			t.Fatal("read without a secret")
		}
		set(name)
		longest = max(longest, a.until(l, n))
	}
	t.Log("revoked, and mended some seconds later, 5 times: longest from the mended secret to in force", longest)
}

// A client for each app id, a cluster with releases of its own and one without, on a real server.
func TestServerAppsAndClusters(t *testing.T) {
	a := newAdminService(t)
	one, two := a.app(), a.app()
	a.do("POST", "/apps/"+one+"/clusters", map[string]any{
		"name": "shanghai", "appId": one, "dataChangeCreatedBy": a.r.User, "dataChangeLastModifiedBy": a.r.User,
	}, nil)
	a.mustPut(one, "default", 1)
	a.mustPut(two, "default", 2)
	far := a.client(config.AppConfig{AppID: one, Cluster: "shanghai"})
	source := a.source(far, "application", flow)
	first, second, third := a.open(a.source(a.client(config.AppConfig{AppID: one}), "application", flow)),
		a.open(a.source(a.client(config.AppConfig{AppID: two}), "application", flow)), a.open(source)
	a.until(first, 1)
	a.until(second, 2)
	a.until(third, 1)
	if note := source.Note(); note == "" {
		t.Error("the note says nothing of cluster default")
	}
	sink, err := apollo.NewSink(far, apollo.Admin{Address: a.r.Admin, User: a.r.User}, "application", flow)
	if err != nil {
		t.Fatal(err)
	}
	now, err := sink.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write(t.Context(), []byte(doc(9)), now.Revision); !errors.Is(err, datasource.ErrUnsupported) {
		t.Errorf("a write over another cluster's release: %v", err)
	}
	a.mustPut(one, "shanghai", 3)
	t.Log("the cluster's first release: in force after", a.until(third, 3))
	if now, err = sink.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write(t.Context(), []byte(doc(4)), now.Revision); err != nil {
		t.Error(err)
	}
	a.until(third, 4)
	a.mustPut(two, "default", 5)
	a.until(second, 5)
	if first.n.Load() != 1 {
		t.Errorf("cluster default has %d", first.n.Load())
	}
	// H2 and case-sensitive collations do not find it; with others Note says that updates come by poll only.
	other := a.source(a.client(config.AppConfig{AppID: "r" + one[1:]}), "application", flow)
	got, err := other.Read(t.Context())
	t.Log("app id in another letter case:", got.Presence, err, other.Note())
}

// Gray releases of a real server, by address and by label; no sink writes over one.
func TestServerGrayReleases(t *testing.T) {
	a := newAdminService(t)
	id := a.app()
	a.mustPut(id, "default", 1)
	byIP := a.client(config.AppConfig{AppID: id}, apollo.ClientIP("10.9.9.9"))
	one, two, three := a.open(a.source(byIP, "application", flow)),
		a.open(a.source(a.client(config.AppConfig{AppID: id, Label: "canary"}), "application", flow)),
		a.open(a.source(a.client(config.AppConfig{AppID: id}), "application", flow))
	at := "/apps/" + id + "/clusters/default/namespaces/application"
	var branch struct {
		Name string `json:"clusterName"`
	}
	a.do("POST", at+"/branches?operator="+a.r.User, nil, &branch)
	a.do("PUT", at+"/branches/"+branch.Name+"/rules", map[string]any{
		"appId": id, "clusterName": "default", "namespaceName": "application", "branchName": branch.Name,
		"ruleItems": []any{
			map[string]any{"clientAppId": id, "clientIpList": []string{"10.9.9.9"}, "clientLabelList": []string{}},
			map[string]any{"clientAppId": id, "clientIpList": []string{}, "clientLabelList": []string{"canary"}},
		},
		"dataChangeCreatedBy": a.r.User, "dataChangeLastModifiedBy": a.r.User,
	}, nil)
	a.mustPut(id, branch.Name, 2)
	t.Log("gray release: in force by address after", a.until(one, 2), "by label after", a.until(two, 2))
	sink, err := apollo.NewSink(byIP, apollo.Admin{Address: a.r.Admin, User: a.r.User}, "application", flow)
	if err != nil {
		t.Fatal(err)
	}
	now, err := sink.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write(t.Context(), []byte(doc(9)), now.Revision); !errors.Is(err, datasource.ErrUnsupported) {
		t.Errorf("a write where a gray release is served: %v", err)
	}
	if three.n.Load() != 1 {
		t.Errorf("not meant, and %d is in force", three.n.Load())
	}
	a.do("DELETE", at+"/branches/"+branch.Name+"?operator="+a.r.User, nil, nil)
	t.Log("given up: in force after", a.until(one, 1), a.until(two, 1))
}

// restartEnv is a command that kills the server and starts it again; it returns when the server is up.
const restartEnv = "RULEWIRE_APOLLO_RESTART"

// The real server is killed ten times while numbered releases are made: none goes back, and the last is in force.
//
// faults: F080 F091
func TestServerKilledDuringNumberedWrites(t *testing.T) {
	command := os.Getenv(restartEnv)
	if command == "" {
		t.Skip(restartEnv, "is not set")
	}
	a := newAdminService(t)
	id := a.app()
	a.mustPut(id, "default", 0)
	l := a.open(a.source(a.client(config.AppConfig{AppID: id}), "application", flow), datasource.Relist(time.Hour))
	var longest time.Duration
	n, seen := 0, int64(0)
	check := func() {
		t.Helper()
		now := l.n.Load()
		if now < seen {
			t.Fatalf("%d is in force after %d", now, seen)
		}
		seen = now
	}
	for round := range 10 {
		var up atomic.Bool
		done := make(chan error, 1)
		go func() {
			done <- exec.CommandContext(t.Context(), "/bin/sh", "-c", command).Run()
			up.Store(true)
		}()
		for !up.Load() {
			if err := a.put(id, "default", n+1); err == nil {
				n++
			} else if now, e := a.newest(id); e == nil && now > n {
				n = now // done, and the answer was lost
			}
			check()
			<-time.After(50 * time.Millisecond)
		}
		if err := <-done; err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for a.put(id, "default", n+1) != nil {
			<-time.After(50 * time.Millisecond)
			if now, err := a.newest(id); err == nil && now > n {
				n = now
			}
		}
		n++
		longest = max(longest, a.until(l, n))
		check()
	}
	t.Logf("%d numbered releases over ten kills; longest from the first release after a start to in force: %v; %+v", n, longest, l.Status().Counts)
}

// newest is the number that the admin service says is released.
func (a *adminService) newest(app string) (n int, err error) {
	var latest struct {
		Configurations string `json:"configurations"`
	}
	err = a.try("GET", "/apps/"+app+"/clusters/default/namespaces/application/releases/latest", nil, &latest)
	if err != nil {
		return 0, err
	}
	var values map[string]string
	if err := json.Unmarshal([]byte(latest.Configurations), &values); err != nil {
		return 0, err
	}
	_, err = fmt.Sscanf(values[flow], `[{"resource":"n","count":%d}]`, &n)
	return n, err
}
