package apollo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// maxQuery bounds the list of namespaces in one poll, bytes as sent: proxies refuse a request line over 8 KiB, and
	// Apollo 2.4.0 one over 10 KiB.
	maxQuery = 6 << 10
	// gather lets sources that are opened one after the other get into one poll. It grows while they keep coming.
	gather, longestGather = 10 * time.Millisecond, 200 * time.Millisecond
	// firstPause and longestPause bound the pace of polls that fail, or are answered early and without news. With the
	// reads of an engine that backs off, it stays under one request per second.
	firstPause   = 100 * time.Millisecond
	longestPause = 1150 * time.Millisecond
	// refusedPause is for a server that answers, and refuses.
	refusedPause = 5 * time.Second
	// limitedPause is for one that says that it is asked too often.
	limitedPause = 30 * time.Second
	// unhurried is after how many failures in a row pauses do not grow any more.
	unhurried = 10
)

var errSilent = errors.New("long poll was not answered in time")

// leg is one long poll. A client has one, and more only if its namespaces do not fit into one request line.
type leg struct {
	c    *Client
	ctx  context.Context
	stop context.CancelFunc

	// Under the client's mutex.
	spaces  map[*namespace]struct{}
	size    int
	again   context.CancelFunc // ends the poll under way, which does not know all that it should
	stale   bool
	failure error     // of the last poll
	begun   time.Time // the last poll

	wake chan struct{} // ends the pause after a failure
}

// restart ends the poll under way. The client's mutex is held.
func (l *leg) restart() {
	l.stale = true
	if l.again != nil {
		l.again()
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run polls until the last namespace has left or the client is closed. It keeps a pace of its own and does not end on an
// error, since a poll is not a subscription that could break: the next one names the notifications that we know, and is
// answered with what is newer, whatever happened in between.
func (l *leg) run() {
	defer l.stop()
	failures := 0
	wait := gather
	var idle time.Duration
	for l.ctx.Err() == nil {
		l.c.mu.Lock()
		stale := l.stale
		l.c.mu.Unlock()
		if stale {
			if sleep(l.ctx, wait) != nil {
				return
			}
			wait = min(2*wait, longestGather)
		}
		begin := time.Now()
		news, restarted, err := l.poll(failures > 0)
		switch {
		case l.ctx.Err() != nil:
			return
		case restarted:
			continue
		case err != nil:
			failures++
			l.failed(err)
			if failures == 1 {
				// The engine reads now, and so its status says what is wrong.
				l.tell(l.all())
			}
			l.rest(pause(err, failures))
			continue
		}
		wait = gather
		recovered := failures > 0
		failures = 0
		l.failed(nil)
		switch {
		case recovered:
			news = l.all()
		case len(news) == 0:
			// A server, or a proxy, that does not hold polls must not be asked without end.
			idle = min(max(2*idle, firstPause), longestPause)
			if rest := idle - time.Since(begin); rest > 0 {
				if sleep(l.ctx, rest) != nil {
					return
				}
				continue
			}
		}
		idle = 0
		l.tell(news)
	}
}

// rest waits, but not for longer than until a read gets through or a source joins.
func (l *leg) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.wake:
	default:
	}
	select {
	case <-t.C:
	case <-l.wake:
	case <-l.ctx.Done():
	}
}

// pause is how long to wait after the nth failure in a row.
func pause(err error, n int) time.Duration {
	longest := longestPause
	var status *StatusError
	if errors.As(err, &status) {
		switch {
		case status.RetryAfter > 0:
			return min(status.RetryAfter, time.Minute)
		case status.Code == http.StatusTooManyRequests:
			return limitedPause
		case status.Code < http.StatusInternalServerError:
			longest = refusedPause
		}
	}
	d := min(firstPause<<min(n, unhurried), longest)
	if d == longestPause {
		return d // a random part would break either promise: one request per second, in force within two
	}
	return d - rand.N(d/4+1)
}

func (l *leg) failed(err error) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.failure = err
}

func (l *leg) all() []*namespace {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return slices.Collect(maps.Keys(l.spaces))
}

// tell hands over that the namespaces changed; the engines read.
func (l *leg) tell(spaces []*namespace) {
	var list []*member
	l.c.mu.Lock()
	for _, n := range spaces {
		for m := range n.members {
			list = append(list, m)
		}
	}
	l.c.mu.Unlock()
	for _, m := range list {
		m.tell()
	}
}

// poll sends one long poll and notes what it is answered. While all is well it names what was heard, and the engine's read
// is on its way. After a failure it names what was read: the read that the last notification asked for may have failed, too,
// and the engine's next one be half a minute away (F072).
func (l *leg) poll(failing bool) (news []*namespace, restarted bool, err error) {
	c := l.c
	ctx, cancel := context.WithTimeoutCause(l.ctx, c.patience, fmt.Errorf("%w: %v", errSilent, c.patience))
	defer cancel()
	begin := time.Now()
	c.mu.Lock()
	l.again, l.stale, l.begun = cancel, false, begin
	var list []string
	type question struct{ heard, named int64 }
	sent := map[*namespace]question{}
	for n := range l.spaces {
		q := question{heard: n.id, named: n.id}
		if failing {
			q.named = n.read
		}
		sent[n] = q
		list = append(list, entry(n.name, q.named))
		if n.id < 0 && n.asked.IsZero() {
			n.asked = begin
		}
	}
	c.mu.Unlock()
	if len(list) == 0 {
		return nil, true, nil // the last one has just left: ctx says so in a moment
	}
	slices.Sort(list)
	r, err := c.get(ctx, "/notifications/v2", url.Values{
		"appId": {c.app}, "cluster": {c.cluster}, "ip": {c.clientIP()}, "notifications": {"[" + strings.Join(list, ",") + "]"},
	})
	var notes []notification
	if err == nil {
		switch r.status {
		case http.StatusNotModified:
		case http.StatusOK:
			err = r.into(&notes)
		default:
			err = r.error()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.again = nil
	if l.stale && err != nil {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	for n, q := range sent {
		for _, note := range notes {
			// Restarted or not: what was answered counts, unless the question is being asked anew from -1.
			if n.leg == l && n.id == q.heard && strings.EqualFold(bare(note.Namespace), n.name) && note.ID != q.named {
				n.id, n.messages, n.expecting = note.ID, string(note.Messages), false
				n.heard++
				news = append(news, n)
			}
		}
	}
	return news, false, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
