package nils_test

import (
	"fmt"
	"testing"

	"github.com/rulewire/rulewire/internal/nils"
)

type list []int

func (list) String() string { return "" }

type text func() string

func (t text) String() string { return t() }

type thing struct{}

func (*thing) String() string { return "" }

func TestANilBehindAnInterfaceIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		value fmt.Stringer
		want  bool
	}{
		"nil":          {nil, true},
		"nil pointer":  {(*thing)(nil), true},
		"nil function": {text(nil), true},
		"pointer":      {&thing{}, false},
		"function":     {text(func() string { return "" }), false},
		"nil slice":    {list(nil), false}, // its methods work
	} {
		if got := nils.Is(c.value); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
