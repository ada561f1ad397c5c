package converter_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

func TestMessageNamesTheFieldThatARuleLacks(t *testing.T) {
	at := func(pointer string) converter.Position {
		return converter.Position{Line: 1, Column: 2, Pointer: pointer}
	}
	for _, c := range []struct {
		fault converter.Fault
		want  string
	}{
		{converter.Fault{Field: "timeWindow", Position: at("/0"), Reason: "must be at least 1, is 0"}, "line 1, column 2: /0: timeWindow: must be at least 1, is 0"},
		{converter.Fault{Field: "clusterConfig/flowId", Position: at("/0"), Reason: "is required in cluster mode"}, "line 1, column 2: /0: clusterConfig/flowId: is required in cluster mode"},
		{converter.Fault{Field: "clusterConfig/flowId", Position: at("/0/clusterConfig"), Reason: "is required in cluster mode"}, "line 1, column 2: /0/clusterConfig: clusterConfig/flowId: is required in cluster mode"},
		{converter.Fault{Field: "a.b", Position: at("/0"), Reason: "is bad"}, "line 1, column 2: /0: a.b: is bad"},
		{converter.Fault{Field: "refResource", Position: at(""), Index: -1, Reason: "is required"}, "line 1, column 2: refResource: is required"},
		// The document's name for it is another one.
		{converter.Fault{Field: "timeWindow", Position: at("/0/retryTimeoutMs"), Reason: "is bad"}, "line 1, column 2: /0/retryTimeoutMs: timeWindow: is bad"},
		// Once is enough.
		{converter.Fault{Field: "count", Position: at("/0/count"), Reason: "is bad"}, "line 1, column 2: /0/count: is bad"},
		{converter.Fault{Field: "a.b", Position: at("/0/a/b"), Reason: "is bad"}, "line 1, column 2: /0/a/b: is bad"},
		{converter.Fault{Field: "a.b", Position: at("/0/a.b"), Reason: "is bad"}, "line 1, column 2: /0/a.b: is bad"},
		{converter.Fault{Field: "x/y", Position: at("/0/x~1y"), Reason: "is bad"}, "line 1, column 2: /0/x~1y: is bad"},
		{converter.Fault{Field: "items[2].object", Position: at("/0/items/2/object"), Reason: "is bad"}, "line 1, column 2: /0/items/2/object: is bad"},
		{converter.Fault{Field: "items[2].object", Position: at("/0/items/2"), Reason: "missing required object"}, "line 1, column 2: /0/items/2: missing required object"},
		{converter.Fault{Field: "count", Position: at("/0"), Reason: "missing required count"}, "line 1, column 2: /0: missing required count"},
		{converter.Fault{Field: "count", Position: at("/0"), Reason: "counts and discounts"}, "line 1, column 2: /0: count: counts and discounts"},
		{converter.Fault{Field: "a.b", Index: 3, Reason: "is bad"}, "/3/a.b: is bad"},
	} {
		if got := c.fault.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	rejected(t, converter.JSON[rule.Degrade](golang), `[{"resource":"a","threshold":1}]`, rule.ErrInvalid, "/0: missing maxAllowedRtMs, required")
}

func TestMessageIsShortWhateverTheDocumentHolds(t *testing.T) {
	const many = 1 << 20
	long := strings.Repeat("é", many/2)
	items := strings.Repeat("[", 9000)
	check := func(name string, err error, want ...string) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: accepted", name)
			return
		}
		text := err.Error()
		if len(text) > 3000 || !utf8.ValidString(text) {
			t.Errorf("%s: %d bytes: %.300s", name, len(text), text)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %.300q does not say %q", name, text, w)
			}
		}
	}
	decode := func(c converter.Converter[rule.Flow], doc string) error {
		d, err := c.Decode([]byte(doc))
		if err == nil && len(d.Rejected) > 0 {
			return d.Rejected
		}
		return err
	}
	j, strict := converter.JSON[rule.Flow](), converter.JSON[rule.Flow](converter.UnknownMembers(converter.Refuse))
	y := converter.YAML[rule.Flow]()
	for name, doc := range map[string]string{
		"deep":           strings.Repeat("[", 100_000),
		"deep and wrong": `[{"resource":"a","count":1,"x":` + items + `!`,
		"long name":      `[{"resource":"a","count":1,"` + long + `":!`,
		"unknown name":   `[{"resource":"a","count":1,"` + long + `":1}]`,
		"name twice":     `[{"resource":"a","count":1,"` + long + `":1,"` + long + `":1}]`,
		"nearly known":   `[{"resource":"a","count":1,"grade` + strings.Repeat("_", many) + `":1}]`,
		"long value":     `[{"resource":"a","count":"` + long + `"}]`,
		"long number":    `[{"resource":"a","count":1` + strings.Repeat("0", many) + `}]`,
		"long rule":      `["` + long + `"]`,
		"trailing":       `[]` + long,
		"quoted":         `"` + long + `"`,
		"object":         `{"` + long + `":1}`,
		"reference":      `[{"resource":"a","count":1,"` + long + `":{"$ref":"$[0]"}}]`,
		"HTML":           "<" + long,
	} {
		check(name, decode(strict, doc))
	}
	check("unknown name", decode(strict, `[{"resource":"a","count":1,"`+long+`":1}]`), "/0/éé", "… (1048579 bytes): ", "unknown éé", "é… (1048576 bytes)")
	check("deep", decode(j, strings.Repeat("[", 100_000)), "/0/0/0", "… (")
	for name, doc := range map[string]string{
		"tag":     "- !" + strings.Repeat("t", many) + " {}\n",
		"scalar":  "- resource: !" + strings.Repeat("t", many) + " a\n",
		"alias":   "- *" + strings.Repeat("a", 1000) + "\n",
		"octal":   "- count: 0" + strings.Repeat("1", many) + "\n",
		"bool":    "- regex: !!bool " + strings.Repeat("x", many) + "\n",
		"unknown": "- {resource: a, count: 1, grade" + strings.Repeat("_", 1000) + ": 1}\n",
	} {
		check("YAML "+name, decode(y, doc))
	}
	for name, r := range map[string]rule.Flow{
		"not UTF-8":  {Resource: long + "\xff", Grade: rule.GradeQPS},
		"extra":      {Resource: "a", Grade: rule.GradeQPS, Extra: rule.Extra{{Name: long, Value: "!"}}},
		"same extra": {Resource: "a", Grade: rule.GradeQPS, Extra: rule.Extra{{Name: long, Value: "1"}, {Name: long, Value: "1"}}},
	} {
		_, err := j.Encode([]rule.Flow{r})
		check("Encode "+name, err)
	}
	_, err := converter.JSON[rule.ParamFlow](golang).Encode([]rule.ParamFlow{{Resource: "a", Items: []rule.ParamFlowItem{{ClassType: long}}}})
	check("Encode classType", err)
	d, err := converter.JSON[rule.ParamFlow](golang).Decode([]byte(`[{"resource":"a","threshold":1,"specificItems":[{"valStr":"a","classType":"` + long + `","threshold":1}]}]`))
	if err == nil && len(d.Rejected) > 0 {
		err = d.Rejected
	}
	check("classType", err)
	check("fault of a validator", &converter.Fault{Field: long, Position: converter.Position{Pointer: "/" + long}, Reason: long, Expected: long, Found: long, Hint: long[:2]})
	f := converter.Fault{Position: converter.Position{Pointer: strings.Repeat("é", 100)}, Reason: "x"}
	check("of 200 bytes", &f, strings.Repeat("é", 100)+": x")
}

