package redis

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/datasource"
)

// ErrWrongType: the key holds a list, a hash or the like, and no document can be read there.
var ErrWrongType = errors.New("the key holds another type than a string")

var errUnknownCommand = errors.New("the server does not know the command, or it was renamed")

// document is one key, as source and sink share it.
type document struct {
	id, key  string
	client   redis.UniversalClient
	timeout  time.Duration
	maxBytes int
	kind     kind

	// blank: the last answer had no bytes, so the next question must be one that tells missing from empty.
	blank atomic.Bool
	last  atomic.Pointer[datasource.Document]
}

// getter is what of a client, a transaction or a pipeline a read needs.
type getter interface {
	Get(ctx context.Context, key string) *redis.StringCmd
	GetRange(ctx context.Context, key string, start, end int64) *redis.StringCmd
}

// failed notes that a request or a subscription got no answer. A cluster client keeps to a master that died until it looks
// at the topology again, which by itself it does once a minute: it is told to look now.
func (d *document) failed(err error) {
	var answer redis.Error
	if d.kind.cluster != nil && !errors.As(err, &answer) && !errors.Is(err, context.Canceled) {
		d.kind.cluster.ReloadState(context.Background())
	}
}

// question asks a getter for the bytes.
type question func(getter) *redis.StringCmd

func (d *document) read(ctx context.Context) (datasource.Document, error) {
	ctx, cancel := d.bound(ctx)
	defer cancel()
	doc, err := d.ask(ctx, func(q question) ([]byte, error) {
		data, err := call(ctx, func() ([]byte, error) { return d.toMaster(ctx, q) })
		if err != nil {
			d.failed(err)
		}
		return data, err
	})
	if err != nil {
		return datasource.Document{}, explain(err)
	}
	return doc, nil
}

func (d *document) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d.timeout, fmt.Errorf("no answer within %v: %w", d.timeout, context.DeadlineExceeded))
}

// toMaster puts a question past replicas and caches: go-redis sends a transaction always to the master.
func (d *document) toMaster(ctx context.Context, q question) ([]byte, error) {
	if !d.kind.astray {
		return q(d.client).Bytes()
	}
	var answer *redis.StringCmd
	_, err := d.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		answer = q(p)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, telling(err, answer)
	}
	return answer.Bytes()
}

// ask finds out what the key holds. GETRANGE bounds what comes over, but answers "" for a missing key; GET tells these
// apart. It is asked only while the key is missing or empty, so that a read is one request either way; it has no bound.
func (d *document) ask(ctx context.Context, do func(question) ([]byte, error)) (datasource.Document, error) {
	var data []byte
	var err error
	if !d.blank.Load() {
		data, err = do(func(g getter) *redis.StringCmd { return g.GetRange(ctx, d.key, 0, int64(d.maxBytes)) })
	}
	if err == nil && len(data) == 0 {
		data, err = do(func(g getter) *redis.StringCmd { return g.Get(ctx, d.key) })
	}
	missing := errors.Is(err, redis.Nil)
	if err != nil && !missing {
		return datasource.Document{}, err
	}
	d.blank.Store(len(data) == 0)
	switch {
	case missing:
		return datasource.Document{Presence: datasource.Missing}, nil
	case len(data) > d.maxBytes:
		return datasource.Document{}, fmt.Errorf("%w: more than %d bytes", datasource.ErrTooLarge, d.maxBytes)
	}
	// An unchanged document keeps its bytes and its hash: one compare, and the new copy is garbage at once.
	if last := d.last.Load(); last != nil && bytes.Equal(last.Data, data) {
		return *last, nil
	}
	doc := datasource.Document{Presence: datasource.Present, Data: data, Revision: revision(data)}
	d.last.Store(&doc)
	return doc, nil
}

// revision is the hash of the content, for Redis has no revisions of its own.
func revision(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// call waits for f, but not longer than for ctx: go-redis heeds the end of ctx between attempts only, not while it
// waits for a server that is silent. What f began then ends with the client's own time-outs.
func call[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if ctx.Err() != nil {
		var none T
		return none, context.Cause(ctx)
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil { // of the user's code in the client: here nobody else would catch it
				r.err = fmt.Errorf("panic: %v", p)
			}
			done <- r
		}()
		r.value, r.err = f()
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// telling is the error that tells most: where a transaction was aborted, that of the command that made it so.
func telling(err error, cmds ...redis.Cmder) error {
	for _, c := range cmds {
		if e := c.Err(); e != nil && !redis.IsExecAbortError(e) {
			return e
		}
	}
	return err
}

// explain names the failures that a deployment causes.
func explain(err error) error {
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%w: %w", ErrWrongType, err)
	case redis.HasErrorPrefix(err, "unknown command"):
		return errUnknownCommand // the server's text quotes the arguments, a document among them
	case redis.IsAuthError(err), redis.IsPermissionError(err):
		return fmt.Errorf("%w: %w", datasource.ErrDenied, err)
	case redis.IsReadOnlyError(err):
		return fmt.Errorf("the server is a replica: %w", err)
	}
	return err
}
