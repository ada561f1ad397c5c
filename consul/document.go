package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/consul/api"

	"github.com/rulewire/rulewire/datasource"
)

// document is the key that a source or a sink stands for.
type document struct {
	settings
	client  *api.Client
	key, id string
}

func newDocument(client *api.Client, key string, sink bool, options []Option) (document, error) {
	var set settings
	err := set.apply(key, sink, options)
	if client == nil {
		err = errNoClient
	}
	if err != nil {
		return document{}, fmt.Errorf("consul: %w", err)
	}
	return document{settings: set, client: client, key: key, id: set.id(key)}, nil
}

// answer is what Consul says of the key.
type answer struct {
	doc      datasource.Document
	index    uint64 // from which the next query blocks
	flags    uint64
	oversize int // bytes of a document over the cap, which is not handed over
}

// get asks without blocking.
func (d *document) get(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.query(ctx, d.mode, 0, 0)
}

func (d *document) query(ctx context.Context, mode Mode, index uint64, wait time.Duration) (answer, error) {
	token, err := d.tokenNow(ctx)
	if err != nil {
		return answer{}, err
	}
	options := &api.QueryOptions{
		Namespace: d.namespace, Partition: d.partition, Datacenter: d.datac, Token: token,
		RequireConsistent: mode == Consistent, AllowStale: mode == Stale, WaitIndex: index, WaitTime: wait,
	}
	pair, meta, err := d.client.KV().Get(d.key, options.WithContext(ctx))
	if err != nil {
		return answer{}, plain(err)
	}
	if mode == Stale && !meta.KnownLeader {
		return answer{}, errNoLeader
	}
	if pair == nil {
		if meta.LastIndex == 0 {
			return answer{}, errNoIndex // "no such page" of a proxy must not be taken for "no rules"
		}
		return answer{doc: datasource.Document{Presence: datasource.Missing, Order: meta.LastIndex}, index: meta.LastIndex}, nil
	}
	a := answer{index: cmp.Or(meta.LastIndex, pair.ModifyIndex, 1), flags: pair.Flags, doc: datasource.Document{
		Presence: datasource.Present, Data: pair.Value,
		Revision: strconv.FormatUint(pair.ModifyIndex, 10), Order: pair.ModifyIndex,
	}}
	if n := len(pair.Value); n > d.maxBytes {
		a.doc.Data, a.oversize = nil, n
	}
	return a, nil
}

func (d *document) tokenNow(ctx context.Context) (string, error) {
	if d.token == nil {
		return "", nil
	}
	token, err := d.token(ctx)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return token, nil
}

func tooLarge(n, limit int) error {
	return fmt.Errorf("%w: %d bytes, the limit is %d", datasource.ErrTooLarge, n, limit)
}

// plain takes the URL out of an error of the transport. Its wait time and index differ from one attempt to the next, and
// a log that tells each condition once goes by the text. It also marks what says that access is denied.
func plain(err error) error {
	var page *url.Error
	if errors.As(err, &page) {
		return page.Err
	}
	var status api.StatusError
	if !errors.As(err, &status) {
		return err
	}
	err = &statusError{status}
	if status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden {
		err = fmt.Errorf("%w: %w", datasource.ErrDenied, err)
	}
	return err
}

// statusError is Consul's answer that is no answer, shortened for people.
type statusError struct{ api.StatusError }

func (e *statusError) Error() string {
	body := e.Body
	if len(body) > shownBody {
		cut := shownBody
		for cut > 0 && !utf8.RuneStart(body[cut]) {
			cut--
		}
		body = body[:cut] + "…"
	}
	return fmt.Sprintf("%d %s: %s", e.Code, http.StatusText(e.Code), body)
}

// Unwrap gives the client's error.
func (e *statusError) Unwrap() error { return e.StatusError }
