package datasourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

// sink makes a sink of the driver under test.
func (x *play) sink() writable.Sink {
	x.Helper()
	s, err := need[Sinker](x).Sink()
	x.must(err)
	if s == nil {
		x.Fatal("constructor: neither a sink nor an error")
	}
	return s
}

func (x *play) tryWrite(s writable.Sink, data []byte, expected string) (datasource.Document, error) {
	ctx, cancel := context.WithTimeout(context.Background(), x.c.Latency)
	defer cancel()
	return s.Write(ctx, data, expected)
}

// write writes, and checks what every answer must be.
func (x *play) write(s writable.Sink, data []byte, expected string) datasource.Document {
	x.Helper()
	doc, err := x.tryWrite(s, data, expected)
	if errors.Is(err, ErrUnplayable) {
		x.skip(err.Error())
	}
	if err != nil {
		x.Fatalf("Write of %q over revision %q: %v", brief(data), expected, err)
	}
	x.wantDocument("Write", doc, data)
	x.checkDocument("Write", doc)
	return doc
}

// wantConflict tries a write that must not take place.
func (x *play) wantConflict(s writable.Sink, data []byte, expected string) {
	x.Helper()
	if _, err := x.tryWrite(s, data, expected); !errors.Is(err, datasource.ErrConflict) {
		x.Errorf("Write over revision %q says %v, want a conflict", expected, err)
	}
}

func sinkNoIO(x *play) {
	need[Sinker](x)
	if b, ok := x.h.(Breaker); ok {
		x.must(b.Break())
		x.bounded("constructor with the link broken", closeLimit, func() { x.sink() })
		x.must(b.Heal())
	}
	before := x.requests()
	x.sink()
	x.settle()
	if n := x.requests() - before; n > 0 {
		x.Errorf("the constructor sent %d requests", n)
	}
}

func sinkID(x *play) {
	if s, r := x.sink().ID(), x.source().ID(); s != r {
		x.Errorf("the sink's ID is %q, the source's %q", s, r)
	}
}

func sinkCreate(x *play) {
	s := x.sink()
	x.write(s, v1, writable.Absent)
	x.wantDocument("Read after Write", x.read(x.source()), v1)
}

func sinkCreateTwice(x *play) {
	s := x.sink()
	x.write(s, v1, writable.Absent)
	x.wantConflict(s, v2, writable.Absent)
	x.wantDocument("after the conflict", x.read(s), v1)
}

func sinkReplace(x *play) {
	s := x.sink()
	first := x.write(s, v1, writable.Absent)
	second := x.write(s, v2, first.Revision)
	third := x.write(s, v3, second.Revision)
	if first.Revision == second.Revision || second.Revision == third.Revision {
		x.Errorf("revisions %q, %q, %q do not change with the document", first.Revision, second.Revision, third.Revision)
	}
	x.wantDocument("Read after three writes", x.read(x.source()), v3)
}

// faults: F140
func sinkConflict(x *play) {
	s := x.sink()
	first := x.write(s, v1, writable.Absent)
	second := x.write(s, v2, first.Revision)
	x.wantConflict(s, v3, first.Revision)
	x.wantConflict(s, v3, "a revision of another store")
	now := x.read(s)
	x.wantDocument("after the conflicts", now, v2)
	if now.Revision != second.Revision {
		x.Errorf("a write that did not take place moved the revision from %q to %q", second.Revision, now.Revision)
	}
}

// Somebody else's plain put is noticed, too.
//
// faults: F140
func sinkOvertaken(x *play) {
	s := x.sink()
	first := x.write(s, v1, writable.Absent)
	x.put(v2)
	x.wantConflict(s, v3, first.Revision)
	now := x.read(s)
	x.wantDocument("after the conflict", now, v2)
	x.write(s, v3, now.Revision)
}

// A document that is gone is not the one that was expected.
func sinkDeleted(x *play) {
	s := x.sink()
	first := x.write(s, v1, writable.Absent)
	x.must(x.h.Delete())
	x.wantConflict(s, v2, first.Revision)
	x.wantDocument("after the conflict", x.read(s), nil)
}

func sinkDeletedThenWritten(x *play) {
	s := x.sink()
	x.put(v1)
	x.must(x.h.Delete())
	x.write(s, v2, writable.Absent)
	x.wantDocument("Read after Write", x.read(x.source()), v2)
}

// The revision that a write returns is the one that reading gives, from either side.
//
// faults: F156
func sinkReadBack(x *play) {
	s, src := x.sink(), x.source()
	expected := writable.Absent
	for i := range 5 {
		data := document("n=" + strconv.Itoa(i))
		written := x.write(s, data, expected)
		for side, read := range map[string]datasource.Document{"sink": x.read(s), "source": x.read(src)} {
			x.wantDocument("read back by the "+side, read, data)
			if read.Revision != written.Revision || read.Order != written.Order {
				x.Fatalf("written as revision %q (%d), the %s reads %q (%d)", written.Revision, written.Order, side, read.Revision, read.Order)
			}
		}
		expected = written.Revision
	}
	// The same bytes again are a write like any other.
	x.write(s, document("n=4"), expected)
}

