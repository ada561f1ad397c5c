package command_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rulewire/rulewire/command"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/rule"
)

// The Dashboard adds from its tree page without reading first: after its own restart it pushes the new rule alone. A Java
// client then has only that one.
func TestAPushFromADashboardThatForgotItsRulesIsHeldBack(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(flowDoc("a=1 b=2 c=3")))
	p := start(t, store)
	status, text := p.push("flow", flowDoc("d=4"))
	if status != 400 || !strings.Contains(text, "a, b, c") || !strings.Contains(text, "Open the rules page first") {
		t.Fatalf("%d %s", status, text)
	}
	if got := flows(t, p.stored(flowKey)); got != "a=1 b=2 c=3" {
		t.Fatalf("stored %s", got)
	}
	s := p.centre.Status()
	if s.Stale[rule.KindFlow] != 1 || len(s.Pending) != 1 || s.Pending[0].Removed != 3 || s.Pending[0].Added != 1 || s.Pending[0].Rules != 1 ||
		s.Pending[0].Actor != "command port, from 127.0.0.1" || len(s.Pending[0].Diff) != 4 {
		t.Fatalf("status %+v", s)
	}
	// A second time, for the Dashboard keeps the edit in mind; then the person does as told.
	if status, _ := p.push("flow", flowDoc("d=4 e=5")); status != 400 {
		t.Errorf("%d", status)
	}
	p.read("flow")
	p.set("flow", flowDoc("a=1 b=2 c=3 d=4"))
	if s := p.centre.Status(); len(s.Pending) != 0 || s.Stale[rule.KindFlow] != 2 {
		t.Errorf("status %+v", s)
	}
	// One rule may go with a click.
	p.set("flow", flowDoc("b=2 c=3 d=4"))
	if status, text := p.push("flow", "[]"); status != 400 || !strings.Contains(text, "b, c, d") {
		t.Errorf("%d %s", status, text)
	}
}

func TestAnOperatorAcceptsAHeldPushExactlyAsItWasShown(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(flowDoc("a=1 b=2")))
	p := start(t, store)
	hold := func(data string) command.Pending {
		t.Helper()
		if status, _ := p.push("flow", data); status != 400 {
			t.Fatalf("status %d", status)
		}
		all := p.centre.Pending()
		return all[len(all)-1]
	}
	first := hold(flowDoc("d=4"))
	second := hold("[]")
	// The rules change: what was shown is not what would happen.
	store.Put(flowKey, []byte(flowDoc("a=1 b=2 x=9")))
	until(t, "x is in force", func() bool { return p.flow.Len() == 3 })
	if err := p.centre.Accept(t.Context(), rule.KindFlow, first.ID); !errors.Is(err, datasource.ErrConflict) {
		t.Errorf("got %v", err)
	}
	store.Put(flowKey, []byte(flowDoc("a=1 b=2")))
	until(t, "x is gone", func() bool { return p.flow.Len() == 2 })
	if err := p.centre.Accept(t.Context(), rule.KindFlow, "99"); !errors.Is(err, command.ErrNotPending) {
		t.Errorf("got %v", err)
	}
	if err := p.centre.Accept(t.Context(), rule.KindIsolation, "1"); !errors.Is(err, command.ErrNotPending) {
		t.Errorf("got %v", err)
	}
	var shown []command.Pending
	if _, text := p.get("/pendingRules"); json.Unmarshal([]byte(text), &shown) != nil || len(shown) != 2 || shown[1].ID != second.ID {
		t.Errorf("shown %+v", shown)
	}
	if status, text := p.post("/acceptRules", "kind", "flow", "id", first.ID); status != 200 || text != "success" {
		t.Fatalf("%d %s", status, text)
	}
	if got := flows(t, p.stored(flowKey)); got != "d=4" {
		t.Errorf("stored %s", got)
	}
	if len(p.centre.Pending()) != 0 {
		t.Errorf("pending %+v", p.centre.Pending())
	}
	if status, _ := p.post("/acceptRules", "kind", "flow", "id", second.ID); status != 400 {
		t.Errorf("%d", status)
	}
}

func TestTheLimitOfRemovedRulesIsAnOption(t *testing.T) {
	for limit, want := range map[int]int{0: 400, 1: 400, 2: 400, 3: 200, -1: 200} {
		store := datasourcetest.NewStore()
		store.Put(flowKey, []byte(flowDoc("a=1 b=2 c=3")))
		p := start(t, store, command.MaxRemoved(limit))
		if status, text := p.push("flow", flowDoc("d=4")); status != want {
			t.Errorf("limit %d: %d %s", limit, status, text)
		}
	}
}

