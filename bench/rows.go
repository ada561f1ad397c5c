package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// errNotBuilt stands where our side is not built yet.
var errNotBuilt = errors.New("our side is not built yet")

// rows is the table, in the order of the budgets in the README.
func rows() []row {
	whole, other, oneEdit := document(0), document(1), edited()
	return []row{
		{"unchanged document, 10k rules, against sentinel-golang's handler", compare(oursUnchanged, handled(whole), whole, whole, 150, 0)},
		{"changed document, one rule of 10k, against sentinel-golang's handler", compare(oursChanged, handled(whole, oneEdit), whole, oneEdit, 3, -1)},
		{"changed document, all of 10k rules, against sentinel-golang's handler", compare(oursChanged, handled(whole, other), whole, other, 3, -1)},
		{"changed document, all of 10k rules, against encoding/json alone", compare(oursChanged, unmarshalled(whole, other), whole, other, 1/0.8, -1)},
		{"lookup of a resource among 10k rules, while the set is swapped", lookupRow},
		{"lookups, two readers against one", readersRow},
		{"file replaced → listener called", fileRow},
		{"1,000 readables of files, one notifier", manyRow},
	}
}

// ours makes the benchmark of our side for two documents that come in turns; nil means that it is not built yet.
type ours func(a, b []byte) func(*testing.B)

var (
	oursUnchanged ours
	oursChanged   ours
)

func compare(mine ours, theirs func(*testing.B), a, b []byte, budget float64, allocs int64) func(context.Context, settings) (result, error) {
	return func(ctx context.Context, s settings) (result, error) {
		if mine == nil {
			// Their side is shown all the same.
			got := testing.Benchmark(theirs)
			if got.N == 0 {
				return result{}, errBenchmark
			}
			return result{}, fmt.Errorf("%w (theirs: %s)", errNotBuilt, duration(perOp(got)))
		}
		return pair{ours: mine(a, b), theirs: theirs, budget: budget, allocs: allocs}.measure(ctx, s)
	}
}
