package writable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/file"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

var flavours = []datasourcetest.Flavour{datasourcetest.Pushed, datasourcetest.Hinted, datasourcetest.Pulled}

// each runs a test on each flavour of the memory store, in a bubble.
func each(t *testing.T, f func(t *testing.T, store *datasourcetest.Store, flavour datasourcetest.Flavour)) {
	t.Helper()
	for _, flavour := range flavours {
		t.Run(flavour.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, datasourcetest.NewStore(), flavour) })
		})
	}
}

// faults: F153 F156 F162 F163
func TestAWriterSeesItsOwnWriteAtOnceAndTheEchoTellsNoListener(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(3))
		p := join(t, store, f)
		other := join(t, store, f)
		res, err := p.Edit(t.Context(), add(flow("/new", 7)))
		if err != nil {
			t.Fatal(err)
		}
		if !res.InForce || res.Apply != nil || res.Volatile || res.Attempts != 1 || res.Rules != 4 {
			t.Errorf("result %+v", res)
		}
		wantNames(t, "in force when Edit returns", p.core.Rules(), "/r/0", "/r/1", "/r/2", "/new")
		if got := res.Changes.Summary(); got != "1 added, 3 unchanged" {
			t.Errorf("changes: %s", got)
		}
		read, err := p.Read(t.Context())
		if err != nil || read.Revision != res.Revision || string(read.Document.Data) != string(res.Document.Data) {
			t.Errorf("read back %q, %v; written as %q", read.Revision, err, res.Revision)
		}
		calls := p.core.told()
		time.Sleep(5 * datasource.DefaultRelist) // in a bubble: the echo and some relists
		synctest.Wait()
		if n := p.core.told(); n != calls {
			t.Errorf("the echo told the listener %d times", n-calls)
		}
		if st := p.readable.Status(); st.Revision != res.Revision || st.State != datasource.StateLive || st.Drift {
			t.Errorf("status %+v", st)
		}
		wantNames(t, "in the other process", other.core.Rules(), "/r/0", "/r/1", "/r/2", "/new")
	})
}

// faults: F163
func TestTheEchoThatOvertakesTheAnswerTellsTheListenerOnce(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(3))
		var refused []datasource.Event
		var mu sync.Mutex
		p := join(t, store, f, datasource.MaxShrink(0.1), datasource.WithObserver(datasource.ObserverFunc(func(e datasource.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == datasource.EventRefused {
				refused = append(refused, e)
			}
		})))
		// The answer comes ten seconds late; a notification, and any poll, comes first.
		p.sink.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
			doc, err := p.sink.Sink.Write(ctx, data, expected)
			time.Sleep(4 * time.Second)
			return doc, err
		}
		res, err := p.Clear(t.Context())
		if err != nil || !res.InForce {
			t.Fatalf("%+v, %v", res, err)
		}
		if n := p.core.told(); n != 2 {
			t.Errorf("the listener was told %d times, want the start and the edit", n)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(refused) > 0 {
			t.Errorf("this process's own edit was refused as an accident: %v", refused[0].Err)
		}
		if p.core.Len() != 0 || stored(t, store) != "[]" {
			t.Errorf("%d rules, %s", p.core.Len(), stored(t, store))
		}
	})
}

// faults: F010 F011 F143
func TestClearStoresTheEmptyListAndClearsHereOnly(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(2))
		p, cautious := join(t, store, f), join(t, store, f)
		willing := join(t, store, f, datasource.OnEmptyList(datasource.Clear))
		res, err := p.Clear(t.Context())
		if err != nil || !res.InForce || len(res.Changes.Removed) != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
		time.Sleep(2 * datasource.DefaultRelist)
		synctest.Wait()
		if stored(t, store) != "[]" || p.core.Len() != 0 || willing.core.Len() != 0 || cautious.core.Len() != 2 {
			t.Errorf("stored %s; here %d, willing %d, cautious %d", stored(t, store), p.core.Len(), willing.core.Len(), cautious.core.Len())
		}
		// The last rule removed by an Edit is the same.
		if _, err := p.Edit(t.Context(), add(flow("a", 1))); err != nil {
			t.Fatal(err)
		}
		res, err = p.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) { return rules[:0], nil })
		if err != nil || stored(t, store) != "[]" || p.core.Len() != 0 {
			t.Errorf("%+v, %v, %s", res, err, stored(t, store))
		}
		if res, err = p.Clear(t.Context()); err != nil || !res.Unchanged || p.sink.count() != 3 {
			t.Errorf("clearing what is clear: %+v, %v, %d writes", res, err, p.sink.count())
		}
	})
}

