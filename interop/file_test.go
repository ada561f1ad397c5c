package interop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/file"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// perKind is how many documents are generated for each kind of rule, store and direction.
const perKind = 200

// place is one document in one store, as both sides reach it.
type place struct {
	sink   writable.Sink
	source datasource.Source
	java   question // without op, kind and rules
}

// store makes a fresh, missing document.
type store func(t *testing.T, name string) place

func files(t *testing.T) store {
	dir := t.TempDir()
	return func(t *testing.T, name string) place {
		path := filepath.Join(dir, name+".json")
		sink, err := file.NewSink(path)
		if err != nil {
			t.Fatal(err)
		}
		source, err := file.NewSource(path)
		if err != nil {
			t.Fatal(err)
		}
		return place{sink, source, question{Store: "file", Path: path}}
	}
}

// faults: F038 F040 F042 F153 F159
func TestJavaReadsFromAFileWhatWeWrote(t *testing.T) {
	t.Parallel()
	j := startJVM(t)
	weWrite(t, j, files(t), perKind)
}

// Java writes in place, so that each read waits until the file rests.
//
// faults: F038 F041
func TestWeReadFromAFileWhatJavaWrote(t *testing.T) {
	t.Parallel()
	j := startJVM(t)
	javaWrites(t, j, files(t), perKind)
}

// weWrite writes generated documents of each kind with a Writable, lets Java load them, and compares.
func weWrite(t *testing.T, j *jvm, s store, documents int) {
	t.Run("flow", func(t *testing.T) {
		write(t, j, s, documents, kind[rule.Flow]{"flow", generator.flow, javaFlow, nil})
	})
	t.Run("degrade", func(t *testing.T) {
		write(t, j, s, documents, kind[rule.Degrade]{"degrade", generator.degrade, javaDegrade, nil})
	})
	t.Run("system", func(t *testing.T) {
		write(t, j, s, documents, kind[rule.System]{"system", generator.system, javaSystem, lowestLimits})
	})
	t.Run("authority", func(t *testing.T) {
		write(t, j, s, documents, kind[rule.Authority]{"authority", generator.authority, javaAuthority, nil})
	})
	t.Run("param-flow", func(t *testing.T) {
		write(t, j, s, documents, kind[rule.ParamFlow]{"param-flow", generator.paramFlow, javaParamFlow, nil})
	})
}

// javaWrites lets Java write generated documents of each kind, reads them with a Readable, and compares.
func javaWrites(t *testing.T, j *jvm, s store, documents int) {
	t.Run("flow", func(t *testing.T) {
		read(t, j, s, documents, kind[rule.Flow]{"flow", generator.flow, javaFlow, nil})
	})
	t.Run("degrade", func(t *testing.T) {
		read(t, j, s, documents, kind[rule.Degrade]{"degrade", generator.degrade, javaDegrade, nil})
	})
	t.Run("system", func(t *testing.T) {
		read(t, j, s, documents, kind[rule.System]{"system", generator.system, javaSystem, nil})
	})
	t.Run("authority", func(t *testing.T) {
		read(t, j, s, documents, kind[rule.Authority]{"authority", generator.authority, javaAuthority, nil})
	})
	t.Run("param-flow", func(t *testing.T) {
		read(t, j, s, documents, kind[rule.ParamFlow]{"param-flow", generator.paramFlow, javaParamFlow, nil})
	})
}

// kind is what the comparison needs to know of a kind of rule.
type kind[R any] struct {
	name string
	make func(g generator, i int) R
	// java takes away what Java has no member for.
	java func(r R) R
	// inForce turns a list into what Java's manager has of it; nil = the same rules.
	inForce func(rules []R) []R
}

// generated gives the document of a seed: 0 to 20 rules.
func (k kind[R]) generated(seed int) []R {
	g := newGenerator(uint64(seed))
	n := seed % 21
	return list(n, func(i int) R { return k.make(g, i) })
}

func (k kind[R]) javaRules(rules []R) []R {
	all := make([]R, len(rules))
	for i := range rules {
		all[i] = k.java(rule.TraitsOf[R]().Clone(&rules[i]))
	}
	return all
}

// parse reads what Sentinel's classes print.
func parse[R any](t *testing.T, text []byte) []R {
	t.Helper()
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	dec, err := converter.JSON[R](converter.UnknownMembers(converter.Note)).Decode(text)
	if err == nil && len(dec.Rejected) > 0 {
		err = dec.Rejected
	}
	if err != nil {
		t.Fatalf("Java prints what we can't read: %v\n%.500s", err, text)
	}
	return dec.Rules
}

func same[R any](t *testing.T, what string, got, want []R, text []byte) {
	t.Helper()
	if c := rule.Compare(want, got); !c.Empty() {
		t.Errorf("%s: %s (- ours, + Java's)\n%s\n%.1500s\n%+v", what, c.Summary(), c, text, got[:min(len(got), 2)])
	}
}

