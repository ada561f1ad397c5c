package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/writable"
)

// faulty is a disk that can fail, and that counts what reads the document. A look at the file is no request: it is what
// takes the place of a subscription.
type faulty struct {
	disk
	err   atomic.Pointer[error]
	opens atomic.Int64
}

func (f *faulty) fail(err error) error {
	f.err.Store(&err)
	return nil
}

func (f *faulty) stat(path string) (ident, error) {
	if err := f.err.Load(); err != nil && *err != nil {
		return ident{}, *err
	}
	return f.disk.stat(path)
}

func (f *faulty) open(path string) (handle, error) {
	f.opens.Add(1)
	if err := f.err.Load(); err != nil && *err != nil {
		return nil, *err
	}
	return f.disk.open(path)
}

func (f *faulty) Break() error  { return f.fail(syscall.EIO) }
func (f *faulty) Deny() error   { return f.fail(fs.ErrPermission) }
func (f *faulty) Heal() error   { return f.fail(nil) }
func (f *faulty) Requests() int { return int(f.opens.Load()) }

// deaf is the kernel's watches, of which no event need come through.
type deaf struct {
	watcher
	lost *atomic.Bool
	out  chan fsnotify.Event
}

func (d deaf) streams() (<-chan fsnotify.Event, <-chan error) {
	in, errs := d.watcher.streams()
	go func() {
		defer close(d.out)
		for ev := range in {
			if !d.lost.Load() {
				d.out <- ev
			}
		}
	}()
	return d.out, errs
}

// onDisk is a harness over the real file system and the kernel's events.
type onDisk struct {
	faulty
	path     string
	lost     atomic.Bool
	notifier *Notifier
	mounted  configMap
}

func newOnDisk(t testing.TB) datasourcetest.Harness {
	h := &onDisk{path: filepath.Join(t.TempDir(), "flow.json")}
	h.disk, h.mounted.dir = realDisk{}, filepath.Dir(h.path)
	h.notifier = newNotifier(func() (backend, error) {
		w, err := fsnotify.NewWatcher()
		if err != nil {
			return nil, err
		}
		return deaf{watcher{w}, &h.lost, make(chan fsnotify.Event)}, nil
	})
	t.Cleanup(func() { _ = h.notifier.Close() })
	return h
}

func (h *onDisk) Source() (datasource.Source, error) {
	return newSource(h, h.path, WithNotifier(h.notifier), Interval(200*time.Millisecond), Grace(200*time.Millisecond))
}

func (h *onDisk) Put(data []byte) error           { return replaceFile(h.path, data) }
func (h *onDisk) Replace(data []byte) error       { return replaceFile(h.path, data) }
func (h *onDisk) PutNeighbour(data []byte) error  { return replaceFile(h.path+".more", data) }
func (h *onDisk) DeletePut(data []byte) error     { return errors.Join(h.Delete(), h.Put(data)) }
func (h *onDisk) LoseNotifications() error        { h.lost.Store(true); return nil }
func (h *onDisk) Limit() int                      { return DefaultMaxBytes }
func (h *onDisk) Misconfigured() map[string]error { return misconfigured() }

func (h *onDisk) Truncate() error        { return os.Truncate(h.path, 0) }
func (h *onDisk) Fill(data []byte) error { return os.WriteFile(h.path, data, 0o600) }
func (h *onDisk) Swap(data []byte) error { return h.mounted.swap(string(data)) }

func (h *onDisk) Sink() (writable.Sink, error) {
	s, err := NewSink(h.path)
	if err != nil {
		return nil, err
	}
	s.reader.disk = h
	return s, nil
}