// faults: F140 F154
func TestOfTwoConsolesWithOneRevisionOneWins(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(1))
		a, b := join(t, store, f), join(t, store, f)
		seen, err := a.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		won, err := a.Write(t.Context(), []rule.Flow{flow("a", 1)}, seen.Revision)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Write(t.Context(), []rule.Flow{flow("b", 1)}, seen.Revision)
		wantIs(t, "the second", err, datasource.ErrConflict)
		var e *datasource.Error
		if !errors.As(err, &e) || e.Revision != won.Revision || e.SourceID != a.ID() {
			t.Errorf("the conflict %v does not have the current revision %q", err, won.Revision)
		}
		if b.sink.count() != 0 {
			t.Error("the loser sent a write")
		}
		wantNames(t, "stored", decoded(t, store), "a")
	})
}

func decoded(t testing.TB, store *datasourcetest.Store) []rule.Flow {
	t.Helper()
	dec, err := converter.JSON[rule.Flow]().Decode([]byte(stored(t, store)))
	if err != nil || len(dec.Rejected) > 0 {
		t.Fatal(err, dec.Rejected)
	}
	return dec.Rules
}

func TestCreateOnlyWhereThereIsNothing(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		p := join(t, store, f)
		res, err := p.Create(t.Context(), []rule.Flow{flow("a", 1)})
		if err != nil || res.From != writable.Absent || !res.InForce {
			t.Fatalf("%+v, %v", res, err)
		}
		_, err = p.Create(t.Context(), []rule.Flow{flow("b", 1)})
		wantIs(t, "Create twice", err, datasource.ErrConflict)
		wantNames(t, "stored", decoded(t, store), "a")
		store.Delete(docKey)
		synctest.Wait()
		if res, err = p.Create(t.Context(), []rule.Flow{flow("c", 1)}); err != nil || !res.InForce {
			t.Errorf("Create after a deletion: %+v, %v", res, err)
		}
		_, err = p.Write(t.Context(), []rule.Flow{flow("d", 1)}, "12345678")
		wantIs(t, "a revision of another store", err, datasource.ErrConflict)
		wantNames(t, "stored", decoded(t, store), "c")
	})
}

func TestAnEditMeetsAConflictWithAFreshRead(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(1))
		a, b := join(t, store, f), join(t, store, f)
		calls := 0
		res, err := a.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) {
			if calls++; calls < 4 { // somebody else is faster, three times
				if _, err := b.Edit(t.Context(), add(flow("b"+strconv.Itoa(calls), 1))); err != nil {
					return nil, err
				}
			}
			return append(rules, flow("a", 1)), nil
		})
		if err != nil || res.Attempts != 4 || calls != 4 {
			t.Fatalf("%+v, %v, %d calls", res, err, calls)
		}
		wantNames(t, "stored", decoded(t, store), "/r/0", "b1", "b2", "b3", "a")
		wantNames(t, "in force", a.core.Rules(), "/r/0", "b1", "b2", "b3", "a")
		if s := res.Changes.Summary(); s != "1 added, 4 unchanged" {
			t.Errorf("the edit's own changes: %s", s)
		}
	})
}

func TestAnEditGivesUpAfterSoManyConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := datasourcetest.NewStore()
		put(store, flows(1))
		n := 0
		w := alone(t, store.Sink(docKey, datasourcetest.Pushed), writable.Attempts(5))
		begin := time.Now()
		_, err := w.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) {
			n++
			put(store, flows(1+n))
			return append(rules, flow("mine", 1)), nil
		})
		wantIs(t, "five conflicts", err, datasource.ErrConflict)
		if n != 5 {
			t.Errorf("%d attempts", n)
		}
		if d := time.Since(begin); d == 0 || d > time.Second {
			t.Errorf("five attempts took %v", d)
		}
		// And at once when the caller has had enough.
		ctx, cancel := context.WithCancel(t.Context())
		_, err = w.Edit(ctx, func(rules []rule.Flow) ([]rule.Flow, error) {
			n++
			put(store, flows(1+n))
			cancel()
			return append(rules, flow("mine", 1)), nil
		})
		wantIs(t, "cancelled", err, context.Canceled)
	})
}

