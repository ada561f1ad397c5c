package apollo_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rulewire/rulewire/apollo"
	"github.com/rulewire/rulewire/apollo/apollotest"
	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// editors are the two ways to write.
func (b *bench) editors() map[string]apollo.Editor {
	return map[string]apollo.Editor{"portal": portal(token), "admin": apollo.Admin{Address: apollotest.AdminURL, User: "rulewire"}}
}

func (b *bench) sink(c *apollo.Client, e apollo.Editor, options ...apollo.Option) *apollo.Sink {
	b.Helper()
	s, err := apollo.NewSink(c, e, "application", flow, options...)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bench) write(s *apollo.Sink, text, expected string) datasource.Document {
	b.Helper()
	d, err := s.Write(b.Context(), []byte(text), expected)
	if err != nil {
		b.Fatalf("Write of %s: %v", text, err)
	}
	return d
}

// eachEditor runs f with a namespace that has one release, once for each way to write.
func eachEditor(t *testing.T, f func(b *bench, at *apollotest.Namespace, s *apollo.Sink), options ...apollotest.Option) {
	for _, name := range []string{"portal", "admin"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				at := b.space("application")
				at.Put(flow, doc(0))
				f(b, at, b.sink(b.client(), b.editors()[name]))
			}, options...)
		})
	}
}

// isReleased checks what is in force, and that nothing of a write is left in the item.
func (b *bench) isReleased(at *apollotest.Namespace, s *apollo.Sink, text string, releases int) {
	b.Helper()
	now, err := s.Read(b.Context())
	if err != nil || string(now.Data) != text {
		b.Errorf("in force: %s %v, want %s", now.Data, err, text)
	}
	if value, _, there := at.Value(flow); value != text && there {
		b.Errorf("the item is left edited: %s", value)
	}
	if n := at.Releases(); n != releases {
		b.Errorf("%d releases, want %d", n, releases)
	}
}

func TestNobodyElsesDraftIsReleased(t *testing.T) {
	eachEditor(t, func(b *bench, at *apollotest.Namespace, s *apollo.Sink) {
		refused := func(what, named string) {
			b.Helper()
			now, err := s.Read(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			releases := at.Releases()
			_, err = s.Write(b.Context(), []byte(doc(9)), now.Revision)
			if !errors.Is(err, apollo.ErrDraft) || errors.Is(err, datasource.ErrConflict) || !strings.Contains(err.Error(), named) {
				b.Errorf("%s: %v", what, err)
			}
			if at.Releases() != releases {
				b.Errorf("%s: released", what)
			}
			at.Release()
			now, err = s.Read(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			b.write(s, doc(1), now.Revision)
		}
		at.Edit("other", "x", "alice")
		refused("another key", `"other" by "alice"`)
		at.Edit("other", "y", "rulewire")
		refused("our user's edit of another key", `"other" by "rulewire"`)
		at.Edit(flow, "[ ]", "bob")
		refused("somebody else's edit of our key", `"flow-rules" by "bob"`)
		at.Remove("other")
		refused("a deletion", `"other" deleted`)
		at.Edit("a", "1", "x")
		at.Edit("b", "1", "x")
		at.Edit("c", "1", "x")
		at.Edit("d", "1", "x")
		refused("four edits", "1 more")
	})
}

// What a write of ours left behind when the link died is overwritten by the next one.
func TestOwnDraftIsOverwritten(t *testing.T) {
	eachEditor(t, func(b *bench, at *apollotest.Namespace, s *apollo.Sink) {
		now, err := s.Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		at.Edit(flow, doc(5), "rulewire")
		b.write(s, doc(6), now.Revision)
		b.isReleased(at, s, doc(6), 2)
	})
}

func TestFirstWriteMakesTheFirstRelease(t *testing.T) {
	for _, name := range []string{"portal", "admin"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				at := b.space("application")
				s := b.sink(b.client(), b.editors()[name])
				d := b.write(s, doc(1), writable.Absent)
				now, err := s.Read(b.Context())
				if err != nil || now.Revision != d.Revision || at.Releases() != 1 {
					t.Errorf("%v %v %v", d, now, err)
				}
				_, err = s.Write(b.Context(), []byte(doc(2)), writable.Absent)
				if !errors.Is(err, datasource.ErrConflict) {
					t.Errorf("again: %v", err)
				}
				other, err := apollo.NewSink(b.client(), b.editors()[name], "nosuch", flow)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := other.Write(b.Context(), []byte(doc(1)), writable.Absent); !errors.Is(err, apollo.ErrNoNamespace) {
					t.Errorf("a namespace that does not exist: %v", err)
				}
			})
		})
	}
}

