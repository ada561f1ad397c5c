package nacos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/nacos-group/nacos-sdk-go/v2/api/grpc"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

func TestMain(m *testing.M) {
	// The client of the example is the user's, and lives as long as the process. What it runs: its logger's file rotation,
	// its login and its listening. Nothing else of the SDK may run.
	const sdk = "github.com/nacos-group/nacos-sdk-go/v2/"
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"),
		goleak.IgnoreTopFunction(sdk+"common/security.(*SecurityProxy).AutoRefresh.func1"),
		goleak.IgnoreTopFunction(sdk+"common/security.(*NacosAuthClient).AutoRefresh.func1"),
		goleak.IgnoreTopFunction(sdk+"clients/config_client.(*ConfigClient).startInternal.func1"))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func source(t testing.TB, c *client, dataID string, options ...Option) *Source {
	t.Helper()
	s, err := NewSource(c, dataID, "G", options...)
	must(t, err)
	return s
}

func sink(t testing.TB, c *client, dataID string, options ...Option) *Sink {
	t.Helper()
	s, err := NewSink(c, dataID, "G", options...)
	must(t, err)
	return s
}

// wait lets d go by, in the time of the bubble, and what has begun then come to rest.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func numbered(n int) string { return fmt.Sprintf(`[{"resource":"n","count":%d}]`, n) }

// follower has the numbers that came into force.
type follower struct {
	*datasource.Readable[rule.Flow]
	mu   sync.Mutex
	last int
	at   time.Time
	hold func() // called in the listener
}

func (f *follower) now() (int, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.at
}

// follow starts a readable without a relist, so that only what Watch tells counts.
func follow(t testing.TB, s *Source, options ...datasource.Option) *follower {
	t.Helper()
	f := new(follower)
	r, err := datasource.New(s, converter.JSON[rule.Flow](), property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
		f.mu.Lock()
		hold := f.hold
		f.mu.Unlock()
		if hold != nil {
			hold()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.last, f.at = -1, time.Now()
		if len(rules) > 0 {
			f.last = int(rules[0].Count)
		}
		return nil
	}), append([]datasource.Option{datasource.Logger(nil), datasource.Relist(1000 * time.Hour), datasource.OnStart(datasource.Empty)}, options...)...)
	must(t, err)
	f.Readable = r
	must(t, r.Start(context.Background()))
	t.Cleanup(func() { must(t, r.Close()) })
	return f
}

// Each third notification gets lost, on forty documents of one client: every write is in force within a comparison, and
// those that were told of are in force at once.
//
// faults: F080 F081
func TestLostNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.drop = func(n int) bool { return n%3 == 0 }
		c := s.client(t)
		var fs []*follower
		for i := range 40 {
			s.put(at(fmt.Sprint("d", i)), numbered(1))
			fs = append(fs, follow(t, source(t, c, fmt.Sprint("d", i))))
		}
		prompt := 0
		for n := 2; n <= 6; n++ {
			written := time.Now()
			for i := range fs {
				s.put(at(fmt.Sprint("d", i)), numbered(n))
			}
			synctest.Wait()
			for _, f := range fs {
				if last, _ := f.now(); last == n {
					prompt++
				}
			}
			wait(DefaultCompare)
			for i, f := range fs {
				if last, at := f.now(); last != n || at.Sub(written) > DefaultCompare {
					t.Errorf("d%d is at %d after %v, want %d", i, last, at.Sub(written), n)
				}
			}
		}
		if want := 40 * 5 * 2 / 3; prompt < want-1 {
			t.Errorf("%d values were in force at once, want %d", prompt, want)
		}
	})
}

