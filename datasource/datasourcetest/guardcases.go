package datasourcetest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// guardRow is a row of the guard table: what the store says while rules1 is in force, and what that must do.
type guardRow struct {
	name string
	// data is put; nil deletes.
	data []byte
	opts []datasource.Option
	// want are the rules in force afterwards; kept means rules1, with cause and is as the reason.
	want  string
	kept  bool
	cause datasource.Cause
	is    error
	// skipped is how many rules the status must name as left out.
	skipped int
	// pending: an operator may accept the candidate.
	pending bool
}

func keeps(name string, data []byte, cause datasource.Cause, is error, opts ...datasource.Option) guardRow {
	return guardRow{name: name, data: data, opts: opts, kept: true, cause: cause, is: is,
		pending: cause == datasource.CauseEmptyList || cause == datasource.CauseShrink}
}

func accepts(name string, data []byte, want string, opts ...datasource.Option) guardRow {
	return guardRow{name: name, data: data, opts: opts, want: want}
}

// skips accepts the document without one of its rules.
func skips(name string, data []byte, want string) guardRow {
	row := accepts(name, data, want, datasource.OnInvalid(datasource.SkipRule))
	row.skipped = 1
	return row
}

// The table is the same for every store; that is the point of it.
//
// faults: F003 F006 F009 F010 F016 F019 F021 F022 F023 F024 F026 F029 F056 F057 F060
func guardRows() []guardRow {
	const (
		missing = datasource.CauseMissing
		empty   = datasource.CauseEmpty
		list    = datasource.CauseEmptyList
		decode  = datasource.CauseDecode
		invalid = datasource.CauseInvalid
		shrink  = datasource.CauseShrink
	)
	skip := datasource.OnInvalid(datasource.SkipRule)
	text := func(s string) []byte { return []byte(s) }
	return []guardRow{
		keeps("Missing", nil, missing, datasource.ErrMissing),
		accepts("MissingCleared", nil, "", datasource.OnMissing(datasource.Clear)),
		keeps("ZeroBytes", []byte{}, empty, datasource.ErrDecode),
		keeps("Blanks", text(" \n\t "), empty, datasource.ErrDecode),
		keeps("Null", text("null"), empty, datasource.ErrDecode),
		keeps("EmptyString", text(`""`), empty, datasource.ErrDecode),
		keeps("ZeroBytesWithClear", []byte{}, empty, datasource.ErrDecode, datasource.OnMissing(datasource.Clear), datasource.OnEmptyList(datasource.Clear)),
		keeps("EmptyList", text("[]"), list, datasource.ErrRefused),
		accepts("EmptyListCleared", text("[]"), "", datasource.OnEmptyList(datasource.Clear)),
		keeps("NoJSON", text("nonsense"), decode, datasource.ErrDecode),
		keeps("HTML", text("<html><body>Please sign in</body></html>"), decode, datasource.ErrDecode),
		keeps("Gzip", gzipped(v2), decode, datasource.ErrDecode),
		keeps("WrongShape", text(`{"appId":"x","configurations":{"content":"[]"}}`), decode, datasource.ErrDecode),
		keeps("Truncated", v2[:len(v2)-5], decode, datasource.ErrDecode),
		keeps("NullRule", text("[null]"), decode, datasource.ErrDecode),
		keeps("TooLarge", document("big="+strings.Repeat("1", 300)), decode, datasource.ErrTooLarge, datasource.MaxBytes(200)),
		keeps("Invalid", text(`[{"resource":"a","count":9},{"resource":"","count":1},{"resource":"b","count":-1}]`), invalid, datasource.ErrInvalid),
		skips("InvalidSkipped", text(`[{"resource":"","count":1},{"resource":"a","count":9}]`), "a=9"),
		keeps("AllInvalidSkipped", text(`[{"resource":"","count":1},{"resource":"b","count":-1}]`), invalid, datasource.ErrInvalid, skip),
		keeps("Unsupported", text(`[{"resource":"a","count":9,"strategy":2,"refResource":"entry"}]`), invalid, datasource.ErrUnsupported),
		skips("UnsupportedSkipped", text(`[{"resource":"a","count":9,"strategy":2,"refResource":"entry"},{"resource":"c","count":2}]`), "c=2"),
		accepts("Shrink", document("fresh=1"), "fresh=1"),
		keeps("ShrinkLimited", document("fresh=1"), shrink, datasource.ErrRefused, datasource.MaxShrink(0.5)),
		accepts("EditLimited", document("seed=9 other=9"), "seed=9 other=9", datasource.MaxShrink(0.5)),
	}
}

