package datasourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// faults: F100
func startOnce(x *play) {
	x.put(v1)
	l := x.start()
	x.pass(x.aWhile())
	l.wantUpdates(rules1)
}

// faults: F018 F093 F096
func startMissingThenCreated(x *play) {
	l := x.start()
	x.settle()
	x.put(v1)
	l.inForce(x.latency(), rules1)
	x.put(v2)
	l.inForce(x.latency(), rules2)
}

// faults: F095
func startBadThenGood(x *play) {
	x.put([]byte("nonsense"))
	l := x.start(datasource.OnStart(datasource.Empty))
	x.put(v1)
	l.inForce(x.latency(), rules1)
}

// faults: F094 F096
func startFailedThenAgain(x *play) {
	x.put([]byte("nonsense"))
	l := x.open(x.source())
	if err := l.Start(context.Background()); !errors.Is(err, datasource.ErrDecode) {
		x.Fatalf("Start on nonsense says %v", err)
	}
	x.put(v1)
	l.mustStart()
	l.inForce(x.latency(), rules1)
	x.put(v2)
	l.inForce(x.latency(), rules2)
}

// faults: F099 F150
func startDownThenUp(x *play) {
	b := need[Breaker](x)
	x.put(v1)
	x.must(b.Break())
	l := x.start(datasource.OnStart(datasource.Empty))
	l.wantUpdates()
	if err := l.Status().LastError; err == nil {
		x.Error("the status does not say that the store is down")
	}
	x.must(b.Heal())
	l.inForce(x.c.Recovery, rules1)
	x.put(v2)
	l.inForce(x.latency(), rules2)
}

// faults: F150
func startDownFails(x *play) {
	b := need[Breaker](x)
	x.must(b.Break())
	l := x.open(x.source())
	if err := l.Start(context.Background()); err == nil {
		x.Error("Start succeeds although the store is down")
	}
}

// faults: F092
func sequenceE1RapidSaves(x *play) {
	save := x.h.Put
	if r, ok := x.h.(Replacer); ok {
		save = r.Replace
	}
	x.must(save(v1))
	l := x.start()
	l.inForce(x.latency(), rules1)
	for i, v := range [][]byte{v1, v2, v3} {
		x.must(save(v))
		l.inForce(x.latency(), []string{rules1, rules2, rules3}[i])
	}
	for i := range 20 {
		x.must(save(document("n=" + strconv.Itoa(i))))
	}
	l.inForce(x.latency(), "n=19")
	l.neverWiped()
}

// faults: F001
func sequenceE2SlowTruncate(x *play) {
	tr := need[Truncater](x)
	x.put(v1)
	l := x.start(datasource.OnMissing(datasource.Clear), datasource.OnEmptyList(datasource.Clear))
	l.inForce(x.latency(), rules1)
	x.must(tr.Truncate())
	x.pass(x.idlePeriod() + x.aWhile())
	l.wantUpdates(rules1)
	x.must(tr.Fill(v2))
	l.inForce(x.latency(), rules2)
	l.wantUpdates(rules1, rules2)
}

// faults: F101 F102
func sequenceE3Swap(x *play) {
	s := need[Swapper](x)
	x.must(s.Swap(v1))
	l := x.start(datasource.OnMissing(datasource.Clear), datasource.OnEmptyList(datasource.Clear))
	l.inForce(x.latency(), rules1)
	x.must(s.Swap(v2))
	l.inForce(x.latency(), rules2)
	x.must(s.Swap(v3))
	l.inForce(x.latency(), rules3)
	l.wantUpdates(rules1, rules2, rules3)
}

// faults: F063
func sequenceE5Gap(x *play) {
	x.watcher()
	i, src := x.intercept(x.source())
	i.beforeWatch = func() { x.put(v1) }
	l := x.startOver(src)
	l.inForce(x.c.Latency, rules1)
}

// faults: F144
func sequenceE5DeletePut(x *play) {
	d := need[DeletePutter](x)
	x.put(v1)
	l := x.start(datasource.OnMissing(datasource.Clear), datasource.OnEmptyList(datasource.Clear))
	l.inForce(x.latency(), rules1)
	x.must(d.DeletePut(v2))
	l.inForce(x.latency(), rules2)
	l.wantUpdates(rules1, rules2)
}