func TestReleaseCommentNamesTheActor(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		c := b.client()
		long := strings.Repeat("😀", 500)
		for name, e := range b.editors() {
			for _, actor := range []string{"", "alice@10.0.0.7", long} {
				options := []apollo.Option{}
				want := "Rulewire, for rulewire"
				if actor != "" {
					options = append(options, apollo.Actor(func(context.Context) string { return actor }))
					want = "Rulewire, for " + actor[:min(len(actor), 14)]
				}
				s := b.sink(c, e, options...)
				now, err := s.Read(b.Context())
				if err != nil {
					t.Fatal(err)
				}
				b.write(s, doc(1), now.Revision)
				if title, comment := at.Comment(); !strings.HasPrefix(comment, strings.ToValidUTF8(want, "")) || !strings.HasPrefix(title, "rulewire 2000-") {
					t.Errorf("%s: %q %q", name, title, comment)
				}
			}
		}
	})
}

// faults: F059
func TestCharactersAreCountedAsTheServerDoes(t *testing.T) {
	eachEditor(t, func(b *bench, at *apollotest.Namespace, s *apollo.Sink) {
		now, err := s.Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		before := b.link.Requests("")
		for name, text := range map[string]string{
			"one over":        strings.Repeat("x", 20_001),
			"one pair over":   strings.Repeat("😀", 10_000) + "x",
			"twice the bytes": strings.Repeat("é", 20_001),
		} {
			if _, err := s.Write(b.Context(), []byte(text), now.Revision); !errors.Is(err, datasource.ErrTooLarge) {
				b.Errorf("%s: %v", name, err)
			}
		}
		if b.link.Requests("") != before {
			b.Error("something was sent")
		}
		if _, err := s.Write(b.Context(), []byte("\xff"), now.Revision); !errors.Is(err, datasource.ErrUnsupported) {
			b.Errorf("not UTF-8: %v", err)
		}
		now = b.write(s, strings.Repeat("é", 20_000), now.Revision)
		now = b.write(s, strings.Repeat("😀", 10_000), now.Revision)
		_ = now
	})
}

// The server's own limit is lower than MaxChars: nothing is half written.
func TestValueThatTheServerRefusesChangesNothing(t *testing.T) {
	eachEditor(t, func(b *bench, at *apollotest.Namespace, s *apollo.Sink) {
		now, err := s.Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		_, err = s.Write(b.Context(), []byte(strings.Repeat("x", 1000)), now.Revision)
		var status *apollo.StatusError
		if !errors.As(err, &status) || status.Code != 400 || !strings.Contains(status.Message, "limit:100") {
			b.Errorf("%v", err)
		}
		b.isReleased(at, s, doc(0), 1)
	}, apollotest.ItemLimit(100))
}

