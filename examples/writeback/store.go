package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"
	"github.com/nacos-group/nacos-sdk-go/v2/clients"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rulewire/rulewire/consul"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/etcd"
	"github.com/rulewire/rulewire/file"
	"github.com/rulewire/rulewire/nacos"
	"github.com/rulewire/rulewire/redis"
	"github.com/rulewire/rulewire/writable"
)

// store is both sides of one document, and the end of the client that was made for it.
type store struct {
	source datasource.Source
	sink   writable.Sink
	close  func()
}

var errStore = errors.New("want file:///path, etcd://host:port/key, redis://host:port/db/key?channel=name, consul://host:port/key, " +
	"nacos://host:port/group/dataid?namespace=id or apollo://host:port/app/namespace/key?portal=host:port")

// open makes the store that an address names. Rulewire borrows clients; who makes one, as here, closes it.
func open(address string) (store, error) {
	u, err := url.Parse(address)
	var bad *url.Error
	if errors.As(err, &bad) {
		return store{}, fmt.Errorf("%w: %w", errStore, bad.Err) // without the address, which may hold a password
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
	case "nacos":
		return openNacos(u, key)
	}
	return store{}, errStore
}

func openNacos(u *url.URL, path string) (store, error) {
	group, dataID, ok := strings.Cut(path, "/")
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if !ok || err != nil {
		return store{}, errStore
	}
	files := filepath.Join(os.TempDir(), "rulewire-writeback") // the SDK's log and cache; Rulewire writes none
	password, _ := u.User.Password()
	client, err := clients.NewConfigClient(vo.NacosClientParam{
		ClientConfig: &constant.ClientConfig{NamespaceId: u.Query().Get("namespace"), Username: u.User.Username(), Password: password,
			LogDir: files, CacheDir: files, NotLoadCacheAtStart: true},
		ServerConfigs: []constant.ServerConfig{{IpAddr: u.Hostname(), Port: port}},
	})
	if err != nil {
		return store{}, err
	}
	source, err := nacos.NewSource(client, dataID, group)
	if err != nil {
		return store{}, err
	}
	sink, err := nacos.NewSink(client, dataID, group)
	return store{source, sink, client.CloseClient}, err
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