func (h *onDisk) Delete() error {
	if err := os.Remove(h.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Restart takes the folder away and brings it back.
func (h *onDisk) Restart() error {
	dir := filepath.Dir(h.path)
	return errors.Join(os.Rename(dir, dir+".away"), os.Rename(dir+".away", dir))
}

func replaceFile(path string, data []byte) error {
	return errors.Join(os.WriteFile(path+"~", data, 0o600), os.Rename(path+"~", path))
}

// misconfigured gives what the constructors say to what can't work.
func misconfigured() map[string]error {
	source := func(path string, opts ...SourceOption) error { _, err := NewSource(path, opts...); return err }
	sink := func(path string, opts ...SinkOption) error { _, err := NewSink(path, opts...); return err }
	files := func(f fs.FS, name string, opts ...FSOption) error {
		_, err := NewFSSource(f, name, opts...)
		return err
	}
	return map[string]error{
		"no path":           source(""),
		"NUL":               source("a\x00b"),
		"interval":          source("a", Interval(3)),
		"settle":            source("a", Settle(-1)),
		"grace":             source("a", Grace(0)),
		"grace too short":   source("a", Grace(time.Second), Settle(time.Second)),
		"no notifier":       source("a", WithNotifier(nil)),
		"poll and notifier": source("a", PollOnly(), WithNotifier(NewNotifier())),
		"size":              source("a", MaxBytes(0)),
		"sink, no path":     sink(""),
		"sink size":         sink("a", MaxBytes(-1)),
		"mode":              sink("a", Mode(fs.ModeSetuid|0o600)),
		"mode, not ours":    sink("a", Mode(0o444)),
		"fs size":           files(os.DirFS("."), "a", MaxBytes(0)),
		"fs name":           files(os.DirFS("."), "/a"),
		"fs dot":            files(os.DirFS("."), "."),
		"no fs":             files(nil, "a"),
	}
}

// scriptedHarness is one over the scripted disk, in a bubble, by the poll alone.
type scriptedHarness struct {
	faulty
	s *script
}

func newScripted(testing.TB) datasourcetest.Harness {
	h := &scriptedHarness{s: newScript()}
	h.disk = h.s
	return h
}

func (h *scriptedHarness) Source() (datasource.Source, error) {
	return newSource(h, "/rules/flow.json", PollOnly())
}

func (h *scriptedHarness) Put(data []byte) error {
	h.s.do(func(s *script) { s.truncate(); s.append(string(data)) })
	return nil
}

func (h *scriptedHarness) Replace(data []byte) error {
	h.s.do(func(s *script) { s.rename(string(data), time.Second) })
	return nil
}

func (h *scriptedHarness) Delete() error {
	h.s.do((*script).remove)
	return nil
}

func (h *scriptedHarness) DeletePut(data []byte) error {
	h.s.do(func(s *script) { s.remove(); s.create(string(data)) })
	return nil
}

func (h *scriptedHarness) Truncate() error {
	h.s.do((*script).truncate)
	return nil
}

func (h *scriptedHarness) Fill(data []byte) error {
	h.s.do(func(s *script) { s.append(string(data)) })
	return nil
}

func (h *scriptedHarness) Misconfigured() map[string]error { return misconfigured() }

// inFS is a harness over an fs.FS that somebody changes.
type inFS struct {
	mu    sync.Mutex
	files fstest.MapFS
	err   error
	opens int
}

func newInFS(testing.TB) datasourcetest.Harness { return &inFS{files: fstest.MapFS{}} }

func (h *inFS) Open(name string) (fs.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opens++; h.err != nil {
		return nil, h.err
	}
	return h.files.Open(name)
}

func (h *inFS) change(f func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	return nil
}

func (h *inFS) Source() (datasource.Source, error) { return NewFSSource(h, "rules/flow.json") }

func (h *inFS) Put(data []byte) error {
	return h.change(func() { h.files["rules/flow.json"] = &fstest.MapFile{Data: data} })
}

func (h *inFS) PutNeighbour(data []byte) error {
	return h.change(func() { h.files["rules/flow.json.more"] = &fstest.MapFile{Data: data} })
}

func (h *inFS) Delete() error { return h.change(func() { delete(h.files, "rules/flow.json") }) }
func (h *inFS) Break() error  { return h.change(func() { h.err = syscall.EIO }) }
func (h *inFS) Deny() error   { return h.change(func() { h.err = fs.ErrPermission }) }
func (h *inFS) Heal() error   { return h.change(func() { h.err = nil }) }

func (h *inFS) Requests() (n int) {
	_ = h.change(func() { n = h.opens })
	return n
}

// TestConformance plays the suite in real time, where files are replaced by renames, and in a bubble, where they are
// written in place and only the poll tells of it.
func TestConformance(t *testing.T) {
	t.Run("Rename", func(t *testing.T) {
		datasourcetest.Run(t, datasourcetest.Config{New: newOnDisk})
	})
	t.Run("InPlace", func(t *testing.T) {
		datasourcetest.Run(t, datasourcetest.Config{New: newScripted, Bubble: true, Latency: DefaultInterval + 2*DefaultGrace})
	})
	t.Run("Embedded", func(t *testing.T) {
		datasourcetest.Run(t, datasourcetest.Config{New: newInFS, Bubble: true})
	})
	t.Run("Sink", func(t *testing.T) {
		datasourcetest.RunSink(t, datasourcetest.Config{New: newOnDisk})
	})
}
