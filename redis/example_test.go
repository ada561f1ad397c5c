package redis_test

import (
	"context"
	"fmt"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/redis"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

func Example() {
	ctx := context.Background()
	client := redis.MemoryClient() // yours: goredis.NewClient, NewFailoverClient or NewClusterClient
	defer client.Close()

	// Somebody writes rules; Java services that listen on the channel get them, too.
	sink, err := redis.NewSink(client, "sentinel/orders/flow", redis.Channel("sentinel-rules"))
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
	source, err := redis.NewSource(client, "sentinel/orders/flow", redis.Channel("sentinel-rules"))
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
	fmt.Println(<-counts, "by the channel")
	// Output:
	// 100 from redis:sentinel/orders/flow
	// 50 by the channel
}

func ExampleNewSubscriptions() {
	client := redis.MemoryClient()
	defer client.Close()

	// One connection tells all sources of one client.
	shared, err := redis.NewSubscriptions(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []string{"sentinel/orders/flow", "sentinel/orders/degrade", "sentinel/orders/system"} {
		source, err := redis.NewSource(client, key, redis.Channel("sentinel-rules"), redis.Shared(shared))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(source.ID())
	}
	// Output:
	// redis:sentinel/orders/flow
	// redis:sentinel/orders/degrade
	// redis:sentinel/orders/system
}
