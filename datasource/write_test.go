package datasource

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

func TestCheckSaysWhatTheGuardWouldSayOfAnOwnWrite(t *testing.T) {
	r := made(t, &store{}, &engine{}, MaxBytes(100), OnInvalid(SkipRule))
	rules, err := r.Check([]byte(v1))
	if err != nil || fmt.Sprint(rules) != "[{a 1}]" {
		t.Errorf("%v, %v", rules, err)
	}
	for text, target := range map[string]error{
		`nonsense`:                ErrDecode,
		``:                        ErrDecode,
		`[{"Name":"a","Max":-1}]`: ErrInvalid,
		`[{"Name":"a","Max":1},{"Name":"b","Max":-1}]`: ErrInvalid, // SkipRule forgives others only
		fmt.Sprintf("[%200s]", ""):                     ErrTooLarge,
	} {
		if _, err := r.Check([]byte(text)); !errors.Is(err, target) || errors.Is(err, ErrRefused) {
			t.Errorf("%.30s: %v, want %v", text, err, target)
		}
		if target == ErrTooLarge {
			continue
		}
		if _, err := Check(limits(), []byte(text)); !errors.Is(err, target) {
			t.Errorf("without a readable, %.30s: %v, want %v", text, err, target)
		}
	}
	if s := r.Status(); s.Counts.Reads != 0 || len(s.Refused) != 0 {
		t.Errorf("Check left traces: %+v", s)
	}
}

func TestVetSaysWhatTheGuardHoldsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &store{}
		s.set(doc(1, v1))
		r := start(t, s, &engine{})
		if err := r.Vet(doc(2, v2)); err != nil {
			t.Error(err)
		}
		if err := r.Vet(doc(2, `[]`)); !errors.Is(err, ErrRefused) {
			t.Errorf("an empty list: %v", err)
		}
		if err := r.Vet(Document{Presence: Missing}); !errors.Is(err, ErrRefused) || !errors.Is(err, ErrMissing) {
			t.Errorf("a missing document: %v", err)
		}
		if err := r.Vet(r.Document()); err != nil {
			t.Errorf("the document in force: %v", err)
		}
		if err := r.Written(t.Context(), doc(2, `[]`)); err != nil {
			t.Fatal(err)
		}
		if err := r.Vet(Document{Presence: Missing}); err != nil {
			t.Errorf("a missing document without rules in force: %v", err)
		}
	})
}

// faults: F163
func TestAnExpectedDocumentIsDeliberateWhicheverWayItComes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.set(doc(1, v1))
		r := start(t, s, e)
		done := r.Expect([]byte(`[]`))
		s.set(doc(2, `[]`))
		s.deliver(doc(2, `[]`)) // the notification overtakes the answer
		synctest.Wait()
		want(t, "in force", e.got(), "[[{a 1}] []]")
		if err := r.Replaced(t.Context(), doc(1, v1), doc(2, `[]`)); err != nil {
			t.Error(err)
		}
		done()
		done()
		want(t, "told once", e.got(), "[[{a 1}] []]")
		want(t, "refused", r.Status().Refused, "map[]")
		s.deliver(doc(3, v2))
		synctest.Wait()
		s.deliver(doc(4, `[]`))
		s.set(doc(4, `[]`))
		synctest.Wait()
		want(t, "an accident of the same text later", r.Status().Cause, CauseEmptyList)
	})
}

// without is a document of a store that gives no order.
func without(revision, text string) Document {
	return Document{Presence: Present, Data: []byte(text), Revision: revision}
}

