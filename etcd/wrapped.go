package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"

	"github.com/rulewire/rulewire/datasource"
)

// streamKey names the gRPC metadata by which a source gets a watch stream of its own.
const streamKey = "rulewire-stream"

// wrapped says whether the user put another watcher into the client, such as that of package clientv3/namespace, which only
// itself knows how to ask.
func wrapped(client *clientv3.Client) bool {
	return reflect.TypeOf(client.Watcher) != reflect.TypeOf(clientv3.NewWatcher(client))
}

// watchThrough watches by the client's own watcher, which costs a goroutine more for each source.
func (s *Source) watchThrough(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
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
				if known := (rpctypes.EtcdError{}); !errors.As(err, &known) {
					err = cancelled(err.Error()) // the client hands etcd's reason on as the text that it is
				}
				return fmt.Errorf("watch from revision %d: %w", from, denied(err))
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

// onStream gives the context that selects the watch stream. All sources of a client share one, until etcd refuses a
// watch on it: it goes by the token with which the stream was opened, so a stream that lives longer than its token can
// serve the watches that it has, and no new one (F110).
func (s *Source) onStream(ctx context.Context) context.Context {
	if own := s.stream.Load(); own != nil {
		return metadata.AppendToOutgoingContext(ctx, streamKey, *own)
	}
	return ctx
}

// ownStreams counts the streams that sources have for themselves, so that no two share one.
var ownStreams atomic.Uint64

func (s *Source) ownStream() {
	own := strconv.FormatUint(ownStreams.Add(1), 10)
	s.stream.Store(&own)
}

// lines are the connections on which watches are open: all watches of a client learn from one goroutine that it is lost.
var lines = struct {
	sync.Mutex
	held map[*grpc.ClientConn]*line
}{held: map[*grpc.ClientConn]*line{}}

type line struct {
	conn    *grpc.ClientConn
	lost    chan struct{} // closed at the first change from ready
	cancel  context.CancelFunc
	holders int
}

// hold gives the line of a connection that is ready. The client resumes watches by itself after a reconnect, silently:
// but what it reconnects to may be a store that was restored and has not the revision from which it resumes.
func hold(conn *grpc.ClientConn) *line {
	if conn == nil {
		return &line{}
	}
	lines.Lock()
	defer lines.Unlock()
	l := lines.held[conn]
	if l == nil {
		ctx, cancel := context.WithCancel(context.Background())
		l = &line{conn: conn, lost: make(chan struct{}), cancel: cancel}
		lines.held[conn] = l
		go func() {
			if conn.WaitForStateChange(ctx, connectivity.Ready) {
				lines.Lock()
				defer lines.Unlock()
				l.drop()
				close(l.lost)
			}
		}()
	}
	l.holders++
	return l
}

func (l *line) release() {
	if l.conn == nil {
		return
	}
	lines.Lock()
	defer lines.Unlock()
	if l.holders--; l.holders == 0 {
		l.drop()
		l.cancel()
	}
}

// drop lets the next watch begin a line of its own. The lock is held.
func (l *line) drop() {
	if lines.held[l.conn] == l {
		delete(lines.held, l.conn)
	}
}
