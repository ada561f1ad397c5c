package consul

import (
	"context"
	"net/http"
	"testing"

	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/writable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "rules/flow"

// harness plays the conformance suite on the fake server, in fake time.
type harness struct {
	*server
	c *api.Client
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
func (h *harness) Heal() error                        { h.heal(); return nil }
func (h *harness) Requests() int                      { return h.count() }
func (h *harness) Limit() int                         { return valueLimit }
func (h *harness) Secrets() []string                  { return []string{secret} }

func (h *harness) Deny() error {
	h.fail(http.StatusForbidden, "Permission denied")
	return nil
}

func (h *harness) Restart() error {
	h.link.cut(true)
	h.link.cut(false)
	return nil
}

func (h *harness) Reset(data []byte) error {
	h.restore(5, key, string(data))
	return h.Restart()
}

func (h *harness) DeletePut(data []byte) error {
	h.do(func() {
		h.commit(key, nil, 0)
		h.commit(key, data, 0)
	})
	return nil
}

func (h *harness) Misconfigured() map[string]error {
	said := map[string]error{}
	try := func(name string, c *api.Client, key string, options ...Option) {
		_, source := NewSource(c, key, options...)
		_, sink := NewSink(c, key, options...)
		said["source: "+name], said["sink: "+name] = source, sink
	}
	try("no client", nil, key)
	try("empty key", h.c, "")
	try("leading slash", h.c, "/"+key)
	try("folder", h.c, "rules/")
	try("empty segment", h.c, "rules//flow")
	try("parent", h.c, "rules/../flow")
	try("nil option", h.c, key, nil)
	try("Timeout", h.c, key, Timeout(0))
	try("MaxBytes", h.c, key, MaxBytes(0))
	try("WaitTime too short", h.c, key, WaitTime(1))
	try("WaitTime too long", h.c, key, WaitTime(maxWaitTime+1))
	try("Consistency", h.c, key, Consistency(7))
	try("Token", h.c, key, Token(nil))
	return said
}

var _ = context.Background

func TestConformance(t *testing.T) {
	datasourcetest.Run(t, datasourcetest.Config{New: newHarness, Bubble: true})
}

func TestSinkConformance(t *testing.T) {
	datasourcetest.RunSink(t, datasourcetest.Config{New: newHarness, Bubble: true})
}
