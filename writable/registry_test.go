package writable_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// pairOf makes both sides of a document of any kind.
func pairOf[R any](t *testing.T, store *datasourcetest.Store, key string) writable.Pair[R] {
	t.Helper()
	r, err := datasource.New(store.Source(key, datasourcetest.Pushed), converter.JSON[R](), rule.NewManager[R](), quiet)
	if err != nil {
		t.Fatal(err)
	}
	w, err := writable.New(store.Sink(key, datasourcetest.Pushed), converter.JSON[R](), writable.Readable(r), writable.Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	return writable.Pair[R]{Readable: r, Writable: w}
}

// faults: F159
func TestARegistryHoldsBothSidesOfEachKindAndName(t *testing.T) {
	store := datasourcetest.NewStore()
	var g writable.Registry
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(writable.Register(&g, "", pairOf[rule.System](t, store, "system")))
	must(writable.Register(&g, "b", pairOf[rule.Flow](t, store, "flow-b")))
	must(writable.Register(&g, "", pairOf[rule.Flow](t, store, "flow")))
	must(writable.Register(&g, "", pairOf[rule.Degrade](t, store, "degrade")))
	must(writable.Register(&g, "", pairOf[rule.Authority](t, store, "authority")))
	must(writable.Register(&g, "", pairOf[rule.ParamFlow](t, store, "param-flow")))
	must(writable.Register(&g, "", pairOf[rule.Isolation](t, store, "isolation")))

	list := ""
	for _, i := range g.List() {
		list += fmt.Sprintf("%s/%s=%s %v %v\n", i.Kind, i.Name, i.SourceID, i.Readable, i.Volatile)
	}
	want := `flow/=memory:flow true false
flow/b=memory:flow-b true false
degrade/=memory:degrade true false
system/=memory:system true false
authority/=memory:authority true false
param-flow/=memory:param-flow true false
isolation/=memory:isolation true false
`
	if list != want {
		t.Errorf("list\n%swant\n%s", list, want)
	}
	if n := len(g.Status()); n != 7 {
		t.Errorf("%d statuses", n)
	}
	wantIs(t, "kind and name twice", writable.Register(&g, "", pairOf[rule.Flow](t, store, "flow-c")), writable.ErrRegistered)
	wantIs(t, "document twice", writable.Register(&g, "c", pairOf[rule.Flow](t, store, "flow")), writable.ErrRegistered)
	wantIs(t, "document twice, of another kind", writable.Register(&g, "c", pairOf[rule.Degrade](t, store, "flow")), writable.ErrRegistered)
	wantIs(t, "Replace of nothing", writable.Replace(&g, "zz", pairOf[rule.Flow](t, store, "flow-c")), writable.ErrNotRegistered)
	wantIs(t, "Replace by another's document", writable.Replace(&g, "b", pairOf[rule.Flow](t, store, "flow")), writable.ErrRegistered)
	must(writable.Replace(&g, "b", pairOf[rule.Flow](t, store, "flow-c")))
	p, err := writable.Lookup[rule.Flow](&g, "b")
	if err != nil || p.Writable.ID() != "memory:flow-c" || p.Readable.ID() != "memory:flow-c" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err = writable.Remove[rule.Flow](&g, "b"); err != nil || p.Writable.ID() != "memory:flow-c" {
		t.Errorf("%+v, %v", p, err)
	}
	_, err = writable.Remove[rule.Flow](&g, "b")
	wantIs(t, "Remove twice", err, writable.ErrNotRegistered)
	_, err = writable.Lookup[rule.Flow](&g, "b")
	wantIs(t, "Lookup of nothing", err, writable.ErrNotRegistered)
	must(writable.Register(&g, "again", pairOf[rule.Flow](t, store, "flow-b")))

	// Types of the user's own are kinds, too.
	type mine struct{ Name string }
	type theirs struct{ Name string }
	conv := converter.Func(func([]byte) ([]mine, error) { return nil, nil }, func([]mine) ([]byte, error) { return []byte("[]"), nil })
	w, err := writable.New(store.Sink("mine", datasourcetest.Pushed), conv)
	must(err)
	must(writable.Register(&g, "", writable.Pair[mine]{Writable: w}))
	if _, err := writable.Lookup[theirs](&g, ""); err == nil {
		t.Error("another type's entry is found")
	}
	if infos := g.List(); infos[len(infos)-1].SourceID != "memory:mine" || infos[len(infos)-1].Readable {
		t.Errorf("%+v", infos)
	}
	if err := writable.Register(&g, "x", writable.Pair[rule.Flow]{}); err == nil {
		t.Error("an empty pair is registered")
	}
	a, b := pairOf[rule.Flow](t, store, "x"), pairOf[rule.Flow](t, store, "x")
	if err := writable.Register(&g, "x", writable.Pair[rule.Flow]{Readable: a.Readable, Writable: b.Writable}); err == nil {
		t.Error("a writable with another readable attached is registered")
	}
}

func TestARegistryIsSafeUnderConcurrentUse(t *testing.T) {
	store := datasourcetest.NewStore()
	var g writable.Registry
	var wg sync.WaitGroup
	for i := range 8 {
		p := pairOf[rule.Flow](t, store, "flow"+strconv.Itoa(i))
		wg.Go(func() {
			name := strconv.Itoa(i)
			for range 200 {
				if err := writable.Register(&g, name, p); err != nil {
					t.Error(err)
				}
				if _, err := writable.Lookup[rule.Flow](&g, name); err != nil {
					t.Error(err)
				}
				if err := writable.Replace(&g, name, p); err != nil {
					t.Error(err)
				}
				_, _ = g.List(), g.Status()
				if _, err := writable.Remove[rule.Flow](&g, name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(g.List()); n != 0 {
		t.Errorf("%d left", n)
	}
}

// faults: F126
func TestAnEditWithoutASinkIsVolatileAndTheStoresNextDocumentWins(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(2))
		p := join(t, store, f)
		var l logs
		w, err := writable.NewVolatile(p.readable, writable.Logger(l.logger()))
		if err != nil {
			t.Fatal(err)
		}
		var g writable.Registry
		if err := writable.Register(&g, "", writable.Pair[rule.Flow]{Readable: p.readable, Writable: w}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := store.Requests()
		res, err := w.Edit(t.Context(), add(flow("/volatile", 1)))
		if err != nil || !res.Volatile || !res.InForce || res.Revision == res.From || len(res.Changes.Added) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		if store.Requests() != before {
			t.Error("a volatile edit asked the store")
		}
		wantNames(t, "in force", p.core.Rules(), "/r/0", "/r/1", "/volatile")
		wantEqual(t, "stored", decoded(t, store), flows(2))
		if st := g.Status()[0]; !st.Drift || st.LastChannel != "volatile" || st.Rules != 3 || st.Revision == "" {
			t.Errorf("status %+v", st)
		}
		// Reads of the same document leave it alone.
		time.Sleep(2 * datasource.DefaultRelist)
		synctest.Wait()
		if p.core.Len() != 3 || !p.readable.Status().Drift {
			t.Error("a read of the same document undid the edit")
		}
		// A revision compares here as it does in a store.
		cur, err := w.Read(t.Context())
		if err != nil || cur.Revision != res.Revision || len(cur.Rules) != 3 {
			t.Fatalf("%+v, %v", cur, err)
		}
		_, err = w.Write(t.Context(), flows(1), res.From)
		wantIs(t, "an old revision", err, datasource.ErrConflict)
		_, err = w.Write(t.Context(), nil, cur.Revision)
		wantIs(t, "nil", err, datasource.ErrInvalid)
		_, err = w.Write(t.Context(), []rule.Flow{flow("", 1)}, cur.Revision)
		wantIs(t, "an invalid rule", err, datasource.ErrInvalid)
		_, err = w.Create(t.Context(), flows(1))
		wantIs(t, "Create", err, datasource.ErrConflict)
		if res, err = w.Write(t.Context(), flows(1), cur.Revision); err != nil || !res.Volatile {
			t.Fatalf("%+v, %v", res, err)
		}
		if res, err = w.Clear(t.Context()); err != nil || p.core.Len() != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		// The store's next document wins.
		put(store, flows(4))
		time.Sleep(2 * datasource.DefaultRelist)
		synctest.Wait()
		wantEqual(t, "after the store's next document", p.core.Rules(), flows(4))
		if p.readable.Status().Drift {
			t.Error("drift after the store's next document")
		}
		// And Refresh puts the store's rules back.
		if _, err := w.Edit(t.Context(), add(flow("/volatile", 1))); err != nil {
			t.Fatal(err)
		}
		if err := p.readable.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "after Refresh", p.core.Rules(), flows(4))
		if p.readable.Status().Drift {
			t.Error("drift after Refresh")
		}
	})
}

func TestAVolatileEditThatAListenerRefusesChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := datasourcetest.NewStore()
		put(store, flows(2))
		p := join(t, store, datasourcetest.Pushed)
		w, err := writable.NewVolatile(p.readable, writable.Logger(nil))
		if err != nil {
			t.Fatal(err)
		}
		busy := fmt.Errorf("busy")
		p.core.set(func() { p.core.fail = busy })
		_, err = w.Edit(t.Context(), add(flow("/volatile", 1)))
		wantIs(t, "refused", err, busy)
		p.core.set(func() { p.core.fail = nil })
		time.Sleep(datasource.DefaultMaxBackoff)
		synctest.Wait()
		wantEqual(t, "in force", p.core.Rules(), flows(2))
		if p.readable.Status().Drift {
			t.Error("drift")
		}
		// A store without a document: the first rules may be volatile ones.
		empty := datasourcetest.NewStore()
		q := join(t, empty, datasourcetest.Pushed)
		if w, err = writable.NewVolatile(q.readable, writable.Logger(nil)); err != nil {
			t.Fatal(err)
		}
		res, err := w.Create(t.Context(), flows(1))
		if err != nil || res.From != writable.Absent || q.core.Len() != 1 || !q.readable.Status().Drift {
			t.Errorf("%+v, %v", res, err)
		}
		put(empty, flows(3))
		synctest.Wait()
		wantEqual(t, "the store's first document", q.core.Rules(), flows(3))
	})
}

