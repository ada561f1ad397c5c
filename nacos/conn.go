package nacos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/nacos-group/nacos-sdk-go/v2/api/grpc"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	// beat is how long a connection may be without an answer before it is asked for a sign of life, and beatTimeout how
	// long that may take. The SDK beats as often.
	beat        = 5 * time.Second
	beatTimeout = 3 * time.Second
	// register is the first pause while the server takes note of a new connection; pauses double.
	register = 2 * time.Millisecond
	// batch is how many documents one listen request names.
	batch = 1000
	// envelopeRoom is what a message needs beside the document.
	envelopeRoom = 64 << 10
	// escaped is how much longer a document may get as a JSON string.
	escaped = 6
	// sendLimit is the server's own limit for a request.
	sendLimit = 10 << 20
)

var (
	errReset = errors.New("the server asks its clients to connect elsewhere")
	errUnder = errors.New("connection is closed: nobody uses it")
)

// conn is one connection to one server: any number of requests, and one stream on which the server notifies.
type conn struct {
	account *account
	server  constant.ServerConfig
	grpc    *grpc.ClientConn
	rpc     pb.RequestClient
	stream  pb.BiRequestStream_RequestBiStreamClient
	cancel  context.CancelFunc
	onEnd   func(*conn, *pushed)

	active atomic.Int64  // when the last answer came, nanoseconds
	wake   chan struct{} // has an item while there is something for run to do

	ending sync.Once
	ended  chan struct{}
	err    error // why, set before ended is closed

	mu       sync.Mutex
	subs     map[key]map[*subscription]struct{}
	dirty    map[key]struct{} // to be told to the server: listened to if in subs, else not any more
	compared time.Time
}

// connect makes a connection that the server knows.
func connect(ctx context.Context, a *account, server constant.ServerConfig, onEnd func(*conn, *pushed)) (*conn, error) {
	secure, err := a.tls()
	if err != nil {
		return nil, err
	}
	transport := insecure.NewCredentials()
	if secure != nil {
		transport = credentials.NewTLS(secure)
	}
	// The context dialer makes it one attempt with one address; after a failure nothing is dialled again, for the
	// connection is given up as a whole.
	cc, err := grpc.NewClient("passthrough:///"+rpcAddress(server), grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return a.dial(ctx, address) }),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithNoProxy())
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &conn{
		account: a, server: server, grpc: cc, rpc: pb.NewRequestClient(cc), cancel: cancel, onEnd: onEnd,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
		subs: map[key]map[*subscription]struct{}{}, dirty: map[key]struct{}{}, compared: time.Now(),
	}
	if err := c.open(ctx, life); err != nil {
		cancel()
		_ = cc.Close()
		return nil, fmt.Errorf("%s: %w", rpcAddress(server), err)
	}
	c.active.Store(time.Now().UnixNano())
	go c.receive()
	go c.run()
	return c, nil
}

// open introduces the connection. The server takes note of it some milliseconds later and refuses it until then.
func (c *conn) open(ctx, life context.Context) error {
	var check checkAnswer
	if err := exchange(ctx, c.rpc, typeServerCheck, nil, internalRequest{"internal"}, "", &check); err != nil {
		return err
	}
	stream, err := pb.NewBiRequestStreamClient(c.grpc).RequestBiStream(life)
	if err != nil {
		return err
	}
	c.stream = stream
	setup, err := envelope(typeSetup, nil, setupRequest{
		internalRequest: internalRequest{"internal"}, ClientVersion: constant.CLIENT_VERSION,
		Tenant: c.account.config.NamespaceId, Labels: c.account.labels(),
	})
	if err != nil {
		return err
	}
	if err := stream.Send(setup); err != nil {
		return err
	}
	for pause := register; ; pause *= 2 {
		err := exchange(ctx, c.rpc, typeHealth, nil, internalRequest{"internal"}, "", &answer{})
		if err == nil || !errors.Is(err, errUnregistered) {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// end gives the connection up. Only the first reason counts.
func (c *conn) end(reason error, elsewhere *pushed) {
	c.ending.Do(func() {
		c.err = reason
		close(c.ended)
		c.cancel()
		_ = c.grpc.Close()
		c.onEnd(c, elsewhere)
	})
}

func (c *conn) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// call sends one request about a document (or about several, where k is zero). A refusal for the token's sake is tried
// once more with a new token.
func (c *conn) call(ctx context.Context, k key, kind string, body any, want string, into anyAnswer, options ...grpc.CallOption) error {
	for again := false; ; again = true {
		headers, err := c.account.headers(ctx, k)
		if err != nil {
			return err
		}
		err = exchange(ctx, c.rpc, kind, headers, body, want, into, options...)
		switch {
		case err == nil:
			c.active.Store(time.Now().UnixNano())
			return nil
		case errors.Is(err, ErrDenied) && !again && c.account.renew(ctx, headers[constant.KEY_ACCESS_TOKEN]):
			continue
		case errors.Is(err, errUnregistered), status.Code(err) == codes.Unavailable && ctx.Err() == nil:
			c.end(err, nil)
		}
		switch {
		case errors.As(err, new(*ServerError)):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx) // gRPC's own error does not say that in a way that errors.Is knows
		case c.over():
			return c.err
		}
		return err
	}
}

func (c *conn) place(k key) place {
	return place{DataID: k.dataID, Group: k.group, Tenant: c.account.config.NamespaceId}
}

// receive takes the server's requests and acknowledges them: what is not acknowledged it repeats, and drops the
// connection in the end.
func (c *conn) receive() {
	for {
		request, err := c.stream.Recv()
		if err != nil {
			c.end(err, nil)
			return
		}
		c.active.Store(time.Now().UnixNano())
		var p pushed
		if json.Unmarshal(request.GetBody().GetValue(), &p) != nil {
			continue
		}
		reply := ""
		switch request.GetMetadata().GetType() {
		case typeNotify:
			// The namespace is not compared: the connection has one only, and servers spell the public one in two ways.
			c.poke(key{group: p.Group, dataID: p.DataID})
			reply = "ConfigChangeNotifyResponse"
		case typeDetection:
			reply = "ClientDetectionResponse"
		case typeReset:
			reply = "ConnectResetResponse"
		case typeSetupAck:
			reply = "SetupAckResponse"
		default:
			continue
		}
		ack, err := envelope(reply, nil, acknowledgement{ResultCode: codeSuccess, Success: true, RequestID: p.RequestID})
		if err == nil {
			err = c.stream.Send(ack)
		}
		if err == nil && reply == "ConnectResetResponse" {
			c.end(errReset, &p)
			return
		}
		if err != nil {
			c.end(err, nil)
			return
		}
	}
}

func (c *conn) beat() error {
	ctx, cancel := c.bounded(beatTimeout)
	defer cancel()
	err := c.call(ctx, key{}, typeHealth, internalRequest{"internal"}, "", &answer{})
	if errors.As(err, new(*ServerError)) || errors.Is(err, errServer) {
		return nil // it lives
	}
	return err
}

func (c *conn) bounded(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(c.stream.Context(), d, fmt.Errorf("no sign of life within %v: %w", d, context.DeadlineExceeded))
}
