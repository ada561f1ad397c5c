package converter_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

var golang = converter.Dialect(converter.Golang)

// must decodes a document in which nothing may be wrong.
func must[T any](t *testing.T, c converter.Converter[T], doc string) converter.Decoded[T] {
	t.Helper()
	d, err := c.Decode([]byte(doc))
	if err != nil {
		t.Fatalf("Decode(%s): %v", doc, err)
	}
	if len(d.Rejected) > 0 {
		t.Fatalf("Decode(%s) rejected: %v", doc, d.Rejected)
	}
	return d
}

// one decodes a document of one good rule.
func one[T any](t *testing.T, c converter.Converter[T], doc string) T {
	t.Helper()
	d := must(t, c, doc)
	if len(d.Rules) != 1 {
		t.Fatalf("Decode(%s) = %d rules", doc, len(d.Rules))
	}
	return d.Rules[0]
}

// refused decodes a document that must be refused as a whole.
func refused[T any](t *testing.T, c converter.Converter[T], doc string, want ...string) converter.Faults {
	t.Helper()
	d, err := c.Decode([]byte(doc))
	var faults converter.Faults
	if !errors.As(err, &faults) || len(faults) == 0 {
		t.Fatalf("Decode(%s) = %+v, %v, want Faults", doc, d, err)
	}
	if !errors.Is(err, converter.ErrDecode) {
		t.Errorf("Decode(%s): %v does not wrap ErrDecode", doc, err)
	}
	if len(d.Rules) > 0 || len(d.Rejected) > 0 {
		t.Errorf("Decode(%s) gave both an error and %+v", doc, d)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("Decode(%s): %q does not say %q", doc, err, w)
		}
	}
	return faults
}

// rejected decodes a document with rules that can't be read, and gives the faults.
func rejected[T any](t *testing.T, c converter.Converter[T], doc string, sentinel error, want ...string) converter.Decoded[T] {
	t.Helper()
	d, err := c.Decode([]byte(doc))
	if err != nil {
		t.Fatalf("Decode(%s): %v, want only rules rejected", doc, err)
	}
	if len(d.Rejected) == 0 {
		t.Fatalf("Decode(%s) rejected nothing: %+v", doc, d.Rules)
	}
	if !errors.Is(d.Rejected, sentinel) {
		t.Errorf("Decode(%s): %v does not wrap %v", doc, d.Rejected, sentinel)
	}
	for _, w := range want {
		if !strings.Contains(d.Rejected.Error(), w) {
			t.Errorf("Decode(%s): %q does not say %q", doc, d.Rejected, w)
		}
	}
	return d
}

const javaConsoleFlow = `[{"id":11,"app":"shop","ip":"10.0.0.7","port":8719,"gmtCreate":1700000000000,"gmtModified":1700000005000,` +
	`"resource":"/order/create","limitApp":"default","grade":1,"count":50.0,"strategy":0,"refResource":null,"controlBehavior":0,` +
	`"warmUpPeriodSec":null,"maxQueueingTimeMs":null,"clusterMode":false,"clusterConfig":{"flowId":null,"thresholdType":0,` +
	`"fallbackToLocalWhenFail":true,"strategy":0,"sampleCount":10,"windowIntervalMs":1000}}]`

// faults: F035 F041 F043
func TestF041ConsoleFlowRuleWithMetadataLoads(t *testing.T) {
	d := must(t, converter.JSON[rule.Flow](), javaConsoleFlow)
	want := rule.Flow{
		ID: "11", Resource: "/order/create", LimitApp: "default", Grade: rule.GradeQPS, Count: 50,
		WarmUpPeriodSec: 10, MaxQueueingTimeMs: 500,
		ClusterConfig: &rule.ClusterFlowConfig{FallbackToLocalWhenFail: true, SampleCount: 10, WindowIntervalMs: 1000,
			ResourceTimeout: 2000, ClientOfflineTime: 2000},
	}
	if !reflect.DeepEqual(d.Rules, []rule.Flow{want}) {
		t.Errorf("got %+v, want %+v", d.Rules, want)
	}
	if d.Report.Metadata != 5 || len(d.Report.Unknown) != 0 {
		t.Errorf("report %+v", d.Report)
	}
	if d.Report.Defaulted["warmUpPeriodSec"] != 1 || d.Report.Defaulted["maxQueueingTimeMs"] != 1 {
		t.Errorf("defaults are not reported: %+v", d.Report)
	}
	if _, ok := d.Report.Defaulted["count"]; ok {
		t.Error("count has no default")
	}
	// Also where unknown members are refused.
	must(t, converter.JSON[rule.Flow](converter.UnknownMembers(converter.Refuse)), javaConsoleFlow)
}

// faults: F034 F035
func TestF034JavaCountInGolangDialectIsNotZero(t *testing.T) {
	faults := refused(t, converter.JSON[rule.Flow](golang), javaConsoleFlow,
		"missing required threshold", "id is a number", "grade, count and strategy", "java dialect?")
	if f := faults[0]; f.Index != 0 || f.Field != "threshold" || f.Resource != "/order/create" {
		t.Errorf("fault %+v", f)
	}
	refused(t, converter.JSON[rule.Flow](), `[{"resource":"a","threshold":7}]`,
		"missing required count", "threshold is a name of the golang dialect")
	// With both names the reader can't know which number was meant.
	refused(t, converter.JSON[rule.Flow](), `[{"resource":"a","count":5,"threshold":7}]`, "golang dialect")
	refused(t, converter.JSON[rule.System](golang), `[{"qps":5}]`, "metricType and triggerCount", "java dialect")
	refused(t, converter.JSON[rule.System](), `[{"metricType":3,"triggerCount":5}]`, "golang dialect")
}

// faults: F036
func TestF036ControlBehaviourKeepsItsMeaning(t *testing.T) {
	var docs []string
	for i := range 4 {
		docs = append(docs, fmt.Sprintf(`{"resource":"r%d","grade":1,"count":10,"controlBehavior":%[1]d}`, i))
	}
	d := must(t, converter.JSON[rule.Flow](), "["+strings.Join(docs, ",")+"]")
	for i, r := range d.Rules {
		if r.ControlBehavior != rule.ControlBehavior(i) || r.WarmUpPeriodSec != 10 || r.MaxQueueingTimeMs != 500 {
			t.Errorf("rule %d: %+v", i, r)
		}
	}
	text, err := converter.JSON[rule.Flow](golang).Encode(d.Rules)
	if err != nil {
		t.Fatal(err)
	}
	for i, pair := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {1, 1}} {
		want := fmt.Sprintf(`{"controlBehavior":%d,"maxQueueingTimeMs":500,"relationStrategy":0,"resource":"r%d","statIntervalInMs":0,`+
			`"threshold":10,"tokenCalculateStrategy":%d,"warmUpColdFactor":0,"warmUpPeriodSec":10}`, pair[1], i, pair[0])
		if !strings.Contains(string(text), want) {
			t.Errorf("rule %d: %s is not in %s", i, want, text)
		}
	}
	if back := must(t, converter.JSON[rule.Flow](golang), string(text)); !reflect.DeepEqual(back.Rules, d.Rules) {
		t.Errorf("back from the golang dialect: %+v", back.Rules)
	}
	r := one(t, converter.JSON[rule.Flow](golang), `[{"resource":"a","threshold":1,"tokenCalculateStrategy":2,"controlBehavior":1}]`)
	if !r.MemoryAdaptive || r.ControlBehavior != rule.ControlRateLimiter {
		t.Errorf("memory adaptive: %+v", r)
	}
	rejected(t, converter.JSON[rule.Flow](golang), `[{"resource":"a","threshold":1,"controlBehavior":2}]`, rule.ErrInvalid, "1 (throttling)")
	// Beside Java's controlBehavior, a golang strategy would be a second opinion.
	rejected(t, converter.JSON[rule.Flow](), `[{"resource":"a","count":1,"tokenCalculateStrategy":1}]`, rule.ErrInvalid)
}