func TestAnEditThatFailsOrChangesNothingWritesNothing(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(2))
		p := join(t, store, f)
		mine := fmt.Errorf("no: %w", datasource.ErrConflict) // an error of the caller's that happens to be a conflict
		_, err := p.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) {
			rules[0].Count = 99 // its own copy
			return nil, mine
		})
		wantIs(t, "the caller's error", err, mine)
		res, err := p.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) { return rules, nil })
		if err != nil || !res.Unchanged || !res.InForce || res.Revision != res.From || res.Revision == "" {
			t.Errorf("%+v, %v", res, err)
		}
		if p.sink.count() != 0 || p.core.told() != 1 {
			t.Errorf("%d writes, %d calls", p.sink.count(), p.core.told())
		}
		wantEqual(t, "in force", p.core.Rules(), flows(2))
	})
}

// A rule may stand twice in a document. It counts once in force; the history tells of what stands there.
func TestARuleThatStandsTwiceIsCalledRemovedByTheEditOfAnother(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, []rule.Flow{flow("a", 1), flow("b", 2), flow("a", 1)})
		p := join(t, store, f)
		res, err := p.Edit(t.Context(), add(flow("c", 3)))
		if err != nil || res.Changes.Summary() != "1 added, 3 unchanged" || res.Rules != 3 {
			t.Errorf("added: %s, %d rules, %v", res.Changes.Summary(), res.Rules, err)
		}
		res, err = p.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) { return rules, nil })
		if err != nil || !res.Unchanged || p.sink.count() != 1 {
			t.Errorf("nothing changed: %s, %d writes, %v", res.Changes.Summary(), p.sink.count(), err)
		}
		res, err = p.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) { return slices.Delete(rules, 2, 3), nil })
		if err != nil || res.Changes.Summary() != "1 removed, 3 unchanged" || res.Rules != 3 {
			t.Errorf("the twin removed: %s, %d rules, %v", res.Changes.Summary(), res.Rules, err)
		}
		wantNames(t, "stored", decoded(t, store), "a", "b", "c")
	})
}

func TestBadRulesAreRefusedBeforeTheyAreSent(t *testing.T) {
	bad := map[string][]rule.Flow{
		"nil":            nil,
		"empty resource": {flow("a", 1), flow("", 1)},
		"blank resource": {flow("  ", 1)},
		"NaN":            {flow("a", math.NaN())},
		"infinite":       {flow("a", math.Inf(1))},
		"negative":       {flow("a", -1)},
		"grade":          {{Resource: "a", Grade: 7}},
		"not UTF-8":      {flow("a\xff", 1)},
		"extra":          {{Resource: "a", Grade: 1, Extra: rule.Extra{{Name: "x", Value: "{"}}}},
		"extra twice":    {{Resource: "a", Grade: 1, Extra: rule.Extra{{Name: "count", Value: "5"}}}},
	}
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(1))
		p := join(t, store, f)
		seen, _ := p.Read(t.Context())
		for name, rules := range bad {
			_, err := p.Write(t.Context(), rules, seen.Revision)
			wantIs(t, "Write "+name, err, datasource.ErrInvalid)
			_, err = p.Create(t.Context(), rules)
			if err == nil {
				t.Errorf("Create %s succeeds", name)
			}
			_, err = p.Edit(t.Context(), func([]rule.Flow) ([]rule.Flow, error) { return rules, nil })
			wantIs(t, "Edit "+name, err, datasource.ErrInvalid)
		}
		_, err := p.Write(t.Context(), bad["empty resource"], seen.Revision)
		var faults converter.Faults
		if !errors.As(err, &faults) || faults[0].Index != 1 || faults[0].Field != "resource" {
			t.Errorf("the bad rule is not named: %v", err)
		}
		if p.sink.count() != 0 || p.core.told() != 1 {
			t.Errorf("%d writes, %d calls", p.sink.count(), p.core.told())
		}
		wantEqual(t, "stored", decoded(t, store), flows(1))
	})
}

func TestWhatTheCoreCantEnforceIsRefusedBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := datasourcetest.NewStore()
		p := join(t, store, datasourcetest.Pushed)
		p.core.set(func() {
			p.core.check = func(r *rule.Flow) error {
				if r.ClusterMode {
					return fmt.Errorf("cluster mode: %w", rule.ErrUnsupported)
				}
				return nil
			}
		})
		r := flow("a", 1)
		r.ClusterMode, r.ClusterConfig = true, &rule.ClusterFlowConfig{FlowID: new(int64), SampleCount: 10, WindowIntervalMs: 1000}
		*r.ClusterConfig.FlowID = 1
		_, err := p.Create(t.Context(), []rule.Flow{r})
		wantIs(t, "cluster mode", err, datasource.ErrUnsupported)
		if got := stored(t, store); got != "missing" {
			t.Errorf("stored %s", got)
		}
		// A readable that skips bad rules forgives the rules of others, not an edit of this process.
		skipping := join(t, store, datasourcetest.Pushed, datasource.OnInvalid(datasource.SkipRule))
		_, err = skipping.Create(t.Context(), []rule.Flow{flow("a", 1), flow("b", -1)})
		wantIs(t, "a bad rule with SkipRule", err, datasource.ErrInvalid)
	})
}

