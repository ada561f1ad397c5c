package converter_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

// eachField calls try once for every field of the value that v points at, with only that field changed.
func eachField(v reflect.Value, path string, try func(path string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.Elem().Kind() == reflect.Struct {
			eachField(v.Elem(), path, try)
			return
		}
		n := v.Elem().Int()
		v.Elem().SetInt(n + 7)
		try(path)
		v.Elem().SetInt(n)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[rule.Extra]() {
			v.Set(reflect.ValueOf(rule.Extra{{Name: "future", Value: `{"a":[1,2.50,"x: y"]}`}, {Name: "名", Value: `"\n"`}}))
			try(path)
			v.SetZero()
			return
		}
		for i := range v.Len() {
			eachField(v.Index(i), fmt.Sprintf("%s[%d]", path, i), try)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachField(v.Field(i), path+"."+v.Type().Field(i).Name, try)
		}
	case reflect.String:
		old := v.String()
		text := "x <\"名😀\u2028\u0085\x7f\\\t\n# : -y>\ufeff"
		switch {
		case strings.HasSuffix(path, ".ClassType"):
			text = "long"
		case strings.HasSuffix(path, ".Object"):
			text = "43"
		}
		v.SetString(text)
		try(path)
		v.SetString(old)
	case reflect.Bool:
		v.SetBool(!v.Bool())
		try(path)
		v.SetBool(!v.Bool())
	case reflect.Float64:
		old := v.Float()
		v.SetFloat(old + 3)
		try(path)
		v.SetFloat(old)
	case reflect.Int64:
		old := v.Int()
		v.SetInt(old + 7)
		try(path)
		v.SetInt(old)
	case reflect.Int32:
		old := v.Int()
		for n := range int64(4) {
			if v.SetInt(n); n != old {
				try(path)
			}
		}
		v.SetInt(old)
	default:
		panic("a field of kind " + v.Kind().String())
	}
}

// unspeakable are the values that a dialect has no member for, or that do not exist.
func unspeakable(v any, dialect converter.DialectName) bool {
	switch r := v.(type) {
	case rule.Flow:
		return r.Grade > 1 || r.Strategy > 2 || dialect == converter.Golang && (r.Grade == rule.GradeThread || r.Strategy == rule.StrategyChain)
	case rule.Degrade:
		return r.Grade > 2
	case rule.System:
		return r.Strategy != rule.AdaptiveNone && r.Strategy != rule.AdaptiveBBR
	case rule.Authority:
		return r.Strategy > 1
	case rule.ParamFlow:
		return r.Grade > 1 || r.ControlBehavior%2 != 0
	case rule.Isolation:
		return r.MetricType != 0
	}
	return false
}

func keepsEveryField[T any](t *testing.T, sample T) {
	for _, dialect := range []converter.DialectName{converter.Java, converter.Golang} {
		for format, c := range map[string]converter.Converter[T]{
			"JSON": converter.JSON[T](converter.Dialect(dialect)), "YAML": converter.YAML[T](converter.Dialect(dialect)),
		} {
			t.Run(fmt.Sprintf("%T/%s/%s", sample, dialect, format), func(t *testing.T) {
				r, tried := sample, map[string]bool{}
				eachField(reflect.ValueOf(&r).Elem(), "", func(path string) {
					want := r
					if s, ok := any(want).(rule.System); ok && s.Strategy == 0 {
						return // written as none, which it is
					}
					if s, ok := any(&want).(*rule.System); ok && dialect == converter.Golang {
						*s = oneLimit(*s, path)
					}
					text, err := c.Encode([]T{want})
					if unspeakable(want, dialect) {
						if !errors.Is(err, rule.ErrUnsupported) && !errors.Is(err, rule.ErrInvalid) {
							t.Errorf("%s: Encode = %s, %v, want an error", path, text, err)
						}
						return
					}
					tried[path] = true
					if err != nil {
						t.Errorf("%s: Encode: %v", path, err)
						return
					}
					d, err := c.Decode(text)
					if err != nil || len(d.Rejected) > 0 {
						t.Errorf("%s: Decode(%s): %v, %v", path, text, err, d.Rejected)
						return
					}
					if !reflect.DeepEqual(d.Rules, []T{want}) {
						t.Errorf("%s: %+v came back as %+v from\n%s", path, want, d.Rules, text)
					}
					again, err := c.Encode(d.Rules)
					if err != nil || string(again) != string(text) {
						t.Errorf("%s: written again:\n%s\n%s, %v", path, text, again, err)
					}
				})
				if fields := reflect.TypeFor[T]().NumField(); len(tried) < fields-1 {
					t.Errorf("tried %d of %d fields", len(tried), fields)
				}
			})
		}
	}
}

