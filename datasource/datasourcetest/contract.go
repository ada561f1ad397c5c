package datasourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// The documents that the cases put, oldest first.
var (
	v1 = document("seed=5 other=1")
	v2 = document("seed=6 other=2")
	v3 = document("seed=7 other=3")
)

const (
	rules1 = "seed=5 other=1"
	rules2 = "seed=6 other=2"
	rules3 = "seed=7 other=3"
)

// A store that is down, or silent, must not show before Start.
func constructorNoIO(x *play) {
	before := x.requests()
	checked := before >= 0
	if b, ok := x.h.(Breaker); ok {
		checked = true
		x.must(b.Break())
		x.bounded("constructor with the link broken", closeLimit, func() { x.source() })
		x.must(b.Heal())
		if s, ok := x.h.(Staller); ok {
			x.must(s.Stall())
			x.bounded("constructor with the link stalled", closeLimit, func() { x.source() })
			x.must(b.Heal())
		}
	}
	if !checked {
		x.skip("the harness implements neither Requester nor Breaker")
	}
	x.source()
	x.settle()
	if n := x.requests() - before; n > 0 {
		x.Errorf("the constructor sent %d requests", n)
	}
}

// faults: F176
func constructorOptions(x *play) {
	for name, err := range need[Misconfigured](x).Misconfigured() {
		if err == nil {
			x.Errorf("%s: accepted", name)
		}
	}
}

// What one source does to the client at its end, another one on the same client feels.
func constructorBorrows(x *play) {
	x.put(v1)
	a, b := x.start(), x.start()
	a.inForce(x.latency(), rules1)
	a.close()
	x.put(v2)
	b.inForce(x.latency(), rules2)
	x.wantDocument("a third source", x.read(x.source()), v2)
}

func constructorID(x *play) {
	a, b := x.source(), x.source()
	if a.ID() == "" || a.ID() != b.ID() {
		x.Errorf("two sources of one document have the IDs %q and %q", a.ID(), b.ID())
	}
	id := a.ID()
	x.put(v1)
	x.read(a)
	if a.ID() != id {
		x.Errorf("the ID changed from %q to %q", id, a.ID())
	}
}

func constructorNoSecrets(x *play) {
	secrets := need[Secretive](x).Secrets()
	texts := []string{x.source().ID()}
	if b, ok := x.h.(Breaker); ok {
		x.must(b.Break())
		_, err := x.tryRead(x.source())
		texts = append(texts, fmt.Sprint(err))
		x.must(b.Heal())
	}
	if d, ok := x.h.(Denier); ok {
		x.must(d.Deny())
		_, err := x.tryRead(x.source())
		texts = append(texts, fmt.Sprint(err))
	}
	for _, text := range texts {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				x.Errorf("a secret shows in %q", strings.ReplaceAll(text, s, "<secret>"))
			}
		}
	}
}

// faults: F005
func readMissing(x *play) {
	x.wantDocument("Read", x.read(x.source()), nil)
}

func readPresent(x *play) {
	src := x.source()
	x.put(v1)
	first := x.read(src)
	x.wantDocument("Read", first, v1)
	if again := x.read(src); again.Revision != first.Revision || again.Order != first.Order {
		x.Errorf("two reads of one document give the revisions %q (%d) and %q (%d)", first.Revision, first.Order, again.Revision, again.Order)
	}
	x.put(v2)
	second := x.read(src)
	if second.Revision == first.Revision {
		x.Errorf("two documents have the revision %q", first.Revision)
	}
	if second.Order < first.Order || (second.Order == first.Order && second.Order > 0) {
		x.Errorf("the newer document has order %d, the older one %d", second.Order, first.Order)
	}
	if !bytes.Equal(first.Data, v1) {
		x.Error("the bytes that the first Read handed over were changed")
	}
}

func readZeroBytes(x *play) {
	x.put([]byte{})
	x.wantDocument("Read", x.read(x.source()), []byte{})
}

// faults: F056
func readLarge(x *play) {
	big := []byte(`["` + strings.Repeat("x", 1<<20) + `"]`)
	x.put(big)
	x.wantDocument("Read", x.read(x.source()), big)
}

// Nothing on the way may tidy up: what is wrong with a document is the converter's to say.
//
// faults: F062
func readBytes(x *play) {
	for _, text := range []string{" \n[ ] \r\n", "\xef\xbb\xbf[]", `"a\u0000\"b"`, "é世界 %41+", "null"} {
		x.put([]byte(text))
		x.wantDocument("Read", x.read(x.source()), []byte(text))
	}
}

