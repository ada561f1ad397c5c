package main

import (
	"context"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/apolloconfig/agollo/v4/env/config"
	"github.com/nacos-group/nacos-sdk-go/v2/clients"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rulewire/rulewire/apollo"
	"github.com/rulewire/rulewire/apollo/apollotest"
	"github.com/rulewire/rulewire/consul"
	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/etcd"
	"github.com/rulewire/rulewire/nacos"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/redis"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/testcontainers/consultest"
	"github.com/rulewire/rulewire/testcontainers/etcdtest"
	"github.com/rulewire/rulewire/testcontainers/nacostest"
	"github.com/rulewire/rulewire/testcontainers/redistest"
)

func stores() []store {
	return []store{
		{name: "etcd", writes: 1000, limit: 5 * time.Millisecond, patience: 2 * time.Second, open: openEtcd},
		{name: "redis", writes: 1000, limit: 5 * time.Millisecond, patience: 2 * time.Second, open: openRedis,
			note: "sentinel-golang has no Redis data source. A message is a hint to read, and hints that come without a pause are met by one read in 2 ms"},
		{name: "consul", writes: 1000, limit: 10 * time.Millisecond, patience: 2 * time.Second, open: openConsul},
		{name: "nacos", writes: 200, patience: 5 * time.Second, open: openNacos},
		{name: "apollo", writes: 200, patience: 10 * time.Second, open: openApollo},
		{name: "apollo-stand-in", writes: 100, patience: 10 * time.Second, open: openStandIn,
			note: "in this process, by HTTP; the stand-in looks for releases once a second, as Apollo does"},
	}
}

// The names of the two documents. Nobody else has them, for a server that is already up may be somebody's.
var oursKey, theirsKey = "rulewire-bench/" + unique() + "/ours", "rulewire-bench/" + unique() + "/theirs"

func unique() string { return strconv.FormatInt(time.Now().UnixNano(), 36) }

// follow opens our side on a source.
func follow(ctx context.Context, tb testing.TB, source datasource.Source) (*told, error) {
	t := newTold()
	listener := property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
		if len(rules) > 0 {
			t.number(int(rules[0].Count))
		}
		return nil
	})
	r, err := datasource.New(source, converter.JSON[rule.Flow](converter.Dialect(converter.Golang)), listener, datasource.Logger(nil))
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { _ = r.Close() })
	return t, r.Start(ctx)
}

// pair makes the sides of a store whose documents go by a key: ours, and the peer's if there is one and it knows the store.
func pair(ctx context.Context, tb testing.TB, write func(ctx context.Context, key string, data []byte) error, ours datasource.Source, err error, theirs peerOrder) ([]side, error) {
	if err != nil {
		return nil, err
	}
	sides := []side{{name: "rulewire"}}
	program := peer()
	if theirs.Store == "" {
		program = ""
	}
	if program != "" {
		sides = append(sides, side{name: "peer"})
	}
	for i, key := range []string{oursKey, theirsKey}[:len(sides)] {
		sides[i].write = func(ctx context.Context, data []byte) error { return write(ctx, key, data) }
		if err := write(ctx, key, document(0)); err != nil {
			return nil, err
		}
	}
	if sides[0].told, err = follow(ctx, tb, ours); err != nil || program == "" {
		return sides, err
	}
	sides[1].told, err = openPeer(ctx, tb, program, theirs)
	return sides, err
}

func openEtcd(ctx context.Context, tb testing.TB) ([]side, error) {
	server := etcdtest.Run(tb)
	// Past the link, which would add its own time.
	endpoints := server.Client().Endpoints()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { _ = client.Close() })
	tb.Cleanup(func() { _ = server.Delete(context.Background(), oursKey) })
	tb.Cleanup(func() { _ = server.Delete(context.Background(), theirsKey) })
	source, err := etcd.NewSource(client, oursKey)
	return pair(ctx, tb, server.Put, source, err, peerOrder{Store: "etcd", Addr: endpoints[0], Key: theirsKey})
}

func openRedis(ctx context.Context, tb testing.TB) ([]side, error) {
	server := redistest.Run(tb)
	options := *server.Client().Options()
	options.MaxRetries = -1
	client := goredis.NewClient(&options)
	tb.Cleanup(func() { _ = client.Close() })
	tb.Cleanup(func() { _ = server.Delete(context.Background(), oursKey) })
	publish := func(ctx context.Context, key string, data []byte) error { return server.Publish(ctx, key, key, data) }
	source, err := redis.NewSource(client, oursKey)
	return pair(ctx, tb, publish, source, err, peerOrder{})
}

