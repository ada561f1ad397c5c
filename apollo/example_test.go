package apollo_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/apolloconfig/agollo/v4/env/config"

	"github.com/rulewire/rulewire/apollo"
	"github.com/rulewire/rulewire/apollo/apollotest"
	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
)

// A server in memory stands where yours is; with it go HTTPClient and the two addresses.
func newServer() (server *apollotest.Server, conf *config.AppConfig, way apollo.ClientOption) {
	server = apollotest.NewServer()
	server.Namespace("orders", "default", "sentinel").Put("flow-rules", `[{"resource":"/order/create","count":50}]`)
	return server, &config.AppConfig{AppID: "orders", IP: apollotest.ConfigURL}, apollo.HTTPClient(server.Link().Client())
}

// The rules of one key, kept in step with what is released.
func ExampleNewSource() {
	server, conf, way := newServer()
	defer server.Close()

	client, err := apollo.NewClient(conf, way)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	source, err := apollo.NewSource(client, "sentinel", "flow-rules")
	if err != nil {
		log.Fatal(err)
	}
	listener := property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
		for _, r := range rules {
			fmt.Println(r.Resource, r.Count)
		}
		return nil
	})
	rules, err := datasource.New(source, converter.JSON[rule.Flow](), listener)
	if err != nil {
		log.Fatal(err)
	}
	defer rules.Close()
	if err := rules.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(source.ID(), rules.Status().State)
	// Output:
	// /order/create 50
	// apollo:orders/default/sentinel/flow-rules live
}

// One edit: the item is changed and the namespace released, if the document is still the one that was read.
func ExampleNewSink() {
	server, conf, way := newServer()
	defer server.Close()

	client, err := apollo.NewClient(conf, way)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	portal := apollo.Portal{
		Address: apollotest.PortalURL, Env: "LOCAL", User: "apollo",
		Token: func(context.Context) (string, error) { return server.Token(), nil },
	}
	sink, err := apollo.NewSink(client, portal, "sentinel", "flow-rules",
		apollo.Actor(func(context.Context) string { return "alice" }))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	now, err := sink.Read(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := sink.Write(ctx, []byte(`[{"resource":"/order/create","count":80}]`), now.Revision); err != nil {
		log.Fatal(err)
	}
	title, comment := server.Namespace("orders", "default", "sentinel").Comment()
	fmt.Println(strings.Fields(title)[0], "|", comment)
	_, err = sink.Write(ctx, []byte(`[]`), now.Revision) // over what is no longer there
	fmt.Println(err != nil)
	// Output:
	// rulewire | Rulewire, for alice
	// true
}