// faults: F003 F005
func readDeleted(x *play) {
	src := x.source()
	x.put(v1)
	x.read(src)
	x.must(x.h.Delete())
	x.wantDocument("Read after Delete", x.read(src), nil)
}

// The strongest consistency: a read that follows a write sees it, each time.
//
// faults: F012
func readFresh(x *play) {
	src := x.source()
	for i := range 20 {
		want := document("n=" + strconv.Itoa(i))
		x.put(want)
		x.wantDocument("Read right after Put", x.read(src), want)
	}
}

// faults: F086
func readNeighbour(x *play) {
	n := need[Neighbour](x)
	src := x.source()
	x.must(n.PutNeighbour(v2))
	x.wantDocument("Read beside a neighbour", x.read(src), nil)
	x.put(v1)
	x.must(n.PutNeighbour(v3))
	x.wantDocument("Read beside a neighbour", x.read(src), v1)
}

// faults: F005
func readBroken(x *play) {
	b := need[Breaker](x)
	src := x.source()
	check := func(when string) {
		x.Helper()
		if doc, err := x.tryRead(src); err == nil {
			x.Errorf("%s: Read of a store that can't be reached says %s", when, shown(doc))
		}
	}
	x.must(b.Break())
	check("before any read")
	x.must(b.Heal())
	x.put(v1)
	x.eventually(x.c.Recovery, func() string {
		doc, err := x.tryRead(src)
		if err != nil {
			return err.Error()
		}
		return differs(doc, v1)
	})
	x.must(b.Break())
	check("after a good read")
}

func readDenied(x *play) {
	d := need[Denier](x)
	x.put(v1)
	src := x.source()
	x.must(d.Deny())
	if doc, err := x.tryRead(src); err == nil {
		x.Errorf("Read that was refused says %s", shown(doc))
	} else if !errors.Is(err, datasource.ErrDenied) {
		x.Errorf("Read that was refused says %v, which does not wrap datasource.ErrDenied", err)
	}
}

func readCancelled(x *play) {
	x.put(v1)
	src := x.source()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	x.bounded("Read with a ctx that has ended", closeLimit, func() {
		if _, err := src.Read(ctx); err == nil && x.requests() >= 0 {
			// A local store may well answer at once; one that needs a request must not send it.
			x.Error("Read with a ctx that has ended succeeds")
		}
	})
}

// faults: F089
func readStalled(x *play) {
	s := need[Staller](x)
	src := x.source()
	x.must(s.Stall())
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit/4)
	defer cancel()
	x.bounded("Read of a silent store with a ctx of 250 ms", closeLimit/4+closeLimit, func() {
		if doc, err := src.Read(ctx); err == nil {
			x.Errorf("Read of a silent store says %s", shown(doc))
		}
	})
}

// faults: F063 F084
func watchJoinsPresent(x *play) {
	w := x.watcher()
	x.put(v1)
	last := x.read(w)
	x.put(v2)
	x.follow(w, last).sees(x.c.Latency, v2)
}

// faults: F018 F063 F093
func watchJoinsMissing(x *play) {
	w := x.watcher()
	last := x.read(w)
	x.put(v1)
	x.follow(w, last).sees(x.c.Latency, v1)
}

// faults: F063
func watchJoinsDeleted(x *play) {
	w := x.watcher()
	x.put(v1)
	last := x.read(w)
	x.must(x.h.Delete())
	x.follow(w, last).sees(x.c.Latency, nil)
}

// Away and back between read and watch: the newest is what counts, however it is found.
//
// faults: F063
func watchJoinsSameAgain(x *play) {
	w := x.watcher()
	x.put(v1)
	last := x.read(w)
	x.must(x.h.Delete())
	x.put(v2)
	x.follow(w, last).sees(x.c.Latency, v2)
}

// faults: F062
func watchJoinsLive(x *play) {
	w := x.watcher()
	f := x.follow(w, x.read(w))
	for i := range 5 {
		want := document("n=" + strconv.Itoa(i))
		x.put(want)
		f.sees(x.c.Latency, want)
	}
}

// faults: F071 F086
func watchJoinsNeighbour(x *play) {
	n := need[Neighbour](x)
	w := x.watcher()
	x.put(v1)
	f := x.follow(w, x.read(w))
	x.must(n.PutNeighbour(v3))
	x.put(v2)
	f.sees(x.c.Latency, v2)
	x.settle()
	for _, doc := range f.delivered() {
		if bytes.Equal(doc.Data, v3) {
			x.Error("the neighbour's document was delivered")
		}
	}
}

// faults: F149
func watchEndsCancelled(x *play) {
	w := x.watcher()
	x.put(v1)
	f := x.follow(w, x.read(w))
	x.put(v2)
	f.sees(x.c.Latency, v2)
	f.stop()
}