// Two hundred documents on one client cost one connection, and while they are quiet one request each ten seconds for
// all of them.
//
// faults: F121
func TestManyDocumentsShareOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(t)
		var fs []*follower
		for i := range 200 {
			s.put(at(fmt.Sprint("d", i)), numbered(1))
			fs = append(fs, follow(t, source(t, c, fmt.Sprint("d", i))))
		}
		synctest.Wait()
		if n := s.listeners(); n != 200 {
			t.Errorf("the server has %d listeners", n)
		}
		dials := s.rpc.connects()
		if dials > 2 {
			t.Errorf("%d connections for 200 documents", dials)
		}
		before := s.count(typeListen, typeQuery)
		wait(10 * time.Minute)
		if n := s.count(typeListen, typeQuery) - before; n > 61 {
			t.Errorf("%d requests in ten idle minutes", n)
		}
		for i := range fs {
			s.put(at(fmt.Sprint("d", i)), numbered(2))
		}
		synctest.Wait()
		for i, f := range fs {
			if last, _ := f.now(); last != 2 {
				t.Errorf("d%d is at %d", i, last)
			}
		}
		if s.rpc.connects() != dials {
			t.Error("it connected again")
		}
	})
}

// A server that has just been started says 300 to everything, which is also the code of a missing document.
//
// faults: F005 F012
func TestStartingServerIsNoMissingDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		src := source(t, s.client(t), "d")
		f := follow(t, src, datasource.OnMissing(datasource.Clear))
		if last, _ := f.now(); last != 1 {
			t.Fatalf("at %d", last)
		}
		s.set(func() { s.starting = true })
		if doc, err := src.Read(t.Context()); err == nil {
			t.Errorf("a read of a server that is starting says %v", doc.Presence)
		}
		wait(time.Minute)
		if last, _ := f.now(); last != 1 {
			t.Errorf("the rules went: %d", last)
		}
		s.set(func() { s.starting = false })
		s.put(at("d"), numbered(2))
		wait(time.Minute)
		if last, _ := f.now(); last != 2 {
			t.Errorf("at %d", last)
		}
	})
}

// faults: F004 F017 F136
func TestDeletedAndWrittenAgainWhileAListenerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		f := follow(t, source(t, s.client(t), "d"), datasource.OnMissing(datasource.Clear))
		hold := make(chan struct{})
		f.mu.Lock()
		f.hold = func() { <-hold }
		f.mu.Unlock()
		s.put(at("d"), numbered(2))
		synctest.Wait() // the listener has 2 and does not return
		s.remove(at("d"))
		s.put(at("d"), numbered(3))
		s.remove(at("d"))
		s.put(at("d"), numbered(4))
		synctest.Wait()
		close(hold)
		wait(time.Second)
		if last, _ := f.now(); last != 4 {
			t.Errorf("at %d, want 4", last)
		}
		s.remove(at("d"))
		wait(2 * time.Second)
		if last, _ := f.now(); last != -1 {
			t.Errorf("at %d after the deletion", last)
		}
	})
}

// The server's key is changed: no token is good any more. One login later all is well, and nobody noticed.
//
// faults: F111
func TestRefusedTokenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.auth = true
		s.put(at("d"), numbered(1))
		src := source(t, s.client(t, withUser), "d")
		f := follow(t, src)
		wait(time.Minute)
		logins := s.logins
		s.set(func() { clear(s.tokens) })
		s.put(at("d"), numbered(2))
		wait(time.Second)
		if last, _ := f.now(); last != 2 {
			t.Errorf("at %d: %v", last, f.Status().LastError)
		}
		if st := f.Status(); st.Counts.ReadErrors > 0 || st.Counts.Reconnects > 0 || s.logins != logins+1 {
			t.Errorf("%d reads failed, %d watches ended, %d logins", st.Counts.ReadErrors, st.Counts.Reconnects, s.logins-logins)
		}
	})
}

