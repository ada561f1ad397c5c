package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sentinel/orders/flow"

func source(t testing.TB, c redis.UniversalClient, opts ...Option) *Source {
	t.Helper()
	s, err := NewSource(c, key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sink(t testing.TB, c redis.UniversalClient, opts ...Option) *Sink {
	t.Helper()
	s, err := NewSink(c, key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// follow runs Watch until the test ends. hints has one item for each hint, ended the result.
func follow(t testing.TB, s *Source) (hints chan struct{}, ended chan error, cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	hints, ended = make(chan struct{}, 1<<12), make(chan error, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		ended <- s.Watch(ctx, datasource.Document{}, func(d datasource.Document) {
			if d.Presence != datasource.Unknown {
				t.Errorf("delivered %v, not a hint", d.Presence)
			}
			hints <- struct{}{}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-over
	})
	return hints, ended, cancel
}

func drain(c chan struct{}) int {
	n := 0
	for {
		select {
		case <-c:
			n++
		default:
			return n
		}
	}
}

func TestConstructorsCheckAndSendNothing(t *testing.T) {
	s := newServer()
	c := s.client(t)
	shared, err := NewSubscriptions(c)
	if err != nil {
		t.Fatal(err)
	}
	var none *redis.Client
	var noCluster *redis.ClusterClient
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	for name, made := range map[string]func() error{
		"no client":         func() error { _, err := NewSource(nil, key); return err },
		"nil client":        func() error { _, err := NewSource(none, key); return err },
		"nil cluster":       func() error { _, err := NewSink(noCluster, key); return err },
		"ring":              func() error { _, err := NewSource(ring, key); return err },
		"no key":            func() error { _, err := NewSource(c, ""); return err },
		"no key, sink":      func() error { _, err := NewSink(c, ""); return err },
		"nil option":        func() error { _, err := NewSource(c, key, nil); return err },
		"timeout":           func() error { _, err := NewSource(c, key, Timeout(0)); return err },
		"max bytes":         func() error { _, err := NewSink(c, key, MaxBytes(-1)); return err },
		"no channel":        func() error { _, err := NewSink(c, key, Channel("")); return err },
		"short silence":     func() error { _, err := NewSource(c, key, Silence(30)); return err },
		"nil subscriptions": func() error { _, err := NewSource(c, key, Shared(nil)); return err },
		"silence, shared":   func() error { _, err := NewSource(c, key, Shared(shared), Silence(time.Minute)); return err },
		"keyspace, sink":    func() error { _, err := NewSink(c, key, Keyspace()); return err },
		"shared, sink":      func() error { _, err := NewSink(c, key, Shared(shared)); return err },
		"channel, shared":   func() error { _, err := NewSubscriptions(c, Channel("x")); return err },
		"no client, shared": func() error { _, err := NewSubscriptions(nil); return err },
	} {
		if made() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewSource(ring, key); !errors.Is(err, datasource.ErrUnsupported) {
		t.Errorf("ring: %v is not ErrUnsupported", err)
	}
	if _, err := NewSource(struct{ redis.UniversalClient }{c}, key, Keyspace()); !errors.Is(err, datasource.ErrUnsupported) {
		t.Errorf("Keyspace on a client of unknown type: %v is not ErrUnsupported", err)
	}
	third := s.client(t, func(o *redis.Options) { o.DB = 3 })
	for _, id := range []struct{ got, want string }{
		{source(t, c, Shared(shared), Channel("rules"), Keyspace()).ID(), "redis:" + key},
		{sink(t, c).ID(), "redis:" + key},
		{source(t, third).ID(), "redis/3:" + key},
		{sink(t, third).ID(), "redis/3:" + key},
	} {
		if id.got != id.want {
			t.Errorf("ID %q, want %q", id.got, id.want)
		}
	}
	if n := s.count("dial"); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// faults: F005 F006
func TestReadTellsMissingEmptyAndPresentApart(t *testing.T) {
	for _, resp2 := range []bool{false, true} {
		for _, astray := range []bool{false, true} {
			t.Run(fmt.Sprintf("resp2=%v,astray=%v", resp2, astray), func(t *testing.T) {
				s := newServer()
				s.resp2 = resp2
				src := source(t, s.client(t))
				src.doc.kind.astray = astray
				read := func(want datasource.Presence, data string) datasource.Document {
					t.Helper()
					doc, err := src.Read(t.Context())
					if err != nil || doc.Presence != want || string(doc.Data) != data {
						t.Fatalf("got %v %q (%v), want %v %q", doc.Presence, doc.Data, err, want, data)
					}
					return doc
				}
				if d := read(datasource.Missing, ""); d.Revision != "" {
					t.Errorf("a missing key has revision %q", d.Revision)
				}
				s.put(key, "")
				empty := read(datasource.Present, "")
				s.put(key, "[]")
				first := read(datasource.Present, "[]")
				if again := read(datasource.Present, "[]"); again.Revision != first.Revision || &again.Data[0] != &first.Data[0] {
					t.Error("an unchanged document was hashed and kept again")
				}
				if first.Revision == empty.Revision || len(first.Revision) != 64 {
					t.Errorf("revisions %q and %q", empty.Revision, first.Revision)
				}
				s.remove(key, "del")
				read(datasource.Missing, "")
				s.put(key, "")
				read(datasource.Present, "")
			})
		}
	}
}

func TestReadIsOneRequestWhateverTheKeyHolds(t *testing.T) {
	s := newServer()
	src := source(t, s.client(t))
	requests := func() int { return s.count("get") + s.count("getrange") }
	for _, step := range []func(){func() {}, func() { s.put(key, "") }, func() { s.put(key, "[]") }, func() { s.remove(key, "expired") }} {
		step()
		if _, err := src.Read(t.Context()); err != nil {
			t.Fatal(err) // it learns
		}
		before := requests()
		for range 5 {
			if _, err := src.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := requests() - before; n != 5 {
			t.Errorf("%d requests for 5 reads", n)
		}
	}
}

func TestHugeValueStaysOnTheServer(t *testing.T) {
	s := newServer()
	s.put(key, strings.Repeat("x", 1<<20))
	var seen int
	s.answered = func(_ *peer, cmd []string) bool {
		if cmd[0] == "getrange" {
			fmt.Sscan(cmd[3], &seen)
		}
		return true
	}
	src := source(t, s.client(t), MaxBytes(100))
	if _, err := src.Read(t.Context()); !errors.Is(err, datasource.ErrTooLarge) {
		t.Fatalf("%v is not ErrTooLarge", err)
	}
	if s.count("get") != 0 || seen != 100 {
		t.Errorf("asked up to byte %d", seen)
	}
	s.put(key, strings.Repeat("x", 100))
	if doc, err := src.Read(t.Context()); err != nil || len(doc.Data) != 100 {
		t.Errorf("%d bytes, %v", len(doc.Data), err)
	}
}

// faults: F019
func TestReadErrorsSayWhich(t *testing.T) {
	s := newServer()
	s.put(key, "[]")
	src := source(t, s.client(t))
	for name, reply := range map[string]string{
		"auth":     "-NOAUTH Authentication required.\r\n",
		"password": "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
		"acl":      "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n",
		"loading":  "-LOADING Redis is loading the dataset in memory\r\n",
		"unknown":  "-ERR unknown command 'getrange', with args beginning with: 'secret-document' \r\n",
		"type":     "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
	} {
		for _, astray := range []bool{false, true} {
			src.doc.kind.astray = astray
			s.set(func() {
				s.fault = func(_ *peer, cmd []string) string {
					if cmd[0] == "getrange" {
						return reply
					}
					return ""
				}
			})
			_, err := src.Read(t.Context())
			ok := map[string]bool{
				"auth": redis.IsAuthError(err), "password": redis.IsAuthError(err), "acl": redis.IsPermissionError(err),
				"loading": redis.IsLoadingError(err), "unknown": errors.Is(err, errUnknownCommand), "type": errors.Is(err, ErrWrongType),
			}[name]
			if !ok || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s (astray %v): %v", name, astray, err)
			}
		}
	}
}

func TestReadEndsWithItsContextAndItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := s.client(t)
		src := source(t, c, Timeout(2*time.Second))
		if _, err := src.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.mute = true })
		start := time.Now()
		_, err := src.Read(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start = time.Now()
		_, err = src.Read(ctx)
		if !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		time.Sleep(10 * time.Second) // fake time: the client's own time-out ends what was begun
	})
}

// faults: F075 F084 F093
func TestHintComesOnceTheSubscriptionIsInPlaceAndForEachMessage(t *testing.T) {
	for _, resp2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.resp2 = resp2
			src := source(t, s.client(t), Channel("rules"))
			subscribed := false
			s.fault = func(_ *peer, cmd []string) string { subscribed = subscribed || cmd[0] == "subscribe"; return "" }
			hints, _, cancel := follow(t, src)
			<-hints
			if !subscribed {
				t.Error("hint before the subscription")
			}
			s.announce("rules", "[]")
			s.announce("other", "[]")
			<-hints
			synctest.Wait()
			if n := drain(hints); n != 0 {
				t.Errorf("%d hints too many", n)
			}
			start := time.Now()
			cancel()
			synctest.Wait()
			if n := s.subscriptions(); n != 0 || time.Since(start) != 0 {
				t.Errorf("%d subscriptions left %v after the end", n, time.Since(start))
			}
		})
	}
}

