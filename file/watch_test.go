package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/rulewire/rulewire/datasource"
)

// fakeBackend stands in for the kernel's watches.
type fakeBackend struct {
	events chan fsnotify.Event
	errs   chan error

	mu     sync.Mutex
	dirs   map[string]int // how often each folder was added since it was removed
	refuse error
	closed bool
	// adding runs before a folder is added.
	adding func(dir string)
}

func newFakeBackend() *fakeBackend {
	return &fakeBackend{events: make(chan fsnotify.Event), errs: make(chan error), dirs: map[string]int{}}
}

func (f *fakeBackend) Add(dir string) error {
	if f.adding != nil {
		f.adding(dir)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	f.dirs[dir]++
	return nil
}

func (f *fakeBackend) Remove(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.dirs, dir)
	return nil
}

func (f *fakeBackend) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		close(f.events)
	}
	return nil
}

func (f *fakeBackend) streams() (<-chan fsnotify.Event, <-chan error) { return f.events, f.errs }

func (f *fakeBackend) watched() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var dirs []string
	for d := range f.dirs {
		dirs = append(dirs, d)
	}
	slices.Sort(dirs)
	return dirs
}

func (f *fakeBackend) refuseAll(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

func (f *fakeBackend) notifier() *Notifier {
	return newNotifier(func() (backend, error) { return f, nil })
}

// count watches src and counts hints, in a bubble.
type count struct {
	mu     sync.Mutex
	hints  []time.Time
	cancel context.CancelFunc
	ended  chan error
}

func watchCounting(t *testing.T, src *Source, onHint func()) *count {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &count{cancel: cancel, ended: make(chan error, 1)}
	go func() {
		c.ended <- src.Watch(ctx, datasource.Document{}, func(doc datasource.Document) {
			if doc.Presence != datasource.Unknown {
				t.Errorf("delivered %v, want a hint", doc.Presence)
			}
			c.mu.Lock()
			c.hints = append(c.hints, time.Now())
			c.mu.Unlock()
			if onHint != nil {
				onHint()
			}
		})
	}()
	synctest.Wait()
	return c
}

// take gives the number of hints since the last take.
func (c *count) take() int {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.hints)
	c.hints = nil
	return n
}

func (c *count) stop(t *testing.T) {
	t.Helper()
	start := time.Now()
	c.cancel()
	if err := <-c.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch gave %v, want context.Canceled", err)
	}
	if took := time.Since(start); took != 0 {
		t.Errorf("Watch ended after %v, want at once", took)
	}
}

// faults: F084
func TestChangeBetweenReadAndWatchIsHinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create("v1")
		src := scripted(t, s)
		read(t, src)
		s.rename("v2", time.Second)
		c := watchCounting(t, src, nil)
		if n := c.take(); n != 1 {
			t.Errorf("%d hints when the watch was in place, want 1", n)
		}
		c.stop(t)
	})
}

// faults: F105 F074
func TestPollAloneFindsEachChangeWithinAnInterval(t *testing.T) {
	for name, change := range map[string]func(*script){
		"renamed":                   func(s *script) { s.rename("v2", time.Hour) },
		"written in place":          func(s *script) { s.truncate(); s.append("v2") },
		"removed":                   func(s *script) { s.remove() },
		"same size, mtime put back": func(s *script) { m := s.node.modified; s.truncate(); s.append("v2"); s.node.modified = m },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript()
				s.create("v1")
				time.Sleep(time.Hour)
				src := scripted(t, s)
				read(t, src)
				c := watchCounting(t, src, func() { go func() { _, _ = src.Read(t.Context()) }() })
				c.take()
				time.Sleep(10 * time.Minute)
				if n := c.take(); n != 0 {
					t.Errorf("%d hints while nothing changed, want 0", n)
				}
				s.do(change)
				time.Sleep(DefaultInterval)
				// The jitter may put two polls into it, and a file this new is hinted once more.
				if n := c.take(); n != 1 && n != 2 {
					t.Errorf("%d hints in the interval after the change, want 1 or 2", n)
				}
				time.Sleep(3 * DefaultInterval)
				c.take()
				time.Sleep(10 * time.Minute)
				if n := c.take(); n != 0 {
					t.Errorf("%d hints long after the change, want 0", n)
				}
				c.stop(t)
			})
		})
	}
}