// Rights are taken away: a login does not help, and is not tried without end; when they are back so are the rules.
//
// faults: F111 F116
func TestDeniedIsTypedAndCostsFewLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.auth = true
		s.put(at("d"), numbered(1))
		c := s.client(t, withUser)
		f := follow(t, source(t, c, "d"))
		s.set(func() { s.denied = true })
		if _, err := sink(t, c, "d").Write(t.Context(), []byte(numbered(2)), sum([]byte(numbered(1)))); !errors.Is(err, ErrDenied) {
			t.Errorf("write: %v", err)
		}
		logins := s.logins
		s.put(at("d"), numbered(2))
		wait(10 * time.Minute)
		st := f.Status()
		if !errors.Is(st.LastError, ErrDenied) || st.State != datasource.StateDegraded || strings.Contains(st.LastError.Error(), pass) {
			t.Errorf("%s: %v", st.State, st.LastError)
		}
		if n := s.logins - logins; n > 60 {
			t.Errorf("%d logins in ten minutes", n)
		}
		s.set(func() { s.denied = false })
		wait(time.Minute)
		if last, _ := f.now(); last != 2 {
			t.Errorf("at %d: %v", last, f.Status().LastError)
		}
	})
}

func TestLoginThatIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*server)
		want  error
	}{
		"sign-in page with status 200": {func(s *server) { s.html = true }, errSignInPage},
		"wrong password":               {func(s *server) { s.password = "another" }, ErrDenied},
		"wrong password, status 0":     {func(s *server) { s.password, s.zero = "another", true }, ErrDenied},
		"nobody there":                 {func(s *server) { s.web.cut(true) }, errRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.auth = true
				c.spoil(s)
				cl := s.client(t, withUser)
				src := source(t, cl, "d")
				_, err := src.Read(t.Context())
				if !errors.Is(err, c.want) || strings.Contains(fmt.Sprint(err), pass) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				// A second document asks at the same moment.
				before := s.web.connects()
				if _, err := source(t, cl, "e").Read(t.Context()); err == nil || s.web.connects() != before {
					t.Errorf("%v, %d more logins", err, s.web.connects()-before)
				}
			})
		})
	}
}

// What is not Nacos's answer about this document is an error, never a document and never "missing".
//
// faults: F005
func TestAnswersThatAreNone(t *testing.T) {
	query := func(payload *pb.Payload, err error) func(*server) {
		return func(s *server) {
			s.answered = func(kind string, _ place) (*pb.Payload, error) {
				if kind != typeQuery {
					return nil, nil
				}
				return payload, err
			}
		}
	}
	made := func(kind string, body any) func(*server) { return query(reply(kind, body)) }
	for name, spoil := range map[string]func(*server){
		"another type":         made("HealthCheckResponse", yes),
		"no JSON":              query(&pb.Payload{Metadata: &pb.Metadata{Type: typeQueryAnswer}}, nil),
		"error as a yes":       made(typeError, yes),
		"torn":                 made(typeQueryAnswer, queryAnswer{answer: yes, Content: `[{"resour`, MD5: sum([]byte(numbered(1)))}),
		"being modified":       made(typeQueryAnswer, queryAnswer{answer: no(codeBusy, "requested file is being modified, please try later.")}),
		"code 300, other type": made(typeError, no(codeNotFound, "server is starting")),
		"gateway":              query(nil, status.Error(codes.Unknown, "unexpected HTTP status code received from server: 200 (OK); malformed header: content-type text/html")),
		"limit":                query(nil, status.Error(codes.ResourceExhausted, "too many requests")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.put(at("d"), numbered(1))
				f := follow(t, source(t, s.client(t), "d"), datasource.OnMissing(datasource.Clear))
				s.set(func() { spoil(s) })
				s.put(at("d"), numbered(2))
				wait(time.Minute)
				if last, _ := f.now(); last != 1 || f.Status().LastError == nil {
					t.Errorf("at %d: %v", last, f.Status().LastError)
				}
				s.heal()
				wait(time.Minute)
				if last, _ := f.now(); last != 2 {
					t.Errorf("at %d after it: %v", last, f.Status().LastError)
				}
			})
		})
	}
}