// faults: F091 F116
func TestWatchEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		src := source(t, s.client(t))
		hints, ended, _ := follow(t, src)
		<-hints
		s.set(func() { s.down = true })
		s.kill()
		if err := <-ended; err == nil {
			t.Error("no reason")
		}
		dials := s.count("dial")
		_, ended, _ = follow(t, src)
		if err := <-ended; !errors.Is(err, errRefused) {
			t.Errorf("%v does not say why", err)
		}
		time.Sleep(time.Hour)
		if n := s.count("dial") - dials; n > 1 {
			t.Errorf("%d connections tried after one Watch", n)
		}
	})
}

// faults: F077 F089
func TestSilentServerEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		src := source(t, s.client(t), Silence(20*time.Second))
		hints, ended, _ := follow(t, src)
		<-hints
		time.Sleep(10 * time.Minute)
		if n := s.count("ping"); n < 59 || n > 60 {
			t.Errorf("%d pings in ten minutes", n)
		}
		s.set(func() { s.mute = true })
		start := time.Now()
		err := <-ended
		if d := time.Since(start); d > 20*time.Second || d < 10*time.Second {
			t.Errorf("noticed after %v: %v", d, err)
		}
	})
}

// The server is alive and answers pings, but it is the old master and is told of nothing.
//
// faults: F077 F082
func TestBlindSubscriptionIsRenewedOnceAReadFindsAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		src := source(t, s.client(t), Silence(10*time.Second))
		hints, ended, _ := follow(t, src)
		<-hints
		read := func() {
			if _, err := src.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		read()
		time.Sleep(time.Minute)
		s.set(func() { s.deaf = true })
		s.put(key, "[1]")
		s.announce(key, "[1]")
		read() // the relist
		synctest.Wait()
		if src.Note() != "" {
			t.Error("no time was left for the message")
		}
		time.Sleep(doubtAfter)
		synctest.Wait()
		if n := s.count("subscribe"); n != 2 || drain(hints) != 1 {
			t.Fatalf("%d subscriptions, want a second one and a hint", n)
		}
		if !strings.Contains(src.Note(), "without a message") {
			t.Errorf("note %q", src.Note())
		}
		read()
		s.put(key, "[2]") // again at once: a writer that never publishes does not cost a connection each time
		read()
		time.Sleep(doubtAfter)
		synctest.Wait()
		if n := s.count("subscribe"); n != 2 {
			t.Errorf("%d subscriptions", n)
		}
		s.set(func() { s.deaf = false })
		s.announce(key, "[2]")
		<-hints
		if src.Note() != "" {
			t.Errorf("note %q after a message", src.Note())
		}
		if n := s.subscriptions(); n != 1 || len(ended) != 0 {
			t.Errorf("%d subscriptions, %d ends", n, len(ended))
		}
	})
}

