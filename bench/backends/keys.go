package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/consul/api"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rulewire/rulewire/consul"
	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/etcd"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/redis"
	"github.com/rulewire/rulewire/testcontainers/consultest"
	"github.com/rulewire/rulewire/testcontainers/etcdtest"
	"github.com/rulewire/rulewire/testcontainers/redistest"
)

// keyed is a store with many documents on one client.
type keyed struct {
	source func(key string) (datasource.Source, error)
	put    func(ctx context.Context, key string, data []byte) error
	// connections are those that the client has to the server.
	connections func() int
}

// held is what each of many readables takes.
type held struct {
	goroutines  float64
	bytes       int
	connections int
}

// The budget of a readable, beside its document and its rules.
const (
	keyGoroutines = 2
	keyBytes      = 16 << 10
)

var keyedStores = []struct {
	name string
	open func(context.Context, testing.TB) (keyed, error)
}{{"etcd", keyedEtcd}, {"redis", keyedRedis}, {"consul", keyedConsul}}

func keyedEtcd(_ context.Context, tb testing.TB) (keyed, error) {
	server := etcdtest.Run(tb)
	c, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints(), DialTimeout: 10 * time.Second})
	if err != nil {
		return keyed{}, err
	}
	tb.Cleanup(func() { _ = c.Close() })
	return keyed{
		func(key string) (datasource.Source, error) { return etcd.NewSource(c, key) }, server.Put,
		func() int { return server.Link().Stats().Open },
	}, nil
}

func keyedRedis(_ context.Context, tb testing.TB) (keyed, error) {
	server := redistest.Run(tb)
	o := server.Options()
	o.MaxRetries, o.DialerRetries, o.PoolSize = -1, 1, 4
	c := goredis.NewClient(o)
	tb.Cleanup(func() { _ = c.Close() })
	shared, err := redis.NewSubscriptions(c)
	return keyed{
		func(key string) (datasource.Source, error) { return redis.NewSource(c, key, redis.Shared(shared)) },
		func(ctx context.Context, key string, data []byte) error { return server.Publish(ctx, key, key, data) },
		func() int { return server.Link().Stats().Open },
	}, err
}

// keyedConsul speaks HTTP/2: over HTTP/1.1 an agent takes 200 connections, and with them 200 sources.
func keyedConsul(_ context.Context, tb testing.TB) (keyed, error) {
	server := consultest.Run(tb, consultest.WithTLS(false))
	transport := &http.Transport{TLSClientConfig: server.TLS(), ForceAttemptHTTP2: true}
	tb.Cleanup(transport.CloseIdleConnections)
	c, err := api.NewClient(&api.Config{Address: server.Addr(), Scheme: "https", HttpClient: &http.Client{Transport: transport}})
	return keyed{
		func(key string) (datasource.Source, error) { return consul.NewSource(c, key) }, server.Put,
		func() int { return server.Link().Stats().Open },
	}, err
}

// lengths is a converter whose rules take next to nothing.
type lengths struct{}

func (lengths) Decode(data []byte) (d converter.Decoded[int], err error) {
	d.Rules = []int{len(data)}
	return d, nil
}

func (lengths) Encode([]int) ([]byte, error) { return nil, nil }

var errNotAll = errors.New("not all documents arrived")

// hold opens n readables, has each hear of a change, and tells what they take.
func (k keyed) hold(ctx context.Context, tb testing.TB, n int) (held, error) {
	told := make(chan struct{}, 4*n)
	listener := property.ListenerFunc[[]int](func(context.Context, []int) error {
		told <- struct{}{}
		return nil
	})
	arrive := func() error {
		late := time.After(time.Minute)
		for range n {
			select {
			case <-told:
			case <-late:
				return errNotAll
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
	place := "rulewire-bench/" + unique() + "/"
	put := func(data string) error {
		for i := range n {
			if err := k.put(ctx, fmt.Sprint(place, i), []byte(data)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := put("[1]"); err != nil {
		return held{}, err
	}
	first, err := k.source(place + "0")
	if err == nil {
		_, err = first.Read(ctx) // what the client needs is there
	}
	if err != nil {
		return held{}, err
	}
	goroutines, bytes := taken()
	for i := range n {
		src, err := k.source(fmt.Sprint(place, i))
		if err != nil {
			return held{}, err
		}
		r, err := datasource.New(src, lengths{}, listener, datasource.Logger(nil))
		if err != nil {
			return held{}, err
		}
		tb.Cleanup(func() { _ = r.Close() })
		if err := r.Start(ctx); err != nil {
			return held{}, err
		}
	}
	if err := arrive(); err != nil {
		return held{}, err
	}
	if err := put("[22]"); err != nil {
		return held{}, err
	}
	if err := arrive(); err != nil {
		return held{}, err
	}
	more, heap := taken()
	return held{float64(more-goroutines) / float64(n), (heap - bytes) / n, k.connections()}, nil
}

func taken() (goroutines, bytes int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int(m.HeapAlloc + m.StackInuse)
}

// keysTable prints what n keys on one client take.
func keysTable(ctx context.Context, w io.Writer, match *regexp.Regexp, n int, strict bool) error {
	fmt.Fprintf(w, "%d keys on one client; each key beside its document and its rules\n\n", n)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "store\tgoroutines\tmemory\tconnections\tbudget\tmet")
	notes := []string{
		"redis: one connection with subscriptions, and four of the client's pool for reads",
		"consul: over HTTP/2; a blocking query is a request in flight for each key, which takes net/http a goroutine and buffers",
	}
	missed := false
	for _, s := range keyedStores {
		if !match.MatchString(s.name) {
			continue
		}
		var got held
		err := onHost(func(tb testing.TB) error {
			k, err := s.open(ctx, tb)
			if err == nil {
				got, err = k.hold(ctx, tb, n)
			}
			return err
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			missed = missed || !errors.Is(err, errSkipped)
			notes = append(notes, fmt.Sprintf("%s: not measured: %v", s.name, err))
			continue
		}
		met := "yes"
		if got.goroutines > keyGoroutines+0.1 || got.bytes > keyBytes {
			met, missed = "NO", true
		}
		fmt.Fprintf(table, "%s\t%.2f\t%.1f KiB\t%d\t≤ %d goroutines, ≤ %d KiB\t%s\n", s.name, got.goroutines, float64(got.bytes)/1024, got.connections, keyGoroutines, keyBytes>>10, met)
	}
	return finish(w, table, notes, missed && strict)
}
