package datasourcetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

// document gives the bytes of a document with the rules "resource=count resource=count".
func document(rules string) []byte {
	parts := []string{}
	for _, r := range strings.Fields(rules) {
		resource, count, _ := strings.Cut(r, "=")
		parts = append(parts, fmt.Sprintf(`{"resource":%q,"count":%s}`, resource, count))
	}
	return []byte("[" + strings.Join(parts, ",") + "]")
}

// flowConverter reads the few members of a flow rule that the suite writes.
func flowConverter() converter.Converter[rule.Flow] { return codec{} }

type codec struct{}

type wireRule struct {
	Resource    string   `json:"resource"`
	Count       *float64 `json:"count"`
	Strategy    int32    `json:"strategy,omitempty"`
	RefResource string   `json:"refResource,omitempty"`
}

// Decode implements converter.Converter.
func (codec) Decode(data []byte) (converter.Decoded[rule.Flow], error) {
	whole := func(reason string, is ...error) error {
		return converter.Faults{{Index: -1, Reason: reason, Err: errors.Join(append(is, converter.ErrDecode)...)}}
	}
	switch string(bytes.TrimSpace(data)) {
	case "", "null", `""`:
		return converter.Decoded[rule.Flow]{}, whole("nothing in it", converter.ErrEmpty)
	}
	var wire []*wireRule
	if err := json.Unmarshal(data, &wire); err != nil {
		return converter.Decoded[rule.Flow]{}, whole(err.Error())
	}
	var d converter.Decoded[rule.Flow]
	for i, w := range wire {
		if w == nil || w.Count == nil {
			d.Rejected = append(d.Rejected, &converter.Fault{Index: i, Field: "count", Reason: "missing", Err: converter.ErrDecode})
			continue
		}
		d.Rules = append(d.Rules, rule.Flow{Resource: w.Resource, LimitApp: "default", Grade: rule.GradeQPS, Count: *w.Count,
			Strategy: rule.RelationStrategy(w.Strategy), RefResource: w.RefResource})
		d.Indexes = append(d.Indexes, i)
	}
	return d, nil
}

// Encode implements converter.Converter.
func (codec) Encode(rules []rule.Flow) ([]byte, error) {
	wire := make([]wireRule, len(rules))
	for i := range rules {
		r := &rules[i]
		wire[i] = wireRule{Resource: r.Resource, Count: &r.Count, Strategy: int32(r.Strategy), RefResource: r.RefResource}
	}
	return json.Marshal(wire)
}