// faults: F123 F148
func TestHundredReconnectsLeaveOneSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := s.client(t)
		shared, _ := NewSubscriptions(c)
		src := source(t, c, Shared(shared))
		for range 100 {
			hints, ended, _ := follow(t, src)
			<-hints
			s.kill()
			<-ended
		}
		hints, _, cancel := follow(t, src)
		<-hints
		synctest.Wait()
		if n := s.subscriptions(); n != 1 {
			t.Errorf("%d subscriptions", n)
		}
		s.announce(key, "")
		<-hints
		synctest.Wait()
		if n := drain(hints); n != 0 {
			t.Errorf("%d hints too many", n)
		}
		cancel()
		synctest.Wait()
		if n := s.connections(); n > 1 {
			t.Errorf("%d connections", n)
		}
		if len(shared.links) != 0 {
			t.Errorf("%d links", len(shared.links))
		}
	})
}

// faults: F076 F143
func TestBurstOfMessagesNeverBlocksTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		src := source(t, s.client(t))
		hints, _, _ := follow(t, src)
		<-hints
		for i := range 1000 {
			s.put(key, fmt.Sprint(i))
			s.announce(key, fmt.Sprint(i))
		}
		synctest.Wait()
		if n := drain(hints); n != 1000 {
			t.Errorf("%d of 1000 messages handed over", n)
		}
		if doc, err := src.Read(t.Context()); err != nil || string(doc.Data) != "999" {
			t.Errorf("%q %v", doc.Data, err)
		}
	})
}

func TestOneConnectionServesAThousandSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := s.client(t)
		shared, _ := NewSubscriptions(c)
		hints := make([]chan struct{}, 1000)
		cancels := make([]context.CancelFunc, len(hints))
		name := func(i int) string { return fmt.Sprintf("rules/%d", i/2) } // two sources for each key
		for i := range hints {
			src, err := NewSource(c, name(i), Shared(shared))
			if err != nil {
				t.Fatal(err)
			}
			hints[i], _, cancels[i] = follow(t, src)
		}
		synctest.Wait()
		if s.connections() != 1 || s.subscriptions() != 500 {
			t.Errorf("%d connections, %d subscriptions", s.connections(), s.subscriptions())
		}
		for i := range hints {
			if drain(hints[i]) == 0 {
				t.Fatalf("source %d got no hint", i)
			}
		}
		s.announce(name(7), "")
		synctest.Wait()
		for i := range hints {
			if n := drain(hints[i]); n != 0 && i != 6 && i != 7 || n != 1 && (i == 6 || i == 7) {
				t.Errorf("source %d got %d hints", i, n)
			}
		}
		// The first of the two leaves and joins again: the second keeps its subscription meanwhile.
		cancels[6]()
		synctest.Wait()
		s.announce(name(7), "")
		<-hints[7]
		again, _ := NewSource(c, name(6), Shared(shared))
		more, _, stop := follow(t, again)
		<-more
		if n := s.count("subscribe"); n != 500 {
			t.Errorf("%d subscriptions were made", n)
		}
		stop()
		for _, cancel := range cancels {
			cancel()
		}
		synctest.Wait()
		if n := s.connections(); n != 0 {
			t.Errorf("%d connections left", n)
		}
	})
}

