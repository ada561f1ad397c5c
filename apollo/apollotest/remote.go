package apollotest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// The variables that name an Apollo which is already up. The first two are needed: namespaces are made and edited
// through the admin service, which must not ask for a token. With the portal's come a token of the open API whose app is
// the master of the app, and, where they differ from the quick-start's, environment and user.
const (
	ConfigEnv = "RULEWIRE_APOLLO_CONFIG_ADDR"
	AdminEnv  = "RULEWIRE_APOLLO_ADMIN_ADDR"
	PortalEnv = "RULEWIRE_APOLLO_PORTAL_ADDR"
	TokenEnv  = "RULEWIRE_APOLLO_TOKEN"
	AppEnv    = "RULEWIRE_APOLLO_APP"
	EnvEnv    = "RULEWIRE_APOLLO_ENV"
	UserEnv   = "RULEWIRE_APOLLO_USER"
)

// Remote is an Apollo that runs elsewhere.
type Remote struct {
	// Config, Admin and Portal are addresses; Portal may be empty.
	Config, Admin, Portal string
	// Token is the open API's.
	Token string
	// App, Env and User are what to use: "rulewire-test", "LOCAL" and "apollo" where the variables are not set.
	App, Env, User string

	client *http.Client
}

// Open takes the Apollo that the environment names, or skips the test.
func Open(t testing.TB) *Remote {
	t.Helper()
	r := &Remote{
		Config: withScheme(os.Getenv(ConfigEnv)), Admin: withScheme(os.Getenv(AdminEnv)), Portal: withScheme(os.Getenv(PortalEnv)),
		Token: os.Getenv(TokenEnv), App: cmp.Or(os.Getenv(AppEnv), "rulewire-test"),
		Env: cmp.Or(os.Getenv(EnvEnv), Env), User: cmp.Or(os.Getenv(UserEnv), Editor),
		client: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second},
	}
	if r.Config == "" || r.Admin == "" {
		t.Skipf("needs an Apollo: %s and %s are not set", ConfigEnv, AdminEnv)
	}
	t.Cleanup(r.client.CloseIdleConnections)
	if err := r.do(http.MethodGet, "/apps/"+r.App, nil, nil); err != nil {
		app := map[string]string{
			"appId": r.App, "name": r.App, "orgId": "TEST1", "orgName": "test", "ownerName": r.User, "ownerEmail": "nobody@example.com",
			"dataChangeCreatedBy": r.User, "dataChangeLastModifiedBy": r.User,
		}
		if err := r.do(http.MethodPost, "/apps", app, nil); err != nil {
			t.Fatal("make the app:", err)
		}
	}
	return r
}

func withScheme(text string) string {
	if text != "" && !strings.Contains(text, "://") {
		text = "http://" + text
	}
	return text
}

// do asks the admin service.
func (r *Remote) do(method, path string, in, out any) error {
	var reader io.Reader
	kind := "application/json"
	switch in := in.(type) {
	case nil:
	case url.Values:
		reader, kind = strings.NewReader(in.Encode()), "application/x-www-form-urlencoded"
	default:
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, r.Admin+path, reader)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	res, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %d: %.200s", method, path, res.StatusCode, b)
	}
	if out == nil || len(b) == 0 {
		return nil
	}
	return json.Unmarshal(b, out)
}

// RemoteNamespace is a namespace of a Remote.
type RemoteNamespace struct {
	r    *Remote
	name string
	id   int64
}

// Namespace makes a namespace of the app, in all its clusters. With a portal it is made there, so that the token may
// edit it. The format is "properties" or another that Apollo has; the name is without it.
func (r *Remote) Namespace(name, format string) (*RemoteNamespace, error) {
	full := name
	if format != "properties" {
		full += "." + format
	}
	body := map[string]any{
		"name": full, "appId": r.App, "format": format, "isPublic": false,
		"dataChangeCreatedBy": r.User, "dataChangeLastModifiedBy": r.User,
	}
	n := &RemoteNamespace{r: r, name: full}
	if r.Portal == "" {
		if err := r.do(http.MethodPost, "/apps/"+r.App+"/appnamespaces", body, nil); err != nil {
			return nil, err
		}
	} else if err := r.make(name, body); err != nil {
		return nil, err
	}
	return n, n.find()
}

// Application is the namespace that each app has.
func (r *Remote) Application() (*RemoteNamespace, error) {
	n := &RemoteNamespace{r: r, name: "application"}
	return n, n.find()
}

func (n *RemoteNamespace) find() error {
	var found struct {
		ID int64 `json:"id"`
	}
	var err error
	for range 50 { // the portal makes it a little later
		if err = n.r.do(http.MethodGet, n.path(""), nil, &found); err == nil {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	n.id = found.ID
	return err
}

func (r *Remote) make(name string, body map[string]any) error {
	body["name"] = name
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, r.Portal+"/openapi/v1/apps/"+r.App+"/appnamespaces", bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", r.Token)
	res, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return fmt.Errorf("make namespace %s: %d: %.200s", name, res.StatusCode, text)
	}
	return nil
}

func (n *RemoteNamespace) path(rest string) string {
	return "/apps/" + n.r.App + "/clusters/default/namespaces/" + n.name + rest
}

// Name is the namespace's name.
func (n *RemoteNamespace) Name() string { return n.name }

// Edit edits an item as user, and does not release it.
func (n *RemoteNamespace) Edit(key, value, user string) error {
	b := itemBody{NamespaceID: n.id, Key: key, Value: value, Created: user, Changed: user}
	old, err := n.item(key)
	if err != nil {
		return err
	}
	if old == nil {
		return n.r.do(http.MethodPost, n.path("/items"), b, nil)
	}
	old.Value, old.Changed = value, user
	return n.r.do(http.MethodPut, n.path("/items/"+strconv.FormatInt(old.ID, 10)), old, nil)
}

func (n *RemoteNamespace) item(key string) (*itemBody, error) {
	var list []itemBody
	if err := n.r.do(http.MethodGet, n.path("/items"), nil, &list); err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Key == key {
			return &list[i], nil
		}
	}
	return nil, nil
}

// Value gives what is edited under key, and by whom.
func (n *RemoteNamespace) Value(key string) (value, by string, there bool, err error) {
	i, err := n.item(key)
	if err != nil || i == nil {
		return "", "", false, err
	}
	return i.Value, i.Changed, true, nil
}

// Remove deletes an item, and does not release that.
func (n *RemoteNamespace) Remove(key string) error {
	i, err := n.item(key)
	if err != nil || i == nil {
		return err
	}
	return n.r.do(http.MethodDelete, "/items/"+strconv.FormatInt(i.ID, 10)+"?operator="+n.r.User, nil, nil)
}

// Release releases the namespace.
func (n *RemoteNamespace) Release() error {
	return n.r.do(http.MethodPost, n.path("/releases"), url.Values{"name": {"by hand"}, "operator": {n.r.User}}, nil)
}

// Put edits an item and releases the namespace.
func (n *RemoteNamespace) Put(key, value string) error {
	if err := n.Edit(key, value, n.r.User); err != nil {
		return err
	}
	return n.Release()
}

// Delete deletes an item, if it is there, and releases the namespace.
func (n *RemoteNamespace) Delete(key string) error {
	if err := n.Remove(key); err != nil {
		return err
	}
	return n.Release()
}
