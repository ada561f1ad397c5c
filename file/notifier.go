package file

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/rulewire/rulewire/datasource"
)

// Notifier watches folders for any number of sources with one goroutine and one inotify instance, of which Linux allows
// a user 128. Give it to the sources of a process with WithNotifier, and Close it after them. It opens nothing before
// the first source is watched.
//
// Events only say "look"; a source that gets none, because the limits are reached or the file system has no events,
// still looks every Interval.
type Notifier struct {
	open func() (backend, error)

	// arming serialises calls into the backend. The goroutine that takes events never holds it: backends may wait for
	// an event to be taken before they answer.
	arming  sync.Mutex
	backend backend
	ended   chan struct{}

	mu     sync.Mutex
	closed bool
	names  map[string][]*subscription
	dirs   map[string]int
}

// backend is an fsnotify.Watcher, or a test's stand-in.
type backend interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
	// streams gives the events and the errors; a closed event channel means that the backend died.
	streams() (<-chan fsnotify.Event, <-chan error)
}

type watcher struct{ *fsnotify.Watcher }

func (w watcher) streams() (<-chan fsnotify.Event, <-chan error) { return w.Events, w.Errors }

// NewNotifier makes a notifier for the sources of one process.
func NewNotifier() *Notifier {
	return newNotifier(func() (backend, error) {
		w, err := fsnotify.NewWatcher()
		if err != nil {
			return nil, err
		}
		return watcher{w}, nil
	})
}

func newNotifier(open func() (backend, error)) *Notifier {
	return &Notifier{open: open, names: map[string][]*subscription{}, dirs: map[string]int{}}
}

// Close ends the watches. Sources that are still watched go on by looking every Interval. It is safe twice and at once.
func (n *Notifier) Close() error {
	n.arming.Lock()
	defer n.arming.Unlock()
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	if n.backend == nil {
		return nil
	}
	err := n.backend.Close()
	<-n.ended
	n.backend = nil
	return err
}

// subscription is one source's interest in some directory entries.
type subscription struct {
	n *Notifier
	// signal holds one token when one of the entries may have changed.
	signal chan struct{}
	names  []string // guarded by n.arming
}

func (n *Notifier) subscribe() *subscription {
	return &subscription{n: n, signal: make(chan struct{}, 1)}
}

// set makes names the entries of interest and watches the folders they are in. Folders that are watched already are
// watched again: a folder that was replaced or unmounted lost its watch without a word. The error says why events may
// be missing.
func (s *subscription) set(names []string) error {
	n := s.n
	n.arming.Lock()
	defer n.arming.Unlock()
	s.replace(names)
	if len(names) == 0 {
		return nil
	}
	if err := n.start(); err != nil {
		return err
	}
	var errs []error
	for _, dir := range folders(names) {
		if err := n.backend.Add(dir); err != nil && !absent(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// close ends the interest; no signal comes any more.
func (s *subscription) close() { _ = s.set(nil) }

// replace swaps the entries of interest, and ends the watch on folders that nobody is interested in.
func (s *subscription) replace(names []string) {
	n := s.n
	if slices.Equal(s.names, names) {
		return
	}
	n.mu.Lock()
	for _, name := range watched(names) {
		n.names[name] = append(n.names[name], s)
	}
	for _, dir := range folders(names) {
		n.dirs[dir]++
	}
	for _, name := range watched(s.names) {
		i := slices.Index(n.names[name], s)
		if n.names[name] = slices.Delete(n.names[name], i, i+1); len(n.names[name]) == 0 {
			delete(n.names, name)
		}
	}
	var free []string
	for _, dir := range folders(s.names) {
		if n.dirs[dir]--; n.dirs[dir] == 0 {
			delete(n.dirs, dir)
			free = append(free, dir)
		}
	}
	n.mu.Unlock()
	s.names = names
	if n.backend != nil {
		for _, dir := range free {
			_ = n.backend.Remove(dir) // it may be gone, and its watch with it
		}
	}
}

// watched are the names themselves and their folders, whose own end is an event under the folder's name.
func watched(names []string) []string { return append(folders(names), names...) }

func folders(names []string) []string {
	var dirs []string
	for _, name := range names {
		if dir := filepath.Dir(name); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// start opens the backend if it is not, or is no longer, open.
func (n *Notifier) start() error {
	n.mu.Lock()
	closed := n.closed
	n.mu.Unlock()
	if closed {
		return datasource.ErrClosed
	}
	if n.backend != nil {
		select {
		case <-n.ended:
			_ = n.backend.Close()
		default:
			return nil
		}
	}
	b, err := n.open()
	if err != nil {
		n.backend = nil
		return err
	}
	n.backend, n.ended = b, make(chan struct{})
	events, errs := b.streams()
	go n.dispatch(events, errs, n.ended)
	return nil
}

func (n *Notifier) dispatch(events <-chan fsnotify.Event, errs <-chan error, ended chan<- struct{}) {
	defer close(ended)
	for {
		select {
		case ev, ok := <-events:
			if !ok {
				return
			}
			n.mu.Lock()
			wake(n.names[filepath.Clean(ev.Name)])
			n.mu.Unlock()
		case err, ok := <-errs:
			if !ok {
				errs = nil
			}
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				// Events were lost, nobody knows whose.
				n.mu.Lock()
				for _, subs := range n.names {
					wake(subs)
				}
				n.mu.Unlock()
			}
		}
	}
}

// wake never blocks: a source that has a token will look anyway.
func wake(subs []*subscription) {
	for _, s := range subs {
		select {
		case s.signal <- struct{}{}:
		default:
		}
	}
}