// faults: F097
func TestForbiddenChannelEndsOneSourceAndNotItsSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.fault = func(_ *peer, cmd []string) string {
			if cmd[0] == "subscribe" && cmd[1] == "forbidden" {
				return "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n"
			}
			return ""
		}
		c := s.client(t)
		shared, _ := NewSubscriptions(c)
		good, goodEnd, _ := follow(t, source(t, c, Shared(shared), Channel("a")))
		bad, badEnd, _ := follow(t, source(t, c, Shared(shared), Channel("forbidden")))
		late, _, _ := follow(t, source(t, c, Shared(shared), Channel("b")))
		if err := <-badEnd; !redis.IsPermissionError(err) || !strings.Contains(err.Error(), `"forbidden"`) {
			t.Errorf("%v does not say which", err)
		}
		<-good
		<-late
		s.announce("a", "")
		<-good
		synctest.Wait()
		if len(bad) != 0 || len(goodEnd) != 0 || s.connections() != 1 {
			t.Errorf("%d hints, %d ends, %d connections", len(bad), len(goodEnd), s.connections())
		}
	})
}

// A subscription that was given up and taken again must be confirmed again, or a message between is lost.
func TestChannelTakenAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := s.client(t)
		shared, _ := NewSubscriptions(c)
		keep, _, _ := follow(t, source(t, c, Shared(shared), Channel("other")))
		<-keep
		for range 50 {
			hints, _, cancel := follow(t, source(t, c, Shared(shared), Channel("rules")))
			cancel()
			synctest.Wait()
			drain(hints)
			again, _, stop := follow(t, source(t, c, Shared(shared), Channel("rules")))
			<-again
			synctest.Wait()
			drain(again)
			s.announce("rules", "")
			<-again
			stop()
		}
		synctest.Wait()
		if n := s.subscriptions(); n != 1 {
			t.Errorf("%d subscriptions", n)
		}
	})
}

// faults: F079
func TestNoteSaysWhatKeyspaceNotificationsLack(t *testing.T) {
	for _, c := range []struct{ name, config, reply, note string }{
		{"off", "", "", `"K$gx" is needed`},
		{"no keyspace class", "E$gx", "", "are off"},
		{"no deletions", "K$", "", "lack deletion or expiry"},
		{"all", "AKE", "", ""},
		{"enough", "K$gx", "", ""},
		{"forbidden", "", "-NOPERM this user has no permissions to run the 'config|get' command\r\n", "NOPERM"},
		{"renamed", "", "-ERR unknown command 'CONFIG', with args beginning with: 'get' \r\n", "does not know the command"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.config = c.config
				s.fault = func(_ *peer, cmd []string) string {
					if cmd[0] == "config" {
						return c.reply
					}
					return ""
				}
				src := source(t, s.client(t), Keyspace())
				hints, _, _ := follow(t, src)
				<-hints
				if note := src.Note(); !strings.Contains(note, c.note) || (c.note == "") != (note == "") {
					t.Errorf("note %q", note)
				}
			})
		})
	}
}

func TestKeyspaceTellsOfSilentWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.config = "KA"
		src := source(t, s.client(t), Keyspace())
		hints, _, _ := follow(t, src)
		<-hints
		synctest.Wait()
		drain(hints)
		for _, change := range []func(){
			func() { s.put(key, "[]") }, func() { s.remove(key, "del") }, func() { s.put(key, "[1]") }, func() { s.remove(key, "expired") },
		} {
			change()
			<-hints
		}
	})
}

