package nacos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	pb "github.com/nacos-group/nacos-sdk-go/v2/api/grpc"
	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"github.com/nacos-group/nacos-sdk-go/v2/clients/nacos_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	user      = "app"
	pass      = "s3cret-pass"
	namespace = "orders-dev"
)

// server speaks as much of Nacos's protocol as the driver uses, over pipes, so that it lives in a synctest bubble. It
// behaves as 2.3.2 was measured to; faults are made where a real server can't be made to have them at will.
type server struct {
	grpc *grpc.Server
	http *http.Server
	rpc  *pipes
	web  *pipes

	mu       sync.Mutex
	docs     map[place]string
	peers    map[string]*remote
	requests map[string]int // by type
	pushed   int            // notifications that were due
	tokens   map[string]bool
	logins   int
	password string
	headers  map[string]map[string]string // of the last request, by type

	auth     bool // requests need a token
	denied   bool // nobody may anything
	starting bool // all is answered with "server is starting"
	ignores  bool // the checksum of a write, as some servers do
	zero     bool // a wrong password is answered with the status 0, as Nacos 2.3.2 does
	html     bool // the login answers with a sign-in page, and status 200
	stall    chan struct{}
	unknown  int // how many health checks come before the server knows a connection
	// drop says which notifications get lost; answered, before a request, may answer it otherwise.
	drop     func(n int) bool
	answered func(kind string, k place) (*pb.Payload, error)
	// lose drops the answer of the next publish after it was done (true), or before it (false).
	lose func() (done, now bool)
}

// remote is one connection as the server knows it.
type remote struct {
	out    chan *pb.Payload
	listen map[place]string
	acks   int
	asked  int
}

func newServer(t testing.TB) *server {
	s := &server{
		grpc: grpc.NewServer(grpc.MaxRecvMsgSize(sendLimit), grpc.MaxSendMsgSize(1<<30)),
		rpc:  newPipes(), web: newPipes(), docs: map[place]string{}, peers: map[string]*remote{}, requests: map[string]int{},
		tokens: map[string]bool{}, password: pass, headers: map[string]map[string]string{},
	}
	pb.RegisterRequestServer(s.grpc, s)
	pb.RegisterBiRequestStreamServer(s.grpc, s)
	s.http = &http.Server{Handler: http.HandlerFunc(s.login)}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.grpc.Serve(s.rpc) })
	wg.Go(func() { _ = s.http.Serve(s.web) })
	t.Cleanup(func() {
		s.heal()
		s.rpc.cut(true)
		s.web.cut(true)
		s.grpc.Stop()
		_ = s.http.Close()
		wg.Wait()
	})
	return s
}

// client is a client of the SDK as far as the driver has to do with it, with a dialer into the pipes.
type client struct {
	config_client.IConfigClient
	nacos_client.NacosClient
	s         *server
	noServers bool
}

func (c *client) GetServerConfig() ([]constant.ServerConfig, error) {
	if c.noServers {
		return nil, nil
	}
	return c.NacosClient.GetServerConfig()
}

func (c *client) dial(ctx context.Context, address string) (net.Conn, error) {
	if strings.HasSuffix(address, ":9848") {
		return c.s.rpc.dial(ctx)
	}
	return c.s.web.dial(ctx)
}

func (s *server) client(t testing.TB, change ...func(*constant.ClientConfig)) *client {
	t.Helper()
	c := &client{s: s}
	config := constant.ClientConfig{NamespaceId: namespace, AppName: "orders"}
	for _, f := range change {
		f(&config)
	}
	if err := errors.Join(c.SetClientConfig(config), c.SetServerConfig([]constant.ServerConfig{{IpAddr: "127.0.0.1", Port: 8848}})); err != nil {
		t.Fatal(err)
	}
	return c
}

func withUser(c *constant.ClientConfig) { c.Username, c.Password = user, pass }

func at(dataID string) place { return place{DataID: dataID, Group: "G", Tenant: namespace} }

func (s *server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) count(kinds ...string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range kinds {
		n += s.requests[kind]
	}
	return n
}

// listeners counts the documents that connections listen to.
func (s *server) listeners() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.peers {
		n += len(r.listen)
	}
	return n
}

func (s *server) put(k place, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(k, text)
}

func (s *server) remove(k place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.docs, k)
	s.notify(k)
}