// One rate limiter rule below half a call in a second keeps Java clients of Sentinel 1.8.9 from loading the whole document;
// package interop shows it. So no edit brings one into a document of the java dialect; one that is there stays until it is
// edited, and is no reason to refuse an edit of another rule.
func TestARuleThatKeepsJavaFromLoadingItsDocumentIsNotWritten(t *testing.T) {
	slow := func(count float64) rule.Flow {
		r := flow("slow", count)
		r.ControlBehavior = rule.ControlRateLimiter
		return r
	}
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, append(flows(1), slow(0.3)))
		p := join(t, store, f)
		refused := func(what string, err error) {
			t.Helper()
			wantIs(t, what, err, datasource.ErrUnsupported)
			var faults converter.Faults
			if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Index != 1 || faults[0].Field != "count" || faults[0].Resource != "slow" ||
				!strings.Contains(err.Error(), "Java") {
				t.Errorf("%s: the rule is not named: %v", what, err)
			}
		}
		_, err := p.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) { rules[1].Count = 0.4; return rules, nil })
		refused("changed", err)
		seen, err := p.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Write(t.Context(), []rule.Flow{flow("a", 1), slow(math.Nextafter(0.5, 0))}, seen.Revision)
		refused("written", err)
		if p.sink.count() != 0 || p.core.told() != 1 {
			t.Errorf("%d writes, %d calls", p.sink.count(), p.core.told())
		}
		if _, err := p.Edit(t.Context(), add(flow("other", 1))); err != nil {
			t.Error("an edit of another rule:", err)
		}
		for _, count := range []float64{0, 0.5} {
			if _, err := p.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) { rules[1].Count = count; return rules, nil }); err != nil {
				t.Errorf("count %v: %v", count, err)
			}
		}
	})
	// The golang dialect is none of Java's business.
	store := datasourcetest.NewStore()
	w, err := writable.New(store.Sink(docKey, datasourcetest.Pushed), converter.JSON[rule.Flow](converter.Dialect(converter.Golang)), writable.Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Create(t.Context(), []rule.Flow{slow(0.3)}); err != nil {
		t.Error("golang dialect:", err)
	}
}

// faults: F141 F142
func TestIdsAreNeitherMadeNorChanged(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		store.Put(docKey, []byte(`[{"id":7,"resource":"a","count":1},{"resource":"b","count":2},{"id":7,"resource":"c","count":3}]`))
		p := join(t, store, f)
		for range 3 {
			if _, err := p.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Edit(t.Context(), add(flow("d", 4))); err != nil {
			t.Fatal(err)
		}
		ids := ""
		for _, r := range decoded(t, store) {
			ids += r.ID + ","
		}
		if ids != "7,,7,," {
			t.Errorf("ids %s", ids)
		}
	})
}

