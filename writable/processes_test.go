package writable_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

const (
	// roleEnv makes the test binary one of the processes below: "number/edits/processes/path".
	roleEnv = "RULEWIRE_TEST_PROCESS"
	// patience bounds what real processes may take.
	patience = 90 * time.Second
)

// tale is what a process tells of itself, a line for each phase.
type tale struct {
	Process int
	// Attempts[i] is how often the store was written to for edit i.
	Attempts []int
	// Revision and Rules are in force; Calls is how often the listener was told, Writes how often this process wrote.
	Revision string
	Rules    []string
	Calls    int
	Error    string
}

// play is the main function of a process: it edits the file as often as it is told to, waits until it has every
// process's rules in force, and then reads again whenever it is asked to.
func play() int {
	var t tale
	var edits, processes int
	var path string
	if _, err := fmt.Sscanf(os.Getenv(roleEnv), "%d/%d/%d/%s", &t.Process, &edits, &processes, &path); err != nil {
		return 2
	}
	err := t.live(path, edits, processes)
	if err != nil {
		t.Error = err.Error()
		t.say()
		return 1
	}
	return 0
}

func (t *tale) say() { _ = json.NewEncoder(os.Stdout).Encode(t) }

func (t *tale) live(path string, edits, processes int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	source, err := file.NewSource(path)
	if err != nil {
		return err
	}
	sink, err := file.NewSink(path)
	if err != nil {
		return err
	}
	all := make(chan struct{})
	var once sync.Once
	c := newCore()
	conv := converter.JSON[rule.Flow]()
	r, err := datasource.New(source, conv, c, quiet)
	if err != nil {
		return err
	}
	w, err := writable.New(sink, conv, writable.Readable(r), writable.Logger(nil))
	if err != nil {
		return err
	}
	if err := r.Start(ctx); err != nil {
		return err
	}
	defer r.Close()
	_, err = r.Property().Add(ctx, propertyFunc(func(rules []rule.Flow) {
		if len(rules) == processes*edits {
			once.Do(func() { close(all) })
		}
	}))
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	if t.say(); !in.Scan() { // all begin at once
		return errors.New("no start")
	}
	for n := range edits {
		res, err := w.Edit(ctx, add(flow(fmt.Sprintf("p%d/%d", t.Process, n), float64(n))))
		if err != nil {
			return err
		}
		if !res.InForce && res.Apply != nil {
			return res.Apply
		}
		t.Attempts = append(t.Attempts, res.Attempts)
	}
	select {
	case <-all:
	case <-ctx.Done():
		return fmt.Errorf("%w: %d rules in force", ctx.Err(), c.Len())
	}
	for {
		// The listener hears of rules a moment before the status does.
		if err := r.Refresh(ctx); err != nil {
			return err
		}
		t.Revision, t.Rules, t.Calls = r.Status().Revision, resources(c.Rules()), c.told()
		if t.say(); !in.Scan() {
			return nil
		}
	}
}

func propertyFunc(f func([]rule.Flow)) listenerFunc { return listenerFunc(f) }

type listenerFunc func([]rule.Flow)

func (f listenerFunc) OnUpdate(_ context.Context, rules []rule.Flow) error { f(rules); return nil }

// worker is a process as its parent sees it.
type worker struct {
	cmd  *exec.Cmd
	in   *os.File
	told chan tale
}

func startWorker(t *testing.T, number, edits, processes int, path string) *worker {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd: exec.Command(exe), told: make(chan tale, 8)}
	w.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d/%d/%d/%s", roleEnv, number, edits, processes, path))
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.cmd.Stdin, w.in = read, write
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(w.told)
		for d := json.NewDecoder(out); ; {
			var x tale
			if d.Decode(&x) != nil {
				return
			}
			w.told <- x
		}
	}()
	t.Cleanup(func() {
		_ = w.in.Close()
		kill := time.AfterFunc(10*time.Second, func() { _ = w.cmd.Process.Kill() })
		<-done
		_ = w.cmd.Wait()
		kill.Stop()
	})
	return w
}

func (w *worker) next(t *testing.T) tale {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case x, ok := <-w.told:
		if !ok || x.Error != "" {
			t.Fatalf("process %d: %q, alive %v", x.Process, x.Error, ok)
		}
		return x
	case <-deadline.C:
		t.Fatal("a process says nothing")
		return tale{}
	}
}

func (w *worker) begin(t *testing.T) {
	t.Helper()
	if _, err := w.in.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
}

