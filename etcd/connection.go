package etcd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

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

// commit sends a transaction, and sends it once. Where an answer says that the request was cancelled or took too long (a
// proxy's, when it loses its server) and ctx has not ended, the client takes the transaction for one that may be repeated,
// writes too: one that was done then finds its own comparison failed, which reads as a conflict. Where the user put another
// KV into the client, such as that of package clientv3/namespace, only itself knows how to ask, and that stays so.
func (d *document) commit(ctx context.Context, build func(clientv3.Txn) clientv3.Txn) (*clientv3.TxnResponse, error) {
	conn := d.client.ActiveConnection()
	if conn == nil || reflect.TypeOf(d.client.KV) != reflect.TypeOf(clientv3.NewKV(d.client)) {
		return build(d.client.Txn(ctx)).Commit()
	}
	attempt, end := context.WithCancelCause(ctx)
	defer end(nil)
	kv := clientv3.NewKVFromKVClient(&once{pb.NewKVClient(conn), end}, d.client)
	answer, err := build(kv.Txn(attempt)).Commit()
	if err != nil && ctx.Err() == nil && attempt.Err() != nil {
		err = context.Cause(attempt)
	}
	return answer, err
}

// once ends the context of a transaction with the answer after which the client would repeat it.
type once struct {
	pb.KVClient
	end context.CancelCauseFunc
}

// Txn implements pb.KVClient.
func (o *once) Txn(ctx context.Context, r *pb.TxnRequest, options ...grpc.CallOption) (*pb.TxnResponse, error) {
	return o.KVClient.Txn(ctx, r, append(slices.Clip(options), grpc.OnFinish(func(err error) {
		if c := status.Code(err); c == codes.Canceled || c == codes.DeadlineExceeded {
			o.end(err)
		}
	}))...)
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