func TestADocumentThatDoesNotParseCanBeReplacedButNotEdited(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(2))
		p := join(t, store, f)
		for _, text := range []string{`[{"resource":"a","count":1},`, `<html>`, `{"resource":"a"}`, ``, `null`,
			`[{"resource":"a","count":1},{"resource":"b","count":"many"}]`, `[{"resource":"a","treshold":1}]`, `[{"resource":"a"}]`} {
			store.Put(docKey, []byte(text))
			_, err := p.Edit(t.Context(), add(flow("new", 1)))
			wantIs(t, "Edit of "+text, err, datasource.ErrDecode)
			if stored(t, store) != text {
				t.Fatalf("Edit of %s wrote", text)
			}
			cur, err := p.Read(t.Context())
			wantIs(t, "Read of "+text, err, datasource.ErrDecode)
			_, err = p.Write(t.Context(), flows(3), "another")
			wantIs(t, "Write over another revision", err, datasource.ErrConflict)
			res, err := p.Write(t.Context(), flows(2), cur.Revision)
			if err != nil || res.Unreadable == nil || !res.InForce || len(res.Changes.Added) != 2 {
				t.Errorf("Write over %s: %+v, %v", text, res, err)
			}
			store.Put(docKey, []byte(text))
			if res, err = p.Clear(t.Context()); err != nil || stored(t, store) != "[]" || p.core.Len() != 0 {
				t.Errorf("Clear over %s: %+v, %v", text, res, err)
			}
			if _, err := p.Write(t.Context(), flows(2), res.Revision); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// An edit of one rule must not carry through what happened to all of them by accident.
func TestAnEditDoesNotBuildOnWhatTheGuardHoldsBack(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(10))
		p := join(t, store, f, datasource.MaxShrink(0.5))
		accidents := map[string]func(){
			"emptied": func() { store.Put(docKey, []byte("[]")) },
			"deleted": func() { store.Delete(docKey) },
			"shrunk":  func() { put(store, flows(2)) },
		}
		for name, happens := range accidents {
			happens()
			_, err := p.Edit(t.Context(), add(flow("new", 1)))
			wantIs(t, name+", seen by the writer first", err, datasource.ErrRefused)
			time.Sleep(2 * datasource.DefaultInterval)
			synctest.Wait()
			_, err = p.Edit(t.Context(), add(flow("new", 1)))
			wantIs(t, name+", known", err, datasource.ErrRefused)
			if p.core.Len() != 10 {
				t.Errorf("%s: %d rules in force", name, p.core.Len())
			}
			cur, err := p.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			res, err := p.Write(t.Context(), flows(10), cur.Revision)
			if err != nil || !res.InForce {
				t.Errorf("%s: writing them back: %+v, %v", name, res, err)
			}
		}
		// Without rules in force there is nothing to lose.
		if _, err := p.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		store.Delete(docKey)
		if _, err := p.Edit(t.Context(), add(flow("first", 1))); err != nil {
			t.Error(err)
		}
	})
}

// faults: F154
func TestAStoreThatIsDownChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(2))
		p := join(t, store, f)
		seen, _ := p.Read(t.Context())
		store.Break(datasourcetest.ErrBroken)
		_, err := p.Write(t.Context(), flows(3), seen.Revision)
		wantIs(t, "Write", err, datasourcetest.ErrBroken)
		_, err = p.Edit(t.Context(), add(flow("new", 1)))
		wantIs(t, "Edit", err, datasourcetest.ErrBroken)
		if errors.Is(err, datasource.ErrUnknownOutcome) {
			t.Error("nothing was sent, so the outcome is known")
		}
		_, err = p.Clear(t.Context())
		wantIs(t, "Clear", err, datasourcetest.ErrBroken)
		store.Heal()
		store.Inject(datasourcetest.Faults{Writes: datasourcetest.ErrDenied})
		_, err = p.Edit(t.Context(), add(flow("new", 1)))
		wantIs(t, "no permission", err, datasourcetest.ErrDenied)
		if errors.Is(err, datasource.ErrUnknownOutcome) {
			t.Error("the revision did not move, so the outcome is known")
		}
		store.Heal()
		store.Limit(100)
		_, err = p.Edit(t.Context(), add(flow("new", 1)))
		wantIs(t, "too large", err, datasource.ErrTooLarge)
		if p.core.told() != 1 {
			t.Errorf("%d calls", p.core.told())
		}
		wantEqual(t, "stored", decoded(t, store), flows(2))
		wantEqual(t, "in force", p.core.Rules(), flows(2))
	})
}

// faults: F059
func TestTenThousandRulesOverTheStoresLimitAreRefusedBeforeTheyAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := datasourcetest.NewStore()
		store.Limit(512 << 10) // Consul's
		p := join(t, store, datasourcetest.Pushed)
		_, err := p.Create(t.Context(), flows(10_000))
		wantIs(t, "10,000 rules", err, datasource.ErrTooLarge)
		if stored(t, store) != "missing" || p.core.told() != 0 {
			t.Errorf("stored %.20s, %d calls", stored(t, store), p.core.told())
		}
		// And what the readable would refuse as too large is refused here.
		store.Limit(0)
		small := join(t, store, datasourcetest.Pushed, datasource.MaxBytes(1000))
		_, err = small.Create(t.Context(), flows(100))
		wantIs(t, "over the readable's cap", err, datasource.ErrTooLarge)
	})
}

var errLost = errors.New("connection reset")

