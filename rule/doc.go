// Package rule holds the rules themselves: one struct per kind, what makes a rule valid, when two rules are equal, what
// changed between two sets, and the Manager that keeps the set in force.
//
// # Kinds
//
// [Flow], [Degrade], [System], [Authority] and [ParamFlow] are Sentinel's kinds with the union of the fields of Java
// 1.8.9 and sentinel-golang 1.0.4; [Isolation] is known in Go only. Units are in the names (Ms, Sec) and never change
// between dialects: package converter turns seconds into milliseconds and back. The zero value of a struct is not the
// default of a document: a converter fills in the dialect's defaults, code that builds rules sets what it means.
//
// # Validity
//
// Validate gives every fault of a rule in one [Invalid], each with the member's name as Java documents spell it. A rule
// is valid if both Java's isValid and sentinel-golang's accept it, with four deviations that the methods document: enums
// out of range are faults although Java lets some of them act as the default; maxQueueingTimeMs 0 and minRequestAmount 0
// are valid because sentinel-golang gives them a meaning; and a system rule that sets no limit at all is a fault.
//
// # Managers
//
// A [Manager] holds an immutable set behind one atomic pointer. Readers never take a lock and never see half a set; Load
// checks and copies the whole new set beside the old one and then swaps, so an invalid rule or a panic leaves the old
// set in force. Load says what it accepted, rejected, collapsed and changed.
//
// Rule types of the user's own take part in all of it by implementing any of [Keyer], [Validator], [Equaler] and
// [Cloner]; see [TraitsOf].
package rule
