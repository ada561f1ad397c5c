package command

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// engine counts as an engine does: it keeps the last 10 s of each resource.
type engine struct {
	mu      sync.Mutex
	seconds []Second
	asked   int
}

func (e *engine) Nodes() []Node {
	return []Node{{Resource: "b|x", PassQPS: 2.9, BlockQPS: 1, AverageRT: 3.7}, {Resource: "a", Threads: 2}}
}

func (e *engine) Inbound() Node { return Node{Resource: "__total_inbound_traffic__", PassQPS: 5} }

func (e *engine) Seconds(from, to time.Time) []Second {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	var all []Second
	for _, s := range e.seconds {
		if !s.Time.Before(from) && s.Time.Before(to) && time.Since(s.Time) <= 10*time.Second {
			all = append(all, s)
		}
	}
	return all
}

func (e *engine) add(s Second) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seconds = append(e.seconds, s)
}

// The Dashboard asks once for each window of seven seconds, 2 to 15 s late, and never again.
func TestTheDashboardFindsEverySecondOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		r := newRing(e)
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { r.run(ctx) })
		begin := time.Now().Truncate(time.Second)
		seen := make(map[string]int)
		next := begin.Unix()
		for i := range 200 {
			e.add(Second{Time: begin.Add(time.Duration(i) * time.Second), Resource: "r", Pass: uint64(i + 1), Block: 1, Success: uint64(i), RT: 7, Concurrency: 2, Classification: 1})
			time.Sleep(time.Second)
			if now := time.Now(); now.Unix()-(next+6) >= 2 { // the end of the window is old enough
				for line := range strings.SplitSeq(strings.TrimSuffix(r.text(next, next+6, "", 0), "\n"), "\n") {
					seen[line]++
				}
				next += 7
			}
		}
		stop()
		done.Wait()
		for i := range int(next - begin.Unix()) {
			line := fmt.Sprintf("%d|r|%d|1|%d|0|7|0|2|1", (begin.Unix()+int64(i))*1000, i+1, i)
			if seen[line] != 1 {
				t.Errorf("%q seen %d times", line, seen[line])
			}
		}
		if m := r.minutes()["r"]; m.block != 60 {
			t.Errorf("%d blocks in the last minute", m.block)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.lines) > ringSeconds+2 {
			t.Errorf("%d lines kept", len(r.lines))
		}
	})
}

func TestLinesHaveWholeNumbersAndNamesOfOneField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		r := newRing(e)
		now := time.Now().Truncate(time.Second)
		for _, name := range []string{"GET:/a|b", "line\nend\r", "日本", ""} {
			e.add(Second{Time: now, Resource: name, Pass: 1 << 40, RT: 1})
		}
		e.add(Second{Time: now, Resource: "idle"})
		time.Sleep(time.Second)
		text := r.text(0, 1<<40, "", 0)
		line := regexp.MustCompile(`^\d+\|[^|\r\n]*(\|\d+){8}$`)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) != 4 {
			t.Fatalf("%q", text)
		}
		for _, l := range lines {
			if !line.MatchString(l) {
				t.Errorf("%q", l)
			}
		}
		if got := r.text(0, 1<<40, "日本", 0); strings.Count(got, "\n") != 1 {
			t.Errorf("one resource: %q", got)
		}
	})
}

func TestTheRingIsBoundedAndSurvivesAClockThatJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		r := newRing(e)
		now := time.Now().Truncate(time.Second)
		for i := range 5000 {
			e.add(Second{Time: now, Resource: fmt.Sprint(i), Pass: 1})
		}
		for i := range 60 {
			e.mu.Lock()
			for j := range e.seconds {
				e.seconds[j].Time = now.Add(time.Duration(i) * time.Second)
			}
			e.mu.Unlock()
			time.Sleep(time.Second)
			r.sample(time.Now())
		}
		if len(r.lines) > ringLines {
			t.Errorf("%d lines", len(r.lines))
		}
		r.sample(now.Add(-time.Hour))
		r.sample(time.Now())
		r.sample(time.Now().Add(24 * time.Hour))
		if len(r.lines) != 0 {
			t.Errorf("%d lines after a day", len(r.lines))
		}
	})
}

