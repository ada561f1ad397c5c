package converter

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/rulewire/rulewire/rule"
)

var paramFlowCodecs = build(func(dialect DialectName) codec[rule.ParamFlow] {
	type r = rule.ParamFlow
	cluster := newSchema(dialect, func(c *rule.ParamFlowClusterConfig) *rule.Extra { return &c.Extra }, paramClusterFields())
	s := newSchema(dialect, func(r *r) *rule.Extra { return &r.Extra }, append(entity(func(r *r) *string { return &r.ID }),
		same(req("resource"), text(func(r *r) *string { return &r.Resource })),
		both(own("limitApp", `"default"`), opt("limitApp", `"default"`), origin(func(r *r) *string { return &r.LimitApp })),
		both(own("grade", "1"), own("metricType", "0"), typed(func(r *r) *int32 { return (*int32)(&r.Grade) }, gradeChoices...)),
		both(own("paramIdx", "").int32(), own("paramIndex", "0"), integer(func(r *r) *int64 { return &r.ParamIdx })),
		java(req("count"), double(func(r *r) *float64 { return &r.Count })),
		golang(req("threshold").exact(-1<<53), wholeDouble(func(r *r) *float64 { return &r.Count })),
		java(own("controlBehavior", "0"), typed(func(r *r) *int32 { return (*int32)(&r.ControlBehavior) },
			choice{0, "reject"}, choice{2, "rate limiter"})),
		golang(own("controlBehavior", "0"), enum(
			func(r *r) int64 {
				if r.ControlBehavior == rule.ControlRateLimiter {
					return 1
				}
				return int64(r.ControlBehavior) << 1 // 0 stays; what does not exist here stays invalid
			},
			func(r *r, n int64) { r.ControlBehavior = rule.ControlBehavior(n << 1) },
			choice{0, "reject"}, choice{1, "throttling"})),
		both(own("maxQueueingTimeMs", "0").int32(), own("maxQueueingTimeMs", "0"), integer(func(r *r) *int64 { return &r.MaxQueueingTimeMs })),
		both(own("burstCount", "0").int32(), own("burstCount", "0"), integer(func(r *r) *int64 { return &r.BurstCount })),
		both(own("durationInSec", "1"), own("durationInSec", "0"), integer(func(r *r) *int64 { return &r.DurationInSec })),
		both(own("paramFlowItemList", ""), own("specificItems", ""), sequence(func(r *r) *[]rule.ParamFlowItem { return &r.Items }, itemCodec(dialect))),
		both(own("clusterMode", "false"), opt("clusterMode", "false"), flag(func(r *r) *bool { return &r.ClusterMode })),
		same(opt("clusterConfig", ""), nested(func(r *r) **rule.ParamFlowClusterConfig { return &r.ClusterConfig }, cluster)),
		both(own("regex", ""), opt("regex", ""), flag(func(r *r) *bool { return &r.Regex })),
		same(opt("paramKey", ""), text(func(r *r) *string { return &r.ParamKey })),
		same(opt("paramsMaxCapacity", ""), integer(func(r *r) *int64 { return &r.ParamsMaxCapacity })),
	))
	s.resource = func(r *r) string { return r.Resource }
	s.wrapped = true
	if dialect == Java {
		s.finish = func(d *reader, r *rule.ParamFlow, o object) {
			if !s.has(o, "paramIdx") && r.ParamKey == "" {
				d.absent(o.at, "paramIdx", "missing required paramIdx (or paramKey)")
			}
		}
	}
	return s
})

func paramClusterFields() []field[rule.ParamFlowClusterConfig] {
	type c = rule.ParamFlowClusterConfig
	return []field[c]{
		same(opt("flowId", ""), pointerTo(func(c *c) **int64 { return &c.FlowID })),
		same(own("thresholdType", "0").int32(), integer(func(c *c) *int64 { return &c.ThresholdType })),
		same(own("fallbackToLocalWhenFail", "false"), flag(func(c *c) *bool { return &c.FallbackToLocalWhenFail })),
		same(own("sampleCount", "10").int32(), integer(func(c *c) *int64 { return &c.SampleCount })),
		same(own("windowIntervalMs", "1000").int32(), integer(func(c *c) *int64 { return &c.WindowIntervalMs })),
	}
}

// itemWire is a value with a limit of its own in the golang dialect, which knows four kinds of value where Java knows
// nine classes. The class stands beside the kind where the kind alone would not bring it back.
type itemWire struct {
	rule.ParamFlowItem
	kind int64
}

// The kinds of sentinel-golang's ext/datasource.ParamKind.
const (
	kindInt = iota
	kindString
	kindBool
	kindFloat64
)

// classes are the class types that Java knows, each with its kind.
var classes = map[string]int64{
	"int": kindInt, "long": kindInt, "short": kindInt, "byte": kindInt, "double": kindFloat64, "float": kindFloat64,
	"boolean": kindBool, "char": kindString, "String": kindString, "": kindString,
	"java.lang.Integer": kindInt, "java.lang.Long": kindInt, "java.lang.Short": kindInt, "java.lang.Byte": kindInt,
	"java.lang.Double": kindFloat64, "java.lang.Float": kindFloat64, "java.lang.Boolean": kindBool,
	"java.lang.Character": kindString, "java.lang.String": kindString,
}

