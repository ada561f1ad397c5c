package rule

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample gives a rule with every field set, so that every path of Clone and Equal is walked.
func sample[R any]() R {
	var r R
	fill(reflect.ValueOf(&r).Elem(), new(int64))
	return r
}

func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString(fmt.Sprint("s", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	default:
		v.SetInt(*n)
	}
}

// mutations calls try with the path of each field, after the field was changed; try's result is not kept: the field is
// put back afterwards.
func mutations(path string, v reflect.Value, try func(path string)) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	defer v.Set(old)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			mutations(path+"."+v.Type().Field(i).Name, v.Field(i), try)
		}
		return
	case reflect.Pointer:
		mutations(path, v.Elem(), try)
		v.SetZero()
		try(path + "=nil")
		return
	case reflect.Slice:
		for i := range v.Len() {
			mutations(fmt.Sprintf("%s[%d]", path, i), v.Index(i), try)
		}
		v.Set(v.Slice(0, v.Len()-1))
		try(path + " shorter")
		v.SetZero()
		try(path + "=nil")
		return
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float64:
		v.SetFloat(v.Float() + 0.25)
	default:
		v.SetInt(v.Int() + 1)
	}
	try(path)
}

func everyField[R any](t *testing.T) {
	t.Helper()
	name := reflect.TypeFor[R]().Name()
	tr := TraitsOf[R]()
	t.Run(name, func(t *testing.T) {
		base, changed := sample[R](), sample[R]()
		if !tr.Equal(&base, &changed) {
			t.Fatal("two rules filled in the same way differ")
		}
		fields := 0
		mutations(name, reflect.ValueOf(&changed).Elem(), func(path string) {
			fields++
			if tr.Equal(&base, &changed) || tr.Equal(&changed, &base) {
				t.Errorf("an edit of %s goes unnoticed", path)
			}
			if c := Compare([]R{base}, []R{changed}); c.Empty() {
				t.Errorf("Compare misses an edit of %s", path)
			} else if len(c.Changed) == 1 && DescribeChange(&base, &changed) == Describe(&base) {
				t.Errorf("the diff line for %s names nothing", path)
			}
		})
		if fields < reflect.TypeFor[R]().NumField() {
			t.Errorf("only %d fields were tried", fields)
		}
		if !tr.Equal(&base, &changed) {
			t.Fatal("the test did not put a field back")
		}

		// A clone is equal, and no write to it (at any depth) reaches the original.
		original := sample[R]()
		clone := tr.Clone(&original)
		if !tr.Equal(&original, &clone) || !reflect.DeepEqual(original, clone) {
			t.Fatal("a clone differs from its original")
		}
		reference := sample[R]()
		mutations(name, reflect.ValueOf(&clone).Elem(), func(path string) {
			if !reflect.DeepEqual(original, reference) {
				t.Fatalf("a write to %s of a clone changed the original", path)
			}
		})
	})
}

// faults: F127 F128 F129
func TestEqualMissesAnEditedFieldOrCloneSharesOne(t *testing.T) {
	everyField[Flow](t)
	everyField[Degrade](t)
	everyField[System](t)
	everyField[Authority](t)
	everyField[ParamFlow](t)
	everyField[Isolation](t)
}

// faults: F127
func TestDiffLineDoesNotNameTheEditedField(t *testing.T) {
	// The diff line is made by reflection and so can't forget a field; this pins its names to those of Java documents.
	old, edited := sample[Flow](), sample[Flow]()
	n := 0
	mutations("", reflect.ValueOf(&edited).Elem(), func(path string) {
		if edited.Resource != old.Resource {
			return
		}
		n++
		if line := DescribeChange(&old, &edited); len(line) <= len("flow s3: ") {
			t.Errorf("%s: empty line %q", path, line)
		}
	})
	if n < 20 {
		t.Fatalf("only %d edits tried", n)
	}
}

func TestNaNBreaksEquality(t *testing.T) {
	r := Flow{Resource: "a", Count: math.NaN()}
	c := r.Clone()
	if !r.Equal(&c) {
		t.Error("a rule with NaN differs from its clone: every reload would count as a change")
	}
	if !Compare([]Flow{r}, []Flow{c}).Empty() {
		t.Error("Compare reports a change between a rule and its clone")
	}
}

func TestEqualTellsAbsentFromEmptyList(t *testing.T) {
	a, b := ParamFlow{Resource: "a"}, ParamFlow{Resource: "a", Items: []ParamFlowItem{}, Extra: Extra{}}
	if !a.Equal(&b) {
		t.Error("an absent list and an empty one differ")
	}
	s, u := System{QPS: 1, AvgRT: -1}, System{QPS: 1, AvgRT: -7}
	if !s.Equal(&u) {
		t.Error("two ways to write \"off\" differ")
	}
}

// plain is a user's type without any of the interfaces.
type plain struct {
	Name string
	Tags map[string]time.Duration
}

func TestTraitsOfPlainTypeFallBack(t *testing.T) {
	tr := TraitsOf[plain]()
	a, b := plain{"a", map[string]time.Duration{"x": 1}}, plain{"a", map[string]time.Duration{"x": 1}}
	if tr.Key(&a) != "" || tr.ID(&a) != "" || tr.Validate(&a) != nil || tr.OnePerKey() {
		t.Error("a plain type has traits it never declared")
	}
	if !tr.Equal(&a, &b) {
		t.Error("fallback equality is by identity")
	}
	b.Tags["x"] = 2
	if tr.Equal(&a, &b) {
		t.Error("fallback equality misses a map entry")
	}
	if c := tr.Clone(&a); !tr.Equal(&a, &c) {
		t.Error("fallback clone differs")
	}
}

func TestTraitsAllocatePerRule(t *testing.T) {
	tr := TraitsOf[Flow]()
	a, b := sample[Flow](), sample[Flow]()
	valid := Flow{Resource: "a", Grade: GradeQPS, Count: 1, WarmUpPeriodSec: 10}
	if n := testing.AllocsPerRun(100, func() {
		if tr.Key(&a) == "" || tr.ID(&a) == "" || !tr.Equal(&a, &b) || tr.Validate(&valid) != nil {
			t.Error("wrong answer")
		}
	}); n != 0 {
		t.Errorf("%v allocations for key, equal and validate of one rule", n)
	}
}