// Each request of a write fails in each way. Afterwards the document is the old one or the new one, the answer is never a
// wrong yes, "not written" is true, and no half of a write is left where the link works.
//
// faults: F154 F156
func TestWriteThatFailsAtEachRequest(t *testing.T) {
	isWrite := func(r *http.Request) bool {
		return strings.HasPrefix(r.URL.Host, "portal") || strings.HasPrefix(r.URL.Host, "admin")
	}
	const page = "<html>Please sign in</html>"
	ways := map[string]func() *http.Response{
		"403":  func() *http.Response { return apollotest.Status(403) },
		"500":  func() *http.Response { return apollotest.Status(500) },
		"page": func() *http.Response { return apollotest.Page(200, "text/html", page) },
		"lost": nil, // done, and the answer is gone
	}
	for way, answer := range ways {
		t.Run(way, func(t *testing.T) {
			for nth := 1; nth <= 12; nth++ {
				hit := false
				eachEditor(t, func(b *bench, at *apollotest.Namespace, s *apollo.Sink) {
					now, err := s.Read(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					var mu sync.Mutex
					count, struck := 0, ""
					strike := func(r *http.Request) bool {
						mu.Lock()
						defer mu.Unlock()
						if !isWrite(r) {
							return false
						}
						count++
						if count == nth {
							hit = true
							struck = r.Method + " " + r.URL.Path
						}
						return count == nth
					}
					if answer == nil {
						b.link.LoseAnswers(strike)
					} else {
						b.link.Answer(func(r *http.Request) *http.Response {
							if strike(r) {
								return answer()
							}
							return nil
						})
					}
					d, err := s.Write(b.Context(), []byte(doc(1)), now.Revision)
					after, readErr := s.Read(b.Context())
					if readErr != nil {
						b.Fatal(readErr)
					}
					written := string(after.Data) == doc(1)
					switch {
					case err == nil && (!written || d.Revision != after.Revision):
						b.Errorf("%s: a wrong yes: %+v, in force %s", struck, d, after.Data)
					case err != nil && written && !errors.Is(err, datasource.ErrUnknownOutcome):
						b.Errorf("%s: a wrong no: %v", struck, err)
					case errors.Is(err, datasource.ErrConflict):
						b.Errorf("%s: no conflict: %v", struck, err)
					}
					if value, _, _ := at.Value(flow); value != string(after.Data) {
						b.Errorf("%s: left in the item: %s (%v)", struck, value, err)
					}
					b.link.Heal()
					b.write(s, doc(2), after.Revision)
				})
				if !hit && nth > 1 {
					t.Logf("a write is %d requests to the editor's server", nth-1)
					return
				}
			}
		})
	}
}

// A cut right before the release, and for longer than the write lasts: what is left is our own edit, not released, and
// the next write takes it over.
func TestCutBeforeTheReleaseLeavesTheOldDocument(t *testing.T) {
	eachEditor(t, func(b *bench, at *apollotest.Namespace, s *apollo.Sink) {
		now, err := s.Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.link.Answer(func(r *http.Request) *http.Response {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/releases") {
				b.link.Cut()
			}
			return nil
		})
		_, err = s.Write(b.Context(), []byte(doc(1)), now.Revision)
		if err == nil || errors.Is(err, datasource.ErrConflict) {
			b.Errorf("%v", err)
		}
		b.link.Heal()
		if after, err := s.Read(b.Context()); err != nil || after.Revision != now.Revision {
			b.Errorf("%+v %v", after, err)
		}
		b.write(s, doc(2), now.Revision)
		b.isReleased(at, s, doc(2), 2)
	})
}

