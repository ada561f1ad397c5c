package converter_test

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

const yamlFlow = `# limits of the shop
- resource: /order/create
  count: 50      # per second
  grade: 1
  controlBehavior: 2
  maxQueueingTimeMs: 0x1F4
  clusterConfig: &cc
    flowId: 7
- resource: 2026-01-01
  count: 1e1
  id: 12345678901234567890
  limitApp: 'yes'
  clusterConfig: *cc
  note: {since: 2026-01-01, "on": yes}
`

func TestYAMLMeansWhatJSONMeans(t *testing.T) {
	d := must(t, converter.YAML[rule.Flow](), yamlFlow)
	want := must(t, converter.JSON[rule.Flow](), `[{"resource":"/order/create","count":50,"grade":1,"controlBehavior":2,"maxQueueingTimeMs":500,"clusterConfig":{"flowId":7}},
		{"resource":"2026-01-01","count":10,"id":"12345678901234567890","limitApp":"yes","clusterConfig":{"flowId":7},"note":{"since":"2026-01-01","on":"yes"}}]`)
	if !reflect.DeepEqual(d.Rules, want.Rules) || !reflect.DeepEqual(d.Report, want.Report) {
		t.Errorf("got %+v, %+v\nwant %+v, %+v", d.Rules, d.Report, want.Rules, want.Report)
	}
}

func TestYAMLIsWrittenInBlockStyle(t *testing.T) {
	c := converter.YAML[rule.ParamFlow]()
	r := one(t, c, "[{id: 3, resource: '/user/{id}', count: 3, paramIdx: 0, paramFlowItemList: [{object: '42', classType: int, count: 1}], clusterConfig: {}, x: {y: [1, 'b: c'], z: {}}}]")
	const want = `- burstCount: 0
  clusterConfig:
    fallbackToLocalWhenFail: false
    sampleCount: 10
    thresholdType: 0
    windowIntervalMs: 1000
  clusterMode: false
  controlBehavior: 0
  count: 3
  durationInSec: 1
  grade: 1
  id: 3
  limitApp: default
  maxQueueingTimeMs: 0
  paramFlowItemList:
    - classType: int
      count: 1
      object: "42"
  paramIdx: 0
  regex: false
  resource: "/user/{id}"
  x:
    "y":
      - 1
      - "b: c"
    z: {}
`
	text, err := c.Encode([]rule.ParamFlow{r})
	if err != nil || string(text) != want {
		t.Errorf("got\n%s%v\nwant\n%s", text, err, want)
	}
	// Names too long for "name: value", and text that YAML would fold or drop.
	long := strings.Repeat("long", 400)
	r.Extra = rule.Extra{{Name: long, Value: `{"` + long + `":["\u2028\u0085\ufeff \n"]}`}, {Name: "<<", Value: `"~"`}, {Name: "deep", Value: strings.Repeat("[", 50) + `{"a":1}` + strings.Repeat("]", 50)}}
	text, err = c.Encode([]rule.ParamFlow{r})
	if err != nil {
		t.Fatal(err)
	}
	if back := one(t, c, string(text)); !strings.Contains(back.Extra[0].Value, "\u2028\u0085\ufeff \\n") || len(back.Extra) != 3 || back.Extra[1] != r.Extra[1] || back.Extra[2] != r.Extra[2] {
		t.Errorf("%+v from\n%s", back.Extra, text)
	}
}

func TestYAMLFaultsHaveYAMLPlaces(t *testing.T) {
	c := converter.YAML[rule.Flow]()
	d := rejected(t, c, "# x\n- resource: a\n  count: many\n- resource: b\n", converter.ErrDecode)
	if f := d.Rejected[0]; f.Line != 3 || f.Column != 10 || f.Pointer != "/0/count" {
		t.Errorf("%+v", f)
	}
	if f := d.Rejected[1]; f.Line != 4 || f.Column != 3 || f.Pointer != "/1" || !errors.Is(f, rule.ErrInvalid) {
		t.Errorf("%+v", f)
	}
	f := refused(t, c, "- resource: a\n  count: 1\n  名: 1\n  controlBehaviour: 2\n")[0]
	if f.Line != 4 || f.Column != 3 {
		t.Errorf("%+v", f)
	}
	if f := refused(t, c, "a: 1\nb: 2\n", "object where array expected", "a and b")[0]; f.Line != 1 || f.Column != 1 {
		t.Errorf("%+v", f)
	}
	if f := refused(t, c, "- a\n- [b\n- c\n", "not YAML")[0]; f.Line == 0 {
		t.Errorf("%+v", f)
	}
}