// faults: F149
func watchEndsCancelledBroken(x *play) {
	b := need[Breaker](x)
	w := x.watcher()
	f := x.follow(w, x.read(w))
	x.settle()
	x.must(b.Break())
	f.stop()
}

// faults: F089 F149
func watchEndsCancelledStalled(x *play) {
	s := need[Staller](x)
	w := x.watcher()
	last := x.read(w)
	f := x.follow(w, last)
	x.settle()
	x.must(s.Stall())
	f.stop()
	x.follow(w, last).stop() // also where the subscription itself got no answer
}

// faults: F066 F091
func watchEndsCut(x *play) {
	b := need[Breaker](x)
	w := x.watcher()
	x.put(v1)
	f := x.follow(w, x.read(w))
	x.settle()
	x.must(b.Break())
	x.put(v2)
	x.must(b.Heal())
	f.sees(x.c.Recovery, v2)
	x.put(v3)
	f.sees(x.c.Recovery, v3)
}

// faults: F064 F116
func watchEndsOwnError(x *play) {
	b := need[Breaker](x)
	need[Requester](x)
	w := x.watcher()
	x.put(v1)
	last := x.read(w)
	x.follow(w, last)
	x.settle()
	x.must(b.Break())
	x.follow(w, last) // a watch that begins broken
	before := x.requests()
	d := x.measured()
	x.pass(d)
	// The engine's backoff stands behind each end of a watch; a watch that goes on must keep to its pace.
	if n, budget := x.requests()-before, 5+int(d/time.Second); n > budget {
		x.Errorf("two watches of a broken store sent %d requests in %v, the budget is %d", n, d, budget)
	}
}

// faults: F064
func watchEndsCompacted(x *play) {
	k := need[Compacter](x)
	w := x.watcher()
	x.put(v1)
	last := x.read(w)
	x.put(v2)
	x.put(v3)
	x.must(k.Compact())
	x.follow(w, last).sees(x.c.Latency, v3)
}

// faults: F065
func watchEndsCompactedWhileCut(x *play) {
	k, b := need[Compacter](x), need[Breaker](x)
	w := x.watcher()
	x.put(v1)
	f := x.follow(w, x.read(w))
	x.settle()
	x.must(b.Break())
	x.put(v2)
	x.must(k.Compact())
	x.must(b.Heal())
	f.sees(x.c.Recovery, v2)
	x.put(v3)
	f.sees(x.c.Recovery, v3)
}

// The store moved on, the document did not: its own revision is long compacted when the watch joins it.
//
// faults: F064
func watchEndsCompactedWhileQuiet(x *play) {
	k, n := need[Compacter](x), need[Neighbour](x)
	w := x.watcher()
	x.put(v1)
	for range 3 {
		x.must(n.PutNeighbour(v3))
	}
	x.must(k.Compact())
	f := x.follow(w, x.read(w))
	x.pass(x.aWhile())
	if over, _ := f.ended(); over {
		// The read that follows may have taught the driver where to join.
		f.watch(x.read(w))
		x.pass(x.aWhile())
	}
	if over, err := f.ended(); over {
		x.Fatalf("no watch can join a quiet document: %v", err)
	}
	x.put(v2)
	f.sees(x.c.Latency, v2)
}

// faults: F091
func watchEndsRestarted(x *play) {
	r := need[Restarter](x)
	w := x.watcher()
	x.put(v1)
	f := x.follow(w, x.read(w))
	x.settle()
	x.must(r.Restart())
	x.put(v2)
	f.sees(x.c.Recovery, v2)
}

// faults: F069 F070
func watchEndsReset(x *play) {
	r := need[Resetter](x)
	w := x.watcher()
	for range 5 {
		x.put(v1)
	}
	last := x.read(w)
	f := x.follow(w, last)
	x.settle()
	x.must(r.Reset(v2))
	f.sees(x.c.Recovery, v2)
	// A watch that joins a revision which the store does not have any more must say so, not wait for it.
	g := x.follow(w, last)
	x.put(v3)
	g.sees(x.c.Recovery, v3)
}

// faults: F076 F143
func orderBurst(x *play) {
	burst(x, x.watcher())
}

// faults: F143
func orderScrambled(x *play) {
	s := need[Scrambler](x)
	w := x.watcher()
	x.must(s.Scramble())
	burst(x, w)
}

