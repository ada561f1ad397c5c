package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"testing"
	"time"

	"github.com/alibaba/sentinel-golang/core/flow"
)

func TestMedianAndPercentile(t *testing.T) {
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("median of three is %v", got)
	}
	if got := median([]float64{4, 1, 2, 9}); got != 3 {
		t.Errorf("median of four is %v", got)
	}
	var values []time.Duration
	for i := range 100 {
		values = append(values, time.Duration(100-i))
	}
	if got := percentile(values, 0.99); got != 100 {
		t.Errorf("p99 is %v", got)
	}
	if got := percentile(values, 0.5); got != 51 {
		t.Errorf("p50 is %v", got)
	}
}

func TestDocumentsDifferAsTold(t *testing.T) {
	decode := func(data []byte) []*flow.Rule {
		var rules []*flow.Rule
		if err := json.Unmarshal(data, &rules); err != nil {
			t.Fatal(err)
		}
		if len(rules) != documentRules {
			t.Fatalf("%d rules", len(rules))
		}
		return rules
	}
	differing := func(a, b []*flow.Rule) int {
		n := 0
		for i := range a {
			if a[i].Threshold != b[i].Threshold {
				n++
			}
		}
		return n
	}
	whole := decode(document(0))
	if got := differing(whole, decode(document(1))); got != documentRules {
		t.Errorf("another document differs in %d rules", got)
	}
	if got := differing(whole, decode(edited())); got != 1 {
		t.Errorf("an edited document differs in %d rules", got)
	}
	if !bytes.Equal(document(0), document(0)) {
		t.Error("a document is not the same twice")
	}
}

func TestPairTakesTheRatio(t *testing.T) {
	if err := flag.Set("test.benchtime", "20ms"); err != nil {
		t.Fatal(err)
	}
	work := func(n int) func(*testing.B) {
		return func(b *testing.B) {
			data := make([]byte, n)
			for b.Loop() {
				_ = bytes.IndexByte(data, 1)
			}
		}
	}
	got, err := pair{ours: work(1), theirs: work(1 << 20), budget: 2, allocs: 0}.measure(t.Context(), settings{rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !got.met {
		t.Errorf("a million bytes are not twice the work of one: %+v", got)
	}
}
