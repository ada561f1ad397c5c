// Package command makes a process a citizen of the Sentinel Dashboard (Java, 1.8): it answers on the command port, beats to
// the dashboard, and carries the dashboard's edits to the store.
//
//	centre, err := command.New(
//		command.Registry(registry),            // what may be read and edited
//		command.Stats(statistics),             // what the charts and the tree show
//		command.App("orders", command.AppCommon),
//		command.Dashboards("10.0.0.9:8080"),   // where to beat to; none = answer only
//	)
//	err = centre.Start(ctx)                    // binds 127.0.0.1:8719, or the next free port
//	defer centre.Close()
//
// Beside sentinel-golang, sentinel.Command does all of this as one part of sentinel.Open.
//
// # An edit
//
// The dashboard knows one verb: setRules with the whole list of a kind. An edit is checked, then written to the store with
// compare-and-set, and only then brought into force here. The answer is success only if all of that took place. The
// document is never replaced as a whole: the rules that the push changes are changed in the store's newest document, so that
// what the dashboard can't know survives (fields that only Go has, members of a newer Sentinel, rules of other people that
// came after its page was opened). See docs/command.md for what each hazard of the dashboard leads to.
//
// A push that would remove more than one rule in force is refused (MaxRemoved), because one click removes one rule: it comes
// from a dashboard that forgot the others. It stays visible (Centre.Pending), and an operator may accept it (Centre.Accept).
//
// # Safety
//
// Nothing listens before Start. The default address is the loopback one, where the Dashboard must run too; another
// address has to be asked for, and should come with Peers, Tokens or TLS. Requests that a browser sends on behalf of
// a web page, or under a host name that is not ours, are refused.
package command
