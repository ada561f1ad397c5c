package converter_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

// outcome is what a document comes to: "2" rules, "2+1" with a rejected one, "refused" or "empty".
func outcome[T any](c converter.Converter[T], doc string) string {
	d, err := c.Decode([]byte(doc))
	switch {
	case errors.Is(err, converter.ErrEmpty):
		return "empty"
	case err != nil:
		return "refused"
	case len(d.Rejected) > 0:
		indexes := map[int]bool{}
		for _, f := range d.Rejected {
			indexes[f.Index] = true
		}
		return fmt.Sprintf("%d+%d", len(d.Rules), len(indexes))
	}
	return fmt.Sprint(len(d.Rules))
}

func outcomes[T any](doc string, opts ...converter.Option) [2]string {
	java := outcome(converter.JSON[T](opts...), doc)
	return [2]string{java, outcome(converter.JSON[T](append(opts, golang)...), doc)}
}

// faults: F009 F010 F021 F022 F023 F024 F026 F028 F029 F034 F035 F036 F037 F039 F047 F054 F055 F060
func TestPayloadsInBothDialects(t *testing.T) {
	const half = `[{"resource":"a",%[1]q:9},{"resource":"",%[1]q:1},{"resource":"b",%[1]q:-1},{"resource":"c",%[1]q:1,"controlBehavior":9}]`
	for name, c := range map[string]struct{ got, want [2]string }{
		"1 console flow":          {outcomes[rule.Flow](javaConsoleFlow), [2]string{"1", "refused"}},
		"2 behaviours":            {outcomes[rule.Flow](`[{"resource":"r0","grade":1,"count":10,"controlBehavior":0},{"resource":"r3","grade":1,"count":10,"controlBehavior":3}]`), [2]string{"2", "refused"}},
		"2 threads":               {outcomes[rule.Flow](`[{"resource":"r","grade":0,"count":10}]`), [2]string{"1", "refused"}},
		"3 hotspot, bad item":     {outcomes[rule.ParamFlow](fmt.Sprintf(consoleHotspot, `,{"object":"x9","classType":"long","count":1}`)), [2]string{"0+1", "refused"}},
		"3 hotspot":               {outcomes[rule.ParamFlow](fmt.Sprintf(consoleHotspot, "")), [2]string{"1", "refused"}},
		"4 degrade":               {outcomes[rule.Degrade](`[{"resource":"stock","grade":0,"count":200,"timeWindow":10,"minRequestAmount":5,"statIntervalMs":1000}]`), [2]string{"1", "refused"}},
		"5 system":                {outcomes[rule.System](`[{"highestSystemLoad":-1,"highestCpuUsage":0.8,"qps":500,"avgRt":-1,"maxThread":0}]`), [2]string{"1", "refused"}},
		"7 BOM":                   {outcomes[rule.Flow]("\ufeff" + `[{"resource":"a","threshold":7}]`), [2]string{"refused", "1"}},
		"7 lone BOM":              {outcomes[rule.Flow]("\ufeff"), [2]string{"empty", "empty"}},
		"8 single":                {outcomes[rule.Flow](`{"resource":"a","threshold":7}`), [2]string{"refused", "refused"}},
		"8 single allowed":        {outcomes[rule.Flow](`{"resource":"a","threshold":7}`, converter.AllowSingle()), [2]string{"refused", "1"}},
		"10 misspelt":             {outcomes[rule.Flow](`[{"resource":"a","treshold":100}]`), [2]string{"refused", "refused"}},
		"10 unknown":              {outcomes[rule.Flow](`[{"resource":"a","threshold":100,"note":"x"}]`), [2]string{"refused", "1"}},
		"10 unknown, java":        {outcomes[rule.Flow](`[{"resource":"a","count":100,"note":"x"}]`), [2]string{"1", "refused"}},
		"10 unknown, strict":      {outcomes[rule.Flow](`[{"resource":"a","threshold":100,"note":"x"}]`, converter.UnknownMembers(converter.Refuse)), [2]string{"refused", "refused"}},
		"12 HTML":                 {outcomes[rule.Flow](`<html><body>Please sign in</body></html>`), [2]string{"refused", "refused"}},
		"12 error body":           {outcomes[rule.Flow](`{"code":403,"message":"forbidden"}`), [2]string{"refused", "refused"}},
		"12 Apollo":               {outcomes[rule.Flow](`{"appId":"x","configurations":{"content":"[]"}}`), [2]string{"refused", "refused"}},
		"13 zero bytes":           {outcomes[rule.Flow](``), [2]string{"empty", "empty"}},
		"13 blanks":               {outcomes[rule.Flow]("  \n"), [2]string{"empty", "empty"}},
		"13 null":                 {outcomes[rule.Flow](`null`), [2]string{"empty", "empty"}},
		"13 object":               {outcomes[rule.Flow](`{}`), [2]string{"refused", "refused"}},
		"13 list of null":         {outcomes[rule.Flow](`[null]`), [2]string{"0+1", "0+1"}},
		"13 list of nothing":      {outcomes[rule.Flow](`[{}]`), [2]string{"0+1", "0+1"}},
		"13 of nothing, degrade":  {outcomes[rule.Degrade](`[{}]`), [2]string{"0+1", "0+1"}},
		"13 of nothing, system":   {outcomes[rule.System](`[{}]`), [2]string{"0+1", "0+1"}},
		"13 of nothing, origin":   {outcomes[rule.Authority](`[{}]`), [2]string{"0+1", "0+1"}},
		"13 of nothing, hotspot":  {outcomes[rule.ParamFlow](`[{}]`), [2]string{"0+1", "0+1"}},
		"13 of nothing, isolated": {outcomes[rule.Isolation](`[{}]`), [2]string{"0+1", "0+1"}},
		"13 string":               {outcomes[rule.Flow](`""`), [2]string{"empty", "empty"}},
		"13 empty list":           {outcomes[rule.Flow](`[]`), [2]string{"0", "0"}},
		// An empty resource and a negative limit are the validator's.
		"14 half bad":       {outcomes[rule.Flow](fmt.Sprintf(half, "threshold")), [2]string{"refused", "3+1"}},
		"14 half bad, java": {outcomes[rule.Flow](fmt.Sprintf(half, "count")), [2]string{"3+1", "refused"}},
	} {
		if c.got != c.want {
			t.Errorf("%s: java and golang give %q, want %q", name, c.got, c.want)
		}
	}
}

func TestConvertersAreSafeForConcurrentUse(t *testing.T) {
	c := converter.JSON[rule.Flow]()
	d := must(t, c, javaConsoleFlow)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				outcome(c, javaConsoleFlow)
				d.Locate(0, "count")
				if _, err := c.Encode(d.Rules); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
