package apollo

import (
	"context"
	"net/url"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rulewire/rulewire/datasource"
)

// member is a watch of a namespace.
type member struct {
	space *namespace

	mu      sync.Mutex
	gone    bool
	deliver func(datasource.Document)
}

func (m *member) tell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.gone {
		m.deliver(datasource.Hint())
	}
}

// join begins a watch of the namespace.
func (n *namespace) join(deliver func(datasource.Document)) (*member, error) {
	c := n.client
	m := &member{space: n, deliver: deliver}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	n.members[m] = struct{}{}
	followed := n.leg != nil
	if !followed {
		// The poll asks for the newest notification that there is: it is answered at once, and so nothing between the
		// read before this watch and the poll is lost.
		n.forget()
		c.place(n)
	}
	c.mu.Unlock()
	if followed {
		// What came before we joined was told to others.
		m.tell()
	}
	return m, nil
}

// leave ends a watch. It is not called back any more.
func (m *member) leave() {
	c := m.space.client
	c.mu.Lock()
	n := m.space
	delete(n.members, m)
	if l := n.leg; l != nil && len(n.members) == 0 {
		// The poll under way stays: to end it for a namespace less would cost the server more than it saves.
		n.leg = nil
		n.calm()
		delete(l.spaces, n)
		l.size -= n.size()
		if len(l.spaces) == 0 {
			delete(c.legs, l)
			l.stop()
		}
	}
	c.mu.Unlock()
	m.mu.Lock()
	m.gone = true
	m.mu.Unlock()
}

// remind tells the members again of a notification that no good read has followed.
func (n *namespace) remind() {
	c := n.client
	c.mu.Lock()
	n.calm()
	l, owed := n.leg, n.read < n.id
	c.mu.Unlock()
	if l != nil && owed {
		l.tell([]*namespace{n})
	}
}

// calm ends the reminder. The client's mutex is held.
func (n *namespace) calm() {
	if n.reminder != nil {
		n.reminder.Stop()
		n.reminder = nil
	}
}

// size is the room that the namespace takes in a request line.
func (n *namespace) size() int {
	return len(url.QueryEscape(entry(n.name, 1<<40))) + len(url.QueryEscape(","))
}

func entry(name string, id int64) string {
	quoted, err := jsontext.AppendQuote(nil, name)
	if err != nil {
		quoted = []byte(strconv.Quote(name)) // checkName lets none through that gets here
	}
	return `{"namespaceName":` + string(quoted) + `,"notificationId":` + strconv.FormatInt(id, 10) + `}`
}

// place finds a leg with room. The client's mutex is held.
func (c *Client) place(n *namespace) {
	for l := range c.legs {
		if l.size+n.size() <= maxQuery {
			l.take(n)
			l.restart()
			return
		}
	}
	l := &leg{c: c, spaces: map[*namespace]struct{}{}, stale: true, wake: make(chan struct{}, 1)}
	l.ctx, l.stop = context.WithCancel(c.ctx)
	l.take(n)
	c.legs[l] = struct{}{}
	c.running.Go(l.run)
}

func (l *leg) take(n *namespace) {
	n.leg = l
	l.spaces[n] = struct{}{}
	l.size += n.size()
}
