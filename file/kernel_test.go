package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// The tests of this file use the real file system and the kernel's events. The poll is an hour away, so that what
// arrives has come by an event.
const never = time.Hour

// patience is how long a test waits for what must come; nothing waits that long when all is well.
const patience = 10 * time.Second

// follower does what the engine does: it reads, watches, and reads again on each hint.
type follower struct {
	t    *testing.T
	docs chan datasource.Document // each one that differs from the one before
	stop func()
}

func follow(t *testing.T, src datasource.Watcher) *follower {
	t.Helper()
	last, err := src.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{t: t, docs: make(chan datasource.Document, 1000)}
	f.docs <- last
	hints := make(chan struct{}, 1)
	armed := make(chan struct{})
	var once sync.Once
	var running sync.WaitGroup
	running.Go(func() {
		err := src.Watch(ctx, last, func(datasource.Document) {
			once.Do(func() { close(armed) })
			select {
			case hints <- struct{}{}:
			default:
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Watch ended with %v", err)
		}
	})
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hints:
			}
			doc, err := src.Read(ctx)
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, ErrUnsettled) { // the file came back as the grace period ended: the engine asks again, too
				select {
				case hints <- struct{}{}:
				default:
				}
				continue
			}
			if err != nil {
				t.Errorf("Read: %v", err)
				continue
			}
			if doc.Presence != last.Presence || !bytes.Equal(doc.Data, last.Data) {
				f.docs <- doc
			}
			last = doc
		}
	})
	f.stop = func() {
		start := time.Now()
		cancel()
		running.Wait()
		if took := time.Since(start); took > time.Second {
			t.Errorf("stopped after %v, want at once", took)
		}
	}
	t.Cleanup(f.stop)
	<-armed
	return f
}

// next fails unless the next document is data, or missing for "-".
func (f *follower) next(data string) {
	f.t.Helper()
	select {
	case doc := <-f.docs:
		got := string(doc.Data)
		if doc.Presence == missing {
			got = "-"
		}
		if got != data {
			f.t.Fatalf("got %q, want %q", got, data)
		}
	case <-time.After(patience):
		f.t.Fatalf("%q did not arrive", data)
	}
}

// wantGoroutines waits until no more than most run: one that has said its last word may not have ended yet.
func wantGoroutines(t *testing.T, most int) {
	t.Helper()
	for start := time.Now(); runtime.NumGoroutine() > most; runtime.Gosched() {
		if time.Since(start) > patience {
			t.Errorf("%d goroutines, want %d", runtime.NumGoroutine(), most)
			return
		}
	}
}

func newFileSource(t *testing.T, path string, opts ...SourceOption) *Source {
	t.Helper()
	src, err := NewSource(path, append([]SourceOption{Interval(never)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func write(t *testing.T, path, data string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(data), 0o600))
}

// replace is what an editor's atomic save does.
func replace(t *testing.T, path, data string) {
	t.Helper()
	tmp := path + "~"
	write(t, tmp, data)
	must(t, os.Rename(tmp, path))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// faults: F002 F088 F092
func TestRenameReplaceDoesNotKillTheWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	write(t, path, "v0")
	f := follow(t, newFileSource(t, path))
	f.next("v0")
	before := runtime.NumGoroutine()
	for _, v := range []string{"v1", "v2", "v3"} { // E1
		replace(t, path, v)
		f.next(v)
	}
	wantGoroutines(t, before)
}

// faults: F092
func TestSaveWithBackupDoesNotKillTheWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	write(t, path, "v0")
	f := follow(t, newFileSource(t, path))
	f.next("v0")
	for _, v := range []string{"v1", "v2", "v3"} { // vi with backup=yes, emacs: move away, write anew
		must(t, os.Rename(path, path+"~"))
		write(t, path, v)
		f.next(v)
	}
}

// faults: F001
func TestTruncateThenWriteIsNeverSeenEmpty(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	write(t, path, "v0")
	f := follow(t, newFileSource(t, path, Grace(patience)))
	f.next("v0")
	for _, v := range []string{"v1", "v2"} {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		must(t, err)
		_, err = file.WriteString(v)
		must(t, errors.Join(err, file.Close()))
		f.next(v)
	}
}

// configMap makes and swaps a folder as the kubelet does.
type configMap struct {
	dir string
	n   int
}

func (c *configMap) swap(data string) error {
	link := filepath.Join(c.dir, "..data")
	old, _ := os.Readlink(link)
	c.n++
	version := fmt.Sprintf("..2026_%d", c.n)
	err := errors.Join(
		os.Mkdir(filepath.Join(c.dir, version), 0o700),
		os.WriteFile(filepath.Join(c.dir, version, "flow.json"), []byte(data), 0o600),
		os.Symlink(version, link+"_tmp"),
		os.Rename(link+"_tmp", link),
	)
	if old == "" {
		return errors.Join(err, os.Symlink(filepath.Join("..data", "flow.json"), filepath.Join(c.dir, "flow.json")))
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(c.dir, old)))
}

