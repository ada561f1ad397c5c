package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// script is a disk with one name on it, whose file changes at set times of the bubble's clock.
type script struct {
	mu    sync.Mutex
	start time.Time
	steps []step
	// tick is the grain of the file system's clock.
	tick time.Duration
	// chunk is how many bytes a read gives at a time, and pause how long each takes: a slow disk gives torn reads.
	chunk int
	pause time.Duration

	// opening happens between the look at the file and its opening.
	opening func(*script)

	node    *node // nil: no file
	lastIno uint64
	due     time.Time // of the step under way
}

type step struct {
	at time.Duration
	do func(*script)
}

type node struct {
	ino               uint64
	data              []byte
	modified, changed int64
}

func newScript() *script { return &script{start: time.Now(), chunk: 1 << 20} }

// at plans a step at d after the start, and in one at d from now; steps are planned in order.
func (s *script) at(d time.Duration, do func(*script)) { s.steps = append(s.steps, step{d, do}) }
func (s *script) in(d time.Duration, do func(*script)) { s.at(time.Since(s.start)+d, do) }

// catchUp carries out what is due, with the stamps of when it was due: nobody looked in between.
func (s *script) catchUp() {
	for len(s.steps) > 0 && time.Since(s.start) >= s.steps[0].at {
		st := s.steps[0]
		s.steps = s.steps[1:]
		s.due = s.start.Add(st.at)
		st.do(s)
		s.due = time.Time{}
	}
}

func (s *script) clock() int64 {
	now := s.due
	if now.IsZero() {
		now = time.Now()
	}
	stamp := now.UnixNano()
	if s.tick > 0 {
		stamp -= stamp % int64(s.tick)
	}
	return stamp
}

func (s *script) create(data string) {
	s.lastIno++
	s.node = &node{ino: s.lastIno, data: []byte(data), modified: s.clock(), changed: s.clock()}
}

func (s *script) truncate() {
	if s.node == nil {
		s.create("")
		return
	}
	s.node.data = nil
	s.node.modified, s.node.changed = s.clock(), s.clock()
}

func (s *script) append(data string) {
	s.node.data = append(slices.Clip(s.node.data), data...)
	s.node.modified, s.node.changed = s.clock(), s.clock()
}

// rename puts a file in place that was finished some time ago.
func (s *script) rename(data string, age time.Duration) {
	s.create(data)
	s.node.modified -= int64(age)
}

func (s *script) remove() { s.node = nil }

// do changes the file now, while a source watches it.
func (s *script) do(change func(*script)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *script) stat(string) (ident, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUp()
	return s.node.ident(), nil
}

func (n *node) ident() ident {
	if n == nil {
		return ident{}
	}
	return ident{exists: true, dev: 1, ino: n.ino, size: int64(len(n.data)), modified: n.modified, changed: n.changed}
}

func (s *script) open(string) (handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUp()
	if s.opening != nil {
		s.opening(s)
		s.opening = nil
	}
	if s.node == nil {
		return nil, fs.ErrNotExist
	}
	return &scriptFile{s: s, node: s.node}, nil
}

type scriptFile struct {
	s    *script
	node *node
	off  int
}

func (f *scriptFile) stat() (ident, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.catchUp()
	return f.node.ident(), nil
}

func (f *scriptFile) Read(p []byte) (int, error) {
	defer time.Sleep(f.s.pause)
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.catchUp()
	if f.off >= len(f.node.data) {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), f.s.chunk)], f.node.data[f.off:])
	f.off += n
	return n, nil
}

func (*scriptFile) Close() error { return nil }

