package consultest

import (
	"fmt"
	"testing"
	"time"

	"github.com/rulewire/rulewire/consul"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
)

// BenchmarkEdit edits one rule among 2,700 on a real server: that is what fits under Consul's limit of 512 KiB for a value.
func BenchmarkEdit(b *testing.B) {
	server := Run(b)
	key := fmt.Sprintf("rulewire-bench/%d", time.Now().UnixNano())
	source, err := consul.NewSource(server.Client(), key)
	if err != nil {
		b.Fatal(err)
	}
	sink, err := consul.NewSink(server.Client(), key)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = server.Delete(b.Context(), key) }()
	datasourcetest.BenchmarkEdit(b, source, sink, 2_700)
}
