package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// server speaks as much of etcd's protocol as the driver uses, to the real client. Faults are made where a real etcd can't be made to have them at will.
type server struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer

	grpc *grpc.Server
	link *pipes

	mu        sync.Mutex
	now       int64
	compacted int64
	kvs       map[string]*mvccpb.KeyValue
	history   []*mvccpb.Event
	watches   map[*watching]bool
	changed   chan struct{} // closed when watches come or go
	streams   map[*call]bool
	requests  int
	dials     int
	// redial: the next dial is not counted, for gRPC makes it by itself when a connection is lost.
	redial bool
	// fault is the answer to every request; stall, while open, holds them all.
	fault error
	stall chan struct{}
	// loseTxn drops the answer of the next transaction after it was done, or before it.
	loseTxn func(done bool) error
	// ignoredLease: the last put left the key's lease alone.
	ignoredLease bool
}

type call struct {
	send  sync.Mutex
	rpc   pb.Watch_WatchServer
	stale bool // opened with a token that has expired since
	end   chan error
	next  int64
}

type watching struct {
	stream *call
	id     int64
	key    []byte
	from   int64
}

func newServer(t testing.TB) *server {
	s, stop := startServer()
	t.Cleanup(stop)
	return s
}

func startServer() (s *server, stop func()) {
	s = &server{
		now: 20, kvs: map[string]*mvccpb.KeyValue{}, watches: map[*watching]bool{}, streams: map[*call]bool{}, changed: make(chan struct{}),
		link: &pipes{accept: make(chan net.Conn), closed: make(chan struct{}), conns: map[net.Conn]bool{}},
	}
	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(16<<20), grpc.MaxSendMsgSize(16<<20))
	pb.RegisterKVServer(s.grpc, s)
	pb.RegisterWatchServer(s.grpc, s)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.grpc.Serve(s.link)
	}()
	return s, func() {
		s.heal()
		s.grpc.Stop()
		<-ended
	}
}

// client gives a new client of the server, as a user would make one.
func (s *server) client(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := s.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *server) connect() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: []string{"http://etcd.test"}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			s.mu.Lock()
			if !s.redial {
				s.dials++
			}
			s.redial = false
			s.mu.Unlock()
			return s.link.dial(ctx)
		})},
	})
}

// enter is the start of each request.
func (s *server) enter(ctx context.Context) error {
	s.mu.Lock()
	s.requests++
	fault, stall := s.fault, s.stall
	s.mu.Unlock()
	if stall != nil {
		select {
		case <-stall:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fault
}

func (s *server) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: s.now} }

// Range is what the driver must not use: the client repeats it by itself.
func (s *server) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(r), nil
}

func (s *server) get(r *pb.RangeRequest) *pb.RangeResponse {
	answer := &pb.RangeResponse{Header: s.header()}
	if kv := s.kvs[string(r.Key)]; kv != nil {
		answer.Kvs, answer.Count = []*mvccpb.KeyValue{kv}, 1
	}
	return answer
}

func (s *server) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	writes := len(r.Compare) > 0
	if lose := s.loseTxn; writes && lose != nil {
		if err := lose(false); err != nil {
			s.loseTxn = nil
			return nil, err
		}
	}
	answer := &pb.TxnResponse{Succeeded: true}
	for _, c := range r.Compare {
		var mod int64
		if kv := s.kvs[string(c.Key)]; kv != nil {
			mod = kv.ModRevision
		}
		if c.Target != pb.Compare_MOD || c.Result != pb.Compare_EQUAL {
			return nil, fmt.Errorf("unexpected comparison %v", c)
		}
		answer.Succeeded = answer.Succeeded && mod == c.GetModRevision()
	}
	ops := r.Success
	if !answer.Succeeded {
		ops = r.Failure
	}
	for _, op := range ops {
		switch {
		case op.GetRequestRange() != nil:
			answer.Responses = append(answer.Responses, &pb.ResponseOp{
				Response: &pb.ResponseOp_ResponseRange{ResponseRange: s.get(op.GetRequestRange())},
			})
		case op.GetRequestPut() != nil:
			put := op.GetRequestPut()
			if len(put.Value) > requestLimit {
				return nil, rpctypes.ErrGRPCRequestTooLarge
			}
			if put.IgnoreLease && s.kvs[string(put.Key)] == nil {
				return nil, rpctypes.ErrGRPCKeyNotFound
			}
			s.ignoredLease = put.IgnoreLease
			s.commit(change{key: string(put.Key), value: put.Value})
			answer.Responses = append(answer.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}})
		default:
			return nil, fmt.Errorf("unexpected operation %v", op)
		}
	}
	answer.Header = s.header()
	if lose := s.loseTxn; writes && lose != nil {
		s.loseTxn = nil
		return nil, lose(true)
	}
	return answer, nil
}

type change struct {
	key    string
	value  []byte
	delete bool
}

// commit makes one transaction of changes and tells the watches in one message. The lock is held.
func (s *server) commit(changes ...change) {
	s.now++
	var events []*mvccpb.Event
	for _, c := range changes {
		e := &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: &mvccpb.KeyValue{Key: []byte(c.key), ModRevision: s.now}}
		if c.delete {
			if s.kvs[c.key] == nil {
				continue
			}
			e.Type = mvccpb.Event_DELETE
			delete(s.kvs, c.key)
		} else {
			e.Kv.Value, e.Kv.CreateRevision = bytes.Clone(c.value), s.now
			s.kvs[c.key] = e.Kv
		}
		events = append(events, e)
	}
	s.history = append(s.history, events...)
	for w := range s.watches {
		s.tell(w, events)
	}
}

