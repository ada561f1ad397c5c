package apollo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

var _ Editor = Admin{}

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

func (a Admin) check() error {
	_, err := parseAddress("Admin.Address", a.Address)
	if err == nil && a.User == "" {
		err = errors.New("Admin.User is empty")
	}
	return err
}

func (a Admin) user() string { return a.User }

func (a Admin) ask(ctx context.Context, at place, method, path string, body []byte, kind string) (reply, error) {
	prefix := "/apps/" + url.PathEscape(at.client.app) + "/clusters/" + url.PathEscape(at.client.cluster) +
		"/namespaces/" + url.PathEscape(at.namespace)
	return request(ctx, at, a.Address, method, prefix+path, a.Token, nil, body, kind)
}

func (a Admin) state(ctx context.Context, at place) (state, error) {
	var namespace struct {
		ID int64 `json:"id"`
	}
	r, err := a.ask(ctx, at, http.MethodGet, "", nil, "")
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
	r, err = a.ask(ctx, at, http.MethodGet, "/releases/latest", nil, "")
	if err == nil {
		s.latest, err = a.published(r)
	}
	if err != nil {
		return state{}, err
	}
	s.asked = time.Now()
	r, err = a.ask(ctx, at, http.MethodGet, "/items", nil, "")
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
	r, err := a.ask(ctx, at, method, path, encode(i), jsonType)
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
	// This one the server has outside the namespace.
	r, err := request(ctx, at, a.Address, http.MethodDelete, "/items/"+strconv.FormatInt(i.ID, 10), a.Token, url.Values{"operator": {a.User}}, nil, "")
	return cmp.Or(err, r.silent())
}

func (a Admin) publish(ctx context.Context, at place, title, comment string) (published, error) {
	form := url.Values{"name": {title}, "comment": {comment}, "operator": {a.User}}
	r, err := a.ask(ctx, at, http.MethodPost, "/releases", []byte(form.Encode()), "application/x-www-form-urlencoded")
	if err != nil {
		return published{}, err
	}
	p, err := a.published(r)
	if err == nil && p.ID == 0 {
		err = fmt.Errorf("%s: %w: no release", r.server, ErrNotApollo)
	}
	return p, err
}
