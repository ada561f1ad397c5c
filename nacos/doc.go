// Package nacos keeps rule documents in Nacos: one document is one configuration, named by its data id and group in the
// client's namespace.
//
//	client, err := clients.NewConfigClient(vo.NacosClientParam{ClientConfig: &config, ServerConfigs: servers})
//	source, err := nacos.NewSource(client, "orders-flow-rules", "SENTINEL_GROUP")
//	rules, err := datasource.New(source, converter.JSON[rule.Flow](), manager)
//
// The client is yours and is never closed here. What the package takes from it is its configuration: servers or address
// server, namespace, user and password, access keys, TLS, application name and labels. The requests themselves go over a
// connection of Rulewire's own, one for all sources and sinks of a client, by Nacos's gRPC protocol (Nacos 2.0 and
// newer). The SDK's own listening loses notifications as soon as one client watches two documents, serves values from
// files when a read fails, and can't tell a missing document from an empty one; docs/decisions/0008-nacos-own-connection.md
// has what was measured. So nothing of the SDK's runs: no cache file, no snapshot, no log, no limit of five reads a
// second. The connection is there while a source is watched or a request is under way, and closes with the last of them.
// Closing the client does not close it.
//
// # What the store says
//
//	never written, deleted      missing
//	content ""                  missing: Nacos refuses to store an empty document
//	"server is starting"        an error, although its code is the one of a missing document
//	content that does not have the checksum that the server says   an error
//	same content written again  no notification, no new revision
//
// The revision of a document is the MD5 of its content, as it is for Nacos. It has no order: away and back is the same
// revision, and what Watch delivers are hints, upon which the engine reads.
//
// # Consistency
//
// A server answers reads from a cache that follows its database some 20 to 40 ms later, and each server of a cluster does
// so by itself. There is no stronger read. It notifies when its cache has the new document, so the read after a
// notification sees it. The safety net for notifications that get lost is a comparison of all checksums in one request,
// each 10 s (option [Compare]); a connection that has been silent for 5 s is asked for a sign of life.
//
// # Writing
//
// A [Sink] publishes with the checksum of what it replaces, which the server compares in its database. Where there is no
// document Nacos compares nothing:
//
//	two writers create it at once      one is in the store; the other gets a conflict when it sees the first one's
//	deleted between look and write     the write creates it again (some milliseconds)
//	the server ignores checksums       datasource.ErrUnsupported, unless option [ReadCompareWrite] accepts the gap
//
// Whether a server compares is found out before the first write of a client, on a document of its own, named
// rulewire-cas-probe- and a random text, in the group of the sink, which is removed at once. Write returns when the
// server serves what was written. A publish sets the content type ([Type]) and the application; a description or tags
// that were set in the console may be lost with it, as with every publish of every client.
//
// # Cost
//
// One TCP connection and some ten goroutines for each client, beside the one goroutine that the engine has for each watch.
// Idle: one comparison each 10 s for all documents of a client together, and one read of each document per relist (60 s).
//
// # Permissions
//
// A source needs read ("r") on the namespace, a sink read and write ("rw"). A refused token is renewed once; what is
// still refused wraps [ErrDenied].
//
// The guide is docs/nacos.md.
package nacos
