package rule

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ItemClass is the type of a hot-parameter value.
// Source: com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRuleUtil (1.8.9).
type ItemClass uint8

// The types that Sentinel knows, by their Java names.
const (
	ItemString ItemClass = iota
	ItemInt
	ItemLong
	ItemShort
	ItemByte
	ItemDouble
	ItemFloat
	ItemBoolean
	ItemChar
)

// String gives the bare Java name.
func (c ItemClass) String() string {
	switch c {
	case ItemString:
		return "String"
	case ItemInt:
		return "int"
	case ItemLong:
		return "long"
	case ItemShort:
		return "short"
	case ItemByte:
		return "byte"
	case ItemDouble:
		return "double"
	case ItemFloat:
		return "float"
	case ItemBoolean:
		return "boolean"
	case ItemChar:
		return "char"
	default:
		return number(int64(c))
	}
}

// ParseItemClass reads a class type, bare or as java.lang.*. Blank is String, as in Java; Java also reads every unknown
// name as String, which never matches the argument it was meant for, so here it is an error that wraps ErrInvalid.
func ParseItemClass(name string) (ItemClass, error) {
	switch name {
	case "", "String", "string", "java.lang.String":
		return ItemString, nil
	case "int", "Integer", "java.lang.Integer":
		return ItemInt, nil
	case "long", "Long", "java.lang.Long":
		return ItemLong, nil
	case "short", "Short", "java.lang.Short":
		return ItemShort, nil
	case "byte", "Byte", "java.lang.Byte":
		return ItemByte, nil
	case "double", "Double", "java.lang.Double":
		return ItemDouble, nil
	case "float", "Float", "java.lang.Float":
		return ItemFloat, nil
	case "boolean", "Boolean", "java.lang.Boolean":
		return ItemBoolean, nil
	case "char", "Character", "java.lang.Character":
		return ItemChar, nil
	}
	if blank(name) {
		return ItemString, nil
	}
	return 0, fmt.Errorf("%w: unknown class type %q; known are int, long, short, byte, double, float, boolean, char, String, bare or as java.lang.*", ErrInvalid, name)
}

// fits says whether text is a value of the class. int takes what a Go int takes (64 bits): documents of the golang
// dialect hold such values, and a Go caller can pass them.
func (c ItemClass) fits(text string) bool {
	bits := 0
	switch c {
	case ItemString:
		return true
	case ItemInt, ItemLong:
		bits = 64
	case ItemShort:
		bits = 16
	case ItemByte:
		bits = 8
	case ItemDouble, ItemFloat:
		f, err := strconv.ParseFloat(text, 64)
		// NaN equals no argument, an infinite value is no value anybody limits.
		return err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
	case ItemBoolean:
		return strings.EqualFold(text, "true") || strings.EqualFold(text, "false") // as Java reads it
	case ItemChar:
		r, n := utf8.DecodeRuneInString(text)
		return n > 0 && n == len(text) && (r != utf8.RuneError || n > 1)
	}
	_, err := strconv.ParseInt(text, 10, bits)
	return err == nil
}
