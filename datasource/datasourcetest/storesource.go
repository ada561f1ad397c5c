package datasourcetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

// Flavour is a way in which a store serves its documents.
type Flavour uint8

const (
	// Pushed delivers each change as a document, ordered by revision, and joins a watch to a revision. As etcd does.
	Pushed Flavour = iota
	// Hinted says only that something changed. Its revision is a hash, without order. As Redis does.
	Hinted
	// Pulled can only be read. As a plain HTTP server does.
	Pulled
)

// String names the flavour.
func (f Flavour) String() string {
	switch f {
	case Pushed:
		return "pushed"
	case Hinted:
		return "hinted"
	default:
		return "pulled"
	}
}

// Source makes a source of key. Those of Pushed and Hinted implement datasource.Watcher.
func (s *Store) Source(key string, f Flavour) datasource.Source {
	src := &source{store: s, key: key, flavour: f}
	switch f {
	case Pushed:
		return pushed{src}
	case Hinted:
		return hinted{src}
	default:
		return src
	}
}

// Sink makes a sink of key; its revisions are those of the source of the same flavour.
func (s *Store) Sink(key string, f Flavour) writable.Sink {
	return sink{&source{store: s, key: key, flavour: f}}
}

// source reads one key. By itself it is the pulled flavour.
type source struct {
	store   *Store
	key     string
	flavour Flavour

	mu   sync.Mutex
	last version // the last read
}

var (
	_ datasource.Source  = (*source)(nil)
	_ datasource.Watcher = pushed{}
	_ datasource.Watcher = hinted{}
	_ writable.Sink      = sink{}
)

func (s *source) ID() string { return "memory:" + s.key }

func (s *source) Read(ctx context.Context) (datasource.Document, error) {
	v, err := s.store.get(ctx, s.key)
	if err != nil {
		return datasource.Document{}, fmt.Errorf("read %s: %w", s.key, err)
	}
	s.mu.Lock()
	s.last = v
	s.mu.Unlock()
	return s.document(v), nil
}

// joins gives the first revision that a watch which follows last must see. A document that is quiet while the store
// moves on would soon lie before the compacted history, so that the store's revision at the read counts, not the
// document's own.
func (s *source) joins(last datasource.Document) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.present && s.last.modified == last.Order {
		return s.last.seen + 1
	}
	return last.Order + 1
}

// document spells a version in the flavour's own revisions.
func (s *source) document(v version) datasource.Document {
	doc := datasource.Document{Presence: datasource.Missing}
	if v.present {
		// A document that is handed over is nobody's to change, also not the store's.
		doc = datasource.Document{Presence: datasource.Present, Data: bytes.Clone(v.data)}
	}
	switch {
	case s.flavour != Hinted && v.present:
		doc.Order = v.modified
	case s.flavour != Hinted:
		// The store's own revision at which the key was not there: a watch joins it.
		doc.Order = v.seen
	case v.present:
		sum := sha256.Sum256(v.data)
		doc.Revision = hex.EncodeToString(sum[:8])
	}
	if doc.Order > 0 {
		doc.Revision = strconv.FormatUint(doc.Order, 10)
	}
	return doc
}

// pushed watches from the revision after the last one, so that nothing falls between read and watch.
type pushed struct{ *source }

func (p pushed) Watch(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
	from := p.joins(last)
	st, revision, err := p.store.watch(ctx, p.key, from)
	if err != nil {
		return fmt.Errorf("watch %s from %d: %w", p.key, from, err)
	}
	defer st.close()
	if from > revision+1 {
		return fmt.Errorf("watch %s from %d: %w", p.key, from, ErrReset)
	}
	newest := last.Order
	for {
		b, err := st.next(ctx)
		if err != nil {
			return fmt.Errorf("watch %s: %w", p.key, err)
		}
		if b.revision <= newest {
			continue // repeated, or overtaken by a newer one
		}
		newest = b.revision
		deliver(p.document(b.final()))
	}
}

// hinted has no revision to join: it subscribes first, and asks for a read afterwards.
type hinted struct{ *source }

func (h hinted) Watch(ctx context.Context, _ datasource.Document, deliver func(datasource.Document)) error {
	st, _, err := h.store.watch(ctx, h.key, fromNow)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", h.key, err)
	}
	defer st.close()
	deliver(datasource.Hint())
	for {
		if _, err := st.next(ctx); err != nil {
			return fmt.Errorf("subscription to %s: %w", h.key, err)
		}
		deliver(datasource.Hint())
	}
}

// sink writes one key.
type sink struct{ *source }

func (s sink) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	s.store.mu.Lock()
	limit := s.store.limit
	s.store.mu.Unlock()
	if limit > 0 && len(data) > limit {
		return datasource.Document{}, fmt.Errorf("write %s: %w: %d bytes, the store takes %d", s.key, datasource.ErrTooLarge, len(data), limit)
	}
	v, err := s.store.set(ctx, s.key, data, func(now version) error {
		current := writable.Absent
		if now.present {
			current = s.document(now).Revision
		}
		if current != expected {
			return fmt.Errorf("%w: revision is %q, expected %q", datasource.ErrConflict, current, expected)
		}
		return nil
	})
	switch {
	case err == nil:
		return s.document(v), nil
	case !errors.Is(err, errAnswerLost):
		return datasource.Document{}, fmt.Errorf("write %s: %w", s.key, err)
	}
	// It was sent; only the answer is missing. Reading back tells, if that works.
	doc, readErr := s.Read(ctx)
	switch {
	case readErr != nil:
		return datasource.Document{}, fmt.Errorf("write %s: %w: %w, and read back: %w", s.key, datasource.ErrUnknownOutcome, err, readErr)
	case doc.Presence == datasource.Present && bytes.Equal(doc.Data, data):
		return doc, nil
	default:
		return datasource.Document{}, fmt.Errorf("write %s: %w", s.key, err)
	}
}
