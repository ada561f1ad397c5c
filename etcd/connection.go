package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/rulewire/rulewire/datasource"
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
	switch state {
	case connectivity.Ready:
		return nil
	case connectivity.Shutdown:
		return errClientClosed // it never becomes anything else, and the client would try a request a hundred times
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
	return denied(rpctypes.Error(err))
}

// denied marks etcd's refusals of a user, a password, a token or a right.
func denied(err error) error {
	known := rpctypes.Error(err)
	if c := code(err); c == codes.PermissionDenied || c == codes.Unauthenticated ||
		errors.Is(known, rpctypes.ErrAuthFailed) || errors.Is(known, rpctypes.ErrUserEmpty) {
		return fmt.Errorf("%w: %w", datasource.ErrDenied, err)
	}
	return err
}