// answers are the ways in which a write can end without a proper answer.
func TestAnUnknownOutcomeIsLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, arrived := range []bool{true, false} {
			for _, cause := range []error{errLost, context.DeadlineExceeded, fmt.Errorf("%w: no answer", datasource.ErrUnknownOutcome)} {
				store := datasourcetest.NewStore()
				put(store, flows(1))
				p := join(t, store, datasourcetest.Pushed)
				p.sink.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
					if arrived {
						if _, err := p.sink.Sink.Write(ctx, data, expected); err != nil {
							return datasource.Document{}, err
						}
					}
					return datasource.Document{}, cause
				}
				res, err := p.Edit(t.Context(), add(flow("a", 1)))
				if arrived {
					if err != nil || !res.InForce || p.core.Len() != 2 {
						t.Errorf("arrived, %v: %+v, %v", cause, res, err)
					}
					continue
				}
				wantIs(t, "did not arrive", err, cause)
				if errors.Is(err, datasource.ErrUnknownOutcome) && !errors.Is(cause, datasource.ErrUnknownOutcome) {
					t.Errorf("unknown although the revision did not move: %v", err)
				}
				if p.core.Len() != 1 || p.core.told() != 1 {
					t.Error("memory changed by a failed write")
				}
			}
		}
	})
}

func TestAnOutcomeThatCantBeLookedUpIsCalledUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := datasourcetest.NewStore()
		put(store, flows(1))
		p := join(t, store, datasourcetest.Pulled)
		var l logs
		w := alone(t, p.sink, writable.Logger(l.logger()))
		p.sink.write = func(context.Context, []byte, string) (datasource.Document, error) {
			store.Inject(datasourcetest.Faults{Reads: datasourcetest.ErrBroken})
			return datasource.Document{}, errLost
		}
		_, err := w.Edit(t.Context(), add(flow("a", 1)))
		wantIs(t, "the read back fails", err, datasource.ErrUnknownOutcome, errLost, datasourcetest.ErrBroken)
		store.Heal()
		p.sink.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
			put(store, flows(5)) // ours may have been there for a moment
			return datasource.Document{}, errLost
		}
		_, err = w.Edit(t.Context(), add(flow("a", 1)))
		wantIs(t, "overwritten", err, datasource.ErrUnknownOutcome, errLost)
		if !strings.Contains(l.String(), "outcome of a write is unknown") {
			t.Error("not logged")
		}
	})
}

func TestACancelledContextStopsTheWaitAndTheOutcomeIsStillFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, arrives := range []bool{true, false} {
			store := datasourcetest.NewStore()
			put(store, flows(1))
			p := join(t, store, datasourcetest.Pushed)
			p.sink.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
				if arrives {
					if _, err := p.sink.Sink.Write(ctx, data, expected); err != nil {
						return datasource.Document{}, err
					}
				}
				<-ctx.Done()
				return datasource.Document{}, ctx.Err()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			begin := time.Now()
			res, err := p.Edit(ctx, add(flow("a", 1)))
			cancel()
			if d := time.Since(begin); d != time.Second {
				t.Errorf("waited %v", d)
			}
			if arrives {
				if err != nil || !res.InForce {
					t.Errorf("%+v, %v", res, err)
				}
			} else {
				wantIs(t, "cancelled", err, context.DeadlineExceeded)
				wantEqual(t, "stored", decoded(t, store), flows(1))
			}
			// A store that never answers costs the time-out, not for ever.
			p.sink.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
				<-ctx.Done()
				return datasource.Document{}, ctx.Err()
			}
			begin = time.Now()
			_, err = p.Edit(context.Background(), add(flow("b", 1)))
			wantIs(t, "no answer", err, context.DeadlineExceeded)
			if d := time.Since(begin); d != writable.DefaultTimeout {
				t.Errorf("waited %v", d)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = p.Edit(ended, add(flow("c", 1)))
			wantIs(t, "a context that has ended", err, context.Canceled)
		}
	})
}

func TestAWriterWaitsForItsTurnNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := datasourcetest.NewStore()
		p := join(t, store, datasourcetest.Pushed)
		inside, leave := make(chan struct{}), make(chan struct{})
		go func() {
			_, _ = p.Edit(context.Background(), func(rules []rule.Flow) ([]rule.Flow, error) {
				close(inside)
				<-leave
				return append(rules, flow("a", 1)), nil
			})
		}()
		<-inside
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Edit(ctx, add(flow("b", 1)))
		wantIs(t, "waiting for the turn", err, context.DeadlineExceeded)
		close(leave)
		if _, err := p.Edit(t.Context(), add(flow("c", 1))); err != nil {
			t.Fatal(err)
		}
		wantNames(t, "stored", decoded(t, store), "a", "c")
	})
}

