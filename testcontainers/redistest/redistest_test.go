package redistest

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/testcontainers/internal/wait"
	"github.com/rulewire/rulewire/testcontainers/link"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, c redis.Cmdable, key, want string) {
	t.Helper()
	got, err := c.Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%s is %q, want %q", key, got, want)
	}
}

func TestServerKeepsItsAddressAndItsData(t *testing.T) {
	t.Parallel()
	s := Run(t)
	if !s.Contained() {
		t.Skip("the server is not ours to kill")
	}
	c := redis.NewClient(s.Options())
	defer c.Close()
	before := s.Addr()
	must(t, s.Put(t.Context(), "k", []byte("v1")))
	must(t, s.Kill(t.Context()))
	must(t, s.Start(t.Context()))
	must(t, s.Restart(t.Context()))
	if s.Addr() != before {
		t.Error("the address changed")
	}
	want(t, c, "k", "v1")
	must(t, s.Delete(t.Context(), "k"))
	want(t, c, "k", "")
}

func TestMessageIsLostBehindACut(t *testing.T) {
	t.Parallel()
	s := Run(t)
	c := redis.NewClient(s.Options())
	defer c.Close()
	sub := c.Subscribe(t.Context(), "news")
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, s.Publish(t.Context(), "k", "news", []byte("v1")))
	message, err := sub.ReceiveMessage(t.Context())
	must(t, err)
	if message.Payload != "v1" {
		t.Errorf("got %q", message.Payload)
	}
	s.Link().Cut()
	must(t, s.Publish(t.Context(), "k", "news", []byte("v2")))
	s.Link().Heal()
	// What was published in between is gone; what comes after the new subscription arrives.
	must(t, wait.Until(t.Context(), func(ctx context.Context) error { return sub.Ping(ctx) }))
	must(t, wait.Until(t.Context(), func(ctx context.Context) error {
		n, err := s.Client().PubSubNumSub(ctx, "news").Result()
		if err == nil && n["news"] == 0 {
			err = errDown
		}
		return err
	}))
	must(t, s.Publish(t.Context(), "k", "news", []byte("v3")))
	if message, err = sub.ReceiveMessage(t.Context()); err != nil || message.Payload != "v3" {
		t.Errorf("got %v, %v", message, err)
	}
}

func TestTLSAndPassword(t *testing.T) {
	t.Parallel()
	s := Run(t, WithTLS(true), WithPassword("secret"))
	must(t, s.Put(t.Context(), "k", []byte("v")))
	c := redis.NewClient(s.Options())
	defer c.Close()
	want(t, c, "k", "v")
	options := s.Options()
	options.Password = "wrong"
	wrong := redis.NewClient(options)
	defer wrong.Close()
	if err := wrong.Ping(t.Context()).Err(); err == nil {
		t.Error("a wrong password was accepted")
	}
}

func TestSentinelsReplaceASilentMaster(t *testing.T) {
	t.Parallel()
	g := RunSentinel(t, WithPassword("secret"))
	c := redis.NewFailoverClient(g.Options())
	defer c.Close()
	must(t, c.Set(t.Context(), "k", "v1", 0).Err())
	old, err := g.Master(t.Context())
	must(t, err)
	if old != g.Data[0] {
		t.Error("the first master is not the first data server")
	}
	// The old master hangs with its connections open, and so does its link: nobody is told.
	old.Link().Stall(link.Both)
	must(t, old.Pause(t.Context()))
	master, err := g.AwaitMaster(t.Context(), old)
	must(t, err)
	must(t, master.Put(t.Context(), "k", []byte("v2")))
	must(t, wait.Until(t.Context(), func(ctx context.Context) error {
		got, err := c.Get(ctx, "k").Result()
		if err == nil && got != "v2" {
			err = errNoMaster
		}
		return err
	}))
	old.Link().Heal()
	must(t, old.Resume(t.Context()))
}

func TestClusterMovesASlotAndFailsOver(t *testing.T) {
	t.Parallel()
	g := RunCluster(t)
	c := redis.NewClusterClient(g.Options())
	defer c.Close()
	must(t, c.Set(t.Context(), "k", "v1", 0).Err())
	owner, err := g.Owner(t.Context(), "k")
	must(t, err)
	other := g.Masters[0]
	if owner == other {
		other = g.Masters[1]
	}
	must(t, g.Migrate(t.Context(), "k", other))
	now, err := g.Owner(t.Context(), "k")
	must(t, err)
	if now != other {
		t.Error("the slot did not move")
	}
	want(t, c, "k", "v1")
	must(t, other.Kill(t.Context()))
	must(t, wait.Until(t.Context(), func(ctx context.Context) error {
		now, err := g.Owner(ctx, "k")
		if err == nil && now == other {
			err = errClusterDown
		}
		return err
	}))
	// go-redis asks for the new topology only when a server sends it elsewhere, and a dead one does not: once a minute else.
	c.ReloadState(t.Context())
	must(t, wait.Until(t.Context(), func(ctx context.Context) error { return c.Set(ctx, "k", "v2", 0).Err() }))
	want(t, c, "k", "v2")
	must(t, other.Start(t.Context()))
	must(t, g.AwaitOK(t.Context()))
}
