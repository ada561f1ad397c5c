package testcontainers

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestHelperRequire is what TestRequire runs in processes of their own, because an engine is looked for once.
func TestHelperRequire(t *testing.T) {
	if os.Getenv("RULEWIRE_TEST_HELPER") == "" {
		t.Skip("only for TestRequire")
	}
	Require(t)
}

func TestRequireSkipsOrFailsWithoutAnEngine(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"", "--- SKIP: TestHelperRequire"},
		{"1", "--- FAIL: TestHelperRequire"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHelperRequire$", "-test.v")
		cmd.Env = append(os.Environ(), "RULEWIRE_TEST_HELPER=1", "DOCKER_HOST=unix:///nowhere", RequireEnv+"="+c.value)
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), c.want) || !strings.Contains(string(out), ErrNoEngine.Error()) {
			t.Errorf("%s=%q: %v\n%s", RequireEnv, c.value, err, out)
		}
		if failed := err != nil; failed != (c.value == "1") {
			t.Errorf("%s=%q: %v", RequireEnv, c.value, err)
		}
	}
}

func TestExternalServerHasLinksButNoProcess(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer listener.Close()
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello\n")
			_ = conn.Close()
		}
	})
	n := External(t, "greeter", map[int]string{1: listener.Addr().String()})
	greet := func(addr string) (string, error) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return bufio.NewReader(conn).ReadString('\n')
	}
	if got, err := greet(n.Addr(1)); err != nil || got != "hello\n" {
		t.Errorf("got %q, %v", got, err)
	}
	n.Link(1).Cut()
	if got, err := greet(n.Addr(1)); err == nil {
		t.Errorf("a cut link answers %q", got)
	}
	if got, err := greet(n.Admin(1)); err != nil || got != "hello\n" {
		t.Errorf("by the other way: %q, %v", got, err)
	}
	if n.Contained() {
		t.Error("a server elsewhere is taken for ours")
	}
	for name, f := range map[string]func(context.Context) error{
		"stop": n.Stop, "kill": n.Kill, "start": n.Start, "restart": n.Restart, "pause": n.Pause, "resume": n.Resume, "renew": n.Renew,
	} {
		if err := f(t.Context()); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "greeter") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestServerThatNeverAnswersIsAnError(t *testing.T) {
	Require(t)
	image := RedisImage(t)
	ctx, cancel := context.WithCancel(t.Context())
	n := Run(t, Spec{Name: "redis", Image: image, Command: []string{"/usr/local/bin/redis-server"}, Ports: []int{6379}})
	n.spec.Ready = func(context.Context, *Node) error {
		cancel()
		return io.ErrUnexpectedEOF
	}
	if err := n.ready(ctx); !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
