package datasourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

// brokenDriver names the driver with a mistake that TestBrokenDriver plays the suite with.
const brokenDriver = "RULEWIRE_BROKEN_DRIVER"

type (
	readFunc    func(ctx context.Context) (datasource.Document, error)
	watchFunc   func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error
	writeFunc   func(ctx context.Context, data []byte, expected string) (datasource.Document, error)
	deliverFunc = func(datasource.Document)
)

// wrapped is the reference store's source with parts of it replaced.
type wrapped struct {
	datasource.Source
	read  readFunc
	watch watchFunc
}

func (w wrapped) Read(ctx context.Context) (datasource.Document, error) { return w.read(ctx) }

type wrappedWatcher struct{ wrapped }

func (w wrappedWatcher) Watch(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
	return w.watch(ctx, last, deliver)
}

type wrappedSink struct {
	writable.Sink
	write writeFunc
}

func (w wrappedSink) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	return w.write(ctx, data, expected)
}

// mistake is one way to get a driver wrong, and the case that must notice.
type mistake struct {
	name    string
	caught  string
	flavour Flavour
	// source and sink put the mistake into the parts of a good driver.
	source func(h *StoreHarness, w *wrapped)
	sink   func(h *StoreHarness, w *wrappedSink)
}

// mistaken is the harness of a driver with a mistake.
type mistaken struct {
	*StoreHarness
	mistake mistake
}

func (h mistaken) Source() (datasource.Source, error) {
	src := h.Store.Source(storeKey, h.Flavour)
	w := wrapped{Source: src, read: src.Read}
	watcher, pushes := src.(datasource.Watcher)
	if pushes {
		w.watch = watcher.Watch
	}
	if h.mistake.source != nil {
		h.mistake.source(h.StoreHarness, &w)
	}
	if w.watch != nil {
		return wrappedWatcher{w}, nil
	}
	return w, nil
}

func (h mistaken) Sink() (writable.Sink, error) {
	s := h.Store.Sink(storeKey, h.Flavour)
	w := wrappedSink{Sink: s, write: s.Write}
	if h.mistake.sink != nil {
		h.mistake.sink(h.StoreHarness, &w)
	}
	return w, nil
}

// onDelivery changes what the good watch delivers.
func onDelivery(change func(doc datasource.Document, deliver deliverFunc)) func(*StoreHarness, *wrapped) {
	return func(_ *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			return good(ctx, last, func(doc datasource.Document) { change(doc, deliver) })
		}
	}
}

// onRead changes what the good read answers.
func onRead(change func(datasource.Document, error) (datasource.Document, error)) func(*StoreHarness, *wrapped) {
	return func(_ *StoreHarness, w *wrapped) {
		good := w.read
		w.read = func(ctx context.Context) (datasource.Document, error) { return change(good(ctx)) }
	}
}

// ownWatch is a watch written anew on the store's streams: from says where it begins, and each batch goes to take.
func ownWatch(from func(datasource.Document) uint64, take func(*source, batch, deliverFunc)) func(*StoreHarness, *wrapped) {
	return func(h *StoreHarness, w *wrapped) {
		src := w.Source.(pushed).source
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			st, _, err := h.Store.watch(ctx, storeKey, from(last))
			if err != nil {
				return err
			}
			defer st.close()
			for {
				b, err := st.next(ctx)
				if err != nil {
					return err
				}
				take(src, b, deliver)
			}
		}
	}
}

func hand(src *source, b batch, deliver deliverFunc) { deliver(src.document(b.final())) }

func after(last datasource.Document) uint64 { return last.Order + 1 }

