package etcd

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/writable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "/rules/flow"

// harness plays the conformance suite on the fake server. In real time: the client's watcher waits on a channel of its
// package, which no synctest bubble takes for idle.
type harness struct {
	*server
	c *clientv3.Client
}

func newHarness(t testing.TB) datasourcetest.Harness {
	s := newServer(t)
	return &harness{s, s.client(t)}
}

func (h *harness) Source() (datasource.Source, error) { return NewSource(h.c, key) }
func (h *harness) Sink() (writable.Sink, error)       { return NewSink(h.c, key) }
func (h *harness) Put(data []byte) error              { h.put(key, string(data)); return nil }
func (h *harness) Delete() error                      { h.remove(key); return nil }
func (h *harness) Expire() error                      { h.remove(key); return nil }
func (h *harness) PutNeighbour(data []byte) error     { h.put(key+"2", string(data)); return nil }
func (h *harness) Break() error                       { h.link.cut(true); return nil }
func (h *harness) Stall() error                       { h.hang(); return nil }
func (h *harness) Deny() error                        { h.fail(rpctypes.ErrGRPCPermissionDenied); return nil }
func (h *harness) Heal() error                        { h.heal(); return nil }
func (h *harness) Compact() error                     { h.compact(); return nil }
func (h *harness) Requests() int                      { return h.count() }
func (h *harness) Subscriptions() int                 { return h.subscriptions() }
func (h *harness) Limit() int                         { return requestLimit - requestOverhead - 3*len(key) }

func (h *harness) Restart() error {
	h.link.cut(true)
	h.link.cut(false)
	return nil
}

func (h *harness) Reset(data []byte) error {
	h.restore(5, change{key: key, value: data})
	return nil
}

func (h *harness) DeletePut(data []byte) error {
	h.do(func() { h.commit(change{key: key, delete: true}, change{key: key, value: data}) })
	return nil
}

func (h *harness) ClientClosed() bool { return h.c.Ctx().Err() != nil }

func (h *harness) Misconfigured() map[string]error {
	said := map[string]error{}
	try := func(name string, c *clientv3.Client, key string, options ...Option) {
		_, source := NewSource(c, key, options...)
		_, sink := NewSink(c, key, options...)
		said["source: "+name], said["sink: "+name] = source, sink
	}
	try("no client", nil, key)
	try("empty key", h.c, "")
	try("prefix only", h.c, "", Prefix("/rules"))
	try("range end", h.c, "\x00")
	try("folder", h.c, "/rules/")
	try("nil option", h.c, key, nil)
	try("Timeout", h.c, key, Timeout(0))
	try("MaxBytes", h.c, key, MaxBytes(0))
	return said
}

var _ = errors.New

func TestConformance(t *testing.T) {
	datasourcetest.Run(t, datasourcetest.Config{New: newHarness})
}

func TestSinkConformance(t *testing.T) {
	datasourcetest.RunSink(t, datasourcetest.Config{New: newHarness})
}
