package apollo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
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
	asked     time.Time // when the items were, before which nothing of this is known
	namespace int64     // the admin service's number
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
		return reply{}, &unsentError{errClosed}
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

// unknownNamespace says what a 404 of the namespace itself means.
func unknownNamespace(err error, p place) error {
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound && !errors.Is(err, ErrNotApollo) {
		return fmt.Errorf("%w: app id %q, cluster %q, namespace %q", ErrNoNamespace, p.client.app, p.client.cluster, p.namespace)
	}
	return err
}
