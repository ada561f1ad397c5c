package redistest_test

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/redis"
	"github.com/rulewire/rulewire/testcontainers/redistest"
)

// BenchmarkEdit edits one rule among 10,000 (1.8 MB) on a real server.
func BenchmarkEdit(b *testing.B) {
	client := goredis.NewClient(redistest.Run(b).Options())
	defer client.Close()
	key := fmt.Sprintf("rulewire-bench/%d", time.Now().UnixNano())
	source, err := redis.NewSource(client, key, redis.Channel(key))
	if err != nil {
		b.Fatal(err)
	}
	sink, err := redis.NewSink(client, key, redis.Channel(key))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Del(b.Context(), key)
	datasourcetest.BenchmarkEdit(b, source, sink, 10_000)
}