// faults: F074
func TestEditWithinTheSameTickIsNotHiddenByEqualTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.tick = time.Second
		s.create("v1")
		src := scripted(t, s, Settle(0))
		wantDoc(t, read(t, src), present, "v1")
		s.do(func(s *script) { s.truncate() })
		s.append("v2") // same inode, size and times
		hinted := make(chan struct{}, 10)
		c := watchCounting(t, src, func() { hinted <- struct{}{} })
		<-hinted // the one for a watch in place
		s.do(func(s *script) { s.truncate() })
		s.do(func(s *script) { s.append("v3") })
		c.take()
		time.Sleep(DefaultInterval)
		if n := c.take(); n != 1 {
			t.Errorf("%d hints, want 1: the times prove nothing", n)
		}
		wantDoc(t, read(t, src), present, "v3")
		time.Sleep(2 * DefaultInterval)
		if n := c.take(); n != 0 {
			t.Errorf("%d hints once the file is old enough, want 0", n)
		}
		c.stop(t)
	})
}

// faults: F074
func TestFailedReadIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create("v1")
		time.Sleep(time.Hour)
		src := scripted(t, s, MaxBytes(4))
		read(t, src)
		c := watchCounting(t, src, nil)
		c.take()
		s.do(func(s *script) { s.rename("far too long", time.Second) })
		if _, err := src.Read(t.Context()); !errors.Is(err, datasource.ErrTooLarge) {
			t.Fatalf("err = %v, want ErrTooLarge", err)
		}
		for range 3 {
			time.Sleep(DefaultInterval) // the jitter may put two polls into it
			if n := c.take(); n != 1 && n != 2 {
				t.Errorf("%d hints in an interval after a failed read, want 1", n)
			}
		}
		c.stop(t)
	})
}

// faults: F122 F085
func TestTenEventsOfOneSaveAreTwoHintsAtMost(t *testing.T) {
	dir := resolved(t)
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBackend()
		n := f.notifier()
		a, b := newScript(), newScript()
		a.create("a")
		b.create("b")
		srcA, err := newSource(a, filepath.Join(dir, "a.json"), WithNotifier(n))
		if err != nil {
			t.Fatal(err)
		}
		srcB, err := newSource(b, filepath.Join(dir, "b.json"), WithNotifier(n))
		if err != nil {
			t.Fatal(err)
		}
		ca, cb := watchCounting(t, srcA, nil), watchCounting(t, srcB, nil)
		time.Sleep(time.Second)
		ca.take()
		cb.take()
		for range 10 {
			f.events <- fsnotify.Event{Name: filepath.Join(dir, "a.json"), Op: fsnotify.Write}
			f.events <- fsnotify.Event{Name: filepath.Join(dir, ".a.json.swp"), Op: fsnotify.Write}
			a.do(func(s *script) { s.append("x") })
			time.Sleep(10 * time.Millisecond)
		}
		f.events <- fsnotify.Event{Name: filepath.Join(dir, "b.json"), Op: fsnotify.Write}
		time.Sleep(window)
		// The first event, and what came after it; a neighbour has a window of its own.
		if n := ca.take(); n > 2 || n < 1 {
			t.Errorf("%d hints for ten events, want 1 or 2", n)
		}
		if n := cb.take(); n != 1 {
			t.Errorf("%d hints for the neighbour, want 1", n)
		}
		// Two replaced files are two documents: the second is not made to wait.
		a.do(func(s *script) { s.rename("v2", time.Second) })
		f.events <- fsnotify.Event{Name: filepath.Join(dir, "a.json"), Op: fsnotify.Create}
		synctest.Wait()
		a.do(func(s *script) { s.rename("v3", time.Second) })
		f.events <- fsnotify.Event{Name: filepath.Join(dir, "a.json"), Op: fsnotify.Create}
		if n := ca.take(); n != 2 {
			t.Errorf("%d hints for two replaced files, want 2", n)
		}
		ca.stop(t)
		cb.stop(t)
		if left := f.watched(); len(left) != 0 {
			t.Errorf("still watching %v after the last source", left)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}

// faults: F106
func TestNoWatchLeftMeansPollingWithANote(t *testing.T) {
	dir := resolved(t)
	for name, c := range map[string]struct {
		open, add error
		want      string
	}{
		"no instance": {open: syscall.EMFILE, want: "max_user_instances"},
		"no watch":    {add: syscall.ENOSPC, want: "max_user_watches"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeBackend()
				f.refuseAll(c.add)
				var mu sync.Mutex
				refused := c.open
				n := newNotifier(func() (backend, error) {
					mu.Lock()
					defer mu.Unlock()
					if refused != nil {
						return nil, refused
					}
					return f, nil
				})
				s := newScript()
				s.create("v1")
				time.Sleep(time.Hour)
				src, err := newSource(s, filepath.Join(dir, "flow.json"), WithNotifier(n))
				if err != nil {
					t.Fatal(err)
				}
				read(t, src)
				w := watchCounting(t, src, nil)
				w.take()
				if note := src.Note(); !strings.HasPrefix(note, "polling only: ") || !strings.Contains(note, c.want) {
					t.Errorf("note %q, want polling only and %q", note, c.want)
				}
				s.do(func(s *script) { s.rename("v2", time.Hour) })
				time.Sleep(DefaultInterval)
				if n := w.take(); n != 1 {
					t.Errorf("%d hints from the poll, want 1", n)
				}
				// The limit is raised: no restart needed.
				mu.Lock()
				refused = nil
				mu.Unlock()
				f.refuseAll(nil)
				time.Sleep(DefaultInterval)
				synctest.Wait()
				if note := src.Note(); note != "" {
					t.Errorf("note %q after the limit was raised, want none", note)
				}
				w.stop(t)
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// faults: F106
func TestLostEventsAskEverySource(t *testing.T) {
	dir := resolved(t)
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBackend()
		n := f.notifier()
		s := newScript()
		src, err := newSource(s, filepath.Join(dir, "flow.json"), WithNotifier(n))
		if err != nil {
			t.Fatal(err)
		}
		c := watchCounting(t, src, nil)
		time.Sleep(time.Second)
		c.take()
		f.errs <- errors.New("some other error")
		if n := c.take(); n != 0 {
			t.Errorf("%d hints for an error that loses nothing, want 0", n)
		}
		f.errs <- fsnotify.ErrEventOverflow
		if n := c.take(); n != 1 {
			t.Errorf("%d hints after an overflow, want 1", n)
		}
		c.stop(t)
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}

// faults: F084 F096
func TestFolderMadeWhileTheWatchIsPlacedIsFollowed(t *testing.T) {
	dir := resolved(t)
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBackend()
		// Nobody tells of it: the folder above is not watched yet when it comes.
		f.adding = func(string) { must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700)) }
		n := f.notifier()
		src, err := newSource(newScript(), filepath.Join(dir, "a", "b", "flow.json"), WithNotifier(n))
		must(t, err)
		c := watchCounting(t, src, nil)
		if got, want := f.watched(), []string{filepath.Join(dir, "a", "b")}; !slices.Equal(got, want) {
			t.Errorf("watching %v, want %v", got, want)
		}
		c.stop(t)
		must(t, n.Close())
	})
}