func sinkBytes(x *play) {
	s := x.sink()
	expected := writable.Absent
	for _, text := range []string{" \n[ ] \r\n", `"é世界 %41+ \\ '"`, "[]"} {
		expected = x.write(s, []byte(text), expected).Revision
		x.wantDocument("Read after Write", x.read(x.source()), []byte(text))
	}
}

// faults: F059
func sinkTooLarge(x *play) {
	limit := need[Limiter](x).Limit()
	s := x.sink()
	first := x.write(s, v1, writable.Absent)
	big := []byte("[" + strings.Repeat(" ", limit) + "]")
	before := x.requests()
	if _, err := x.tryWrite(s, big, first.Revision); !errors.Is(err, datasource.ErrTooLarge) {
		x.Errorf("Write of %d bytes says %v, want too large", len(big), err)
	}
	if n := x.requests() - before; n > 0 {
		x.Errorf("a document that is too large was sent: %d requests", n)
	}
	x.wantDocument("after the refusal", x.read(s), v1)
	fits := []byte("[" + strings.Repeat(" ", limit-2) + "]")
	x.write(s, fits, first.Revision)
}

// race lets n writers write over the same revision at once, and gives how many won.
func (x *play) race(n, round int, expected string) (winner []byte, won int) {
	x.Helper()
	x.rivals()
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		begin = make(chan struct{})
	)
	for i := range n {
		s := x.sink()
		data := document(fmt.Sprintf("round=%d writer=%d", round, i))
		wg.Go(func() {
			<-begin
			_, err := x.tryWrite(s, data, expected)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
				winner = data
			case !errors.Is(err, datasource.ErrConflict):
				x.Errorf("writer %d: %v, want a conflict", i, err)
			}
		})
	}
	close(begin)
	wg.Wait()
	return winner, won
}

// Of several writers over one revision exactly one wins, in every round.
//
// faults: F140
func sinkWriters(x *play) {
	s := x.sink()
	now := x.write(s, v1, writable.Absent)
	for round := range 20 {
		winner, won := x.race(4, round, now.Revision)
		if won != 1 {
			x.Fatalf("round %d: %d writers won, want exactly one", round, won)
		}
		now = x.read(s)
		x.wantDocument("the winner's document", now, winner)
	}
}

// faults: F140
func sinkCreators(x *play) {
	s := x.sink()
	for round := range 5 {
		winner, won := x.race(4, round, writable.Absent)
		if won != 1 {
			x.Fatalf("round %d: %d writers created the document, want exactly one", round, won)
		}
		x.wantDocument("the winner's document", x.read(s), winner)
		x.must(x.h.Delete())
	}
}

// A reader beside a writer sees one document or the other, whole, and never none.
//
// faults: F158
func sinkNoTornRead(x *play) {
	s, src := x.sink(), x.source()
	texts := [][]byte{document("short=1"), []byte("[" + strings.Repeat(" ", 100_000) + "]")}
	now := x.write(s, texts[0], writable.Absent)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	problems := make(chan string, 1)
	go func() {
		defer close(problems)
		// Less and less often, for a store whose writes take their time.
		for pause := 100 * time.Microsecond; wait(ctx, pause) == nil; pause = min(pause*11/10, 10*time.Millisecond) {
			doc, err := x.tryRead(src)
			if err != nil {
				problems <- err.Error()
				return
			}
			if !bytes.Equal(doc.Data, texts[0]) && !bytes.Equal(doc.Data, texts[1]) {
				problems <- shown(doc)
				return
			}
		}
	}()
	for i := range 40 {
		now = x.write(s, texts[(i+1)%2], now.Revision)
	}
	stop()
	if p, found := <-problems; found {
		x.Error("a reader beside the writer saw", p)
	}
}

// The writer tells its own readable at once; what the store says afterwards is no news.
//
// faults: F163
func sinkEcho(x *play) {
	s := x.sink()
	x.put(v1)
	l := x.start(datasource.Relist(x.c.Relist))
	l.inForce(x.latency(), rules1)
	written := x.write(s, v2, x.read(s).Revision)
	if err := l.Written(context.Background(), written); err != nil {
		x.Fatal("Written:", err)
	}
	l.wantUpdates(rules1, rules2)
	x.pass(x.aWhile())
	if err := l.refresh(); err != nil {
		x.Error("Refresh:", err)
	}
	l.wantUpdates(rules1, rules2)
	if st := l.Status(); st.Revision != written.Revision {
		x.Errorf("in force: revision %q, written as %q", st.Revision, written.Revision)
	}
}