// The server asks to come again in a moment, while it takes a new text over: the read does, and succeeds.
func TestDocumentThatIsBeingModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		busy := 3
		s.answered = func(kind string, _ place) (*pb.Payload, error) {
			if kind != typeQuery || busy == 0 {
				return nil, nil
			}
			busy--
			return reply(typeQueryAnswer, queryAnswer{answer: no(codeBusy, "requested file is being modified, please try later.")})
		}
		doc, err := source(t, s.client(t), "d").Read(t.Context())
		if err != nil || string(doc.Data) != numbered(1) {
			t.Errorf("%s, %v", doc.Data, err)
		}
	})
}

// Unless the user says otherwise, no write goes to a server that would overwrite whatever is there.
func TestServerThatDoesNotCompare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.ignores = true
		s.put(at("d"), numbered(1))
		c := s.client(t)
		_, err := sink(t, c, "d").Write(t.Context(), []byte(numbered(2)), sum([]byte(numbered(1))))
		if !errors.Is(err, datasource.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
		if text, _ := s.get(at("d")); text != numbered(1) || len(s.docs) != 1 {
			t.Errorf("the store has %s, %d documents", text, len(s.docs))
		}
		k := sink(t, c, "d", ReadCompareWrite())
		if _, err := k.Write(t.Context(), []byte(numbered(2)), sum([]byte(numbered(9)))); !errors.Is(err, datasource.ErrConflict) {
			t.Errorf("a stale revision: %v", err)
		}
		doc, err := k.Write(t.Context(), []byte(numbered(2)), sum([]byte(numbered(1))))
		must(t, err)
		if text, _ := s.get(at("d")); text != numbered(2) || doc.Revision != sum([]byte(text)) {
			t.Errorf("the store has %s", text)
		}
	})
}

// A server that has no time for the try refuses it once, as it would a wrong checksum. That does not show that it compares.
func TestRefusalOfTheProbeForAnotherReasonProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		k := sink(t, s.client(t), "d")
		publishes := 0
		s.set(func() {
			s.ignores = true
			s.answered = func(kind string, _ place) (*pb.Payload, error) {
				if kind == typePublish {
					publishes++
				}
				if kind == typePublish && publishes == 2 {
					return reply("ConfigPublishResponse", no(500, "database is read only"))
				}
				return nil, nil
			}
		})
		if _, err := k.Write(t.Context(), []byte(numbered(2)), sum([]byte(numbered(1)))); !errors.Is(err, datasource.ErrUnsupported) {
			t.Errorf("a server that does not compare: %v", err)
		}
		if text, _ := s.get(at("d")); text != numbered(1) || len(s.docs) != 1 {
			t.Errorf("%s, %d documents", text, len(s.docs))
		}
	})
}

// A server that compares is tried once, on a document that is gone afterwards.
func TestProbeIsSharedAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(t)
		for _, name := range []string{"a", "b"} {
			doc, err := sink(t, c, name).Write(t.Context(), []byte(numbered(1)), writable.Absent)
			must(t, err)
			_, err = sink(t, c, name).Write(t.Context(), []byte(numbered(2)), doc.Revision)
			must(t, err)
		}
		if n := s.count(typeRemove); n != 1 || len(s.docs) != 2 {
			t.Errorf("%d probes, %d documents", n, len(s.docs))
		}
	})
}

// faults: F156
func TestWriteWhoseAnswerIsLost(t *testing.T) {
	for _, done := range []bool{true, false} {
		t.Run(fmt.Sprint("done=", done), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.put(at("d"), numbered(1))
				k := sink(t, s.client(t), "d")
				first, err := k.Write(t.Context(), []byte(numbered(2)), sum([]byte(numbered(1))))
				must(t, err)
				s.set(func() { s.lose = func() (bool, bool) { return done, true } })
				before := s.count(typePublish)
				doc, err := k.Write(t.Context(), []byte(numbered(3)), first.Revision)
				if n := s.count(typePublish) - before; n != 1 {
					t.Errorf("it was sent %d times", n)
				}
				text, _ := s.get(at("d"))
				switch {
				case done && (err != nil || doc.Revision != sum([]byte(text))):
					t.Errorf("the write took place: %v", err)
				case !done && (!errors.Is(err, datasource.ErrUnknownOutcome) || text != numbered(2)):
					t.Errorf("the write did not take place: %v, %s", err, text)
				}
			})
		})
	}
}