func TestTrailingCommaIsNamedWithItsPlace(t *testing.T) {
	j := converter.JSON[rule.Flow]()
	for _, c := range []struct {
		doc, want string
	}{
		{`[{"resource":"a","count":1},]`, "line 1, column 28: not JSON: trailing comma before ]"},
		{"[\n  {\"resource\":\"a\",\"count\":1},\n]\n", "line 2, column 29: not JSON: trailing comma before ]"},
		{`[{"resource":"a","count":1,}]`, "line 1, column 27: /0: not JSON: trailing comma before }"},
		{`[{"x":[1, 2 , ],"count":1}]`, "line 1, column 13: /0/x: not JSON: trailing comma before ]"},
		{`[,]`, "line 1, column 2: /0: not JSON: invalid character ',' at start of value"},
		{"[{\"resource\":\"a\",\"count\":1}],\n", "line 1, column 29: not JSON: trailing comma after the document"},
	} {
		if got := refused(t, j, c.doc).Error(); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.doc, got, c.want)
		}
	}
	refused(t, j, `[1}]`, "not JSON")
}

// What stands in the place of a rule was blamed at its end: for a list over several lines, on another line.
func TestPlaceOfWhatIsNoRuleIsItsEnd(t *testing.T) {
	for _, c := range []struct {
		conv converter.Converter[rule.Flow]
		text string
		line int
		col  int
	}{
		{converter.JSON[rule.Flow](), "[1]", 1, 2},
		{converter.JSON[rule.Flow](), "[\n  null\n]", 2, 3},
		{converter.JSON[rule.Flow](), "[\n  {\"resource\":\"a\",\"count\":1},\n  [\n    1,\n    2\n  ]\n]", 3, 3},
		{converter.YAML[rule.Flow](), "- resource: a\n  count: 1\n- - x\n  - y\n", 3, 3},
	} {
		d, err := c.conv.Decode([]byte(c.text))
		if err != nil || len(d.Rejected) != 1 {
			t.Fatalf("%q: %v, %v", c.text, err, d.Rejected)
		}
		if f := d.Rejected[0]; f.Line != c.line || f.Column != c.col {
			t.Errorf("%q: at line %d, column %d, want %d, %d", c.text, f.Line, f.Column, c.line, c.col)
		}
	}
}
