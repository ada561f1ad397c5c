package apollo

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

var _ Editor = Portal{}

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
	asked := time.Now()
	r, err = p.ask(ctx, at, http.MethodGet, "", nil, nil)
	if err == nil {
		err = r.into(&namespace)
	}
	if err == nil && namespace.Name == "" {
		err = fmt.Errorf("%s: %w: no namespace", r.server, ErrNotApollo)
	}
	return state{asked: asked, items: namespace.Items, latest: published{ID: latest.ID, Values: latest.Configurations}}, unknownNamespace(err, at)
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

func plainKey(key string) bool {
	return strings.Trim(key, ".") != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("._-", r))
	})
}