func scripted(t *testing.T, s *script, opts ...SourceOption) *Source {
	t.Helper()
	src, err := newSource(s, "/rules/flow.json", append([]SourceOption{PollOnly()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func read(t *testing.T, src *Source) datasource.Document {
	t.Helper()
	doc, err := src.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// timed gives the document and how long the read took on the bubble's clock.
func timed(t *testing.T, src *Source) (datasource.Document, time.Duration) {
	t.Helper()
	start := time.Now()
	doc := read(t, src)
	return doc, time.Since(start)
}

func wantDoc(t *testing.T, doc datasource.Document, presence datasource.Presence, data string) {
	t.Helper()
	if doc.Presence != presence || string(doc.Data) != data {
		t.Errorf("read %v %q, want %v %q", doc.Presence, doc.Data, presence, data)
	}
}

const (
	present = datasource.Present
	missing = datasource.Missing
)

// faults: F001
func TestTruncateAndWriteBackIsOneDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create("v1")
		src := scripted(t, s)
		wantDoc(t, read(t, src), present, "v1")
		time.Sleep(time.Hour)
		s.truncate()
		s.in(400*time.Millisecond, func(s *script) { s.append("v2") })
		doc, took := timed(t, src)
		wantDoc(t, doc, present, "v2")
		if most := 400*time.Millisecond + 2*DefaultSettle; took > most {
			t.Errorf("took %v, want at most %v", took, most)
		}
	})
}

// faults: F001 F029
func TestTruncateThatStaysIsReportedAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create("v1")
		src := scripted(t, s)
		read(t, src)
		time.Sleep(time.Hour)
		s.truncate()
		// E2: the writer sleeps for longer than anyone waits.
		s.in(4*time.Second, func(s *script) { s.append("v2") })
		doc, took := timed(t, src)
		wantDoc(t, doc, present, "")
		if took != DefaultGrace {
			t.Errorf("took %v, want the grace period %v", took, DefaultGrace)
		}
		if doc.Revision == "" {
			t.Error("an empty file has no revision, and looks absent to a sink")
		}
		if _, took := timed(t, src); took != 0 {
			t.Errorf("the second read of the same empty file took %v, want 0", took)
		}
		time.Sleep(4 * time.Second)
		wantDoc(t, read(t, src), present, "v2")
	})
}

// faults: F002 F014
func TestRemovedFileGetsTheGraceToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create("v1")
		src := scripted(t, s)
		read(t, src)
		time.Sleep(time.Hour)
		s.remove()
		s.in(900*time.Millisecond, func(s *script) { s.rename("v2", time.Second) })
		doc, took := timed(t, src)
		wantDoc(t, doc, present, "v2")
		if took < 900*time.Millisecond || took > DefaultGrace {
			t.Errorf("took %v, want just over 900ms", took)
		}
		s.remove()
		doc, took = timed(t, src)
		wantDoc(t, doc, missing, "")
		if took != DefaultGrace {
			t.Errorf("a remove took %v, want the grace period %v", took, DefaultGrace)
		}
		if _, took := timed(t, src); took != 0 {
			t.Errorf("the second read of a missing file took %v, want 0", took)
		}
	})
}

// faults: F096
func TestFileThatWasNeverThereIsMissingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		doc, took := timed(t, scripted(t, newScript()))
		wantDoc(t, doc, missing, "")
		if took != 0 {
			t.Errorf("took %v, want 0", took)
		}
	})
}

// faults: F092 F108
func TestRenamedFileIsReadAtOnceAndOneWrittenInPlaceRests(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*script)
		min, max time.Duration
	}{
		"rename, written a moment before": {func(s *script) { s.rename("v2", 20*time.Millisecond) }, 0, 0},
		"rename within a tick":            {func(s *script) { s.rename("v2", 0) }, 1, 10 * time.Millisecond},
		"in place":                        {func(s *script) { s.truncate(); s.append("v2") }, DefaultSettle, DefaultSettle},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript()
				s.create("v1")
				src := scripted(t, s)
				read(t, src)
				time.Sleep(time.Hour)
				c.change(s)
				doc, took := timed(t, src)
				wantDoc(t, doc, present, "v2")
				if took < c.min || took > c.max {
					t.Errorf("took %v, want %v to %v", took, c.min, c.max)
				}
			})
		})
	}
}

