package redis

import (
	"github.com/redis/go-redis/v9"
)

// MemoryClient is a client of a server in memory, for the examples.
func MemoryClient() *redis.Client {
	s := newServer()
	return redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Dialer: s.dial})
}