// oneLimit leaves only the limit that path changed: the golang dialect has one for each rule.
func oneLimit(s rule.System, path string) rule.System {
	changed := s
	s.HighestSystemLoad, s.HighestCPUUsage, s.QPS, s.AvgRT, s.MaxThread = -1, -1, -1, -1, -1
	switch path {
	case ".HighestCPUUsage":
		s.HighestCPUUsage = changed.HighestCPUUsage
	case ".QPS":
		s.QPS = changed.QPS
	case ".AvgRT":
		s.AvgRT = changed.AvgRT
	case ".MaxThread":
		s.MaxThread = changed.MaxThread
	default:
		s.HighestSystemLoad = changed.HighestSystemLoad
	}
	return s
}

// faults: F038 F042
func TestF042EveryFieldOfEveryKindSurvives(t *testing.T) {
	id := int64(9)
	keepsEveryField(t, rule.Flow{Resource: "r", LimitApp: "default", Grade: rule.GradeQPS, Count: 5,
		ClusterConfig: &rule.ClusterFlowConfig{FlowID: &id, FallbackToLocalWhenFail: true, SampleCount: 10, WindowIntervalMs: 1000}})
	keepsEveryField(t, rule.Degrade{Resource: "r", LimitApp: "default", Count: 5, TimeWindowMs: 10_000, SlowRatioThreshold: 0.5, StatIntervalMs: 1000})
	keepsEveryField(t, rule.Degrade{Resource: "r", LimitApp: "default", Grade: rule.DegradeErrorCount, Count: 5, TimeWindowMs: 10_000, SlowRatioThreshold: 0.5})
	keepsEveryField(t, rule.System{HighestSystemLoad: 1.5, HighestCPUUsage: 0.5, QPS: 2, AvgRT: 3, MaxThread: 4, Strategy: rule.AdaptiveNone})
	keepsEveryField(t, rule.Authority{Resource: "r", LimitApp: "a,b"})
	keepsEveryField(t, rule.ParamFlow{Resource: "r", LimitApp: "default", Grade: rule.GradeQPS, Count: 5, DurationInSec: 1,
		Items:         []rule.ParamFlowItem{{Object: "42", ClassType: "int", Count: 3}},
		ClusterConfig: &rule.ParamFlowClusterConfig{FlowID: &id, SampleCount: 10, WindowIntervalMs: 1000}})
	keepsEveryField(t, rule.Isolation{Resource: "r", Threshold: 5})
}

// faults: F010 F011
func TestF011NoRulesAreWrittenAsTheEmptyList(t *testing.T) {
	for _, rules := range [][]rule.Flow{nil, {}} {
		for want, c := range map[string]converter.Converter[rule.Flow]{"[]": converter.JSON[rule.Flow](), "[]\n": converter.YAML[rule.Flow]()} {
			text, err := c.Encode(rules)
			if err != nil || string(text) != want {
				t.Errorf("Encode(%v) = %q, %v", rules, text, err)
			}
			if d := must(t, c, string(text)); len(d.Rules) != 0 {
				t.Errorf("back: %+v", d)
			}
		}
	}
}

