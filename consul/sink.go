package consul

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/hashicorp/consul/api"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

var _ writable.Sink = (*Sink)(nil)

// Sink writes one key, check-and-set on its ModifyIndex.
type Sink struct{ document }

// NewSink makes a sink of the document at key. It does no I/O. The client is borrowed.
func NewSink(client *api.Client, key string, options ...Option) (*Sink, error) {
	d, err := newDocument(client, key, true, options)
	if err != nil {
		return nil, err
	}
	d.mode = Consistent
	return &Sink{d}, nil
}

// ID is that of the Source of the same document.
func (s *Sink) ID() string { return s.id }

// Read reads the document, consistently.
func (s *Sink) Read(ctx context.Context) (datasource.Document, error) {
	a, err := s.get(ctx)
	if err == nil && a.oversize > 0 {
		err = tooLarge(a.oversize, s.maxBytes)
	}
	if err != nil {
		return datasource.Document{}, s.fail("read", "", err)
	}
	return a.doc, nil
}

// Write replaces the value if the ModifyIndex is expected. A conflict says the current revision in its *datasource.Error.
func (s *Sink) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	fail := func(revision string, err error) (datasource.Document, error) {
		return datasource.Document{}, s.fail("write", revision, err)
	}
	if n := len(data); n > s.maxBytes {
		return fail(expected, tooLarge(n, s.maxBytes))
	}
	// Consul replaces a key's flags with its value, so they are read first. That also finds most conflicts, and a store
	// that is down, before anything is sent.
	before, err := s.get(ctx)
	switch {
	case err != nil:
		return fail(expected, err)
	case before.doc.Revision != expected:
		return fail(before.doc.Revision, conflict(expected, before.doc))
	}
	var index uint64
	if before.doc.Presence == datasource.Present {
		index = before.doc.Order
	}
	done, err := s.swap(ctx, &api.KVPair{Key: s.key, Value: data, Flags: before.flags, ModifyIndex: index})
	if err != nil && refused(err) {
		return fail(expected, sized(err))
	}
	return s.lookBack(ctx, data, expected, index, done, err)
}

func (s *Sink) swap(ctx context.Context, pair *api.KVPair) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	token, err := s.tokenNow(ctx)
	if err != nil {
		return false, &unsentError{err}
	}
	options := &api.WriteOptions{Namespace: s.namespace, Partition: s.partition, Datacenter: s.datac, Token: token}
	done, _, err := s.client.KV().CAS(pair, options.WithContext(ctx))
	if err != nil {
		return false, plain(err)
	}
	return done, nil
}

// lookBack finds out where a write has got to: Consul's "true" has no index, and an answer may be lost. A request whose
// answer was lost may still arrive; then the check decides about it as about any other.
func (s *Sink) lookBack(ctx context.Context, data []byte, expected string, index uint64, done bool, cause error) (datasource.Document, error) {
	after, err := s.get(ctx)
	now := after.doc
	switch {
	case err != nil && done:
		err = fmt.Errorf("%w: written, but reading it back: %w", datasource.ErrUnknownOutcome, err)
	case err != nil && cause == nil:
		err = fmt.Errorf("%w; and reading the current one: %w", datasource.ErrConflict, err)
	case err != nil:
		err = fmt.Errorf("%w: %w; and reading it back: %w", datasource.ErrUnknownOutcome, cause, err)
	case !done && cause == nil:
		return datasource.Document{}, s.fail("write", now.Revision, conflict(expected, now))
	case now.Presence == datasource.Present && now.Order > index && bytes.Equal(now.Data, data):
		return now, nil
	case done:
		// Somebody wrote or deleted right after us. Our index is gone; the one before theirs is not below it, belongs to
		// no later document, and so orders ours before theirs and makes the next write over it a conflict.
		order := now.Order - 1
		return datasource.Document{
			Presence: datasource.Present, Data: data, Revision: strconv.FormatUint(order, 10), Order: order,
		}, nil
	case now.Revision == expected:
		err = cause
	default:
		// Somebody else's document: whether ours was there before it, nobody knows.
		expected = now.Revision
		err = fmt.Errorf("%w: %w; the document is another one now", datasource.ErrUnknownOutcome, cause)
	}
	return datasource.Document{}, s.fail("write", expected, err)
}

func (s *Sink) fail(op, revision string, err error) error {
	return &datasource.Error{Op: op, SourceID: s.id, Revision: revision, Err: err}
}

func conflict(expected string, now datasource.Document) error {
	return fmt.Errorf("%w: expected revision %q, the document is %s", datasource.ErrConflict, expected, now.Presence)
}

// unsentError is a failure before anything was sent.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// refused says whether Consul answered that it did not do it, or was never asked. All else leaves the outcome open: a
// 500 may come after the write was handed to the leader.
func refused(err error) bool {
	var unsent *unsentError
	var dial *net.OpError
	if errors.As(err, &unsent) || errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	var status api.StatusError
	return errors.As(err, &status) && status.Code >= 400 && status.Code < 500
}

// sized marks the answer that the value is over the agent's limit.
func sized(err error) error {
	var status api.StatusError
	if errors.As(err, &status) && status.Code == http.StatusRequestEntityTooLarge {
		return fmt.Errorf("%w: %w", datasource.ErrTooLarge, err)
	}
	return err
}
