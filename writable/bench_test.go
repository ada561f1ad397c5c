package writable_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/file"
	"github.com/rulewire/rulewire/rule"
)

const benchRules = 10_000

// BenchmarkEdit edits one rule among 10,000.
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
	b.Run("memory", func(b *testing.B) {
		datasourcetest.BenchmarkEdit(b, store.Source(docKey, datasourcetest.Pushed), store.Sink(docKey, datasourcetest.Pushed), benchRules)
	})
	b.Run("file", func(b *testing.B) { datasourcetest.BenchmarkEdit(b, fileSource, fileSink, benchRules) })
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

// BenchmarkEncode encodes 10,000 rules, in turns with encoding/json.Marshal writing the same text from the plainest struct that
// gives it. The best of each side is compared: what disturbs a busy machine only ever adds.
func BenchmarkEncode(b *testing.B) {
	conv := converter.JSON[rule.Flow]()
	rules, plain := flows(benchRules), plainFlows(benchRules)
	var ours, theirs time.Duration = 1 << 62, 1 << 62
	n := 0
	for b.Loop() {
		start := time.Now()
		data, err := conv.Encode(rules)
		ours = min(ours, time.Since(start))
		if err != nil {
			b.Fatal(err)
		}
		start = time.Now()
		if _, err := json.Marshal(plain); err != nil {
			b.Fatal(err)
		}
		theirs = min(theirs, time.Since(start))
		n = len(data)
	}
	b.ReportMetric(float64(ours)/1e3, "µs/ours")
	b.ReportMetric(float64(theirs)/1e3, "µs/encoding-json")
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
