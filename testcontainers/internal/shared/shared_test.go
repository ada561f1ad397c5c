package shared

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/testcontainers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServerOutlivesTheTestThatStartedIt(t *testing.T) {
	var calls []string
	s := New(func(t testing.TB) string {
		calls = append(calls, "start")
		t.Cleanup(func() { calls = append(calls, "stop") })
		t.Cleanup(func() {
			calls = append(calls, "disconnect")
			t.Errorf("would %s", "not")
		})
		return "server"
	})
	if err := s.End(); err != nil {
		t.Error("before the start:", err)
	}
	for range 2 {
		t.Run("user", func(t *testing.T) {
			if got := s.Get(t); got != "server" {
				t.Errorf("got %q", got)
			}
		})
	}
	if want := []string{"start"}; !slices.Equal(calls, want) {
		t.Errorf("before the end: %q", calls)
	}
	if s.owner.Context().Err() != nil {
		t.Error("the server's context ended with the first test")
	}
	err := s.End()
	if want := []string{"start", "disconnect", "stop"}; !slices.Equal(calls, want) || err == nil || err.Error() != "would not" {
		t.Errorf("%q, %v", calls, err)
	}
	if again := s.End(); len(calls) != 3 || !errors.Is(again, err) && again.Error() != err.Error() {
		t.Errorf("twice: %q, %v", calls, again)
	}
}

// TestHelperSuite is what TestEverySkippedSuiteIsAFailureInCI runs in a process of its own: two suites that share a server.
func TestHelperSuite(t *testing.T) {
	if os.Getenv("RULEWIRE_TEST_HELPER") == "" {
		t.Skip("only for TestEverySkippedSuiteIsAFailureInCI")
	}
	s := New(func(t testing.TB) int {
		testcontainers.Require(t)
		return 1
	})
	t.Run("First", func(t *testing.T) { s.Get(t) })
	t.Run("Second", func(t *testing.T) { s.Get(t) })
}

func TestEverySkippedSuiteIsAFailureInCI(t *testing.T) {
	for value, want := range map[string]string{"": "--- SKIP: ", "1": "--- FAIL: "} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHelperSuite$", "-test.v")
		cmd.Env = append(os.Environ(), "RULEWIRE_TEST_HELPER=1", "DOCKER_HOST=unix:///nowhere", testcontainers.RequireEnv+"="+value)
		out, err := cmd.CombinedOutput()
		for _, name := range []string{"First", "Second"} {
			if !strings.Contains(string(out), want+"TestHelperSuite/"+name) {
				t.Errorf("%s=%q: %v\n%s", testcontainers.RequireEnv, value, err, out)
			}
		}
		if failed := err != nil; failed != (value == "1") {
			t.Errorf("%s=%q: %v", testcontainers.RequireEnv, value, err)
		}
	}
}