// faults: F101 F102
func TestConfigMapSwapIsOneUpdateEach(t *testing.T) {
	c := &configMap{dir: t.TempDir()}
	must(t, c.swap("v0"))
	f := follow(t, newFileSource(t, filepath.Join(c.dir, "flow.json")))
	f.next("v0")
	for _, v := range []string{"v1", "v2", "v3"} { // E3
		must(t, c.swap(v))
		f.next(v)
	}
}

// faults: F101
func TestAnyLinkOfAChainMayMove(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"one", "two", "far"} {
		must(t, os.MkdirAll(filepath.Join(root, d), 0o700))
	}
	link := func(to, from string) {
		t.Helper()
		must(t, os.Symlink(to, filepath.Join(root, "tmp")))
		must(t, os.Rename(filepath.Join(root, "tmp"), filepath.Join(root, from)))
	}
	write(t, filepath.Join(root, "one", "flow.json"), "one")
	write(t, filepath.Join(root, "two", "flow.json"), "two")
	// current is a folder behind a link, far/mid is an absolute link into it, and the path a link to that.
	link("one", "current")
	link(filepath.Join(root, "current", "flow.json"), "far/mid")
	link("far/mid", "flow.json")
	f := follow(t, newFileSource(t, filepath.Join(root, "flow.json")))
	f.next("one")
	link("two", "current")
	f.next("two")
	link("../one/flow.json", "far/mid")
	f.next("one")
	replace(t, filepath.Join(root, "one", "flow.json"), "one, edited")
	f.next("one, edited")
	link("two/flow.json", "flow.json")
	f.next("two")
	replace(t, filepath.Join(root, "two", "flow.json"), "two, edited")
	f.next("two, edited")
}

// faults: F014 F088
func TestFolderRemovedAndMadeAnewIsFollowed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rules")
	path := filepath.Join(dir, "flow.json")
	must(t, os.Mkdir(dir, 0o700))
	write(t, path, "v0")
	f := follow(t, newFileSource(t, path, Grace(100*time.Millisecond)))
	f.next("v0")
	for _, v := range []string{"v1", "v2"} {
		must(t, os.RemoveAll(dir))
		f.next("-")
		must(t, os.Mkdir(dir, 0o700))
		replace(t, path, v)
		f.next(v)
		replace(t, path, v+", edited")
		f.next(v + ", edited")
	}
}

// faults: F014
func TestFolderSwappedByRenameIsFollowed(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "rules")
	must(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "flow.json"), "v0")
	f := follow(t, newFileSource(t, filepath.Join(dir, "flow.json")))
	f.next("v0")
	must(t, os.Mkdir(filepath.Join(root, "new"), 0o700))
	write(t, filepath.Join(root, "new", "flow.json"), "v1")
	must(t, os.Rename(dir, filepath.Join(root, "old")))
	must(t, os.Rename(filepath.Join(root, "new"), dir))
	f.next("v1")
	replace(t, filepath.Join(dir, "flow.json"), "v2")
	f.next("v2")
}

// faults: F096
func TestFileMadeAfterTheStartArrives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	f := follow(t, newFileSource(t, path))
	f.next("-")
	write(t, path, "v1")
	f.next("v1")
}

// faults: F096
func TestMissingFoldersMadeLaterAreFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "c", "flow.json")
	f := follow(t, newFileSource(t, path))
	f.next("-")
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	write(t, path, "v1")
	f.next("v1")
	replace(t, path, "v2")
	f.next("v2")
}

