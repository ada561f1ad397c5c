// Package nils finds a nil that an interface hides.
package nils

import "reflect"

// Is says whether v is nil, or an interface that holds a nil pointer or function: what is left of a constructor whose
// error nobody looked at. It uses reflection and is for constructors.
func Is[T any](v T) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func:
		return r.IsNil()
	default:
		return false
	}
}
