package datasourcetest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// harness is how the suite plays with a backend: here one that keeps its documents in a Store, as if in a server.
type harness struct {
	server *datasourcetest.Store
	key    string
}

// newHarness makes the harness of one case: a client, and a document that nobody else uses.
func newHarness(t testing.TB) datasourcetest.Harness {
	h := harness{server: datasourcetest.NewStore(), key: "sentinel/" + t.Name()}
	t.Cleanup(func() { _ = h.server.Close() })
	return h
}

// Source calls the driver's constructor.
func (h harness) Source() (datasource.Source, error) {
	return h.server.Source(h.key, datasourcetest.Pushed), nil
}

// Put and Delete are somebody else's edits.
func (h harness) Put(data []byte) error { h.server.Put(h.key, data); return nil }

func (h harness) Delete() error { h.server.Delete(h.key); return nil }

// Break and Heal make it a Breaker: the cases about broken links are played, too.
func (h harness) Break() error { h.server.Break(datasourcetest.ErrBroken); return nil }

func (h harness) Heal() error { h.server.Heal(); return nil }

// Sink makes it a Sinker, for RunSink.
func (h harness) Sink() (writable.Sink, error) {
	return h.server.Sink(h.key, datasourcetest.Pushed), nil
}

// A backend's test file starts like this. Bubble is only for stores without real I/O.
func Example() {
	_ = func(t *testing.T) { // TestConformance
		datasourcetest.Run(t, datasourcetest.Config{New: newHarness, Bubble: true})
	}
	_ = func(t *testing.T) { // TestSinkConformance
		datasourcetest.RunSink(t, datasourcetest.Config{New: newHarness, Bubble: true})
	}
}

// The store serves users' own tests, too: here rules survive a read that fails.
func ExampleStore() {
	store := datasourcetest.NewStore()
	store.Put("orders/flow", []byte(`[{"resource":"/orders","count":10}]`))

	listener := property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
		fmt.Println(len(rules), "rule for", rules[0].Resource)
		return nil
	})
	source := store.Source("orders/flow", datasourcetest.Pulled)
	rules, err := datasource.New(source, converter.JSON[rule.Flow](), listener, datasource.Logger(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rules.Close()
	if err := rules.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}

	store.Inject(datasourcetest.Faults{Reads: datasourcetest.ErrBroken})
	fmt.Println(rules.Refresh(context.Background()))
	fmt.Println(rules.Status().Rules, "rule in force")
	// Output:
	// 1 rule for /orders
	// read memory:orders/flow at revision 1: read orders/flow: datasourcetest: link is broken
	// 1 rule in force
}

func TestExampleHarness(t *testing.T) {
	datasourcetest.Run(t, datasourcetest.Config{New: newHarness, Bubble: true})
	datasourcetest.RunSink(t, datasourcetest.Config{New: newHarness, Bubble: true})
}