// faults: F105 F074
func TestPollFindsWhatNoEventTells(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	write(t, path, "v0")
	src, err := NewSource(path, PollOnly(), Interval(minInterval))
	must(t, err)
	f := follow(t, src)
	f.next("v0")
	info, err := os.Stat(path)
	must(t, err)
	write(t, path, "v1") // as long as v0
	must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	f.next("v1")
	if note := src.Note(); note != "polling only: events are switched off" {
		t.Errorf("note %q", note)
	}
}

// faults: F085 F106
func TestThousandSourcesShareOneWatcher(t *testing.T) {
	const many = 1000
	dir := t.TempDir()
	n := NewNotifier()
	before, instances := runtime.NumGoroutine(), inotifies(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hinted := make(chan int, 4*many)
	var running sync.WaitGroup
	for i := range many {
		// A hundred folders, ten files in each.
		path := filepath.Join(dir, fmt.Sprint(i%100), fmt.Sprintf("%d.json", i))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		src := newFileSource(t, path, WithNotifier(n))
		running.Go(func() {
			_ = src.Watch(ctx, datasource.Document{}, func(datasource.Document) { hinted <- i })
		})
	}
	for range many {
		<-hinted // each watch is in place
	}
	// One goroutine for each source's Watch, one for the notifier, one inside fsnotify.
	wantGoroutines(t, before+many+2)
	if got := inotifies(t) - instances; got > 1 {
		t.Errorf("%d inotify instances, want 1", got)
	}
	replace(t, filepath.Join(dir, "42", "742.json"), "v1")
	select {
	case i := <-hinted:
		if i != 742 {
			t.Errorf("source %d was told, want 742", i)
		}
	case <-time.After(patience):
		t.Error("no event arrived")
	}
	cancel()
	running.Wait()
	must(t, n.Close())
	if len(n.names)+len(n.dirs) != 0 {
		t.Errorf("%d names and %d folders left", len(n.names), len(n.dirs))
	}
}

// inotifies counts this process's inotify instances.
func inotifies(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	n := 0
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.Contains(to, "inotify") {
			n++
		}
	}
	return n
}

// faults: F145 F148 F149
func TestHundredWatchesLeaveNothingBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	write(t, path, "v0")
	src := newFileSource(t, path)
	before, instances := runtime.NumGoroutine(), inotifies(t)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		_ = src.Watch(ctx, datasource.Document{}, func(datasource.Document) { cancel() })
	}
	wantGoroutines(t, before)
	if after := inotifies(t); after > instances {
		t.Errorf("%d inotify instances after, %d before", after, instances)
	}
}

// faults: F030
func TestFolderOrPipeAtThePathIsAnError(t *testing.T) {
	dir := t.TempDir()
	if _, err := newFileSource(t, dir).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("folder: err = %v", err)
	}
	if _, err := newFileSource(t, os.DevNull).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("device: err = %v", err)
	}
	write(t, filepath.Join(dir, "file"), "")
	doc, err := newFileSource(t, filepath.Join(dir, "file", "flow.json")).Read(t.Context())
	must(t, err)
	wantDoc(t, doc, missing, "") // a file where a folder should be
}

// faults: F056
func TestFileOverTheCapIsTooLargeAndOneAtTheCapIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	src := newFileSource(t, path, MaxBytes(1<<20), Settle(0))
	big := strings.Repeat("x", 1<<20)
	write(t, path, big)
	if doc := read(t, src); len(doc.Data) != len(big) {
		t.Errorf("read %d bytes, want %d", len(doc.Data), len(big))
	}
	write(t, path, big+"x")
	if _, err := src.Read(t.Context()); !errors.Is(err, datasource.ErrTooLarge) {
		t.Errorf("err = %v, want ErrTooLarge", err)
	}
}

// faults: F176
func TestConstructorRefusesWhatCanNotWork(t *testing.T) {
	for name, err := range misconfigured() {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// faults: F113
func TestSourceAndSinkOfOneFileShareTheID(t *testing.T) {
	t.Chdir(t.TempDir())
	src := newFileSource(t, "rules/flow.json")
	sink, err := NewSink("rules/../rules/flow.json")
	must(t, err)
	t.Chdir(t.TempDir()) // a later change of the working folder moves nothing
	if src.ID() != sink.ID() || !strings.HasPrefix(src.ID(), "file:"+string(filepath.Separator)) {
		t.Errorf("source %q, sink %q", src.ID(), sink.ID())
	}
}
