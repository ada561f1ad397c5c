package sentinel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/alibaba/sentinel-golang/core/circuitbreaker"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/core/hotspot"
	"github.com/alibaba/sentinel-golang/core/isolation"
	"github.com/alibaba/sentinel-golang/core/system"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/file"
)

// inCore is every rule that the core enforces, one line each, sorted.
func inCore() string {
	var lines []string
	for _, r := range flow.GetRules() {
		lines = append(lines, fmt.Sprintf("flow %s id=%s %s/%s %g warm=%d queue=%d", r.Resource, r.ID, r.TokenCalculateStrategy, r.ControlBehavior, r.Threshold, r.WarmUpPeriodSec, r.MaxQueueingTimeMs))
	}
	for _, r := range isolation.GetRules() {
		lines = append(lines, fmt.Sprintf("isolation %s %d", r.Resource, r.Threshold))
	}
	for _, r := range circuitbreaker.GetRules() {
		lines = append(lines, fmt.Sprintf("breaker %s %s %g rt=%d retry=%d min=%d interval=%d", r.Resource, r.Strategy, r.Threshold, r.MaxAllowedRtMs, r.RetryTimeoutMs, r.MinRequestAmount, r.StatIntervalMs))
	}
	for _, r := range system.GetRules() {
		lines = append(lines, fmt.Sprintf("system %s %g", r.MetricType, r.TriggerCount))
	}
	for _, r := range hotspot.GetRules() {
		var items []string
		for k, n := range r.SpecificItems {
			items = append(items, fmt.Sprintf("%T %v=%d", k, k, n))
		}
		slices.Sort(items)
		lines = append(lines, fmt.Sprintf("hotspot %s %s index=%d %d in %d s %v", r.Resource, r.MetricType, r.ParamIndex, r.Threshold, r.DurationInSec, items))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func utf16le(text string) string {
	b := []byte{0xFF, 0xFE}
	for _, u := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return string(b)
}

// Section 2a of the list of faults: each payload through a rule file, the converter, the guard and the property into the
// core. S is the good document that was in force before.
//
// faults: F009 F022 F023 F024 F026 F028 F032 F034 F036 F037 F039 F043 F044 F047 F052 F054 F055 F060 F061
func TestPayloadsFromAFileToTheCore(t *testing.T) {
	const (
		consoleRule = `[{"id":11,"app":"shop","ip":"10.0.0.7","port":8719,"gmtCreate":1700000000000,"gmtModified":1700000005000,"resource":"/order/create","limitApp":"default","grade":1,"count":50.0,"strategy":0,"refResource":null,"controlBehavior":0,"warmUpPeriodSec":null,"maxQueueingTimeMs":null,"clusterMode":false,"clusterConfig":{"flowId":null,"thresholdType":0,"fallbackToLocalWhenFail":true,"strategy":0,"sampleCount":10,"windowIntervalMs":1000}}]`
		wrapped     = `[{"app":"shop","id":3,"gmtCreate":1700000000000,"rule":{"resource":"/user/{id}","grade":1,"paramIdx":0,"count":3.0,"durationInSec":5,"burstCount":0,"controlBehavior":0,"maxQueueingTimeMs":0,"limitApp":"default","clusterMode":false,"paramFlowItemList":[{"object":"42","classType":"int","count":100},{"object":"vip","classType":"java.lang.String","count":7}%s]}}]`
		kept        = "" // nothing but S
	)
	javaS, goS := `[{"resource":"/seed","count":5}]`, `[{"resource":"/seed","threshold":5}]`
	clusterOn := strings.Replace(consoleRule, `"clusterMode":false`, `"clusterMode":true`, 1)
	java, golang := Dialect(converter.Java), Dialect(converter.Golang)
	flowPart := func(src datasource.Source, opts ...Option) Part { return Flow(src, opts...) }
	type payload struct {
		name  string
		data  string
		part  func(datasource.Source, ...Option) Part
		opts  []Option
		seed  string
		core  string           // what the core has afterwards; kept = refused
		cause datasource.Cause // of the refusal
		say   []string         // what the refusal names
	}
	var all []payload
	both := func(name, javaData, goData, core string, cause datasource.Cause, say ...string) {
		all = append(all,
			payload{name: name + ", java", data: javaData, part: flowPart, opts: []Option{java}, seed: javaS, core: core, cause: cause, say: say},
			payload{name: name + ", golang", data: goData, part: flowPart, opts: []Option{golang}, seed: goS, core: strings.ReplaceAll(core, "warm=10 queue=500", "warm=0 queue=0"), cause: cause, say: say})
	}
	same := func(name, data string, cause datasource.Cause, say ...string) {
		both(name, data, data, kept, cause, say...)
	}
	one := func(p payload) { all = append(all, p) }
	flowIn := func(resource string, n int) string {
		return fmt.Sprintf("flow %s id= Direct/Reject %d warm=10 queue=500", resource, n)
	}

	// 1. Java console rule.
	one(payload{name: "1 console rule, java", data: consoleRule, part: flowPart, seed: javaS, core: "flow /order/create id=11 Direct/Reject 50 warm=10 queue=500"})
	one(payload{name: "1 console rule, golang", data: consoleRule, part: flowPart, opts: []Option{golang}, seed: goS, cause: datasource.CauseDecode, say: []string{"id is a number", "missing required threshold"}})
	one(payload{name: "1 cluster mode", data: clusterOn, part: flowPart, seed: javaS, cause: datasource.CauseInvalid, say: []string{"cluster"}})
	one(payload{name: "1 cluster mode, local fallback", data: clusterOn, part: flowPart, opts: []Option{LocalFallback()}, seed: javaS, core: "flow /order/create id=11 Direct/Reject 50 warm=10 queue=500"})
	// 2. Control behaviours, and a limit of threads.
	var behaviours []string
	for i := range 4 {
		behaviours = append(behaviours, fmt.Sprintf(`{"resource":"r%d","grade":1,"count":10,"controlBehavior":%d}`, i, i))
	}
	one(payload{name: "2 control behaviours", data: "[" + strings.Join(behaviours, ",") + "]", part: flowPart, seed: javaS, core: `flow r0 id= Direct/Reject 10 warm=10 queue=500
flow r1 id= WarmUp/Reject 10 warm=10 queue=500
flow r2 id= Direct/Throttling 10 warm=10 queue=500
flow r3 id= WarmUp/Throttling 10 warm=10 queue=500`})
	one(payload{name: "2 threads", data: `[{"resource":"a","grade":0,"count":10}]`, part: flowPart, seed: javaS, core: "isolation a 10"})
	// 3. Hot parameters in the console's wrapper.
	param := func(src datasource.Source, opts ...Option) Part { return ParamFlow(src, opts...) }
	paramS := `[{"resource":"/seed","paramIdx":0,"count":5}]`
	one(payload{name: "3 hotspot, bad item", data: fmt.Sprintf(wrapped, `,{"object":"x9","classType":"long","count":1}`), part: param, seed: paramS, cause: datasource.CauseInvalid, say: []string{"/0/rule/paramFlowItemList/2", "x9", "long"}})
	one(payload{name: "3 hotspot", data: fmt.Sprintf(wrapped, ""), part: param, seed: paramS, core: "hotspot /user/{id} QPS index=0 3 in 5 s [int 42=100 string vip=7]"})
	one(payload{name: "3 hotspot, no wrapper", data: `[{"resource":"/user/{id}","paramIdx":0,"count":3.0,"durationInSec":5,"paramFlowItemList":[{"object":"42","classType":"int","count":100},{"object":"vip","classType":"java.lang.String","count":7}]}]`, part: param, seed: paramS, core: "hotspot /user/{id} QPS index=0 3 in 5 s [int 42=100 string vip=7]"})
	// 4. Circuit breakers.
	degrade := func(src datasource.Source, opts ...Option) Part { return Degrade(src, opts...) }
	degradeS := `[{"resource":"/seed","grade":2,"count":5,"timeWindow":1}]`
	stock := func(fields string) string {
		return `[{"resource":"stock","timeWindow":10,"minRequestAmount":5,"statIntervalMs":1000,` + fields + `}]`
	}
	one(payload{name: "4 slow calls", data: stock(`"grade":0,"count":200`), part: degrade, seed: degradeS, core: "breaker stock SlowRequestRatio 1 rt=200 retry=10000 min=5 interval=1000"})
	one(payload{name: "4 slow calls, ratio", data: stock(`"grade":0,"count":200,"slowRatioThreshold":0.4`), part: degrade, seed: degradeS, core: "breaker stock SlowRequestRatio 0.4 rt=200 retry=10000 min=5 interval=1000"})
	one(payload{name: "4 error ratio", data: stock(`"grade":1,"count":0.3`), part: degrade, seed: degradeS, core: "breaker stock ErrorRatio 0.3 rt=0 retry=10000 min=5 interval=1000"})
	one(payload{name: "4 error count", data: stock(`"grade":2,"count":7`), part: degrade, seed: degradeS, core: "breaker stock ErrorCount 7 rt=0 retry=10000 min=5 interval=1000"})
	// 5. System limits.
	systemPart := func(src datasource.Source, opts ...Option) Part { return System(src, opts...) }
	one(payload{name: "5 system", data: `[{"highestSystemLoad":-1,"highestCpuUsage":0.8,"qps":500,"avgRt":-1,"maxThread":0}]`, part: systemPart, seed: `[{"avgRt":5}]`, core: "system concurrency 0\nsystem cpuUsage 0.8\nsystem inboundQPS 500"})
	// 7. Byte order marks.
	both("7 BOM", "\xEF\xBB\xBF"+`[{"resource":"a","count":7}]`, "\xEF\xBB\xBF"+`[{"resource":"a","threshold":7}]`, flowIn("a", 7), "")
	both("7 UTF-16", utf16le(`[{"resource":"a","count":7}]`), utf16le(`[{"resource":"a","threshold":7}]`), flowIn("a", 7), "")
	same("7 a lone BOM", "\xEF\xBB\xBF", datasource.CauseEmpty)
	// 8. One object.
	both("8 one object", `{"resource":"a","count":7}`, `{"resource":"a","threshold":7}`, kept, datasource.CauseDecode, "object", "array")
	one(payload{name: "8 one object, allowed", data: `{"resource":"a","count":7}`, part: flowPart, opts: []Option{Decode(converter.AllowSingle())}, seed: javaS, core: flowIn("a", 7)})
	// 10. Misspelt and unknown members.
	both("10 misspelt", `[{"resource":"a","cuont":100}]`, `[{"resource":"a","treshold":100}]`, kept, datasource.CauseDecode, "missing", "did you mean")
	both("10 unknown", `[{"resource":"a","count":100,"note":"x"}]`, `[{"resource":"a","threshold":100,"note":"x"}]`, flowIn("a", 100), "")
	one(payload{name: "10 unknown, refused", data: `[{"resource":"a","count":100,"note":"x"}]`, part: flowPart, opts: []Option{Decode(converter.UnknownMembers(converter.Refuse))}, seed: javaS, cause: datasource.CauseDecode, say: []string{"note"}})
	// 12. Not rules at all.
	same("12 HTML", `<html><body>Please sign in</body></html>`, datasource.CauseDecode, "HTML")
	same("12 error object", `{"code":403,"message":"forbidden"}`, datasource.CauseDecode)
	same("12 Apollo answer", `{"appId":"x","configurations":{"content":"[]"}}`, datasource.CauseDecode)
	// 13. Emptiness. A missing key is below.
	for _, text := range []string{"", "  \n", "null", `""`} {
		same(fmt.Sprintf("13 %q", text), text, datasource.CauseEmpty)
	}
	same("13 {}", `{}`, datasource.CauseDecode)
	same("13 [null]", `[null]`, datasource.CauseDecode, "/0")
	same("13 [{}]", `[{}]`, datasource.CauseInvalid, "/0", "resource")
	same("13 []", `[]`, datasource.CauseEmptyList)
	// 14. Half bad.
	badJava := `{"resource":"","count":1},{"resource":"b","count":-1},{"resource":"c","count":1,"controlBehavior":9}`
	badGo := strings.ReplaceAll(badJava, `"count"`, `"threshold"`)
	both("14 half bad", `[{"resource":"a","count":9},`+badJava+`]`, `[{"resource":"a","threshold":9},`+badGo+`]`, kept, datasource.CauseInvalid, "/1", "/2", "/3")
	one(payload{name: "14 half bad, skip", data: `[{"resource":"a","count":9},` + badJava + `]`, part: flowPart, opts: []Option{OnInvalid(datasource.SkipRule)}, seed: javaS, core: flowIn("a", 9)})
	one(payload{name: "14 all bad, skip", data: `[` + badJava + `]`, part: flowPart, opts: []Option{OnInvalid(datasource.SkipRule)}, seed: javaS, cause: datasource.CauseInvalid, say: []string{"/0", "/1", "/2"}})

	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "rules.json")
			replace(t, name, p.seed)
			src, err := file.NewSource(name)
			if err != nil {
				t.Fatal(err)
			}
			rules := open(t, p.part(src, p.opts...))
			seeded := inCore()
			before := rules.Status()[0].Sources[0]
			if seeded == "" || before.State != datasource.StateLive {
				t.Fatalf("S is not in force: %s %v", seeded, before.LastError)
			}
			replace(t, name, p.data)
			err = rules.Refresh(t.Context())
			after := rules.Status()[0].Sources[0]
			if p.cause == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				if got := inCore(); got != p.core {
					t.Errorf("the core has\n%s\nwant\n%s", got, p.core)
				}
				return
			}
			if got := inCore(); got != seeded {
				t.Errorf("the core has\n%s\nwant S\n%s", got, seeded)
			}
			if !errors.Is(err, datasource.ErrRefused) || after.Cause != p.cause || after.Refused[p.cause] != 1 {
				t.Errorf("refusal %v, cause %q, counts %v; want %q", err, after.Cause, after.Refused, p.cause)
			}
			for _, text := range p.say {
				if !strings.Contains(fmt.Sprint(err), text) {
					t.Errorf("the refusal does not name %q: %v", text, err)
				}
			}
			if after.Revision != before.Revision || after.Hash != before.Hash || after.Generation != before.Generation {
				t.Errorf("the revision advanced: %+v", after)
			}
		})
	}

	t.Run("13 missing", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "rules.json")
		replace(t, name, javaS)
		src, err := file.NewSource(name)
		if err != nil {
			t.Fatal(err)
		}
		rules := open(t, Flow(src))
		seeded := inCore()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := rules.Refresh(t.Context()); !errors.Is(err, datasource.ErrMissing) {
			t.Errorf("got %v", err)
		}
		if got := inCore(); got != seeded {
			t.Errorf("the core has %s", got)
		}
	})
}

// replace puts a file in place as a careful editor does.
func replace(t *testing.T, name, data string) {
	t.Helper()
	tmp := name + ".tmp"
	if err := os.WriteFile(tmp, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, name); err != nil {
		t.Fatal(err)
	}
}
