package rule_test

import (
	"fmt"

	"github.com/rulewire/rulewire/rule"
)

func Example() {
	rules := rule.NewManager[rule.Flow]()
	_, err := rules.Load([]rule.Flow{{Resource: "/order", Grade: rule.GradeQPS, Count: 10}})
	fmt.Println(err, len(rules.Lookup("/order")))

	// One bad rule: nothing of the list gets in, the rule in force stays.
	_, err = rules.Load([]rule.Flow{
		{Resource: "/order", Grade: rule.GradeQPS, Count: 20},
		{Resource: "/stock", Grade: rule.GradeQPS, Count: -1},
	})
	fmt.Println(err)
	fmt.Println(rules.Lookup("/order")[0].Count)

	report, _ := rules.Load([]rule.Flow{{Resource: "/order", Grade: rule.GradeQPS, Count: 20}})
	fmt.Println(report.Changes)
	// Output:
	// <nil> 1
	// rule 1 (/stock): count: must not be negative, is -1
	// 10
	// ~ flow /order: count 10 → 20
}

// A rule type of the user's own implements what it needs on its pointer.
type quota struct {
	Tenant string
	Limit  int
}

func (q *quota) RuleKey() string { return q.Tenant }

func (q *quota) Validate() error {
	if q.Limit < 0 {
		return &rule.Invalid{Faults: []rule.Fault{{Field: "limit", Reason: "must not be negative"}}}
	}
	return nil
}

func ExampleTraitsOf() {
	quotas := rule.NewManager[quota](rule.SkipInvalid())
	report, err := quotas.Load([]quota{{"acme", 5}, {"bad", -1}})
	fmt.Println(report.Accepted, report.Rejected, err)
	// Output: 1 rule 1 (bad): limit: must not be negative <nil>
}

func ExampleCompare() {
	before := []rule.Isolation{{Resource: "/a", Threshold: 1}, {Resource: "/b", Threshold: 2}}
	after := []rule.Isolation{{Resource: "/b", Threshold: 2}, {Resource: "/a", Threshold: 4}, {Resource: "/c", Threshold: 8}}
	changes := rule.Compare(before, after)
	fmt.Println(changes.Summary())
	fmt.Println(changes)
	// Output:
	// 1 added, 1 changed, 1 unchanged
	// ~ isolation /a: threshold 1 → 4
	// + isolation /c: threshold 8
}

func ExampleParseKind() {
	kind, err := rule.ParseKind("PARAM_FLOW")
	fmt.Println(kind, err)
	_, err = rule.ParseKind("hot")
	fmt.Println(err)
	// Output:
	// param-flow <nil>
	// unknown rule kind "hot"; known are flow, degrade, system, authority, param-flow, isolation
}
