package etcdtest

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/etcd"
)

// BenchmarkEdit edits one rule among 8,000 on a real server: 10,000 do not fit under etcd's limit of 1.5 MiB for a request.
func BenchmarkEdit(b *testing.B) {
	server := Run(b)
	client, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	key := fmt.Sprintf("/rulewire-bench/%d", time.Now().UnixNano())
	source, err := etcd.NewSource(client, key)
	if err != nil {
		b.Fatal(err)
	}
	sink, err := etcd.NewSink(client, key)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Delete(b.Context(), key)
	datasourcetest.BenchmarkEdit(b, source, sink, 8_000)
}