func write[R any](t *testing.T, j *jvm, s store, documents int, k kind[R]) {
	ctx := context.Background()
	p := s(t, k.name)
	w, err := writable.New(p.sink, converter.JSON[R](), writable.Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	q := p.java
	q.Op, q.Kind = "load", k.name
	rules := 0
	for seed := range documents {
		ours := k.generated(seed)
		what := fmt.Sprintf("%s, document %d", k.name, seed)
		res, err := w.Edit(ctx, func([]R) ([]R, error) { return ours, nil })
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		a, err := j.ask(q)
		if err != nil {
			t.Fatalf("%s: %v\n%.1000s", what, err, res.Document.Data)
		}
		want := k.javaRules(ours)
		same(t, what+", handed over", parse[R](t, a.Given), want, res.Document.Data)
		if k.inForce != nil {
			want = k.inForce(want)
		}
		same(t, what+", in force", parse[R](t, a.Rules), want, res.Document.Data)
		if t.Failed() {
			return
		}
		rules += len(ours)
	}
	t.Logf("%d documents, %d rules", documents, rules)
}

func read[R any](t *testing.T, j *jvm, s store, documents int, k kind[R]) {
	ctx := context.Background()
	p := s(t, k.name)
	m := rule.NewManager[R]()
	r, err := datasource.New(p.source, converter.JSON[R](), m, datasource.Logger(nil), datasource.OnEmptyList(datasource.Clear))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	q := p.java
	q.Op, q.Kind = "store", k.name
	rules := 0
	for seed := range documents {
		ours := k.javaRules(k.generated(seed))
		what := fmt.Sprintf("%s, document %d", k.name, seed)
		text, err := converter.JSON[R]().Encode(ours)
		if err != nil {
			t.Fatal(err)
		}
		q.Rules = string(text)
		a, err := j.ask(q)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		err = r.Refresh(ctx)
		if len(ours) == 0 && err != nil {
			err = r.Refresh(ctx) // an empty list wants two reads that agree
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got := m.Rules()
		same(t, what+", from Java's document", got, ours, a.Given)
		if t.Failed() {
			return
		}
		rules += len(ours)
	}
	t.Logf("%d documents, %d rules", documents, rules)
}

// longID is the id that Java can hold; it has none for a text.
func longID(id string) string {
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && strconv.FormatInt(n, 10) == id {
		return id
	}
	return ""
}

func javaFlow(r rule.Flow) rule.Flow {
	r.ID, r.Extra = longID(r.ID), nil
	r.MemoryAdaptive, r.WarmUpColdFactor, r.StatIntervalInMs = false, 0, 0
	r.LowMemUsageThreshold, r.HighMemUsageThreshold, r.MemLowWaterMarkBytes, r.MemHighWaterMarkBytes = 0, 0, 0, 0
	if r.ClusterConfig != nil {
		r.ClusterConfig.Extra = nil
	}
	return r
}

func javaDegrade(r rule.Degrade) rule.Degrade {
	r.ID, r.Extra = longID(r.ID), nil
	r.ProbeNum, r.StatSlidingWindowBucketCount = 0, 0
	r.TimeWindowMs = (r.TimeWindowMs + 999) / 1000 * 1000 // whole seconds, rounded up
	return r
}

func javaSystem(r rule.System) rule.System {
	r.ID, r.Extra, r.Strategy = longID(r.ID), nil, rule.AdaptiveNone
	return r
}

// lowestLimits is what Java's system rule manager has in force: the lowest of each limit, one rule for each.
func lowestLimits(rules []rule.System) []rule.System {
	blank := rule.System{HighestSystemLoad: rule.Unset, HighestCPUUsage: rule.Unset, QPS: rule.Unset, AvgRT: rule.Unset,
		MaxThread: rule.Unset, Strategy: rule.AdaptiveNone}
	load, cpu, qps := math.Inf(1), math.Inf(1), math.Inf(1)
	rt, threads := int64(math.MaxInt64), int64(math.MaxInt64)
	for _, r := range rules {
		if r.HighestSystemLoad >= 0 {
			load = min(load, r.HighestSystemLoad)
		}
		if r.HighestCPUUsage >= 0 {
			cpu = min(cpu, r.HighestCPUUsage)
		}
		if r.QPS >= 0 {
			qps = min(qps, r.QPS)
		}
		if r.AvgRT >= 0 {
			rt = min(rt, r.AvgRT)
		}
		if r.MaxThread >= 0 {
			threads = min(threads, r.MaxThread)
		}
	}
	var all []rule.System
	add := func(set func(*rule.System)) {
		r := blank
		set(&r)
		all = append(all, r)
	}
	if !math.IsInf(load, 1) {
		add(func(r *rule.System) { r.HighestSystemLoad = load })
	}
	if !math.IsInf(cpu, 1) {
		add(func(r *rule.System) { r.HighestCPUUsage = cpu })
	}
	if !math.IsInf(qps, 1) {
		add(func(r *rule.System) { r.QPS = qps })
	}
	if rt != math.MaxInt64 {
		add(func(r *rule.System) { r.AvgRT = rt })
	}
	if threads != math.MaxInt64 {
		add(func(r *rule.System) { r.MaxThread = threads })
	}
	return all
}

func javaAuthority(r rule.Authority) rule.Authority {
	r.ID, r.Extra = longID(r.ID), nil
	return r
}

func javaParamFlow(r rule.ParamFlow) rule.ParamFlow {
	r.ID, r.Extra = longID(r.ID), nil
	r.ParamKey, r.ParamsMaxCapacity = "", 0
	for i := range r.Items {
		r.Items[i].Extra = nil
	}
	if r.ClusterConfig != nil {
		r.ClusterConfig.Extra = nil
	}
	return r
}

// What a Java program stored, with console members and all, survives an edit of another rule and reads the same to Java.
//
// faults: F038 F039 F041
func TestAnEditBesideJavasRulesChangesNothingForJava(t *testing.T) {
	j := startJVM(t)
	p := files(t)(t, "flow")
	text := `[{"id":11,"app":"shop","ip":"10.0.0.7","port":8719,"gmtCreate":1700000000000,"resource":"/order/create","limitApp":"default",` +
		`"grade":1,"count":50.0,"strategy":0,"refResource":null,"controlBehavior":0,"warmUpPeriodSec":null,"maxQueueingTimeMs":null,` +
		`"clusterMode":false,"clusterConfig":{"flowId":null,"thresholdType":0,"fallbackToLocalWhenFail":true,"strategy":0,"sampleCount":10,"windowIntervalMs":1000}}]`
	if err := os.WriteFile(p.java.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	q := p.java
	q.Op, q.Kind = "load", "flow"
	before, err := j.ask(q)
	if err != nil {
		t.Fatal(err)
	}
	w, err := writable.New(p.sink, converter.JSON[rule.Flow](), writable.Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	extra := newGenerator(1).flow(1)
	res, err := w.Edit(t.Context(), func(rules []rule.Flow) ([]rule.Flow, error) { return append(rules, extra), nil })
	if err != nil {
		t.Fatal(err)
	}
	after, err := j.ask(q)
	if err != nil {
		t.Fatal(err)
	}
	want := append(parse[rule.Flow](t, before.Rules), javaFlow(extra))
	same(t, "in force", parse[rule.Flow](t, after.Rules), want, res.Document.Data)
}

// A fact about Java that a team should know: one rate limiter rule with a count between 0 and 0.5 is valid there, and
// keeps a Java client from loading its whole document: it divides by the rounded count. So a Writable refuses to bring one
// into a document, for exactly those rules that Java fails at. Should this test fail, a newer Sentinel has mended it.
func TestJavaCantLoadASlowerPaceThanOneInTwoSeconds(t *testing.T) {
	j := startJVM(t)
	p := files(t)(t, "flow")
	w, err := writable.New(p.sink, converter.JSON[rule.Flow](), writable.Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	q := p.java
	q.Op, q.Kind = "load", "flow"
	failed := 0
	for _, grade := range []rule.FlowGrade{rule.GradeQPS, rule.GradeThread} {
		for behavior := rule.ControlReject; behavior <= rule.ControlWarmUpRateLimiter; behavior++ {
			for _, cluster := range []bool{false, true} {
				for _, count := range []float64{0, 1e-9, 0.3, 0.4999, math.Nextafter(0.5, 0), 0.5, 0.7, 1} {
					r := rule.NewFlow("slow", count)
					r.Grade, r.ControlBehavior, r.ClusterMode = grade, behavior, cluster
					if cluster {
						id := int64(1)
						r.ClusterConfig = &rule.ClusterFlowConfig{FlowID: &id, SampleCount: 10, WindowIntervalMs: 1000, FallbackToLocalWhenFail: true,
							ResourceTimeout: 2000, ClientOfflineTime: 2000}
					}
					what := fmt.Sprintf("%v, %v, cluster %v, count %v", grade, behavior, cluster, count)
					data, err := converter.JSON[rule.Flow]().Encode([]rule.Flow{rule.NewFlow("beside", 1), r})
					if err != nil {
						t.Fatal(what, err)
					}
					if err := os.WriteFile(p.java.Path, data, 0o600); err != nil {
						t.Fatal(err)
					}
					_, java := j.ask(q)
					if java != nil && !errors.Is(java, errJava) {
						t.Fatal(what, java)
					}
					if err := os.Remove(p.java.Path); err != nil {
						t.Fatal(err)
					}
					_, ours := w.Create(t.Context(), []rule.Flow{rule.NewFlow("beside", 1), r})
					if ours != nil && !errors.Is(ours, datasource.ErrUnsupported) {
						t.Fatal(what, ours)
					}
					if (java != nil) != (ours != nil) {
						t.Errorf("%s: Java says %v, we say %v", what, java, ours)
					}
					if java != nil {
						failed++
					}
				}
			}
		}
	}
	if failed == 0 {
		t.Error("Java loads them all: it has been mended, and the refusal can go")
	}
	t.Logf("Java failed at %d documents, and we refuse exactly those", failed)
}