// Somebody's page shows rules of before this process was restarted; meanwhile others have changed the document.
func TestAPageOpenedBeforeARestartLosesNobodysRules(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(flowDoc("a=1 b=2")))
	p := start(t, store)
	p.read("flow") // the page
	p.close()
	store.Put(flowKey, []byte(flowDoc("a=1 b=2 c=3 d=4")))
	p = start(t, store)
	// The page removes a: together with c and d, which it never had, that is three. It has to be opened anew.
	if status, text := p.push("flow", flowDoc("b=2")); status != 400 || !strings.Contains(text, "a, c, d") {
		t.Errorf("%d %s", status, text)
	}
	if got := flows(t, p.stored(flowKey)); got != "a=1 b=2 c=3 d=4" {
		t.Errorf("stored %s", got)
	}
	p.read("flow")
	p.set("flow", flowDoc("b=2 c=3 d=4"))
}

// Two people edit through two machines of one application, each with a page that does not know of the other's edit.
func TestTwoPeopleOnTwoMachinesKeepEachOthersRules(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(flowDoc("a=1 b=2")))
	one, two := start(t, store), start(t, store)
	one.agent, two.agent = "first", "second"
	one.read("flow")
	two.read("flow")
	one.set("flow", flowDoc("a=1 b=2 c=3")) // adds
	two.set("flow", flowDoc("a=1 b=7"))     // changes: c is not meant to go
	if got := flows(t, one.stored(flowKey)); got != "a=1 b=7 c=3" {
		t.Fatalf("stored %s", got)
	}
	until(t, "both have it", func() bool {
		return flows(t, one.read("flow")) == "a=1 b=7 c=3" && flows(t, two.read("flow")) == "a=1 b=7 c=3"
	})
	one.set("flow", flowDoc("a=1 b=7 c=3 d=4"))
	one.set("flow", flowDoc("a=1 b=7 c=3 d=4 e=5"))
	until(t, "the other has it", func() bool { return two.flow.Len() == 5 })
	two.set("flow", flowDoc("a=1 b=7 c=3 f=6")) // adds on the page of before: d and e stay
	if got := flows(t, one.stored(flowKey)); got != "a=1 b=7 c=3 d=4 e=5 f=6" {
		t.Fatalf("stored %s", got)
	}
	// A removal on an old page can't be told from a page that forgot: it is held back.
	if status, _ := two.push("flow", flowDoc("a=1 b=7")); status != 400 {
		t.Errorf("%d", status)
	}
	// A rule that this machine has not in force yet is somebody's who was quicker.
	two.store.CutWatches(errors.New("cut"))
	two.store.Inject(datasourcetest.Faults{Watches: errors.New("cut")})
	store.Put(flowKey, []byte(flowDoc("a=1 b=7 c=3 d=4 e=5 f=6 g=7")))
	two.set("flow", flowDoc("a=2 b=7 c=3 d=4 e=5 f=6"))
	if got := flows(t, one.stored(flowKey)); got != "a=2 b=7 c=3 d=4 e=5 f=6 g=7" {
		t.Fatalf("stored %s", got)
	}
}

// The same rule from two old pages: the later edit wins, as in every form; nothing else is touched.
func TestTheSameRuleEditedOnTwoOldPagesHasTheLaterValue(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(flowDoc("a=1 b=2")))
	p := start(t, store)
	p.read("flow")
	p.agent = "somebody else"
	p.read("flow")
	p.set("flow", flowDoc("a=10 b=2"))
	p.set("flow", flowDoc("a=10 b=20"))
	p.agent = "Apache-HttpAsyncClient/4.1.5 (Java/17.0.15)"
	p.set("flow", flowDoc("a=5 b=2"))
	if got := flows(t, p.stored(flowKey)); got != "a=5 b=20" {
		t.Errorf("stored %s", got)
	}
}

func TestRulesOfOneResourceArePairedByWhatTheyLimit(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(`[{"resource":"r","count":1,"grade":0,"note":"threads"},{"resource":"r","count":9,"note":"qps"}]`))
	p := start(t, store)
	p.set("flow", `[{"resource":"r","count":10,"grade":1},{"resource":"r","count":2,"grade":0}]`)
	for _, r := range p.flow.Rules() {
		want := map[rule.FlowGrade]string{rule.GradeThread: `"threads" 2`, rule.GradeQPS: `"qps" 10`}[r.Grade]
		if len(r.Extra) != 1 || fmt.Sprint(r.Extra[0].Value, " ", r.Count) != want {
			t.Errorf("%+v", r)
		}
	}
}

