package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rulewire/rulewire/datasource"
)

// Why a watch ended, where etcd gives no error of its own.
var (
	errNoClient  = errors.New("client is nil")
	errNotOpened = errors.New("watch was not opened in time")
	errEnded     = errors.New("watch channel was closed without a reason")
	errLost      = errors.New("connection is lost")
	// errClientClosed: it is the user's client that is closed, not the source or the sink.
	errClientClosed = errors.New("the client is closed")
	errFell         = errors.New("the store's revision fell: it was restored from a backup")
	errNoResponses  = errors.New("answer to the read is empty")
)

var _ datasource.Watcher = (*Source)(nil)

// Source reads and watches one key.
type Source struct {
	document
	// seen is what the last read found, so that a watch can start after it.
	seen atomic.Pointer[sighting]
	// stream, if any, is the source's own watch stream of a watcher that was wrapped.
	stream atomic.Pointer[string]
}

// sighting is a fact about the store: at revision at, order was the document's newest.
type sighting struct {
	order uint64
	at    int64
	// refused: the document was too large to be handed over, so that nobody can know its order.
	refused bool
}

// NewSource makes a source of the document at key. It does no I/O. The client is borrowed.
func NewSource(client *clientv3.Client, key string, options ...Option) (*Source, error) {
	d, err := newDocument(client, key, false, options)
	if err != nil {
		return nil, err
	}
	return &Source{document: d}, nil
}

// ID is "etcd:" with prefix and key.
func (s *Source) ID() string { return s.id }

// Read reads the document, linearizably.
func (s *Source) Read(ctx context.Context) (datasource.Document, error) {
	doc, at, err := s.get(ctx)
	if at > 0 {
		s.seen.Store(&sighting{doc.Order, at, err != nil})
	}
	return doc, err
}

// Watch delivers what comes after last. It returns when ctx ends, and when history was compacted, the leader or the
// connection is lost, or etcd ends the watch for any other reason.
func (s *Source) Watch(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
	if last.Order == 0 { // nothing to join
		doc, err := s.Read(ctx)
		if errors.Is(err, datasource.ErrTooLarge) {
			doc, err = datasource.Hint(), nil // the read that follows says so; what replaces the document is news
		}
		if err != nil {
			return err
		}
		deliver(doc)
		last = doc
	}
	connecting, cancel := context.WithTimeout(ctx, s.timeout)
	err := s.connect(connecting)
	cancel()
	if err != nil {
		return err
	}
	conn := s.client.ActiveConnection()
	if conn == nil || wrapped(s.client) {
		return s.watchThrough(ctx, last, deliver)
	}
	from := s.after(last)
	st, w := join(s, conn, from, last.Order)
	defer st.leave(w)
	opening := time.NewTimer(s.timeout)
	defer opening.Stop()
	opened := w.opened
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-opening.C:
			return errNotOpened
		case revision := <-opened:
			opening.Stop()
			opened = nil
			if err := s.notBehind(ctx, revision, from-1); err != nil {
				return err
			}
		case <-w.mail:
			if doc, ok := st.take(w); ok {
				deliver(doc)
			}
		case err := <-w.ended:
			if doc, ok := st.take(w); ok {
				deliver(doc)
			}
			return fmt.Errorf("watch from revision %d: %w", from, denied(err))
		}
	}
}

// after gives the revision from which a watch joins last. The document's own revision may be compacted long ago, so the
// revision of the read that found it counts where it is known: between the two the document did not change.
func (s *Source) after(last datasource.Document) int64 {
	if seen := s.seen.Load(); seen != nil && (seen.order == last.Order || seen.refused) {
		return seen.at + 1
	}
	return int64(last.Order) + 1
}

// notBehind tells a member that lags, which is harmless, from a store that was restored: a watch from a revision that the
// store does not have yet is silent until the store gets there.
func (s *Source) notBehind(ctx context.Context, revision, known int64) error {
	if revision >= known {
		return nil
	}
	if _, at, err := s.get(ctx); at < known {
		return cmp.Or(err, errFell)
	}
	return nil
}

// progress notes that order was still the newest at a later revision.
func (s *Source) progress(order uint64, at int64) {
	if seen := s.seen.Load(); seen != nil && seen.order == order && seen.at < at {
		s.seen.CompareAndSwap(seen, &sighting{order, at, seen.refused})
	}
}

func (s *Source) event(e *clientv3.Event) datasource.Document {
	if e.Type == clientv3.EventTypeDelete {
		return datasource.Document{Presence: datasource.Missing, Order: uint64(e.Kv.ModRevision)}
	}
	if len(e.Kv.Value) > s.maxBytes {
		return datasource.Hint() // the read that follows says that it is too large
	}
	return present(e.Kv)
}