// faults: F073 F087 F125
func sequenceE10FailedApply(x *play) {
	x.put(v1)
	l := x.start()
	l.inForce(x.latency(), rules1)
	l.fail(1)
	x.put(v2)
	l.inForce(x.latency()+x.c.Recovery, rules2)
	l.wantUpdates(rules1, rules2)
	if n := l.Status().Counts.ApplyFailures; n != 1 {
		x.Errorf("%d failed applies counted, want 1", n)
	}
}

// faults: F126
func sequenceE11Drift(x *play) {
	x.put(v1)
	l := x.start()
	l.inForce(x.latency(), rules1)
	l.drift()
	x.put(v1)
	x.eventually(x.latency(), func() string {
		if l.InForce() || l.Status().Drift {
			return ""
		}
		return "neither reconciled nor shown as drift"
	})
	if err := l.refresh(); err != nil {
		x.Error("Refresh:", err)
	}
	if !l.InForce() || l.Status().Drift || l.now() != rules1 {
		x.Errorf("after Refresh: in force %v, drift %v, rules %q", l.InForce(), l.Status().Drift, l.now())
	}
}

// faults: F166 F169 F170
func sequenceE13Snapshot(x *play) {
	b := need[Breaker](x)
	snaps := &snapshots{}
	x.put(v1)
	l := x.start(datasource.Snapshots(snaps))
	l.inForce(x.latency(), rules1)
	l.close()
	x.must(b.Break())
	x.put(v2)
	l = x.start(datasource.Snapshots(snaps), datasource.OnStart(datasource.Snapshot))
	l.wantUpdates(rules1)
	if s := l.Status(); s.State != datasource.StateStale || s.SnapshotSaved.IsZero() {
		x.Errorf("state %s, snapshot saved %v, want stale with its age", s.State, s.SnapshotSaved)
	}
	x.must(b.Heal())
	l.inForce(x.c.Recovery, rules2)
	if s := l.Status(); s.State != datasource.StateLive || !s.SnapshotSaved.IsZero() {
		x.Errorf("state %s, snapshot saved %v, want live", s.State, s.SnapshotSaved)
	}
}

// faults: F167
func sequenceE13CorruptSnapshot(x *play) {
	b := need[Breaker](x)
	x.put(v1)
	x.must(b.Break())
	l := x.start(datasource.Snapshots(&snapshots{err: errCorrupt}), datasource.OnStart(datasource.Snapshot, datasource.Empty))
	l.wantUpdates()
	if err := l.Status().SnapshotError; !errors.Is(err, errCorrupt) {
		x.Errorf("the status says %v of the snapshot", err)
	}
	x.must(b.Heal())
	l.inForce(x.c.Recovery, rules1)
}

// faults: F075 F080
func recoveryCut(x *play) {
	b := need[Breaker](x)
	outage(x, b.Break, b.Heal)
}

func recoveryDenied(x *play) {
	outage(x, need[Denier](x).Deny, need[Breaker](x).Heal)
}

// faults: F083 F089
func recoveryStall(x *play) {
	outage(x, need[Staller](x).Stall, need[Breaker](x).Heal)
}

// faults: F075 F081 F083
func recoveryLostNotification(x *play) {
	outage(x, need[Loser](x).LoseNotifications, nil)
}

// faults: F080 F091
func recoveryRestart(x *play) {
	outage(x, nil, need[Restarter](x).Restart)
}

// faults: F064 F065
func recoveryCompaction(x *play) {
	b, k := need[Breaker](x), need[Compacter](x)
	outage(x, b.Break, func() error { return errors.Join(k.Compact(), b.Heal()) })
}

// faults: F069 F070
func recoveryReset(x *play) {
	r := need[Resetter](x)
	for range 5 {
		x.put(v1)
	}
	l := x.start(datasource.Relist(x.c.Relist))
	l.inForce(x.latency(), rules1)
	x.must(r.Reset(v2))
	l.inForce(x.c.Recovery, rules2)
	x.put(v3)
	l.inForce(x.latency(), rules3)
	l.wantUpdates(rules1, rules2, rules3)
}

