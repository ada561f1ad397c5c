package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/rulewire/rulewire/datasource"
)

const (
	// closeGrace is how long the end of a watch waits for one that is being opened.
	closeGrace = 500 * time.Millisecond
	// streamKey names the gRPC metadata by which a source gets a watch stream of its own.
	streamKey = "rulewire-stream"
)

// Why a watch ended, where etcd gives no error of its own.
var (
	errNoClient    = errors.New("client is nil")
	errNotOpened   = errors.New("watch was not opened in time")
	errEnded       = errors.New("watch channel was closed without a reason")
	errLost        = errors.New("connection is lost")
	errFell        = errors.New("the store's revision fell: it was restored from a backup")
	errNoResponses = errors.New("answer to the read is empty")
)

var _ datasource.Watcher = (*Source)(nil)

// Source reads and watches one key.
type Source struct {
	document
	// seen is what the last read found, so that a watch can start after it.
	seen atomic.Pointer[sighting]
	// stream, if any, is the source's own watch stream.
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
		if err != nil {
			return err
		}
		deliver(doc)
		last = doc
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	line := hold(s.client.ActiveConnection())
	defer line.release()

	// A watch that is given up while it is being opened stays in the server, for the client forgets it. So the end of
	// ctx waits for the answer, but not for long. Else the client would try to open it for as long as it takes.
	watching, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	opening := time.AfterFunc(s.timeout, func() { cancel(errNotOpened) })
	defer opening.Stop()
	defer context.AfterFunc(ctx, func() { opening.Reset(closeGrace) })()

	from := s.after(last)
	// Progress notices move the revision from which the client resumes by itself, so that it meets fewer compactions.
	// Fragments keep the versions of a large document within the user's MaxCallRecvMsgSize.
	events := s.client.Watch(clientv3.WithRequireLeader(s.onStream(watching)), s.key, clientv3.WithRev(from),
		clientv3.WithCreatedNotify(), clientv3.WithProgressNotify(), clientv3.WithFragment())
	for created := false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-line.lost:
			return errLost
		case r, open := <-events:
			if !open {
				return cmp.Or(ctx.Err(), context.Cause(watching), errEnded)
			}
			if err := r.Err(); err != nil {
				if !created && !errors.Is(err, rpctypes.ErrCompacted) {
					s.ownStream()
				}
				return fmt.Errorf("watch from revision %d: %w", from, err)
			}
			if r.Created {
				created = true
				opening.Stop()
				if err := s.notBehind(ctx, r.Header.GetRevision(), from-1); err != nil {
					return err
				}
			}
			if n := len(r.Events); n > 0 {
				deliver(s.event(r.Events[n-1])) // only where a batch ends is a state that the store was in
			}
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

// onStream gives the context that selects the watch stream. All sources of a client share one, until etcd refuses a
// watch on it: it goes by the token with which the stream was opened, so a stream that lives longer than its token can
// serve the watches that it has, and no new one (F110).
func (s *Source) onStream(ctx context.Context) context.Context {
	if own := s.stream.Load(); own != nil {
		return metadata.AppendToOutgoingContext(ctx, streamKey, *own)
	}
	return ctx
}

// streams counts the streams that sources have for themselves, so that no two share one.
var streams atomic.Uint64

func (s *Source) ownStream() {
	own := strconv.FormatUint(streams.Add(1), 10)
	s.stream.Store(&own)
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
