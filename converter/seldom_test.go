package converter

import (
	"testing"

	"github.com/rulewire/rulewire/rule"
)

// A member that is taken for seldom is looked at only if rare says so: the two must know the same members.
func TestRareKnowsEverySeldomMember(t *testing.T) {
	values := map[string]string{
		"refResource": `"r"`, "clusterConfig": `{}`, "tokenCalculateStrategy": `2`, "warmUpColdFactor": `5`, "statIntervalInMs": `7`,
		"lowMemUsageThreshold": `1`, "highMemUsageThreshold": `1`, "memLowWaterMarkBytes": `1`, "memHighWaterMarkBytes": `1`,
	}
	for dialect, codec := range flowCodecs {
		s := codec.(*schema[rule.Flow])
		if s.rare(&s.template) || s.rare(&rule.Flow{Resource: "a", Count: 5, LimitApp: "x", Regex: true}) {
			t.Errorf("%s: a usual rule is rare", dialect)
		}
		n := 0
		for _, m := range s.written {
			if !m.seldom {
				continue
			}
			n++
			value, ok := values[m.name]
			if !ok {
				t.Errorf("%s: no value for %s", dialect, m.name)
				continue
			}
			r := s.template
			d := &reader{cursor: cursor{text: []byte(value + " ")}, set: newSettings(nil)}
			m.scan(d, &r, &m.spelling)
			if len(d.faults) > 0 || !s.rare(&r) {
				t.Errorf("%s: rare does not know %s (%v)", dialect, m.name, d.faults)
			}
		}
		if n == 0 || len(s.usual)+n != len(s.written) {
			t.Errorf("%s: %d seldom members, %d usual of %d", dialect, n, len(s.usual), len(s.written))
		}
	}
}
