package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

func newFileSink(t *testing.T, path string, opts ...SinkOption) *Sink {
	t.Helper()
	s, err := NewSink(path, opts...)
	must(t, err)
	return s
}

// stored fails unless the sink stores data over expected.
func stored(t *testing.T, s *Sink, data, expected string) datasource.Document {
	t.Helper()
	doc, err := s.Write(t.Context(), []byte(data), expected)
	must(t, err)
	return doc
}

// faults: F140 F156
func TestWriteNeedsTheRevisionItReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	sink, src := newFileSink(t, path), newFileSource(t, path)

	conflict := func(expected, current string) {
		t.Helper()
		_, err := sink.Write(t.Context(), []byte("lost"), expected)
		var e *datasource.Error
		if !errors.Is(err, datasource.ErrConflict) || !errors.As(err, &e) {
			t.Fatalf("err = %v, want a datasource.Error for a conflict", err)
		}
		if e.Op != "write" || e.SourceID != src.ID() || e.Revision != current {
			t.Errorf("error says %q %q %q, want write %q %q", e.Op, e.SourceID, e.Revision, src.ID(), current)
		}
	}

	conflict("somebody's", "") // there is none
	v1 := stored(t, sink, "v1", writable.Absent)
	conflict(writable.Absent, v1.Revision)
	conflict("somebody's", v1.Revision)
	v2 := stored(t, sink, "v2", v1.Revision)
	conflict(v1.Revision, v2.Revision)

	for name, r := range map[string]interface {
		Read(context.Context) (datasource.Document, error)
	}{"source": src, "sink": sink} {
		doc, err := r.Read(t.Context())
		must(t, err)
		if doc.Revision != v2.Revision || string(doc.Data) != "v2" {
			t.Errorf("%s reads %q at %s, want v2 at %s", name, doc.Data, doc.Revision, v2.Revision)
		}
	}
	if v1.Revision == v2.Revision || v1.Presence != present || string(v1.Data) != "v1" {
		t.Errorf("written: %+v, then %+v", v1, v2)
	}
	// An empty file is there: only its own revision replaces it.
	empty := stored(t, sink, "", v2.Revision)
	conflict(writable.Absent, empty.Revision)
	stored(t, sink, "v3", empty.Revision)
}

// faults: F157
func TestFileIsMadeWithItsFoldersWhenAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "flow.json")
	_, err := newFileSink(t, path).Write(t.Context(), []byte("[]"), writable.Absent)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "MakeDirs") {
		t.Errorf("err = %v, want a missing folder and what to do", err)
	}
	stored(t, newFileSink(t, path, MakeDirs()), "[]", writable.Absent)
	for p, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700 | fs.ModeDir} {
		info, err := os.Stat(p)
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", p, info.Mode(), want)
		}
	}
	other := filepath.Join(filepath.Dir(path), "other.json")
	stored(t, newFileSink(t, other, Mode(0o644)), "[]", writable.Absent)
	if info, err := os.Stat(other); err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v, want 0644", info.Mode(), err)
	}
}

// faults: F157 F158
func TestWriteKeepsTheLinkAndTheMode(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	target, link := filepath.Join(dir, "real", "flow.json"), filepath.Join(dir, "flow.json")
	must(t, os.Symlink("real/flow.json", link))
	first := stored(t, newFileSink(t, link), "v1", writable.Absent) // through a link that leads nowhere yet
	must(t, os.Chmod(target, 0o640))
	stored(t, newFileSink(t, link), "v2", first.Revision)
	if to, err := os.Readlink(link); err != nil || to != "real/flow.json" {
		t.Errorf("link leads to %q, %v", to, err)
	}
	info, err := os.Stat(target)
	must(t, err)
	if info.Mode() != 0o640 {
		t.Errorf("mode %v, want 0640", info.Mode())
	}
	if entries, err := os.ReadDir(filepath.Dir(target)); err != nil || len(entries) != 1 {
		t.Errorf("folder holds %v, %v, want the file alone", entries, err)
	}
}

