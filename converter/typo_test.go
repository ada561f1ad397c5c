package converter

import (
	"math"
	"strconv"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"treshold", "threshold", 1}, {"cuont", "count", 1}, {"controlbehaviour", "controlbehavior", 1},
		{"amount", "count", 2}, {"source", "resource", 2}, {"ca", "abc", 3}, {"resouce", "resource", 1}, {"abcd", "badc", 2},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := distance(c.b, c.a); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

func TestNear(t *testing.T) {
	for _, c := range []struct {
		name, known string
		want        bool
	}{
		{"treshold", "threshold", true}, {"counts", "count", true}, {"amount", "count", false}, {"if", "id", false}, {"qqs", "qps", false},
		{"note", "count", false}, {"timewindows", "timewindow", true}, {"window", "timewindow", false}, {"", "qps", false},
		{"", "count", false}, {"cuont", "count", true}, {"ocunt", "count", true}, {"coun", "count", true}, {"mount", "count", false},
		{"trade", "grade", false}, {"grader", "grade", false}, {"grades", "grade", true}, {"ggrade", "grade", true},
		{"source", "resource", false}, {"resourc", "resource", true}, {"limitqps", "limitapp", false}, {"limitap", "limitapp", true},
		{"tresholds", "threshold", true}, {"minthread", "maxthread", false}, {"treshhold", "threshold", true},
		{"minqueueingtimems", "maxqueueingtimems", false}, {"maxqueingtimems", "maxqueueingtimems", true},
		{"contorlbehvaior", "controlbehavior", true}, {"firstcount", "burstcount", false}, {"statintervalinms", "statintervalms", true},
	} {
		if got := near(c.name, c.known); got != c.want {
			t.Errorf("near(%q, %q) = %v", c.name, c.known, got)
		}
	}
}

// A fast path that rounds otherwise than strconv would change a rule on its way.
func FuzzParseFloat(f *testing.F) {
	for _, s := range []string{"0", "-0", "0.1", "123456789012345", "1234567890123456", "999999999999999", "0.000000000000001", "-12345.678", "1e5", "0.30000000000000004"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !isJSONNumber(s) {
			t.Skip()
		}
		want, err := strconv.ParseFloat(s, 64)
		got, ok := parseFloat([]byte(s))
		if ok != (err == nil) || ok && got != want || got == 0 && math.Signbit(got) {
			t.Errorf("parseFloat(%q) = %v, %v, want %v, %v", s, got, ok, want, err)
		}
	})
}

func FuzzParseInt(f *testing.F) {
	for _, s := range []string{"0", "-0", "500.0", "1e1", "1.0E10", "500.5", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e-3", "1000e-3", "0e999999999999", "1e18", "1e19"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !isJSONNumber(s) {
			t.Skip()
		}
		got, kind := parseInt([]byte(s))
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && (kind != isInteger || got != n) {
			t.Errorf("parseInt(%q) = %d, %d", s, got, kind)
		}
		if v, err := strconv.ParseFloat(s, 64); kind == isInteger && (err != nil || float64(got) != v) {
			t.Errorf("parseInt(%q) = %d, but it is %v", s, got, v)
		}
	})
}