// A request may be refused for another reason than the checksum: that is no conflict, and no success.
//
// faults: F156
func TestRefusalIsNoConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		k := sink(t, s.client(t), "d")
		doc, err := k.Write(t.Context(), []byte(numbered(2)), sum([]byte(numbered(1))))
		must(t, err)
		s.set(func() {
			s.answered = func(kind string, _ place) (*pb.Payload, error) {
				if kind != typePublish {
					return nil, nil
				}
				return reply("ConfigPublishResponse", no(500, "content limit exceeded: "+strings.Repeat("x", 1000)))
			}
		})
		_, err = k.Write(t.Context(), []byte(numbered(3)), doc.Revision)
		var refusal *ServerError
		if errors.Is(err, datasource.ErrConflict) || errors.Is(err, datasource.ErrUnknownOutcome) || !errors.As(err, &refusal) || len(refusal.Message) > 300 {
			t.Errorf("got %v", err)
		}
	})
}

// A database that fails after it has committed, such as one whose link breaks, makes the server refuse what took place.
//
// faults: F156
func TestRefusalOfAWriteThatTookPlaceIsNoConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		k := sink(t, s.client(t), "d")
		first, err := k.Write(t.Context(), []byte(numbered(2)), sum([]byte(numbered(1))))
		must(t, err)
		s.set(func() {
			s.answered = func(kind string, k place) (*pb.Payload, error) {
				if kind != typePublish {
					return nil, nil
				}
				s.answered = nil
				s.store(k, numbered(3))
				return reply("ConfigPublishResponse", no(500, "PreparedStatementCallback; Communications link failure"))
			}
		})
		doc, err := k.Write(t.Context(), []byte(numbered(3)), first.Revision)
		if text, _ := s.get(at("d")); err != nil || doc.Revision != sum([]byte(text)) {
			t.Errorf("the write took place: %v", err)
		}
	})
}

// The server refused in its database and serves the old text for longer than the sink looks: still a conflict.
func TestConflictThatTheServerDoesNotServeYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		k := sink(t, s.client(t), "d")
		doc, err := k.Write(t.Context(), []byte(numbered(2)), sum([]byte(numbered(1))))
		must(t, err)
		s.put(at("d"), numbered(3))
		s.set(func() {
			s.answered = func(kind string, k place) (*pb.Payload, error) {
				if kind != typeQuery {
					return nil, nil
				}
				return reply(typeQueryAnswer, queryAnswer{answer: yes, Content: numbered(2), MD5: doc.Revision})
			}
		})
		if _, err := k.Write(t.Context(), []byte(numbered(4)), doc.Revision); !errors.Is(err, datasource.ErrConflict) {
			t.Errorf("got %v", err)
		}
	})
}

func TestSinkRefusesWhatNacosCannotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		k := sink(t, s.client(t), "d", MaxBytes(100))
		for text, want := range map[string]error{
			"": datasource.ErrUnsupported, " \n": datasource.ErrUnsupported, "[\xff]": datasource.ErrUnsupported,
			strings.Repeat("x", 101): datasource.ErrTooLarge,
		} {
			if _, err := k.Write(t.Context(), []byte(text), writable.Absent); !errors.Is(err, want) {
				t.Errorf("%d bytes: %v", len(text), err)
			}
		}
		big := sink(t, s.client(t), "d", MaxBytes(32<<20))
		if _, err := big.Write(t.Context(), []byte(strings.Repeat("x", 11<<20)), writable.Absent); !errors.Is(err, datasource.ErrTooLarge) {
			t.Errorf("over the server's limit: %v", err)
		}
		if len(s.docs) != 0 {
			t.Errorf("%d documents in the store", len(s.docs))
		}
	})
}

