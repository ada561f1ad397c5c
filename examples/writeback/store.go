package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rulewire/rulewire/consul"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/etcd"
	"github.com/rulewire/rulewire/file"
	"github.com/rulewire/rulewire/redis"
	"github.com/rulewire/rulewire/writable"
)

// store is both sides of one document, and the end of the client that was made for it.
type store struct {
	source datasource.Source
	sink   writable.Sink
	close  func()
}

var errStore = errors.New("want file:///path, etcd://host:port/key, redis://host:port/db/key?channel=name, consul://host:port/key or " +
	"apollo://host:port/app/namespace/key?portal=host:port")

// open makes the store that an address names. Rulewire borrows clients; who makes one, as here, closes it.
func open(address string) (store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return store{}, fmt.Errorf("%w: %w", errStore, err)
	}
	key := strings.TrimPrefix(u.Path, "/")
	if key == "" {
		return store{}, errStore
	}
	switch u.Scheme {
	case "file":
		source, err := file.NewSource(u.Path)
		if err != nil {
			return store{}, err
		}
		sink, err := file.NewSink(u.Path, file.MakeDirs())
		return store{source, sink, func() {}}, err
	case "etcd":
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{u.Host}})
		if err != nil {
			return store{}, err
		}
		source, err := etcd.NewSource(client, key)
		if err != nil {
			return store{}, err
		}
		sink, err := etcd.NewSink(client, key)
		return store{source, sink, func() { _ = client.Close() }}, err
	case "redis":
		return openRedis(u, key)
	case "apollo":
		return openApollo(u, key)
	case "consul":
		client, err := api.NewClient(&api.Config{Address: u.Host})
		if err != nil {
			return store{}, err
		}
		source, err := consul.NewSource(client, key)
		if err != nil {
			return store{}, err
		}
		sink, err := consul.NewSink(client, key)
		return store{source, sink, func() {}}, err
	}
	return store{}, errStore
}

func openRedis(u *url.URL, path string) (store, error) {
	db, key, ok := strings.Cut(path, "/")
	number, err := strconv.Atoi(db)
	if !ok || err != nil || key == "" {
		return store{}, errStore
	}
	channel := u.Query().Get("channel")
	if channel == "" {
		channel = key
	}
	client := goredis.NewClient(&goredis.Options{Addr: u.Host, DB: number})
	source, err := redis.NewSource(client, key, redis.Channel(channel))
	if err != nil {
		return store{}, err
	}
	sink, err := redis.NewSink(client, key, redis.Channel(channel))
	return store{source, sink, func() { _ = client.Close() }}, err
}