func guardGroup() group {
	g := group{name: "Guard"}
	for _, row := range guardRows() {
		g.scenes = append(g.scenes, scene{row.name, row.play})
	}
	g.scenes = append(g.scenes,
		scene{"EmptyListFirst", guardEmptyListFirst},
		scene{"MissingFirst", guardMissingFirst},
		scene{"OlderRevision", guardOlderRevision},
		scene{"StaleEmptyWithClear", guardStaleEmptyWithClear})
	return g
}

// faults: F010
func guardEmptyListFirst(x *play) {
	x.put([]byte("[]"))
	l := x.start()
	l.wantUpdates("")
	if s := l.Status(); s.State != datasource.StateLive || s.Revision == "" {
		x.Errorf("state %s at revision %q, want live: no rules is what the store says", s.State, s.Revision)
	}
}

func guardMissingFirst(x *play) {
	l := x.start()
	l.wantUpdates()
	if s := l.Status(); s.Cause != datasource.CauseMissing || len(s.Refused) > 0 {
		x.Errorf("cause %q, refused %v, want missing and nothing refused", s.Cause, s.Refused)
	}
}

// A lagging server finds nothing, once: two reads must agree before rules go.
//
// faults: F012 F013
func guardStaleEmptyWithClear(x *play) {
	x.put(v1)
	i, src := x.intercept(x.source())
	l := x.startOver(src, datasource.OnMissing(datasource.Clear), datasource.OnEmptyList(datasource.Clear))
	l.inForce(x.latency(), rules1)
	now := x.read(src)
	i.answer(datasource.Document{Presence: datasource.Missing, Order: now.Order, Revision: now.Revision})
	_ = l.refresh()
	if err := l.refresh(); err != nil {
		x.Error("Refresh after the stale answer:", err)
	}
	l.neverWiped()
	l.inForce(x.latency(), rules1)
}

// play puts the row's document while rules1 is in force, and the good one afterwards.
func (row guardRow) play(x *play) {
	x.put(v1)
	l := x.start(row.opts...)
	l.inForce(x.latency(), rules1)
	before := l.Status()
	if row.data == nil {
		x.must(x.h.Delete())
	} else {
		x.put(row.data)
	}
	// Where two reads must agree, the second follows half a second after the first.
	within := x.latency() + closeLimit
	if !row.kept {
		l.inForceAs(within, row.want)
		if n := len(l.Status().Skipped); n != row.skipped {
			x.Errorf("the status names %d rules as left out, want %d", n, row.skipped)
		}
		return
	}
	x.eventually(within, func() string {
		s := l.Status()
		if s.Cause != row.cause || s.Refused[row.cause] != 1 || s.State != datasource.StateDegraded {
			return fmt.Sprintf("state %s, cause %q, refused %v, want degraded for cause %q, counted once", s.State, s.Cause, s.Refused, row.cause)
		}
		return ""
	})
	if err := l.refresh(); !errors.Is(err, row.is) || !errors.Is(err, datasource.ErrRefused) {
		x.Errorf("Refresh says %v, want %v", err, row.is)
	}
	s := l.Status()
	if s.Refused[row.cause] != 1 {
		x.Errorf("the same document was counted %d times", s.Refused[row.cause])
	}
	if s.Revision != before.Revision || s.Hash != before.Hash || s.Rules != before.Rules {
		x.Errorf("in force: revision %q with %d rules, before %q with %d: it moved", s.Revision, s.Rules, before.Revision, before.Rules)
	}
	if (s.Pending != nil) != row.pending {
		x.Errorf("pending: %v", s.Pending)
	}
	l.wantUpdates(rules1)

	x.put(v2)
	l.inForce(within, rules2)
	l.wantUpdates(rules1, rules2)
}

// inForceAs is inForce for a store that may say "missing" to it.
func (l *live) inForceAs(within time.Duration, rules string) {
	l.x.Helper()
	l.x.eventually(within, func() string {
		got := l.updates()
		s := l.Status()
		if len(got) != 2 || got[1] != rules || s.Counts.Applied != 2 || s.LastError != nil {
			return fmt.Sprintf("the listener was told %q (%s, %v), want %q, then %q", got, s.State, s.LastError, rules1, rules)
		}
		return ""
	})
}

// faults: F067 F143
func guardOlderRevision(x *play) {
	x.put(v1)
	i, src := x.intercept(x.source())
	old := x.read(src)
	if old.Order == 0 {
		x.skip("the store gives no order of revisions")
	}
	x.put(v2)
	l := x.startOver(src)
	l.inForce(x.latency(), rules2)
	i.answer(old)
	_ = l.refresh()
	if err := l.refresh(); err != nil {
		x.Error("Refresh after the old answer:", err)
	}
	l.wantUpdates(rules2)
	if s := l.Status(); s.Counts.Older != 1 || s.State != datasource.StateLive {
		x.Errorf("state %s, %d older documents counted, want live and 1", s.State, s.Counts.Older)
	}
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // to memory
	_ = w.Close()
	return b.Bytes()
}
