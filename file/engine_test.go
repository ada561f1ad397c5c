package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// rules is a document of one flow rule per resource.
func rules(resources ...string) string {
	var all []string
	for _, r := range resources {
		all = append(all, fmt.Sprintf(`{"resource":%q,"count":5,"grade":1}`, r))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// applied records what came into force, as "a b" for the resources a and b.
type applied struct {
	mu   sync.Mutex
	all  []string
	news chan string
}

func (a *applied) OnUpdate(_ context.Context, flow []rule.Flow) error {
	var names []string
	for _, r := range flow {
		names = append(names, r.Resource)
	}
	a.mu.Lock()
	a.all = append(a.all, strings.Join(names, " "))
	a.mu.Unlock()
	if a.news != nil {
		a.news <- strings.Join(names, " ")
	}
	return nil
}

func (a *applied) want(t *testing.T, want ...string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.all, want) {
		t.Errorf("in force were %q, want %q", a.all, want)
	}
}

func started(t *testing.T, src datasource.Source, l property.Listener[[]rule.Flow], opts ...datasource.Option) *datasource.Readable[rule.Flow] {
	t.Helper()
	r, err := datasource.New(src, converter.JSON[rule.Flow](), l, append(opts, datasource.Logger(nil))...)
	must(t, err)
	must(t, r.Start(t.Context()))
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

// faults: F001 F029
func TestSlowTruncateKeepsTheRulesUntilTheSecondWriteLands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // E2
		s := newScript()
		s.create(rules("a", "b"))
		var a applied
		r := started(t, scripted(t, s), &a)
		time.Sleep(time.Minute)
		s.do((*script).truncate)
		time.Sleep(4 * time.Second)
		if st := r.Status(); st.Rules != 2 || st.Cause != datasource.CauseEmpty {
			t.Errorf("%d rules in force, cause %q, want 2 and empty", st.Rules, st.Cause)
		}
		s.do(func(s *script) { s.append(rules("c")) })
		time.Sleep(DefaultInterval + time.Second)
		a.want(t, "a b", "c")
		if st := r.Status(); st.State != datasource.StateLive {
			t.Errorf("state %v, %v", st.State, st.LastError)
		}
		must(t, r.Close())
	})
}

// faults: F014 F002
func TestRemovedFileKeepsTheRulesAndComesBackWithinAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create(rules("a"))
		var a applied
		r := started(t, scripted(t, s), &a)
		time.Sleep(time.Minute)
		s.do((*script).remove)
		time.Sleep(10 * time.Second)
		if st := r.Status(); st.Rules != 1 || st.Cause != datasource.CauseMissing {
			t.Errorf("%d rules in force, cause %q, want 1 and missing", st.Rules, st.Cause)
		}
		s.do(func(s *script) { s.rename(rules("b"), time.Second) })
		time.Sleep(DefaultInterval + DefaultGrace)
		a.want(t, "a", "b")
		must(t, r.Close())
	})
}

// faults: F108
func TestHalfOfADocumentNeverGetsInHoweverSlowTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create(rules("a"))
		var a applied
		r := started(t, scripted(t, s), &a)
		time.Sleep(time.Minute)
		s.do((*script).truncate)
		for _, part := range strings.SplitAfter(rules("b", "c", "d"), "},") {
			s.do(func(s *script) { s.append(part) })
			time.Sleep(30 * time.Second) // far longer than anyone waits
		}
		a.want(t, "a", "b c d")
		must(t, r.Close())
	})
}

// faults: F096 F018 F093
func TestStartWithoutAFileThenCreateIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		var a applied
		r := started(t, scripted(t, s), &a, datasource.OnStart(datasource.Empty))
		time.Sleep(time.Minute)
		s.do(func(s *script) { s.create(rules("a")) })
		time.Sleep(DefaultInterval + DefaultSettle)
		a.want(t, "a")
		must(t, r.Close())
	})
}

// faults: F105
func TestIdleSourceReadsNothingBetweenRelists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create(rules("a"))
		time.Sleep(time.Hour)
		r := started(t, scripted(t, s), &applied{}, datasource.Relist(time.Hour))
		synctest.Wait()
		before := r.Status().Counts.Reads
		time.Sleep(30 * time.Minute)
		if n := r.Status().Counts.Reads - before; n != 0 {
			t.Errorf("%d reads of a file that did not change, want 0", n)
		}
		must(t, r.Close())
	})
}

// faults: F002 F101 F122 F163
func TestSavesSwapsAndWritesEachComeIntoForceOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "flow.json")
	write(t, path, rules("v0"))
	a := &applied{news: make(chan string, 100)}
	r := started(t, newFileSource(t, path), a)
	next := func(want string) {
		t.Helper()
		select {
		case got := <-a.news:
			if got != want {
				t.Fatalf("%q came into force, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("%q did not come into force: %+v", want, r.Status())
		}
	}
	next("v0")
	want := []string{"v0"}
	for i := range 3 { // E1
		v := fmt.Sprintf("save%d", i)
		replace(t, path, rules(v))
		next(v)
		want = append(want, v)
	}
	sink := newFileSink(t, path)
	doc, err := sink.Read(t.Context())
	must(t, err)
	stored(t, sink, rules("sink"), doc.Revision)
	next("sink")
	a.want(t, append(want, "sink")...)

	c := &configMap{dir: filepath.Join(dir, "mounted")} // E3
	must(t, os.Mkdir(c.dir, 0o700))
	must(t, c.swap(rules("map0")))
	a = &applied{news: make(chan string, 100)}
	r = started(t, newFileSource(t, filepath.Join(c.dir, "flow.json")), a)
	next("map0")
	for _, v := range []string{"map1", "map2"} {
		must(t, c.swap(rules(v)))
		next(v)
	}
	a.want(t, "map0", "map1", "map2")
}

// faults: F145 F147 F088
func TestCloseAtAnyMomentLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.json")
	write(t, path, rules("a"))
	n := NewNotifier()
	before := runtime.NumGoroutine()
	for range 20 {
		r, err := datasource.New(newFileSource(t, path, WithNotifier(n)), converter.JSON[rule.Flow](), &applied{}, datasource.Logger(nil))
		must(t, err)
		must(t, r.Start(t.Context()))
		replace(t, path, rules("a", "b"))
		start := time.Now()
		must(t, r.Close())
		if took := time.Since(start); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		must(t, r.Close())
	}
	must(t, n.Close())
	wantGoroutines(t, before)
}

// BenchmarkWriteToListener measures from the start of an atomic replace to the listener.
func BenchmarkWriteToListener(b *testing.B) {
	path := filepath.Join(b.TempDir(), "flow.json")
	a := &applied{news: make(chan string, 1)}
	sink, err := NewSink(path)
	if err != nil {
		b.Fatal(err)
	}
	doc, err := sink.Write(b.Context(), []byte(rules("start")), writable.Absent)
	if err != nil {
		b.Fatal(err)
	}
	src, err := NewSource(path)
	if err != nil {
		b.Fatal(err)
	}
	r, err := datasource.New(src, converter.JSON[rule.Flow](), a, datasource.Logger(nil))
	if err != nil {
		b.Fatal(err)
	}
	if err := r.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	<-a.news
	for r.Status().Counts.Hints == 0 { // the watch is in place
		runtime.Gosched()
	}
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		if doc, err = sink.Write(b.Context(), []byte(rules(fmt.Sprint("r", i))), doc.Revision); err != nil {
			b.Fatal(err)
		}
		<-a.news
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}