// Somebody acts at each moment of a write. Whoever reads the answer knows what is in force.
//
// faults: F140
func TestEditDuringAWriteIsNoticed(t *testing.T) {
	acts := map[string]func(at *apollotest.Namespace){
		"edits the item":      func(at *apollotest.Namespace) { at.Edit(flow, doc(7), "alice") },
		"releases the item":   func(at *apollotest.Namespace) { at.Put(flow, doc(7)) },
		"releases what it is": func(at *apollotest.Namespace) { at.Release() },
		"deletes the item":    func(at *apollotest.Namespace) { at.Delete(flow) },
		"edits another":       func(at *apollotest.Namespace) { at.Edit("other", "1", "alice") },
	}
	for what, act := range acts {
		t.Run(what, func(t *testing.T) {
			for nth := 1; nth <= 12; nth++ {
				eachEditor(t, func(b *bench, at *apollotest.Namespace, s *apollo.Sink) {
					now, err := s.Read(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					var mu sync.Mutex
					count, window := 0, false
					b.link.Answer(func(r *http.Request) *http.Response {
						mu.Lock()
						defer mu.Unlock()
						if strings.HasPrefix(r.URL.Host, "config") {
							return nil
						}
						if count++; count == nth {
							window = r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/releases")
							act(at)
						}
						return nil
					})
					d, err := s.Write(b.Context(), []byte(doc(1)), now.Revision)
					b.link.Heal()
					after, readErr := s.Read(b.Context())
					if readErr != nil {
						b.Fatal(readErr)
					}
					if err == nil {
						if string(d.Data) != doc(1) || after.Revision == d.Revision && string(after.Data) != doc(1) {
							b.Errorf("request %d: yes, and in force is %s", nth, after.Data)
						}
					} else if string(after.Data) == doc(1) && what != "releases what it is" {
						// Between our put and our look a release by somebody else takes our text along.
						b.Errorf("request %d: %v, and ours is in force", nth, err)
					}
					if _, _, draft := at.Value("other"); what == "edits another" && draft && !window {
						if _, there := b.values(at)["other"]; there {
							b.Errorf("request %d: alice's draft was released", nth)
						}
					}
				})
			}
		})
	}
}

// values gives what is released, read by a client of its own.
func (b *bench) values(at *apollotest.Namespace) map[string]string {
	b.Helper()
	src := b.source(b.client(), at.Name(), "other")
	d, err := src.Read(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if d.Presence == datasource.Present {
		return map[string]string{"other": string(d.Data)}
	}
	return nil
}

// Sinks in processes of their own share no lock. Over one revision exactly one is told yes, and nobody whose text is in
// force is told no: also where a release takes its time between reading the items and being there, which on a real server
// let two of four win in one round of twelve before writers waited for each other's edits.
//
// faults: F139 F140
func TestWritersInSeveralProcesses(t *testing.T) {
	for _, commit := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 2 * time.Second} {
		t.Run(commit.String(), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.space("application").Put(flow, doc(0))
				var sinks []*apollo.Sink
				for n := range 4 {
					e := b.editors()["portal"]
					if n%2 == 1 {
						e = b.editors()["admin"]
					}
					link := b.server.Link()
					// Each request takes a while of its own.
					link.Answer(func(*http.Request) *http.Response {
						<-time.After(rand.N(20 * time.Millisecond))
						return nil
					})
					sinks = append(sinks, b.sink(newClient(b, link, app(appID)), e))
				}
				rivals(b.T, sinks, 200)
			}, apollotest.Commit(commit))
		})
	}
}

// An edit that takes longer than writers wait for each other is taken back.
func TestEditThatTakesTooLongIsTakenBack(t *testing.T) {
	eachEditor(t, func(b *bench, at *apollotest.Namespace, s *apollo.Sink) {
		now, err := s.Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		slow := func(r *http.Request) *http.Response {
			if strings.Contains(r.URL.Path, "tems") && r.Method != http.MethodGet {
				<-time.After(time.Second)
			}
			return nil
		}
		b.link.Answer(slow)
		_, err = s.Write(b.Context(), []byte(doc(1)), now.Revision)
		if !errors.Is(err, datasource.ErrConflict) || !strings.Contains(err.Error(), "Settle") {
			b.Errorf("%v", err)
		}
		b.isReleased(at, s, doc(0), 1)
		b.link.Heal()
		b.write(s, doc(2), now.Revision)
	})
}

