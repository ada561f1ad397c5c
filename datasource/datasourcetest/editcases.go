package datasourcetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// editors is how many writers edit at once.
const editors = 2

// editor makes a writable of the driver's sink. Each has its own, as if it were in a process of its own.
func (x *play) editor(opts ...writable.Option) *writable.Writable[rule.Flow] {
	x.Helper()
	w, err := writable.New(x.sink(), converter.JSON[rule.Flow](), append([]writable.Option{writable.Logger(nil), writable.Timeout(x.c.Latency)}, opts...)...)
	x.must(err)
	return w
}

// own names the rule that an editor edits.
func own(editor int) string { return fmt.Sprintf("/editor/%d", editor) }

// counters makes the document that editors count in: a rule for each.
func (x *play) counters() {
	x.Helper()
	var rules []rule.Flow
	for i := range editors {
		rules = append(rules, rule.Flow{Resource: own(i), LimitApp: "default", Grade: rule.GradeQPS})
	}
	if _, err := x.editor().Create(context.Background(), rules); err != nil {
		x.Fatal("Create:", err)
	}
}

// count sets an editor's rule to n, after a look whether it stands where it was left.
func count(editor, sure, n int, lost *error) func([]rule.Flow) ([]rule.Flow, error) {
	return func(rules []rule.Flow) ([]rule.Flow, error) {
		for i := range rules {
			if rules[i].Resource != own(editor) {
				continue
			}
			if at := int(rules[i].Count); at < sure || at > n {
				*lost = fmt.Errorf("editor %d finds %d, acknowledged were %d, sent %d", editor, at, sure, n)
			}
			rules[i].Count = float64(n)
			return rules, nil
		}
		*lost = fmt.Errorf("the rule of editor %d is gone", editor)
		return rules, nil
	}
}

// counted checks that every edit of each editor is in the document.
func (x *play) counted(edits ...int) {
	x.Helper()
	cur, err := x.editor().Read(context.Background())
	if err != nil {
		x.Fatal("at the end:", err)
	}
	if len(cur.Rules) != editors {
		x.Errorf("%d rules at the end, want %d", len(cur.Rules), editors)
	}
	for _, r := range cur.Rules {
		for e, n := range edits {
			if r.Resource == own(e) && int(r.Count) != n {
				x.Errorf("%s stands at %v after %d edits", r.Resource, r.Count, n)
			}
		}
	}
}

// edits is how often each editor edits.
func (x *play) edits() int {
	if testing.Short() {
		return min(x.c.Edits, 100)
	}
	return x.c.Edits
}

// Two writers edit different rules, 1,000 times each, and each edit builds on the one before: not one is lost.
//
// faults: F139 F140
func editTwoWriters(x *play) {
	x.rivals()
	x.counters()
	edits := x.edits()
	var wg sync.WaitGroup
	for e := range editors {
		w := x.editor()
		wg.Go(func() {
			for n := 1; n <= edits; n++ {
				var lost error
				if _, err := w.Edit(context.Background(), count(e, n-1, n, &lost)); err != nil || lost != nil {
					x.Errorf("editor %d, edit %d: %v", e, n, errors.Join(err, lost))
					return
				}
			}
		})
	}
	wg.Wait()
	if !x.Failed() {
		x.counted(slices.Repeat([]int{edits}, editors)...)
	}
}

// again makes a disturbance again and again until ctx ends, at most so often as given: at first after pause and then less
// and less often, so that a client which takes its time to connect comes to its turn.
func (x *play) again(ctx context.Context, pause time.Duration, most int, disturb func(context.Context) error) error {
	for ; most > 0 && wait(ctx, pause) == nil; pause = min(pause*3/2, x.c.Recovery) {
		most--
		if err := disturb(ctx); err != nil {
			return err
		}
	}
	return nil
}

// flicker is the disturbance of a link that breaks for a moment.
func flicker(b Breaker) func(context.Context) error {
	return func(ctx context.Context) error {
		err := b.Break()
		_ = wait(ctx, 5*time.Millisecond)
		return errors.Join(err, b.Heal())
	}
}

