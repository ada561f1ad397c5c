package interop

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/etcd"
	"github.com/rulewire/rulewire/redis"
	"github.com/rulewire/rulewire/testcontainers/etcdtest"
	"github.com/rulewire/rulewire/testcontainers/redistest"
)

// benchRules is what fits under etcd's limit of 1.5 MiB for a request.
const benchRules = 8_000

func BenchmarkEditRedis(b *testing.B) {
	client := goredis.NewClient(redistest.Run(b).Options())
	defer client.Close()
	key := "rulewire-bench/" + unique
	source, err := redis.NewSource(client, key, redis.Channel(key))
	if err != nil {
		b.Fatal(err)
	}
	sink, err := redis.NewSink(client, key, redis.Channel(key))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Del(b.Context(), key)
	datasourcetest.BenchmarkEdit(b, source, sink, benchRules)
}

func BenchmarkEditEtcd(b *testing.B) {
	client, err := clientv3.New(clientv3.Config{Endpoints: etcdtest.Run(b).Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	key := "/rulewire-bench/" + unique
	source, err := etcd.NewSource(client, key)
	if err != nil {
		b.Fatal(err)
	}
	sink, err := etcd.NewSink(client, key)
	if err != nil {
		b.Fatal(err)
	}
	datasourcetest.BenchmarkEdit(b, source, sink, benchRules)
}