func (s *server) get(k place) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.docs[k]
	return text, ok
}

func (s *server) store(k place, text string) {
	if old, ok := s.docs[k]; ok && old == text {
		return // a server tells of no change
	}
	s.docs[k] = text
	s.notify(k)
}

func (s *server) notify(k place) {
	for _, r := range s.peers {
		if _, ok := r.listen[k]; !ok {
			continue
		}
		s.pushed++
		if s.drop != nil && s.drop(s.pushed) {
			continue
		}
		r.send("ConfigChangeNotifyRequest", pushed{RequestID: fmt.Sprint(s.pushed), place: k})
	}
}

func (r *remote) send(kind string, p pushed) {
	payload, _ := envelope(kind, nil, p)
	select {
	case r.out <- payload:
	default:
	}
}

// all sends a request to every connection.
func (s *server) all(kind string, p pushed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.peers {
		r.send(kind, p)
	}
}

func (s *server) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stall == nil {
		s.stall = make(chan struct{})
	}
}

func (s *server) heal() {
	s.mu.Lock()
	if s.stall != nil {
		close(s.stall)
		s.stall = nil
	}
	s.denied, s.starting, s.drop, s.answered = false, false, nil, nil
	s.mu.Unlock()
	s.rpc.cut(false)
	s.web.cut(false)
}

func (s *server) wait(ctx context.Context) error {
	s.mu.Lock()
	stall := s.stall
	s.mu.Unlock()
	if stall == nil {
		return nil
	}
	select {
	case <-stall:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func reply(kind string, body any) (*pb.Payload, error) {
	data, err := json.Marshal(body)
	return &pb.Payload{Metadata: &pb.Metadata{Type: kind}, Body: &anypb.Any{Value: data}}, err
}

func no(code int, text string) answer {
	return answer{ResultCode: 500, ErrorCode: code, Message: text}
}

var yes = answer{ResultCode: codeSuccess, Success: true}

// everything is what requests have in common, and all that is read of them.
type everything struct {
	publishRequest
	Listen   bool            `json:"listen"`
	Contexts []listenContext `json:"configListenContexts"`
}

// Request is the server's unary method.
func (s *server) Request(ctx context.Context, p *pb.Payload) (*pb.Payload, error) {
	kind := p.GetMetadata().GetType()
	var r everything
	if err := json.Unmarshal(p.GetBody().GetValue(), &r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.requests[kind]++
	s.headers[kind] = p.GetMetadata().GetHeaders()
	s.mu.Unlock()
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered != nil {
		if payload, err := s.answered(kind, r.place); payload != nil || err != nil {
			return payload, err
		}
	}
	if kind == typeServerCheck {
		return reply("ServerCheckResponse", checkAnswer{answer: yes, ConnectionID: "c"})
	}
	if s.starting {
		return reply(typeError, no(codeNotFound, "server is starting,please try later."))
	}
	from, _ := peer.FromContext(ctx)
	me := s.peers[from.Addr.String()]
	if me != nil && me.asked < s.unknown {
		me.asked++
		me = nil
	}
	if me == nil {
		return reply(typeError, no(codeUnregistered, "Connection is unregistered."))
	}
	if kind == typeHealth {
		return reply("HealthCheckResponse", yes)
	}
	answerType := strings.TrimSuffix(kind, "Request") + "Response"
	if kind == typeListen {
		answerType = typeListenAnswer
	}
	if s.denied || s.auth && !s.tokens[p.GetMetadata().GetHeaders()["accessToken"]] {
		return reply(answerType, no(codeForbidden, "authorization failed!"))
	}
	switch kind {
	case typeListen:
		var changed []place
		for _, c := range r.Contexts {
			if !r.Listen {
				delete(me.listen, c.place)
				continue
			}
			me.listen[c.place] = c.MD5
			now := ""
			if text, ok := s.docs[c.place]; ok {
				now = sum([]byte(text))
			}
			if now != c.MD5 {
				changed = append(changed, c.place)
			}
		}
		return reply(answerType, listenAnswer{answer: yes, Changed: changed})
	case typeQuery:
		text, ok := s.docs[r.place]
		if !ok {
			return reply(answerType, queryAnswer{answer: no(codeNotFound, "config data not exist")})
		}
		return reply(answerType, queryAnswer{answer: yes, Content: text, MD5: sum([]byte(text))})
	case typePublish:
		now, done := false, false
		if s.lose != nil {
			done, now = s.lose()
			s.lose = nil
		}
		if now && !done {
			return nil, status.Error(codes.Unavailable, "lost")
		}
		text, ok := s.docs[r.place]
		if ok && r.CasMD5 != "" && !s.ignores && r.CasMD5 != sum([]byte(text)) {
			return reply(answerType, no(500, "Cas publish fail,server md5 may have changed."))
		}
		s.store(r.place, r.Content)
		if now {
			return nil, status.Error(codes.Unavailable, "lost")
		}
		return reply(answerType, yes)
	case typeRemove:
		delete(s.docs, r.place)
		s.notify(r.place)
		return reply(answerType, yes)
	}
	return reply(typeError, no(302, "no handler"))
}

// RequestBiStream is the stream of a connection, on which the server asks and the client acknowledges.
func (s *server) RequestBiStream(stream pb.BiRequestStream_RequestBiStreamServer) error {
	from, _ := peer.FromContext(stream.Context())
	name := from.Addr.String()
	me := &remote{out: make(chan *pb.Payload, 1<<12), listen: map[place]string{}}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.peers, name)
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			p, err := stream.Recv()
			if err != nil {
				return
			}
			s.mu.Lock()
			if p.GetMetadata().GetType() == typeSetup {
				s.peers[name] = me
			} else {
				me.acks++
			}
			s.mu.Unlock()
		}
	}()
	for {
		select {
		case <-ended:
			return nil
		case p := <-me.out:
			if err := s.wait(stream.Context()); err != nil {
				return err
			}
			if err := stream.Send(p); err != nil {
				return err
			}
		}
	}
}