// Where a missing document means no rules, it says so once: what is edited in memory after that stays until the store speaks.
func TestAMissingDocumentThatIsReadAgainTakesAVolatileEditAway(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		p := join(t, store, f, datasource.OnMissing(datasource.Clear))
		w, err := writable.NewVolatile(p.readable, writable.Logger(nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Edit(t.Context(), add(flow("/volatile", 1))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute) // reads and relists
		synctest.Wait()
		if s := p.readable.Status(); p.core.Len() != 1 || !s.Drift || s.Counts.Reads < 3 {
			t.Errorf("%d rules, %+v", p.core.Len(), s)
		}
		// The store's next word wins, and its next silence after that.
		put(store, flows(3))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		wantEqual(t, "the store's document", p.core.Rules(), flows(3))
		if _, err := w.Edit(t.Context(), add(flow("/volatile", 1))); err != nil {
			t.Fatal(err)
		}
		store.Delete(docKey)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if p.core.Len() != 0 || p.readable.Status().Drift {
			t.Errorf("%d rules after the deletion", p.core.Len())
		}
	})
}

// A change behind the store's back shows as drift, and an edit through the writable ends it.
//
// faults: F126
func TestAnEditEndsTheDriftThatSomebodyElseMade(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(2))
		p := join(t, store, f)
		if _, err := p.core.Load(flows(9)); err != nil { // not through Rulewire
			t.Fatal(err)
		}
		if !p.readable.Status().Drift {
			t.Error("the drift is hidden")
		}
		res, err := p.Edit(t.Context(), add(flow("/new", 1)))
		if err != nil || !res.InForce || p.readable.Status().Drift {
			t.Errorf("%+v, %v", res, err)
		}
		wantNames(t, "in force", p.core.Rules(), "/r/0", "/r/1", "/new")
	})
}