// faults: F160 F156 F010
func TestWriteSetsAndPublishesTheDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := s.client(t)
		src := source(t, c, Channel("rules"))
		hints, _, _ := follow(t, src)
		<-hints
		var message string
		s.fault = func(_ *peer, cmd []string) string {
			if cmd[0] == "publish" {
				message = cmd[1] + " " + cmd[2]
			}
			if cmd[0] == "set" && !slices.Contains(cmd, "keepttl") {
				t.Errorf("%v drops the time to live", cmd)
			}
			return ""
		}
		k := sink(t, c, Channel("rules"))
		first, err := k.Write(t.Context(), []byte("[1]"), writable.Absent)
		if err != nil {
			t.Fatal(err)
		}
		<-hints
		if message != "rules [1]" {
			t.Errorf("published %q", message)
		}
		if read, err := src.Read(t.Context()); err != nil || read.Revision != first.Revision || string(first.Data) != "[1]" {
			t.Errorf("read %v %v, written %v", read, err, first)
		}
		if _, err := k.Write(t.Context(), []byte("[2]"), first.Revision); err != nil {
			t.Error(err)
		}
	})
}

// faults: F140
func TestWriteConflicts(t *testing.T) {
	s := newServer()
	k := sink(t, s.client(t))
	conflict := func(expected, now string) {
		t.Helper()
		_, err := k.Write(t.Context(), []byte("[9]"), expected)
		var e *datasource.Error
		if !errors.Is(err, datasource.ErrConflict) || !errors.As(err, &e) || e.Op != "write" || e.SourceID != k.ID() {
			t.Fatalf("%v is not a conflict", err)
		}
		if want := revision([]byte(now)); now != "" && e.Revision != want {
			t.Errorf("current revision %q, want %q", e.Revision, want)
		}
		if v, _ := s.value(key); v != now {
			t.Errorf("the key holds %q, want %q", v, now)
		}
	}
	conflict(revision([]byte("[0]")), "") // none there
	s.put(key, "[1]")
	conflict(writable.Absent, "[1]")
	conflict(revision([]byte("[0]")), "[1]")
	s.put(key, "")
	_, err := k.Write(t.Context(), []byte("[9]"), writable.Absent)
	if !errors.Is(err, datasource.ErrConflict) {
		t.Errorf("an empty document counts as none: %v", err)
	}
	s.put(key, "[1]")
	// Somebody's plain SET comes between the comparison and the write.
	s.set(func() {
		s.fault = func(_ *peer, cmd []string) string {
			if cmd[0] == "multi" {
				s.store(key, "[2]")
			}
			return ""
		}
	})
	conflict(revision([]byte("[1]")), "[2]")
}

func TestOneOfTenWritersWins(t *testing.T) {
	s := newServer()
	c := s.client(t)
	expected := writable.Absent
	for round := range 20 {
		results := make(chan error, 10)
		docs := make(chan datasource.Document, 10)
		for i := range 10 {
			go func() {
				doc, err := sink(t, c).Write(t.Context(), fmt.Appendf(nil, "[%d]", 10*round+i), expected)
				if err == nil {
					docs <- doc
				}
				results <- err
			}()
		}
		for range 10 {
			if err := <-results; err != nil && !errors.Is(err, datasource.ErrConflict) {
				t.Fatal(err)
			}
		}
		if len(docs) != 1 {
			t.Fatalf("round %d: %d winners", round, len(docs))
		}
		expected = (<-docs).Revision
	}
}

