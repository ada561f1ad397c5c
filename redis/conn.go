package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

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
	var receiver sync.WaitGroup
	defer func() {
		_ = c.pubsub.Close() // and with it what the receiver waits for
		receiver.Wait()
		close(c.gone)
	}()
	defer c.caught()
	if err := c.send(); err != nil {
		c.fail(err)
		return
	}
	receiver.Go(c.receive)
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

// caught makes a panic of the user's code in the client, such as a hook or a provider of credentials, a failure.
func (c *conn) caught() {
	if p := recover(); p != nil {
		c.fail(fmt.Errorf("panic: %v", p))
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
	defer c.caught()
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

func (c *conn) current() bool {
	return c.subs.links[c.link.node] == c.link && c.link.conn == c
}
