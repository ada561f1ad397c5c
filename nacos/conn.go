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

// subscription is one Watch of one document.
type subscription struct {
	key key
	// seen gives the checksum of the document that was read last, "" for a missing one.
	seen    func() string
	compare time.Duration
	signal  chan struct{} // has an item while the document may have changed
	failed  chan error    // has why the server does not let us listen
}

func (s *subscription) poke() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
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

// subscribe has the server notify of changes to a document; the first signal comes at once if it is not as seen.
func (c *conn) subscribe(s *subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subs[s.key] == nil {
		c.subs[s.key] = map[*subscription]struct{}{}
	}
	c.subs[s.key][s] = struct{}{}
	c.note(s.key)
}

func (c *conn) unsubscribe(s *subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subs[s.key], s)
	if len(c.subs[s.key]) == 0 {
		delete(c.subs, s.key)
		c.note(s.key)
	}
}

// note has run tell the server of k. The lock is held.
func (c *conn) note(k key) {
	c.dirty[k] = struct{}{}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run speaks for the connection. Listening and ceasing to listen go through it one after the other, so that they can't
// overtake each other.
func (c *conn) run() {
	t := time.NewTimer(beat)
	defer t.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-c.wake:
		case <-t.C:
		}
		listen, forget := c.due()
		err := c.listen(listen, true)
		if err == nil {
			err = c.listen(forget, false)
		}
		if err == nil && time.Since(time.Unix(0, c.active.Load())) >= beat {
			err = c.beat()
		}
		if err != nil {
			c.end(err, nil)
			return
		}
		t.Reset(c.next())
	}
}

// due takes what the server must be told: what is new, or everything when it is time to compare.
func (c *conn) due() (listen, forget []key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := len(c.subs) > 0 && time.Since(c.compared) >= c.period()
	if all {
		c.compared = time.Now()
	}
	for k := range c.subs {
		if _, fresh := c.dirty[k]; fresh || all {
			listen = append(listen, k)
		}
	}
	for k := range c.dirty {
		if c.subs[k] == nil {
			forget = append(forget, k)
		}
	}
	clear(c.dirty)
	return listen, forget
}

// period is how often to compare. The lock is held.
func (c *conn) period() time.Duration {
	shortest := time.Duration(1<<63 - 1)
	for _, subs := range c.subs {
		for s := range subs {
			shortest = min(shortest, s.compare)
		}
	}
	return shortest
}

// next is when to speak again, if nothing happens before.
func (c *conn) next() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := beat
	if len(c.subs) > 0 {
		wait = min(wait, c.period()-time.Since(c.compared))
	}
	return max(wait, time.Millisecond)
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

// listen tells the server the checksums of documents, all in one request, and pokes those that it has otherwise.
func (c *conn) listen(keys []key, on bool) error {
	for len(keys) > 0 {
		part := keys[:min(batch, len(keys))]
		keys = keys[len(part):]
		request := listenRequest{configRequest: configRequest{Module: "config"}, Listen: on}
		c.mu.Lock()
		for _, k := range part {
			at := listenContext{place: c.place(k)}
			sums := map[string]struct{}{}
			for s := range c.subs[k] {
				sums[s.seen()] = struct{}{}
			}
			if !on {
				sums[""] = struct{}{}
			}
			for at.MD5 = range sums {
				request.Contexts = append(request.Contexts, at)
			}
		}
		c.mu.Unlock()
		if len(request.Contexts) == 0 {
			continue
		}
		var answer listenAnswer
		ctx, cancel := c.bounded(beatTimeout)
		err := c.call(ctx, key{}, typeListen, request, typeListenAnswer, &answer)
		silent := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			for _, changed := range answer.Changed {
				c.poke(key{group: changed.Group, dataID: changed.DataID})
			}
		case silent, c.over():
			return err
		case on:
			c.refuse(part, err) // the server answers, but does not let us listen to these
		}
	}
	return nil
}

func (c *conn) place(k key) place {
	return place{DataID: k.dataID, Group: k.group, Tenant: c.account.config.NamespaceId}
}

func (c *conn) poke(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.subs[k] {
		s.poke()
	}
}

func (c *conn) refuse(keys []key, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		for s := range c.subs[k] {
			select {
			case s.failed <- err:
			default:
			}
		}
	}
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