var mistakes = []mistake{
	{name: "constructor reads", caught: "Constructor/NoIO", source: func(_ *StoreHarness, w *wrapped) {
		_, _ = w.read(context.Background())
	}},
	{name: "client is closed by a source that ends", caught: "Constructor/Borrows", source: func(h *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			defer func() { _ = h.Store.Close() }()
			return good(ctx, last, deliver)
		}
	}},
	{name: "missing is read as empty", caught: "Read/Missing", flavour: Pulled, source: onRead(func(doc datasource.Document, err error) (datasource.Document, error) {
		if err == nil {
			doc.Presence = datasource.Present
		}
		return doc, err
	})},
	{name: "missing is read as an error", caught: "Read/Missing", flavour: Pulled, source: onRead(func(doc datasource.Document, err error) (datasource.Document, error) {
		if doc.Presence == datasource.Missing {
			err = errors.New("404")
		}
		return doc, err
	})},
	{name: "error is read as missing", caught: "Read/Broken", flavour: Pulled, source: onRead(func(doc datasource.Document, err error) (datasource.Document, error) {
		if errors.Is(err, ErrBroken) {
			return datasource.Document{Presence: datasource.Missing}, nil
		}
		return doc, err
	})},
	{name: "bytes are tidied up", caught: "Read/Bytes", flavour: Pulled, source: onRead(func(doc datasource.Document, err error) (datasource.Document, error) {
		doc.Data = bytes.TrimSpace(doc.Data)
		return doc, err
	})},
	{name: "one fixed buffer", caught: "Read/Large", flavour: Pulled, source: onRead(func(doc datasource.Document, err error) (datasource.Document, error) {
		doc.Data = doc.Data[:min(len(doc.Data), 64<<10)]
		return doc, err
	})},
	{name: "revision never changes", caught: "Read/Present", flavour: Hinted, source: onRead(func(doc datasource.Document, err error) (datasource.Document, error) {
		doc.Revision = "1"
		return doc, err
	})},
	{name: "reads come from a cache", caught: "Read/Fresh", flavour: Pulled, source: func(_ *StoreHarness, w *wrapped) {
		good := w.read
		var mu sync.Mutex
		var cached datasource.Document
		var filled time.Time
		w.read = func(ctx context.Context) (datasource.Document, error) {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(filled) < time.Second {
				return cached, nil
			}
			doc, err := good(ctx)
			if err == nil {
				cached, filled = doc, time.Now()
			}
			return doc, err
		}
	}},
	{name: "read ignores ctx", caught: "Read/Stalled", flavour: Pulled, source: func(_ *StoreHarness, w *wrapped) {
		good := w.read
		w.read = func(context.Context) (datasource.Document, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return good(ctx)
		}
	}},
	{name: "watch begins now", caught: "WatchJoins/Present", source: ownWatch(func(datasource.Document) uint64 { return fromNow }, hand)},
	{name: "watch begins now where the document was missing", caught: "WatchJoins/Missing", source: ownWatch(func(last datasource.Document) uint64 {
		if last.Presence == datasource.Missing {
			return fromNow
		}
		return after(last)
	}, hand)},
	{name: "no read after subscribing", caught: "WatchJoins/Present", flavour: Hinted, source: func(_ *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			first := true
			return good(ctx, last, func(doc datasource.Document) {
				if !first {
					deliver(doc)
				}
				first = false
			})
		}
	}},
	{name: "neighbours are watched too", caught: "WatchJoins/Neighbour", source: func(h *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			ctx, cancel := context.WithCancel(ctx)
			var mu sync.Mutex
			one := func(doc datasource.Document) {
				mu.Lock()
				defer mu.Unlock()
				deliver(doc)
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			other := h.Store.Source(storeKey+"-more", Pushed).(datasource.Watcher)
			wg.Go(func() { _ = other.Watch(ctx, last, one) })
			return good(ctx, last, one)
		}
	}},
	{name: "watch ignores ctx", caught: "WatchEnds/Cancelled", source: func(_ *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(_ context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			return good(ctx, last, deliver)
		}
	}},
	{name: "watch goes on after a cut, deaf", caught: "WatchEnds/Cut", source: func(_ *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			_ = good(ctx, last, deliver)
			<-ctx.Done()
			return ctx.Err()
		}
	}},
	{name: "watch loops on its own error", caught: "WatchEnds/OwnError", source: func(_ *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			for ctx.Err() == nil {
				_ = good(ctx, last, deliver)
				_ = wait(ctx, 10*time.Millisecond)
			}
			return ctx.Err()
		}
	}},
	{name: "compaction is skipped over", caught: "WatchEnds/Compacted", source: func(h *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			err := good(ctx, last, deliver)
			if errors.Is(err, ErrCompacted) {
				return good(ctx, datasource.Document{Order: h.Store.Revision()}, deliver)
			}
			return err
		}
	}},
	{name: "watch joins the revision of a quiet document", caught: "WatchEnds/CompactedWhileQuiet", source: ownWatch(after, hand)},
	{name: "falling revision is waited for", caught: "WatchEnds/Reset", source: ownWatch(after, func(src *source, b batch, deliver deliverFunc) {
		if b.revision > 25 { // what is left of the number before the restore
			hand(src, b, deliver)
		}
	})},
	{name: "older after newer", caught: "Order/Scrambled", source: ownWatch(after, hand)},
	{name: "callback blocks", caught: "Callback/Siblings", source: func(h *StoreHarness, w *wrapped) {
		// One event thread for all sources of the client, as ZooKeeper's has, and the first callback stays on it.
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			return good(ctx, last, func(doc datasource.Document) {
				thread := eventThread(h.Store)
				thread <- struct{}{}
				defer func() { <-thread }()
				deliver(doc)
				_ = wait(ctx, time.Minute)
			})
		}
	}},
	{name: "callback panics on a deletion", caught: "Callback/Nothing", source: onDelivery(func(doc datasource.Document, deliver deliverFunc) {
		if doc.Presence == datasource.Missing {
			panic("interface conversion: interface {} is nil, not string")
		}
		deliver(doc)
	})},
	{name: "callback decodes", caught: "Callback/AnyBytes", source: onDelivery(func(doc datasource.Document, deliver deliverFunc) {
		if bytes.HasPrefix(doc.Data, []byte("[{")) {
			deliver(doc)
		}
	})},
	{name: "callback after the end", caught: "Callback/Siblings", source: func(_ *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			err := good(ctx, last, deliver)
			time.AfterFunc(time.Millisecond, func() { deliver(datasource.Hint()) })
			return err
		}
	}},
	{name: "deletion is delivered as empty", caught: "Deletion/Deleted", source: onDelivery(func(doc datasource.Document, deliver deliverFunc) {
		doc.Presence = datasource.Present
		deliver(doc)
	})},
	{name: "deletion is not delivered", caught: "Deletion/Deleted", source: onDelivery(func(doc datasource.Document, deliver deliverFunc) {
		if doc.Presence == datasource.Present {
			deliver(doc)
		}
	})},
	{name: "busy polling", caught: "Idle/Present", source: func(_ *StoreHarness, w *wrapped) {
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			for wait(ctx, 100*time.Millisecond) == nil {
				doc, err := w.read(ctx)
				if err != nil {
					return err
				}
				if doc.Revision != last.Revision {
					last = doc
					deliver(doc)
				}
			}
			return ctx.Err()
		}
	}},
	{name: "missing is asked for again at once", caught: "Idle/Missing", source: func(_ *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			for last.Presence == datasource.Missing && wait(ctx, 100*time.Millisecond) == nil {
				doc, err := w.read(ctx)
				if err != nil {
					return err
				}
				if last = doc; doc.Presence == datasource.Present {
					deliver(doc)
				}
			}
			return good(ctx, last, deliver)
		}
	}},
	{name: "read repeats without backoff", caught: "ErrorStorm/Broken", flavour: Pulled, source: func(_ *StoreHarness, w *wrapped) {
		good := w.read
		w.read = func(ctx context.Context) (datasource.Document, error) {
			for {
				doc, err := good(ctx)
				if err == nil || wait(ctx, 50*time.Millisecond) != nil {
					return doc, err
				}
			}
		}
	}},
	{name: "refusal looks like any other failure", caught: "Read/Denied", flavour: Pulled, source: func(_ *StoreHarness, w *wrapped) {
		good := w.read
		w.read = func(ctx context.Context) (datasource.Document, error) {
			doc, err := good(ctx)
			if err != nil {
				err = fmt.Errorf("read: %v", err)
			}
			return doc, err
		}
	}},
	{name: "refusal is repeated without backoff", caught: "ErrorStorm/Denied", flavour: Pulled, source: func(_ *StoreHarness, w *wrapped) {
		good := w.read
		w.read = func(ctx context.Context) (datasource.Document, error) {
			doc, err := good(ctx)
			for errors.Is(err, ErrDenied) && wait(ctx, 50*time.Millisecond) == nil {
				doc, err = good(ctx)
			}
			return doc, err
		}
	}},
	{name: "goroutine is left", caught: "Close/Watching", source: func(_ *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			go func() { _ = wait(context.Background(), time.Hour) }()
			return good(ctx, last, deliver)
		}
	}},
	{name: "subscription is left", caught: "Close/Watching", source: func(h *StoreHarness, w *wrapped) {
		good := w.watch
		w.watch = func(ctx context.Context, last datasource.Document, deliver func(datasource.Document)) error {
			if _, _, err := h.Store.watch(ctx, storeKey, fromNow); err != nil {
				return err
			}
			return good(ctx, last, deliver)
		}
	}},
	{name: "close waits for the store", caught: "Close/Stalled", source: func(_ *StoreHarness, w *wrapped) {
		good := w.read
		w.read = func(context.Context) (datasource.Document, error) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			return good(ctx)
		}
	}},
	{name: "transaction is not folded", caught: "Sequence/E5DeletePut", source: ownWatch(after, func(src *source, b batch, deliver deliverFunc) {
		for _, op := range b.ops {
			hand(src, batch{b.revision, []Op{op}}, deliver)
			_ = wait(context.Background(), time.Millisecond)
		}
	})},

	{name: "sink overwrites", caught: "Sink/Conflict", sink: func(h *StoreHarness, w *wrappedSink) {
		w.write = func(ctx context.Context, data []byte, _ string) (datasource.Document, error) {
			h.Store.Put(storeKey, data)
			return w.Read(ctx)
		}
	}},
	{name: "sink creates over what is there", caught: "Sink/CreateTwice", sink: func(h *StoreHarness, w *wrappedSink) {
		good := w.write
		w.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
			if expected == writable.Absent {
				h.Store.Put(storeKey, data)
				return w.Read(ctx)
			}
			return good(ctx, data, expected)
		}
	}},
	{name: "sink checks, then writes", caught: "Sink/Writers", sink: func(h *StoreHarness, w *wrappedSink) {
		w.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
			now, err := w.Read(ctx)
			if err != nil {
				return now, err
			}
			if now.Presence == datasource.Present && now.Revision != expected || now.Presence == datasource.Missing && expected != writable.Absent {
				return now, datasource.ErrConflict
			}
			if err := wait(ctx, time.Millisecond); err != nil {
				return now, err
			}
			h.Store.Put(storeKey, data)
			return w.Read(ctx)
		}
	}},
	{name: "sink gives a revision of its own", caught: "Sink/ReadBack", sink: func(_ *StoreHarness, w *wrappedSink) {
		good := w.write
		w.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
			doc, err := good(ctx, data, strings.TrimPrefix(expected, "w"))
			doc.Revision = "w" + doc.Revision
			return doc, err
		}
	}},
	{name: "sink deletes before it writes", caught: "Sink/NoTornRead", sink: func(h *StoreHarness, w *wrappedSink) {
		good := w.write
		w.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
			if expected != writable.Absent {
				h.Store.Delete(storeKey)
				if err := wait(ctx, time.Millisecond); err != nil {
					return datasource.Document{}, err
				}
			}
			return good(ctx, data, writable.Absent)
		}
	}},
	{name: "sink takes a failed write for a good one", caught: "Sink/Broken", sink: func(_ *StoreHarness, w *wrappedSink) {
		good := w.write
		w.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
			doc, err := good(ctx, data, expected)
			if errors.Is(err, ErrBroken) {
				return datasource.Document{Presence: datasource.Present, Data: data, Revision: expected}, nil
			}
			return doc, err
		}
	}},
	{name: "sink of an editor checks, then writes", caught: "Edit/TwoWriters", sink: func(h *StoreHarness, w *wrappedSink) {
		w.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
			now, err := w.Read(ctx)
			if err != nil || now.Revision != expected && now.Presence == datasource.Present {
				return now, errors.Join(err, datasource.ErrConflict)
			}
			if err := wait(ctx, time.Millisecond); err != nil {
				return now, err
			}
			h.Store.Put(storeKey, data)
			return w.Read(ctx)
		}
	}},
	{name: "sink of an editor takes a failed write for a good one", caught: "Edit/BrokenMidWrite", sink: func(_ *StoreHarness, w *wrappedSink) {
		good := w.write
		w.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
			doc, err := good(ctx, data, expected)
			if errors.Is(err, ErrBroken) {
				return datasource.Document{Presence: datasource.Present, Data: data, Revision: expected}, nil
			}
			return doc, err
		}
	}},
	{name: "sink of an editor changes the bytes", caught: "Edit/Clear", sink: func(_ *StoreHarness, w *wrappedSink) {
		good := w.write
		w.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
			return good(ctx, append(data, '\n'), expected)
		}
	}},
	{name: "sink sends what is too large", caught: "Sink/TooLarge", sink: func(h *StoreHarness, _ *wrappedSink) {
		h.Store.Limit(0)
	}},
}

