package testcontainers

import (
	"context"
	"os"
	"testing"

	"github.com/rulewire/rulewire/testcontainers/internal/catalog"
	"github.com/rulewire/rulewire/testcontainers/internal/engine"
)

// RequireEnv is the variable that turns a skipped container test into a failed one.
const RequireEnv = "RULEWIRE_REQUIRE_CONTAINERS"

// ErrNoEngine means that no Docker engine answers.
var ErrNoEngine = engine.ErrNone

// Available tells why containers can't be used here; nil means that they can.
func Available() error { return engine.Prepare() }

// Require skips the test where no Docker engine answers, or fails it where RequireEnv is 1.
func Require(t testing.TB) {
	t.Helper()
	err := Available()
	switch {
	case err == nil:
	case os.Getenv(RequireEnv) == "1":
		t.Fatalf("%s=1: %v", RequireEnv, err)
	default:
		t.Skipf("needs containers: %v", err)
	}
}

// EtcdImage, RedisImage and ConsulImage name the images in use.
func EtcdImage(t testing.TB) string { return image(t, catalog.Etcd) }

// RedisImage is the image of Redis.
func RedisImage(t testing.TB) string { return image(t, catalog.Redis) }

// ConsulImage is the image of Consul.
func ConsulImage(t testing.TB) string { return image(t, catalog.Consul) }

// NacosImage is the image of Nacos.
func NacosImage(t testing.TB) string { return image(t, catalog.Nacos) }

func image(t testing.TB, s catalog.Store) string {
	t.Helper()
	Require(t)
	ctx := context.Background()
	c, err := engine.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return engine.Image(ctx, c, s)
}