func TestYAMLThatIsMoreThanJSONIsRefusedByName(t *testing.T) {
	c := converter.YAML[rule.Flow]()
	bomb := "- &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i < 'k'; i++ {
		bomb += "- &" + string(i) + " [" + strings.Repeat("*"+string(i-1)+", ", 10) + "]\n"
	}
	for doc, want := range map[string]string{
		"- a\n---\n- b\n":                         "more than one YAML document",
		"- <<: {resource: a}\n  count: 1\n":       "merge keys",
		"- resource: a\n  count: .inf\n":          ".inf is not a number",
		"- resource: a\n  count: -.INF\n":         "-.INF is not a number",
		"- resource: a\n  count: .nan\n":          ".nan is not a number",
		"- resource: a\n  count: 1\n  id: 017\n":  "octal",
		"- resource: !!binary YQ==\n  count: 1\n": "!!binary",
		"- resource: !mine a\n  count: 1\n":       "!mine",
		"- !mine {resource: a}\n":                 "!mine",
		"!!set {a, b}":                            "!!set",
		"- 1: a\n":                                "a name must be a string",
		"- [a]: b\n":                              "a name must be a string",
		"- null: b\n":                             "a name must be a string",
		"- &a [*a]\n":                             "alias to itself",
		"&a [*a]":                                 "alias to itself",
		"- *b\n":                                  "not YAML",
		bomb:                                      "too large",
		strings.Repeat("[", 3000) + strings.Repeat("]", 3000): "nested too deep",
		strings.Repeat("[", 100_000):                          "not YAML",
		"- resource: a\n\tcount: 1\n":                         "not YAML",
		"%YAML 9.9\n---\n[]\n":                                "not YAML",
	} {
		name, _, _ := strings.Cut(doc[:min(len(doc), 40)], "\n")
		t.Run(name, func(t *testing.T) { refused(t, c, doc, want) })
	}
}

func TestYAMLAliasBombIsRefusedBeforeItExpands(t *testing.T) {
	c := converter.YAML[rule.Flow]()
	bomb := "- &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i < 'h'; i++ {
		bomb += "- &" + string(i) + " [" + strings.Repeat("*"+string(i-1)+", ", 10) + "]\n"
	}
	shared := "- resource: &r " + strings.Repeat("r", 4000) + "\n  count: 1\n" + strings.Repeat("- *r\n", 1000)
	names := "- &r " + strings.Repeat("r", 4000) + "\n" + strings.Repeat("- {*r : 1}\n", 1000)
	for _, doc := range []string{bomb, shared, names} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		refused(t, c, doc, "aliases make the document too large", "bytes of JSON")
		runtime.ReadMemStats(&after)
		// The parser's own tree is most of it.
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
			t.Errorf("%d bytes of text cost %d bytes", len(doc), used)
		}
	}
}

func TestYAMLRulesMayShareOneAnchor(t *testing.T) {
	const part = "{flowId: 7, thresholdType: 1, fallbackToLocalWhenFail: true, strategy: 0, sampleCount: 10, windowIntervalMs: 1000, resourceTimeout: 2000, clientOfflineTime: 2000}"
	for _, n := range []int{100, 5000} {
		doc := "- {resource: r, count: 1, clusterMode: true, clusterConfig: &c " + part + "}\n"
		doc += strings.Repeat("- {resource: r, count: 1, clusterConfig: *c}\n", n-1)
		d := must(t, converter.YAML[rule.Flow](), doc)
		if last := d.Rules[len(d.Rules)-1]; len(d.Rules) != n || last.ClusterConfig == nil || *last.ClusterConfig.FlowID != 7 {
			t.Errorf("%d rules, the last one %+v", len(d.Rules), last)
		}
	}
}