func openConsul(ctx context.Context, tb testing.TB) ([]side, error) {
	server := consultest.Run(tb)
	tb.Cleanup(func() { _ = server.Delete(context.Background(), oursKey) })
	tb.Cleanup(func() { _ = server.Delete(context.Background(), theirsKey) })
	source, err := consul.NewSource(server.Client(), oursKey)
	return pair(ctx, tb, server.Put, source, err, peerOrder{Store: "consul", Addr: server.Admin(8500), Key: theirsKey})
}

const nacosGroup = "SENTINEL_GROUP"

func openNacos(ctx context.Context, tb testing.TB) ([]side, error) {
	server := nacostest.Run(tb)
	at := map[string]nacostest.Config{
		oursKey:   {Group: nacosGroup, DataID: "rulewire-bench-ours-" + unique()},
		theirsKey: {Group: nacosGroup, DataID: "rulewire-bench-theirs-" + unique()},
	}
	for _, c := range at {
		tb.Cleanup(func() { _ = server.Remove(context.Background(), c) })
	}
	stored := map[string]bool{}
	write := func(ctx context.Context, key string, data []byte) error {
		if !stored[key] { // the first one is read at once
			stored[key] = true
			return server.Put(ctx, at[key], data)
		}
		return server.Store(ctx, at[key], data)
	}
	dir, err := os.MkdirTemp("", "rulewire-bench-") // not the benchmark's own: the SDK writes on after its end
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	client, err := clients.NewConfigClient(vo.NacosClientParam{ServerConfigs: server.ServerConfigs(), ClientConfig: &constant.ClientConfig{
		TimeoutMs: 5000, NotLoadCacheAtStart: true, DisableUseSnapShot: true, LogDir: dir, CacheDir: dir, LogLevel: "error",
		Username: server.User(), Password: server.Password(),
	}})
	if err != nil {
		return nil, err
	}
	tb.Cleanup(client.CloseClient)
	source, err := nacos.NewSource(client, at[oursKey].DataID, nacosGroup)
	return pair(ctx, tb, write, source, err, peerOrder{
		Store: "nacos", Addr: server.HTTP().Addr(), Key: at[theirsKey].DataID, Group: nacosGroup, User: server.User(), Password: server.Password(),
	})
}

// theirNamespace is the one that sentinel-golang's source reads, whatever its configuration names.
const theirNamespace = "application"

// apolloSides makes the two sides on an Apollo.
func apolloSides(ctx context.Context, tb testing.TB, conf config.AppConfig, namespace, key string, ours, theirs func(key, value string) error) ([]side, error) {
	conf.Cluster = "default"
	client, err := apollo.NewClient(&conf)
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { _ = client.Close() })
	write := func(_ context.Context, to string, data []byte) error {
		if to == oursKey {
			return ours(key, string(data))
		}
		return theirs(key, string(data))
	}
	source, err := apollo.NewSource(client, namespace, key)
	return pair(ctx, tb, write, source, err, peerOrder{
		Store: "apollo", Addr: conf.IP, Key: key, App: conf.AppID, Cluster: conf.Cluster, Namespace: theirNamespace,
	})
}

// openStandIn measures on the stand-in, for where no Apollo is.
func openStandIn(ctx context.Context, tb testing.TB) ([]side, error) {
	s := apollotest.NewServer()
	tb.Cleanup(s.Close)
	web := httptest.NewServer(s.Handler())
	tb.Cleanup(web.CloseClientConnections)
	put := func(namespace string) func(key, value string) error {
		at := s.Namespace("bench", "default", namespace)
		return func(key, value string) error { at.Put(key, value); return nil }
	}
	return apolloSides(ctx, tb, config.AppConfig{AppID: "bench", IP: web.URL}, "ours", "rules", put("ours"), put(theirNamespace))
}

func openApollo(ctx context.Context, tb testing.TB) ([]side, error) {
	remote := apollotest.Open(tb)
	ours, err := remote.Namespace("bench-"+unique(), "properties")
	if err != nil {
		return nil, err
	}
	theirs, err := remote.Application()
	if err != nil {
		return nil, err
	}
	return apolloSides(ctx, tb, config.AppConfig{AppID: remote.App, IP: remote.Config}, ours.Name(), "rules-"+unique(), ours.Put, theirs.Put)
}
