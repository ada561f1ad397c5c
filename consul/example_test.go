package consul_test

import (
	"context"
	"fmt"

	"github.com/rulewire/rulewire/consul"
	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

func Example() {
	ctx := context.Background()
	client, stop, err := consul.MemoryClient() // yours: api.NewClient(api.DefaultConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	// Somebody writes rules.
	sink, err := consul.NewSink(client, "sentinel/orders/flow")
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := sink.Write(ctx, []byte(`[{"resource":"/orders","grade":1,"count":100}]`), writable.Absent)
	if err != nil {
		fmt.Println(err)
		return
	}

	// This service follows them.
	source, err := consul.NewSource(client, "sentinel/orders/flow")
	if err != nil {
		fmt.Println(err)
		return
	}
	counts := make(chan float64, 10)
	rules, err := datasource.New(source, converter.JSON[rule.Flow](),
		property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
			counts <- rules[0].Count
			return nil
		}), datasource.Logger(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := rules.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer rules.Close()
	fmt.Println(<-counts, "from", source.ID())

	if _, err := sink.Write(ctx, []byte(`[{"resource":"/orders","grade":1,"count":50}]`), first.Revision); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-counts, "by the watch")
	// Output:
	// 100 from consul:sentinel/orders/flow
	// 50 by the watch
}

func ExampleToken() {
	client, stop, err := consul.MemoryClient()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	// The function is asked before each request, so it may give another token when the old one was rotated.
	current := func(context.Context) (string, error) { return "from your vault", nil }
	source, err := consul.NewSource(client, "sentinel/orders/flow", consul.Token(current), consul.Datacenter("dc2"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(source.ID())
	// Output: consul:sentinel/orders/flow?dc=dc2
}
