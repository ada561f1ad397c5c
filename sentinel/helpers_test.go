package sentinel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alibaba/sentinel-golang/core/circuitbreaker"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/core/hotspot"
	"github.com/alibaba/sentinel-golang/core/isolation"
	"github.com/alibaba/sentinel-golang/core/system"
	"github.com/alibaba/sentinel-golang/logging"
	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/datasource"
)

func TestMain(m *testing.M) {
	logging.ResetGlobalLoggerLevel(logging.ErrorLevel) // the core prints every rule at info
	goleak.VerifyTestMain(m)
}

// document is a source in memory.
type document struct {
	id string

	mu   sync.Mutex
	data []byte // nil = missing
	err  error
	n    int
}

func doc(id, data string) *document { return &document{id: id, data: []byte(data), n: 1} }

func (d *document) ID() string { return d.id }

func (d *document) Read(context.Context) (datasource.Document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.err != nil:
		return datasource.Document{}, d.err
	case d.data == nil:
		return datasource.Document{Presence: datasource.Missing}, nil
	}
	return datasource.Document{Presence: datasource.Present, Data: d.data, Revision: fmt.Sprint(d.n), Order: uint64(d.n)}, nil
}

func (d *document) set(data string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.data, d.err, d.n = []byte(data), nil, d.n+1
}

var errDown = errors.New("store is down")

// clean empties the core's managers, which are global, before and after a test.
func clean(t *testing.T) {
	t.Helper()
	empty := func() {
		for _, clear := range []func() error{flow.ClearRules, isolation.ClearRules, circuitbreaker.ClearRules, system.ClearRules, hotspot.ClearRules} {
			if err := clear(); err != nil {
				t.Error(err)
			}
		}
	}
	empty()
	t.Cleanup(empty)
}

// opened is what open has opened last in each test; tests of this package do not run in parallel, the core is global.
var opened *Rules

// open opens parts for the length of the test, or until the same test opens something else.
func open(t *testing.T, parts ...Part) *Rules {
	t.Helper()
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	clean(t)
	opened = openBeside(t, parts...)
	return opened
}

func openBeside(t *testing.T, parts ...Part) *Rules {
	t.Helper()
	rules, err := Open(t.Context(), append([]Part{Logger(slog.New(slog.DiscardHandler))}, parts...)...)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := rules.Close(); err != nil {
			t.Error(err)
		}
	})
	return rules
}

func refresh(t *testing.T, rules *Rules) {
	t.Helper()
	if err := rules.Refresh(t.Context()); err != nil {
		t.Fatalf("Refresh: %v", err)
	}
}

// refused refreshes and wants an error that wraps target and names each text.
func refused(t *testing.T, rules *Rules, target error, texts ...string) {
	t.Helper()
	err := rules.Refresh(t.Context())
	if !errors.Is(err, target) {
		t.Fatalf("Refresh: %v, want %v", err, target)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the refusal does not name %q: %v", text, err)
		}
	}
}

func liveFlow() string {
	var parts []string
	for _, r := range flow.GetRules() {
		parts = append(parts, fmt.Sprintf("%s=%g", r.Resource, r.Threshold))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func liveIsolation() string {
	var parts []string
	for _, r := range isolation.GetRules() {
		parts = append(parts, fmt.Sprintf("%s=%d", r.Resource, r.Threshold))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}