func TestEncodeRefusesWhatCanNotBeRead(t *testing.T) {
	good := rule.Flow{Resource: "r", LimitApp: "default", Grade: rule.GradeQPS, Count: 5}
	for name, c := range map[string]struct {
		change  func(r *rule.Flow)
		dialect converter.DialectName
		want    error
		field   string
	}{
		"NaN":              {func(r *rule.Flow) { r.Count = math.NaN() }, converter.Java, rule.ErrInvalid, "count"},
		"infinite":         {func(r *rule.Flow) { r.Count = math.Inf(1) }, converter.Golang, rule.ErrInvalid, "threshold"},
		"bytes":            {func(r *rule.Flow) { r.Resource = "\xff" }, converter.Java, rule.ErrInvalid, "resource"},
		"no Java int":      {func(r *rule.Flow) { r.MaxQueueingTimeMs = 1 << 31 }, converter.Java, rule.ErrInvalid, "maxQueueingTimeMs"},
		"negative uint":    {func(r *rule.Flow) { r.StatIntervalInMs = -1 }, converter.Golang, rule.ErrInvalid, "statIntervalInMs"},
		"unknown grade":    {func(r *rule.Flow) { r.Grade = 7 }, converter.Java, rule.ErrInvalid, "grade"},
		"threads":          {func(r *rule.Flow) { r.Grade = rule.GradeThread }, converter.Golang, rule.ErrUnsupported, "grade"},
		"chain":            {func(r *rule.Flow) { r.Strategy = rule.StrategyChain }, converter.Golang, rule.ErrInvalid, "relationStrategy"},
		"warm-up memory":   {func(r *rule.Flow) { r.MemoryAdaptive, r.ControlBehavior = true, 1 }, converter.Golang, rule.ErrUnsupported, "controlBehavior"},
		"Extra is known":   {func(r *rule.Flow) { r.Extra = rule.Extra{{Name: "count", Value: "1"}} }, converter.Java, rule.ErrInvalid, "count"},
		"Extra twice":      {func(r *rule.Flow) { r.Extra = rule.Extra{{Name: "x", Value: "1"}, {Name: "x", Value: "1"}} }, converter.Java, rule.ErrInvalid, "x"},
		"Extra is no JSON": {func(r *rule.Flow) { r.Extra = rule.Extra{{Name: "x", Value: "1,"}} }, converter.Java, rule.ErrInvalid, "x"},
		"Extra is nothing": {func(r *rule.Flow) { r.Extra = rule.Extra{{Name: "x"}} }, converter.Java, rule.ErrInvalid, "x"},
		"nested":           {func(r *rule.Flow) { r.ClusterConfig = &rule.ClusterFlowConfig{SampleCount: 1 << 40} }, converter.Java, rule.ErrInvalid, "clusterConfig.sampleCount"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			c.change(&r)
			for _, conv := range []converter.Converter[rule.Flow]{converter.JSON[rule.Flow](converter.Dialect(c.dialect)), converter.YAML[rule.Flow](converter.Dialect(c.dialect))} {
				text, err := conv.Encode([]rule.Flow{good, r})
				var faults converter.Faults
				if text != nil || !errors.Is(err, c.want) || !errors.As(err, &faults) {
					t.Fatalf("Encode = %s, %v", text, err)
				}
				if f := faults[0]; f.Index != 1 || f.Field != c.field || f.Resource != r.Resource {
					t.Errorf("fault %+v", f)
				}
			}
		})
	}
	if _, err := converter.JSON[rule.ParamFlow](golang).Encode([]rule.ParamFlow{{Resource: "r", Count: 1.5}}); !errors.Is(err, rule.ErrUnsupported) {
		t.Errorf("a fraction in the golang dialect: %v", err)
	}
	if _, err := converter.JSON[rule.ParamFlow](golang).Encode([]rule.ParamFlow{{Resource: "r", Items: []rule.ParamFlowItem{{ClassType: "date"}}}}); !errors.Is(err, rule.ErrInvalid) {
		t.Errorf("an unknown class: %v", err)
	}
}

func TestEncodeWritesPlainJSON(t *testing.T) {
	text, err := converter.JSON[rule.Flow]().Encode([]rule.Flow{{ID: "x", Resource: "/a?b=<c>&d='e'中\u2028\t", Grade: rule.GradeQPS, Count: 1e10, Extra: rule.Extra{{Name: "z", Value: " [1 , 2]"}, {Name: "b", Value: "null"}}}})
	want := `[{"clusterMode":false,"controlBehavior":0,"count":10000000000,"grade":1,"limitApp":"default","maxQueueingTimeMs":0,"regex":false,` +
		`"resource":"/a?b=<c>&d='e'中` + "\u2028" + `\t","strategy":0,"textId":"x","warmUpPeriodSec":0,"z":[1,2],"b":null}]`
	if err != nil || string(text) != want {
		t.Errorf("got  %s, %v\nwant %s", text, err, want)
	}
	for f, want := range map[float64]string{0.1: "0.1", 1e21: "1e+21", 1e-7: "1e-07", 123456789012345678: "123456789012345680", math.Copysign(0, -1): "0", 2.5: "2.5"} {
		text, err := converter.JSON[rule.Flow]().Encode([]rule.Flow{{Count: f}})
		if err != nil || !strings.Contains(string(text), `"count":`+want+`,`) {
			t.Errorf("%v was written as %s, %v", f, text, err)
		}
	}
}

func TestFunc(t *testing.T) {
	type mine struct{ Name string }
	c := converter.Func(func(data []byte) ([]mine, error) { return []mine{{string(data)}}, nil },
		func(rules []mine) ([]byte, error) { return []byte(rules[0].Name), nil })
	if d, err := c.Decode([]byte("x")); err != nil || d.Rules[0].Name != "x" {
		t.Errorf("%+v, %v", d, err)
	}
	if text, err := c.Encode([]mine{{"y"}}); err != nil || string(text) != "y" {
		t.Errorf("%s, %v", text, err)
	}
	broken := errors.New("broken")
	failing := converter.Func(func([]byte) ([]mine, error) { return []mine{{"half"}}, broken }, nil)
	if d, err := failing.Decode(nil); !errors.Is(err, broken) || d.Rules != nil {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := failing.Encode(nil); !errors.Is(err, rule.ErrUnsupported) {
		t.Errorf("Encode: %v", err)
	}
	if _, err := converter.Func[mine](nil, nil).Decode(nil); !errors.Is(err, rule.ErrUnsupported) {
		t.Errorf("Decode: %v", err)
	}
}