// Too large a document is refused once, not with each comparison.
//
// faults: F056
func TestLargeDocumentIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		src := source(t, s.client(t), "d", MaxBytes(1000))
		f := follow(t, src)
		for _, size := range []int{2000, 1 << 20} {
			s.put(at("d"), strings.Repeat("x", size))
			wait(time.Minute)
			before := s.count(typeQuery)
			wait(10 * time.Minute)
			if n := s.count(typeQuery) - before; n > 65 {
				t.Errorf("%d bytes: %d reads in ten minutes", size, n)
			}
			if st := f.Status(); !errors.Is(st.LastError, datasource.ErrTooLarge) {
				t.Errorf("%d bytes: %v", size, st.LastError)
			}
		}
		s.put(at("d"), numbered(2))
		wait(time.Second)
		if last, _ := f.now(); last != 2 {
			t.Errorf("at %d", last)
		}
	})
}

// The server balances its clients, asks whether they live, and takes its time to know a new connection.
//
// faults: F080
func TestWhatTheServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.unknown = 3
		s.put(at("d"), numbered(1))
		f := follow(t, source(t, s.client(t), "d"))
		wait(time.Second)
		s.all(typeDetection, pushed{RequestID: "1"})
		s.all(typeSetupAck, pushed{RequestID: "2"})
		s.all("SomethingNewRequest", pushed{RequestID: "3"})
		synctest.Wait()
		s.mu.Lock()
		for name, r := range s.peers {
			if r.acks != 2 {
				t.Errorf("%s acknowledged %d requests", name, r.acks)
			}
		}
		s.mu.Unlock()
		dials := s.rpc.connects()
		s.all(typeReset, pushed{RequestID: "4", ServerIP: "127.0.0.1", ServerPort: "8848"})
		wait(2 * time.Second)
		if n := s.rpc.connects(); n == dials || n > dials+3 {
			t.Errorf("%d connections after the reset", n-dials)
		}
		s.put(at("d"), numbered(2))
		synctest.Wait()
		if last, _ := f.now(); last != 2 {
			t.Errorf("at %d", last)
		}
	})
}

// A connection that has gone silent is noticed, although nothing says so.
//
// faults: F080 F089
func TestSilentConnectionIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		f := follow(t, source(t, s.client(t), "d"))
		wait(time.Second)
		s.hang()
		s.put(at("d"), numbered(2))
		wait(beat + beatTimeout + time.Second)
		if f.Status().Counts.Reconnects == 0 {
			t.Error("the watch goes on")
		}
		s.heal()
		wait(15 * time.Second)
		if last, _ := f.now(); last != 2 {
			t.Errorf("at %d: %v", last, f.Status().LastError)
		}
	})
}

// Reading is allowed and listening is not: rules come by relist, and the status says why.
func TestListeningThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.answered = func(kind string, _ place) (*pb.Payload, error) {
			if kind != typeListen {
				return nil, nil
			}
			return reply(typeListenAnswer, no(codeForbidden, "authorization failed!"))
		}
		s.put(at("d"), numbered(1))
		f := follow(t, source(t, s.client(t), "d"))
		wait(5 * time.Second)
		if st := f.Status(); !errors.Is(st.LastError, ErrDenied) || st.Cause != datasource.CauseWatch {
			t.Errorf("%s: %v", st.Cause, st.LastError)
		}
		s.put(at("d"), numbered(2))
		wait(2 * time.Minute)
		if last, _ := f.now(); last != 2 {
			t.Errorf("at %d", last)
		}
	})
}

