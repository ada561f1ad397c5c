package datasourcetest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPushedStore(t *testing.T) { Run(t, Config{New: NewStoreHarness(Pushed), Bubble: true}) }

func TestHintedStore(t *testing.T) { Run(t, Config{New: NewStoreHarness(Hinted), Bubble: true}) }

func TestPulledStore(t *testing.T) { Run(t, Config{New: NewStoreHarness(Pulled), Bubble: true}) }

func TestStoreSinks(t *testing.T) {
	for _, f := range []Flavour{Pushed, Hinted, Pulled} {
		t.Run(f.String(), func(t *testing.T) { RunSink(t, Config{New: NewStoreHarness(f), Bubble: true}) })
	}
}

// The suite in real time, as drivers with real I/O play it.
func TestPushedStoreInRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time")
	}
	Run(t, Config{New: NewStoreHarness(Pushed), Interval: 50 * time.Millisecond, Relist: 500 * time.Millisecond, Latency: time.Second})
}
