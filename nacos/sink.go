package nacos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

const (
	// firstLook is the first pause before what was written is looked for; pauses double up to nextLook.
	firstLook = 5 * time.Millisecond
	nextLook  = 200 * time.Millisecond
	// settle is how long after a refused write the server may take until it serves what stood in its way.
	settle = time.Second
	// emptySum is the checksum of a document without bytes, which Nacos can't hold: a write that expects it succeeds only
	// where there is none.
	emptySum = "d41d8cd98f00b204e9800998ecf8427e"
)

var (
	errEmptyDocument = fmt.Errorf("nacos can't hold an empty document: %w", datasource.ErrUnsupported)
	errNotText       = fmt.Errorf("nacos holds text, and this is not UTF-8: %w", datasource.ErrUnsupported)
	errNoCompare     = fmt.Errorf("the server ignores the checksum of a conditional write; option ReadCompareWrite accepts that: %w", datasource.ErrUnsupported)
	errNotServed     = errors.New("the server accepted the write and does not serve it")
)

// Sink writes one document, compare-and-set on its checksum. Its methods may be called from any goroutine.
type Sink struct{ *document }

var _ writable.Sink = (*Sink)(nil)

// NewSink makes a sink for the document dataID in group ("" is DEFAULT_GROUP) and in the client's namespace, which need
// not exist yet. It does no I/O. The client is borrowed, as by NewSource.
func NewSink(client config_client.IConfigClient, dataID, group string, options ...Option) (*Sink, error) {
	d, err := newDocument(true, client, dataID, group, options)
	if err != nil {
		return nil, err
	}
	return &Sink{d}, nil
}

// Write stores data if the checksum of the document is expected, writable.Absent meaning that there must be none, and
// returns when the server serves it. The server compares in its database, in one statement.
//
// It compares nothing where there is no document: whatever is expected, the write then creates it, and a server with its
// embedded database says yes to each of several that do so at once. So Write looks whether the document is there, refuses
// to create one that was expected to exist, and counts as the creator whose text is served afterwards. A deletion in the
// milliseconds between the look and the write is undone by the write.
//
// A write whose answer got lost is looked for; see datasource.ErrUnknownOutcome.
func (s *Sink) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	switch {
	case len(data) > s.settings.maxBytes:
		return s.fail("", fmt.Errorf("%w: %d bytes, the limit is %d", datasource.ErrTooLarge, len(data), s.settings.maxBytes))
	case len(bytes.TrimSpace(data)) == 0:
		return s.fail("", errEmptyDocument)
	case !utf8.Valid(data):
		return s.fail("", errNotText)
	}
	caller := ctx
	ctx, cancel := s.bound(ctx)
	defer cancel()
	c, release, err := s.hub.acquire(ctx)
	if err != nil {
		return s.fail("", err)
	}
	defer release()
	before, err := s.query(ctx, c)
	if err != nil && !errors.Is(err, datasource.ErrTooLarge) {
		return s.fail("", err)
	}
	missing := err == nil && before.Presence == datasource.Missing
	compares, err := s.hub.probe.compares(ctx, c, s.key.group)
	switch {
	case err != nil:
		return s.fail(before.Revision, fmt.Errorf("trying whether the server compares: %w", err))
	case !compares && !s.settings.readCompare:
		return s.fail(before.Revision, errNoCompare)
	case missing != (expected == writable.Absent), !compares && before.Revision != expected:
		return s.conflict(before, expected)
	}
	// Another revision than expected may be one that the server has not caught up with: the database decides.
	written := datasource.Document{Presence: datasource.Present, Data: bytes.Clone(data), Revision: sum(data)}
	err = s.publish(ctx, c, data, expected)
	var refusal *ServerError
	switch {
	case err == nil:
		return s.served(caller, ctx, written, before)
	case errors.Is(err, datasource.ErrTooLarge), errors.Is(err, ErrDenied):
		return s.fail(before.Revision, err)
	case errors.As(err, &refusal):
		return s.refused(caller, ctx, written, expected, before, refusal)
	}
	return s.lookBack(caller, written, expected, err)
}

func (s *Sink) publish(ctx context.Context, c *conn, data []byte, expected string) error {
	if expected == writable.Absent {
		expected = emptySum
	}
	request := publishRequest{configRequest: s.request(c), Content: string(data), CasMD5: expected, Additions: s.additions()}
	err := c.call(ctx, s.key, typePublish, request, "", new(answer))
	switch status.Code(err) {
	case codes.ResourceExhausted:
		return fmt.Errorf("%w: %w", datasource.ErrTooLarge, err)
	case codes.Canceled, codes.Unavailable:
		// Nacos's own way to refuse a request that is too long: it resets the stream and gives no reason.
		if sent, failed := json.Marshal(request); failed == nil && ctx.Err() == nil && len(sent) > sendLimit {
			return fmt.Errorf("%w: a request of %d bytes, the server's limit is %d: %w", datasource.ErrTooLarge, len(sent), sendLimit, err)
		}
	}
	return err
}

