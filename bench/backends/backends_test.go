package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/datasource"
)

// at is a source of one document that does not change.
type at []byte

func (at) ID() string { return "test:flow" }

func (data at) Read(context.Context) (datasource.Document, error) {
	return datasource.Document{Presence: datasource.Present, Data: data, Revision: "1"}, nil
}

func TestOurSideReadsTheNumberOfADocument(t *testing.T) {
	ours, err := follow(t.Context(), t, at(document(42)))
	if err != nil {
		t.Fatal(err)
	}
	if seen := <-ours.sightings; seen.number != 42 {
		t.Error(seen.number)
	}
}

// asPeer makes of this test binary a peer that answers the order's address, which is a text, line by line.
const asPeer = "RULEWIRE_BENCH_TEST_AS_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(asPeer) != "" {
		os.Exit(playPeer(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

func playPeer(in io.Reader, out io.Writer) int {
	input := json.NewDecoder(in)
	var order peerOrder
	if err := input.Decode(&order); err != nil || order.Store != "test" || order.Folder == "" {
		return 2
	}
	fmt.Fprint(out, order.Addr)
	if _, err := input.Token(); !errors.Is(err, io.EOF) {
		return 3
	}
	return 0
}

func TestPeerTellsItsNumbersAndEndsWithItsInput(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asPeer, "1")
	t.Run("open", func(t *testing.T) {
		told, err := openPeer(t.Context(), t, program, peerOrder{Store: "test", Addr: "7 1000\n8 2000\n"})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []sighting{{7, time.Unix(0, 1000)}, {8, time.Unix(0, 2000)}} {
			if got := <-told.sightings; got != want {
				t.Errorf("%v instead of %v", got, want)
			}
		}
	})
	if err := hear(strings.NewReader("1 2\nhello\n3 4\n"), newTold()); !errors.Is(err, errPeer) || !strings.Contains(err.Error(), "hello") {
		t.Error(err)
	}
	if _, err := openPeer(t.Context(), t, "/there/is/no/such/program", peerOrder{}); !errors.Is(err, errPeer) || !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
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