func TestAWriteThatTheListenerDoesNotTakeIsInTheStoreAndSaysSo(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(1))
		p := join(t, store, f)
		busy := errors.New("busy")
		p.core.set(func() { p.core.fail = busy })
		res, err := p.Edit(t.Context(), add(flow("a", 1)))
		if err != nil || res.InForce {
			t.Fatalf("%+v, %v", res, err)
		}
		wantIs(t, "Apply", res.Apply, busy)
		p.core.set(func() { p.core.fail = nil })
		time.Sleep(datasource.DefaultMaxBackoff)
		synctest.Wait()
		if p.core.Len() != 2 {
			t.Error("the readable did not go on trying")
		}
		// A readable that is closed does not keep the edit from the store.
		_ = p.readable.Close()
		res, err = p.Edit(t.Context(), add(flow("b", 1)))
		if err != nil || res.InForce {
			t.Errorf("%+v, %v", res, err)
		}
		wantIs(t, "closed", res.Apply, datasource.ErrClosed)
		wantNames(t, "stored", decoded(t, store), "/r/0", "a", "b")
	})
}

// Files and Redis give no order of revisions: what this process wrote may have been overwritten before its readable is
// told, and must not come back.
//
// faults: F143
func TestAnOwnWriteThatWasOvertakenNeverLandsOnTheNewerOne(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(1))
		p := join(t, store, f)
		other := alone(t, store.Sink(docKey, f))
		p.sink.write = func(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
			doc, err := p.sink.Sink.Write(ctx, data, expected)
			if _, err := other.Edit(ctx, add(flow("newer", 1))); err != nil {
				t.Error(err)
			}
			time.Sleep(4 * time.Second) // this process's readable hears of it
			return doc, err
		}
		res, err := p.Edit(t.Context(), add(flow("mine", 1)))
		if err != nil || res.InForce || res.Apply != nil {
			t.Errorf("%+v, %v", res, err)
		}
		wantNames(t, "in force", p.core.Rules(), "/r/0", "mine", "newer")
		time.Sleep(2 * datasource.DefaultRelist)
		synctest.Wait()
		wantNames(t, "in force", p.core.Rules(), "/r/0", "mine", "newer")
	})
}

func TestHistoryTellsWhoWhatFromAndTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := datasourcetest.NewStore()
		put(store, flows(2))
		var l logs
		var history []writable.Record
		w := alone(t, store.Sink(docKey, datasourcetest.Pushed), writable.Logger(l.logger()),
			writable.Audit(writable.AuditorFunc(func(ctx context.Context, r writable.Record) {
				history = append(history, r)
				if writable.Actor(ctx) == "mallory" {
					panic("hook")
				}
			})))
		ctx := writable.WithActor(t.Context(), "anna\n(console)")
		res, err := w.Edit(ctx, func(rules []rule.Flow) ([]rule.Flow, error) {
			rules[1].Count = 50
			return append(rules[1:], flow("/new", 3)), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Edit(ctx, func(rules []rule.Flow) ([]rule.Flow, error) { return rules, nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(ctx, flows(1), "0"); err == nil {
			t.Fatal("no conflict")
		}
		if len(history) != 1 {
			t.Fatalf("history has %d records, want that of the one write that took place", len(history))
		}
		r := history[0]
		want := "anna\n(console)|edit|memory:/rules/flow|flow|1|2|2|1 1 1|1|false false"
		got := fmt.Sprintf("%s|%s|%s|%s|%s|%s|%d|%d %d %d|%d|%v %v", r.Actor, r.Op, r.SourceID, r.Kind, r.From, r.To, r.Rules,
			r.Added, r.Changed, r.Removed, r.Attempts, r.InForce, r.Volatile)
		if got != want || res.From != r.From || res.Revision != r.To {
			t.Errorf("record\n %q, want\n %q", got, want)
		}
		if diff := strings.Join(r.Diff, "\n"); diff != "- flow /r/0: count 0\n~ flow /r/1: count 1 → 50\n+ flow /new: count 3" {
			t.Errorf("diff\n%s", diff)
		}
		var line struct {
			Msg, Source, Actor, Op, From, To string
			Diff                             []string
		}
		if err := json.Unmarshal([]byte(l.String()), &line); err != nil {
			t.Fatalf("log is not one record: %v\n%s", err, l.String())
		}
		if line.Actor != r.Actor || line.From != r.From || line.To != r.To || len(line.Diff) != 3 || line.Op != "edit" {
			t.Errorf("log %+v", line)
		}
		if _, err := w.Clear(writable.WithActor(ctx, "mallory")); err != nil {
			t.Errorf("a panic of the hook: %v", err)
		}
		if history[1].Op != writable.OpClear || !strings.Contains(l.String(), "audit hook panicked") {
			t.Errorf("%+v\n%s", history[1], l.String())
		}
	})
}

func TestWrongPartsAreNamed(t *testing.T) {
	store := datasourcetest.NewStore()
	sink := store.Sink(docKey, datasourcetest.Pushed)
	conv := converter.JSON[rule.Flow]()
	other, err := datasource.New(store.Source("/other", datasourcetest.Pushed), conv, newCore())
	if err != nil {
		t.Fatal(err)
	}
	degrade, err := datasource.New(store.Source(docKey, datasourcetest.Pushed), converter.JSON[rule.Degrade](), rule.NewManager[rule.Degrade]())
	if err != nil {
		t.Fatal(err)
	}
	for want, try := range map[string]func() (*writable.Writable[rule.Flow], error){
		"nil sink":      func() (*writable.Writable[rule.Flow], error) { return writable.New(nil, conv) },
		": nil sink":    func() (*writable.Writable[rule.Flow], error) { return writable.New((*file.Sink)(nil), conv) },
		"nil converter": func() (*writable.Writable[rule.Flow], error) { return writable.New[rule.Flow](sink, nil) },
		"nil option":    func() (*writable.Writable[rule.Flow], error) { return writable.New(sink, conv, nil) },
		"Attempts":      func() (*writable.Writable[rule.Flow], error) { return writable.New(sink, conv, writable.Attempts(0)) },
		"Timeout":       func() (*writable.Writable[rule.Flow], error) { return writable.New(sink, conv, writable.Timeout(-1)) },
		"Backoff":       func() (*writable.Writable[rule.Flow], error) { return writable.New(sink, conv, writable.Backoff(2, 1)) },
		"memory:/other": func() (*writable.Writable[rule.Flow], error) {
			return writable.New(sink, conv, writable.Readable(other))
		},
		"another type": func() (*writable.Writable[rule.Flow], error) {
			return writable.New(sink, conv, writable.Readable(degrade))
		},
		"nil readable": func() (*writable.Writable[rule.Flow], error) { return writable.NewVolatile[rule.Flow](nil) },
		"names another read": func() (*writable.Writable[rule.Flow], error) {
			return writable.NewVolatile(other, writable.Readable(mustReadable(t, store)))
		},
	} {
		w, err := try()
		if err == nil || w != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, w, err)
		}
	}
	if w, err := writable.New(sink, conv); err != nil || w.ID() != sink.ID() || w.Volatile() || store.Requests() != 0 {
		t.Errorf("%v, %d requests", err, store.Requests())
	}
}

