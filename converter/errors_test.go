package converter_test

import (
	"testing"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

func TestMessageNamesTheFieldThatARuleLacks(t *testing.T) {
	at := func(pointer string) converter.Position {
		return converter.Position{Line: 1, Column: 2, Pointer: pointer}
	}
	for _, c := range []struct {
		fault converter.Fault
		want  string
	}{
		{converter.Fault{Field: "timeWindow", Position: at("/0"), Reason: "must be at least 1, is 0"}, "line 1, column 2: /0: timeWindow: must be at least 1, is 0"},
		{converter.Fault{Field: "clusterConfig/flowId", Position: at("/0"), Reason: "is required in cluster mode"}, "line 1, column 2: /0: clusterConfig/flowId: is required in cluster mode"},
		{converter.Fault{Field: "clusterConfig/flowId", Position: at("/0/clusterConfig"), Reason: "is required in cluster mode"}, "line 1, column 2: /0/clusterConfig: clusterConfig/flowId: is required in cluster mode"},
		{converter.Fault{Field: "a.b", Position: at("/0"), Reason: "is bad"}, "line 1, column 2: /0: a.b: is bad"},
		{converter.Fault{Field: "refResource", Position: at(""), Index: -1, Reason: "is required"}, "line 1, column 2: refResource: is required"},
		// The document's name for it is another one.
		{converter.Fault{Field: "timeWindow", Position: at("/0/retryTimeoutMs"), Reason: "is bad"}, "line 1, column 2: /0/retryTimeoutMs: timeWindow: is bad"},
		// Once is enough.
		{converter.Fault{Field: "count", Position: at("/0/count"), Reason: "is bad"}, "line 1, column 2: /0/count: is bad"},
		{converter.Fault{Field: "a.b", Position: at("/0/a/b"), Reason: "is bad"}, "line 1, column 2: /0/a/b: is bad"},
		{converter.Fault{Field: "a.b", Position: at("/0/a.b"), Reason: "is bad"}, "line 1, column 2: /0/a.b: is bad"},
		{converter.Fault{Field: "x/y", Position: at("/0/x~1y"), Reason: "is bad"}, "line 1, column 2: /0/x~1y: is bad"},
		{converter.Fault{Field: "items[2].object", Position: at("/0/items/2/object"), Reason: "is bad"}, "line 1, column 2: /0/items/2/object: is bad"},
		{converter.Fault{Field: "items[2].object", Position: at("/0/items/2"), Reason: "missing required object"}, "line 1, column 2: /0/items/2: missing required object"},
		{converter.Fault{Field: "count", Position: at("/0"), Reason: "missing required count"}, "line 1, column 2: /0: missing required count"},
		{converter.Fault{Field: "count", Position: at("/0"), Reason: "counts and discounts"}, "line 1, column 2: /0: count: counts and discounts"},
		{converter.Fault{Field: "a.b", Index: 3, Reason: "is bad"}, "/3/a.b: is bad"},
	} {
		if got := c.fault.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	rejected(t, converter.JSON[rule.Degrade](golang), `[{"resource":"a","threshold":1}]`, rule.ErrInvalid, "/0: missing maxAllowedRtMs, required")
}