// Two people read the same empty page, and each adds a rule. A script that read it once and sets one list after the other
// means what it says.
func TestAnEmptyPageThatTwoReadLosesNeithersRule(t *testing.T) {
	p := start(t, datasourcetest.NewStore())
	p.read("flow")
	p.set("flow", flowDoc("a=1"))
	p.set("flow", flowDoc("b=1"))
	if got := flows(t, p.stored(flowKey)); got != "b=1" {
		t.Errorf("stored %s", got)
	}
	p.set("flow", "[]")
	q := start(t, datasourcetest.NewStore())
	q.read("flow")
	q.read("flow")
	q.set("flow", flowDoc("a=1"))
	q.set("flow", flowDoc("b=1"))
	if got := flows(t, q.stored(flowKey)); got != "a=1 b=1" {
		t.Errorf("stored %s", got)
	}
}

// What the page shows besides the removed rule is what it was shown, not what somebody wants.
func TestARemovalOnAnOldPageUndoesWhatOthersMadeOfTheOtherRules(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(flowDoc("a=1 b=2 c=3")))
	p := start(t, store)
	page := p.in(t)
	page.read("flow")
	p.agent = "somebody else"
	p.read("flow")
	p.set("flow", flowDoc("a=1 b=20 c=3"))
	p.set("flow", flowDoc("a=1 b=20")) // c goes
	page.set("flow", flowDoc("b=2 c=3"))
	if got := flows(t, p.stored(flowKey)); got != "b=20" {
		t.Errorf("stored %s", got)
	}
}

// The push is a list that was shown last, without one rule; an older list, with one rule more, says the same of it.
func TestARemovalIsTakenForAnOlderClickAndAnsweredSuccess(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(flowDoc("a=1")))
	p := start(t, store)
	page := p.in(t)
	page.read("flow")
	page.set("flow", flowDoc("a=1 b=2"))
	page.set("flow", flowDoc("a=1 b=2 c=3"))
	p.agent = "somebody else"
	p.read("flow")
	p.set("flow", flowDoc("a=1 b=20 c=3"))
	page.set("flow", flowDoc("a=1 b=2"))
	if got := flows(t, p.stored(flowKey)); got != "a=1 b=20" {
		t.Errorf("stored %s", got)
	}
}

func TestTheSamePushTwiceMakesATwin(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(flowDoc("a=1")))
	p := start(t, store)
	page := p.in(t)
	page.read("flow")
	p.agent = "somebody else"
	p.set("flow", flowDoc("a=1 b=2"))
	for range 2 {
		page.set("flow", flowDoc("a=1 c=3"))
		if got := flows(t, p.stored(flowKey)); got != "a=1 b=2 c=3" {
			t.Errorf("stored %s", got)
		}
	}
	// The rule that was added comes along with others that this page knows nothing of: that is no second click.
	p.set("flow", flowDoc("a=1 b=2 c=3 d=4"))
	if status, text := page.push("flow", flowDoc("c=3")); status != 400 {
		t.Errorf("%d %s", status, text)
	}
}

// Somebody changed the rule in the store, and this process has not heard of it yet.
func TestARemovalOfARuleThatAnotherJustChangedIsAnsweredSuccessAndNotMade(t *testing.T) {
	store := datasourcetest.NewStore()
	store.Put(flowKey, []byte(flowDoc("a=1 b=2 c=3")))
	p := start(t, store)
	p.read("flow")
	store.CutWatches(errors.New("cut"))
	store.Inject(datasourcetest.Faults{Watches: errors.New("cut")})
	store.Put(flowKey, []byte(flowDoc("a=1 b=20 c=3 d=4")))
	p.set("flow", flowDoc("a=1 c=3"))
	if got := flows(t, p.stored(flowKey)); got != "a=1 c=3 d=4" {
		t.Errorf("stored %s", got)
	}
}

func TestARefusalSpellsOutNamesOfAnyLength(t *testing.T) {
	store := datasourcetest.NewStore()
	long := strings.Repeat("n", 100_000)
	store.Put(flowKey, []byte(flowDoc(long+"a=1 "+long+"b=2 c=3")))
	p := start(t, store)
	if status, text := p.push("flow", flowDoc("c=3")); status != 400 || len(text) > 1000 || !strings.Contains(text, "nnn") {
		t.Errorf("%d, %d bytes", status, len(text))
	}
}
