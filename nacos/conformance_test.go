package nacos

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/writable"
)

const name = "orders-flow-rules"

// harness plays the suite on the stand-in, in fake time.
type harness struct {
	*server
	t testing.TB
	c *client
}

func newHarness(t testing.TB) datasourcetest.Harness {
	s := newServer(t)
	s.auth = true
	return &harness{s, t, s.client(t, withUser)}
}

func (h *harness) Source() (datasource.Source, error) { return NewSource(h.c, name, "G") }
func (h *harness) Sink() (writable.Sink, error)       { return NewSink(h.c, name, "G") }
func (h *harness) Secrets() []string                  { return []string{pass, "token-"} }
func (h *harness) Limit() int                         { return DefaultMaxBytes }

// Put takes what Nacos takes.
func (h *harness) Put(data []byte) error {
	switch {
	case len(strings.TrimSpace(string(data))) == 0:
		return fmt.Errorf("%w: Nacos refuses an empty document", datasourcetest.ErrUnplayable)
	case !utf8.Valid(data):
		return fmt.Errorf("%w: Nacos holds text", datasourcetest.ErrUnplayable)
	}
	h.put(at(name), string(data))
	return nil
}

func (h *harness) Delete() error { h.remove(at(name)); return nil }

func (h *harness) DeletePut(data []byte) error {
	h.remove(at(name))
	return h.Put(data)
}

func (h *harness) PutNeighbour(data []byte) error { h.put(at(name+"-more"), string(data)); return nil }

func (h *harness) Break() error {
	h.rpc.cut(true)
	h.web.cut(true)
	return nil
}

func (h *harness) Stall() error { h.hang(); return nil }
func (h *harness) Heal() error  { h.heal(); return nil }

func (h *harness) Restart() error {
	h.rpc.cut(true)
	h.rpc.cut(false)
	return nil
}

func (h *harness) Deny() error { h.set(func() { h.denied = true }); return nil }
func (h *harness) LoseNotifications() error {
	h.set(func() { h.drop = func(int) bool { return true } })
	return nil
}

// Scramble repeats each notification, late.
func (h *harness) Scramble() error {
	h.set(func() {
		h.drop = func(int) bool {
			for _, r := range h.peers {
				for k := range r.listen {
					r.send(typeNotify, pushed{place: k})
				}
			}
			return false
		}
	})
	return nil
}

// Requests counts what concerns documents; the setting up and the beats belong to the connection.
func (h *harness) Requests() int {
	return h.count(typeListen, typeQuery, typePublish, typeRemove) + h.rpc.connects()
}

func (h *harness) Subscriptions() int { return h.listeners() }

func (h *harness) Misconfigured() map[string]error {
	said := map[string]error{}
	try := func(what string, c config_client.IConfigClient, dataID, group string, options ...Option) {
		_, source := NewSource(c, dataID, group, options...)
		_, sink := NewSink(c, dataID, group, options...)
		said["source: "+what], said["sink: "+what] = source, sink
	}
	var none *client
	try("no client", nil, name, "G")
	try("nil client", none, name, "G")
	try("client that tells nothing", struct{ config_client.IConfigClient }{}, name, "G")
	try("no servers", &client{s: h.server}, name, "G")
	try("no data id", h.c, "", "G")
	try("slash in the data id", h.c, "rules/flow", "G")
	try("blank in the group", h.c, name, "my group")
	try("long", h.c, strings.Repeat("x", 300), "G")
	try("encrypted", h.c, "cipher-kms-aes-128-x", "G")
	try("nil option", h.c, name, "G", nil)
	try("Timeout", h.c, name, "G", Timeout(0))
	try("MaxBytes", h.c, name, "G", MaxBytes(-1))
	try("Credentials", h.c, name, "G", Credentials(nil))
	_, said["Compare too often"] = NewSource(h.c, name, "G", Compare(1))
	_, said["Compare of a sink"] = NewSink(h.c, name, "G", Compare(DefaultCompare))
	_, said["ReadCompareWrite of a source"] = NewSource(h.c, name, "G", ReadCompareWrite())
	_, said["Type of a source"] = NewSource(h.c, name, "G", Type("json"))
	_, said["unknown type"] = NewSink(h.c, name, "G", Type("xml"))
	return said
}

func TestConformance(t *testing.T) {
	// A comparison each ten seconds, for all documents of a client together, and a relist each sixty.
	idle := DefaultCompare * 6 / 7
	datasourcetest.Run(t, datasourcetest.Config{New: newHarness, Bubble: true, IdlePeriod: idle})
}

func TestSinkConformance(t *testing.T) {
	datasourcetest.RunSink(t, datasourcetest.Config{Bubble: true, New: newHarness})
}
