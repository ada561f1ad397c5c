package etcd

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rulewire/rulewire/datasource"
)

// closeGrace is how long the end of a watch waits for what it began.
const closeGrace = 500 * time.Millisecond

// streams are the watch streams of connections that take new watches. All watches of a connection share one; the client's own
// watcher would do so, too, with a goroutine and its buffers for each, and would go on by itself after a lost connection:
// silently, and perhaps on a store that was restored and has not the revision from which it goes on.
var streams = struct {
	sync.Mutex
	open map[*grpc.ClientConn]*stream
}{open: map[*grpc.ClientConn]*stream{}}

// stream is one Watch call of etcd's protocol. Its receiver goroutine hands over, its sender goroutine sends.
type stream struct {
	conn   *grpc.ClientConn
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{} // to the sender
	gone   chan struct{} // closed when both goroutines have returned

	mu      sync.Mutex
	orders  []*pb.WatchRequest // not yet sent
	creates []*watch           // those whose create was not yet answered, in the order of the requests
	watches map[int64]*watch
	next    int64
	holders int
	err     error // why it is over
}

// watch is one run of Watch. What is not a channel belongs to stream.mu.
type watch struct {
	source *Source
	id     int64
	opened chan int64    // gets the store's revision once
	mail   chan struct{} // has an item while there is a document
	ended  chan error    // gets the one reason why the watch is over

	order uint64 // of the newest document that was seen
	doc   datasource.Document
	full  bool
}

// join asks for a watch on the connection's stream, and begins one if there is none. It waits for nothing.
func join(s *Source, conn *grpc.ClientConn, from int64, order uint64) (*stream, *watch) {
	streams.Lock()
	defer streams.Unlock()
	st := streams.open[conn]
	if st == nil {
		st = &stream{conn: conn, wake: make(chan struct{}, 1), gone: make(chan struct{}), watches: map[int64]*watch{}}
		st.ctx, st.cancel = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
		streams.open[conn] = st
		go st.run()
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.holders++
	st.next++
	w := &watch{source: s, id: st.next, opened: make(chan int64, 1), mail: make(chan struct{}, 1), ended: make(chan error, 1), order: order}
	if st.err != nil {
		w.ended <- st.err
		return st, w
	}
	st.watches[w.id] = w
	st.creates = append(st.creates, w)
	// Progress notices tell up to which revision nothing is missing, so that the next watch meets fewer compactions.
	// Fragments keep the versions of a large document apart.
	st.order(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte(s.key), StartRevision: from, WatchId: w.id, ProgressNotify: true, Fragment: true,
	}}})
	return st, w
}

// leave ends the watch. The last one ends the stream, and waits for it but not for long.
func (st *stream) leave(w *watch) {
	streams.Lock()
	st.mu.Lock()
	if st.watches[w.id] == w {
		delete(st.watches, w.id)
		// The server meets it after the create, also where that is not answered yet.
		st.order(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: w.id}}})
	}
	st.holders--
	last := st.holders == 0
	st.mu.Unlock()
	if last {
		st.close()
	}
	streams.Unlock()
	if last {
		t := time.NewTimer(closeGrace)
		defer t.Stop()
		select {
		case <-st.gone:
		case <-t.C:
		}
	}
}

// close ends the stream for all. streams is locked.
func (st *stream) close() {
	st.retire()
	st.cancel()
}

// retire lets the next watch begin a stream of its own. streams is locked.
func (st *stream) retire() {
	if streams.open[st.conn] == st {
		delete(streams.open, st.conn)
	}
}

// order gives the sender a request. The lock is held.
func (st *stream) order(r *pb.WatchRequest) {
	st.orders = append(st.orders, r)
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// take empties the mailbox.
func (st *stream) take(w *watch) (doc datasource.Document, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	doc, ok = w.doc, w.full
	w.doc, w.full = datasource.Document{}, false
	return doc, ok
}

func (st *stream) run() {
	err := st.receive()
	streams.Lock()
	st.close()
	streams.Unlock()
	st.mu.Lock()
	st.err = err
	for _, w := range st.watches {
		w.end(err)
	}
	clear(st.watches)
	st.mu.Unlock()
	close(st.gone)
}

func (w *watch) end(err error) {
	select {
	case w.ended <- err:
	default: // it has its reason already
	}
}

// receive opens the stream and hands over what arrives until it ends.
func (st *stream) receive() error {
	rpc, err := pb.NewWatchClient(st.conn).Watch(st.ctx, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return reason(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		st.send(rpc)
	}()
	defer func() {
		st.cancel()
		<-sent
	}()
	for {
		r, err := rpc.Recv()
		if err != nil {
			return reason(err)
		}
		if refused := st.hand(r); refused {
			streams.Lock()
			st.retire()
			streams.Unlock()
		}
	}
}

// send sends what was ordered. Its errors are Recv's, too.
func (st *stream) send(rpc pb.Watch_WatchClient) {
	for {
		select {
		case <-st.ctx.Done():
			return
		case <-st.wake:
		}
		st.mu.Lock()
		orders := st.orders
		st.orders = nil
		st.mu.Unlock()
		for _, r := range orders {
			if rpc.Send(r) != nil {
				return
			}
		}
	}
}

// hand gives an answer to its watch. It says whether the stream was refused: it goes by the token with which it was opened,
// so one that lives longer than its token can serve the watches that it has, and no new one (F110).
func (st *stream) hand(r *pb.WatchResponse) (refused bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	w := st.watches[r.WatchId]
	if r.Created && len(st.creates) > 0 {
		// The refusal of a create has no id, but creates are answered in their order.
		created := st.creates[0]
		st.creates = st.creates[1:]
		w = st.watches[created.id]
	}
	switch {
	case r.CompactRevision > 0:
		st.over(w, rpctypes.ErrCompacted)
	case r.Canceled:
		err := cancelled(r.CancelReason)
		st.over(w, err)
		return r.Created && !errors.Is(err, rpctypes.ErrPermissionDenied)
	case w == nil: // it was given up
	case r.Created:
		w.opened <- r.Header.GetRevision()
	case r.Fragment: // the rest of the batch follows, and only where it ends is a state that the store was in
	case len(r.Events) > 0:
		last := r.Events[len(r.Events)-1]
		w.order = uint64(last.Kv.ModRevision)
		w.doc, w.full = w.source.event((*clientv3.Event)(last)), true
		select {
		case w.mail <- struct{}{}:
		default:
		}
	default:
		w.source.progress(w.order, r.Header.GetRevision())
	}
	return false
}

// over ends a watch that the server has ended. The lock is held.
func (st *stream) over(w *watch, err error) {
	if w != nil {
		delete(st.watches, w.id)
		w.end(err)
	}
}

// cancelled is etcd's reason, which comes as a text.
func cancelled(text string) error {
	for told, err := range map[error]error{
		rpctypes.ErrGRPCPermissionDenied: rpctypes.ErrPermissionDenied, rpctypes.ErrGRPCUserEmpty: rpctypes.ErrUserEmpty,
		rpctypes.ErrGRPCInvalidAuthToken: rpctypes.ErrInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision: rpctypes.ErrAuthOldRevision,
	} {
		if text == told.Error() {
			return err
		}
	}
	if text == "" {
		return errEnded
	}
	return errors.New(text)
}

// reason is why a stream ended. The transport's own text names ports, and would be another one each time.
func reason(err error) error {
	var known rpctypes.EtcdError
	switch err := rpctypes.Error(err); {
	case errors.Is(err, io.EOF):
		return errEnded
	case !errors.As(err, &known) && status.Code(err) == codes.Unavailable:
		return errLost
	default:
		return err
	}
}
