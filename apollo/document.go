package apollo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rulewire/rulewire/datasource"
)

// document is the key that a source or a sink stands for.
type document struct {
	settings
	client  *Client
	space   *namespace
	key, id string
}

func newDocument(client *Client, namespace, key string, sink bool, options []Option) (document, error) {
	fail := func(err error) (document, error) { return document{}, fmt.Errorf("apollo: %w", err) }
	if client == nil {
		return fail(errors.New("client is nil"))
	}
	set := settings{sink: sink}
	if err := set.apply(client, options); err != nil {
		return fail(err)
	}
	namespace = bare(namespace)
	if err := checkName("namespace", namespace); err != nil {
		return fail(err)
	}
	if key == "" {
		return fail(errors.New("key is empty"))
	}
	if key == "." || key == ".." {
		return fail(fmt.Errorf("key %q does not survive in a URL", key))
	}
	formats := []string{".json", ".yaml", ".yml", ".txt", ".xml"}
	if slices.Contains(formats, strings.ToLower(path.Ext(namespace))) && key != Content {
		return fail(fmt.Errorf("key %q: namespace %q is one document, its key is %q", key, namespace, Content))
	}
	return document{
		settings: set, client: client, space: client.space(namespace), key: key,
		id: "apollo:" + client.app + "/" + client.cluster + "/" + namespace + "/" + key,
	}, nil
}

func (d *document) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d.timeout, fmt.Errorf("no answer within %v: %w", d.timeout, context.DeadlineExceeded))
}

func (d *document) fetch(ctx context.Context) (*release, error) {
	ctx, cancel := d.bound(ctx)
	defer cancel()
	return d.space.fetch(ctx)
}

// of takes the document out of a release.
func (d *document) of(r *release) (datasource.Document, error) {
	text, there := r.values[d.key]
	if !there {
		return datasource.Document{Presence: datasource.Missing}, nil
	}
	if n := len(text); n > d.maxBytes {
		return datasource.Document{}, fmt.Errorf("%w: %d bytes, the limit is %d", datasource.ErrTooLarge, n, d.maxBytes)
	}
	return datasource.Document{Presence: datasource.Present, Data: []byte(text), Revision: r.key}, nil
}

func (d *document) place() place {
	return place{client: d.client, namespace: d.space.name, key: d.key}
}

// twice says whether data is a JSON document that was made a JSON string.
func twice(data []byte) bool {
	if len(data) < 2 || data[0] != '"' {
		return false
	}
	var text string
	return json.Unmarshal(data, &text) == nil && jsontext.Value(text).IsValid() && strings.ContainsAny(text[:1], "[{")
}

// late is a context for what must be tried although the write's has ended, or is about to.
func (d *document) late(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.timeout)
	stop := context.AfterFunc(ctx, func() {
		_ = sleep(late, afterwards)
		cancel()
	})
	return late, func() {
		stop()
		cancel()
	}
}