// faults: F108
func TestHalfWrittenFileIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create("v1")
		src := scripted(t, s)
		read(t, src)
		time.Sleep(time.Hour)
		s.truncate()
		for i := range 10 {
			s.in(time.Duration(i+1)*40*time.Millisecond, func(s *script) { s.append(fmt.Sprint(i)) })
		}
		wantDoc(t, read(t, src), present, "0123456789")
	})
}

// faults: F108
func TestFileThatChangesDuringTheReadIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create("aaaaaaaaaa")
		time.Sleep(time.Hour) // long finished: no settling
		s.chunk, s.pause = 1, time.Millisecond
		src := scripted(t, s)
		s.in(5*time.Millisecond, func(s *script) { s.truncate(); s.append("bbbbbbbbbb") })
		wantDoc(t, read(t, src), present, "bbbbbbbbbb")
	})
}

// faults: F108
func TestFileThatIsExchangedBeforeTheOpenIsLookedAtAgain(t *testing.T) {
	for name, opening := range map[string]func(*script){
		"another file, half written": func(s *script) { s.create("v") },
		"truncated":                  func(s *script) { s.truncate(); s.append("v") },
		"longer":                     func(s *script) { s.truncate(); s.append("v2, ha") },
		"removed":                    func(s *script) { s.remove(); s.in(1, func(s *script) { s.create("v") }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript()
				s.create("v1")
				time.Sleep(time.Hour)
				src := scripted(t, s)
				s.opening = func(s *script) {
					opening(s)
					s.in(4*time.Millisecond, func(s *script) { s.append(", done") })
				}
				if doc := read(t, src); !strings.HasSuffix(string(doc.Data), ", done") {
					t.Errorf("read %q, a half", doc.Data)
				}
			})
		})
	}
}

// faults: F108 F014
func TestFileMadeAnewIsGivenTimeAsOneWrittenInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create("v1")
		time.Sleep(time.Hour)
		src := scripted(t, s)
		read(t, src)
		s.remove()
		s.in(100*time.Millisecond, func(s *script) { s.create("") })
		s.in(140*time.Millisecond, func(s *script) { s.append("v") })
		s.in(180*time.Millisecond, func(s *script) { s.append("2") })
		wantDoc(t, read(t, src), present, "v2")
	})
}

// faults: F108
func TestFileThatNeverRestsIsAnErrorWithinTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create("v1")
		src := scripted(t, s)
		read(t, src)
		time.Sleep(time.Hour)
		for i := range 300 {
			s.in(time.Duration(i)*10*time.Millisecond, func(s *script) { s.append("x") })
		}
		start := time.Now()
		_, err := src.Read(t.Context())
		if !errors.Is(err, ErrUnsettled) {
			t.Errorf("err = %v, want ErrUnsettled", err)
		}
		if took := time.Since(start); took > DefaultGrace {
			t.Errorf("took %v, want at most %v", took, DefaultGrace)
		}
	})
}

// faults: F108
func TestReadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.create("v1")
		src := scripted(t, s)
		read(t, src)
		s.remove()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := src.Read(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want the context's", err)
		}
		if took := time.Since(start); took != 200*time.Millisecond {
			t.Errorf("took %v, want 200ms", took)
		}
	})
}

// FuzzSettle lets a writer save as it likes and a reader read as it likes. Whatever the times, the reader gets only
// what was once a finished save, is never kept longer than the grace period, and has the last save in the end.
//
// faults: F001 F002 F108 F158
func FuzzSettle(f *testing.F) {
	f.Add([]byte{0, 0, 3, 10, 20, 30, 40, 50})
	f.Add([]byte{1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})
	f.Add([]byte{2, 2, 200, 1, 100, 3, 50, 0, 7, 9, 250, 4, 4, 4, 1})
	f.Add([]byte{3, 3, 255, 0, 255, 2, 255, 1, 0, 2, 0, 3, 0, 0, 0, 1, 9})
	f.Add(bytes.Repeat([]byte{4, 47, 13}, 12))
	f.Fuzz(func(t *testing.T, plan []byte) {
		if len(plan) > 64 {
			return
		}
		synctest.Test(t, func(t *testing.T) { settleAny(t, plan) })
	})
}

