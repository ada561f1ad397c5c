package condition

import (
	"errors"
	"testing"
)

func TestTheOwnPortIsNoPartOfACondition(t *testing.T) {
	for text, want := range map[string]string{
		"read tcp 127.0.0.1:47198->10.0.0.1:6379: connection reset by peer": "read tcp 10.0.0.1:6379: connection reset by peer",
		"read tcp [::1]:47198->[::1]:6379: i/o timeout":                     "read tcp [::1]:6379: i/o timeout",
		"dial tcp 127.0.0.1:6379: connect: connection refused":              "dial tcp 127.0.0.1:6379: connect: connection refused",
		"a -> b": "a -> b",
	} {
		if got := Of(errors.New(text)); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
