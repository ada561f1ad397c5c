package etcd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rulewire/rulewire/datasource"
)

// document is the key that a source or a sink stands for.
type document struct {
	client   *clientv3.Client
	key, id  string
	timeout  time.Duration
	maxBytes int
}

func newDocument(client *clientv3.Client, key string, sink bool, options []Option) (document, error) {
	var set settings
	err := set.apply(key, options)
	if client == nil {
		err = errNoClient
	}
	if err != nil {
		return document{}, fmt.Errorf("etcd: %w", err)
	}
	key = set.prefix + key
	return document{client: client, key: key, id: "etcd:" + key, timeout: set.timeout, maxBytes: set.limit(key, sink)}, nil
}

// get reads the document and the store's revision at that moment.
func (d *document) get(ctx context.Context) (doc datasource.Document, at int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if err := d.connect(ctx); err != nil {
		return doc, 0, err
	}
	// A transaction with one read is as linearizable as a Get. But a Get the client repeats up to a hundred times within
	// 2.5 s while the server says that it is unavailable; how often a failing store is asked is the engine's (F116).
	answer, err := d.commit(ctx, func(t clientv3.Txn) clientv3.Txn { return t.Then(clientv3.OpGet(d.key)) })
	if err != nil {
		return doc, 0, denied(err)
	}
	if len(answer.Responses) == 0 {
		return doc, 0, errNoResponses
	}
	at = answer.Header.GetRevision()
	kvs := answer.Responses[0].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return datasource.Document{Presence: datasource.Missing, Order: uint64(at)}, at, nil
	}
	if n := len(kvs[0].Value); n > d.maxBytes {
		return doc, at, fmt.Errorf("%w: %d bytes, the limit is %d", datasource.ErrTooLarge, n, d.maxBytes)
	}
	return present(kvs[0]), at, nil
}

func present(kv *mvccpb.KeyValue) datasource.Document {
	return datasource.Document{
		Presence: datasource.Present, Data: kv.Value,
		Revision: strconv.FormatInt(kv.ModRevision, 10), Order: uint64(kv.ModRevision),
	}
}
