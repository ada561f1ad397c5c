package nacos

import (
	"time"
)

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
