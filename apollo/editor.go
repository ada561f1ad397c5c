package apollo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/rulewire/rulewire/datasource"
)

// ErrNoNamespace means that the namespace, or its app or cluster, does not exist. It is made in the portal.
var ErrNoNamespace = errors.New("no such namespace")

// Editor is where a Sink edits and releases: Portal or Admin.
type Editor interface {
	check() error
	user() string
	// state gives what is being edited and what is released, from the database and not from a cache.
	state(ctx context.Context, p place) (state, error)
	// put creates or changes the document's item; s is what there was before.
	put(ctx context.Context, p place, s state, value string) error
	// remove deletes the document's item, which is in s.
	remove(ctx context.Context, p place, s state) error
	// publish releases all items of the namespace.
	publish(ctx context.Context, p place, title, comment string) (published, error)
}

// Portal edits through the portal's open API. The token's app needs the roles to modify and to release the namespace.
type Portal struct {
	// Address is the portal's, such as "https://apollo.example.com".
	Address string
	// Env is the environment as the portal calls it, such as "PRO"; "LOCAL" in the quick-start.
	Env string
	// User edits and releases; it must exist. Let it be a user of its own, so that its edits are known from people's.
	User string
	// Token is asked for the open API's token before each request, so that it may be rotated.
	Token func(context.Context) (string, error)
}

// Admin edits through the admin service, which asks for no authentication unless admin-service.access.control.enabled is
// set. For set-ups without a portal.
type Admin struct {
	// Address is the admin service's, such as "http://10.0.0.5:8090".
	Address string
	// User edits and releases. Let it be a name of its own, so that its edits are known from people's.
	User string
	// Token is asked for the access token before each request. Optional.
	Token func(context.Context) (string, error)
}

var (
	_ Editor = Portal{}
	_ Editor = Admin{}
)

// place is a document as an editor finds it.
type place struct {
	client         *Client
	namespace, key string
}

type item struct {
	ID        int64  `json:"id,omitzero"`
	Namespace int64  `json:"namespaceId,omitzero"`
	Key       string `json:"key"`
	Type      int    `json:"type"`
	Value     string `json:"value"`
	Comment   string `json:"comment,omitzero"`
	Line      int    `json:"lineNum,omitzero"`
	CreatedBy string `json:"dataChangeCreatedBy,omitzero"`
	ChangedBy string `json:"dataChangeLastModifiedBy,omitzero"`
}

// published is a release as an editor sees it; the zero value is none.
type published struct {
	ID     int64
	Key    string // not from the portal
	Values map[string]string
}

type state struct {
	namespace int64 // the admin service's number
	items     []item
	latest    published
}

// item finds an item by its key.
func (s *state) item(key string) *item {
	for i := range s.items {
		if s.items[i].Key == key {
			return &s.items[i]
		}
	}
	return nil
}

// refused says whether a request was answered that nothing was done, or not even sent. All else leaves it open.
func refused(err error) bool {
	var unsent *unsentError
	var status *StatusError
	var dial *net.OpError
	return errors.As(err, &unsent) || errors.As(err, &status) && status.Code >= 400 && status.Code < 500 ||
		errors.As(err, &dial) && dial.Op == "dial"
}

// unsentError is a failure before anything was sent.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// request asks an editor's server.
func request(ctx context.Context, p place, address, method, path string, token func(context.Context) (string, error), query url.Values, body []byte, kind string) (reply, error) {
	base, err := parseAddress("address", address)
	if err != nil {
		return reply{}, &unsentError{err}
	}
	req, err := http.NewRequestWithContext(ctx, method, join(base, path, query).String(), bytes.NewReader(body))
	if err != nil {
		return reply{}, &unsentError{err}
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	if token != nil {
		t, err := token(ctx)
		if err != nil {
			return reply{}, &unsentError{fmt.Errorf("token: %w", err)}
		}
		if t != "" {
			req.Header.Set("Authorization", t)
		}
	}
	if p.client.isClosed() {
		return reply{}, &unsentError{fmt.Errorf("the client: %w", datasource.ErrClosed)}
	}
	r, err := send(p.client.http, req)
	if err == nil && (r.status < 200 || r.status > 299) {
		err = r.error()
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return r, err
}

// silent makes sure that an answer which should have no body has none: a sign-in page is no success.
func (r reply) silent() error {
	if len(bytes.TrimSpace(r.body)) > 0 {
		return r.error()
	}
	return nil
}

// optional decodes the body of an answer that may have none.
func (r reply) optional(v any) error {
	if len(bytes.TrimSpace(r.body)) == 0 {
		return nil
	}
	return r.into(v)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of texts and numbers
	}
	return b
}

const jsonType = "application/json"

func plainKey(key string) bool {
	return strings.Trim(key, ".") != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("._-", r))
	})
}

