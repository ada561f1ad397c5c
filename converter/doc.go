// Package converter turns rule documents into typed rules and back.
//
// A document is a list of rules of one kind, in JSON or YAML, in one of two dialects:
//
//	              java (default)                          golang
//	written by    Sentinel 1.8, its Dashboard, fastjson   sentinel-golang 1.0
//	limit         count                                   threshold
//	what counts   grade                                   (flow: calls only) / strategy / metricType
//	over it       controlBehavior 0, 1, 2, 3              tokenCalculateStrategy 0, 1, 2 and controlBehavior 0, 1
//	breaker time  timeWindow, seconds                     retryTimeoutMs, milliseconds
//	slow calls    count, slowRatioThreshold               maxAllowedRtMs, threshold
//	hot values    paramFlowItemList, classType            specificItems, valKind
//	system rule   five limits in one object               metricType and triggerCount, one object for each limit
//	absent        warmUpPeriodSec 10, maxQueueingTimeMs   all 0
//	              500, minRequestAmount 5,
//	              slowRatioThreshold 1, statIntervalMs
//	              1000, durationInSec 1
//
// Authority rules exist in Java only and isolation rules in Go only; both dialects spell them alike. Members that only the
// other side has are kept beside by their own name (statIntervalInMs in a java document, clusterConfig in a golang one), so
// that nothing is lost when a document is written back.
//
// # What Decode refuses
//
// The document (an error, Faults that wrap ErrDecode): bytes that are not one JSON or YAML list, each by its name (gzip,
// HTML, NUL, UTF-32, trailing text, two YAML documents, a list inside a string); nothing at all, which wraps ErrEmpty
// too; a member that is a misspelling of a known one or a name of the other dialect, because "treshold": 100 beside an
// absent "threshold" is not a limit of 0.
//
// One rule (Decoded.Rejected): a wrong type (500.5 or "5" for a whole number, null for a rule), wrapping ErrDecode; a missing
// required member, a number outside its range or an enumeration, wrapping rule.ErrInvalid; a name that stands twice; a
// fastjson "$ref". All are reported at once, each with line, column and JSON pointer. More than ten thousand faults refuse
// the document.
//
// Whether a rule that can be read is a good one is not asked here; see rule.Validator.
//
// # What Decode tolerates
//
// A byte order mark and UTF-16; whole numbers written as 500.0 or 5e2; ids as numbers or strings; null for a member with a
// default; the Dashboard's members (app, ip, port, gmtCreate, gmtModified), which are dropped; authority and
// param-flow rules inside a "rule" member; members nobody knows, which go to the rule's Extra and the Report.
//
// # What Encode writes
//
// Plain rules with exact names in alphabetical order, as fastjson orders them; members with no value left out; "[]" for no
// rules; Extra last. A rule that the dialect has no words for is an error that wraps rule.ErrUnsupported, never another
// rule. What Encode wrote, Decode reads as the same rules.
package converter