// faults: F143
func TestReplacedReadsWhereTheStoreGivesNoOrderAndHasMovedOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := &store{}, &engine{}
		a, b, c := without("a", v1), without("b", v2), without("c", v3)
		s.set(a)
		r := start(t, s, e, Interval(1<<40))
		reads, _ := s.count()
		s.set(b)
		if err := r.Replaced(t.Context(), a, b); err != nil {
			t.Fatal(err)
		}
		if n, _ := s.count(); n != reads {
			t.Error("read although nothing came between")
		}
		// The readable has seen c already: b must not come back.
		s.set(c)
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		told := e.got()
		if err := r.Replaced(t.Context(), a, b); err != nil {
			t.Error(err)
		}
		want(t, "overtaken", e.got(), told)
		// The readable lags: it has not seen what the write replaced.
		lagging := without("e", `[]`)
		s.set(lagging)
		if err := r.Replaced(t.Context(), without("d", v1), lagging); err != nil {
			t.Error(err)
		}
		want(t, "its own write, deliberate", r.Status().Rules, 0)
		// And where the read fails nothing is believed.
		s.fail(errors.New("down"))
		if err := r.Replaced(t.Context(), without("d", v1), without("f", v2)); err == nil {
			t.Error("no error")
		}
		want(t, "unchanged", r.Status().Rules, 0)
		want(t, "cause", r.Status().Cause, CauseRead)
	})
}

// Somebody puts back what we have just replaced, and the readable hears of that before it is told of our write: it has
// seen the same document before and after, and the store's is theirs.
//
// faults: F143
func TestAnOwnWriteThatWasUndoneMeanwhileDoesNotComeBack(t *testing.T) {
	for name, a := range map[string]Document{"replaced": without("a", v1), "created": {Presence: Missing}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, e := pushed{&store{}}, &engine{}
				b := without("b", v2)
				s.set(a)
				r := start(t, s, e, OnMissing(Clear))
				told := e.got()
				done := r.Expect(b.Data)
				s.deliver(Hint()) // of our write, and of theirs after it: one read answers both
				synctest.Wait()
				if err := r.Replaced(t.Context(), a, b); err != nil && !errors.Is(err, ErrMissing) {
					t.Error(err)
				}
				done()
				synctest.Wait()
				want(t, "calls", e.got(), told)
			})
		})
	}
}

// faults: F126
func TestOverrideIsDriftUntilTheStoreSpeaksAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := pushed{&store{}}, &engine{}
		s.set(doc(1, v1))
		r := start(t, s, e)
		mine := []limit{{"mine", 1}}
		if err := r.Override(t.Context(), mine, 7); !errors.Is(err, ErrConflict) {
			t.Errorf("a wrong generation: %v", err)
		}
		if err := r.Override(t.Context(), []limit{{"mine", -1}}, 1); !errors.Is(err, ErrInvalid) {
			t.Errorf("an invalid rule: %v", err)
		}
		if r.Status().Drift {
			t.Error("drift without an edit")
		}
		if err := r.Override(t.Context(), mine, 1); err != nil {
			t.Fatal(err)
		}
		mine[0].Max = 99 // the caller's own
		if err := r.Override(t.Context(), nil, 2); err != nil {
			t.Fatal(err)
		}
		want(t, "in force", e.got(), "[[{a 1}] [{mine 1}] []]")
		pass(2 * DefaultRelist)
		if !r.Status().Drift {
			t.Error("a read of the same document ends the drift")
		}
		s.set(doc(2, v1))
		s.deliver(doc(2, v1)) // the same text, written anew
		synctest.Wait()
		want(t, "the store's word", e.got(), "[[{a 1}] [{mine 1}] [] [{a 1}]]")
		if r.Status().Drift {
			t.Error("drift")
		}
		_ = r.Close()
		if err := r.Override(t.Context(), mine, 4); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// An own write and its echo: the echo costs a compare, whatever the writer announced.
//
// faults: F163
func TestTheEchoOfAnOwnWriteCostsNoAllocation(t *testing.T) {
	l, d := unchangedRun(t)
	mine := d
	mine.Revision = "mine"
	defer l.r.Expect([]byte("another document"))()
	if err := l.replaced(d, mine); err != nil {
		t.Fatal(err)
	}
	echo := mine
	echo.Data = append([]byte(nil), mine.Data...)
	for _, channel := range []string{byRead, byWatch} {
		if n := testing.AllocsPerRun(10, func() {
			if err := l.consider(echo, channel, false); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", channel, n)
		}
	}
	if l.r.status.Counts.Applied != 1 {
		t.Error("applied again")
	}
}