// faults: F088 F147
func TestNotifierThatIsClosedOrDiesLeavesThePoll(t *testing.T) {
	dir := resolved(t)
	synctest.Test(t, func(t *testing.T) {
		first, second := newFakeBackend(), newFakeBackend()
		backends := []*fakeBackend{first, second}
		n := newNotifier(func() (backend, error) {
			b := backends[0]
			backends = backends[1:]
			return b, nil
		})
		if err := NewNotifier().Close(); err != nil {
			t.Errorf("Close before use: %v", err)
		}
		s := newScript()
		s.create("v1")
		time.Sleep(time.Hour)
		src, err := newSource(s, filepath.Join(dir, "flow.json"), WithNotifier(n))
		if err != nil {
			t.Fatal(err)
		}
		read(t, src)
		c := watchCounting(t, src, nil)
		if err := first.Close(); err != nil { // the backend dies by itself
			t.Fatal(err)
		}
		time.Sleep(DefaultInterval)
		synctest.Wait()
		if got := second.watched(); !slices.Equal(got, []string{dir}) {
			t.Errorf("after the watcher died %v is watched anew, want %s", got, dir)
		}
		c.take()
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() {
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		closers.Wait()
		s.do(func(s *script) { s.rename("v2", time.Hour) })
		time.Sleep(DefaultInterval)
		if n := c.take(); n != 1 {
			t.Errorf("%d hints after the notifier was closed, want the poll's", n)
		}
		if note := src.Note(); note != "polling only: closed" {
			t.Errorf("note %q, want that the notifier is closed", note)
		}
		c.stop(t)
	})
}

// resolved is a temporary folder with no link in its path.
func resolved(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