// What was delivered was read, too: a read never goes back behind it.
//
// faults: F143
func orderReadAfterDelivery(x *play) {
	w := x.watcher()
	f := x.follow(w, x.read(w))
	for i := range 10 {
		want := document("n=" + strconv.Itoa(i))
		x.put(want)
		f.sees(x.c.Latency, want)
		if doc := x.read(w); doc.Order < f.newest().Order {
			x.Fatalf("Read gives order %d after %d was delivered", doc.Order, f.newest().Order)
		}
	}
}

// burst puts numbered documents quickly; what is delivered must only go up, and end with the last.
func burst(x *play, w datasource.Watcher) {
	x.Helper()
	const n = 100
	f := x.follow(w, x.read(w))
	var last []byte
	for i := range n {
		last = document("n=" + strconv.Itoa(i))
		x.put(last)
		if i%10 == 0 {
			x.settle()
		}
	}
	f.sees(x.c.Latency, last)
	x.settle()
	newest := -1
	var order uint64
	for _, doc := range f.delivered() {
		var i int
		if _, err := fmt.Sscanf(string(doc.Data), `[{"resource":"n","count":%d}]`, &i); doc.Presence == datasource.Present && err != nil {
			x.Fatalf("delivered %s", shown(doc))
		}
		if i < newest || doc.Order < order {
			x.Fatalf("delivered number %d (order %d) after %d (order %d)", i, doc.Order, newest, order)
		}
		newest, order = i, doc.Order
	}
}

// A callback hands over; what the bytes mean is decided elsewhere.
//
// faults: F062 F137
func callbackAnyBytes(x *play) {
	w := x.watcher()
	f := x.follow(w, x.read(w))
	for _, text := range []string{"<html>", "\x00\x01", "{", "[null]", strings.Repeat("[", 5000), "[]"} {
		if err := x.h.Put([]byte(text)); err != nil {
			continue // text stores take what they can
		}
		f.sees(x.c.Latency, []byte(text))
	}
}

// Deleted, created, deleted: client libraries call back with nil, "" or an old value.
//
// faults: F017 F136 F137
func callbackNothing(x *play) {
	w := x.watcher()
	f := x.follow(w, x.read(w))
	for range 3 {
		x.put(v1)
		f.sees(x.c.Latency, v1)
		x.must(x.h.Delete())
		f.sees(x.c.Latency, nil)
	}
}

// One source's callback must not hold up another's, and the end of one watch must not end another.
//
// faults: F090 F098 F148
func callbackSiblings(x *play) {
	x.put(v1)
	a, b := x.watcher(), x.watcher()
	fa, fb := x.follow(a, x.read(a)), x.follow(b, x.read(b))
	x.put(v2)
	fa.sees(x.c.Latency, v2)
	fb.sees(x.c.Latency, v2)
	fa.stop()
	docs, hints := fa.count()
	x.put(v3)
	fb.sees(x.c.Latency, v3)
	if d, h := fa.count(); d != docs || h != hints {
		x.Error("a watch that has ended was called back")
	}
}

// faults: F003 F088 F136
func deletionDeleted(x *play) {
	w := x.watcher()
	x.put(v1)
	f := x.follow(w, x.read(w))
	x.settle()
	x.must(x.h.Delete())
	f.sees(x.c.Latency, nil)
	f.neverEmpty()
}

// Some stores tell of an expiry late, or never: then the relist finds it. The rules stay, as after a deletion.
//
// faults: F003
func deletionExpired(x *play) {
	e := need[Expirer](x)
	x.put(v1)
	l := x.start(datasource.Relist(x.c.Relist))
	l.inForce(x.latency(), rules1)
	x.must(e.Expire())
	x.eventually(x.c.Recovery, func() string {
		if s := l.Status(); s.Cause != datasource.CauseMissing || s.Presence != datasource.Missing {
			return fmt.Sprintf("presence %s, cause %q, want missing", s.Presence, s.Cause)
		}
		return ""
	})
	l.wantUpdates(rules1)
}

// faults: F014
func deletionCreatedAgain(x *play) {
	w := x.watcher()
	x.put(v1)
	f := x.follow(w, x.read(w))
	x.must(x.h.Delete())
	x.put(v2)
	f.sees(x.c.Latency, v2)
	f.neverEmpty()
}

// delivered gives what was delivered so far.
func (f *follower) delivered() []datasource.Document {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]datasource.Document{}, f.docs...)
}

// neverEmpty fails the case if a deletion was delivered as a document without bytes.
func (f *follower) neverEmpty() {
	f.x.Helper()
	f.x.settle()
	for _, doc := range f.delivered() {
		if doc.Presence == datasource.Present && len(doc.Data) == 0 {
			f.x.Error("a deletion was delivered as a present document without bytes")
		}
	}
}