// faults: F056 F059
func TestDocumentOverTheCapIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	sink := newFileSink(t, path, MaxBytes(4))
	if _, err := sink.Write(t.Context(), []byte("12345"), writable.Absent); !errors.Is(err, datasource.ErrTooLarge) {
		t.Errorf("err = %v, want ErrTooLarge", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
	stored(t, sink, "1234", writable.Absent)
}

// faults: F157
func TestFolderInThePlaceOfTheFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	_, err := newFileSink(t, dir).Write(t.Context(), []byte("[]"), writable.Absent)
	if err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("err = %v", err)
	}
}

// faults: F140 F139
func TestOfTwentyWritersExactlyOneWinsEachRound(t *testing.T) {
	const writers, rounds = 20, 5
	path := filepath.Join(t.TempDir(), "flow.json")
	revision := writable.Absent
	for round := range rounds {
		var mu sync.Mutex
		var won []datasource.Document
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				doc, err := newFileSink(t, path).Write(t.Context(), fmt.Appendf(nil, "round %d writer %d", round, w), revision)
				switch {
				case err == nil:
					mu.Lock()
					won = append(won, doc)
					mu.Unlock()
				case !errors.Is(err, datasource.ErrConflict):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(won) != 1 {
			t.Fatalf("round %d: %d writers won, want 1", round, len(won))
		}
		revision = won[0].Revision
		if data, err := os.ReadFile(path); err != nil || string(data) != string(won[0].Data) {
			t.Fatalf("round %d: the file holds %q, %v; %q won", round, data, err, won[0].Data)
		}
	}
}

// faults: F149
func TestWaitForTheLockEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	unlock, err := lock(t.Context(), path)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	sink := newFileSink(t, path)
	if _, err := sink.Write(ctx, []byte("[]"), writable.Absent); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v, want the context's", err)
	}
	unlock()
	stored(t, sink, "[]", writable.Absent)
}

// document is one that shows whether it is whole.
func document(n int) []byte {
	data, _ := json.Marshal(map[string]string{"n": strconv.Itoa(n), "pad": strings.Repeat(strconv.Itoa(n%10), 16<<10)})
	return data
}

// number gives the n of a whole document and -1 for anything else.
func number(data []byte) int {
	var d map[string]string
	if json.Unmarshal(data, &d) != nil {
		return -1
	}
	n, err := strconv.Atoi(d["n"])
	if err != nil || d["pad"] != strings.Repeat(strconv.Itoa(n%10), 16<<10) {
		return -1
	}
	return n
}

// faults: F158 F143
func TestReaderUnderAWriteStormSeesOnlyWholeDocumentsInOrder(t *testing.T) {
	const writes = 60
	path := filepath.Join(t.TempDir(), "flow.json")
	sink := newFileSink(t, path)
	last := stored(t, sink, string(document(0)), writable.Absent)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		src := newFileSource(t, path)
		readers.Go(func() {
			newest, reads := 0, 0
			for {
				select {
				case <-done:
					return
				default:
				}
				doc, err := src.Read(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				n := number(doc.Data)
				if n < newest {
					t.Errorf("read document %d (-1: torn) after %d", n, newest)
					return
				}
				newest, reads = n, reads+1
			}
		})
	}
	for n := range writes {
		last = stored(t, sink, string(document(n+1)), last.Revision)
	}
	close(done)
	readers.Wait()
}

const helperEnv = "RULEWIRE_TEST_WRITE"

// TestHelperWriter is no test: other tests run it as a process of its own, which counts up in the file named by the
// environment, compare-and-set, until it is killed or has counted as often as told.
func TestHelperWriter(t *testing.T) {
	path, times, ok := strings.Cut(os.Getenv(helperEnv), "\n")
	if !ok {
		t.Skip("only for TestKilledWriterLeavesAWholeDocument and its like")
	}
	n, err := strconv.Atoi(times)
	must(t, err)
	sink := newFileSink(t, path)
	fmt.Println("counting")
	for range n {
		countUp(t, sink)
	}
}

