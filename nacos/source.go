package nacos

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rulewire/rulewire/datasource"
)

const (
	// busyPause is the first pause before a server that is taking a new text over is asked again, at most busyTries times;
	// pauses double.
	busyPause = 10 * time.Millisecond
	busyTries = 4
)

// publicNamespace is the name of the public namespace where people read it; its id is empty.
const publicNamespace = "public"

// Source reads and watches one document. Its methods may be called from any goroutine.
type Source struct{ *document }

var _ datasource.Watcher = (*Source)(nil)

// NewSource makes a source of the document dataID in group ("" is DEFAULT_GROUP) and in the client's namespace. It does
// no I/O. The client is borrowed for its configuration: requests and notifications go over a connection of Rulewire's
// own, which all sources and sinks of the client share.
func NewSource(client config_client.IConfigClient, dataID, group string, options ...Option) (*Source, error) {
	d, err := newDocument(false, client, dataID, group, options)
	if err != nil {
		return nil, err
	}
	return &Source{d}, nil
}

// ID is "nacos:", the id of the namespace where it is not the public one, the group and the data id, with slashes between.
func (d *document) ID() string { return d.id }

// Note says what a status should show: a namespace that is likely a mistake.
func (s *Source) Note() string {
	if s.hub.account.config.NamespaceId == publicNamespace {
		return `namespace "public": servers before 3.0 keep the public namespace under the empty id, and another one under this`
	}
	return ""
}

// Read reads the document as the server serves it. A server follows its database by some milliseconds; each server of a
// cluster does so by itself.
func (d *document) Read(ctx context.Context) (datasource.Document, error) {
	ctx, cancel := d.bound(ctx)
	defer cancel()
	return d.get(ctx)
}

// Watch delivers a hint for each change that the server notifies of or that a comparison of checksums finds. It ends with
// ctx, with the connection, and when the server does not let the client listen.
func (s *Source) Watch(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
	opening, cancel := s.bound(ctx)
	c, release, err := s.hub.acquire(opening)
	cancel()
	if err != nil {
		return err
	}
	defer release()
	if last.Presence == datasource.Unknown {
		deliver(datasource.Hint())
	}
	sub := &subscription{
		key: s.key, compare: s.settings.compare, seen: s.seen(last),
		signal: make(chan struct{}, 1), failed: make(chan error, 1),
	}
	c.subscribe(sub)
	defer c.unsubscribe(sub)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ended:
			return c.err
		case err := <-sub.failed:
			return fmt.Errorf("listen: %w", err)
		case <-sub.signal:
			deliver(datasource.Hint())
		}
	}
}

// seen gives the checksum to compare with: that of the last read, which is that of last at the beginning unless somebody
// read on behalf of another watch meanwhile.
func (d *document) seen(last datasource.Document) func() string {
	before := d.last.Load()
	return func() string {
		if now := d.last.Load(); now != before && now != nil {
			return now.Revision
		}
		return last.Revision
	}
}

// document is what source and sink share.
type document struct {
	id       string
	key      key
	hub      *hub
	settings settings
	// last is the document of the last read, or what is known of it where it was too large to keep.
	last atomic.Pointer[datasource.Document]
}

func newDocument(sink bool, client config_client.IConfigClient, dataID, group string, options []Option) (d *document, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("nacos: %w", err)
		}
	}()
	s, err := configure(sink, options)
	if err != nil {
		return nil, err
	}
	k, err := newKey(dataID, group)
	if err != nil {
		return nil, err
	}
	h, err := hubOf(client, s.provider, s.signIn)
	if err != nil {
		return nil, err
	}
	return &document{id: k.id(h.account.config.NamespaceId), key: k, hub: h, settings: s}, nil
}

func (d *document) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d.settings.timeout,
		fmt.Errorf("no answer within %v: %w", d.settings.timeout, context.DeadlineExceeded))
}

func (d *document) get(ctx context.Context) (datasource.Document, error) {
	c, release, err := d.hub.acquire(ctx)
	if err != nil {
		return datasource.Document{}, err
	}
	defer release()
	return d.query(ctx, c)
}

func (d *document) query(ctx context.Context, c *conn) (datasource.Document, error) {
	var reply queryAnswer
	var err error
	for wait, again := busyPause, 0; ; wait, again = 2*wait, again+1 {
		reply = queryAnswer{}
		err = c.call(ctx, d.key, typeQuery, d.request(c), typeQueryAnswer, &reply,
			grpc.MaxCallRecvMsgSize(escaped*d.settings.maxBytes+envelopeRoom))
		// While the server's cache takes a new text over, which is a matter of milliseconds, it asks to come again.
		if !isRefusal(err) || reply.ErrorCode != codeBusy || again == busyTries || pause(ctx, wait) != nil {
			break
		}
	}
	missing := false
	switch {
	case reply.ErrorCode == codeNotFound && isRefusal(err):
		missing = true
	case status.Code(err) == codes.ResourceExhausted:
		return datasource.Document{}, fmt.Errorf("%w: the answer is more than %d bytes can be: %w", datasource.ErrTooLarge, d.settings.maxBytes, err)
	case err != nil:
		return datasource.Document{}, err
	}
	if missing || reply.Content == "" {
		// Nacos has no empty documents: it refuses to store one, and where a client gets "" there is none.
		doc := datasource.Document{Presence: datasource.Missing}
		d.last.Store(&doc)
		return doc, nil
	}
	if n := len(reply.Content); n > d.settings.maxBytes {
		d.last.Store(&datasource.Document{Revision: reply.MD5}) // so that a comparison does not find it new each time
		return datasource.Document{}, fmt.Errorf("%w: %d bytes, the limit is %d", datasource.ErrTooLarge, n, d.settings.maxBytes)
	}
	// An unchanged document keeps its bytes and its checksum: one compare.
	if last := d.last.Load(); last != nil && last.Presence == datasource.Present && string(last.Data) == reply.Content {
		return *last, nil
	}
	data := []byte(reply.Content)
	doc := datasource.Document{Presence: datasource.Present, Data: data, Revision: sum(data)}
	if reply.MD5 != "" && !strings.EqualFold(reply.MD5, doc.Revision) {
		return datasource.Document{}, fmt.Errorf("%w: the content has checksum %s, the server says %s", errAnswer, doc.Revision, short(reply.MD5))
	}
	d.last.Store(&doc)
	return doc, nil
}

func (d *document) request(c *conn) configRequest {
	return configRequest{place: c.place(d.key), Module: "config"}
}

// pause waits for d, or says why not.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
