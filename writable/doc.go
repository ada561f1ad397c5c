// Package writable carries rules back to their store, store first and memory second.
//
// A Sink writes one document, compare-and-set; each backend has one. A Writable is the editor over a sink: it reads,
// lets the caller change the rules, checks them as every reader will, writes them in the document's own dialect and
// format, and then has the readable of the same document apply them at once.
//
//	flow, err := datasource.New(source, converter.JSON[rule.Flow](), manager)
//	edit, err := writable.New(sink, converter.JSON[rule.Flow](), writable.Readable(flow))
//	result, err := edit.Edit(ctx, func(rules []rule.Flow) ([]rule.Flow, error) {
//		return append(rules, rule.Flow{Resource: "/order", Count: 10, Grade: rule.GradeQPS}), nil
//	})
//
// # Verbs
//
//	Edit    read, change, compare-and-set; on a conflict all three again, a bounded number of times
//	Write   replace everything, if the document still has the revision that the caller saw
//	Create  write the first document; a conflict if there is one
//	Clear   no rules, whatever there was: stores []
//	Read    the rules and the revision, for Write
//
// # What an outcome means
//
//	error                 in the store              in this process
//	nil                   the new document          Result.InForce says so; if not, Result.Apply says why not
//	ErrConflict           somebody else's document  unchanged
//	ErrInvalid            unchanged, nothing sent   unchanged
//	ErrUnsupported        unchanged, nothing sent   unchanged: the core can't enforce a rule, or Java clients could not load the
//	                                                document with it (converter.Portable)
//	ErrDecode (Edit)      unchanged, nothing sent   unchanged
//	ErrTooLarge           unchanged                 unchanged
//	ErrUnknownOutcome     not known                 unchanged; the readable takes what it finds in the store
//	any other             unchanged                 unchanged
//
// A write whose answer was lost is looked up: if the store holds exactly what was written it was a success, if it still
// holds the revision before it was none. A request that is still on its way then may arrive later; compare-and-set keeps
// it from overwriting anything newer.
//
// # What an edit keeps
//
// Rules that the edit does not touch keep everything: members that Rulewire does not know (rule.Extra), members that
// only Java or only Go has, rules that the core can't enforce, their order and their ids. A JSON document that has a line
// for each rule, or is indented, stays so. Not kept are the Dashboard's own entity members (app, ip, port, gmtCreate,
// gmtModified; the Dashboard makes them anew), the "rule" wrapper around authority and hot-parameter rules, members that
// are absent or null and mean a default (they are written out), number spellings such as 1e1, and the comments and anchors of a YAML
// document.
//
// # History
//
// Every write that took place is logged with actor (WithActor), difference and both revisions, and given to the Audit
// hook.
package writable
