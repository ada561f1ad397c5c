// Package etcd keeps rule documents in etcd 3: one document is the value of one key.
//
//	client, err := clientv3.New(clientv3.Config{
//		Endpoints:            endpoints,
//		DialKeepAliveTime:    10 * time.Second, // else a connection that died in silence goes unnoticed for minutes
//		DialKeepAliveTimeout: 5 * time.Second,
//	})
//	source, err := etcd.NewSource(client, "/sentinel/orders/flow")
//	rules, err := datasource.New(source, converter.JSON[rule.Flow](), manager)
//
// The client is yours: user and password, TLS and certificates, endpoints and keepalive are set on it, and it is never
// closed here. Any number of sources and sinks may use one client; they share its connection and one watch stream. A
// client whose KV and Watcher were wrapped (package clientv3/namespace) is used as it is, at a goroutine more for each
// source.
//
// # What the store says
//
//	never written, deleted      missing
//	lease expired               missing: etcd deletes the key, and the watch tells
//	key with an empty value     present, without bytes
//	DELETE and PUT in one txn   the PUT alone: a batch of events counts by its last one
//	key was rewritten unchanged a new revision; the engine sees equal bytes and does nothing
//
// The revision of a document is the key's mod revision, which is its order, too. A missing document has no revision;
// its order is the store's revision at which it was seen missing.
//
// # Consistency
//
// Reads are linearizable. A watch goes on from the revision after the read, also where the key was missing, so nothing
// between the two is lost. It asks for a leader: on a member that lost its cluster it ends instead of staying silent. It
// also ends when its history was compacted or when the connection is lost; the engine then reads, and watches again from
// the revision of that read. A store that was restored from a backup and counts from a lower revision is noticed when the
// watch is opened, and by the relist.
//
// # Writing
//
// A [Sink] replaces the value in one transaction that compares the mod revision ("must not exist" for [writable.Absent]).
// A lease that the key has is kept. A failed answer is looked into: if the store holds what was written, the write
// succeeded; if it still holds the expected revision, the error of the request is returned. Such a request may still be on
// its way and arrive later, so read again before the next attempt; the comparison keeps it from overwriting anybody.
//
// # Cost when idle
//
// One linearizable read each relist period, and etcd's progress notice each ten minutes. No polling. A source takes no
// goroutine beside the two that the engine has for a watch; a client takes two for all its watches.
//
// # Permissions
//
// With authentication on, the user needs read on the key for a source, readwrite for a sink.
//
// The guide is docs/etcd.md.
//
// [writable.Absent]: https://pkg.go.dev/github.com/rulewire/rulewire/writable#Absent
package etcd