func mustReadable(t *testing.T, store *datasourcetest.Store) *datasource.Readable[rule.Flow] {
	r, err := datasource.New(store.Source(docKey, datasourcetest.Pushed), converter.JSON[rule.Flow](), newCore(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A converter, a rule type or a sink of the user's own may panic; that is an error and nothing is written.
func TestPanicsOfTheUsersOwnPartsAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := datasourcetest.NewStore()
		store.Put(docKey, []byte("1"))
		sink := &sink{Sink: store.Sink(docKey, datasourcetest.Pushed)}
		decode := func(data []byte) ([]int, error) { return []int{int(data[0])}, nil }
		encode := func(rules []int) ([]byte, error) { return []byte{byte(rules[0])}, nil }
		for _, c := range []converter.Converter[int]{
			converter.Func(decode, func([]int) ([]byte, error) { panic("encode") }),
			converter.Func(func([]byte) ([]int, error) { panic("decode") }, encode),
		} {
			w, err := writable.New(sink, c, writable.Logger(nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Edit(t.Context(), func(r []int) ([]int, error) { return []int{'2'}, nil }); err == nil {
				t.Error("no error")
			}
		}
		if sink.count() != 0 {
			t.Error("written all the same")
		}
		w, err := writable.New(sink, converter.Func(decode, encode), writable.Logger(nil))
		if err != nil {
			t.Fatal(err)
		}
		sink.write = func(context.Context, []byte, string) (datasource.Document, error) { panic("sink") }
		if _, err := w.Edit(t.Context(), func(r []int) ([]int, error) { return []int{'2'}, nil }); err == nil {
			t.Error("no error")
		}
		// A panic of the edit itself is the caller's, and does not keep others waiting.
		func() {
			defer func() { _ = recover() }()
			_, _ = w.Edit(t.Context(), func(r []int) ([]int, error) { panic("mine") })
		}()
		sink.write = nil
		if _, err := w.Edit(t.Context(), func(r []int) ([]int, error) { return []int{'2'}, nil }); err != nil {
			t.Error(err)
		}
	})
}