// An edit that arrives after a rival's last look, and that its release has read, comes into force though it is taken back
// while that release is on its way into the database. Nobody may call it a conflict then, and make it once more.
func TestEditTakenBackWhileARivalReleasesIt(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		released, ours, theirs := make(chan struct{}), b.server.Link(), b.server.Link()
		ours.Answer(func(r *http.Request) *http.Response {
			if r.Method == http.MethodPut {
				<-released
				<-time.After(10 * time.Millisecond) // and so longer than writers wait
			}
			return nil
		})
		theirs.Answer(func(r *http.Request) *http.Response {
			if r.Method == http.MethodPost {
				close(released)
				<-time.After(280 * time.Millisecond) // ours waits 300 ms for rivals
				theirs.Heal()
			}
			return nil
		})
		late := b.sink(newClient(b, ours, app(appID)), portal(token))
		rival := b.sink(newClient(b, theirs, app(appID)), portal(token))
		now, err := late.Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		var wg sync.WaitGroup
		var said error
		wg.Go(func() { _, said = late.Write(b.Context(), []byte(doc(1)), now.Revision) })
		synctest.Wait() // it has looked
		if _, err := rival.Write(b.Context(), []byte(doc(2)), now.Revision); !errors.Is(err, datasource.ErrConflict) {
			b.Errorf("the rival, whose text was not released: %v", err)
		}
		wg.Wait()
		if after, readErr := rival.Read(b.Context()); readErr != nil || string(after.Data) != doc(1) {
			b.Fatalf("in force: %s %v", after.Data, readErr)
		}
		if !errors.Is(said, datasource.ErrUnknownOutcome) || errors.Is(said, datasource.ErrConflict) {
			b.Errorf("ours, whose text is in force: %v", said)
		}
	}, apollotest.Commit(100*time.Millisecond))
}

// A process that died between its edit and its release leaves a draft. Others wait, as it could be alive, and then take it
// over; in another item they leave it.
func TestDraftOfADeadProcessIsTakenOver(t *testing.T) {
	eachEditor(t, func(b *bench, at *apollotest.Namespace, s *apollo.Sink) {
		now, err := s.Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		at.Edit(flow, doc(5), "rulewire")
		// Several writes that have less time than that add up.
		for n := 0; ; n++ {
			ctx, cancel := context.WithTimeout(b.Context(), 1500*time.Millisecond)
			d, err := s.Write(ctx, []byte(doc(6)), now.Revision)
			cancel()
			if err == nil {
				if string(d.Data) != doc(6) || n < 2 {
					b.Errorf("%d: %+v", n, d)
				}
				now = d
				break
			}
			if !errors.Is(err, datasource.ErrConflict) || n > 3 {
				b.Fatalf("%d: %v", n, err)
			}
		}
		b.isReleased(at, s, doc(6), 2)
		at.Edit(flow, doc(7), "rulewire")
		now = b.write(s, doc(8), now.Revision) // in one
		at.Edit("other", "x", "rulewire")
		if _, err := s.Write(b.Context(), []byte(doc(9)), now.Revision); !errors.Is(err, apollo.ErrDraft) || errors.Is(err, datasource.ErrConflict) {
			b.Errorf("%v", err)
		}
	})
}

// Two documents of one namespace, each written by a process of its own: neither write fails for the other's.
func TestWritersOfTwoKeysInSeveralProcesses(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Edit("a", doc(0), "rulewire")
		at.Edit("b", doc(0), "rulewire")
		at.Release()
		var wg sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			link := b.server.Link()
			link.Answer(func(*http.Request) *http.Response { <-time.After(rand.N(20 * time.Millisecond)); return nil })
			s, err := apollo.NewSink(newClient(b, link, app(appID)), portal(token), "application", key)
			if err != nil {
				t.Fatal(err)
			}
			w, err := writable.New(s, converter.JSON[rule.Flow](), writable.Logger(nil))
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				for n := range 50 {
					_, err := w.Edit(b.Context(), func(rules []rule.Flow) ([]rule.Flow, error) {
						rules[0].Count = float64(n + 1)
						return rules, nil
					})
					if err != nil {
						b.Errorf("%s %d: %v", key, n, err)
						return
					}
				}
			})
		}
		wg.Wait()
		for _, key := range []string{"a", "b"} {
			if value, _, _ := at.Value(key); !strings.Contains(value, `:50`) {
				b.Errorf("%s: %s", key, value)
			}
		}
	})
}

