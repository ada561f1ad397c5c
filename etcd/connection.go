package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// reconnectGrace is how long a request waits for a connection that was lost before it says why there is none.
const reconnectGrace = time.Second

// connect waits until the client is connected, or else says why it is not. Without it a request would wait for a
// connection until it times out, and then not tell why: the client sets WaitForReady, and drops the cause. It also cuts
// short gRPC's own wait before the next dial, which grows to two minutes.
func (d *document) connect(ctx context.Context) error {
	conn := d.client.ActiveConnection()
	if conn == nil {
		return nil // a client that was made of parts, for a test
	}
	state := conn.GetState()
	if state == connectivity.Ready {
		return nil
	}
	wait := ctx
	if state == connectivity.TransientFailure {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, reconnectGrace)
		defer cancel()
		conn.ResetConnectBackoff()
	}
	for state != connectivity.Ready {
		conn.Connect() // it may be idle, and after a failure it becomes so
		if !conn.WaitForStateChange(wait, state) {
			break
		}
		if state = conn.GetState(); state == connectivity.TransientFailure || state == connectivity.Shutdown {
			break
		}
	}
	if state == connectivity.Ready {
		return nil
	}
	// A call that does not wait ends with the reason at once, and without a connection it is not sent.
	err := conn.Invoke(ctx, pb.KV_Range_FullMethodName, &pb.RangeRequest{Key: []byte(d.key)}, &pb.RangeResponse{}, grpc.WaitForReady(false))
	return rpctypes.Error(err)
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