// disturbed lets the editors edit while disturb happens again and again. An edit that fails is made again; one that is
// acknowledged must stay. It ends after most disturbances, for those that take long.
func disturbed(x *play, disturb func(context.Context) error, pause time.Duration, most int) {
	const (
		enough = 25 // edits of each editor
		least  = 2  // disturbances: the editors go on until they have been through so many, however quick the store is
	)
	x.rivals()
	x.counters()
	edits := make([]int, editors)
	ctx, stop := context.WithCancel(context.Background())
	var disturber, wg sync.WaitGroup
	var disturbances atomic.Int64
	var failed atomic.Bool
	var broken error // of the harness; the disturber's until it has ended
	disturber.Go(func() {
		broken = x.again(ctx, pause, most, func(ctx context.Context) error {
			err := disturb(ctx)
			if err == nil {
				disturbances.Add(1)
			}
			return err
		})
		failed.Store(broken != nil)
	})
	end := time.Now().Add(x.c.Recovery + 20*x.c.Latency)
	for e := range editors {
		w := x.editor()
		wg.Go(func() {
			for n := 1; n <= enough || disturbances.Load() < least && !failed.Load(); n++ {
				edits[e] = n
				for {
					var lost error
					change := count(e, n-1, n, &lost)
					_, err := w.Edit(context.Background(), func(rules []rule.Flow) ([]rule.Flow, error) {
						// The disturbance shall also fall between the read and the write.
						_ = wait(context.Background(), time.Duration(n%4)*time.Millisecond)
						return change(rules)
					})
					if lost != nil || errors.Is(err, datasource.ErrDecode) {
						x.Errorf("editor %d, edit %d: %v", e, n, errors.Join(err, lost))
						return
					}
					if err == nil {
						break
					}
					if time.Now().After(end) {
						x.Errorf("editor %d, edit %d: %v", e, n, err)
						return
					}
					_ = wait(context.Background(), time.Millisecond)
				}
				_ = wait(context.Background(), time.Millisecond)
			}
		})
	}
	wg.Wait()
	stop()
	disturber.Wait()
	x.must(broken)
	x.Logf("%v edits, %d disturbances", edits, disturbances.Load())
	if h, ok := x.h.(Breaker); ok {
		x.must(h.Heal())
	}
	x.eventually(x.c.Recovery, func() string {
		_, err := x.editor().Read(context.Background())
		return problemOf(err)
	})
	if !x.Failed() {
		x.counted(edits...)
	}
}

// The link breaks in the middle of edits: an edit that failed was not made by half, one that was acknowledged stays.
//
// faults: F139 F154
func editBrokenMidWrite(x *play) {
	b := need[Breaker](x)
	disturbed(x, flicker(b), 20*time.Millisecond, math.MaxInt)
}

// The same with a store that is stopped and started again.
//
// faults: F139 F164
func editRestartedMidWrite(x *play) {
	r := need[Restarter](x)
	disturbed(x, func(context.Context) error { return r.Restart() }, 10*time.Millisecond, 3)
}

// An edit of a document that is not there creates it, and one after a deletion does so again.
func editMissing(x *play) {
	w := x.editor()
	for round := range 2 {
		res, err := w.Edit(context.Background(), func(rules []rule.Flow) ([]rule.Flow, error) {
			return append(rules, rule.Flow{Resource: own(round), LimitApp: "default", Grade: rule.GradeQPS, Count: 1}), nil
		})
		if err != nil || res.From != writable.Absent || res.Rules != 1 {
			x.Fatalf("Edit of a missing document: %+v, %v", res, err)
		}
		if now := x.read(x.source()); now.Revision != res.Revision {
			x.Errorf("written as revision %q, the source reads %q", res.Revision, now.Revision)
		}
		x.must(x.h.Delete())
	}
}

// No rules are [] in the store, also for the last rule that is removed, and a source reads no rules back.
//
// faults: F010 F011
func editClear(x *play) {
	x.put(v2)
	w := x.editor()
	for _, clear := range []func() (writable.Result[rule.Flow], error){
		func() (writable.Result[rule.Flow], error) { return w.Clear(context.Background()) },
		func() (writable.Result[rule.Flow], error) {
			return w.Edit(context.Background(), func(rules []rule.Flow) ([]rule.Flow, error) { return rules[:0], nil })
		},
	} {
		if _, err := clear(); err != nil {
			x.Fatal(err)
		}
		x.wantDocument("after the last rule was removed", x.read(x.source()), []byte("[]"))
		now, err := w.Read(context.Background())
		if err != nil || len(now.Rules) != 0 {
			x.Errorf("read back: %v, %v", now.Rules, err)
		}
		x.put(v2)
	}
}

