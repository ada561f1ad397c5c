package file

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

const (
	// window is the time in which events for one inode count as one: a save is a handful of them.
	window = 100 * time.Millisecond
	// racy is the age below which a file may be written again without a change of its times: file systems count in
	// ticks of up to two seconds (FAT).
	racy = 2 * time.Second
)

// Source reads one rule document from a file and watches it. Its methods may be called from any goroutine.
type Source struct {
	id       string
	reader   reader
	interval time.Duration
	notifier *Notifier
	pollOnly bool

	mu   sync.Mutex
	seen seen
	// fresh: the file was so new at the last read that a later write may look the same.
	fresh bool
	notes []string
}

var _ datasource.Watcher = (*Source)(nil)

// NewSource makes a source for the file at path, which need not exist yet. It reads nothing.
func NewSource(path string, opts ...SourceOption) (*Source, error) {
	return newSource(realDisk{}, path, opts...)
}

func newSource(d disk, path string, opts ...SourceOption) (*Source, error) {
	c := sourceConfig{maxBytes: DefaultMaxBytes, interval: DefaultInterval, settle: DefaultSettle, grace: DefaultGrace}
	for _, o := range opts {
		if err := o.applySource(&c); err != nil {
			return nil, err
		}
	}
	if c.settle >= c.grace {
		return nil, fmt.Errorf("file: Settle (%v) must be shorter than Grace (%v)", c.settle, c.grace)
	}
	if c.pollOnly && c.notifier != nil {
		return nil, errors.New("file: PollOnly and WithNotifier exclude each other")
	}
	abs, id, err := locate(path)
	if err != nil {
		return nil, err
	}
	return &Source{
		id:       id,
		reader:   reader{disk: d, path: abs, maxBytes: c.maxBytes, settle: c.settle, grace: c.grace},
		interval: c.interval, notifier: c.notifier, pollOnly: c.pollOnly,
	}, nil
}

// ID is "file:" and the absolute path.
func (s *Source) ID() string { return s.id }

// Note says what a status should show of how the file is watched, such as that events are missing and why, and is
// empty when all is well.
func (s *Source) Note() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.notes, "; ")
}

// Read gives the document as it is, once its writer seems to have finished with it: at once after a rename and while
// nothing changes, else when the file has rested for the settle time. A file that was there at the last read and is
// gone or empty now gets the grace period to come back. A file that never rests in that time is ErrUnsettled.
func (s *Source) Read(ctx context.Context) (datasource.Document, error) {
	s.mu.Lock()
	prev := s.seen
	s.mu.Unlock()
	data, id, err := s.reader.read(ctx, prev)
	if err != nil {
		return datasource.Document{}, err // what was seen stays as it was: the poll asks for another read
	}
	s.mu.Lock()
	s.seen = seen{known: true, id: id}
	s.fresh = id.exists && time.Since(id.touched()) < racy
	s.mu.Unlock()
	if !id.exists {
		return datasource.Document{Presence: datasource.Missing}, nil
	}
	return datasource.Document{Presence: datasource.Present, Data: data, Revision: revision(data)}, nil
}

// Watch delivers a hint whenever the file may have changed: when an event tells of it, and when a look every Interval
// finds it different. The first hint comes as soon as the watch is in place, so that nothing is lost between last and
// the watch. It ends with ctx only.
func (s *Source) Watch(ctx context.Context, _ datasource.Document, deliver func(datasource.Document)) error {
	w := s.watch(deliver)
	defer w.close()
	w.hint(w.look())
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.signal():
			w.event()
		case <-w.window.C:
			w.rested()
		case <-w.poll.C:
			w.tick()
		}
	}
}

// watch is one run of Watch, on its goroutine.
type watch struct {
	s       *Source
	deliver func(datasource.Document)
	sub     *subscription // nil without events
	own     *Notifier     // made by this run, nil if borrowed
	mounted string        // the note about a mount point, found once

	poll, window *time.Timer
	names        []string // the entries that are watched
	hinted       ident    // how the file looked at the last hint
	waiting      bool     // inside the window
	more         bool     // and something happened in it
}

func (s *Source) watch(deliver func(datasource.Document)) *watch {
	w := &watch{s: s, deliver: deliver, poll: time.NewTimer(s.pause()), window: time.NewTimer(window)}
	w.window.Stop()
	if mountPoint(s.reader.path) {
		w.mounted = "the file is a mount point of its own (a subPath volume?): a replaced file does not arrive"
	}
	if s.pollOnly {
		return w
	}
	n := s.notifier
	if n == nil {
		n = NewNotifier()
		w.own = n
	}
	w.sub = n.subscribe()
	return w
}

func (w *watch) close() {
	w.poll.Stop()
	w.window.Stop()
	if w.sub != nil {
		w.sub.close()
	}
	if w.own != nil {
		_ = w.own.Close() // the watches are gone with the file descriptor, whatever it says
	}
}

func (w *watch) signal() <-chan struct{} {
	if w.sub == nil {
		return nil
	}
	return w.sub.signal
}

// look puts the watches where path leads now, and then looks at the file: in this order nothing falls between.
func (w *watch) look() ident {
	var notes []string
	if w.mounted != "" {
		notes = append(notes, w.mounted)
	}
	if w.sub == nil {
		notes = append(notes, "polling only: events are switched off")
	} else {
		if err := w.arm(); err != nil {
			notes = append(notes, "polling only: "+limits(err))
		}
	}
	w.s.mu.Lock()
	w.s.notes = notes
	w.s.mu.Unlock()
	id, err := w.s.reader.disk.stat(w.s.reader.path)
	if err != nil {
		return ident{odd: true}
	}
	return id
}

// arm watches each entry on the way to the file. What was made or moved while it did so may lead elsewhere: it walks
// again until it finds what it has just watched; the next poll sees to a way that never holds still.
func (w *watch) arm() error {
	for range maxLinks {
		names, _, err := chain(w.s.reader.path)
		if err != nil {
			return err
		}
		if err := w.sub.set(names); err != nil {
			return err
		}
		if slices.Equal(names, w.names) {
			return nil
		}
		w.names = names
	}
	return nil
}

func (w *watch) hint(id ident) {
	w.hinted, w.waiting, w.more = id, true, false
	w.window.Reset(window)
	w.deliver(datasource.Hint())
}

// event hints at once when there is another file than at the last hint, which is a whole new document, and else once
// for all that happens within the window.
func (w *watch) event() {
	id := w.look()
	if w.waiting && (id == w.hinted || id.sameFile(w.hinted)) {
		w.more = true
		return
	}
	w.hint(id)
}

func (w *watch) rested() {
	w.waiting = false
	if w.more {
		w.hint(w.look())
	}
}

// tick hints when the file differs from how it was at the last hint or read (a read that failed leaves it so), and once
// more, when it is old enough, if it was so new at the last read that its times can't tell.
func (w *watch) tick() {
	w.poll.Reset(w.s.pause())
	id := w.look()
	w.s.mu.Lock()
	changed := id != w.hinted || id != w.s.seen.id || w.s.fresh && time.Since(id.touched()) >= racy
	w.s.mu.Unlock()
	if changed {
		w.hint(id)
	}
}

// pause is the interval with jitter, so that a thousand sources do not look at once.
func (s *Source) pause() time.Duration {
	return s.interval - time.Duration(rand.Int64N(int64(s.interval/10)+1))
}
