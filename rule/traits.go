package rule

// Key is what diffs, merges and lookups group rules by: the resource for all kinds but System, which has one group "".
// A rule type of the user's own takes part by implementing any of the four interfaces below on its pointer;
// what it leaves out falls back to one group, reflect.DeepEqual, always valid and a plain copy.

// Keyer is implemented by rules that belong to a resource.
type Keyer interface{ RuleKey() string }

// Validator is implemented by rules that can be wrong. The error should be an Invalid (every fault, with its field).
type Validator interface{ Validate() error }

// Equaler is implemented by rules with an equality of their own. It compares every field, also ID and Extra.
type Equaler[R any] interface{ Equal(other *R) bool }

// Cloner is implemented by rules that hold pointers or slices.
type Cloner[R any] interface{ Clone() R }