// A readable with its writable: the edit is in force when Edit returns, and nobody is told twice.
//
// faults: F153 F156 F163
func editInForce(x *play) {
	x.put(v1)
	m := rule.NewManager[rule.Flow]()
	told := 0
	r, err := datasource.New(x.source(), converter.JSON[rule.Flow](), listening(func(ctx context.Context, rules []rule.Flow) error {
		told++
		return m.OnUpdate(ctx, rules)
	}), append([]datasource.Option{datasource.Logger(nil), datasource.Relist(x.c.Relist), datasource.Interval(x.c.Interval)}, x.c.Options...)...)
	x.must(err)
	x.must(r.Start(context.Background()))
	defer func() { x.must(r.Close()) }()
	w := x.editor(writable.Readable(r))
	const edits = 5
	for n := range edits {
		res, err := w.Edit(context.Background(), func(rules []rule.Flow) ([]rule.Flow, error) {
			return append(rules, rule.Flow{Resource: own(n), LimitApp: "default", Grade: rule.GradeQPS, Count: 1}), nil
		})
		if err != nil || !res.InForce || res.Apply != nil {
			x.Fatalf("edit %d: in force %v, %v, %v", n, res.InForce, res.Apply, err)
		}
		if len(m.Lookup(own(n))) != 1 {
			x.Fatalf("edit %d is not in force when Edit returns", n)
		}
	}
	x.pass(x.aWhile())
	if err := r.Refresh(context.Background()); err != nil {
		x.Error("Refresh:", err)
	}
	x.must(r.Close()) // told is the loop's until then
	if told != 1+edits {
		x.Errorf("the listener was told %d times, want the start and %d edits", told, edits)
	}
}

// E12: an edit while the store is down fails, and nothing in force moves; of two editors that edit the same revision one
// wins and the other gets a conflict. The echo of an edit is Edit/InForce, no rules are Edit/Clear.
//
// faults: F140 F154
func editWriteBack(x *play) {
	b := need[Breaker](x)
	x.put(v1)
	l := x.start(datasource.Relist(x.c.Relist))
	l.inForce(x.latency(), rules1)
	w := x.editor(writable.Readable(l.Readable))
	add := func(rules []rule.Flow) ([]rule.Flow, error) {
		return append(rules, rule.Flow{Resource: own(0), LimitApp: "default", Grade: rule.GradeQPS, Count: 1}), nil
	}
	x.must(b.Break())
	x.bounded("Edit of a store that is down", 2*x.c.Latency+closeLimit, func() {
		if _, err := w.Edit(context.Background(), add); err == nil || errors.Is(err, datasource.ErrConflict) {
			x.Errorf("Edit of a store that is down says %v", err)
		}
	})
	l.wantUpdates(rules1)
	x.must(b.Heal())
	var now writable.Current[rule.Flow]
	x.eventually(x.c.Recovery, func() (problem string) {
		var err error
		now, err = w.Read(context.Background())
		return problemOf(err)
	})
	x.wantDocument("after the edit that failed", x.read(x.source()), v1)

	rules, err := add(now.Rules)
	x.must(err)
	if _, err := w.Write(context.Background(), rules, now.Revision); err != nil {
		x.Fatal("Write over the revision that was read:", err)
	}
	l.inForce(x.latency(), rules1+" "+own(0)+"=1")
	if _, err := x.editor().Write(context.Background(), rules[:1], now.Revision); !errors.Is(err, datasource.ErrConflict) {
		x.Errorf("the second editor from the same revision is told %v, want a conflict", err)
	}
	x.pass(x.aWhile())
	l.wantUpdates(rules1, rules1+" "+own(0)+"=1")
}

type listening func(context.Context, []rule.Flow) error

func (f listening) OnUpdate(ctx context.Context, rules []rule.Flow) error { return f(ctx, rules) }
