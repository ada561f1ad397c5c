package datasourcetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// BenchmarkEdit measures an edit of one rule among many through a sink, once with nothing else ("alone") and once with
// the readable of the same document, which has the edit in force when it returns ("in-force"). Beside the time it reports
// which share of it decoding, encoding and the store take; the rest is copying, checking and comparing. An edit decodes
// twice, what the store has and what was encoded, as every reader will see it; the readable decodes a third time.
func BenchmarkEdit(b *testing.B, source datasource.Source, sink writable.Sink, rules int) {
	b.Run("alone", func(b *testing.B) { benchEdit(b, nil, sink, rules) })
	b.Run("in-force", func(b *testing.B) { benchEdit(b, source, sink, rules) })
}

// timed is a converter and a sink whose time is taken.
type timed struct {
	converter.Converter[rule.Flow]
	writable.Sink
	decode, encode, store time.Duration
}

func (t *timed) Decode(data []byte) (converter.Decoded[rule.Flow], error) {
	defer since(&t.decode, time.Now())
	return t.Converter.Decode(data)
}

func (t *timed) Encode(rules []rule.Flow) ([]byte, error) {
	defer since(&t.encode, time.Now())
	return t.Converter.Encode(rules)
}

func (t *timed) Read(ctx context.Context) (datasource.Document, error) {
	defer since(&t.store, time.Now())
	return t.Sink.Read(ctx)
}

func (t *timed) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	defer since(&t.store, time.Now())
	return t.Sink.Write(ctx, data, expected)
}

func since(sum *time.Duration, start time.Time) { *sum += time.Since(start) }

func benchEdit(b *testing.B, source datasource.Source, sink writable.Sink, n int) {
	ctx := context.Background()
	t := &timed{Converter: converter.JSON[rule.Flow](), Sink: sink}
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	w, err := writable.New(sink, t.Converter, writable.Logger(nil))
	must(err)
	all := make([]rule.Flow, n)
	for i := range all {
		all[i] = rule.Flow{Resource: fmt.Sprintf("/api/orders/%05d", i), LimitApp: "default", Grade: rule.GradeQPS, Count: float64(i),
			WarmUpPeriodSec: 10, MaxQueueingTimeMs: 500}
	}
	_, err = w.Edit(ctx, func([]rule.Flow) ([]rule.Flow, error) { return all, nil })
	must(err)
	opts := []writable.Option{writable.Logger(nil)}
	if source != nil {
		// The readable's own converter: an echo that is decoded meanwhile must not count twice, nor race.
		r, err := datasource.New(source, t.Converter, rule.NewManager[rule.Flow](), datasource.Logger(nil))
		must(err)
		must(r.Start(ctx))
		defer func() { must(r.Close()) }()
		opts = append(opts, writable.Readable(r))
	}
	w, err = writable.New(t, converter.Converter[rule.Flow](t), opts...)
	must(err)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_, err := w.Edit(ctx, func(rules []rule.Flow) ([]rule.Flow, error) {
			rules[i%n].Count++
			return rules, nil
		})
		must(err)
	}
	share := func(d time.Duration) float64 { return 100 * float64(d) / float64(b.Elapsed()) }
	if source == nil { // with a readable, part of the decoding is the readable's
		b.ReportMetric(share(t.decode), "%decode")
	}
	b.ReportMetric(float64(n), "rules")
	b.ReportMetric(share(t.encode), "%encode")
	b.ReportMetric(share(t.store), "%store")
}