// rivals lets all sinks write over one revision at once, again and again.
func rivals(t *testing.T, sinks []*apollo.Sink, rounds int) {
	t.Helper()
	one, none, taken, failed := 0, 0, 0, 0
	for round := range rounds {
		now, err := sinks[0].Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		text := func(n int) string { return fmt.Sprintf(`[{"resource":"round %d writer %d","count":1}]`, round, n) }
		said := make([]error, len(sinks))
		for n, s := range sinks {
			wg.Go(func() { _, said[n] = s.Write(t.Context(), []byte(text(n)), now.Revision) })
		}
		wg.Wait()
		after, err := sinks[0].Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		yes, unknown := 0, false
		var status *apollo.StatusError
		for n, err := range said {
			isIn := string(after.Data) == text(n)
			switch {
			case err == nil:
				yes++
			case errors.Is(err, datasource.ErrUnknownOutcome):
				unknown = unknown || isIn
			case errors.As(err, &status) && status.Code == http.StatusInternalServerError && !isIn:
				failed++ // real servers do, under load
			case !errors.Is(err, datasource.ErrConflict):
				t.Errorf("writer %d: %v", n, err)
			case isIn:
				t.Errorf("round %d: writer %d was told %v, and its text is in force", round, n, err)
			}
		}
		switch {
		case yes > 1:
			t.Errorf("round %d: %d writers were told yes over one revision", round, yes)
		case yes == 1 && unknown:
			taken++
		case yes == 1:
			one++
		default:
			none++
		}
	}
	t.Logf("%d rounds of %d writers: %d with one winner, %d where none was told yes, %d where a third's text was released after the winner's, %d requests answered 500",
		rounds, len(sinks), one, none, taken, failed)
}

// faults: F154
func TestTokenIsAskedForEachRequest(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put(flow, doc(0))
		now := "old"
		b.server.SetToken("old")
		e := portal(token)
		e.Token = func(context.Context) (string, error) { return now, nil }
		s := b.sink(b.client(), e)
		first, err := s.Read(b.Context())
		if err != nil {
			t.Fatal(err)
		}
		first = b.write(s, doc(1), first.Revision)
		b.server.SetToken("n3w-token")
		_, err = s.Write(b.Context(), []byte(doc(2)), first.Revision)
		var status *apollo.StatusError
		if !errors.As(err, &status) || status.Code != http.StatusUnauthorized || strings.Contains(err.Error(), "n3w") {
			t.Errorf("%v", err)
		}
		now = "n3w-token"
		b.write(s, doc(2), first.Revision)
		e.Token = func(context.Context) (string, error) { return "", errors.New("vault is sealed") }
		if _, err := b.sink(b.client(), e).Write(b.Context(), []byte(doc(3)), first.Revision); err == nil {
			t.Error("no error")
		}
	})
}

// Keys of a namespace may have any character.
func TestKeysWithOddCharacters(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := b.space("application")
		at.Put("other", "1")
		c := b.client()
		for name, e := range b.editors() {
			for _, key := range []string{"a/b?c d", "é", "a%2Fb", "x+y", "flow.rules", "ÿþ~"} {
				s, err := apollo.NewSink(c, e, "application", key)
				if err != nil {
					t.Fatal(err)
				}
				now, err := s.Read(b.Context())
				if err != nil {
					t.Fatal(err)
				}
				d := b.write(s, doc(1), now.Revision)
				if got := b.read(b.source(c, "application", key)); string(got.Data) != doc(1) || got.Revision != d.Revision {
					t.Errorf("%s %q: %+v", name, key, got)
				}
			}
		}
	})
}