func (s *Sink) additions() map[string]string {
	a := map[string]string{"type": s.settings.contentType}
	if name := s.hub.account.config.AppName; name != "" {
		a["appName"] = name
	}
	if user, _ := s.hub.account.signIn.get(); user != "" {
		a["src_user"] = user
	}
	return a
}

// served waits until the server serves what it accepted, or what somebody wrote after it. It looks again over another
// connection where the one that wrote broke: who has written must not read an older document afterwards.
func (s *Sink) served(caller, ctx context.Context, written, before datasource.Document) (datasource.Document, error) {
	created := before.Presence == datasource.Missing
	for wait := firstLook; ; wait = min(2*wait, nextLook) {
		now, err := s.get(ctx)
		switch {
		case err == nil && now.Revision == written.Revision:
			return written, nil
		case err == nil && created && now.Presence == datasource.Present:
			// With its embedded database a server says yes to everybody who creates a document at the same time, and keeps
			// the first one's. What it serves tells who that was.
			return s.conflict(now, writable.Absent)
		case err == nil && now.Presence == datasource.Present && now.Revision != before.Revision:
			return written, nil // it was in force before what came after it
		case errors.Is(err, ErrDenied) && !created:
			return written, nil // who may write and not read can't look
		}
		if pause(ctx, wait) == nil {
			continue
		}
		switch {
		case err == nil:
			err = errNotServed
		case !created && caller.Err() == nil:
			return written, nil // the write was accepted; that nobody can look at it now does not undo it
		}
		return s.fail(written.Revision, fmt.Errorf("%w: %w", datasource.ErrUnknownOutcome, err))
	}
}

// refused tells a conflict from other refusals: the server has one code for all. It is a conflict if the server serves
// another revision than expected, now or as soon as it has caught up, or if its text says so. Where it serves what was
// written, its database failed after it had committed.
func (s *Sink) refused(caller, ctx context.Context, written datasource.Document, expected string, before datasource.Document, refusal *ServerError) (datasource.Document, error) {
	end := time.Now().Add(settle)
	for wait := firstLook; ; wait = min(2*wait, nextLook) {
		now, err := s.get(ctx)
		switch {
		case err == nil && now.Revision == written.Revision && now.Revision != before.Revision && !saysConflict(refusal):
			return written, nil
		case err == nil && now.Revision != expected:
			return s.conflict(now, expected)
		case err == nil && time.Now().Before(end) && pause(ctx, wait) == nil:
		case saysConflict(refusal):
			return s.conflict(datasource.Document{Presence: datasource.Present}, expected) // which one, nobody can tell yet
		case err != nil:
			return s.lookBack(caller, written, expected, refusal)
		default:
			return s.fail(before.Revision, refusal)
		}
	}
}

// saysConflict looks at the text of a refusal, for Nacos has nothing else for a conflict: code 500 is also that of a
// database that is down. The text has been the same since 2.0. Where it changes, refused still finds most conflicts by
// what the server serves.
func saysConflict(e *ServerError) bool { return strings.Contains(e.Message, "Cas publish fail") }

// lookBack finds out what became of a write whose answer was lost. A request that has not taken place yet may still
// arrive; then the comparison decides about it as about any other.
func (s *Sink) lookBack(caller context.Context, written datasource.Document, expected string, cause error) (datasource.Document, error) {
	unknown := func(err error) (datasource.Document, error) {
		return s.fail("", fmt.Errorf("%w: %w", datasource.ErrUnknownOutcome, err))
	}
	if caller.Err() != nil {
		return unknown(cause)
	}
	ctx, cancel := s.bound(caller)
	defer cancel()
	end := time.Now().Add(settle)
	for wait := firstLook; ; wait = min(2*wait, nextLook) {
		now, err := s.get(ctx)
		switch {
		case err == nil && now.Presence == datasource.Present && now.Revision == written.Revision:
			return written, nil
		case err == nil && now.Revision != expected:
			// Somebody else's document: whether ours was there before it, nobody knows.
			return unknown(fmt.Errorf("%w; the document is another one now", cause))
		case time.Now().After(end) || pause(ctx, wait) != nil:
			if err != nil {
				cause = fmt.Errorf("%w; and reading it back: %w", cause, err)
			}
			return unknown(cause)
		}
	}
}

func (s *Sink) conflict(now datasource.Document, expected string) (datasource.Document, error) {
	return s.fail(now.Revision, fmt.Errorf("%w: expected revision %q, the document is %s", datasource.ErrConflict, expected, now.Presence))
}

func (s *Sink) fail(revision string, err error) (datasource.Document, error) {
	return datasource.Document{}, &datasource.Error{Op: "write", SourceID: s.id, Revision: revision, Err: err}
}
