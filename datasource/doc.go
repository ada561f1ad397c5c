// Package datasource keeps rules in step with the store where a team edits them.
//
// A Source reads one document from one store; a Watcher is also told of changes. A Readable is the engine over a
// source: it reads, watches, decodes with a converter, asks the guard, and tells its property's listeners. A Group runs
// many readables together; a Merged makes one rule set of several sources.
//
//	flow, err := datasource.New(source, converter.JSON[rule.Flow](), manager)
//	err = flow.Start(ctx)
//	defer flow.Close()
//
// # What an outcome does
//
// The rules in force stay unless a good document replaces them:
//
//	the store says                          default                      option
//	missing (never written, deleted,        keep, cause "missing"        OnMissing(Clear)
//	  expired)
//	zero bytes, blanks, null, ""            keep, refused "empty"
//	[] after rules were in force            keep, refused "empty_list"   OnEmptyList(Clear)
//	[] at the very first read               accepted: no rules
//	not a rule document, or too large       keep, refused "decode"       MaxBytes, 4 MiB
//	any rule invalid, or one that the       keep all, refused "invalid"  OnInvalid(SkipRule)
//	  core can't enforce
//	removes more than a share of the rules  accepted                     MaxShrink(share)
//	an older revision                       ignored; two reads that
//	                                        agree are believed
//
// A refused candidate that decoded and is valid is Status.Pending; Accept applies exactly that one. Clearing (OnMissing,
// OnEmptyList) wants two reads that agree, or an event that the store ordered after the document in force: a restarting
// or lagging server is empty for a moment.
//
// # What goes wrong and what is done
//
// A listener that returns an error has not applied the rules: the revision in force does not advance and the document is
// offered again with backoff, although the store stays silent. A store that does not answer is asked again after 500 ms
// to 30 s, never more than once a second after the first five seconds. Panics of converters, listeners, drivers and
// observers become errors. Status answers "what is in the store, what is in force, and why do they differ".
package datasource