// tell sends what of events a watch has not seen.
func (s *server) tell(w *watching, events []*mvccpb.Event) {
	var mine []*mvccpb.Event
	for _, e := range events {
		if bytes.Equal(e.Kv.Key, w.key) && e.Kv.ModRevision >= w.from {
			mine = append(mine, e)
		}
	}
	if len(mine) > 0 && s.stall == nil {
		w.stream.post(&pb.WatchResponse{Header: s.header(), WatchId: w.id, Events: mine})
		w.from = mine[len(mine)-1].Kv.ModRevision + 1
	}
}

func (st *call) post(r *pb.WatchResponse) {
	st.send.Lock()
	defer st.send.Unlock()
	_ = st.rpc.Send(r)
}

func (s *server) Watch(rpc pb.Watch_WatchServer) error {
	st := &call{rpc: rpc, end: make(chan error, 1)}
	if err := s.enter(rpc.Context()); err != nil {
		return err
	}
	s.mu.Lock()
	s.streams[st] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, st)
		s.forget(func(w *watching) bool { return w.stream == st })
	}()
	if md, _ := metadata.FromIncomingContext(rpc.Context()); !slices.Equal(md.Get(rpctypes.MetadataRequireLeaderKey), []string{rpctypes.MetadataHasLeader}) {
		return errors.New("the watch does not ask for a leader")
	}
	read := make(chan error, 1)
	go func() {
		for {
			r, err := rpc.Recv()
			if err != nil {
				read <- err
				return
			}
			s.serve(st, r)
		}
	}()
	select {
	case err := <-st.end:
		return err
	case <-read:
		return nil
	}
}

// serve answers one request on a watch stream.
func (s *server) serve(st *call, r *pb.WatchRequest) {
	if s.enter(st.rpc.Context()) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := r.GetCancelRequest(); c != nil {
		s.forget(func(w *watching) bool { return w.stream == st && w.id == c.WatchId })
		return
	}
	create := r.GetCreateRequest()
	if st.stale {
		st.post(&pb.WatchResponse{
			Header: s.header(), WatchId: clientv3.InvalidWatchID, Created: true, Canceled: true,
			CancelReason: rpctypes.ErrGRPCInvalidAuthToken.Error(),
		})
		return
	}
	w := &watching{stream: st, id: create.WatchId, key: create.Key, from: create.StartRevision}
	if w.id == 0 { // the client's own watcher leaves it to the server
		st.next++
		w.id = 1<<32 + st.next
	}
	st.post(&pb.WatchResponse{Header: s.header(), WatchId: w.id, Created: true})
	if w.from < s.compacted {
		st.post(&pb.WatchResponse{Header: s.header(), WatchId: w.id, Canceled: true, CompactRevision: s.compacted})
		return
	}
	s.watches[w] = true
	s.moved()
	s.tell(w, s.history)
}

// forget removes watches. The lock is held.
func (s *server) forget(which func(*watching) bool) {
	for w := range s.watches {
		if which(w) {
			delete(s.watches, w)
		}
	}
	s.moved()
}

func (s *server) moved() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// What somebody else does to the store.

func (s *server) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) put(key, value string) {
	s.do(func() { s.commit(change{key: key, value: []byte(value)}) })
}

func (s *server) remove(key string) { s.do(func() { s.commit(change{key: key, delete: true}) }) }

func (s *server) compact() {
	s.do(func() {
		s.compacted = s.now
		s.history = slices.DeleteFunc(s.history, func(e *mvccpb.Event) bool { return e.Kv.ModRevision < s.compacted })
	})
}

// restore goes back to a backup: all connections end, as they do when a server is restarted.
func (s *server) restore(revision int64, changes ...change) {
	s.do(func() {
		s.now, s.compacted, s.history, s.kvs = revision, 0, nil, map[string]*mvccpb.KeyValue{}
		s.commit(changes...)
	})
	s.link.cut(true)
	s.link.cut(false)
}

// endStreams ends every watch stream with an error.
func (s *server) endStreams(err error) {
	s.do(func() {
		for st := range s.streams {
			st.end <- err
		}
	})
}

func (s *server) expireTokens() {
	s.do(func() {
		for st := range s.streams {
			st.stale = true
		}
	})
}

func (s *server) fail(err error) { s.do(func() { s.fault = err }) }

func (s *server) hang() { s.do(func() { s.stall = make(chan struct{}) }) }

func (s *server) heal() {
	s.do(func() {
		s.fault = nil
		if s.stall != nil {
			close(s.stall)
			s.stall = nil
		}
		for w := range s.watches {
			s.tell(w, s.history) // what came in the meantime
		}
	})
	s.link.cut(false)
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests + s.dials
}

func (s *server) subscriptions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// pipes is a network of one listener.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	broken bool
	conns  map[net.Conn]bool
}

var errRefused = errors.New("connection refused")

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return nil, errRefused
	}
	ours, theirs := net.Pipe()
	p.conns[theirs] = true
	go func() {
		select {
		case p.accept <- theirs:
		case <-p.closed:
			_ = theirs.Close()
		}
	}()
	return ours, ctx.Err()
}

func (p *pipes) cut(broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = broken
	if broken {
		for c := range p.conns {
			_ = c.Close()
		}
		clear(p.conns)
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "etcd.test" }
