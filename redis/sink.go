package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

// Sink writes one rule document to a key, compare-and-set on the hash of its content. Its methods may be called from
// any goroutine.
type Sink struct {
	doc     document
	channel string
}

var _ writable.Sink = (*Sink)(nil)

// NewSink makes a sink for key, which need not exist yet. It sends nothing. The client is borrowed.
func NewSink(client redis.UniversalClient, key string, options ...Option) (*Sink, error) {
	c, err := configure(config{maker: sinkMaker, channel: key}, options)
	if err != nil {
		return nil, err
	}
	k, err := kindOf(client)
	if err != nil {
		return nil, err
	}
	id, err := locate(k, key)
	if err != nil {
		return nil, err
	}
	return &Sink{
		doc:     document{id: id, key: key, client: client, timeout: c.timeout, maxBytes: c.maxBytes, kind: k},
		channel: c.channel,
	}, nil
}

// ID is that of the Source of the same key.
func (s *Sink) ID() string { return s.doc.id }

// Read gives the document as the master has it.
func (s *Sink) Read(ctx context.Context) (datasource.Document, error) { return s.doc.read(ctx) }

// The steps of a write, so that one that is given up knows whether anything was sent.
const (
	notSent int32 = iota
	sent
	givenUp
)

var errGivenUp = errors.New("given up")

// Write stores data if the hash of the key's content is expected, writable.Absent meaning that there must be no key, and
// publishes data on the channel, in one transaction (WATCH, MULTI, SET, PUBLISH, EXEC). Whatever else writes to the key
// meanwhile, a plain SET included, makes it a conflict. A time to live stays as it was (SET … KEEPTTL, Redis 6.0 or newer).
//
// A write whose answer got lost is read back; if the key does not hold data then, the error wraps
// datasource.ErrUnknownOutcome, for the request may still be under way.
func (s *Sink) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	if len(data) > s.doc.maxBytes {
		return s.fail("", fmt.Errorf("%w: %d bytes, at most %d", datasource.ErrTooLarge, len(data), s.doc.maxBytes))
	}
	data = bytes.Clone(data) // a request that is given up may still be writing
	written := datasource.Document{Presence: datasource.Present, Data: data, Revision: revision(data)}

	bounded, cancel := s.doc.bound(ctx)
	defer cancel()
	var step atomic.Int32
	now, err := call(bounded, func() (datasource.Document, error) {
		var now datasource.Document
		err := s.doc.client.Watch(bounded, func(tx *redis.Tx) (err error) {
			now, err = s.exchange(bounded, tx, data, expected, &step)
			return err
		}, s.doc.key)
		return now, err
	})
	if err != nil {
		s.doc.failed(err)
	}
	var refused redis.Error
	switch {
	case err == nil:
		return written, nil
	case errors.Is(err, redis.TxFailedErr):
		return s.conflict(ctx, expected)
	case errors.Is(err, datasource.ErrConflict):
		return s.fail(now.Revision, err)
	case step.CompareAndSwap(notSent, givenUp), errors.As(err, &refused):
		return s.fail("", explain(err)) // nothing was sent, or the server said no
	}
	if ctx.Err() == nil {
		if now, readErr := s.doc.read(ctx); readErr == nil && now.Presence == datasource.Present && bytes.Equal(now.Data, data) {
			return written, nil
		}
	}
	return s.fail("", fmt.Errorf("%w: %w", datasource.ErrUnknownOutcome, err))
}

// exchange compares and writes on a connection that watches the key. It gives what it found.
func (s *Sink) exchange(ctx context.Context, tx *redis.Tx, data []byte, expected string, step *atomic.Int32) (datasource.Document, error) {
	now, err := s.doc.ask(ctx, func(q question) ([]byte, error) { return q(tx).Bytes() })
	if err != nil {
		return now, err
	}
	if err := compare(now, expected); err != nil {
		return now, err
	}
	if !step.CompareAndSwap(notSent, sent) {
		return now, errGivenUp
	}
	cmds, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, s.doc.key, data, redis.KeepTTL)
		p.Publish(ctx, s.channel, data)
		return nil
	})
	if err != nil {
		err = telling(err, cmds...)
	}
	return now, err
}

func compare(now datasource.Document, expected string) error {
	missing := now.Presence == datasource.Missing
	switch {
	case missing && expected == writable.Absent, !missing && now.Revision == expected:
		return nil
	case missing:
		return fmt.Errorf("%w: there is no key, revision %s expected", datasource.ErrConflict, expected)
	case expected == writable.Absent:
		return fmt.Errorf("%w: there is a key, none expected", datasource.ErrConflict)
	}
	return fmt.Errorf("%w: revision %s expected", datasource.ErrConflict, expected)
}

// conflict reports that the key changed between the comparison and the write, with the revision it has now.
func (s *Sink) conflict(ctx context.Context, expected string) (datasource.Document, error) {
	now, err := s.doc.read(ctx)
	if err != nil {
		now = datasource.Document{}
	}
	return s.fail(now.Revision, fmt.Errorf("%w: the key was written at the same time, revision %q expected", datasource.ErrConflict, expected))
}

func (s *Sink) fail(revision string, err error) (datasource.Document, error) {
	return datasource.Document{}, &datasource.Error{Op: "write", SourceID: s.doc.id, Revision: revision, Err: err}
}
