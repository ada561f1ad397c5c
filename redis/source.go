package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/datasource"
)

const (
	// doubtAfter is how long after a read that found a change its message may still come.
	doubtAfter = 2 * time.Second
	// leaveGrace is how long Watch waits for the connection to be closed behind it.
	leaveGrace = 500 * time.Millisecond
)

var errMoved = errors.New("the key moved to another node of the cluster")

// Source reads one rule document from a key and is told of changes by pub/sub. Its methods may be called from any
// goroutine.
type Source struct {
	doc     document
	channel string
	event   string // channel of the keyspace notifications, or ""
	subs    *Subscriptions
	doubts  chan struct{}

	mu      sync.Mutex
	seen    *datasource.Document // of the last good read
	heard   uint64               // what the subscription told of since the beginning
	heardAt uint64               // and what of it before the last good read
	joined  bool
	missed  bool   // a change came without a message
	events  string // what is wrong with keyspace notifications
}

var _ datasource.Watcher = (*Source)(nil)

// NewSource makes a source for key, which need not exist yet. It sends nothing. The client is borrowed.
func NewSource(client redis.UniversalClient, key string, options ...Option) (*Source, error) {
	c, err := configure(config{maker: sourceMaker, channel: key}, options)
	if err != nil {
		return nil, err
	}
	k, err := kindOf(client)
	if err != nil {
		return nil, err
	}
	id, err := locate(k, key)
	if err != nil {
		return nil, err
	}
	s := &Source{
		doc:     document{id: id, key: key, client: client, timeout: c.timeout, maxBytes: c.maxBytes, kind: k},
		channel: c.channel, subs: c.shared, doubts: make(chan struct{}, 1),
	}
	if c.keyspace {
		if !k.known {
			return nil, fmt.Errorf("redis: Keyspace with a client of type %T, whose database is unknown: %w", client, datasource.ErrUnsupported)
		}
		s.event = "__keyspace@" + strconv.Itoa(k.db) + "__:" + key
	}
	if s.subs == nil {
		s.subs = newSubscriptions(client, c.silence)
	}
	return s, nil
}

// ID is "redis:" and the key, with the number of the database before the colon if it is not 0.
func (s *Source) ID() string { return s.doc.id }

// Note says what a status should show of how changes arrive, such as that the server's keyspace notifications are off,
// and is empty when all is well.
func (s *Source) Note() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var notes []string
	if s.events != "" {
		notes = append(notes, s.events)
	}
	if s.missed {
		notes = append(notes, "a change came without a message on channel "+strconv.Quote(s.channel)+": does every writer publish there?")
	}
	return strings.Join(notes, "; ")
}

// Read gives the document as the master has it.
func (s *Source) Read(ctx context.Context) (datasource.Document, error) {
	s.mu.Lock()
	heard := s.heard
	s.mu.Unlock()
	doc, err := s.doc.read(ctx)
	if err != nil {
		return datasource.Document{}, err
	}
	s.mu.Lock()
	changed := s.seen != nil && (s.seen.Presence != doc.Presence || s.seen.Revision != doc.Revision)
	doubt := changed && s.joined && heard == s.heardAt
	s.seen, s.heardAt = &doc, heard
	s.mu.Unlock()
	if doubt {
		// A change of which nobody told: the writer does not publish, or the subscription sits on a server that is no
		// longer the master, which looks healthy for ever (F077).
		select {
		case s.doubts <- struct{}{}:
		default:
		}
	}
	return doc, nil
}

// Watch delivers a hint when the subscription is in place, so that nothing is lost between last and the watch, and for
// each message; what a message says is not looked at. It ends with ctx, with the connection, and when nothing was
// heard for Silence.
func (s *Source) Watch(ctx context.Context, _ datasource.Document, deliver func(datasource.Document)) error {
	node, on, err := s.owner(ctx)
	if err != nil {
		return err
	}
	channels := []string{s.channel}
	if s.event != "" {
		s.probe(ctx, on)
		channels = append(channels, s.event)
	}
	m := s.subs.join(node, on, channels, func(message bool) {
		s.told(message)
		deliver(datasource.Hint())
	})
	defer s.leave(m)

	var topology <-chan time.Time
	if node != "" {
		t := time.NewTicker(s.subs.silence / 2)
		defer t.Stop()
		topology = t.C
	}
	var doubt <-chan time.Time
	var before uint64
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-m.ended:
			s.doc.failed(err)
			return explain(err)
		case <-topology:
			// What was asked for at the last tick has come meanwhile.
			if now, _, err := s.owner(ctx); err == nil && now != node {
				return errMoved
			}
			s.subs.look(s.doc.kind.cluster)
		case <-s.doubts:
			before = s.count()
			doubt = time.After(doubtAfter)
		case <-doubt:
			if s.count() == before {
				s.mu.Lock()
				s.missed = true
				s.mu.Unlock()
				m.renew()
			}
		}
	}
}

// owner gives where to subscribe: plain channels reach every node, keyspace notifications only their key's.
func (s *Source) owner(ctx context.Context) (node string, on subscriber, err error) {
	if s.event == "" || s.doc.kind.cluster == nil {
		return "", s.subs.client, nil
	}
	ctx, cancel := s.doc.bound(ctx)
	defer cancel()
	c, err := call(ctx, func() (*redis.Client, error) { return s.doc.kind.cluster.MasterForKey(ctx, s.doc.key) })
	if err != nil {
		return "", nil, err
	}
	return c.Options().Addr, c, nil
}

// probe looks whether the server sends keyspace notifications. It does not switch them on: that is for the whole
// server, and for its owner to decide.
func (s *Source) probe(ctx context.Context, on subscriber) {
	ctx, cancel := s.doc.bound(ctx)
	defer cancel()
	const name = "notify-keyspace-events"
	got, err := call(ctx, func() (map[string]string, error) { return on.ConfigGet(ctx, name).Result() })
	note := ""
	flags := got[name]
	has := func(letters string) bool { return strings.ContainsAny(flags, letters) }
	switch {
	case err != nil:
		note = "unknown whether keyspace notifications are on: " + explain(err).Error()
	case !has("K") || !has("A$"):
		note = "keyspace notifications are off: " + name + " is " + strconv.Quote(flags) + `, "K$gx" is needed`
	case !has("A") && !(has("g") && has("x")):
		note = "keyspace notifications lack deletion or expiry: " + name + " is " + strconv.Quote(flags) + `, "K$gx" is needed`
	}
	s.mu.Lock()
	s.events = note
	s.mu.Unlock()
}

// told counts what the subscription tells; a confirmed subscription counts, for a read follows it.
func (s *Source) told(message bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard++
	s.joined = true
	if message {
		s.missed = false
	}
}

func (s *Source) count() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard
}

func (s *Source) leave(m *membership) {
	gone := m.leave()
	s.mu.Lock()
	s.joined = false
	s.mu.Unlock()
	select {
	case <-s.doubts:
	default:
	}
	t := time.NewTimer(leaveGrace)
	defer t.Stop()
	select {
	case <-gone:
	case <-t.C:
	}
}
