package main

import (
	"cmp"
	"context"
	"net/url"
	"os"
	"strings"

	"github.com/apolloconfig/agollo/v4/env/config"

	"github.com/rulewire/rulewire/apollo"
)

// tokenEnv has the token of Apollo's open API, which is no business of a command line.
const tokenEnv = "RULEWIRE_APOLLO_TOKEN"

// openApollo reads from the config service, or the meta server, that the address names, and edits through
// ?portal=host:port&env=LOCAL, or ?admin=host:port where there is no portal; ?user=name says as whom.
func openApollo(u *url.URL, path string) (store, error) {
	parts := strings.SplitN(path, "/", 3)
	if len(parts) != 3 {
		return store{}, errStore
	}
	q := u.Query()
	user := cmp.Or(q.Get("user"), "apollo")
	var editor apollo.Editor = apollo.Admin{Address: q.Get("admin"), User: user}
	if portal := q.Get("portal"); portal != "" {
		editor = apollo.Portal{
			Address: portal, Env: cmp.Or(q.Get("env"), "LOCAL"), User: user,
			Token: func(context.Context) (string, error) { return os.Getenv(tokenEnv), nil },
		}
	}
	client, err := apollo.NewClient(&config.AppConfig{AppID: parts[0], IP: u.Host})
	if err != nil {
		return store{}, err
	}
	source, err := apollo.NewSource(client, parts[1], parts[2])
	if err != nil {
		_ = client.Close()
		return store{}, err
	}
	sink, err := apollo.NewSink(client, editor, parts[1], parts[2])
	if err != nil {
		_ = client.Close()
		return store{}, err
	}
	return store{source, sink, func() { _ = client.Close() }}, nil
}