func TestWriteRefusedByTheServerWroteNothing(t *testing.T) {
	for name, reply := range map[string]string{
		"publish": "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n",
		"set":     "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
		"watch":   "-NOPERM this user has no permissions to run the 'watch' command\r\n",
		"exec":    "-READONLY You can't write against a read only replica.\r\n",
	} {
		s := newServer()
		s.put(key, "[1]")
		s.fault = func(_ *peer, cmd []string) string {
			if cmd[0] == name {
				return reply
			}
			return ""
		}
		_, err := sink(t, s.client(t)).Write(t.Context(), []byte("[2]"), revision([]byte("[1]")))
		if err == nil || errors.Is(err, datasource.ErrUnknownOutcome) || errors.Is(err, datasource.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		if name != "exec" && strings.Contains(err.Error(), "EXECABORT") {
			t.Errorf("%s: %v does not say why", name, err)
		}
		if v, _ := s.value(key); v != "[1]" {
			t.Errorf("%s: the key holds %q", name, v)
		}
	}
	s := newServer()
	k := sink(t, s.client(t), MaxBytes(3))
	if _, err := k.Write(t.Context(), []byte("[10]"), writable.Absent); !errors.Is(err, datasource.ErrTooLarge) || s.count("dial") != 0 {
		t.Errorf("%v, %d connections", err, s.count("dial"))
	}
	s.set(func() { s.types[key] = true })
	if _, err := k.Write(t.Context(), []byte("[1]"), writable.Absent); !errors.Is(err, ErrWrongType) || strings.Count(err.Error(), ErrWrongType.Error()) != 1 {
		t.Errorf("%v is not ErrWrongType, said once", err)
	}
}

func TestLostAnswerIsReadBack(t *testing.T) {
	s := newServer()
	k := sink(t, s.client(t))
	cut := func(when string, effect bool) {
		s.set(func() {
			s.fault, s.answered = nil, nil
			done := false
			if !effect { // the request never arrives
				s.fault = func(_ *peer, cmd []string) string {
					if cmd[0] == when && !done {
						return "+lost\r\n"
					}
					return ""
				}
			}
			s.answered = func(_ *peer, cmd []string) bool {
				if cmd[0] != when || done {
					return true
				}
				done = true
				return false
			}
		})
	}
	cut("exec", true)
	first, err := k.Write(t.Context(), []byte("[1]"), writable.Absent)
	if err != nil {
		t.Fatalf("it was written, and a read-back could tell: %v", err)
	}
	cut("exec", false)
	if _, err := k.Write(t.Context(), []byte("[2]"), first.Revision); !errors.Is(err, datasource.ErrUnknownOutcome) {
		t.Errorf("%v is not ErrUnknownOutcome", err)
	}
	cut("watch", false)
	if _, err := k.Write(t.Context(), []byte("[2]"), first.Revision); err == nil || errors.Is(err, datasource.ErrUnknownOutcome) {
		t.Errorf("nothing was sent, and yet: %v", err)
	}
	cut("", true)
	if _, err := k.Write(t.Context(), []byte("[2]"), first.Revision); err != nil {
		t.Error(err)
	}
}

func TestWriteGivenUpBeforeItWasSentIsNeverSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(key, "[1]")
		release := make(chan struct{})
		k := sink(t, s.client(t), Timeout(time.Second))
		var once bool
		s.fault = func(p *peer, cmd []string) string {
			if cmd[0] == "getrange" && !once {
				once = true
				s.mute = true // this answer comes late
				go func() {
					<-release
					s.set(func() { s.mute = false; p.send(bulk("[1]")) })
				}()
			}
			return ""
		}
		_, err := k.Write(t.Context(), []byte("[2]"), revision([]byte("[1]")))
		if err == nil || errors.Is(err, datasource.ErrUnknownOutcome) {
			t.Errorf("nothing was sent, and yet: %v", err)
		}
		close(release)
		time.Sleep(time.Minute)
		if v, _ := s.value(key); v != "[1]" || s.count("exec") != 0 {
			t.Errorf("it was written after it had failed: %q", v)
		}
	})
}

func TestSecretsStayOut(t *testing.T) {
	s := newServer()
	s.fault = func(_ *peer, cmd []string) string {
		if cmd[0] == "hello" || cmd[0] == "auth" {
			return "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
		}
		return ""
	}
	c := s.client(t)
	src := source(t, c)
	_, err := src.Read(t.Context())
	if !redis.IsAuthError(err) {
		t.Errorf("%v is not an authentication error", err)
	}
	watch := src.Watch(t.Context(), datasource.Document{}, func(datasource.Document) {})
	_, write := sink(t, c).Write(t.Context(), []byte("[]"), "")
	for _, text := range []string{src.ID(), err.Error(), watch.Error(), write.Error()} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("%q holds the password", text)
		}
	}
}