// faults: F090
func recoveryTwoSources(x *play) {
	b := need[Breaker](x)
	x.put(v1)
	two := []*live{x.start(datasource.Relist(x.c.Relist)), x.start(datasource.Relist(x.c.Relist))}
	x.must(b.Break())
	x.put(v2)
	x.must(b.Heal())
	for _, l := range two {
		l.inForce(x.c.Recovery, rules2)
	}
	if r, ok := x.h.(Restarter); ok {
		x.must(r.Restart())
	}
	x.put(v3)
	for _, l := range two {
		l.inForce(x.c.Recovery, rules3)
		l.neverWiped()
	}
}

// faults: F068 F130
func recoveryEqualContent(x *play) {
	b := need[Breaker](x)
	x.put(v1)
	l := x.start(datasource.Relist(x.c.Relist))
	for range 3 {
		x.must(b.Break())
		x.put(v1)
		x.must(b.Heal())
		x.eventually(x.c.Recovery, func() string { return problemOf(l.refresh()) })
	}
	x.pass(x.aWhile())
	l.wantUpdates(rules1)
}

// Each reconnect takes the place of the one before.
//
// faults: F123
func recoveryManyCuts(x *play) {
	b, s := need[Breaker](x), need[Subscriber](x)
	cuts := 20
	if x.c.Bubble {
		cuts = 100
	}
	x.put(v1)
	l := x.start(datasource.Relist(x.c.Relist), datasource.Backoff(realMinBackoff, realMaxBackoff))
	for i := range cuts {
		x.must(b.Break())
		x.must(b.Heal())
		x.put(document("n=" + strconv.Itoa(i)))
		l.inForce(x.c.Recovery, "n="+strconv.Itoa(i))
	}
	x.eventually(x.c.Recovery, func() string {
		if n := s.Subscriptions(); n > 1 {
			return fmt.Sprintf("%d subscriptions after %d cuts", n, cuts)
		}
		return ""
	})
}

// The listener sees the numbers go up, whatever the link does to the notifications.
//
// faults: F076 F143
func recoveryScrambled(x *play) {
	s := need[Scrambler](x)
	x.put(document("n=0"))
	l := x.start(datasource.Relist(x.c.Relist))
	x.must(s.Scramble())
	for i := range 50 {
		x.put(document("n=" + strconv.Itoa(i+1)))
		if i%7 == 0 {
			x.settle()
		}
	}
	l.inForce(x.latency(), "n=50")
	x.settle()
	numbers := []int{}
	for _, u := range l.updates() {
		var n int
		if _, err := fmt.Sscanf(u, "n=%d", &n); err != nil {
			x.Fatalf("in force: %q", u)
		}
		numbers = append(numbers, n)
	}
	if !slices.IsSorted(numbers) {
		x.Errorf("the listener was told %v", numbers)
	}
}

// outage changes the document while the client can't know, and wants the change in force once it can.
func outage(x *play, begin, end func() error) {
	x.Helper()
	x.put(v1)
	l := x.start(datasource.Relist(x.c.Relist), datasource.OnMissing(datasource.Clear))
	l.inForce(x.latency(), rules1)
	x.settle()
	if begin != nil {
		x.must(begin())
	}
	x.put(v2)
	if end != nil {
		x.must(end())
	}
	l.inForce(x.c.Recovery, rules2)
	x.put(v3)
	l.inForce(x.c.Recovery, rules3)
	l.wantUpdates(rules1, rules2, rules3)
}

func problemOf(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

var errCorrupt = errors.New("snapshot is corrupt")

// snapshots keeps snapshots in memory.
type snapshots struct {
	mu    sync.Mutex
	doc   datasource.Document
	saved time.Time
	err   error
}

// Save implements datasource.SnapshotStore.
func (s *snapshots) Save(_ context.Context, _ string, doc datasource.Document) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.doc, s.saved = doc, time.Now()
	}
	return s.err
}

// Load implements datasource.SnapshotStore.
func (s *snapshots) Load(context.Context, string) (datasource.Document, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return datasource.Document{}, time.Time{}, s.err
	case s.doc.Presence == datasource.Unknown:
		return datasource.Document{}, time.Time{}, datasource.ErrMissing
	default:
		return s.doc, s.saved, nil
	}
}
