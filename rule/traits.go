package rule

import (
	"fmt"
	"hash/maphash"
	"math"
	"reflect"
)

// Key is what diffs, merges and lookups group rules by: the resource for all kinds but System, which has one group "".
// A rule type of the user's own takes part by implementing any of the interfaces below on its pointer;
// what it leaves out falls back to one group, reflect.DeepEqual, always valid and a plain copy.

// Keyer is implemented by rules that belong to a resource.
type Keyer interface{ RuleKey() string }

// Validator is implemented by rules that can be wrong. The error should be an Invalid (every fault, with its field).
type Validator interface{ Validate() error }

// Equaler is implemented by rules with an equality of their own. It compares every field, also ID and Extra.
// Equal rules have the same key.
type Equaler[R any] interface{ Equal(other *R) bool }

// Cloner is implemented by rules that hold pointers or slices.
type Cloner[R any] interface{ Clone() R }

// Identified is implemented by rules with an ID; a diff takes two rules of one key with the same ID for one rule that
// was edited.
type Identified interface{ RuleID() string }

// Exclusive is implemented by rules of which only the first of a key is in effect; see Report.Shadowed.
type Exclusive interface{ OnePerKey() bool }

// Traits is what Rulewire needs to know of a rule type. TraitsOf makes it; the zero value is of no use.
type Traits[R any] struct {
	keyed, validated, equals, clones, identified, exclusive bool
}

// TraitsOf finds out which of the optional interfaces *R implements. Ask once and keep the answer. The methods take
// pointers, so that no rule is boxed and nothing is allocated for a rule.
func TraitsOf[R any]() Traits[R] {
	p := any((*R)(nil))
	var t Traits[R]
	_, t.keyed = p.(Keyer)
	_, t.validated = p.(Validator)
	_, t.equals = p.(Equaler[R])
	_, t.clones = p.(Cloner[R])
	_, t.identified = p.(Identified)
	if _, ok := p.(Exclusive); ok {
		t.exclusive = any(new(R)).(Exclusive).OnePerKey()
	}
	return t
}

// Key gives the rule's group, "" without Keyer.
func (t Traits[R]) Key(r *R) string {
	if t.keyed {
		return any(r).(Keyer).RuleKey()
	}
	return ""
}

// ID gives the rule's ID, "" without Identified.
func (t Traits[R]) ID(r *R) string {
	if t.identified {
		return any(r).(Identified).RuleID()
	}
	return ""
}

// Validate gives the rule's faults, nil without Validator.
func (t Traits[R]) Validate(r *R) error {
	if t.validated {
		return any(r).(Validator).Validate()
	}
	return nil
}

// Equal compares by Equaler, else by reflect.DeepEqual.
func (t Traits[R]) Equal(a, b *R) bool {
	if t.equals {
		return any(a).(Equaler[R]).Equal(b)
	}
	return reflect.DeepEqual(a, b)
}

// Clone copies by Cloner, else the value as it is.
func (t Traits[R]) Clone(r *R) R {
	if t.clones {
		return any(r).(Cloner[R]).Clone()
	}
	return *r
}

// OnePerKey says whether only the first rule of a key is in effect, false without Exclusive.
func (t Traits[R]) OnePerKey() bool { return t.exclusive }

// CloneAll copies a list of rules. nil stays nil.
func (t Traits[R]) CloneAll(rules []R) []R {
	if rules == nil {
		return nil
	}
	out := make([]R, len(rules))
	for i := range rules {
		out[i] = t.Clone(&rules[i])
	}
	return out
}

// manyPerKey is from where on rules of one key are compared by hash first: comparing each with each is faster below
// and quadratic above.
const manyPerKey = 32

// deepHash hashes everything reachable from v, so that equal rules have equal hashes. It is used for many rules of one
// key only. A user's Equal that ignores fields is then asked less often than it could be; the rules count as changed.
func deepHash(seed maphash.Seed, v reflect.Value) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	hashInto(&h, v, 0)
	return h.Sum64()
}

// maxHashDepth ends the walk in a value that points to itself.
const maxHashDepth = 16

func hashInto(h *maphash.Hash, v reflect.Value, depth int) {
	if depth > maxHashDepth {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			_ = h.WriteByte(0)
			return
		}
		_ = h.WriteByte(1)
		hashInto(h, v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			hashInto(h, v.Field(i), depth+1)
		}
	case reflect.Slice, reflect.Array:
		maphash.WriteComparable(h, v.Len())
		for i := range v.Len() {
			hashInto(h, v.Index(i), depth+1)
		}
	case reflect.Map:
		// The order of a map is random: its size is hashed, equality does the rest.
		maphash.WriteComparable(h, v.Len())
	case reflect.String:
		_, _ = h.WriteString(v.String())
		_ = h.WriteByte(0)
	case reflect.Bool:
		maphash.WriteComparable(h, v.Bool())
	case reflect.Float32, reflect.Float64:
		f := v.Float()
		switch {
		case math.IsNaN(f):
			f = math.MaxFloat64
		case f == 0:
			f = 0 // also for -0
		}
		maphash.WriteComparable(h, math.Float64bits(f))
	default:
		switch {
		case v.CanInt():
			maphash.WriteComparable(h, v.Int())
		case v.CanUint():
			maphash.WriteComparable(h, v.Uint())
		default:
			_ = h.WriteByte(2)
		}
	}
}

// ErrPanic is wrapped where a method of a user's rule type panicked.
var ErrPanic = fmt.Errorf("%w: panic in the rule type's own code", ErrInvalid)
