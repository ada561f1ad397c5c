package nacostest_test

import (
	"testing"

	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"

	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/nacos"
	"github.com/rulewire/rulewire/testcontainers/nacostest"
)

// BenchmarkEdit edits one rule among 10,000 (1.8 MB) on a real server.
func BenchmarkEdit(b *testing.B) {
	server := nacostest.Run(b)
	client := newClient(b, constant.ClientConfig{AppName: "orders"}, server.ServerConfigs())
	name := newName()
	source, err := nacos.NewSource(client, name, group, nacos.Timeout(latency))
	must(b, err)
	sink, err := nacos.NewSink(client, name, group, nacos.Timeout(latency))
	must(b, err)
	defer func() { _ = server.Delete(b.Context(), nacostest.Config{Group: group, DataID: name}) }()
	datasourcetest.BenchmarkEdit(b, source, sink, 10_000)
}
