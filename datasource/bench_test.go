package datasource

import (
	"fmt"
	"strings"
	"testing"
)

// unchangedRun is a running state with a large document in force, without a goroutine.
func unchangedRun(tb testing.TB) (*run[limit], Document) {
	var b strings.Builder
	b.WriteString("[")
	for i := range 10_000 {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"Name":"/resource/with/a/usual/name/%05d","Max":%d}`, i, i)
	}
	b.WriteString("]")
	r, err := New(Source(&store{}), limits(), &engine{}, Logger(nil))
	if err != nil {
		tb.Fatal(err)
	}
	l := newRun(tb.Context(), r)
	tb.Cleanup(l.cancel)
	d := doc(0, b.String())
	d.Revision = "a"
	if err := l.consider(d, byRead, false); err != nil {
		tb.Fatal(err)
	}
	return l, d
}

func TestUnchangedDocumentCostsNoAllocation(t *testing.T) {
	l, d := unchangedRun(t)
	again := d
	again.Data = append([]byte(nil), d.Data...)
	again.Revision = "b"
	for name, doc := range map[string]Document{"same revision": d, "same bytes": again} {
		if n := testing.AllocsPerRun(10, func() {
			if err := l.consider(doc, byRead, false); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if l.r.status.Counts.Applied != 1 {
		t.Error("applied again")
	}
}

func BenchmarkUnchangedBytes(b *testing.B) {
	l, d := unchangedRun(b)
	again := d
	again.Data = append([]byte(nil), d.Data...)
	b.SetBytes(int64(len(d.Data)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		again.Revision = [2]string{"b", "c"}[i%2] // the revision moves, the bytes do not
		_ = l.consider(again, byRead, false)
	}
}

func BenchmarkUnchangedRevision(b *testing.B) {
	l, d := unchangedRun(b)
	b.ReportAllocs()
	for b.Loop() {
		_ = l.consider(d, byRead, false)
	}
}
