package converter_test

import (
	"errors"
	"fmt"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

func ExampleJSON() {
	c := converter.JSON[rule.Flow]()
	decoded, err := c.Decode([]byte(`[{"resource": "/orders", "count": 20.0, "grade": 1}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range decoded.Rules {
		fmt.Println(r.Resource, r.Count, r.MaxQueueingTimeMs)
	}
	// Output: /orders 20 500
}

func ExampleJSON_typo() {
	c := converter.JSON[rule.Flow](converter.Dialect(converter.Golang))
	_, err := c.Decode([]byte(`[{"resource": "/orders", "treshold": 20}]`))
	fmt.Println(err)
	fmt.Println(errors.Is(err, converter.ErrDecode))
	// Output:
	// line 1, column 26: /0/treshold: missing threshold, unknown treshold; did you mean "threshold"?
	// true
}

// Rules that can't be read are all named; a guard decides what becomes of the others.
func ExampleDecoded() {
	decoded, err := converter.JSON[rule.Flow]().Decode([]byte(`[
  {"resource": "/a", "count": 1},
  {"resource": "/b", "count": "many"},
  {"resource": "/c", "count": 1, "controlBehavior": 9}
]`))
	fmt.Println(len(decoded.Rules), err)
	for _, fault := range decoded.Rejected {
		fmt.Println(fault)
	}
	// Output:
	// 1 <nil>
	// line 3, column 31: /1/count: expected a number, found the string "many"
	// line 4, column 53: /2/controlBehavior: expected 0 (reject), 1 (warm up), 2 (rate limiter) or 3 (warm up and rate limiter), found 9
}

func ExampleDialect() {
	rules := []rule.Flow{{Resource: "/orders", Grade: rule.GradeQPS, Count: 20, ControlBehavior: rule.ControlRateLimiter, MaxQueueingTimeMs: 500}}
	text, err := converter.JSON[rule.Flow](converter.Dialect(converter.Golang)).Encode(rules)
	fmt.Println(string(text), err)
	// Output: [{"controlBehavior":1,"maxQueueingTimeMs":500,"relationStrategy":0,"resource":"/orders","statIntervalInMs":0,"threshold":20,"tokenCalculateStrategy":0,"warmUpColdFactor":0,"warmUpPeriodSec":0}] <nil>
}

func ExampleYAML() {
	c := converter.YAML[rule.Isolation]()
	decoded, err := c.Decode([]byte("- resource: /orders\n  threshold: 8\n"))
	fmt.Println(decoded.Rules[0].Threshold, err)
	text, err := c.Encode(decoded.Rules)
	fmt.Print(string(text), err)
	// Output:
	// 8 <nil>
	// - metricType: 0
	//   resource: /orders
	//   threshold: 8
	// <nil>
}

func ExampleFunc() {
	type limit struct{ Name string }
	c := converter.Func(func(data []byte) ([]limit, error) { return []limit{{Name: string(data)}}, nil }, nil)
	decoded, err := c.Decode([]byte("orders"))
	fmt.Println(decoded.Rules[0].Name, err)
	// Output: orders <nil>
}

func ExampleSupports() {
	fmt.Println(converter.Supports[string]())
	// Output: no converter for string (want rule.Flow, Degrade, System, Authority, ParamFlow or Isolation): unsupported
}
