package redis

import (
	"context"
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

func (t *topic) notify(message bool) {
	for m := range t.members {
		m.notify(message)
	}
}

func (t *topic) end(err error) {
	for m := range t.members {
		select {
		case m.ended <- err:
		default: // it has its reason already
		}
	}
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