const consoleHotspot = `[{"app":"shop","id":3,"gmtCreate":1700000000000,"rule":{"resource":"/user/{id}","grade":1,"paramIdx":0,"count":3.0,` +
	`"durationInSec":5,"burstCount":0,"controlBehavior":0,"maxQueueingTimeMs":0,"limitApp":"default","clusterMode":false,` +
	`"paramFlowItemList":[{"object":"42","classType":"int","count":100},{"object":"vip","classType":"java.lang.String","count":7}%s]}}]`

// faults: F031 F045
func TestF031BadSpecialItemRejectsTheRule(t *testing.T) {
	doc := fmt.Sprintf(consoleHotspot, `,{"object":"x9","classType":"long","count":1}`)
	d := rejected(t, converter.JSON[rule.ParamFlow](), doc, rule.ErrInvalid, `"x9" is not a long`)
	if f := d.Rejected[0]; f.Pointer != "/0/rule/paramFlowItemList/2" || f.Field != "paramFlowItemList[2].object" || f.Resource != "/user/{id}" ||
		f.Line != 1 || f.Column != 1+strings.Index(doc, `{"object":"x9"`) {
		t.Errorf("fault %+v", f)
	}
	if len(d.Rules) != 0 {
		t.Errorf("the rule loaded without its item: %+v", d.Rules)
	}
	rejected(t, converter.JSON[rule.ParamFlow](), `[{"resource":"a","count":1,"paramIdx":0,"paramFlowItemList":[null]}]`, converter.ErrDecode, "/0/paramFlowItemList/0", "found null")
	rejected(t, converter.JSON[rule.ParamFlow](), `[{"resource":"a","count":1,"paramIdx":0,"paramFlowItemList":[{"object":"a"}]}]`, rule.ErrInvalid, "missing required count")
	rejected(t, converter.JSON[rule.ParamFlow](golang), `[{"resource":"a","threshold":1,"specificItems":[{"valKind":0,"valStr":"x","threshold":1}]}]`, rule.ErrInvalid, "/0/specificItems/0")
	rejected(t, converter.JSON[rule.ParamFlow](golang), `[{"resource":"a","threshold":1,"specificItems":[{"valKind":4,"valStr":"x","threshold":1}]}]`, rule.ErrInvalid, "3 (float64)")
}

// faults: F039
func TestF039WrappedRuleIsUnwrapped(t *testing.T) {
	d := must(t, converter.JSON[rule.ParamFlow](), fmt.Sprintf(consoleHotspot, ""))
	want := rule.ParamFlow{ID: "3", Resource: "/user/{id}", LimitApp: "default", Grade: rule.GradeQPS, Count: 3, DurationInSec: 5,
		Items: []rule.ParamFlowItem{{Object: "42", ClassType: "int", Count: 100}, {Object: "vip", ClassType: "java.lang.String", Count: 7}}}
	if !reflect.DeepEqual(d.Rules, []rule.ParamFlow{want}) || d.Report.Unwrapped != 1 {
		t.Errorf("got %+v, report %+v", d.Rules, d.Report)
	}
	bare := strings.TrimSuffix(strings.SplitN(fmt.Sprintf(consoleHotspot, ""), `"rule":`, 2)[1], "}]")
	want.ID = ""
	if r := one(t, converter.JSON[rule.ParamFlow](), "["+bare+"]"); !reflect.DeepEqual(r, want) {
		t.Errorf("without the wrapper: %+v", r)
	}
	a := one(t, converter.JSON[rule.Authority](), `[{"id":1,"rule":{"id":2,"resource":"a","limitApp":"x,y"}}]`)
	if a.ID != "2" || a.Resource != "a" || a.LimitApp != "x,y" {
		t.Errorf("authority %+v", a)
	}
	rejected(t, converter.JSON[rule.Authority](), `[{"id":1,"rule":{}}]`, rule.ErrInvalid, "/0/rule: missing required resource")
	rejected(t, converter.JSON[rule.Authority](), `[{"id":1,"rule":null}]`, rule.ErrInvalid, "missing required resource")
	rejected(t, converter.JSON[rule.Authority](), `[{"id":1,"rule":[]}]`, converter.ErrDecode, "expected an object, found a list")
	rejected(t, converter.JSON[rule.Authority](), `[{"resource":"b","rule":{"resource":"a","limitApp":"x"}}]`, converter.ErrDecode, "beside \"rule\"")
	rejected(t, converter.JSON[rule.Authority](), `[{"note":1,"rule":{"note":2,"resource":"a","limitApp":"x"}}]`, converter.ErrDecode, "twice")
	rejected(t, converter.JSON[rule.Flow](), `[{"rule":{"resource":"a","count":1}}]`, rule.ErrInvalid, "missing required resource")
}

// faults: F042 F043 F044
func TestF042SlowCallRatioSurvives(t *testing.T) {
	const doc = `[{"resource":"stock","grade":%d,"count":%s,"timeWindow":10,"minRequestAmount":5,"statIntervalMs":1000%s}]`
	c := converter.JSON[rule.Degrade]()
	r := one(t, c, fmt.Sprintf(doc, 0, "200", ""))
	want := rule.Degrade{Resource: "stock", LimitApp: "default", Count: 200, TimeWindowMs: 10_000, MinRequestAmount: 5, SlowRatioThreshold: 1, StatIntervalMs: 1000}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, want %+v", r, want)
	}
	if r := one(t, c, fmt.Sprintf(doc, 0, "200", `,"slowRatioThreshold":0.4`)); r.SlowRatioThreshold != 0.4 {
		t.Errorf("ratio %v", r.SlowRatioThreshold)
	}
	g := converter.JSON[rule.Degrade](golang)
	for grade, count := range []float64{200, 0.5, 7} {
		r := one(t, c, fmt.Sprintf(doc, grade, fmt.Sprint(count), `,"slowRatioThreshold":0.4`))
		text, err := g.Encode([]rule.Degrade{r})
		if err != nil {
			t.Fatal(err)
		}
		if back := one(t, g, string(text)); r.Count != count || !reflect.DeepEqual(back, r) {
			t.Errorf("grade %d: %+v came back as %+v from %s", grade, r, back, text)
		}
	}
	// The core takes a missing maxAllowedRtMs for 0, that is every call for slow.
	rejected(t, g, `[{"resource":"a","threshold":0.5}]`, rule.ErrInvalid, "missing maxAllowedRtMs")
}

