package rule

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Describe gives one line: kind, resource and the fields that differ from what a Java document leaves out.
// A long value is cut and says how long it was. A type of the user's own is printed with %+v.
func Describe[R any](r *R) string {
	switch v := any(r).(type) {
	case *Flow:
		return head(KindFlow, v.Resource) + fieldsOf(reflect.ValueOf(&Flow{
			Resource: v.Resource, LimitApp: "default", Grade: GradeQPS, Count: -1, WarmUpPeriodSec: 10, MaxQueueingTimeMs: 500}).Elem(), reflect.ValueOf(v).Elem())
	case *Degrade:
		return head(KindDegrade, v.Resource) + fieldsOf(reflect.ValueOf(&Degrade{
			Resource: v.Resource, LimitApp: "default", Grade: -1, Count: -1, MinRequestAmount: 5, SlowRatioThreshold: 1, StatIntervalMs: 1000}).Elem(), reflect.ValueOf(v).Elem())
	case *System:
		return head(KindSystem, v.Resource) + fieldsOf(reflect.ValueOf(&System{Resource: v.Resource, LimitApp: v.LimitApp,
			HighestSystemLoad: Unset, HighestCPUUsage: Unset, QPS: Unset, AvgRT: Unset, MaxThread: Unset, Strategy: AdaptiveNone}).Elem(), reflect.ValueOf(v).Elem())
	case *Authority:
		return head(KindAuthority, v.Resource) + fieldsOf(reflect.ValueOf(&Authority{Resource: v.Resource, Strategy: -1}).Elem(), reflect.ValueOf(v).Elem())
	case *ParamFlow:
		return head(KindParamFlow, v.Resource) + fieldsOf(reflect.ValueOf(&ParamFlow{
			Resource: v.Resource, LimitApp: "default", Grade: GradeQPS, ParamIdx: -1 << 62, Count: -1, DurationInSec: 1}).Elem(), reflect.ValueOf(v).Elem())
	case *Isolation:
		return head(KindIsolation, v.Resource) + fieldsOf(reflect.ValueOf(&Isolation{Resource: v.Resource}).Elem(), reflect.ValueOf(v).Elem())
	default:
		return excerpt(fmt.Sprintf("%+v", *r), mostOwn)
	}
}

func head(k Kind, resource string) string {
	if resource == "" {
		return string(k) + ": "
	}
	return string(k) + " " + excerpt(text(resource), mostValue) + ": "
}

func fieldsOf(base, v reflect.Value) string {
	var parts []string
	walk("", base, v, func(name, _, now string) { parts = append(parts, name+" "+now) })
	return strings.Join(parts, ", ")
}

// DescribeChange gives one line: kind, resource and each field that differs, "flow /order: count 10 → 20".
// Long values are cut to where they differ and say how long they were. A type of the user's own is printed with %+v.
func DescribeChange[R any](old, new *R) string {
	kind, known := KindOf[R]()
	if !known {
		was, now := excerpts(fmt.Sprintf("%+v", *old), fmt.Sprintf("%+v", *new), mostOwn)
		return was + " → " + now
	}
	var parts []string
	walk("", reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem(), func(name, was, now string) {
		parts = append(parts, name+" "+was+" → "+now)
	})
	return head(kind, TraitsOf[R]().Key(new)) + strings.Join(parts, ", ")
}

// The most characters that are printed of one value, and of a whole rule of the user's own type or part of a rule.
const (
	mostValue = 120
	mostOwn   = 1000
)

// excerpt is the beginning of a long text.
func excerpt(s string, most int) string { return excerptFrom(s, 0, most) }

// excerpts cuts two different texts so that what differs is still to be seen.
func excerpts(a, b string, most int) (string, string) {
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	start := 0
	if before := most / 6; same > most-before {
		// Back by whole characters, also out of one that differs in its middle.
		for start = same; before > 0 && start > 0; before-- {
			for start--; start > 0 && !utf8.RuneStart(a[start]); start-- {
			}
		}
	}
	return excerptFrom(a, start, most), excerptFrom(b, start, most)
}

// excerptFrom gives most characters of a text from an offset on.
func excerptFrom(s string, start, most int) string {
	if len(s) <= most {
		return s
	}
	n, end := 0, len(s)
	for i := range s[start:] {
		if n == most {
			end = start + i
			break
		}
		n++
	}
	if start == 0 && end == len(s) {
		return s
	}
	out := s[start:end]
	if start > 0 {
		out = "…" + out
	}
	if end < len(s) {
		out += "…"
	}
	return out + " (" + strconv.Itoa(len(s)) + " bytes)"
}

// walk reports each differing field of two structs by its Java name.
func walk(prefix string, a, b reflect.Value, report func(name, was, now string)) {
	for i := range a.NumField() {
		name := prefix + javaName(a.Type().Field(i).Name)
		fa, fb := a.Field(i), b.Field(i)
		if name == "limitApp" && fa.String()+fb.String() == "default" {
			continue // "" means "default"
		}
		if fa.Kind() == reflect.Pointer && fa.Type().Elem().Kind() == reflect.Struct && !fa.IsNil() && !fb.IsNil() {
			walk(name+".", fa.Elem(), fb.Elem(), report)
			continue
		}
		if fa.Kind() == reflect.Slice && fa.Len() == 0 && fb.Len() == 0 {
			continue
		}
		if was, now := show(fa), show(fb); was != now {
			most := mostValue
			if fa.Kind() == reflect.Pointer {
				most = mostOwn // the values in it are cut each
			}
			was, now = excerpts(was, now, most)
			report(name, was, now)
		}
	}
}

func show(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case fmt.Stringer:
		return x.String()
	case string:
		return text(x)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	case *int64:
		if x == nil {
			return "none"
		}
		return strconv.FormatInt(*x, 10)
	case Extra:
		parts := make([]string, len(x))
		for i, m := range x {
			parts[i] = m.Name + "=" + m.Value
		}
		return "{" + strings.Join(parts, " ") + "}"
	case []ParamFlowItem:
		parts := make([]string, len(x))
		for i, it := range x {
			parts[i] = strings.TrimSpace(it.ClassType+" "+text(it.Object)) + "=" + strconv.FormatInt(it.Count, 10)
			if len(it.Extra) > 0 {
				parts[i] += show(reflect.ValueOf(it.Extra))
			}
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "none"
		}
		return part(v.Elem())
	}
	return fmt.Sprint(v.Interface())
}

// part gives a part of a rule as %+v does, with what is behind pointers and each value cut.
func part(v reflect.Value) string {
	if v.Kind() != reflect.Struct {
		return fmt.Sprintf("%+v", v.Interface())
	}
	fields := make([]string, v.NumField())
	for i := range fields {
		f := v.Field(i)
		if f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		fields[i] = v.Type().Field(i).Name + ":" + excerpt(fmt.Sprintf("%+v", f.Interface()), mostValue)
	}
	return "{" + strings.Join(fields, " ") + "}"
}

// text quotes what would be misread bare.
func text(s string) string {
	if s == "" || strings.ContainsAny(s, " \"→,") || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// javaName gives the name that Java documents use for a field.
func javaName(field string) string {
	switch field {
	case "ID":
		return "id"
	case "QPS":
		return "qps"
	case "AvgRT":
		return "avgRt"
	case "HighestCPUUsage":
		return "highestCpuUsage"
	case "FlowID":
		return "flowId"
	case "Items":
		return "paramFlowItemList"
	}
	return strings.ToLower(field[:1]) + field[1:]
}
