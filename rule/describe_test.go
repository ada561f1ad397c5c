package rule

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDescriptionOfLongValuesIsShort(t *testing.T) {
	long := strings.Repeat("é", 9000)
	extra := func(tail string) Extra { return Extra{{Name: "x", Value: strings.Repeat("[", 9000) + tail}} }
	config := func(e Extra) *ClusterFlowConfig { return &ClusterFlowConfig{FlowID: new(int64(7)), Extra: e} }
	for _, c := range []struct{ got, want string }{
		{Describe(&Flow{Resource: long, Grade: GradeQPS, Extra: extra("a")}), "… (18000 bytes): "},
		{DescribeChange(&Flow{Extra: extra("a")}, &Flow{Extra: extra("b")}), "extra …[[[[[[[[[[[[[[[[[[[[a} (9005 bytes) → …[[[[[[[[[[[[[[[[[[[[b} (9005 bytes)"},
		{DescribeChange(&Flow{}, &Flow{Extra: extra("a")}), "extra {} → {x=[[["},
		{DescribeChange(&Flow{RefResource: long + "é"}, &Flow{RefResource: long + "è"}), "é (18002 bytes) → …"},
		{DescribeChange(&Flow{RefResource: long}, &Flow{RefResource: "x"}), "é… (18000 bytes) → x"},
		{DescribeChange(&Flow{RefResource: long}, &Flow{RefResource: long[:300]}), "… (18000 bytes) → …"},
		{Describe(&Flow{ClusterConfig: config(extra("a"))}), "FlowID:7 "},
		{DescribeChange(&Flow{ClusterConfig: config(nil)}, &Flow{ClusterConfig: config(extra("a"))}), "clusterConfig.extra {} → {x=["},
		{Describe(&ParamFlow{Items: []ParamFlowItem{{Object: long}}}), "paramFlowItemList [é"},
		{Describe(&plain{Name: long}), "{Name:é"},
		{DescribeChange(&plain{Name: long + "a"}, &plain{Name: long + "b"}), "éa Tags:map[]} (18019 bytes) → …é"},
	} {
		if !strings.Contains(c.got, c.want) || len(c.got) > 3000 || !utf8.ValidString(c.got) {
			t.Errorf("%d bytes: %.400s\nwant %q in it", len(c.got), c.got, c.want)
		}
	}
	if got := Describe(&Flow{Resource: strings.Repeat("é", 120)}); strings.Contains(got, "…") {
		t.Errorf("120 characters are cut: %s", got)
	}
}

// What is logged or printed must not steer a terminal, nor look like another text.
func TestControlCharactersAreQuoted(t *testing.T) {
	for name, want := range map[string]string{
		"q\x1b[2Jz": `"q\x1b[2Jz"`, "a\x00b": `"a\x00b"`, "a\u202eb": `"a\u202eb"`, "a\u009bb": `"a\u009bb"`, "a\nb": `"a\nb"`, "/订单/é": "/订单/é",
	} {
		if got := Describe(&Flow{Resource: name, Grade: GradeQPS}); !strings.HasPrefix(got, "flow "+want+":") {
			t.Errorf("%s is not of %s", got, want)
		}
	}
}