func TestSecondsAndMilliseconds(t *testing.T) {
	j, g := converter.JSON[rule.Degrade](), converter.JSON[rule.Degrade](golang)
	r := one(t, g, `[{"resource":"a","strategy":2,"threshold":5,"retryTimeoutMs":1500}]`)
	text, err := j.Encode([]rule.Degrade{r})
	if err != nil || !strings.Contains(string(text), `"retryTimeoutMs":1500,"slowRatioThreshold":1,"statIntervalMs":0,"timeWindow":2`) {
		t.Fatalf("%s, %v", text, err)
	}
	if back := one(t, j, string(text)); back.TimeWindowMs != 1500 {
		t.Errorf("back %+v", back)
	}
	rejected(t, j, `[{"resource":"a","count":5,"timeWindow":3,"retryTimeoutMs":1500}]`, rule.ErrInvalid, "differ")
	if r := one(t, j, `[{"resource":"a","count":5,"retryTimeoutMs":1500}]`); r.TimeWindowMs != 1500 {
		t.Errorf("alone: %+v", r)
	}
}

// faults: F047
func TestF047SystemLimits(t *testing.T) {
	j, g := converter.JSON[rule.System](), converter.JSON[rule.System](golang)
	r := one(t, j, `[{"highestSystemLoad":-1,"highestCpuUsage":0.8,"qps":500,"avgRt":-7,"maxThread":0}]`)
	want := rule.System{HighestSystemLoad: -1, HighestCPUUsage: 0.8, QPS: 500, AvgRT: -1, MaxThread: 0, Strategy: rule.AdaptiveNone}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, want %+v", r, want)
	}
	text, err := g.Encode([]rule.System{r})
	if want := `[{"metricType":2,"strategy":-1,"triggerCount":0},{"metricType":3,"strategy":-1,"triggerCount":500},{"metricType":4,"strategy":-1,"triggerCount":0.8}]`; err != nil || string(text) != want {
		t.Errorf("golang: %s, %v", text, err)
	}
	back := must(t, g, string(text)).Rules
	if len(back) != 3 || back[0].MaxThread != 0 || back[0].QPS != -1 || back[1].QPS != 500 || back[2].HighestCPUUsage != 0.8 {
		t.Errorf("back: %+v", back)
	}
	rejected(t, j, `[{}]`, rule.ErrInvalid, "at least one of")
	rejected(t, j, `[{"qps":null}]`, rule.ErrInvalid, "at least one of")
	rejected(t, g, `[{"metricType":5,"triggerCount":1}]`, rule.ErrInvalid, "4 (CPU usage)")
	rejected(t, g, `[{"metricType":3,"triggerCount":-1}]`, rule.ErrInvalid, ">= 0")
	rejected(t, g, `[{"metricType":1,"triggerCount":1.5}]`, rule.ErrInvalid, "whole number")
	rejected(t, g, `[{"metricType":1}]`, rule.ErrInvalid, "missing required triggerCount")
	if _, err := g.Encode([]rule.System{{HighestSystemLoad: -1, HighestCPUUsage: -1, QPS: -1, AvgRT: -1, MaxThread: -1}}); !errors.Is(err, rule.ErrUnsupported) {
		t.Errorf("a rule without a limit: %v", err)
	}
	// What a Go program that leaves the strategy out writes.
	if r := one(t, g, `[{"metricType":3,"triggerCount":1,"strategy":0}]`); r.Strategy != rule.AdaptiveNone {
		t.Errorf("strategy %d", r.Strategy)
	}
}

