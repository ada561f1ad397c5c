// Package property holds a value that changes while a program runs, and tells its listeners.
//
// It is the middle of Rulewire: a readable puts each accepted document's rules into its property, and the property
// hands them to the rule managers. Listeners may be added and removed at any time; a late one gets the current value
// at once. A listener that returns an error, or panics, has not applied the value: the property keeps it as pending
// and the readable retries with backoff, although the store stays silent.
package property
