package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/consul/api"

	"github.com/rulewire/rulewire/datasource"
)

const (
	// firstPause and longestPause bound the pace of queries that are answered early and without a change.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
	// shownBody is how much of an error's body is worth showing: a proxy may send a page.
	shownBody = 200
)

// What Consul's answers can be wrong about.
var (
	errNoClient = errors.New("client is nil")
	errFell     = errors.New("index fell: a snapshot was restored, or another server answers")
	errNoIndex  = errors.New("answer without an index: it is not Consul's")
	errNoLeader = errors.New("stale answer of a server that knows no leader")
	errSilent   = errors.New("blocking query was not answered in time")
)

var _ datasource.Watcher = (*Source)(nil)

// Source reads and watches one key.
type Source struct{ document }

// NewSource makes a source of the document at key. It does no I/O. The client is borrowed.
func NewSource(client *api.Client, key string, options ...Option) (*Source, error) {
	d, err := newDocument(client, key, false, options)
	if err != nil {
		return nil, err
	}
	return &Source{d}, nil
}

// ID is "consul:" with the key, and with datacenter, namespace and partition where they are set.
func (s *Source) ID() string { return s.id }

// Read reads the document, consistently unless Consistency says otherwise.
func (s *Source) Read(ctx context.Context) (datasource.Document, error) {
	a, err := s.get(ctx)
	if err != nil {
		return datasource.Document{}, err
	}
	if a.oversize > 0 {
		return datasource.Document{}, tooLarge(a.oversize, s.maxBytes)
	}
	return a.doc, nil
}

// Watch delivers what comes after last, by blocking queries. It returns when ctx ends, on every error and when the index
// falls.
func (s *Source) Watch(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
	index := last.Order // 0 asks for what is there now
	var pause time.Duration
	for {
		begin := time.Now()
		wait := s.wait - rand.N(s.wait/10+1)
		a, err := s.block(ctx, index, wait)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil:
			return err
		case a.index < index, a.doc.Order < last.Order && a.doc.Presence == datasource.Present:
			return fmt.Errorf("%w: from %d to %d", errFell, index, a.index)
		}
		index = a.index
		if a.doc.Presence != last.Presence || a.doc.Revision != last.Revision {
			last, pause = a.doc, 0
			if a.oversize > 0 {
				a.doc = datasource.Hint() // the read that follows says that it is too large
			}
			deliver(a.doc)
			continue // what is next waits in the store for a change of this very document
		}
		// Nothing changed: the time is up, or the index moved without the document, or the server does not block. The
		// latter two must not become a loop (F116, F118).
		took := time.Since(begin)
		if took >= longestPause {
			pause = 0
			continue
		}
		pause = min(max(2*pause, firstPause), longestPause)
		if err := sleep(ctx, pause-took); err != nil {
			return err
		}
	}
}

// block sends one blocking query. A connection that died in silence must not hold it for ever.
func (s *Source) block(ctx context.Context, index uint64, wait time.Duration) (answer, error) {
	patience := wait + wait/16 + s.timeout // Consul adds up to a sixteenth
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	a, err := s.query(ctx, s.mode, index, wait)
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		err = fmt.Errorf("%w: %v", errSilent, patience)
	}
	return a, err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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
// a log that tells each condition once goes by the text.
func plain(err error) error {
	var page *url.Error
	if errors.As(err, &page) {
		return page.Err
	}
	var status api.StatusError
	if errors.As(err, &status) {
		return &statusError{status}
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
