package converter_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

// seeds are documents of every kind and fault; a file of testdata/fuzz is a document that once failed.
func seeds(f *testing.F) {
	for _, doc := range corpus(f) {
		f.Add([]byte("[" + doc + "]"))
		f.Add([]byte("[{\"id\":1,\"rule\":" + doc + "}]"))
	}
	for _, doc := range []string{
		"", "[]", "null", `""`, "{}", "[{}]", "[null]", "<html>", "\ufeff[]", "\xff\xfe[\x00]\x00", "\x1f\x8b", javaConsoleFlow,
		fmt.Sprintf(consoleHotspot, `,{"object":"x9","classType":"long","count":1}`),
		`[{"resource":"a","treshold":100}]`, `[{"resource":"a","threshold":1,"tokenCalculateStrategy":1,"controlBehavior":1,"x":{"y":[1,null]}}]`,
		`[{"resource":"a","threshold":0.5,"maxAllowedRtMs":200,"retryTimeoutMs":1500,"strategy":0}]`,
		`[{"resource":"a","threshold":3,"metricType":1,"specificItems":[{"valKind":2,"valStr":"1","threshold":4,"n":1}]}]`,
		`[{"metricType":1,"triggerCount":3.0,"strategy":1},{"metricType":4,"triggerCount":0.5}]`, `[{"resource":"a","limitApp":"x","strategy":1}]`,
		`[{"resource":"a","count":1,"timeWindow":2,"retryTimeoutMs":1500,"id":"x"}]`, `"[]"`, `[{"resource":"\u00e9\ud83d\ude00","count":1e3,"id":-0}]`,
		"- resource: a\n  count: 5\n  x: &a [1, 2]\n  y: *a\n", "- {resource: b, threshold: 6, 'n': 0x1F}\n# end\n", "- &a [*a]", "? a\n: b", "- resource: 2020-01-01\n  count: .inf",
	} {
		f.Add([]byte(doc))
	}
}

// check holds a decode to what must be true of any bytes.
func check[T any](t *testing.T, c converter.Converter[T], data []byte, emptyList func() bool) {
	before := string(data)
	d, err := c.Decode(data)
	if string(data) != before {
		t.Fatal("Decode changed its input")
	}
	if err != nil {
		if len(d.Rules) > 0 || len(d.Rejected) > 0 || err.Error() == "" {
			t.Fatalf("an error and rules: %v, %+v", err, d)
		}
		if !errors.Is(err, converter.ErrDecode) && !errors.Is(err, rule.ErrInvalid) {
			t.Fatalf("an error without a cause: %v", err)
		}
		return
	}
	for _, f := range d.Rejected {
		if !errors.Is(f, converter.ErrDecode) && !errors.Is(f, rule.ErrInvalid) || f.Index < 0 || f.Line < 1 || f.Error() == "" {
			t.Fatalf("a fault without cause or place: %+v", f)
		}
	}
	if len(d.Rules) == 0 && len(d.Rejected) == 0 && !emptyList() {
		t.Fatalf("no rules, and nothing said, from %q", data)
	}
	if d.Indexes != nil && len(d.Indexes) != len(d.Rules) || (d.Indexes == nil) != (len(d.Rejected) == 0) {
		t.Fatalf("%d indexes of %d rules, %d faults", len(d.Indexes), len(d.Rules), len(d.Rejected))
	}
	for i := range d.Rules {
		if d.Indexes != nil {
			i = d.Indexes[i]
		}
		if p := d.Locate(i, "resource"); p.Line < 1 || p.Column < 1 {
			t.Fatalf("rule %d has no place: %+v", i, p)
		}
	}
	text, err := c.Encode(d.Rules)
	if err != nil {
		t.Fatalf("Encode(%+v): %v", d.Rules, err)
	}
	back, err := c.Decode(text)
	if err != nil || len(back.Rejected) > 0 || !reflect.DeepEqual(back.Rules, d.Rules) {
		t.Fatalf("%+v\ncame back as %+v\n%v, %v, from\n%s", d.Rules, back.Rules, err, back.Rejected, text)
	}
}

func checkKinds(t *testing.T, data []byte, yaml bool, emptyList func() bool, opts ...converter.Option) {
	if yaml {
		check(t, converter.YAML[rule.Flow](opts...), data, emptyList)
		check(t, converter.YAML[rule.Degrade](opts...), data, emptyList)
		check(t, converter.YAML[rule.System](opts...), data, emptyList)
		check(t, converter.YAML[rule.Authority](opts...), data, emptyList)
		check(t, converter.YAML[rule.ParamFlow](opts...), data, emptyList)
		check(t, converter.YAML[rule.Isolation](opts...), data, emptyList)
		return
	}
	check(t, converter.JSON[rule.Flow](opts...), data, emptyList)
	check(t, converter.JSON[rule.Degrade](opts...), data, emptyList)
	check(t, converter.JSON[rule.System](opts...), data, emptyList)
	check(t, converter.JSON[rule.Authority](opts...), data, emptyList)
	check(t, converter.JSON[rule.ParamFlow](opts...), data, emptyList)
	check(t, converter.JSON[rule.Isolation](opts...), data, emptyList)
}

func isEmptyJSONList(data []byte) func() bool {
	return func() bool {
		s := strings.NewReplacer("\x00", "", "\ufeff", "", "\xff\xfe", "", "\xfe\xff", "").Replace(string(data))
		return strings.Join(strings.Fields(s), "") == "[]"
	}
}

// faults: F024 F025 F042
func FuzzJavaJSON(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkKinds(t, data, false, isEmptyJSONList(data)) })
}

// faults: F024 F025 F042
func FuzzGolangJSON(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkKinds(t, data, false, isEmptyJSONList(data), golang) })
}

// faults: F024 F025 F042
func FuzzYAML(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		empty := func() bool {
			var list []any
			return yaml.Unmarshal(data, &list) == nil && list != nil && len(list) == 0
		}
		checkKinds(t, data, true, empty)
		checkKinds(t, data, true, empty, golang, converter.UnknownMembers(converter.Note), converter.AllowSingle())
	})
}
