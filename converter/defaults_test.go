package converter_test

import (
	"testing"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

// A rule built in code and a document that leaves everything out must mean the same.
//
// faults: F043
func TestRuleBuiltInCodeDiffersFromTheDocumentsDefaults(t *testing.T) {
	flow := rule.NewFlow("a", 5)
	sameAs(t, `[{"resource":"a","count":5}]`, &flow)
	degrade := rule.NewDegrade("a", rule.DegradeErrorCount, 5, 2000)
	sameAs(t, `[{"resource":"a","grade":2,"count":5,"timeWindow":2}]`, &degrade)
	system := rule.NewSystem()
	system.QPS = 5
	sameAs(t, `[{"qps":5}]`, &system)
	param := rule.NewParamFlow("a", 1, 5)
	sameAs(t, `[{"resource":"a","paramIdx":1,"count":5}]`, &param)
}

func sameAs[R any](t *testing.T, document string, want *R) {
	t.Helper()
	dec, err := converter.JSON[R]().Decode([]byte(document))
	if err != nil || len(dec.Rules) != 1 {
		t.Fatalf("%s: %v", document, err)
	}
	traits := rule.TraitsOf[R]()
	if !traits.Equal(&dec.Rules[0], want) {
		t.Errorf("%s:\n%s", document, rule.DescribeChange(&dec.Rules[0], want))
	}
	if err := traits.Validate(want); err != nil {
		t.Error(err)
	}
}

// faults: F141 F142
func TestReadingOrWritingChangesNoIDs(t *testing.T) {
	c := converter.JSON[rule.Flow]()
	text := []byte(`[{"id":42,"resource":"a","count":5},{"id":7,"resource":"b","count":5},{"resource":"c","count":5}]`)
	for range 3 {
		dec, err := c.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if dec.Rules[0].ID != "42" || dec.Rules[1].ID != "7" || dec.Rules[2].ID != "" {
			t.Fatalf("ids %q %q %q", dec.Rules[0].ID, dec.Rules[1].ID, dec.Rules[2].ID)
		}
		if text, err = c.Encode(dec.Rules); err != nil {
			t.Fatal(err)
		}
	}
}
