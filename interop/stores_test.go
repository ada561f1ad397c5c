package interop

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rulewire/rulewire/etcd"
	"github.com/rulewire/rulewire/redis"
	"github.com/rulewire/rulewire/testcontainers/etcdtest"
	"github.com/rulewire/rulewire/testcontainers/redistest"
)

// unique is part of the names of documents: a server that was up before may hold those of earlier runs.
var unique = strconv.FormatInt(time.Now().UnixNano(), 36)

// faults: F038 F153 F159 F160
func TestJavaReadsFromRedisWhatWeWrote(t *testing.T) {
	t.Parallel()
	needJava(t)
	s := redisStore(t)
	weWrite(t, startJVM(t), s, perKind)
}

// faults: F038
func TestWeReadFromRedisWhatJavaWrote(t *testing.T) {
	t.Parallel()
	needJava(t)
	s := redisStore(t)
	javaWrites(t, startJVM(t), s, perKind)
}

func redisStore(t *testing.T) store {
	server := redistest.Run(t)
	client := goredis.NewClient(server.Options())
	t.Cleanup(func() { _ = client.Close() })
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, name string) place {
		key := "rulewire-interop/" + unique + "/" + t.Name()
		channel := redis.Channel(key + "/channel")
		sink, err := redis.NewSink(client, key, channel)
		if err != nil {
			t.Fatal(err)
		}
		source, err := redis.NewSource(client, key, channel)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Delete(context.WithoutCancel(t.Context()), key) })
		return place{sink, source, question{Store: "redis", Host: host, Port: number, Key: key, Channel: key + "/channel"}}
	}
}

// faults: F038 F153 F159
func TestJavaReadsFromEtcdWhatWeWrote(t *testing.T) {
	t.Parallel()
	needJava(t)
	s, endpoint := etcdStore(t)
	weWrite(t, startJVM(t, "csp.sentinel.etcd.endpoints="+endpoint), s, perKind)
}

// faults: F038
func TestWeReadFromEtcdWhatJavaWrote(t *testing.T) {
	t.Parallel()
	needJava(t)
	s, endpoint := etcdStore(t)
	javaWrites(t, startJVM(t, "csp.sentinel.etcd.endpoints="+endpoint), s, perKind)
}

func etcdStore(t *testing.T) (s store, endpoint string) {
	server := etcdtest.Run(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints(), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	endpoint = "http://" + server.Endpoints()[0]
	return func(t *testing.T, name string) place {
		key := "/rulewire-interop/" + unique + "/" + t.Name()
		sink, err := etcd.NewSink(client, key)
		if err != nil {
			t.Fatal(err)
		}
		source, err := etcd.NewSource(client, key)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Delete(context.WithoutCancel(t.Context()), key) })
		return place{sink, source, question{Store: "etcd", Key: key, Endpoint: endpoint}}
	}, endpoint
}