// faults: F054 F055
func TestF055ByteOrderMarks(t *testing.T) {
	const doc = "[\n{\"resource\":\"名😀\",\"threshold\":7}]"
	c := converter.JSON[rule.Flow](golang)
	want := one(t, c, doc)
	if want.Count != 7 {
		t.Fatalf("%+v", want)
	}
	utf16le := binary.LittleEndian.AppendUint16(nil, 0xfeff)
	utf16be := binary.BigEndian.AppendUint16(nil, 0xfeff)
	for _, u := range utf16.Encode([]rune(doc)) {
		utf16le = binary.LittleEndian.AppendUint16(utf16le, u)
		utf16be = binary.BigEndian.AppendUint16(utf16be, u)
	}
	for name, data := range map[string][]byte{"UTF-8": []byte("\ufeff" + doc), "UTF-16LE": utf16le, "UTF-16BE": utf16be} {
		if got := one(t, c, string(data)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
		if got := one(t, converter.YAML[rule.Flow](golang), string(data)); !reflect.DeepEqual(got, want) {
			t.Errorf("YAML in %s: %+v", name, got)
		}
	}
	for name, data := range map[string]string{
		"odd":              string(utf16le[:len(utf16le)-1]),
		"lone surrogate":   "\xff\xfe\x00\xd8[\x00",
		"surrogate at end": "\xff\xfe[\x00\x00\xd8",
	} {
		t.Run(name, func(t *testing.T) { refused(t, c, data, "UTF-16") })
	}
	refused(t, c, string(utf16le[2:]), "NUL", "UTF-16 without a byte order mark")
	refused(t, c, "\xff\xfe\x00\x00[\x00\x00\x00", "UTF-32")
	// A second mark is no blank.
	refused(t, c, "\ufeff\ufeff"+doc, "not JSON")
	for _, lone := range []string{"\ufeff", "\xff\xfe", "\xfe\xff"} {
		if f := refused(t, c, lone); !errors.Is(f, converter.ErrEmpty) {
			t.Errorf("a lone mark %x: %v", lone, f)
		}
	}
}

// faults: F028
func TestF028SingleObject(t *testing.T) {
	const doc = `{"resource":"a","threshold":7}`
	f := refused(t, converter.JSON[rule.Flow](golang), doc, "object where array expected")
	if f[0].Index != -1 || f[0].Line != 1 || f[0].Column != 1 {
		t.Errorf("fault %+v", f[0])
	}
	c := converter.JSON[rule.Flow](golang, converter.AllowSingle())
	if r := one(t, c, doc); r.Count != 7 {
		t.Errorf("%+v", r)
	}
	if r := one(t, c, "["+doc+"]"); r.Count != 7 {
		t.Errorf("%+v", r)
	}
	d := rejected(t, c, `{"resource":1,"threshold":7}`, converter.ErrDecode)
	if d.Rejected[0].Pointer != "/resource" {
		t.Errorf("pointer %q", d.Rejected[0].Pointer)
	}
	rejected(t, c, `{}`, rule.ErrInvalid)
	rejected(t, c, `{"code":403,"message":"forbidden"}`, rule.ErrInvalid)
	rejected(t, converter.JSON[rule.System](converter.AllowSingle()), `{"code":403,"message":"forbidden"}`, rule.ErrInvalid)
}

// faults: F037
func TestF037MisspeltFieldRefusesTheDocument(t *testing.T) {
	g, j := converter.JSON[rule.Flow](golang), converter.JSON[rule.Flow]()
	refused(t, g, `[{"resource":"a","treshold":100}]`, "missing threshold, unknown treshold", `did you mean "threshold"?`)
	refused(t, j, `[{"resource":"a","treshold":100}]`, "missing count, unknown treshold", "golang dialect")
	refused(t, j, `[{"resource":"a","cuont":100}]`, "missing count, unknown cuont")
	refused(t, j, `[{"resource":"a","count":1,"controlBehaviour":2}]`, `did you mean "controlBehavior"?`)
	// One differing only in case is refused also where the right one is there.
	for _, name := range []string{"Resource", "COUNT", "limit_app", "limit-app"} {
		refused(t, j, `[{"resource":"a","count":1,"limitApp":"default","`+name+`":1}]`, "did you mean")
	}
	refused(t, j, `[{"Resource":"r","COUNT":5,"control_behavior":2,"unknown":1}]`,
		`did you mean "resource"`, `did you mean "count"`, `did you mean "controlBehavior"`)
	// The typo of one rule refuses all: with half the list in force nobody would look.
	refused(t, j, `[{"resource":"a","count":1},{"resource":"b","count":1,"controlBehaviour":2}]`, "/1/controlBehaviour")
	refused(t, j, `[{"resource":"a","count":1,"clusterConfig":{"flowID":3}}]`, "/0/clusterConfig/flowID", `did you mean "flowId"?`)
	// What is near to a field that is there is somebody else's field.
	if r := one(t, j, `[{"resource":"a","count":1,"count2":100}]`); len(r.Extra) != 1 {
		t.Errorf("%+v", r)
	}

	d := must(t, g, `[{"resource":"a","threshold":100,"note":{"x": [1, 2.50]}}]`)
	if want := (rule.Extra{{Name: "note", Value: `{"x":[1,2.50]}`}}); d.Report.Unknown["note"] != 1 || !reflect.DeepEqual(d.Rules[0].Extra, want) {
		t.Errorf("%+v, report %+v", d.Rules, d.Report)
	}
	refused(t, converter.JSON[rule.Flow](golang, converter.UnknownMembers(converter.Refuse)), `[{"resource":"a","threshold":100,"note":"x"}]`, "unknown note")
	note := converter.JSON[rule.Flow](golang, converter.UnknownMembers(converter.Note))
	d = must(t, note, `[{"resource":"a","threshold":100,"controlBehaviour":1,"count":3}]`)
	if d.Report.Unknown["controlBehaviour"] != 1 || d.Report.Unknown["count"] != 1 || len(d.Rules[0].Extra) != 2 {
		t.Errorf("Note: %+v, %+v", d.Rules, d.Report)
	}
	rejected(t, note, `[{"resource":"a","treshold":100}]`, rule.ErrInvalid, "missing required threshold")
}

func TestNameOfItsOwnIsNoTypo(t *testing.T) {
	for doc, names := range map[string][]string{
		`[{"resource":"a","count":1,%q:1}]`: {"limitQps", "limitIp", "limitUp", "limitAppName", "trade", "grader", "count2", "counts", "resourceId", "source",
			"minQueueingTimeMs", "thresholds"},
		`[{"resource":"a","count":1,"grade":1,%q:1}]`: {"trade", "grader", "gradeName", "grade2"},
	} {
		for _, name := range names {
			if r := one(t, converter.JSON[rule.Flow](), fmt.Sprintf(doc, name)); len(r.Extra) != 1 || r.Extra[0].Name != name {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	for _, name := range []string{"counts", "count2", "mount", "limitQps", "grader", "trade"} {
		if r := one(t, converter.JSON[rule.Flow](golang), fmt.Sprintf(`[{"resource":"a","threshold":1,%q:1}]`, name)); len(r.Extra) != 1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for _, name := range []string{"source", "resourceId", "resource_id", "minThread", "trade"} {
		one(t, converter.JSON[rule.System](), fmt.Sprintf(`[{"qps":1,%q:1}]`, name))
		one(t, converter.JSON[rule.System](golang), fmt.Sprintf(`[{"metricType":3,"triggerCount":1,%q:1}]`, name))
	}
	for _, name := range []string{"maxRequestAmount", "trade", "retryCount"} {
		one(t, converter.JSON[rule.Degrade](), fmt.Sprintf(`[{"resource":"a","count":1,"timeWindow":1,%q:1}]`, name))
	}
}

func TestTypoThatANameOfItsOwnCantBeIsStillRefused(t *testing.T) {
	for name, want := range map[string]string{
		"resourc": "resource", "controlBehaviour": "controlBehavior", "controllBehavior": "controlBehavior", "controlBehaviours": "controlBehavior",
		"warmUpPeriodSecs": "warmUpPeriodSec", "maxQueingTimeMs": "maxQueueingTimeMs", "limitAp": "limitApp", "gradde": "grade",
	} {
		refused(t, converter.JSON[rule.Flow](), fmt.Sprintf(`[{"count":1,%q:1}]`, name), fmt.Sprintf("did you mean %q?", want))
	}
	refused(t, converter.JSON[rule.Flow](), `[{"resource":"a","cuont":1}]`, "missing count, unknown cuont", `did you mean "count"?`)
	for _, name := range []string{"treshold", "tresholds", "thresholds", "THRESHOLD"} {
		refused(t, converter.JSON[rule.Flow](golang), fmt.Sprintf(`[{"resource":"a",%q:1}]`, name), `did you mean "threshold"?`)
	}
	// Of the other dialect: exact but for case, or in the place of the missing one.
	refused(t, converter.JSON[rule.Flow](golang), `[{"resource":"a","threshold":1,"COUNT":1}]`, "java dialect?")
	refused(t, converter.JSON[rule.Flow](golang), `[{"resource":"a","cuont":1}]`, "missing threshold, unknown cuont", "java dialect?")
	refused(t, converter.JSON[rule.Degrade](), `[{"resource":"a","count":1,"statIntervalMS":1}]`, `did you mean "statIntervalMs"?`)
}

// faults: F026 F060
func TestF060OtherDocumentsAreRefusedByName(t *testing.T) {
	for _, yaml := range []bool{false, true} {
		c := converter.JSON[rule.Flow]()
		if yaml {
			c = converter.YAML[rule.Flow]()
		}
		refused(t, c, `<html><body>Please sign in</body></html>`, "HTML")
		refused(t, c, "  \n<?xml version='1.0'?>", "HTML or XML")
		refused(t, c, `{"code":403,"message":"forbidden"}`, "object where array expected", "code and message")
		refused(t, c, `{"appId":"x","configurations":{"content":"[]"}}`, "object where array expected")
		refused(t, c, "\x1f\x8b\x08\x00\x00", "gzip")
		refused(t, c, "[\x00]", "NUL")
		refused(t, c, "5", "where array expected")
		refused(t, c, "true", "where array expected")
		refused(t, c, `"hello"`, "string where array expected")
	}
	c := converter.JSON[rule.Flow]()
	for doc, want := range map[string]string{
		`[] []`:                            "trailing text",
		`[{"resource":"a","count":1}] x`:   "trailing text",
		`[{"resource":"a","count":1`:       "cut off",
		`[`:                                "cut off",
		`[{"resource":"a","count":5,}]`:    "not JSON",
		`[{'resource':'r'}]`:               "not JSON",
		`/*c*/[]`:                          "not JSON",
		`[{"resource":"a","count":NaN}]`:   "not JSON",
		`not json`:                         "not JSON",
		"[{\"resource\":\"\xff\"}]":        "UTF-8",
		`[{"resource":"\ud800"}]`:          "not JSON",
		strings.Repeat("[", 20_000):        "not JSON",
		`[{"resource":"a","count":1e999}]`: "",
	} {
		if want == "" {
			rejected(t, c, doc, rule.ErrInvalid, "a number that fits a double")
			continue
		}
		refused(t, c, doc, want)
	}
	f := refused(t, c, "[\n  {\"resource\": \"名\", ?}]")
	if f[0].Line != 2 || f[0].Column != 21 {
		t.Errorf("line %d, column %d", f[0].Line, f[0].Column)
	}
}

// faults: F009 F010 F029
func TestF009NothingIsNeverAnEmptyList(t *testing.T) {
	for _, c := range []converter.Converter[rule.Flow]{converter.JSON[rule.Flow](), converter.JSON[rule.Flow](golang), converter.YAML[rule.Flow](),
		converter.YAML[rule.Flow](golang), converter.JSON[rule.Flow](converter.AllowQuoted())} {
		for _, doc := range []string{"", " ", "  \n", "\t", "null", " null ", `""`, `"  "`} {
			if f := refused(t, c, doc); !errors.Is(f, converter.ErrEmpty) {
				t.Errorf("Decode(%q): %v does not wrap ErrEmpty", doc, f)
			}
		}
		if f := refused(t, c, "{}"); errors.Is(f, converter.ErrEmpty) {
			t.Errorf("{} is no empty document: %v", f)
		}
		for _, doc := range []string{"[]", " [ ] \n", "\ufeff[]"} {
			if d := must(t, c, doc); d.Rules == nil || len(d.Rules) != 0 {
				t.Errorf("Decode(%q) = %+v", doc, d)
			}
		}
		rejected(t, c, "[{}]", rule.ErrInvalid, "missing required resource", "/0: missing required")
	}
	for _, doc := range []string{"# only a comment", "---", "--- # nothing\n", "~"} {
		if f := refused(t, converter.YAML[rule.Flow](), doc); !errors.Is(f, converter.ErrEmpty) {
			t.Errorf("YAML %q: %v does not wrap ErrEmpty", doc, f)
		}
	}
}

// faults: F024
func TestF024NullElementIsNamed(t *testing.T) {
	d := rejected(t, converter.JSON[rule.Flow](), `[{"resource":"a","count":1},null,{"resource":"b","count":2}]`, converter.ErrDecode, "/1: ", "found null")
	if len(d.Rules) != 2 || !slices.Equal(d.Indexes, []int{0, 2}) || d.Rejected[0].Index != 1 || d.Rejected[0].Resource != "" {
		t.Errorf("%+v", d)
	}
	rejected(t, converter.JSON[rule.Flow](), `[null]`, converter.ErrDecode)
	rejected(t, converter.JSON[rule.Flow](), `[[],1,"a",true]`, converter.ErrDecode, "/0: ", "/1: ", "/2: ", "/3: ")
}

// faults: F021 F022 F023
func TestF023EveryBadRuleIsNamed(t *testing.T) {
	d := rejected(t, converter.JSON[rule.Flow](golang), `[{"resource":"a","threshold":9},{"resource":"","threshold":1},
		{"resource":"b","threshold":-1},{"resource":"c","threshold":1,"controlBehavior":9}]`, rule.ErrInvalid,
		"/3/controlBehavior: expected 0 (reject) or 1 (throttling), found 9")
	// An empty resource and a negative threshold are the validator's.
	if !slices.Equal(d.Indexes, []int{0, 1, 2}) || len(d.Rejected) != 1 || d.Rejected[0].Line != 2 {
		t.Errorf("%+v", d)
	}
	rejected(t, converter.JSON[rule.Flow](), `[{"resource":"a","count":1,"grade":2},{"resource":"a","count":1,"strategy":3}]`, rule.ErrInvalid,
		"0 (threads) or 1 (QPS)", "0 (direct), 1 (relate) or 2 (chain)")
}

// faults: F027
func TestF027FaultsHaveAPlace(t *testing.T) {
	d := rejected(t, converter.JSON[rule.Flow](), "[\n  {\"resource\": \"名/~\", \"a/b~c\": 1, \"count\": \"5\"},\n  {\"count\": true, \"limitApp\": 5, \"clusterConfig\": [], \"clusterMode\": 0, \"grade\": \"1\"}]", converter.ErrDecode)
	for i, want := range []converter.Fault{
		{Index: 0, Field: "count", Resource: "名/~", Position: converter.Position{Line: 2, Column: 44, Pointer: "/0/count"}, Expected: "a number", Found: `the string "5"`},
		{Index: 1, Field: "resource", Position: converter.Position{Line: 3, Column: 3, Pointer: "/1"}, Reason: "missing required resource"},
		{Index: 1, Field: "count", Position: converter.Position{Line: 3, Column: 13, Pointer: "/1/count"}, Expected: "a number", Found: "true"},
		{Index: 1, Field: "limitApp", Position: converter.Position{Line: 3, Column: 31, Pointer: "/1/limitApp"}, Expected: "a string", Found: "5"},
		{Index: 1, Field: "clusterConfig", Position: converter.Position{Line: 3, Column: 51, Pointer: "/1/clusterConfig"}, Expected: "an object", Found: "a list"},
		{Index: 1, Field: "clusterMode", Position: converter.Position{Line: 3, Column: 70, Pointer: "/1/clusterMode"}, Expected: "true or false", Found: "0"},
		{Index: 1, Field: "grade", Position: converter.Position{Line: 3, Column: 82, Pointer: "/1/grade"}, Expected: "a number: 0 (threads) or 1 (QPS)", Found: `the string "1"`},
	} {
		if i >= len(d.Rejected) {
			t.Fatalf("fault %d is missing", i)
		}
		got := *d.Rejected[i]
		got.Err = nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("fault %d:\n got %+v\nwant %+v", i, got, want)
		}
	}
}

// faults: F040
func TestF040ReferencesAreRefused(t *testing.T) {
	c := converter.JSON[rule.Flow]()
	for _, doc := range []string{
		`[{"resource":"a","count":1,"clusterConfig":{"$ref":"$[0].clusterConfig"}}]`,
		`[{"resource":"a","count":1,"other":[{"$ref":"$"}]}]`,
		`[{"$ref":"$[0]"}]`,
	} {
		rejected(t, c, doc, converter.ErrDecode, "fastjson reference")
	}
	text, err := c.Encode(slices.Repeat(must(t, c, javaConsoleFlow).Rules, 2))
	if err != nil || strings.Contains(string(text), "$ref") || len(must(t, c, string(text)).Rules) != 2 {
		t.Errorf("%s, %v", text, err)
	}
}

// faults: F045 F046
func TestF045ItemClassTypes(t *testing.T) {
	good := map[string][]string{
		"int": {"0", "-2147483648", "2147483647"}, "java.lang.Integer": {"7"}, "long": {"9223372036854775807"}, "java.lang.Long": {"-1"},
		"short": {"32767"}, "java.lang.Short": {"1"}, "byte": {"-128"}, "java.lang.Byte": {"1"}, "double": {"0.5", "1e3"}, "java.lang.Double": {"1"},
		"float": {"1.5"}, "java.lang.Float": {"2"}, "boolean": {"true", "False"}, "java.lang.Boolean": {"false"}, "char": {"x", "名"},
		"java.lang.Character": {"y"}, "String": {"", "any"}, "java.lang.String": {"5"}, "": {"any"},
	}
	bad := map[string][]string{
		"int": {"", "x", "1.0", "2147483648"}, "long": {"9223372036854775808"}, "short": {"32768"}, "byte": {"128"}, "double": {"x", "NaN", "0x1p1", "1_0", ""},
		"float": {"1e99"}, "boolean": {"1", "yes"}, "char": {"", "ab", "😀"}, "Int": {"1"}, "java.util.Date": {"1"}, "java.lang.int": {"1"},
	}
	j, g := converter.JSON[rule.ParamFlow](), converter.JSON[rule.ParamFlow](golang)
	const doc = `[{"resource":"a","count":1,"paramIdx":0,"paramFlowItemList":[{"object":%q,"classType":%q,"count":3}]}]`
	for class, objects := range good {
		for _, object := range objects {
			r := one(t, j, fmt.Sprintf(doc, object, class))
			text, err := g.Encode([]rule.ParamFlow{r})
			if err != nil {
				t.Fatal(err)
			}
			back := one(t, g, string(text))
			if class == "" {
				r.Items[0].ClassType = "String"
			}
			if class == "boolean" && object == "False" {
				back.Items[0].Object = object
			}
			if !reflect.DeepEqual(back.Items, r.Items) {
				t.Errorf("%s %q came back from %s as %+v", class, object, text, back.Items)
			}
		}
	}
	for class, objects := range bad {
		for _, object := range objects {
			rejected(t, j, fmt.Sprintf(doc, object, class), rule.ErrInvalid, "/0/paramFlowItemList/0")
		}
	}
	r := one(t, g, `[{"resource":"a","threshold":1,"specificItems":[{"valKind":0,"valStr":"9","threshold":1},{"valKind":0,"valStr":"9","classType":"long","threshold":1},
		{"valKind":0,"valStr":"3000000000","threshold":1},{"valKind":1,"valStr":"9","threshold":1},{"valKind":2,"valStr":"1","threshold":1},{"valKind":3,"valStr":"0.5","threshold":1}]}]`)
	want := []rule.ParamFlowItem{{Object: "9", ClassType: "int", Count: 1}, {Object: "9", ClassType: "long", Count: 1}, {Object: "3000000000", ClassType: "long", Count: 1},
		{Object: "9", ClassType: "String", Count: 1}, {Object: "true", ClassType: "boolean", Count: 1}, {Object: "0.5", ClassType: "double", Count: 1}}
	if !reflect.DeepEqual(r.Items, want) {
		t.Errorf("got %+v", r.Items)
	}
	rejected(t, g, `[{"resource":"a","threshold":1,"specificItems":[{"valKind":1,"valStr":"9","classType":"long","threshold":1}]}]`, rule.ErrInvalid, "differ")
}

// faults: F050
func TestF050MissingRequiredIsNeverZero(t *testing.T) {
	for doc, want := range map[string]string{
		`[{"count":1}]`:                   "missing required resource",
		`[{"resource":"a"}]`:              "missing required count",
		`[{"resource":"a","count":null}]`: "missing required count (it is null)",
		`[{"resource":null,"count":1}]`:   "missing required resource (it is null)",
	} {
		rejected(t, converter.JSON[rule.Flow](), doc, rule.ErrInvalid, want)
		rejected(t, converter.JSON[rule.Degrade](), doc, rule.ErrInvalid, want)
		rejected(t, converter.JSON[rule.ParamFlow](), doc, rule.ErrInvalid, want, "missing required paramIdx")
	}
	if r := one(t, converter.JSON[rule.ParamFlow](), `[{"resource":"a","count":1,"paramKey":"uid"}]`); r.ParamKey != "uid" {
		t.Errorf("%+v", r)
	}
	rejected(t, converter.JSON[rule.Isolation](), `[{"resource":"a"}]`, rule.ErrInvalid, "missing required threshold")
	rejected(t, converter.JSON[rule.Isolation](golang), `[{"resource":"a","threshold":-1}]`, rule.ErrInvalid, "0 to 4294967295")
	rejected(t, converter.JSON[rule.Authority](), `[{"resource":"a"}]`, rule.ErrInvalid, "missing required limitApp")
}

// faults: F051
func TestF051IntegralFloatsAreIntegers(t *testing.T) {
	c := converter.JSON[rule.Flow]()
	for text, want := range map[string]int64{"500.0": 500, "1e1": 10, "1.0E3": 1000, "5000e-1": 500, "0e99999999999": 0, "0.0": 0, "-0": 0, "2147483647": 2147483647, "0.5e1": 5, "1E0": 1, "2147483647.000": 2147483647} {
		if r := one(t, c, `[{"resource":"a","count":1,"maxQueueingTimeMs":`+text+`}]`); r.MaxQueueingTimeMs != want {
			t.Errorf("%s = %d", text, r.MaxQueueingTimeMs)
		}
		if r := one(t, c, `[{"resource":"a","count":1,"id":`+text+`}]`); r.ID != fmt.Sprint(want) {
			t.Errorf("id %s = %s", text, r.ID)
		}
	}
	for _, text := range []string{"500.5", "1e-1", "0.1", "1.00000000000000000001"} {
		rejected(t, c, `[{"resource":"a","count":1,"maxQueueingTimeMs":`+text+`}]`, converter.ErrDecode, "expected a whole number, found "+text[:3])
	}
	for _, text := range []string{"2147483648", "-2147483649", "1e10", "1e99999999999999999999", "123456789012345678901234567890"} {
		rejected(t, c, `[{"resource":"a","count":1,"maxQueueingTimeMs":`+text+`}]`, rule.ErrInvalid, "from -2147483648 to 2147483647")
	}
	for text, want := range map[string]float64{"1.0E10": 1e10, "0.1": 0.1, "1.0E-7": 1e-7, "-0.0": 0, "123456789.123": 123456789.123, "0.30000000000000004": 0.30000000000000004, "9007199254740993": 9007199254740992, "999999999999999": 999999999999999, "5e-324": 5e-324} {
		if r := one(t, c, `[{"resource":"a","count":`+text+`}]`); r.Count != want {
			t.Errorf("count %s = %v", text, r.Count)
		}
	}
}

// faults: F035
func TestF035NumberAndStringIDs(t *testing.T) {
	j, g := converter.JSON[rule.Flow](), converter.JSON[rule.Flow](golang)
	for text, want := range map[string]struct{ id, java string }{
		`11`:                    {"11", `"id":11,`},
		`"11"`:                  {"11", `"id":11,`},
		`9223372036854775807`:   {"9223372036854775807", `"id":9223372036854775807,`},
		`9223372036854775808`:   {"9223372036854775808", `"textId":"9223372036854775808",`},
		`-9223372036854775808`:  {"-9223372036854775808", `"id":-9223372036854775808,`},
		`-5`:                    {"-5", `"id":-5,`},
		`"007"`:                 {"007", `"textId":"007",`},
		`"-0"`:                  {"-0", `"textId":"-0",`},
		`"flow-1"`:              {"flow-1", `"textId":"flow-1",`},
		`123456789012345678901`: {"123456789012345678901", `"textId":"123456789012345678901",`},
		`null`:                  {"", ``},
		`""`:                    {"", ``},
	} {
		for c, doc := range map[converter.Converter[rule.Flow]]string{j: `[{"resource":"a","count":1,"id":` + text + `}]`, g: `[{"resource":"a","threshold":1,"id":` + text + `}]`} {
			r := one(t, c, doc)
			if r.ID != want.id {
				t.Errorf("id %s = %q", text, r.ID)
			}
			out, err := c.Encode([]rule.Flow{r})
			if err != nil {
				t.Fatal(err)
			}
			member := want.java
			if c == g && want.id != "" {
				member = fmt.Sprintf(`"id":%q,`, want.id)
			}
			if !strings.Contains(string(out), member) || want.id == "" && strings.Contains(string(out), `d":"`+want.id+`",`) {
				t.Errorf("id %s was written as %s", text, out)
			}
			if back := one(t, c, string(out)); back.ID != want.id {
				t.Errorf("id %s came back as %q", text, back.ID)
			}
		}
	}
	for _, text := range []string{"1.5", "true", "{}", "1e99"} {
		rejected(t, j, `[{"resource":"a","count":1,"id":`+text+`}]`, converter.ErrDecode, "a whole number or a string")
	}
	if r := one(t, j, `[{"textId":"x","resource":"a","count":1,"id":4}]`); r.ID != "4" {
		t.Errorf("id beside textId: %q", r.ID)
	}
}

// faults: F052
func TestF052RepeatedNamesAreRefused(t *testing.T) {
	c := converter.JSON[rule.Flow]()
	many := `[{"resource":"a","count":1`
	for i := range 40 {
		many += fmt.Sprintf(`,"x%d":1`, i)
	}
	for _, doc := range []string{
		`[{"resource":"a","count":1,"count":2}]`,
		`[{"resource":"a","count":1,"\u0063ount":2}]`,
		`[{"resource":"a","count":null,"count":2}]`,
		`[{"resource":"a","count":1,"x":1,"x":1}]`,
		`[{"resource":"a","count":1,"x":{"y":1,"y":2}}]`,
		`[{"resource":"a","count":1,"app":"1","app":"2"}]`,
		`[{"resource":"a","count":1,"clusterConfig":{"flowId":1,"flowId":2}}]`,
		many + `,"x39":1}]`,
		many + `,"x1":1}]`,
	} {
		rejected(t, c, doc, converter.ErrDecode, "twice")
	}
	must(t, c, many+`}]`)
	rejected(t, converter.YAML[rule.Flow](), "- resource: a\n  count: 1\n  count: 2\n", converter.ErrDecode, "line 3, column 3", "twice")
}

// faults: F061
func TestF061DoublyEncodedDocument(t *testing.T) {
	const doc = `"[{\"resource\":\"a\",\"count\":7}]"`
	refused(t, converter.JSON[rule.Flow](), doc, "doubly encoded")
	c := converter.JSON[rule.Flow](converter.AllowQuoted())
	if r := one(t, c, doc); r.Count != 7 {
		t.Errorf("%+v", r)
	}
	one(t, c, `[{"resource":"a","count":7}]`)
	refused(t, c, `"\"[]\""`, "doubly encoded")
	refused(t, c, `"<html>"`, "HTML")
	if d := must(t, c, `"[]"`); len(d.Rules) != 0 {
		t.Errorf("%+v", d)
	}
	one(t, converter.YAML[rule.Flow](converter.AllowQuoted()), "|\n  - resource: a\n    count: 7\n")
}

// faults: F048 F049
func TestF049UnknownTypeFailsFast(t *testing.T) {
	if err := converter.Supports[rule.Flow](); err != nil {
		t.Error(err)
	}
	type mine struct{}
	err := converter.Supports[mine]()
	if !errors.Is(err, rule.ErrUnsupported) || !strings.Contains(err.Error(), "converter_test.mine") {
		t.Errorf("Supports: %v", err)
	}
	c := converter.JSON[mine]()
	if _, err := c.Decode([]byte("[]")); !errors.Is(err, rule.ErrUnsupported) {
		t.Errorf("Decode: %v", err)
	}
	if _, err := c.Encode(nil); !errors.Is(err, rule.ErrUnsupported) {
		t.Errorf("Encode: %v", err)
	}
	for _, opt := range []converter.Option{converter.Dialect("go"), converter.UnknownMembers("yes")} {
		if _, err := converter.YAML[rule.Flow](nil, opt).Decode([]byte("[]")); !errors.Is(err, rule.ErrUnsupported) {
			t.Errorf("a bad option: %v", err)
		}
	}
}

// faults: F056
func TestF056LargeDocumentDecodesWhole(t *testing.T) {
	// Above Java's buffer of 4 MB.
	var b bytes.Buffer
	b.WriteByte('[')
	const n = 30_000
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"count":%d.0,"resource":"/a/%d","x":%q}`, i, i, strings.Repeat("y", 100))
	}
	b.WriteByte(']')
	d := must(t, converter.JSON[rule.Flow](), b.String())
	if len(d.Rules) != n || d.Rules[n-1].Count != n-1 || d.Report.Unknown["x"] != n {
		t.Errorf("%d rules, report %+v", len(d.Rules), d.Report)
	}
}

func TestFaultsAreBounded(t *testing.T) {
	f := refused(t, converter.JSON[rule.Flow](), "["+strings.Repeat("{},", 20_000)+"{}]")
	if last := f[len(f)-1]; len(f) > 10_001 || last.Index != -1 || !strings.Contains(last.Reason, "not read") {
		t.Errorf("%d faults, the last %v", len(f), last)
	}
}

func TestPositionsCostOnePass(t *testing.T) {
	// Quadratic positions would make this take minutes.
	doc := "[" + strings.Repeat(`{"resource":"`+strings.Repeat("名", 100)+`"},`, 9_000) + `{"resource":"z"}]`
	d := rejected(t, converter.JSON[rule.Flow](), doc, rule.ErrInvalid)
	if len(d.Rejected) != 9_001 {
		t.Errorf("%d faults", len(d.Rejected))
	}
	for i := range 9_001 {
		d.Locate(i, "resource")
	}
}

func TestNumbersAreNotTakenFromStrings(t *testing.T) {
	rejected(t, converter.JSON[rule.Flow](), `[{"resource":"r","count":"5","grade":"1"}]`, converter.ErrDecode, `found the string "5"`)
	rejected(t, converter.JSON[rule.Flow](), `[{"resource":5,"count":1,"clusterMode":"true"}]`, converter.ErrDecode, "expected a string, found 5", "true or false")
}

func TestJavaOnlyMembersSurviveInTheGolangDialect(t *testing.T) {
	g := converter.JSON[rule.Flow](golang)
	doc := `[{"clusterConfig":{"acquireRefuseStrategy":0,"clientOfflineTime":2000,"fallbackToLocalWhenFail":true,"flowId":9,"resourceTimeout":2000,` +
		`"resourceTimeoutStrategy":0,"sampleCount":10,"strategy":0,"thresholdType":0,"windowIntervalMs":1000},"clusterMode":true,"controlBehavior":0,` +
		`"limitApp":"app-b","maxQueueingTimeMs":0,"regex":true,"relationStrategy":0,"resource":"a","statIntervalInMs":0,"threshold":1,` +
		`"tokenCalculateStrategy":0,"warmUpColdFactor":0,"warmUpPeriodSec":0}]`
	r := one(t, g, doc)
	if !r.ClusterMode || *r.ClusterConfig.FlowID != 9 || r.LimitApp != "app-b" || !r.Regex || r.Grade != rule.GradeQPS {
		t.Errorf("%+v", r)
	}
	if text, err := g.Encode([]rule.Flow{r}); err != nil || string(text) != doc {
		t.Errorf("got  %s, %v\nwant %s", text, err, doc)
	}
}

func TestLocate(t *testing.T) {
	d := must(t, converter.JSON[rule.Flow](golang), "[\n {\"resource\":\"名\", \"threshold\": -1, \"clusterConfig\": {\"flowId\": 3}},\n"+
		" {\"threshold\":2,\"resource\":\"\",\"relationStrategy\":1}]")
	at := func(line, column int, pointer string) converter.Position {
		return converter.Position{Line: line, Column: column, Pointer: pointer}
	}
	for _, c := range []struct {
		index int
		field string
		want  converter.Position
	}{
		{0, "", at(2, 2, "/0")},
		{1, "resource", at(3, 28, "/1/resource")},
		{0, "count", at(2, 32, "/0/threshold")}, // named as Java names it
		{1, "strategy", at(3, 50, "/1/relationStrategy")},
		{0, "clusterConfig.flowId", at(2, 64, "/0/clusterConfig/flowId")},
		{0, "clusterConfig/flowId", at(2, 64, "/0/clusterConfig/flowId")},
		{0, "clusterConfig.absent", at(2, 53, "/0/clusterConfig")},
		{0, "limitApp", at(2, 2, "/0")},
		{7, "count", converter.Position{}},
		{-1, "count", converter.Position{}},
	} {
		if got := d.Locate(c.index, c.field); got != c.want {
			t.Errorf("Locate(%d, %q) = %+v, want %+v", c.index, c.field, got, c.want)
		}
	}
	p := must(t, converter.JSON[rule.ParamFlow](), fmt.Sprintf(consoleHotspot, ""))
	if got := p.Locate(0, "paramFlowItemList[1].count"); got.Pointer != "/0/rule/paramFlowItemList/1/count" {
		t.Errorf("wrapped: %+v", got)
	}
	g := must(t, converter.JSON[rule.Degrade](golang), `[{"resource":"a","strategy":1,"maxAllowedRtMs":0,"threshold":2},{"resource":"a","maxAllowedRtMs":0,"threshold":2}]`)
	for _, c := range []struct {
		index       int
		field, want string
	}{{0, "count", "/0/threshold"}, {1, "count", "/1/maxAllowedRtMs"}, {1, "slowRatioThreshold", "/1/threshold"}, {0, "grade", "/0/strategy"}} {
		if got := g.Locate(c.index, c.field); got.Pointer != c.want {
			t.Errorf("Locate(%d, %q) = %+v, want %s", c.index, c.field, got, c.want)
		}
	}
	s := must(t, converter.JSON[rule.System](golang, converter.AllowSingle()), `{"metricType":3,"triggerCount":1}`)
	if got := s.Locate(0, "qps"); got != at(1, 32, "/triggerCount") {
		t.Errorf("single: %+v", got)
	}
	y := must(t, converter.YAML[rule.Flow](), "# rules\n- resource: a\n  count: 5\n- {resource: b, count: 6}\n")
	if got := y.Locate(0, "count"); got != at(3, 10, "/0/count") {
		t.Errorf("YAML: %+v", got)
	}
	if got := y.Locate(1, "count"); got != at(4, 24, "/1/count") {
		t.Errorf("YAML: %+v", got)
	}

	data := []byte(`[{"resource":"a","count":5}]`)
	changed, err := converter.JSON[rule.Flow]().Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	clear(data)
	if got := changed.Locate(0, "count"); got.Line != 0 {
		t.Errorf("a text that was changed has a place: %+v", got)
	}
}

// corpus gives the JSON documents of the Java sample file, each with the type that wrote it.
func corpus(t testing.TB) map[string]string {
	f, err := os.Open("testdata/java-json.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	docs := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		name, doc, ok := strings.Cut(s.Text(), " ")
		if ok && strings.HasPrefix(doc, "{") && !strings.Contains(doc, "}{") {
			docs[name] = doc
		}
	}
	return docs
}

// faults: F038 F042
func TestF038JavaSamplesComeBackAsJavaWroteThem(t *testing.T) {
	docs := corpus(t)
	check := func(name string, encode func(doc string) (string, error), want string) {
		t.Helper()
		got, err := encode(docs[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		// Java writes doubles with a point; as numbers they are the same.
		want = strings.NewReplacer("0.0,", "0,", "1.0,", "1,", "1.0}", "1}").Replace(docs[want])
		if got != "["+want+"]" {
			t.Errorf("%s:\n got %s\nwant [%s]", name, got, want)
		}
	}
	check("FlowRule", roundTrip[rule.Flow], "FlowRule")
	check("FlowRule/cluster", roundTrip[rule.Flow], "FlowRule/cluster")
	check("SystemRule", roundTrip[rule.System], "SystemRule")
	check("AuthorityRule", roundTrip[rule.Authority], "AuthorityRule")
	for name := range docs {
		switch strings.SplitN(name, "Rule", 2)[0] {
		case "Flow":
			_, err := roundTrip[rule.Flow](docs[name])
			fatal(t, name, err)
		case "Degrade":
			_, err := roundTrip[rule.Degrade](docs[name])
			fatal(t, name, err)
		case "System":
			_, err := roundTrip[rule.System](docs[name])
			fatal(t, name, err)
		case "Authority":
			_, err := roundTrip[rule.Authority](docs[name])
			fatal(t, name, err)
		case "ParamFlow":
			_, err := roundTrip[rule.ParamFlow](docs[name])
			fatal(t, name, err)
		}
	}
}

func fatal(t *testing.T, name string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// roundTrip decodes a rule and encodes it, and fails where that changes it.
func roundTrip[T any](doc string) (string, error) {
	c := converter.JSON[T]()
	d, err := c.Decode([]byte("[" + doc + "]"))
	if err != nil {
		return "", err
	}
	if len(d.Rejected) > 0 {
		return "", d.Rejected
	}
	text, err := c.Encode(d.Rules)
	if err != nil {
		return "", err
	}
	back, err := c.Decode(text)
	if err != nil {
		return "", err
	}
	if !reflect.DeepEqual(back.Rules, d.Rules) {
		return "", fmt.Errorf("%+v came back as %+v", d.Rules, back.Rules)
	}
	return string(text), nil
}
