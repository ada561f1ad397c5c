package datasourcetest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPushedStore(t *testing.T) { Run(t, Config{New: NewStoreHarness(Pushed), Bubble: true}) }

func TestHintedStore(t *testing.T) { Run(t, Config{New: NewStoreHarness(Hinted), Bubble: true}) }

func TestPulledStore(t *testing.T) { Run(t, Config{New: NewStoreHarness(Pulled), Bubble: true}) }