// maxLines never splits a second.
func TestMaxLinesEndsWithAWholeSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		r := newRing(e)
		now := time.Now().Truncate(time.Second)
		for i := range 3 {
			for _, name := range []string{"a", "b"} {
				e.add(Second{Time: now.Add(time.Duration(i) * time.Second), Resource: name, Pass: 1})
			}
		}
		time.Sleep(4 * time.Second)
		for most, want := range map[int]int{1: 2, 2: 2, 3: 4, 100: 6} {
			if got := strings.Count(r.text(0, 1<<40, "", most), "\n"); got != want {
				t.Errorf("maxLines %d: %d lines", most, got)
			}
		}
	})
}

func TestTheTreeHasARootAndParentsBeforeChildren(t *testing.T) {
	c, err := New(Stats(&engine{}), Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	tree := c.tree()
	seen := map[string]bool{"": true}
	for _, n := range tree {
		if !seen[n.ParentID] || n.ID == "" || n.Resource == "" {
			t.Errorf("node %+v", n)
		}
		seen[n.ID] = true
	}
	if len(tree) != 4 || tree[0].Resource != rootName || tree[0].ParentID != "" || tree[1].Resource != contextName || tree[2].Resource != "a" {
		t.Errorf("tree %+v", tree)
	}
	if n := tree[3]; n.PassQPS != 2 || n.TotalQPS != 3 || n.AverageRT != 3 {
		t.Errorf("node %+v", n)
	}
	if text := c.treeText(""); !strings.Contains(text, "\n--a(t:2 pq:0") {
		t.Errorf("tree\n%s", text)
	}
	if text := c.treeText("b|"); !strings.HasPrefix(text, "b|x(t:0 pq:2 ") {
		t.Errorf("tree\n%s", text)
	}
	if text := c.table("a"); !strings.Contains(text, "1   a  2         0") {
		t.Errorf("table\n%s", text)
	}
	if text := c.origins("b|x"); !strings.HasPrefix(text, "id: b|x\n\nidx ") {
		t.Errorf("origins\n%s", text)
	}
}

// A request line and headers may be a megabyte long, and a list of its own is kept for each user agent.
func TestALongUserAgentIsKeptWholeForEachList(t *testing.T) {
	c, err := New(Registry(&writable.Registry{}), Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 900_000)
	for _, agent := range []string{"a", long + "b", long + "c", long + "c"} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/getRules?type=flow", nil)
		r.Header.Set("User-Agent", agent)
		c.ServeHTTP(httptest.NewRecorder(), r)
	}
	lists := c.rules[rule.KindFlow].(*kind[rule.Flow]).shown.lists
	if len(lists) != 3 || lists[0].peer == "" || lists[1].peer == lists[2].peer {
		t.Errorf("%d lists", len(lists))
	}
	for _, l := range lists {
		if len(l.peer) > 100 {
			t.Errorf("a peer of %d bytes", len(l.peer))
		}
	}
}

func TestTheHistoryIsBounded(t *testing.T) {
	var h history
	prints := make([]print, 1000)
	for i := range 1000 {
		for j := range prints {
			prints[j] = print{key: uint64(j), full: uint64(i*1000 + j)}
		}
		h.add("p", prints, 1)
	}
	n := 0
	for _, l := range h.lists {
		n += len(l.set)
	}
	if n != h.rules || n > maxShown || len(h.lists) > maxLists {
		t.Errorf("%d lists, %d rules, counted %d", len(h.lists), n, h.rules)
	}
	if p := h.seen("p"); p == nil || h.seen("q") != nil || !p[3] || p[3000] {
		t.Error("forgot")
	}
	h.add("big", make([]print, 1), 1)
	for range 3 {
		h.add("p", prints, 1)
	}
	if h.lists[len(h.lists)-1].peer != "p" || h.lists[len(h.lists)-2].peer != "big" {
		t.Error("the same page again is one list")
	}
}
