package sentinel

import (
	"context"
	"fmt"
	"testing"

	"github.com/alibaba/sentinel-golang/core/flow"

	"github.com/rulewire/rulewire/rule"
)

// What the adapter adds to the core's own LoadRules: 10,000 flow rules, mapped, compared, loaded and compared again.
func BenchmarkLoadCore10k(b *testing.B) {
	const n = 10_000
	set := func(edit func(i int) float64) []rule.Flow {
		rules := make([]rule.Flow, n)
		for i := range rules {
			rules[i] = rule.Flow{Resource: fmt.Sprintf("/bench/%d", i), Grade: rule.GradeQPS, Count: edit(i)}
		}
		return rules
	}
	base := set(func(int) float64 { return 10 })
	for _, c := range []struct {
		name  string
		other []rule.Flow
	}{
		{"one-changed", set(func(i int) float64 { return 10 + float64(1-min(i, 1)) })},
		{"two-changed", set(func(i int) float64 { return 10 + float64(2-min(i, 2)) })},
		{"all-changed", set(func(int) float64 { return 11 })},
	} {
		b.Run(c.name, func(b *testing.B) {
			k := newKindState(rule.KindFlow, newCores(nil), mapFlow)
			k.parts = append(k.parts, part[rule.Flow]{})
			l := &listener[rule.Flow]{state: k}
			b.Cleanup(func() { _ = flow.ClearRules() })
			if err := l.OnUpdate(context.Background(), c.other); err != nil { // the core makes a node per resource, once
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				if err := l.OnUpdate(context.Background(), [2][]rule.Flow{base, c.other}[i%2]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("core-alone-two-changed", func(b *testing.B) {
		b.Cleanup(func() { _ = flow.ClearRules() })
		for i := 0; b.Loop(); i++ {
			rules := make([]*flow.Rule, n)
			for j := range rules {
				rules[j] = &flow.Rule{Resource: fmt.Sprintf("/bench/%d", j), Threshold: 10 + float64((1-min(j/2, 1))*(i%2))}
			}
			if _, err := flow.LoadRules(rules); err != nil {
				b.Fatal(err)
			}
		}
	})
}