func itemCodec(dialect DialectName) codec[rule.ParamFlowItem] {
	if dialect == Java {
		type i = rule.ParamFlowItem
		s := newSchema(dialect, func(i *i) *rule.Extra { return &i.Extra }, []field[i]{
			both(req("object"), req("valStr"), text(func(i *i) *string { return &i.Object })),
			both(opt("classType", ""), opt("valKind", ""), text(func(i *i) *string { return &i.ClassType })),
			both(req("count").int32(), req("threshold"), integer(func(i *i) *int64 { return &i.Count })),
		})
		s.finish = func(d *reader, i *rule.ParamFlowItem, o object) {
			if i.ClassType = strings.TrimSpace(i.ClassType); s.has(o, "object") {
				checkItem(d, i, o)
			}
		}
		return s
	}
	type i = itemWire
	s := newSchema(dialect, func(i *i) *rule.Extra { return &i.Extra }, []field[i]{
		both(req("object"), req("valStr"), text(func(i *i) *string { return &i.Object })),
		golang(own("valKind", "0"), enum(func(i *i) int64 { return i.kind }, func(i *i, n int64) { i.kind = n },
			choice{kindInt, "int"}, choice{kindString, "string"}, choice{kindBool, "bool"}, choice{kindFloat64, "float64"})),
		same(opt("classType", ""), text(func(i *i) *string { return &i.ClassType })),
		both(req("count"), req("threshold"), integer(func(i *i) *int64 { return &i.Count })),
	})
	s.finish = func(d *reader, i *itemWire, o object) {
		if !s.has(o, "valStr") {
			return
		}
		switch class := strings.TrimSpace(i.ClassType); {
		case class == "":
			i.ClassType = classOf(i)
		case classes[class] != i.kind:
			d.rejectObject(o.at, "classType", &Fault{Reason: "valKind " + strconv.FormatInt(i.kind, 10) + " and classType " + quote(clip(class)) +
				" differ; remove classType", Err: rule.ErrInvalid})
			return
		default:
			i.ClassType = class
		}
		checkItem(d, &i.ParamFlowItem, o)
	}
	return &shaped[itemWire, rule.ParamFlowItem]{
		schema: s,
		rule:   func(i *itemWire) rule.ParamFlowItem { return i.ParamFlowItem },
		wire: func(w *writer, r *rule.ParamFlowItem) []itemWire {
			kind, ok := classes[r.ClassType]
			if !ok {
				w.fail("classType", rule.ErrInvalid, "unknown classType "+quote(clip(r.ClassType)))
			}
			i := itemWire{ParamFlowItem: *r, kind: kind}
			if bare := (itemWire{ParamFlowItem: *r, kind: kind}); classOf(&bare) == r.ClassType {
				i.ClassType = ""
			}
			return []itemWire{i}
		},
	}
}

// classOf is the class that a kind stands for where nothing else is said. It also makes Go's spellings of a bool Java's,
// which reads "1" and "t" as false.
func classOf(i *itemWire) string {
	switch i.kind {
	case kindString:
		return "String"
	case kindBool:
		if b, err := strconv.ParseBool(i.Object); err == nil {
			i.Object = strconv.FormatBool(b)
		}
		return "boolean"
	case kindFloat64:
		return "double"
	}
	if _, err := strconv.ParseInt(i.Object, 10, 32); err != nil {
		return "long" // a Go int is as long as a Java long
	}
	return "int"
}

// checkItem rejects a value that Java would drop from the rule, or never match.
func checkItem(d *reader, i *rule.ParamFlowItem, o object) {
	if _, ok := classes[i.ClassType]; !ok {
		d.rejectObject(o.at, "classType", &Fault{Reason: "unknown classType " + quote(shorten([]byte(i.ClassType))),
			Expected: "int, long, short, byte, double, float, boolean, char, String or their java.lang classes", Err: rule.ErrInvalid})
		return
	}
	if class := strings.TrimPrefix(i.ClassType, "java.lang."); !parses(i.Object, class) {
		d.rejectObject(o.at, "object", &Fault{Reason: quote(shorten([]byte(i.Object))) + " is not a " + strings.ToLower(class), Err: rule.ErrInvalid})
	}
}

func parses(object, class string) bool {
	var err error
	switch cmp.Or(class, "String") {
	case "int", "Integer":
		_, err = strconv.ParseInt(object, 10, 32)
	case "long", "Long":
		_, err = strconv.ParseInt(object, 10, 64)
	case "short", "Short":
		_, err = strconv.ParseInt(object, 10, 16)
	case "byte", "Byte":
		_, err = strconv.ParseInt(object, 10, 8)
	case "double", "Double":
		return isDecimal(object, 64)
	case "float", "Float":
		return isDecimal(object, 32)
	case "boolean", "Boolean":
		return strings.EqualFold(object, "true") || strings.EqualFold(object, "false")
	case "char", "Character":
		// A Java char is one UTF-16 unit; Java takes the first and forgets the rest.
		return len(utf16.Encode([]rune(object))) == 1
	}
	return err == nil
}

// isDecimal keeps out what only one of Go and Java reads as a number: hexadecimal, "inf", "1_0", "1d".
func isDecimal(s string, size int) bool {
	if strings.Trim(s, "0123456789+-.eE") != "" {
		return false
	}
	_, err := strconv.ParseFloat(s, size)
	return err == nil
}
