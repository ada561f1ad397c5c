package etcdtest

import (
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rulewire/rulewire/testcontainers/internal/shared"
	"github.com/rulewire/rulewire/testcontainers/link"
)

func TestMain(m *testing.M) { shared.Main(m, plain.End) }

// client is a client under test, through the link.
func client(t *testing.T, s *Server, change func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{Endpoints: s.Endpoints(), TLS: s.TLS(), DialTimeout: 10 * time.Second, Logger: zap.NewNop()}
	if change != nil {
		change(&config)
	}
	c, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func get(t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	got, err := c.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) == 0 {
		return ""
	}
	return string(got.Kvs[0].Value)
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
	c := client(t, s, nil)
	must(t, s.Put(t.Context(), "k", []byte("v1")))
	if got := get(t, c, "k"); got != "v1" {
		t.Fatalf("got %q", got)
	}
	before := s.Endpoints()[0]
	must(t, s.Kill(t.Context()))
	must(t, s.Start(t.Context()))
	must(t, s.Restart(t.Context()))
	if s.Endpoints()[0] != before {
		t.Error("the address changed")
	}
	if got := get(t, c, "k"); got != "v1" {
		t.Errorf("after kill and restart: %q", got)
	}
	must(t, s.Delete(t.Context(), "k"))
	if got := get(t, c, "k"); got != "" {
		t.Errorf("after delete: %q", got)
	}
	must(t, s.Renew(t.Context()))
	now, err := s.Client().Get(t.Context(), "k")
	must(t, err)
	if now.Header.Revision != 1 {
		t.Errorf("a new server is at revision %d", now.Header.Revision)
	}
}

func TestWatchMissesAPutBehindAStallAndACompaction(t *testing.T) {
	t.Parallel()
	s := Run(t)
	c := client(t, s, nil)
	must(t, s.Put(t.Context(), "k", []byte("v1")))
	must(t, s.Put(t.Context(), "k", []byte("v2")))
	must(t, s.Compact(t.Context()))
	answer := <-c.Watch(t.Context(), "k", clientv3.WithRev(1))
	if !errors.Is(answer.Err(), rpctypes.ErrCompacted) {
		t.Errorf("got %v", answer.Err())
	}
	s.Link().Stall(link.Down)
	must(t, s.Put(t.Context(), "k", []byte("v3")))
	s.Link().Heal()
	if got := get(t, c, "k"); got != "v3" {
		t.Errorf("after heal: %q", got)
	}
}

func TestTLSAndAuthentication(t *testing.T) {
	t.Parallel()
	s := Run(t, WithTLS(true), WithArgs("--auth-token-ttl=5"))
	must(t, s.EnableAuth(t.Context(), "app", "secret"))
	must(t, s.Put(t.Context(), "k", []byte("v")))
	c := client(t, s, func(config *clientv3.Config) { config.Username, config.Password = "app", "secret" })
	if got := get(t, c, "k"); got != "v" {
		t.Errorf("got %q", got)
	}
	// Without a user, etcd takes the common name of the client's certificate for one.
	anonymous := client(t, s, nil)
	if _, err := anonymous.Get(t.Context(), "k"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("without a user: %v", err)
	}
}

func TestClusterLosesItsLeader(t *testing.T) {
	t.Parallel()
	members := RunCluster(t, 3)
	must(t, members[0].Put(t.Context(), "k", []byte("v")))
	c := client(t, members[2], nil)
	if got := get(t, c, "k"); got != "v" {
		t.Fatalf("got %q", got)
	}
	watch := c.Watch(clientv3.WithRequireLeader(t.Context()), "k", clientv3.WithCreatedNotify())
	if created := <-watch; !created.Created {
		t.Fatalf("got %+v", created)
	}
	must(t, members[0].Pause(t.Context()))
	must(t, members[1].Kill(t.Context()))
	answer, open := <-watch
	if open && !errors.Is(answer.Err(), rpctypes.ErrNoLeader) {
		t.Errorf("got %+v", answer)
	}
	must(t, members[0].Resume(t.Context()))
	must(t, members[1].Start(t.Context()))
	if got := get(t, c, "k"); got != "v" {
		t.Errorf("after recovery: %q", got)
	}
}
