package writable_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/file"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

const benchRules = 10_000

// clock adds up what a part of an edit takes.
type clock time.Duration

func (c *clock) add(since time.Time) { *c += clock(time.Since(since)) }

// timed is a converter and a sink whose time is taken.
type timed struct {
	converter.Converter[rule.Flow]
	writable.Sink
	decode, encode, network clock
}

func (t *timed) Decode(data []byte) (converter.Decoded[rule.Flow], error) {
	defer t.decode.add(time.Now())
	return t.Converter.Decode(data)
}

func (t *timed) Encode(rules []rule.Flow) ([]byte, error) {
	defer t.encode.add(time.Now())
	return t.Converter.Encode(rules)
}

func (t *timed) Read(ctx context.Context) (datasource.Document, error) {
	defer t.network.add(time.Now())
	return t.Sink.Read(ctx)
}

func (t *timed) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	defer t.network.add(time.Now())
	return t.Sink.Write(ctx, data, expected)
}

// BenchmarkEdit edits one rule among 10,000 and tells which share of the time reading bytes, writing bytes and the store
// take; the rest is copying, checking and comparing. Decoding happens twice: what the store has, and what was encoded,
// as every reader will see it. With a readable attached a third time, when the rules come into force.
func BenchmarkEdit(b *testing.B) {
	path := filepath.Join(b.TempDir(), "flow.json")
	fileSink, err := file.NewSink(path)
	if err != nil {
		b.Fatal(err)
	}
	fileSource, err := file.NewSource(path)
	if err != nil {
		b.Fatal(err)
	}
	store := datasourcetest.NewStore()
	for name, sides := range map[string]struct {
		sink   writable.Sink
		source datasource.Source
	}{
		"memory": {store.Sink(docKey, datasourcetest.Pushed), store.Source(docKey, datasourcetest.Pushed)},
		"file":   {fileSink, fileSource},
	} {
		b.Run(name, func(b *testing.B) { benchEdit(b, sides.sink, nil) })
		b.Run(name+"+readable", func(b *testing.B) { benchEdit(b, sides.sink, sides.source) })
	}
}

func benchEdit(b *testing.B, sink writable.Sink, source datasource.Source) {
	ctx := context.Background()
	t := &timed{Converter: converter.JSON[rule.Flow](), Sink: sink}
	opts := []writable.Option{writable.Logger(nil)}
	if source != nil {
		r, err := datasource.New(source, converter.Converter[rule.Flow](t), newCore(), quiet)
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Start(ctx); err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		opts = append(opts, writable.Readable(r))
	}
	w, err := writable.New(t, converter.Converter[rule.Flow](t), opts...)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := w.Clear(ctx); err != nil {
		b.Fatal(err)
	}
	if _, err := w.Edit(ctx, func([]rule.Flow) ([]rule.Flow, error) { return flows(benchRules), nil }); err != nil {
		b.Fatal(err)
	}
	t.decode, t.encode, t.network = 0, 0, 0
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		if _, err := w.Edit(ctx, func(rules []rule.Flow) ([]rule.Flow, error) {
			rules[n%len(rules)].Count++
			return rules, nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	all := float64(b.Elapsed())
	b.ReportMetric(100*float64(t.decode)/all, "%decode")
	b.ReportMetric(100*float64(t.encode)/all, "%encode")
	b.ReportMetric(100*float64(t.network)/all, "%store")
}

// plainFlow has the members that a written flow rule has, for encoding/json.
type plainFlow struct {
	ClusterMode       bool    `json:"clusterMode"`
	ControlBehavior   int     `json:"controlBehavior"`
	Count             float64 `json:"count"`
	Grade             int     `json:"grade"`
	LimitApp          string  `json:"limitApp"`
	MaxQueueingTimeMs int64   `json:"maxQueueingTimeMs"`
	Regex             bool    `json:"regex"`
	Resource          string  `json:"resource"`
	Strategy          int     `json:"strategy"`
	WarmUpPeriodSec   int64   `json:"warmUpPeriodSec"`
}

func plainFlows(n int) []plainFlow {
	all := make([]plainFlow, n)
	for i, r := range flows(n) {
		all[i] = plainFlow{Count: r.Count, Grade: int(r.Grade), LimitApp: r.LimitApp, MaxQueueingTimeMs: r.MaxQueueingTimeMs,
			Resource: r.Resource, WarmUpPeriodSec: r.WarmUpPeriodSec}
	}
	return all
}

func TestTheBenchmarkComparesTheSameText(t *testing.T) {
	ours, err := converter.JSON[rule.Flow]().Encode(flows(100))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := json.Marshal(plainFlows(100))
	if err != nil || string(ours) != string(theirs) {
		t.Errorf("%v\n%.300s\n%.300s", err, ours, theirs)
	}
}

// BenchmarkEncode encodes 10,000 rules, in turns with encoding/json.Marshal writing the same text from a plain struct.
func BenchmarkEncode(b *testing.B) {
	conv := converter.JSON[rule.Flow]()
	rules, plain := flows(benchRules), plainFlows(benchRules)
	var ours, theirs clock
	n := 0
	for b.Loop() {
		start := time.Now()
		data, err := conv.Encode(rules)
		ours.add(start)
		if err != nil {
			b.Fatal(err)
		}
		start = time.Now()
		if _, err := json.Marshal(plain); err != nil {
			b.Fatal(err)
		}
		theirs.add(start)
		n = len(data)
	}
	b.ReportMetric(float64(ours)/float64(b.N)/1e3, "µs/ours")
	b.ReportMetric(float64(theirs)/float64(b.N)/1e3, "µs/encoding-json")
	b.ReportMetric(float64(theirs)/float64(ours), "×faster")
	b.ReportMetric(float64(n), "bytes")
}

// BenchmarkWriteIndented is what keeping the lines of an indented document of 10,000 rules costs on top.
func BenchmarkWriteIndented(b *testing.B) {
	store := datasourcetest.NewStore()
	store.Put(docKey, []byte("[\n  {\n    \"resource\": \"a\", \"count\": 1\n  }\n]\n"))
	w := alone(b, store.Sink(docKey, datasourcetest.Pulled))
	rules := flows(benchRules)
	ctx := context.Background()
	cur, err := w.Read(ctx)
	if err != nil {
		b.Fatal(err)
	}
	revision := cur.Revision
	for i := 0; b.Loop(); i++ {
		rules[0].Resource = strconv.Itoa(i)
		res, err := w.Write(ctx, rules, revision)
		if err != nil {
			b.Fatal(err)
		}
		revision = res.Revision
	}
}
