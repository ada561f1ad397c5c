package consul

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/rulewire/rulewire/datasource"
)

const (
	// firstPause and longestPause bound the pace of queries that are answered early and without a change.
	// Each such query is followed by one that does not block, which makes one per second.
	firstPause   = 20 * time.Millisecond
	longestPause = 2 * time.Second
	// shownBody is how much of an error's body is worth showing: a proxy may send a page.
	shownBody = 200
)

// What Consul's answers can be wrong about.
var (
	errNoClient = errors.New("client is nil")
	errFell     = errors.New("index fell: a snapshot was restored, or another server answers")
	errNoIndex  = errors.New("answer without an index: it is not Consul's")
	errNoLeader = errors.New("stale answer of a server that knows no leader")
	errSilent   = errors.New("query was not answered in time")
)

var _ datasource.Watcher = (*Source)(nil)

// Source reads and watches one key.
type Source struct{ document }

// NewSource makes a source of the document at key. It does no I/O. The client is borrowed.
func NewSource(client *api.Client, key string, options ...Option) (*Source, error) {
	d, err := newDocument(client, key, false, options)
	if err != nil {
		return nil, err
	}
	return &Source{d}, nil
}

// ID is "consul:" with the key, and with datacenter, namespace and partition where they are set.
func (s *Source) ID() string { return s.id }

// Read reads the document, consistently unless Consistency says otherwise.
func (s *Source) Read(ctx context.Context) (datasource.Document, error) {
	a, err := s.get(ctx)
	if err != nil {
		return datasource.Document{}, err
	}
	if a.oversize > 0 {
		return datasource.Document{}, tooLarge(a.oversize, s.maxBytes)
	}
	return a.doc, nil
}

// Watch delivers what comes after last, by blocking queries. It returns when ctx ends, on every error and when the index
// falls.
func (s *Source) Watch(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
	index := last.Order
	var pause time.Duration
	// A blocking query from an index that a restored store does not have any more is silent until the store gets there.
	// So what could come after a restore begins with a query that does not block.
	for check := true; ; {
		begin := time.Now()
		wait, ask := s.wait-rand.N(s.wait/10+1), index
		if check {
			wait, ask = 0, 0
		}
		a, err := s.block(ctx, ask, wait)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil:
			return err
		case a.index < index, a.doc.Order < last.Order && a.doc.Presence == datasource.Present:
			return fmt.Errorf("%w: from %d to %d", errFell, index, a.index)
		}
		index = a.index
		if a.doc.Presence != last.Presence || a.doc.Revision != last.Revision {
			last, pause = a.doc, 0
			if a.oversize > 0 {
				a.doc = datasource.Hint() // the read that follows says that it is too large
			}
			deliver(a.doc)
			check = false // what is next waits in the store for a change of this very document
			continue
		}
		took := time.Since(begin)
		switch {
		case check:
			check = false
		case took >= longestPause:
			pause = 0 // the time was up
		default:
			// Woken up for nothing: the index moved without the document, or the server does not block, which must not
			// become a loop (F116, F118). Or a snapshot was restored: that wakes all who wait, with the old answer.
			check = true
			pause = min(max(2*pause, firstPause), longestPause)
			if err := sleep(ctx, pause-took); err != nil {
				return err
			}
		}
	}
}

// block sends one blocking query. A connection that died in silence must not hold it for ever.
func (s *Source) block(ctx context.Context, index uint64, wait time.Duration) (answer, error) {
	patience := wait + wait/16 + s.timeout // Consul adds up to a sixteenth
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	a, err := s.query(ctx, s.mode, index, wait)
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		err = fmt.Errorf("%w: %v", errSilent, patience)
	}
	return a, err
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
