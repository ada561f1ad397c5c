// Package apollotest is an Apollo in memory, for tests of what reads from Apollo or writes to it.
//
//	server := apollotest.NewServer()
//	defer server.Close()
//	flow := server.Namespace("orders", "default", "application")
//	flow.Put("flow-rules", `[{"resource":"/order","count":5}]`) // edit and release
//	link := server.Link()                                        // the client's way to it, which can be cut
//	client, err := apollo.NewClient(&config.AppConfig{AppID: "orders", IP: apollotest.ConfigURL}, apollo.HTTPClient(link.Client()))
//
// It speaks the protocol of Apollo 2.4.0's config service (configs, cached config files, notifications v2, the list of
// services, signatures), of the portal's open API and of the admin service (items, releases, drafts, gray releases), and answers as
// that was seen to: a poll is held for 60 s and then answered 304; releases are scanned for once a second; 404 for an
// unknown app, an unknown namespace and one that was never released; 400 for an empty or broken list; the config files
// lag behind. It works over connections in memory, so in a testing/synctest bubble, too.
//
// [Dial] makes a link to an Apollo that runs elsewhere, with the same faults, and [Open] makes namespaces there: one
// suite then runs on either.
package apollotest