// refusesWrites checks that a write which fails leaves the document alone, and that a later one works.
func refusesWrites(x *play, begin func() error, denied bool) {
	x.Helper()
	heal := need[Breaker](x)
	s := x.sink()
	first := x.write(s, v1, writable.Absent)
	x.must(begin())
	x.bounded("Write to a store that fails", x.c.Latency+closeLimit, func() {
		_, err := x.tryWrite(s, v2, first.Revision)
		switch {
		case err == nil:
			x.Error("Write to a store that fails succeeds")
		case errors.Is(err, datasource.ErrConflict):
			x.Errorf("Write to a store that fails says %v, which is no conflict", err)
		case denied && !errors.Is(err, datasource.ErrDenied):
			x.Errorf("Write that was refused says %v, which does not wrap datasource.ErrDenied", err)
		case denied && errors.Is(err, datasource.ErrUnknownOutcome):
			x.Errorf("Write that was refused says %v, but it is known that nothing was written", err)
		}
	})
	x.must(heal.Heal())
	x.writesAgain(s, v1, v2, v3)
}

// writesAgain waits until the store can be written again. The document is one of those given but the last, which is
// written.
func (x *play) writesAgain(s writable.Sink, data ...[]byte) {
	x.Helper()
	x.eventually(x.c.Recovery, func() string {
		now, err := x.tryRead(s)
		if err != nil {
			return err.Error()
		}
		known := false
		for _, d := range data {
			known = known || differs(now, d) == ""
		}
		if !known {
			x.Fatalf("half a write is in the store: %s", shown(now))
		}
		_, err = x.tryWrite(s, data[len(data)-1], now.Revision)
		return problemOf(err)
	})
	x.wantDocument("at the end", x.read(s), data[len(data)-1])
}

// faults: F156
func sinkBroken(x *play) { refusesWrites(x, need[Breaker](x).Break, false) }

// faults: F156
func sinkDenied(x *play) { refusesWrites(x, need[Denier](x).Deny, true) }

func sinkStalled(x *play) { refusesWrites(x, need[Staller](x).Stall, false) }

func sinkCancelled(x *play) {
	s := x.sink()
	first := x.write(s, v1, writable.Absent)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	x.bounded("Write with a ctx that has ended", closeLimit, func() {
		if _, err := s.Write(ctx, v2, first.Revision); err == nil {
			x.Error("Write with a ctx that has ended succeeds")
		}
	})
	x.writesAgain(s, v1, v2, v3)
}

// The link breaks while writes are under way, again and again: each write is in the store whole or not at all, and the
// answer is never a wrong yes.
func sinkBrokenMidWrite(x *play) {
	b := need[Breaker](x)
	s := x.sink()
	x.write(s, document("n=0"), writable.Absent)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := x.again(ctx, 10*time.Millisecond, math.MaxInt, flicker(b)); err != nil {
			x.Error("harness:", err)
		}
	})
	const (
		enough = 50 // attempts
		least  = 3  // acknowledged ones: a client that pauses between dials fails at once meanwhile, and goes on
	)
	end := time.Now().Add(x.c.Recovery + 20*x.c.Latency)
	sure, sent, acknowledged := 0, 0, 0 // the last number that was acknowledged, and that was sent
	for i := 0; i < enough || acknowledged < least && time.Now().Before(end); i++ {
		_ = wait(ctx, time.Millisecond)
		now, err := x.tryRead(s)
		if err != nil {
			continue
		}
		var n int
		if _, err := fmt.Sscanf(string(now.Data), `[{"resource":"n","count":%d}]`, &n); err != nil || n < sure || n > sent {
			x.Errorf("in the store: %s, acknowledged: %d, sent: %d", shown(now), sure, sent)
			break
		}
		sent = i + 1
		if _, err := x.tryWrite(s, document("n="+strconv.Itoa(sent)), now.Revision); err == nil {
			sure = sent
			acknowledged++
		}
	}
	stop()
	wg.Wait()
	x.must(b.Heal())
	x.eventually(x.c.Recovery, func() string {
		_, err := x.tryRead(s)
		return problemOf(err)
	})
	if acknowledged == 0 && !x.Failed() {
		x.Error("not one write was acknowledged: the case showed nothing")
	}
}

// faults: F164
func sinkRestarted(x *play) {
	r := need[Restarter](x)
	s := x.sink()
	first := x.write(s, v1, writable.Absent)
	x.must(r.Restart())
	x.eventually(x.c.Recovery, func() string {
		doc, err := x.tryRead(s)
		if err != nil {
			return err.Error()
		}
		return differs(doc, v1)
	})
	if now := x.read(s); now.Revision != first.Revision {
		x.Errorf("the restart moved the revision from %q to %q", first.Revision, now.Revision)
	}
	x.writesAgain(s, v1, v2)
}
