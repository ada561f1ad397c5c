package etcd_test

import (
	"context"
	"fmt"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/etcd"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

func Example() {
	ctx := context.Background()
	client, stop, err := etcd.MemoryClient() // yours: clientv3.New(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	// Somebody writes rules.
	sink, err := etcd.NewSink(client, "/sentinel/orders/flow")
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
	source, err := etcd.NewSource(client, "/sentinel/orders/flow")
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
	// 100 from etcd:/sentinel/orders/flow
	// 50 by the watch
}
