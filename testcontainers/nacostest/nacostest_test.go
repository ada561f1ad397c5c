package nacostest

import (
	"testing"

	"go.uber.org/goleak"
)

// The log of a client of the SDK has a goroutine that nothing ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestServerKeepsItsAddressAndItsData(t *testing.T) {
	s := Run(t)
	if !s.Contained() {
		t.Skip("the server is not ours to kill")
	}
	c := Config{Group: "G", DataID: "k"}
	before := s.ServerConfigs()[0]
	must(t, s.Put(t.Context(), c, []byte("v1")))
	must(t, s.Kill(t.Context()))
	must(t, s.Start(t.Context()))
	must(t, s.Restart(t.Context()))
	if s.ServerConfigs()[0] != before {
		t.Error("the address changed")
	}
	if data, ok, err := s.Get(t.Context(), c); err != nil || !ok || string(data) != "v1" {
		t.Errorf("after kill and restart: %q %v %v", data, ok, err)
	}
	must(t, s.Delete(t.Context(), c))
	if _, ok, err := s.Get(t.Context(), c); err != nil || ok {
		t.Errorf("after delete: %v %v", ok, err)
	}
}
