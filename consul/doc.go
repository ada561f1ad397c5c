// Package consul keeps rule documents in Consul's key-value store: one document is the value of one key.
//
//	client, err := api.NewClient(api.DefaultConfig())
//	source, err := consul.NewSource(client, "sentinel/orders/flow")
//	rules, err := datasource.New(source, converter.JSON[rule.Flow](), manager)
//
// The client is yours: address, TLS and certificates are set on it, and it is never closed here. Leave its http.Client
// without a Timeout, or give [WaitTime] less than that: a blocking query is one long request. Each source that watches
// holds one connection, and an agent takes 200 from one address (limits.http_max_conns_per_client) unless HTTPS lets them
// share one by HTTP/2.
//
// # What the store says
//
//	never written, deleted        missing (404 with an index)
//	404 without an index          an error: something else than Consul answered
//	key of an expired session     missing, where the session's behaviour is "delete"; the key stays where it is "release"
//	key with an empty value       present, without bytes
//	key was rewritten unchanged   a new revision; the engine sees equal bytes and does nothing
//	another key changed           nothing: a wake-up without a change is not passed on
//
// The revision of a document is the key's ModifyIndex, which is its order, too. A missing document has no revision; its
// order is the index at which it was seen missing.
//
// # Consistency
//
// Reads and blocking queries ask for Consul's mode "consistent": the leader makes sure that it is still the leader. Where
// that costs too much, [Consistency] takes "default" or "stale"; a stale answer of a server without a leader is an error, and
// one of a server that lags looks like a fall of the index, after which the watch begins anew.
// A watch is a chain of blocking queries, each from the index of the one before, so nothing between two is lost. It ends on
// every error, whatever the status (the engine backs off), and when the index falls because a snapshot was restored: the
// engine reads again, and two reads must agree before the lower index counts.
//
// # Writing
//
// A [Sink] writes with check-and-set on the ModifyIndex (0, "must not exist", for Absent); the key's flags are kept.
// Consul does not tell the new index, so it is read back. If somebody else wrote in between, the revision returned is a
// number between the two that no document has: the next write over it is a conflict, as it must be. A failed answer is
// looked into: if the store holds what was written, the write succeeded; if it still holds the expected revision, the
// error of the request is returned. Such a request may still be on its way and arrive later, so read again before the
// next attempt; the check keeps it from overwriting anybody.
//
// # Cost when idle
//
// One blocking query each wait period (default 5 minutes) and one read each relist period. A server that answers blocking
// queries at once and without a change is asked at most once per second.
//
// # Permissions
//
// With access control on, the token needs key:read on the key for a source, key:write for a sink. [Token] is asked before
// each request, so that a token can be rotated.
//
// The guide is docs/consul.md.
package consul
