package main

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// at is a source of one document that does not change.
type at []byte

func (at) ID() string { return "test:flow" }

func (data at) Read(context.Context) (datasource.Document, error) {
	return datasource.Document{Presence: datasource.Present, Data: data, Revision: "1"}, nil
}

func TestBothSidesReadTheNumberOfADocument(t *testing.T) {
	if err := quietTheirs(); err != nil {
		t.Fatal(err)
	}
	theirs := newTold()
	if err := handler(theirs).Handle(document(42)); err != nil {
		t.Fatal(err)
	}
	ours, err := follow(t.Context(), t, at(document(42)))
	if err != nil {
		t.Fatal(err)
	}
	for name, told := range map[string]*told{"theirs": theirs, "ours": ours} {
		if seen := <-told.sightings; seen.number != 42 {
			t.Errorf("%s: %d", name, seen.number)
		}
	}
}

func TestWhatDoesNotArriveIsLostAndCountsAgainstUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := newTold(), newTold()
		numbers := func(to *told, late time.Duration, forgets int) func(context.Context, []byte) error {
			n := 0
			return func(context.Context, []byte) error {
				if n++; n != forgets {
					n := n
					time.AfterFunc(late, func() { to.number(n) })
				}
				return nil
			}
		}
		ours.number(0)
		theirs.number(0)
		s := store{writes: 100, patience: time.Second}
		got, err := s.measure(t.Context(), []side{
			{"ours", numbers(ours, 20*time.Millisecond, warmUp+7), ours}, {"theirs", numbers(theirs, 30*time.Millisecond, 0), theirs},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct {
			lost int
			took time.Duration
		}{{1, 20 * time.Millisecond}, {0, 30 * time.Millisecond}} {
			if got[i].lost != want.lost || len(got[i].took)+got[i].lost != 100 || percentile(got[i].took, 0.99) != want.took {
				t.Errorf("%s: lost %d, p99 %v", got[i].name, got[i].lost, percentile(got[i].took, 0.99))
			}
		}
		if s.met(got) {
			t.Error("a lost write does not count")
		}
		if ratio := got[0].ratio(got[1]); ratio != "1.50 ×, 1.50 ×" {
			t.Error(ratio)
		}
	})
}

func TestBudgets(t *testing.T) {
	of := func(ds ...int) (m measured) {
		for _, d := range ds {
			m.took = append(m.took, time.Duration(d)*time.Millisecond)
		}
		return m
	}
	for i, c := range []struct {
		limit time.Duration
		got   []measured
		met   bool
	}{
		{5 * time.Millisecond, []measured{of(1, 5)}, true},
		{5 * time.Millisecond, []measured{of(1, 6), of(9, 9)}, false},
		{0, []measured{of(100, 104), of(100, 100)}, true},
		{0, []measured{of(100, 106), of(100, 100)}, false},
		{0, []measured{of(100), of()}, true},
		{0, []measured{of()}, false},
	} {
		if got := (store{limit: c.limit}).met(c.got); got != c.met {
			t.Errorf("case %s: %v", strconv.Itoa(i), got)
		}
	}
}

// A store for which there is no server is told as skipped, not as failed, and why.
func TestNoServerIsSkipped(t *testing.T) {
	_, err := onServer(t.Context(), store{open: func(_ context.Context, tb testing.TB) ([]side, error) {
		tb.Skip("needs a server")
		return nil, nil
	}})
	if !errors.Is(err, errSkipped) || err.Error() != "skipped: needs a server" {
		t.Error(err)
	}
	_, err = onServer(t.Context(), store{open: func(_ context.Context, tb testing.TB) ([]side, error) {
		tb.Fatal("it broke")
		return nil, nil
	}})
	if err == nil || errors.Is(err, errSkipped) || err.Error() != "it did not run: it broke" {
		t.Error(err)
	}
}