func (p Portal) check() error {
	_, err := parseAddress("Portal.Address", p.Address)
	switch {
	case err != nil:
		return err
	case p.Env == "":
		return errors.New("Portal.Env is empty")
	case p.User == "":
		return errors.New("Portal.User is empty")
	case p.Token == nil:
		return errors.New("Portal.Token is nil")
	}
	return nil
}

func (p Portal) user() string { return p.User }

func (p Portal) ask(ctx context.Context, at place, method, path string, query url.Values, body any) (reply, error) {
	prefix := "/openapi/v1/envs/" + url.PathEscape(p.Env) + "/apps/" + url.PathEscape(at.client.app) + "/clusters/" +
		url.PathEscape(at.client.cluster) + "/namespaces/" + url.PathEscape(at.namespace)
	var data []byte
	if body != nil {
		data = encode(body)
	}
	return request(ctx, at, p.Address, method, prefix+path, p.Token, query, data, jsonType)
}

func (p Portal) state(ctx context.Context, at place) (state, error) {
	// The items come last: what is edited after they were read is what a write can miss.
	var latest openRelease
	r, err := p.ask(ctx, at, http.MethodGet, "/releases/latest", nil, nil)
	if err == nil {
		err = r.optional(&latest)
	}
	if err != nil {
		return state{}, err
	}
	var namespace struct {
		Name  string `json:"namespaceName"`
		Items []item `json:"items"`
	}
	r, err = p.ask(ctx, at, http.MethodGet, "", nil, nil)
	if err == nil {
		err = r.into(&namespace)
	}
	if err == nil && namespace.Name == "" {
		err = fmt.Errorf("%s: %w: no namespace", r.server, ErrNotApollo)
	}
	return state{items: namespace.Items, latest: published{ID: latest.ID, Values: latest.Configurations}}, unknownNamespace(err, at)
}

type openRelease struct {
	ID             int64             `json:"id"`
	Configurations map[string]string `json:"configurations"`
}

func itemPath(key string) string {
	if plainKey(key) {
		return "/items/" + key
	}
	return "/encodedItems/" + url.PathEscape(base64.StdEncoding.EncodeToString([]byte(key)))
}

func (p Portal) put(ctx context.Context, at place, s state, value string) error {
	i := item{Key: at.key, Value: value, CreatedBy: p.User, ChangedBy: p.User}
	if old := s.item(at.key); old != nil {
		i.Type, i.Comment = old.Type, old.Comment
	}
	r, err := p.ask(ctx, at, http.MethodPut, itemPath(at.key), url.Values{"createIfNotExists": {"true"}}, i)
	return cmp.Or(err, r.silent())
}

func (p Portal) remove(ctx context.Context, at place, _ state) error {
	r, err := p.ask(ctx, at, http.MethodDelete, itemPath(at.key), url.Values{"operator": {p.User}}, nil)
	return cmp.Or(err, r.silent())
}

func (p Portal) publish(ctx context.Context, at place, title, comment string) (published, error) {
	model := struct {
		Title   string `json:"releaseTitle"`
		Comment string `json:"releaseComment"`
		By      string `json:"releasedBy"`
	}{title, comment, p.User}
	var answer openRelease
	r, err := p.ask(ctx, at, http.MethodPost, "/releases", nil, model)
	if err == nil {
		err = r.into(&answer)
	}
	if err == nil && answer.ID == 0 {
		err = fmt.Errorf("%s: %w: no release", r.server, ErrNotApollo)
	}
	return published{ID: answer.ID, Values: answer.Configurations}, err
}

