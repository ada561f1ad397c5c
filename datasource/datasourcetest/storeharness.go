package datasourcetest

import (
	"testing"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

// storeKey is the document of a StoreHarness.
const storeKey = "rules"

// storeLimit is the largest document that its sink takes.
const storeLimit = 2 << 20

// StoreHarness is the harness of the reference store. A test may embed it and replace Source, to run the suite
// against a wrapper.
type StoreHarness struct {
	Store   *Store
	Flavour Flavour
}

var (
	_ Harness      = (*StoreHarness)(nil)
	_ Breaker      = (*StoreHarness)(nil)
	_ Staller      = (*StoreHarness)(nil)
	_ Denier       = (*StoreHarness)(nil)
	_ Scrambler    = (*StoreHarness)(nil)
	_ Loser        = (*StoreHarness)(nil)
	_ Restarter    = (*StoreHarness)(nil)
	_ Compacter    = (*StoreHarness)(nil)
	_ Resetter     = (*StoreHarness)(nil)
	_ DeletePutter = (*StoreHarness)(nil)
	_ Expirer      = (*StoreHarness)(nil)
	_ Neighbour    = (*StoreHarness)(nil)
	_ Requester    = (*StoreHarness)(nil)
	_ Subscriber   = (*StoreHarness)(nil)
	_ ClientKeeper = (*StoreHarness)(nil)
	_ Sinker       = (*StoreHarness)(nil)
	_ Limiter      = (*StoreHarness)(nil)
)

// NewStoreHarness makes harnesses over a fresh reference store each.
func NewStoreHarness(f Flavour) New {
	return func(testing.TB) Harness { return newStoreHarness(f) }
}

func newStoreHarness(f Flavour) *StoreHarness {
	s := NewStore()
	s.Limit(storeLimit)
	// Real stores have lived before; Reset needs room below.
	for range 20 {
		s.Put("another", nil)
	}
	return &StoreHarness{Store: s, Flavour: f}
}

// Source implements Harness.
func (h *StoreHarness) Source() (datasource.Source, error) {
	return h.Store.Source(storeKey, h.Flavour), nil
}

// Sink implements Sinker.
func (h *StoreHarness) Sink() (writable.Sink, error) { return h.Store.Sink(storeKey, h.Flavour), nil }

// Put implements Harness.
func (h *StoreHarness) Put(data []byte) error { return done(h.Store.Put(storeKey, data)) }

// Delete implements Harness.
func (h *StoreHarness) Delete() error { return done(h.Store.Delete(storeKey)) }

// Expire implements Expirer; to a watch of this store an expiry is a deletion.
func (h *StoreHarness) Expire() error { return h.Delete() }

// PutNeighbour implements Neighbour.
func (h *StoreHarness) PutNeighbour(data []byte) error {
	return done(h.Store.Put(storeKey+"-more", data))
}

// DeletePut implements DeletePutter.
func (h *StoreHarness) DeletePut(data []byte) error {
	return done(h.Store.Txn(Op{Key: storeKey, Delete: true}, Op{Key: storeKey, Data: data}))
}

// Break implements Breaker.
func (h *StoreHarness) Break() error { h.Store.Break(ErrBroken); return nil }

// Deny implements Denier.
func (h *StoreHarness) Deny() error { h.Store.Break(ErrDenied); return nil }

// Heal implements Breaker.
func (h *StoreHarness) Heal() error { h.Store.Heal(); return nil }

// Stall implements Staller.
func (h *StoreHarness) Stall() error { h.Store.Inject(Faults{Stalled: true}); return nil }

// Scramble implements Scrambler.
func (h *StoreHarness) Scramble() error {
	h.Store.Inject(Faults{Duplicate: true, Reorder: true})
	return nil
}

// LoseNotifications implements Loser.
func (h *StoreHarness) LoseNotifications() error {
	h.Store.Inject(Faults{LoseEvery: 1})
	return nil
}

// Restart implements Restarter.
func (h *StoreHarness) Restart() error { h.Store.CutWatches(ErrCut); return nil }

// Compact implements Compacter.
func (h *StoreHarness) Compact() error { h.Store.Compact(); return nil }

// Reset implements Resetter.
func (h *StoreHarness) Reset(data []byte) error {
	h.Store.Restore(h.Store.Revision()/2, Op{Key: storeKey, Data: data})
	return nil
}

// Requests implements Requester.
func (h *StoreHarness) Requests() int { return h.Store.Requests() }

// Subscriptions implements Subscriber.
func (h *StoreHarness) Subscriptions() int { return h.Store.Subscriptions() }

// ClientClosed implements ClientKeeper.
func (h *StoreHarness) ClientClosed() bool { return h.Store.Closes() > 0 }

// Limit implements Limiter.
func (h *StoreHarness) Limit() int { return storeLimit }

// done drops the revision of an edit that can't fail.
func done(uint64) error { return nil }
