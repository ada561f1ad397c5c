package apollo_test

import (
	"context"
	"testing"

	"github.com/rulewire/rulewire/apollo"
	"github.com/rulewire/rulewire/apollo/apollotest"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
)

// BenchmarkEdit edits one rule among 100 on the stand-in: that is what fits under Apollo's limit of 20,000 characters for a
// value. An edit is several requests there, for Apollo has no compare-and-set.
func BenchmarkEdit(b *testing.B) {
	server, conf, way := newServer()
	defer server.Close()
	client, err := apollo.NewClient(conf, way)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	portal := apollo.Portal{
		Address: apollotest.PortalURL, Env: "LOCAL", User: "apollo",
		Token: func(context.Context) (string, error) { return server.Token(), nil },
	}
	source, err := apollo.NewSource(client, "sentinel", "flow-rules")
	if err != nil {
		b.Fatal(err)
	}
	sink, err := apollo.NewSink(client, portal, "sentinel", "flow-rules")
	if err != nil {
		b.Fatal(err)
	}
	datasourcetest.BenchmarkEdit(b, source, sink, 100)
}
