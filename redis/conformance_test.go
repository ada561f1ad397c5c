package redis

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/writable"
)

// harness plays the suite on the server in memory. Its editor publishes what it stores, as the contract between Java and
// Go services has it, or, with Keyspace, stores only.
type harness struct {
	s       *server
	c       *redis.Client
	options []Option
	publish bool
}

func newHarness(publish bool, options ...Option) datasourcetest.New {
	return func(t testing.TB) datasourcetest.Harness {
		s := newServer()
		if !publish {
			s.config = "K$gx"
		}
		h := &harness{s: s, c: s.client(t), options: options, publish: publish}
		synctest.Wait() // the client's own goroutines are there before the suite counts
		return h
	}
}

func (h *harness) Source() (datasource.Source, error) { return NewSource(h.c, key, h.options...) }
func (h *harness) Sink() (writable.Sink, error)       { return NewSink(h.c, key) }
func (h *harness) Secrets() []string                  { return []string{"s3cret-pass"} }
func (h *harness) Limit() int                         { return DefaultMaxBytes }
func (h *harness) Subscriptions() int                 { return h.s.subscribers() }

func (h *harness) Put(data []byte) error {
	h.s.put(key, string(data))
	h.tell(string(data))
	return nil
}

func (h *harness) Delete() error {
	h.s.remove(key, "del")
	h.tell("")
	return nil
}

func (h *harness) DeletePut(data []byte) error {
	h.s.remove(key, "del")
	return h.Put(data)
}

func (h *harness) Expire() error {
	h.s.remove(key, "expired")
	h.tell("")
	return nil
}

func (h *harness) PutNeighbour(data []byte) error {
	h.s.put(key+"-more", string(data))
	return nil
}

func (h *harness) tell(text string) {
	if h.publish {
		h.s.announce(key, text)
	}
}

func (h *harness) Break() error {
	h.s.set(func() { h.s.down = true })
	h.s.kill()
	return nil
}

func (h *harness) Heal() error {
	h.s.set(func() { h.s.down, h.s.deaf, h.s.fault = false, false, nil })
	return nil
}

func (h *harness) Restart() error {
	h.s.kill()
	return nil
}

func (h *harness) LoseNotifications() error {
	h.s.set(func() { h.s.deaf = true })
	return nil
}

func (h *harness) Deny() error {
	h.s.set(func() {
		h.s.fault = func(_ *peer, cmd []string) string {
			if strings.HasPrefix(cmd[0], "get") || cmd[0] == "watch" {
				return "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"
			}
			return ""
		}
	})
	return nil
}

// Requests counts what concerns the document; a ping belongs to the connection.
func (h *harness) Requests() int {
	return h.s.count("get") + h.s.count("getrange") + h.s.count("subscribe") + h.s.count("config")
}

func (h *harness) Misconfigured() map[string]error {
	_, timeout := NewSource(h.c, key, Timeout(-1))
	_, size := NewSource(h.c, key, MaxBytes(0))
	_, noKey := NewSource(h.c, "")
	return map[string]error{"timeout": timeout, "max bytes": size, "no key": noKey}
}

func TestConformance(t *testing.T) {
	datasourcetest.Run(t, datasourcetest.Config{New: newHarness(true), Bubble: true})
}

func TestConformanceKeyspace(t *testing.T) {
	datasourcetest.Run(t, datasourcetest.Config{New: newHarness(false, Keyspace()), Bubble: true})
}

func TestSinkConformance(t *testing.T) {
	datasourcetest.RunSink(t, datasourcetest.Config{New: newHarness(true), Bubble: true})
}