var (
	threadsMu sync.Mutex
	threads   = map[*Store]chan struct{}{}
)

// eventThread is the one thread on which a client library calls back.
func eventThread(s *Store) chan struct{} {
	threadsMu.Lock()
	defer threadsMu.Unlock()
	if threads[s] == nil {
		threads[s] = make(chan struct{}, 1)
	}
	return threads[s]
}

// TestBrokenDriver plays the suite with the mistake that the environment names. It fails, of course; it is not a test
// of its own but what TestSuiteFailsOnEachMistake runs.
func TestBrokenDriver(t *testing.T) {
	name := os.Getenv(brokenDriver)
	i := slices.IndexFunc(mistakes, func(m mistake) bool { return m.name == name })
	if i < 0 {
		t.Skip("run by TestSuiteFailsOnEachMistake")
	}
	m := mistakes[i]
	c := Config{Bubble: true, New: func(testing.TB) Harness { return mistaken{newStoreHarness(m.flavour), m} }}
	if m.sink != nil {
		RunSink(t, c)
		return
	}
	Run(t, c)
}

// TestSuiteFailsOnEachMistake: a suite that no driver can fail proves nothing.
func TestSuiteFailsOnEachMistake(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	atOnce := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for _, m := range mistakes {
		atOnce <- struct{}{}
		wg.Go(func() {
			defer func() { <-atOnce }()
			t.Run(m.name, func(t *testing.T) {
				group, _, _ := strings.Cut(m.caught, "/")
				cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestBrokenDriver$/^"+group+"$", "-test.timeout=1m")
				cmd.Env = append(os.Environ(), brokenDriver+"="+m.name)
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) {
					t.Fatalf("the suite passed (%v):\n%s", err, out)
				}
				if !strings.Contains(string(out), fmt.Sprintf("--- FAIL: TestBrokenDriver/%s ", m.caught)) {
					t.Errorf("case %s did not notice:\n%s", m.caught, out)
				}
			})
		})
	}
	wg.Wait()
}
