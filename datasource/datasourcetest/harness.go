package datasourcetest

import (
	"errors"
	"testing"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

// ErrUnplayable is wrapped by what a harness method returns for something that its store can't do, such as an empty
// value where the store refuses one. The case is then skipped with the error's text as the reason.
var ErrUnplayable = errors.New("the store can't play this")

// Harness is one store with one document, which is missing at first, and one client. The suite makes a fresh one for
// each case, with the New of Config, and works in the role of the users of the client (Source) and of somebody else
// who edits the document over a link of their own (the other methods): what the client suffers does not touch those.
//
// What else a store can be made to do it says by the optional interfaces of this package. A case whose interface the
// harness lacks is skipped by name.
type Harness interface {
	// Source calls the driver's constructor for the harness's document, on the harness's client.
	Source() (datasource.Source, error)
	// Put stores the document, and returns once the store has it.
	Put(data []byte) error
	// Delete removes the document.
	Delete() error
}

// New makes the harness of one case. It may end with t.Cleanup what it began.
type New func(t testing.TB) Harness

// The optional abilities of a harness.
type (
	// Breaker cuts the client's link to the store: its requests fail at once and its watches end.
	Breaker interface {
		Break() error
		// Heal ends what Break, Stall, Deny and Scramble began.
		Heal() error
	}
	// Staller makes the link silent: requests hang, notifications are lost, connections look alive. Heal of Breaker,
	// which it needs, ends it.
	Staller interface{ Stall() error }
	// Denier makes the store refuse the client with an answer (401, 403, permission denied) instead of silence. The driver's
	// error must wrap datasource.ErrDenied.
	Denier interface{ Deny() error }
	// Scrambler lets the link repeat notifications and deliver them out of order.
	Scrambler interface{ Scramble() error }
	// Loser loses every notification; requests work.
	Loser interface{ LoseNotifications() error }
	// Restarter stops the store and starts it again with its data.
	Restarter interface{ Restart() error }
	// Compacter makes the store forget its history, so that no watch can join an earlier revision.
	Compacter interface{ Compact() error }
	// Resetter restores the store from a backup that holds data, so that it counts from a lower revision than before.
	Resetter interface{ Reset(data []byte) error }
	// DeletePutter deletes the document and puts data in one transaction, or as close as the store comes to that.
	DeletePutter interface{ DeletePut(data []byte) error }
	// Expirer lets the document expire (lease, time to live), and returns once it is gone.
	Expirer interface{ Expire() error }
	// Neighbour puts a document whose name begins with this document's name.
	Neighbour interface{ PutNeighbour(data []byte) error }
	// Replacer stores data as an editor saves a file: written beside, renamed over.
	Replacer interface{ Replace(data []byte) error }
	// Swapper stores data as Kubernetes updates a ConfigMap: another directory behind a symbolic link.
	Swapper interface{ Swap(data []byte) error }
	// Truncater empties the document in place; the suite fills it later with Fill, which writes on in place.
	Truncater interface {
		Truncate() error
		Fill(data []byte) error
	}
	// Requester counts the requests that sources sent to the store since the harness was made.
	Requester interface{ Requests() int }
	// Subscriber counts the subscriptions that the store knows of at this moment.
	Subscriber interface{ Subscriptions() int }
	// ClientKeeper says whether the client that the harness made is still open.
	ClientKeeper interface{ ClientClosed() bool }
	// Misconfigured calls the constructor with options that can't work and gives, by name, what it said. Each must be
	// an error.
	Misconfigured interface{ Misconfigured() map[string]error }
	// Secretive gives the secrets of the client's configuration; none may show in an ID or in an error.
	Secretive interface{ Secrets() []string }
	// Sinker makes a sink for the harness's document.
	Sinker interface{ Sink() (writable.Sink, error) }
	// Limiter gives the size of the largest document that the store takes, bytes.
	Limiter interface{ Limit() int }
)
