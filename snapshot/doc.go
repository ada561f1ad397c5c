// Package snapshot keeps the last good document of each source on the disk, so that a program whose store is down when
// it starts has the rules of yesterday instead of none.
//
//	snapshots, err := snapshot.Dir("/var/lib/orders/rules")
//	flow, err := datasource.New(source, converter.JSON[rule.Flow](), listener,
//		datasource.Snapshots(snapshots), datasource.OnStart(datasource.Snapshot))
//
// The engine saves each document that came into force, and loads only at the start, only if the policy says so and the
// store gives no good document. Rules from a snapshot are marked stale in the status, with the time they were saved; the
// first good document of the store replaces them. A snapshot never overrides a store that answers.
//
// # Files
//
// Nothing is written unless a folder is configured, and the folder is made when the first document is saved (mode 0700,
// files 0600). Each source has a file of its own, named after the end of its ID and a hash of the whole:
//
//	rulewire-snapshot 1 SHA-256 of all that follows this line
//	{"id":"etcd:/rules/flow","presence":"present","revision":"42","order":42,"saved":"2026-01-01T10:00:00Z","bytes":2}
//	[]
//
// A file is replaced atomically: a crash leaves the old snapshot or the new one. One that is cut short, changed, of
// another source or of a later format is ErrCorrupt, and never used. Deleting a file, or all of them, loses
// nothing but the fallback.
package snapshot