func (a Admin) check() error {
	_, err := parseAddress("Admin.Address", a.Address)
	if err == nil && a.User == "" {
		err = errors.New("Admin.User is empty")
	}
	return err
}

func (a Admin) user() string { return a.User }

func (a Admin) ask(ctx context.Context, at place, method, path string, query url.Values, body []byte, kind string) (reply, error) {
	if !strings.HasPrefix(path, "!") {
		path = "/apps/" + url.PathEscape(at.client.app) + "/clusters/" + url.PathEscape(at.client.cluster) +
			"/namespaces/" + url.PathEscape(at.namespace) + path
	}
	return request(ctx, at, a.Address, method, strings.TrimPrefix(path, "!"), a.Token, query, body, kind)
}

func (a Admin) state(ctx context.Context, at place) (state, error) {
	var namespace struct {
		ID int64 `json:"id"`
	}
	r, err := a.ask(ctx, at, http.MethodGet, "", nil, nil, "")
	if err == nil {
		err = r.into(&namespace)
	}
	if err == nil && namespace.ID == 0 {
		err = fmt.Errorf("%s: %w: no namespace", r.server, ErrNotApollo)
	}
	if err != nil {
		return state{}, unknownNamespace(err, at)
	}
	s := state{namespace: namespace.ID}
	r, err = a.ask(ctx, at, http.MethodGet, "/releases/latest", nil, nil, "")
	if err == nil {
		s.latest, err = a.published(r)
	}
	if err != nil {
		return state{}, err
	}
	r, err = a.ask(ctx, at, http.MethodGet, "/items", nil, nil, "")
	if err == nil {
		err = r.into(&s.items)
	}
	return s, err
}

func (a Admin) published(r reply) (published, error) {
	var answer struct {
		ID             int64  `json:"id"`
		ReleaseKey     string `json:"releaseKey"`
		Configurations string `json:"configurations"`
	}
	if err := r.optional(&answer); err != nil || answer.ID == 0 {
		return published{}, err
	}
	p := published{ID: answer.ID, Key: answer.ReleaseKey}
	err := json.Unmarshal([]byte(answer.Configurations), &p.Values)
	return p, err
}

func (a Admin) put(ctx context.Context, at place, s state, value string) error {
	method, path := http.MethodPost, "/items"
	// The number of the namespace must be there, else the server fails with a 500.
	i := item{Namespace: s.namespace, Key: at.key, CreatedBy: a.User}
	if old := s.item(at.key); old != nil {
		i = *old
		method, path = http.MethodPut, "/items/"+strconv.FormatInt(i.ID, 10)
	}
	i.Value, i.ChangedBy = value, a.User
	var answer item
	r, err := a.ask(ctx, at, method, path, nil, encode(i), jsonType)
	if err == nil {
		err = r.into(&answer)
	}
	return err
}

func (a Admin) remove(ctx context.Context, at place, s state) error {
	i := s.item(at.key)
	if i == nil {
		return nil
	}
	r, err := a.ask(ctx, at, http.MethodDelete, "!/items/"+strconv.FormatInt(i.ID, 10), url.Values{"operator": {a.User}}, nil, "")
	return cmp.Or(err, r.silent())
}

func (a Admin) publish(ctx context.Context, at place, title, comment string) (published, error) {
	form := url.Values{"name": {title}, "comment": {comment}, "operator": {a.User}}
	r, err := a.ask(ctx, at, http.MethodPost, "/releases", nil, []byte(form.Encode()), "application/x-www-form-urlencoded")
	if err != nil {
		return published{}, err
	}
	p, err := a.published(r)
	if err == nil && p.ID == 0 {
		err = fmt.Errorf("%s: %w: no release", r.server, ErrNotApollo)
	}
	return p, err
}

// unknownNamespace says what a 404 of the namespace itself means.
func unknownNamespace(err error, p place) error {
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound && !errors.Is(err, ErrNotApollo) {
		return fmt.Errorf("%w: app id %q, cluster %q, namespace %q", ErrNoNamespace, p.client.app, p.client.cluster, p.namespace)
	}
	return err
}
