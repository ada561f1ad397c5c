package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// subscriber is what of a client a subscription needs; a node of a cluster is one, too.
type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	ConfigGet(ctx context.Context, parameter string) *redis.MapStringStringCmd
}

// Subscriptions lets sources share one connection for what they are told (in a cluster with Keyspace: one for each
// master that owns a key). Give it to each with Shared. The connection is there while at least one source watches,
// and there is nothing to close.
type Subscriptions struct {
	client  redis.UniversalClient
	silence time.Duration

	mu     sync.Mutex
	links  map[string]*link
	looked time.Time
}

// NewSubscriptions makes the shared part of sources on one client, which is borrowed. It sends nothing. It takes Silence.
func NewSubscriptions(client redis.UniversalClient, options ...Option) (*Subscriptions, error) {
	c, err := configure(config{maker: subscriptionsMaker}, options)
	if err != nil {
		return nil, err
	}
	if _, err := kindOf(client); err != nil {
		return nil, err
	}
	return newSubscriptions(client, c.silence), nil
}

func newSubscriptions(client redis.UniversalClient, silence time.Duration) *Subscriptions {
	if silence == 0 {
		silence = DefaultSilence
	}
	return &Subscriptions{client: client, silence: silence, links: map[string]*link{}}
}

// link is the subscriptions on one server, over one connection at a time. All of it belongs to Subscriptions.mu.
type link struct {
	node   string
	on     subscriber
	conn   *conn
	topics map[string]*topic
}

type topic struct {
	members   map[*membership]struct{}
	confirmed bool
}

// membership is one run of Watch.
type membership struct {
	subs     *Subscriptions
	link     *link
	channels []string
	// notify is called with Subscriptions.mu held, one call at a time, and not after leave: for a message, and else
	// because a subscription is in place.
	notify func(message bool)
	ended  chan error // gets the one reason why the subscription is over
}

// look has the client look at the topology of its cluster, which by itself it does once a minute, and when a command was
// sent to the wrong node; a subscription is never told so. All sources together look once in half of Silence.
func (s *Subscriptions) look(cluster *redis.ClusterClient) {
	s.mu.Lock()
	due := time.Since(s.looked) >= s.silence/2
	if due {
		s.looked = time.Now()
	}
	s.mu.Unlock()
	if due {
		cluster.ReloadState(context.Background())
	}
}

// join subscribes to channels on a node, "" being wherever the client goes.
func (s *Subscriptions) join(node string, on subscriber, channels []string, notify func(message bool)) *membership {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.links[node]
	if l == nil {
		l = &link{node: node, on: on, topics: map[string]*topic{}}
		s.links[node] = l
		l.conn = s.connect(l)
	}
	m := &membership{subs: s, link: l, channels: channels, notify: notify, ended: make(chan error, 1)}
	for _, name := range channels {
		t := l.topics[name]
		if t == nil {
			t = &topic{members: map[*membership]struct{}{}}
			l.topics[name] = t
			l.conn.order(name, true)
		}
		t.members[m] = struct{}{}
		if t.confirmed {
			notify(false)
		}
	}
	return m
}

// leave ends the membership. The channel is closed when the connection is, if this was its last.
func (m *membership) leave() <-chan struct{} {
	s, l := m.subs, m.link
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range m.channels {
		t := l.topics[name]
		if t == nil {
			continue
		}
		delete(t.members, m)
		if len(t.members) == 0 {
			delete(l.topics, name)
			l.conn.order(name, false)
		}
	}
	gone := make(chan struct{})
	if len(l.topics) > 0 {
		close(gone)
		return gone
	}
	s.drop(l)
	return l.conn.gone
}

// renew replaces the connection, for it may lead to a server that tells nothing any more, but not more often than once
// in Silence: a writer that never publishes must not cost a connection for each of its changes.
func (m *membership) renew() {
	s, l := m.subs, m.link
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links[l.node] != l || time.Since(l.conn.born) < s.silence {
		return
	}
	l.conn.stop()
	l.conn = s.connect(l)
	for name, t := range l.topics {
		t.confirmed = false
		l.conn.order(name, true)
	}
}

func (s *Subscriptions) drop(l *link) {
	if s.links[l.node] == l {
		delete(s.links, l.node)
	}
	l.conn.stop()
}

// conn is one connection. Its keeper goroutine writes, its receiver goroutine reads.
type conn struct {
	subs   *Subscriptions
	link   *link
	pubsub *redis.PubSub
	ctx    context.Context
	cancel context.CancelFunc
	dog    *time.Timer // barks when nothing was heard for Silence
	born   time.Time
	wake   chan struct{}
	gone   chan struct{}

	orders  []order  // not yet sent; of Subscriptions.mu
	pending []string // subscriptions not yet answered, in order; of Subscriptions.mu
}

