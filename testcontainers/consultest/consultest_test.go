package consultest

import (
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/rulewire/rulewire/testcontainers/internal/shared"
	"github.com/rulewire/rulewire/testcontainers/link"
)

func TestMain(m *testing.M) { shared.Main(m, plain.End) }

func client(t *testing.T, s *Server) *api.Client {
	t.Helper()
	config := s.Config()
	c, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(config.HttpClient.Transport.(*http.Transport).CloseIdleConnections)
	return c
}

// get reads a key through the link; the answer is nil where it is missing.
func get(t *testing.T, c *api.Client, key string, options api.QueryOptions) (*api.KVPair, uint64) {
	t.Helper()
	pair, meta, err := c.KV().Get(key, options.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return pair, meta.LastIndex
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestServerKeepsItsAddressAndItsData(t *testing.T) {
	t.Parallel()
	s := Run(t)
	if !s.Contained() {
		t.Skip("the server is not ours to kill")
	}
	c := client(t, s)
	before := s.Addr()
	must(t, s.Put(t.Context(), "k", []byte("v1")))
	must(t, s.Kill(t.Context()))
	must(t, s.Start(t.Context()))
	must(t, s.Restart(t.Context()))
	if s.Addr() != before {
		t.Error("the address changed")
	}
	if pair, _ := get(t, c, "k", api.QueryOptions{RequireConsistent: true}); pair == nil || string(pair.Value) != "v1" {
		t.Errorf("after kill and restart: %+v", pair)
	}
	must(t, s.Delete(t.Context(), "k"))
	if pair, _ := get(t, c, "k", api.QueryOptions{RequireConsistent: true}); pair != nil {
		t.Errorf("after delete: %+v", pair)
	}
}

func TestRestoreLowersTheIndex(t *testing.T) {
	t.Parallel()
	s := Run(t)
	c := client(t, s)
	must(t, s.Put(t.Context(), "k", []byte("old")))
	_, low := get(t, c, "k", api.QueryOptions{})
	backup, err := s.Snapshot(t.Context())
	must(t, err)
	for range 20 {
		must(t, s.Put(t.Context(), "k", []byte("new")))
	}
	_, high := get(t, c, "k", api.QueryOptions{})
	must(t, s.Restore(t.Context(), backup))
	pair, index := get(t, c, "k", api.QueryOptions{})
	if string(pair.Value) != "old" || index >= high {
		t.Errorf("after restore: %q at %d; it was %d, then %d", pair.Value, index, low, high)
	}
}

func TestBlockingQueryBehindAStall(t *testing.T) {
	t.Parallel()
	s := Run(t)
	c := client(t, s)
	must(t, s.Put(t.Context(), "k", []byte("v1")))
	_, index := get(t, c, "k", api.QueryOptions{})
	s.Link().Stall(link.Down)
	must(t, s.Put(t.Context(), "k", []byte("v2")))
	s.Link().Heal()
	pair, _ := get(t, c, "k", api.QueryOptions{WaitIndex: index, WaitTime: time.Minute})
	if string(pair.Value) != "v2" {
		t.Errorf("got %q", pair.Value)
	}
}

func TestTLSAndToken(t *testing.T) {
	t.Parallel()
	const token = "5b1b1c0e-7a0f-4f3e-9d2a-0d8f5f7c1a11"
	s := Run(t, WithTLS(true), WithToken(token))
	must(t, s.Put(t.Context(), "k", []byte("v")))
	c := client(t, s)
	if pair, _ := get(t, c, "k", api.QueryOptions{}); pair == nil || string(pair.Value) != "v" {
		t.Errorf("got %+v", pair)
	}
	_, err := c.KV().Put(&api.KVPair{Key: "k"}, (&api.WriteOptions{Token: "00000000-0000-0000-0000-000000000001"}).WithContext(t.Context()))
	if err == nil {
		t.Error("an unknown token was accepted")
	}
}

func TestConfigThatIsNoJSONIsAnError(t *testing.T) {
	var s settings
	if err := WithConfig("{")(&s); err == nil {
		t.Error("no error")
	}
}
