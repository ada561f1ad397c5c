package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

var _ writable.Sink = (*Sink)(nil)

// Sink writes one key, compare-and-set on its mod revision.
type Sink struct{ document }

// NewSink makes a sink of the document at key. It does no I/O. The client is borrowed.
func NewSink(client *clientv3.Client, key string, options ...Option) (*Sink, error) {
	d, err := newDocument(client, key, true, options)
	if err != nil {
		return nil, err
	}
	return &Sink{d}, nil
}

// ID is "etcd:" with prefix and key, as that of the Source.
func (s *Sink) ID() string { return s.id }

// Read reads the document, linearizably.
func (s *Sink) Read(ctx context.Context) (datasource.Document, error) {
	doc, _, err := s.get(ctx)
	if err != nil {
		return datasource.Document{}, s.fail("read", "", err)
	}
	return doc, nil
}

// Write replaces the value if the mod revision is expected. A conflict says the current revision in its
// *datasource.Error.
func (s *Sink) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	fail := func(err error) (datasource.Document, error) {
		return datasource.Document{}, s.fail("write", expected, err)
	}
	if n := len(data); n > s.maxBytes {
		return fail(fmt.Errorf("%w: %d bytes, the limit is %d", datasource.ErrTooLarge, n, s.maxBytes))
	}
	revision, err := parse(expected)
	if err != nil {
		// etcd never gave this revision, so it can't be the current one.
		doc, _, readErr := s.get(ctx)
		return datasource.Document{}, s.conflict(doc, expected, errors.Join(err, readErr))
	}
	if err := s.connect(ctx); err != nil {
		return fail(err) // nothing was sent
	}
	doc, current, err := s.swap(ctx, data, revision)
	switch {
	case err == nil && current == nil:
		return doc, nil
	case err == nil:
		return datasource.Document{}, s.conflict(*current, expected, nil)
	case refused(err):
		return fail(denied(tooLarge(err)))
	}
	return s.lookBack(ctx, data, expected, revision, err)
}

// swap sends the write. current is what the store has instead of the expected revision.
func (s *Sink) swap(ctx context.Context, data []byte, revision int64) (doc datasource.Document, current *datasource.Document, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var options []clientv3.OpOption
	if revision > 0 {
		options = append(options, clientv3.WithIgnoreLease()) // whoever gave the key a lease wants it to expire
	}
	// A key that does not exist compares as revision 0.
	answer, err := s.commit(ctx, func(t clientv3.Txn) clientv3.Txn {
		return t.If(clientv3.Compare(clientv3.ModRevision(s.key), "=", revision)).
			Then(clientv3.OpPut(s.key, string(data), options...)).Else(clientv3.OpGet(s.key))
	})
	if err != nil {
		return doc, nil, err
	}
	at := answer.Header.GetRevision()
	if answer.Succeeded {
		return datasource.Document{
			Presence: datasource.Present, Data: data, Revision: strconv.FormatInt(at, 10), Order: uint64(at),
		}, nil, nil
	}
	current = &datasource.Document{Presence: datasource.Missing, Order: uint64(at)}
	if len(answer.Responses) > 0 && len(answer.Responses[0].GetResponseRange().GetKvs()) > 0 {
		*current = present(answer.Responses[0].GetResponseRange().Kvs[0])
	}
	return doc, current, nil
}

// lookBack finds out what became of a write whose answer was lost. A request that has not taken place yet may still
// arrive; then the comparison decides about it as about any other.
func (s *Sink) lookBack(ctx context.Context, data []byte, expected string, revision int64, cause error) (datasource.Document, error) {
	doc, _, err := s.get(ctx)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w; and reading it back: %w", datasource.ErrUnknownOutcome, cause, err)
	case doc.Presence == datasource.Present && int64(doc.Order) > revision && bytes.Equal(doc.Data, data):
		return doc, nil
	case doc.Revision == expected:
		err = cause
	default:
		// Somebody else's document: whether ours was there before it, nobody knows.
		expected = doc.Revision
		err = fmt.Errorf("%w: %w; the document is another one now", datasource.ErrUnknownOutcome, cause)
	}
	return datasource.Document{}, s.fail("write", expected, err)
}

func (s *Sink) conflict(current datasource.Document, expected string, cause error) error {
	err := fmt.Errorf("%w: expected revision %q, the document is %s", datasource.ErrConflict, expected, current.Presence)
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return s.fail("write", current.Revision, err)
}

func (s *Sink) fail(op, revision string, err error) error {
	return &datasource.Error{Op: op, SourceID: s.id, Revision: revision, Err: err}
}

// parse gives the mod revision that an expected revision means, 0 for absent.
func parse(expected string) (int64, error) {
	if expected == writable.Absent {
		return 0, nil
	}
	revision, err := strconv.ParseInt(expected, 10, 64)
	if err == nil && revision <= 0 {
		err = strconv.ErrRange
	}
	if err != nil {
		return 0, fmt.Errorf("%q is no revision of etcd: %w", expected, err)
	}
	return revision, nil
}

// refused says whether etcd answered that it did not do it. All else leaves the outcome open: the request may have been
// sent, and may be done yet.
func refused(err error) bool {
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.ResourceExhausted,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return true
	default:
		return false
	}
}

func code(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

// tooLarge marks what says that the request was over a limit: etcd's own, or gRPC's on either side.
func tooLarge(err error) error {
	var e rpctypes.EtcdError
	if errors.Is(err, rpctypes.ErrRequestTooLarge) || !errors.As(err, &e) && status.Code(err) == codes.ResourceExhausted {
		return fmt.Errorf("%w: %w", datasource.ErrTooLarge, err)
	}
	return err
}
