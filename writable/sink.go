// Package writable carries rules back to their store, store first and memory second.
package writable

import (
	"context"

	"github.com/rulewire/rulewire/datasource"
)

// Absent is the expected revision of a document that must not exist yet.
const Absent = ""

// Sink writes one document to one store, compare-and-set.
//
//  1. A constructor validates its options and does no I/O. It borrows the client and never closes it.
//  2. Write stores data only if the document's revision is still expected; Absent means "only if it does not exist".
//     Else nothing is written and the error wraps datasource.ErrConflict.
//  3. Write returns the document as it was written, with the revision that Source.Read of the same document gives.
//  4. A document over the store's limit is refused before it is sent, with datasource.ErrTooLarge.
//  5. A write is seen whole or not at all by every reader, also when the process or the link dies.
//  6. Where neither the answer nor a read-back tells whether a write took place, the error wraps
//     datasource.ErrUnknownOutcome.
type Sink interface {
	// ID names the document exactly as the Source of the same document does.
	ID() string
	// Read reads the document as it is now, with the store's strongest consistency.
	Read(ctx context.Context) (datasource.Document, error)
	// Write replaces the document if its revision is expected.
	Write(ctx context.Context, data []byte, expected string) (datasource.Document, error)
}