type order struct {
	channel   string
	subscribe bool
}

func (s *Subscriptions) connect(l *link) *conn {
	c := &conn{subs: s, link: l, born: time.Now(), wake: make(chan struct{}, 1), gone: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.pubsub = l.on.Subscribe(c.ctx) // of nothing yet: no connection is made
	c.dog = time.AfterFunc(s.silence, func() { c.fail(fmt.Errorf("nothing heard for %v", s.silence)) })
	go c.keep()
	return c
}

func (c *conn) stop() {
	c.dog.Stop()
	c.cancel()
}

// order asks for a channel or gives it up; the keeper sends it. Subscriptions.mu is held.
func (c *conn) order(channel string, subscribe bool) {
	c.orders = append(c.orders, order{channel, subscribe})
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// keep sends orders and pings until the connection is over. Whoever waits for a subscription does not wait for it: a
// call into the client can hang as long as the client's time-outs allow.
func (c *conn) keep() {
	ping := time.NewTicker(c.subs.silence / 2)
	defer ping.Stop()
	received := make(chan struct{})
	defer func() {
		_ = c.pubsub.Close() // and with it what the receiver waits for
		<-received
		close(c.gone)
	}()
	if err := c.send(); err != nil {
		close(received)
		c.fail(err)
		return
	}
	go func() {
		defer close(received)
		c.receive()
	}()
	for {
		var err error
		select {
		case <-c.ctx.Done():
			return
		case <-c.wake:
			err = c.send()
		case <-ping.C:
			err = c.pubsub.Ping(c.ctx)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// send sends one command for each channel, so that the server refuses one and not all.
func (c *conn) send() error {
	c.subs.mu.Lock()
	orders := c.orders
	c.orders = nil
	for _, o := range orders {
		if o.subscribe {
			c.pending = append(c.pending, o.channel)
		}
	}
	c.subs.mu.Unlock()
	for _, o := range orders {
		send := c.pubsub.Unsubscribe
		if o.subscribe {
			send = c.pubsub.Subscribe
		}
		if err := send(c.ctx, o.channel); err != nil {
			return err
		}
	}
	return nil
}

// receive hands over what arrives. The client would reconnect by itself; the first error ends the connection all the
// same, for the engine reads, waits and watches again, and its status shows that it had to.
func (c *conn) receive() {
	for {
		got, err := c.pubsub.Receive(c.ctx)
		if err != nil && redis.IsPermissionError(err) && c.refuse(err) {
			continue
		}
		if err != nil {
			c.fail(err)
			return
		}
		if !c.heard(got) {
			return
		}
	}
}

// heard tells the members; false means that the connection is not in use any more.
func (c *conn) heard(got any) bool {
	s := c.subs
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.current() {
		return false
	}
	c.dog.Reset(s.silence)
	switch got := got.(type) {
	case *redis.Subscription:
		if got.Kind != "subscribe" {
			return true
		}
		if len(c.pending) > 0 && c.pending[0] == got.Channel {
			c.pending = c.pending[1:]
		}
		if t := c.link.topics[got.Channel]; t != nil {
			t.confirmed = true
			t.notify(false)
		}
	case *redis.Message:
		if t := c.link.topics[got.Channel]; t != nil {
			t.notify(true)
		}
	}
	return true
}

func (t *topic) notify(message bool) {
	for m := range t.members {
		m.notify(message)
	}
}

// refuse ends the members of the one channel that the server refused; the others stay. Subscriptions are answered in
// their order.
func (c *conn) refuse(err error) bool {
	s := c.subs
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.current() || len(c.pending) == 0 {
		return false
	}
	c.dog.Reset(s.silence)
	name := c.pending[0]
	c.pending = c.pending[1:]
	if t := c.link.topics[name]; t != nil {
		delete(c.link.topics, name)
		t.end(fmt.Errorf("subscribe to channel %q: %w", name, err))
	}
	return true
}

// fail ends the connection and with it all its members.
func (c *conn) fail(err error) {
	s := c.subs
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.current() {
		return
	}
	if errors.Is(err, redis.ErrClosed) {
		err = fmt.Errorf("the client or its node was closed: %w", err)
	}
	for _, t := range c.link.topics {
		t.end(fmt.Errorf("subscription: %w", err))
	}
	clear(c.link.topics)
	s.drop(c.link)
}

func (t *topic) end(err error) {
	for m := range t.members {
		select {
		case m.ended <- err:
		default: // it has its reason already
		}
	}
}

func (c *conn) current() bool {
	return c.subs.links[c.link.node] == c.link && c.link.conn == c
}