func (s *server) login(w http.ResponseWriter, r *http.Request) {
	if s.wait(r.Context()) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/nacos/serverlist" {
		_, _ = io.WriteString(w, "# one a line\n127.0.0.1:8848\n\n")
		return
	}
	s.logins++
	switch {
	case r.URL.Path != "/nacos/v1/auth/users/login":
		http.NotFound(w, r)
	case s.html:
		_, _ = io.WriteString(w, "<!DOCTYPE html><html><body>Please sign in</body></html>")
	case s.zero && r.PostFormValue("password") != s.password:
		conn, _, _ := w.(http.Hijacker).Hijack()
		_, _ = io.WriteString(conn, "HTTP/1.1 0 \r\nVary: Origin\r\nConnection: close\r\n\r\n")
		_ = conn.Close()
	case r.PostFormValue("username") != user || r.PostFormValue("password") != s.password:
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "user not found!")
	default:
		token := fmt.Sprintf("token-%d", s.logins)
		s.tokens[token] = true
		_ = json.NewEncoder(w).Encode(struct {
			AccessToken string `json:"accessToken"`
			TTL         int    `json:"tokenTtl"`
		}{token, 18000})
	}
}

// pipes are a listener whose connections are in memory and can be cut.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	down  bool
	dials int
	conns map[*pipe]bool
}

type pipe struct {
	net.Conn
	p    *pipes
	name string
}

type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }

func (c *pipe) RemoteAddr() net.Addr { return pipeAddr(c.name) }

func (c *pipe) Close() error {
	c.p.mu.Lock()
	delete(c.p.conns, c)
	c.p.mu.Unlock()
	return c.Conn.Close()
}

func newPipes() *pipes {
	return &pipes{accept: make(chan net.Conn), closed: make(chan struct{}), conns: map[*pipe]bool{}}
}

var errRefused = errors.New("connection refused")

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	p.dials++
	name := fmt.Sprintf("pipe-%d", p.dials)
	down := p.down
	p.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errRefused}
	}
	a, b := net.Pipe()
	near, far := &pipe{a, p, name}, &pipe{b, p, name}
	select {
	case p.accept <- far:
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	p.conns[near], p.conns[far] = true, true
	p.mu.Unlock()
	return near, nil
}

// cut breaks every connection and, while down, refuses new ones.
func (p *pipes) cut(down bool) {
	p.mu.Lock()
	p.down = down
	var all []*pipe
	if down {
		for c := range p.conns {
			all = append(all, c)
		}
	}
	p.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

func (p *pipes) connects() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
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

func (p *pipes) Addr() net.Addr { return pipeAddr("pipes") }
