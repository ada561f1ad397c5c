package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ datasource.SnapshotStore = (*Store)(nil)

func newStore(t *testing.T, opts ...Option) *Store {
	t.Helper()
	s, err := Dir(filepath.Join(t.TempDir(), "snapshots"), opts...)
	must(t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func present(data string) datasource.Document {
	return datasource.Document{Presence: datasource.Present, Data: []byte(data), Revision: "r" + data, Order: 7}
}

func wantLoaded(t *testing.T, s *Store, id string, want datasource.Document) {
	t.Helper()
	got, saved, err := s.Load(t.Context(), id)
	must(t, err)
	if got.Presence != want.Presence || !bytes.Equal(got.Data, want.Data) || got.Revision != want.Revision || got.Order != want.Order {
		t.Errorf("%s: loaded %+v, want %+v", id, got, want)
	}
	if age := time.Since(saved); age < 0 || age > time.Minute {
		t.Errorf("%s: saved %v ago", id, age)
	}
}

// faults: F168 F170
func TestWhatWasSavedIsLoaded(t *testing.T) {
	s := newStore(t)
	for id, doc := range map[string]datasource.Document{
		"etcd:/rules/flow": present("[]\n\x00[]"),
		"file:/empty":      {Presence: datasource.Present, Revision: "e3b0"},
		"redis:gone":       {Presence: datasource.Missing, Revision: "12", Order: 12},
		"file:/bad\xffutf": present("x"),
		"":                 present("y"),
	} {
		must(t, s.Save(t.Context(), id, present("older")))
		must(t, s.Save(t.Context(), id, doc))
		wantLoaded(t, s, id, doc)
	}
}

// faults: F168
func TestSourcesNeverShareAFile(t *testing.T) {
	s := newStore(t)
	long := strings.Repeat("/deep", 100)
	ids := []string{"a/b", "a_b", "a:b", "A_b", "..", ".", "/", "a\x00b", "a\xffb", "a\ufffdb", long + "1", "1" + long, "CON", "x.snap"}
	for _, id := range ids {
		must(t, s.Save(t.Context(), id, present(id)))
	}
	for _, id := range ids {
		wantLoaded(t, s, id, present(id))
	}
	entries, err := os.ReadDir(s.dir)
	must(t, err)
	if len(entries) != len(ids) {
		t.Errorf("%d files for %d sources", len(entries), len(ids))
	}
	lower := map[string]bool{}
	for _, e := range entries {
		if lower[strings.ToLower(e.Name())] {
			t.Errorf("%s: shares its name where case does not count", e.Name())
		}
		lower[strings.ToLower(e.Name())] = true
		if len(e.Name()) > 120 || strings.HasPrefix(e.Name(), ".") || strings.ContainsAny(e.Name(), `/\:*?"<>|`) {
			t.Errorf("%s: not a name for every file system", e.Name())
		}
	}
}

// faults: F109
func TestNothingIsWrittenBeforeTheFirstSave(t *testing.T) {
	s := newStore(t)
	if _, _, err := s.Load(t.Context(), "a"); !errors.Is(err, datasource.ErrMissing) || errors.Is(err, ErrCorrupt) {
		t.Errorf("Load: %v, want ErrMissing", err)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
	must(t, s.Save(t.Context(), "a", present("x")))
	for path, want := range map[string]fs.FileMode{s.dir: 0o700 | fs.ModeDir, s.path("a"): 0o600} {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
	if _, _, err := s.Load(t.Context(), "b"); !errors.Is(err, datasource.ErrMissing) {
		t.Errorf("another source: %v, want ErrMissing", err)
	}
}

// faults: F167 F168
func TestDamagedFileIsNeverLoaded(t *testing.T) {
	s := newStore(t)
	must(t, s.Save(t.Context(), "a", present(`[{"resource":"a"}]`)))
	must(t, s.Save(t.Context(), "b", present(`[]`)))
	good, err := os.ReadFile(s.path("a"))
	must(t, err)
	other, err := os.ReadFile(s.path("b"))
	must(t, err)

	check := func(name string, file []byte) {
		t.Helper()
		must(t, os.WriteFile(s.path("a"), file, 0o600))
		if doc, _, err := s.Load(t.Context(), "a"); !errors.Is(err, ErrCorrupt) || errors.Is(err, datasource.ErrMissing) || doc.Presence != datasource.Unknown {
			t.Errorf("%s: loaded %+v, %v; want ErrCorrupt", name, doc, err)
		}
	}
	for n := range good {
		check(fmt.Sprintf("cut at %d", n), good[:n])
		flipped := bytes.Clone(good)
		flipped[n] ^= 0x20
		check(fmt.Sprintf("bit flipped at %d", n), flipped)
	}
	check("longer", append(bytes.Clone(good), '\n'))
	check("of another source", other)
	check("foreign", []byte(`{"a":1}`))
	check("later format", bytes.Replace(good, []byte("snapshot 1"), []byte("snapshot 2"), 1))
	seal := func(body string) []byte { return []byte(magic + checksum([]byte(body)) + "\n" + body) }
	check("no header", seal("x"))
	check("header not JSON", seal("x\n"))
	check("presence", seal(`{"id":"a","presence":"hint","bytes":0}`+"\n"))
	check("missing with bytes", seal(`{"id":"a","presence":"missing","bytes":1}`+"\nx"))
	check("bytes short", seal(`{"id":"a","presence":"present","bytes":2}`+"\nx"))

	must(t, os.Remove(s.path("a")))
	must(t, os.Mkdir(s.path("a"), 0o700))
	if _, _, err := s.Load(t.Context(), "a"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("folder: %v, want ErrCorrupt", err)
	}
	if err := s.Save(t.Context(), "a", present("x")); err == nil {
		t.Error("saved over a folder")
	}
	wantLoaded(t, s, "b", present("[]"))
}

// faults: F056
func TestTooLargeIsNeitherSavedNorLoaded(t *testing.T) {
	s := newStore(t, MaxBytes(4))
	must(t, s.Save(t.Context(), "a", present("1234")))
	if err := s.Save(t.Context(), "a", present("12345")); !errors.Is(err, datasource.ErrTooLarge) {
		t.Errorf("Save: %v, want ErrTooLarge", err)
	}
	wantLoaded(t, s, "a", present("1234"))
	must(t, os.WriteFile(s.path("a"), make([]byte, maxHead+5), 0o600))
	if _, _, err := s.Load(t.Context(), "a"); !errors.Is(err, datasource.ErrTooLarge) {
		t.Errorf("Load: %v, want ErrTooLarge", err)
	}
}

// faults: F176
func TestWhatIsNoDocumentIsRefused(t *testing.T) {
	s := newStore(t)
	if err := s.Save(t.Context(), "a", datasource.Hint()); err == nil {
		t.Error("a hint was saved")
	}
	if err := s.Save(t.Context(), "a", datasource.Document{Presence: datasource.Missing, Data: []byte("x")}); err == nil {
		t.Error("a missing document with bytes was saved")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Save(ctx, "a", present("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Save: %v, want the context's", err)
	}
	if _, _, err := s.Load(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Load: %v, want the context's", err)
	}
	for name, make := range map[string]func() (*Store, error){
		"no folder": func() (*Store, error) { return Dir("") },
		"NUL":       func() (*Store, error) { return Dir("a\x00") },
		"size":      func() (*Store, error) { return Dir("a", MaxBytes(0)) },
	} {
		if _, err := make(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused save made the folder: %v", err)
	}
}

// faults: F168
func TestSavesAtOnceLeaveOneWholeSnapshot(t *testing.T) {
	s := newStore(t)
	must(t, s.Save(t.Context(), "a", present("0")))
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for range 10 {
				if err := s.Save(t.Context(), "a", present(strings.Repeat(fmt.Sprint(w), 10_000))); err != nil {
					t.Error(err)
				}
				if _, _, err := s.Load(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	doc, _, err := s.Load(t.Context(), "a")
	must(t, err)
	if len(doc.Data) != 10_000 || bytes.Count(doc.Data, doc.Data[:1]) != 10_000 {
		t.Errorf("a mixture of %d bytes", len(doc.Data))
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 1 {
		t.Errorf("folder holds %v, %v, want one file", entries, err)
	}
}

// store is one that is down until it is given a document.
type store struct {
	mu  sync.Mutex
	doc datasource.Document
}

var errDown = errors.New("connection refused")

func (s *store) ID() string { return "test:/rules/flow" }

func (s *store) Read(context.Context) (datasource.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doc.Presence == datasource.Unknown {
		return datasource.Document{}, errDown
	}
	return s.doc, nil
}

func (s *store) set(doc datasource.Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doc = doc
}

func readable(t *testing.T, src datasource.Source, s *Store) *datasource.Readable[rule.Flow] {
	t.Helper()
	nobody := property.ListenerFunc[[]rule.Flow](func(context.Context, []rule.Flow) error { return nil })
	r, err := datasource.New(src, converter.JSON[rule.Flow](), nobody, datasource.Logger(nil),
		datasource.Snapshots(s), datasource.OnStart(datasource.Snapshot))
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

const (
	oneRule  = `[{"resource":"a","count":1,"grade":1}]`
	twoRules = `[{"resource":"a","count":1,"grade":1},{"resource":"b","count":1,"grade":1}]`
)

// faults: F166 F170 F169
func TestStartWithTheStoreDownUsesTheSnapshotAndSaysSo(t *testing.T) {
	s := newStore(t)
	src := &store{}
	src.set(present(oneRule))
	first := readable(t, src, s)
	must(t, first.Start(t.Context()))
	must(t, first.Refresh(t.Context())) // the snapshot of the start is saved by now
	must(t, first.Close())

	src.set(datasource.Document{}) // E13: down
	r := readable(t, src, s)
	must(t, r.Start(t.Context()))
	st := r.Status()
	if st.State != datasource.StateStale || st.Rules != 1 || st.SnapshotSaved.IsZero() {
		t.Errorf("down: state %v, %d rules, snapshot of %v", st.State, st.Rules, st.SnapshotSaved)
	}
	src.set(present(twoRules)) // and up
	must(t, r.Refresh(t.Context()))
	st = r.Status()
	if st.State != datasource.StateLive || st.Rules != 2 || !st.SnapshotSaved.IsZero() {
		t.Errorf("up: state %v, %d rules, snapshot of %v", st.State, st.Rules, st.SnapshotSaved)
	}
	must(t, r.Close())
	wantLoaded(t, s, src.ID(), present(twoRules))
}

// faults: F167 F168
func TestCorruptSnapshotIsNoStartAndNoHarm(t *testing.T) {
	s := newStore(t)
	src := &store{}
	must(t, s.Save(t.Context(), src.ID(), present(oneRule)))
	must(t, os.WriteFile(s.path(src.ID()), []byte(oneRule), 0o600))
	if err := readable(t, src, s).Start(t.Context()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Start: %v, want ErrCorrupt", err)
	}
	src.set(present(oneRule))
	r := readable(t, src, s)
	must(t, r.Start(t.Context()))
	must(t, r.Refresh(t.Context())) // the snapshot of the start is saved by now
	if st := r.Status(); st.State != datasource.StateLive || st.SnapshotError != nil {
		t.Errorf("state %v, snapshot error %v", st.State, st.SnapshotError)
	}
	wantLoaded(t, s, src.ID(), present(oneRule))
}

// faults: F167
func TestFolderThatCanNotBeWrittenFailsNoGoodRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	s, err := Dir(filepath.Join(file, "snapshots"))
	must(t, err)
	src := &store{}
	src.set(present(oneRule))
	r := readable(t, src, s)
	must(t, r.Start(t.Context()))
	must(t, r.Refresh(t.Context())) // the snapshot of the start is saved by now
	if st := r.Status(); st.State != datasource.StateLive || st.SnapshotError == nil {
		t.Errorf("state %v, snapshot error %v", st.State, st.SnapshotError)
	}
}

// FuzzParse gives the reader any file: it loads what Save wrote and nothing else.
//
// faults: F168 F167
func FuzzParse(f *testing.F) {
	f.Add([]byte(magic), "a")
	f.Add([]byte("x\n"), "file:/a\xff")
	f.Fuzz(func(t *testing.T, file []byte, id string) {
		// Any bytes behind a right checksum: a file that another program made, not one that was damaged.
		sealed := append([]byte(magic+checksum(file)+"\n"), file...)
		for _, f := range [][]byte{file, sealed} {
			doc, _, err := parse(f, id)
			switch {
			case err != nil && (!errors.Is(err, ErrCorrupt) || doc.Presence != datasource.Unknown):
				t.Errorf("gave %+v and %v", doc, err)
			case err == nil && doc.Presence != datasource.Present && doc.Presence != datasource.Missing:
				t.Errorf("gave %+v", doc)
			}
		}
	})
}
