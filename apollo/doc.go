// Package apollo keeps rule documents in Apollo: one document is one key of a namespace, or the content of a namespace
// that is a .json, .yaml or .txt file.
//
//	client, err := apollo.NewClient(&config.AppConfig{AppID: "orders", IP: "http://meta:8080", Secret: secret})
//	defer client.Close()
//	source, err := apollo.NewSource(client, "application", "flow-rules")
//	rules, err := datasource.New(source, converter.JSON[rule.Flow](), manager)
//
// The configuration is agollo's config.AppConfig, so a service that has agollo gives the value it has. agollo itself is
// not used to read: it loses updates for half a minute after one 404 or a short cut, and puts backup files over live
// values. A [Client] speaks to the config service itself, reads and writes no file, and runs beside an agollo client
// without either knowing of the other. It is for one app id in one cluster; for another make another.
//
// # What the store says
//
//	key never written                     missing; Note says that the release does not have it
//	key deleted and that released         missing; Note says that it was deleted
//	key edited, but not released          what the release before has
//	namespace never released, or unknown  missing: the config service answers 404 to both; Note says so, and which of the
//	                                      two it is with [Inspect]
//	404 that is not Apollo's, a sign-in page, 401, 403   an error
//	key with an empty value               present, without bytes
//	cluster without a release of its own  the release of cluster "default", as for every client of Apollo; Note says so
//	gray release for our IP or label      the gray release
//	JSON text within quotes               handed over as it is, and so refused by the converter; Note says why
//
// The revision of a document is the release key of its namespace. A release of another key of the namespace moves it; the
// engine sees equal bytes and does nothing. A missing document has no revision. Release keys have no order.
//
// # Consistency
//
// A read asks the config service, which asks its database. Where config-service.cache.enabled is set it answers from a
// cache instead; a read after a notification tells the server how new the answer must be, others may be a second old.
//
// A watch is told by one long poll of all sources of the client (more than one only where their namespaces do not fit
// into 6 KiB of a request line, which is after about sixty), and delivers hints. The server scans for releases once a
// second, so a release is in force a second later at the latest. A poll that fails does not end the watch: the next
// names the last notification that is known and is answered with what is newer, at most 1.15 s later, and the engine's
// read shows the failure in its status meanwhile. A release that was heard and could not be read is told again as often,
// until a read succeeds. A namespace that does not exist holds up no other. An app id in another letter case than the
// portal's reads well where the database does not mind, and is not notified; Note says then that updates come by poll
// only.
//
// # Writing
//
// A [Sink] edits the item and releases the namespace, through the portal's open API ([Portal]) or the admin service
// ([Admin]), and returns when the config service serves the release. The release's comment names who wrote ([Actor]).
//
// Apollo has no compare-and-set. A sink compares release and item, puts its text into the item, waits ([Settle], 300 ms),
// looks again that both are as they should be, releases, and looks into the answer. In one process writers wait for each
// other. Of several processes, too, exactly one of those over one revision succeeds: during the wait each sees the edits
// of the others, and the last one to edit goes on. They must have the same Settle and edit as the same user. One window is
// left, from the last look to the release, one request long: what a person edits in the portal just then is released with
// ours, and if it is the very same item, theirs is what is released, and the write is a conflict.
//
// A release takes the whole namespace along. If it has edits that were not released, by anybody but the sink's own user
// in its own item, nothing is written and the error wraps [ErrDraft]. So give the sinks a user of their own, and the rules
// a namespace of their own. A write that fails half-way puts the item back; if the link is gone, too, the item stays edited
// and unreleased until the next write. One of another process, which can't know that its writer died, waits 4 s for it.
// Values over 20,000 characters are refused before anything is sent.
//
// A sink does not write where a gray release or another cluster's release is served to this instance: what would be
// replaced is not what was read.
//
// # Cost when idle
//
// A long poll each minute for the client, one conditional read each relist period for each source, and each half hour the
// list of servers. Reads of one namespace at the same moment are one. A client holds the last release of each of its
// namespaces in memory, as that is what "not modified" refers to.
//
// # Permissions
//
// A source needs the app's access key secret if the app has one; [Secret] is asked before each request, so that it can be
// rotated. A portal's token needs the roles to modify and to release the namespace; [Portal.Token] is asked likewise.
//
// The guide is docs/apollo.md.
package apollo
