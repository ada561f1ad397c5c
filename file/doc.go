// Package file keeps rules in files: a source that reads and watches one, a sink that replaces one, and a source for
// files embedded in the program.
//
//	degrade, err := file.NewSource("rules/degrade.json")
//
// # What the source says
//
//	on the disk                               what Read gives
//	a file                                    present, the revision being a hash of its bytes
//	a file of zero bytes                      present without bytes; one that was just emptied gets the grace period
//	                                          (1 s) to be filled again
//	no file, no folder, a broken link         missing; a file that was there gets the grace period to come back
//	a file replaced by a rename               present, at once
//	a file written in place                   present once it has rested (50 ms; YAML 500 ms)
//	a file that never rests                   ErrUnsettled after the grace period
//	over MaxBytes (4 MiB)                     datasource.ErrTooLarge
//	a folder or device, or forbidden          an error that says so
//
// What missing and empty then do is the guard's affair: by default the rules in force stay.
//
// # How it is watched
//
// The base is a look at the file every 3 s (Interval): inode, size, modification and change time, through every
// symbolic link. It needs no events, so that network file systems, exhausted inotify limits and odd editors cost
// time but no update. Events of the folders on the way to the file only make it fast: an atomic replace is in force
// within milliseconds. An event never says what happened, only that it is worth a look; what counts is the content.
// Source.Note says when there are no events, and why.
//
// Folders are watched, never the file, which an editor replaces; and every folder on the way through symbolic links,
// such as ..data of a mounted ConfigMap. Folders that vanish, move or come later are followed.
//
// # Cost
//
// Idle, a source makes some ten system calls every 3 s and reads nothing. Watching takes the goroutine that calls Watch and,
// without WithNotifier, an inotify instance (128 per user on most systems) and two goroutines more. Share a Notifier
// when there are more than a few sources.
//
// # What the sink does
//
// Write compares the hash of the file with the expected revision and replaces the file: temporary file in the same folder,
// fsync, rename, fsync of the folder. Readers see the old or the new document, also when the process is killed. Sinks
// of all processes of a machine take turns by a lock on the folder; editors don't take it. Mode and owner stay.
//
// # Limits
//
// A call into a dead network file system (a hard NFS mount) blocks until the server answers; no context ends it. On Windows
// a file that a reader has open can't be replaced at that moment: Write fails and changes nothing. On systems without
// file locks (Solaris, AIX, Plan 9, WebAssembly) Write is datasource.ErrUnsupported.
package file