func countUp(t *testing.T, sink *Sink) {
	t.Helper()
	for {
		doc, err := sink.Read(t.Context())
		must(t, err)
		_, err = sink.Write(t.Context(), document(number(doc.Data)+1), doc.Revision)
		if !errors.Is(err, datasource.ErrConflict) {
			must(t, err)
			return
		}
	}
}

// helper starts a counting process and waits until it counts.
func helper(t *testing.T, path string, times int) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperWriter$", "-test.count=1")
	cmd.Env = append(os.Environ(), helperEnv+"="+path+"\n"+strconv.Itoa(times))
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if _, err := out.Read(make([]byte, 64)); err != nil {
		t.Fatalf("helper: %v", err)
	}
	return cmd
}

// faults: F158
func TestKilledWriterLeavesAWholeDocument(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "flow.json")
	write(t, path, string(document(0)))
	newest := 0
	for i := range 6 {
		cmd := helper(t, path, 1_000_000)
		time.Sleep(time.Duration(3+7*i) * time.Millisecond) // anywhere within a write: the moment itself is the test
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		data, err := os.ReadFile(path)
		must(t, err)
		n := number(data)
		if n < newest {
			t.Fatalf("after kill %d the file holds document %d (-1: torn), it held %d", i, n, newest)
		}
		newest = n
	}
	// The lock went with its holder, and the leftovers go with a later write.
	entries, err := os.ReadDir(dir)
	must(t, err)
	old := time.Now().Add(-time.Hour)
	for _, e := range entries {
		if e.Name() != "flow.json" {
			must(t, os.Chtimes(filepath.Join(dir, e.Name()), old, old))
		}
	}
	countUp(t, newFileSink(t, path))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("folder holds %v, %v, want the file alone", entries, err)
	}
}

// faults: F140
func TestTwoProcessesLoseNoUpdate(t *testing.T) {
	const each = 20
	path := filepath.Join(t.TempDir(), "flow.json")
	write(t, path, string(document(0)))
	cmd := helper(t, path, each)
	sink := newFileSink(t, path)
	for range each {
		countUp(t, sink)
	}
	must(t, cmd.Wait())
	data, err := os.ReadFile(path)
	must(t, err)
	if n := number(data); n != 2*each {
		t.Errorf("counted to %d, want %d", n, 2*each)
	}
}

// faults: F163
func TestOwnWriteComesBackAsTheSameRevision(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	f := follow(t, newFileSource(t, path))
	f.next("-")
	doc := stored(t, newFileSink(t, path), "v1", writable.Absent)
	got := <-f.docs
	if got.Revision != doc.Revision || string(got.Data) != "v1" {
		t.Errorf("source gives %q at %s, the write gave %s", got.Data, got.Revision, doc.Revision)
	}
}

// faults: F107 F056
func TestEmbeddedFileIsReadAndMissingOneIsMissing(t *testing.T) {
	files := fstest.MapFS{
		"rules/flow.json":  {Data: []byte("[]")},
		"rules/empty.json": {},
		"rules/big.json":   {Data: []byte("12345")},
	}
	for name, want := range map[string]struct {
		presence datasource.Presence
		data     string
		err      error
	}{
		"rules/flow.json":    {presence: present, data: "[]"},
		"rules/empty.json":   {presence: present},
		"rules/degrade.json": {presence: missing},
		"rules/big.json":     {err: datasource.ErrTooLarge},
	} {
		src, err := NewFSSource(files, name, MaxBytes(4))
		must(t, err)
		doc, err := src.Read(t.Context())
		if !errors.Is(err, want.err) || doc.Presence != want.presence && want.err == nil || string(doc.Data) != want.data {
			t.Errorf("%s: %v %q, %v", name, doc.Presence, doc.Data, err)
		}
		if src.ID() != "fs:"+name {
			t.Errorf("ID %q", src.ID())
		}
		if want.presence == present && doc.Revision != revision([]byte(want.data)) {
			t.Errorf("%s: revision %q", name, doc.Revision)
		}
	}
	src, err := NewFSSource(files, "rules")
	must(t, err)
	if _, err := src.Read(t.Context()); err == nil {
		t.Error("a folder was read")
	}
}
