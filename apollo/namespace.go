package apollo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// unheardAfter is how long a server that knows of a release needs at most to say so.
const unheardAfter = 5 * time.Second

// heldAfter is when a poll that is not answered is taken for one that is held.
const heldAfter = 3 * time.Second

// release is what the config service gives for a namespace; nobody changes it. Without a key nothing is released.
type release struct {
	key     string
	values  map[string]string
	cluster string
}

// namespace is what a client knows of one namespace. Its fields but the first three are under the client's mutex.
type namespace struct {
	client *Client
	name   string
	turn   chan struct{} // full while a write of this client is under way

	last          *release // the newest that was read
	running, next *flight
	heard, seen   uint64 // notifications so far, and before the last read began
	expecting     bool   // a sink of ours releases: a read that is faster than the notification means nothing

	members  map[*member]struct{}
	leg      *leg
	id       int64       // the newest notification that was heard; -1: none yet
	read     int64       // the newest one that a good read followed
	reminder *time.Timer // of one that no good read has followed
	messages string
	asked    time.Time // when a poll first named the namespace with -1

	drafts map[string]string // what writes of ours left in items
	rivals []item            // what those of others have there, and since when
	since  time.Time
	// contended is when a write ended in a conflict, if the one before did not.
	contended time.Time
}

// space gives the namespace's only record.
func (c *Client) space(name string) *namespace {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.spaces[name]
	if n == nil {
		n = &namespace{client: c, name: name, turn: make(chan struct{}, 1), members: map[*member]struct{}{}, drafts: map[string]string{}}
		c.spaces[name] = n
	}
	return n
}

// forget lets the next poll ask for the newest notification that there is. The client's mutex is held.
func (n *namespace) forget() { n.id, n.read, n.asked = -1, -1, time.Time{} }

// flight is a read that serves all who asked for one before it began. Two hundred documents of one namespace that are
// told of a release at once cost two reads.
type flight struct {
	ctx     context.Context
	cancel  context.CancelFunc
	waiters int
	done    chan struct{}
	release *release
	err     error
}

// fetch reads the namespace as it is now: never with an answer that was under way before.
func (n *namespace) fetch(ctx context.Context) (*release, error) {
	c := n.client
	if ctx.Err() != nil {
		return nil, c.over(ctx)
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	f := &flight{done: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(c.ctx)
	switch {
	case n.running == nil:
		n.running = f
		c.running.Go(func() { n.fly(f) })
	case n.next == nil:
		n.next = f
	default:
		f.cancel()
		f = n.next
	}
	f.waiters++
	c.mu.Unlock()

	select {
	case <-f.done:
		return f.release, f.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limped = c.limped || errors.Is(ctx.Err(), context.DeadlineExceeded)
	if f.waiters--; f.waiters == 0 {
		f.cancel()
		if n.next == f {
			n.next = nil
		}
	}
	return nil, context.Cause(ctx)
}

func (n *namespace) fly(f *flight) {
	for f != nil {
		f.release, f.err = n.load(f.ctx)
		f.cancel()
		close(f.done)
		n.client.mu.Lock()
		f, n.next = n.next, nil
		n.running = f
		n.client.mu.Unlock()
	}
}

// load asks the config service.
func (n *namespace) load(ctx context.Context) (*release, error) {
	c := n.client
	query := url.Values{}
	if ip := c.clientIP(); ip != "" {
		query.Set("ip", ip)
	}
	if c.label != "" {
		query.Set("label", c.label)
	}
	c.mu.Lock()
	last, heard, id := n.last, n.heard, n.id
	if n.messages != "" {
		// A server that answers from a cache takes from this how new the answer must be.
		query.Set("messages", n.messages)
	}
	c.mu.Unlock()
	if last != nil && last.key != "" {
		query.Set("releaseKey", last.key)
	}
	rel, err := c.release(ctx, n.name, query, last)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.limped = c.limped || ctx.Err() == nil
		if n.leg != nil && n.read < n.id && n.reminder == nil {
			// The engine's next read may be half a minute away, and the poll tells a notification once.
			n.reminder = time.AfterFunc(pause(err, unhurried), n.remind)
		}
		return nil, err
	}
	if c.limped {
		// The way is open again. A poll from before may hang on a connection that is dead.
		c.limped = false
		for l := range c.legs {
			l.restart()
		}
	}
	if last != nil && last.key != rel.key && heard == n.seen && n.leg != nil && !n.expecting {
		// A change of which nobody told: the notification is yet to come, or the server was restored from a backup and
		// counts from lower numbers, or it does not know us by this spelling. Ask from the beginning.
		n.forget()
		n.leg.restart()
	} else if n.id >= id {
		n.read = max(n.read, id) // unless the numbers began anew meanwhile
	}
	n.last, n.seen = rel, heard
	return rel, nil
}

// release reads a namespace; last is what a 304 means.
func (c *Client) release(ctx context.Context, name string, query url.Values, last *release) (*release, error) {
	path := "/configs/" + url.PathEscape(c.app) + "/" + url.PathEscape(c.cluster) + "/" + url.PathEscape(name)
	r, err := c.get(ctx, path, query)
	switch {
	case err != nil:
		return nil, err
	case r.status == http.StatusNotModified && query.Has("releaseKey") && last != nil:
		return last, nil
	case r.status == http.StatusNotFound:
		if _, ours := r.complaint(); ours {
			return &release{}, nil
		}
		return nil, r.error()
	case r.status != http.StatusOK:
		return nil, r.error()
	}
	var answer struct {
		AppID          string            `json:"appId"`
		Cluster        string            `json:"cluster"`
		NamespaceName  string            `json:"namespaceName"`
		Configurations map[string]string `json:"configurations"`
		ReleaseKey     string            `json:"releaseKey"`
	}
	if err := r.into(&answer); err != nil {
		return nil, err
	}
	if answer.ReleaseKey == "" || answer.Configurations == nil || !strings.EqualFold(answer.NamespaceName, name) {
		return nil, fmt.Errorf("%s: %w: no release of namespace %s", r.server, ErrNotApollo, name)
	}
	return &release{answer.ReleaseKey, answer.Configurations, answer.Cluster}, nil
}

// note says what is to be known of how changes arrive.
func (n *namespace) note() string {
	c := n.client
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case n.leg == nil:
		return ""
	case n.leg.failure != nil && time.Since(n.leg.begun) < heldAfter: // else the next poll is held, as it should
		return "updates come by poll only: the server's notifications fail: " + n.leg.failure.Error()
	case n.id < 0 && n.last != nil && n.last.key != "" && !n.asked.IsZero() && time.Since(n.asked) > unheardAfter:
		return fmt.Sprintf("updates come by poll only: the server has a release but no notification of it; is app id %q, in this letter case, the portal's?", c.app)
	}
	return ""
}
