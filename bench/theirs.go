package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/ext/datasource"
	"github.com/alibaba/sentinel-golang/logging"
)

// silent is a logger that says nothing: sentinel-golang's own writes to files in the home folder, which is not the work
// that is compared.
type silent struct{}

func (silent) Debug(string, ...interface{})        {}
func (silent) DebugEnabled() bool                  { return false }
func (silent) Info(string, ...interface{})         {}
func (silent) InfoEnabled() bool                   { return false }
func (silent) Warn(string, ...interface{})         {}
func (silent) WarnEnabled() bool                   { return false }
func (silent) Error(error, string, ...interface{}) {}
func (silent) ErrorEnabled() bool                  { return false }

func init() {
	if err := logging.ResetGlobalLogger(silent{}); err != nil {
		panic(err)
	}
}

// handled is sentinel-golang's own way from bytes to live flow rules, given the documents in turn.
func handled(documents ...[]byte) func(*testing.B) {
	return func(b *testing.B) {
		handler := datasource.NewDefaultPropertyHandler(datasource.FlowRuleJsonArrayParser, datasource.FlowRulesUpdater)
		defer func() { _ = flow.ClearRules() }()
		if err := handler.Handle(documents[0]); err != nil {
			b.Fatal(err)
		}
		if got := len(flow.GetRules()); got != documentRules {
			b.Fatalf("%d rules are live, want %d", got, documentRules)
		}
		i := 0
		for b.Loop() {
			i++
			if err := handler.Handle(documents[i%len(documents)]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// unmarshalled is encoding/json alone on the same bytes: a decode without validation, guard or swap.
func unmarshalled(documents ...[]byte) func(*testing.B) {
	return func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			var rules []*flow.Rule
			if err := json.Unmarshal(documents[i%len(documents)], &rules); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// documentRules is how many rules a document of the benchmarks holds.
const documentRules = 10_000

// document is a flow document in the golang dialect, about 140 bytes a rule. Every threshold depends on salt, so that
// documents of different salt differ in every rule.
func document(salt int) []byte {
	out := make([]byte, 0, documentRules*150)
	out = append(out, '[')
	for i := range documentRules {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `{"resource":"/api/orders/%05d","tokenCalculateStrategy":0,"controlBehavior":0,"threshold":%d,"relationStrategy":0,"statIntervalInMs":1000}`,
			i, 1+(i+salt)%1000)
	}
	return append(out, ']')
}

// edited is document(0) with the threshold of one rule in the middle changed: what an edit in a console gives.
func edited() []byte {
	const rule = `/api/orders/05000","tokenCalculateStrategy":0,"controlBehavior":0,"threshold":`
	return bytes.Replace(document(0), []byte(rule+"1,"), []byte(rule+"2,"), 1)
}
