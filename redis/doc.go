// Package redis keeps rule documents in Redis: one document is the string at one key, and a pub/sub channel tells of
// changes. It works with every redis.UniversalClient of go-redis but a Ring: a single server, one that Sentinels manage, a
// cluster.
//
//	client := goredis.NewClient(&goredis.Options{Addr: addr})
//	source, err := redis.NewSource(client, "sentinel/orders/flow")
//	rules, err := datasource.New(source, converter.JSON[rule.Flow](), manager)
//
// The client is yours: addresses, user and password, TLS and database are set on it, and it is never closed here.
//
// # What the store says
//
//	never written, deleted, expired   missing
//	key with an empty string          present, without bytes
//	a list, a hash or the like        an error that wraps ErrWrongType
//	more than MaxBytes                an error that wraps datasource.ErrTooLarge; the rest stays on the server
//
// Redis has no revisions: a document's revision is the SHA-256 of its bytes, and there is no order. A document that was
// changed and changed back is the same document again.
//
// # Consistency
//
// Reads go to the master, also with a cluster client that reads from replicas and with a client-side cache. (A client of one
// server, or of Sentinels with ReplicaOnly, goes where it was told to go: give it the master.) Redis replicates
// asynchronously: after a failover the newest write may be gone from the store, and the rules follow the store.
//
// # How changes arrive
//
// A message on the channel is a hint to read the key; what it says is not looked at, so a message that is late, double or
// forged does no harm. A hint comes, too, whenever the subscription is in place, so that what was published while there was
// none is found. Messages get lost without a sign, hence three nets:
//
//   - the subscription is pinged, and given up when nothing was heard for Silence; so is one that breaks. The engine
//     reads and subscribes again, which after a failover leads to the new master.
//   - a read that finds a change of which no message told casts doubt: after two seconds the connection is replaced (at
//     most once in Silence), for it may hang on an old master that answers pings and tells nothing. Note says so
//     until a message comes.
//   - the engine's relist.
//
// Deletion and expiry, and writers that SET without PUBLISH, are told by nobody: the relist finds them, or at once
// Keyspace, where the server sends keyspace notifications. In a cluster these come from the key's master only; the source
// subscribes there, and follows the slot within Silence when it moves. Plain channels reach every node.
//
// # Writing
//
// A [Sink] compares, sets and publishes in one transaction (WATCH, MULTI, SET KEEPTTL, PUBLISH, EXEC). Any write to the key
// between comparison and EXEC, a plain SET included, makes it a conflict. The channel gets the whole document, as
// Sentinel's Java RedisDataSource wants it. A time to live stays. In a cluster key and channel need not share a hash slot.
//
// # Cost when idle
//
// One GETRANGE (GET while the key is missing) for each source and relist, two PINGs in Silence for each connection, and with
// Keyspace in a cluster two look-ups of the topology in Silence for each Subscriptions. [Subscriptions] lets any number of
// sources share one connection.
//
// # Permissions
//
// A source needs GET, GETRANGE, SUBSCRIBE, UNSUBSCRIBE and PING, the key for reading and the channel; Keyspace also CONFIG
// GET and the channel __keyspace@DB__:KEY. A client that reads replicas or has a cache also needs MULTI and EXEC. A sink
// needs WATCH, UNWATCH, MULTI, EXEC, GET, GETRANGE, SET and PUBLISH, the key for both and the channel.
//
// The guide is docs/redis.md.
package redis