func settleAny(t *testing.T, plan []byte) {
	next := func() int {
		if len(plan) == 0 {
			return 0
		}
		b := plan[0]
		plan = plan[1:]
		return int(b)
	}
	s := newScript()
	flags := next()
	inPlaceOnly := flags&1 != 0
	s.tick = time.Duration(flags>>1&1) * 4 * time.Millisecond
	s.chunk = 1 + flags>>2&7
	s.pause = time.Duration(flags>>5) * 100 * time.Microsecond
	// A save in place pauses for less than the file must rest: that is all that a reader can tell a pause from an end
	// by. Behind a rename the rest is a tenth.
	gaps := int(DefaultSettle / time.Millisecond)
	if !inPlaceOnly {
		gaps /= 10
	}

	finished := map[string]bool{}
	final, finalThere := "", false
	now := time.Duration(0)
	there := false
	chunks := func(name string) {
		for i := range 1 + next()%4 {
			now += time.Duration(next()%gaps) * time.Millisecond
			part := fmt.Sprintf("<%s.%d>", name, i)
			s.at(now, func(s *script) { s.append(part) })
			final += part
		}
	}
	for i := 0; len(plan) > 0; i++ {
		name := fmt.Sprint(i)
		now += time.Duration(next()*3) * time.Millisecond
		kind := next() % 4
		if inPlaceOnly {
			kind = 0
		}
		switch kind {
		case 0: // shell redirection, many editors
			s.at(now, func(s *script) { s.truncate() })
			final = ""
			chunks(name)
			there = true
		case 1: // atomic replace
			final, there = "<"+name+">", true
			age := time.Duration(next()%3) * 5 * time.Millisecond
			s.at(now, func(s *script) { s.rename("<"+name+">", age) })
		case 2: // remove, then write anew
			s.at(now, func(s *script) { s.remove() })
			now += time.Duration(next()) * time.Millisecond
			s.at(now, func(s *script) { s.create("") })
			final = ""
			chunks(name)
			there = true
		case 3:
			s.at(now, func(s *script) { s.remove() })
			final, there = "", false
		}
		if finalThere = there; there {
			finished[final] = true
		}
	}

	src := scripted(t, s)
	check := func() (datasource.Document, error) {
		start := time.Now()
		doc, err := src.Read(t.Context())
		// The last read may run over the bound by its own length.
		if took := time.Since(start); took > DefaultGrace+500*s.pause {
			t.Fatalf("read took %v, bound is %v", took, DefaultGrace)
		}
		switch {
		case err != nil:
			if !errors.Is(err, ErrUnsettled) {
				t.Fatalf("err = %v, want ErrUnsettled", err)
			}
		case doc.Presence == missing:
			if s.node != nil {
				t.Fatalf("read missing while the file held %q", s.node.data)
			}
		case !finished[string(doc.Data)]:
			t.Fatalf("read %q, which no save ended with", doc.Data)
		}
		return doc, err
	}
	pauses := []time.Duration{0, 7 * time.Millisecond, 61 * time.Millisecond, 3 * time.Second}
	for i := flags; time.Since(s.start) <= now; i++ {
		_, _ = check()
		time.Sleep(pauses[i%len(pauses)] + time.Millisecond)
	}
	time.Sleep(DefaultSettle)
	doc, err := check()
	if err != nil {
		t.Fatalf("the writer rests, and still: %v", err)
	}
	if got := doc.Presence == present; got != finalThere || string(doc.Data) != final {
		t.Fatalf("in the end %v %q, want present=%v %q", doc.Presence, doc.Data, finalThere, final)
	}
}