// Ten real processes, each with both sides of one file, edit at once: every edit is there in the end, all processes have
// the same rules in force, and nobody writes or is told anything after that.
//
// faults: F139 F140 F158 F162 F163
func TestTenProcessesOnOneFileConverge(t *testing.T) {
	const processes = 10
	edits := 10
	if testing.Short() {
		edits = 3
	}
	path := filepath.Join(t.TempDir(), "flow.json")
	var workers []*worker
	for n := range processes {
		workers = append(workers, startWorker(t, n, edits, processes, path))
	}
	for _, w := range workers {
		w.next(t) // ready
	}
	start := time.Now()
	for _, w := range workers {
		w.begin(t)
	}
	first := make([]tale, processes)
	for i, w := range workers {
		first[i] = w.next(t)
	}
	took := time.Since(start)
	writes, conflicts, most := 0, 0, 0
	for _, x := range first {
		for _, n := range x.Attempts {
			writes, conflicts, most = writes+1, conflicts+n-1, max(most, n)
		}
	}
	want := []string{}
	for p := range processes {
		for n := range edits {
			want = append(want, "p"+strconv.Itoa(p)+"/"+strconv.Itoa(n))
		}
	}
	slices.Sort(want)
	settled := first
	for round := range 2 { // reading again changes nothing
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range settled {
			names := slices.Clone(x.Rules)
			slices.Sort(names)
			if !slices.Equal(names, want) || !slices.Equal(x.Rules, settled[0].Rules) || x.Revision != settled[0].Revision {
				t.Fatalf("process %d has %d rules of revision %s, process 0 %d of %s", i, len(x.Rules), x.Revision, len(settled[0].Rules), settled[0].Revision)
			}
			if x.Calls > writes {
				t.Errorf("process %d was told %d times of %d writes", i, x.Calls, writes)
			}
		}
		for _, w := range workers {
			w.begin(t)
		}
		again := make([]tale, processes)
		for i, w := range workers {
			again[i] = w.next(t)
			if again[i].Calls != settled[i].Calls {
				t.Errorf("round %d: process %d was told %d times more although nobody wrote", round, i, again[i].Calls-settled[i].Calls)
			}
		}
		settled = again
		if now, err := os.ReadFile(path); err != nil || !slices.Equal(now, text) {
			t.Errorf("round %d: somebody wrote (%v)", round, err)
		}
	}
	t.Logf("%d processes, %d writes, %d conflicts, at most %d attempts for an edit, converged in %v on revision %s",
		processes, writes, conflicts, most, took.Round(time.Millisecond), settled[0].Revision)
}

// The same with the memory store in fake time, where hours of silence cost nothing.
//
// faults: F139 F140 F162 F163
func TestTenWritersOnOneMemoryStoreConvergeAndStayQuiet(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		const writers, edits = 10, 15
		store.Inject(datasourcetest.Faults{Latency: time.Millisecond}) // so that they do meet
		var all []*process
		for range writers {
			all = append(all, join(t, store, f))
		}
		var mu sync.Mutex
		conflicts, most := 0, 0
		var wg sync.WaitGroup
		for p, w := range all {
			wg.Go(func() {
				for n := range edits {
					res, err := w.Edit(context.Background(), add(flow(fmt.Sprintf("p%d/%d", p, n), 1)))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					conflicts, most = conflicts+res.Attempts-1, max(most, res.Attempts)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		time.Sleep(2 * datasource.DefaultRelist)
		synctest.Wait()
		rules := decoded(t, store)
		if len(rules) != writers*edits {
			t.Fatalf("%d rules in the store, want %d", len(rules), writers*edits)
		}
		revision := store.Revision()
		var calls []int
		for i, p := range all {
			wantEqual(t, "process "+strconv.Itoa(i), p.core.Rules(), rules)
			calls = append(calls, p.core.told())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if store.Revision() != revision {
			t.Error("somebody wrote in the silence")
		}
		for i, p := range all {
			if p.core.told() != calls[i] {
				t.Errorf("process %d was told of nothing", i)
			}
		}
		t.Logf("%d writers, %d writes, %d conflicts, at most %d attempts", writers, writers*edits, conflicts, most)
	})
}

// An edit survives the end of the process: whoever starts next has it in force.
//
// faults: F164
func TestAnEditSurvivesARestart(t *testing.T) {
	each(t, func(t *testing.T, store *datasourcetest.Store, f datasourcetest.Flavour) {
		put(store, flows(1))
		p := join(t, store, f)
		if _, err := p.Edit(t.Context(), add(flow("kept", 1))); err != nil {
			t.Fatal(err)
		}
		_ = p.readable.Close()
		wantNames(t, "after the restart", join(t, store, f).core.Rules(), "/r/0", "kept")
	})
}