// faults: F112
func TestAccessKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		const secret = "t0p-secret"
		c := s.client(t, func(c *constant.ClientConfig) { c.AccessKey, c.SecretKey, c.AppKey = "my-key", secret, "app-key" })
		f := follow(t, source(t, c, "d"))
		wait(time.Second)
		for _, kind := range []string{typeQuery, typeListen} {
			h := s.headers[kind]
			if h["Spas-AccessKey"] != "my-key" || h["Spas-Signature"] == "" || h["Timestamp"] == "" || h["Client-AppName"] != "orders" {
				t.Errorf("%s: %v", kind, h)
			}
			for name, value := range h {
				if strings.Contains(value, secret) || strings.Contains(value, "app-key") {
					t.Errorf("%s: header %s has the secret", kind, name)
				}
			}
		}
		if last, _ := f.now(); last != 1 {
			t.Errorf("at %d", last)
		}
	})
}

func TestServersFromAnAddressServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		c := s.client(t, func(c *constant.ClientConfig) { c.Endpoint = "addresses.test:8080" })
		c.noServers = true
		doc, err := source(t, c, "d").Read(t.Context())
		if err != nil || string(doc.Data) != numbered(1) {
			t.Errorf("%s, %v", doc.Data, err)
		}
	})
}

// faults: F113
func TestIDsNameTheScope(t *testing.T) {
	s := newServer(t)
	c, public := s.client(t), s.client(t, func(c *constant.ClientConfig) { c.NamespaceId = "" })
	named := s.client(t, func(c *constant.ClientConfig) { c.NamespaceId = "public" })
	for _, id := range []struct{ got, want string }{
		{source(t, c, "d").ID(), "nacos:orders-dev/G/d"},
		{sink(t, c, "d").ID(), "nacos:orders-dev/G/d"},
		{source(t, public, "d").ID(), "nacos:G/d"},
	} {
		if id.got != id.want {
			t.Errorf("ID %q, want %q", id.got, id.want)
		}
	}
	def, err := NewSource(c, "d", "")
	must(t, err)
	if def.ID() != "nacos:orders-dev/DEFAULT_GROUP/d" {
		t.Errorf("ID %q", def.ID())
	}
	if source(t, c, "d").Note() != "" || source(t, named, "d").Note() == "" {
		t.Error("a note belongs to the namespace that is named public, and to no other")
	}
	if n := s.rpc.connects() + s.web.connects(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// Files of the TLS configuration that can't be read are an error of the read, and the connection is not made in clear.
func TestTLSFilesThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		bad := filepath.Join(t.TempDir(), "ca.pem")
		must(t, os.WriteFile(bad, []byte("no certificate"), 0o600))
		for name, config := range map[string]constant.TLSConfig{
			"no file":        {Appointed: true, Enable: true, CaFile: bad + "x"},
			"no certificate": {Appointed: true, Enable: true, CaFile: bad},
			"no pair":        {Appointed: true, Enable: true, CertFile: bad, KeyFile: bad},
		} {
			_, err := source(t, s.client(t, func(c *constant.ClientConfig) { c.TLSCfg = config }), "d").Read(t.Context())
			if err == nil || s.rpc.connects() != 0 {
				t.Errorf("%s: %v, %d connections", name, err, s.rpc.connects())
			}
		}
	})
}

// An address of IPv6 works as it does in the SDK, with brackets, and as people write it, without.
func TestServersOfIPv6(t *testing.T) {
	for address, want := range map[string][2]string{
		"::1":               {"http://[::1]:8848/nacos", "[::1]:9848"},
		"[::1]":             {"http://[::1]:8848/nacos", "[::1]:9848"},
		"https://[fd00::1]": {"https://[fd00::1]:8848/nacos", "[fd00::1]:9848"},
		"10.0.0.1":          {"http://10.0.0.1:8848/nacos", "10.0.0.1:9848"},
		"https://nacos":     {"https://nacos:8848/nacos", "nacos:9848"},
	} {
		s := constant.ServerConfig{IpAddr: address, Port: 8848}
		if got := [2]string{base(s), rpcAddress(s)}; got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
