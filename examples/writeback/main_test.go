package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/apollo/apollotest"
)

// roleEnv makes the test binary the command itself.
const roleEnv = "RULEWIRE_EXAMPLE_STORE"

// patience bounds what another process may take.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if address := os.Getenv(roleEnv); address != "" {
		if err := run(context.Background(), []string{"-store", address}, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The client of Nacos's SDK, and the rotation of its log.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

// process is a running command.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func start(t *testing.T, address string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(exe), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+address)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the process as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	for range p.lines {
	}
	_ = p.cmd.Wait()
}

func (p *process) say(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, text+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for a line with this text.
func (p *process) wait(text string) string {
	p.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	var before []string
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the process ended before it said %q; it said %q", text, before)
			}
			if strings.Contains(line, text) {
				return line
			}
			before = append(before, line)
		case <-deadline.C:
			p.t.Fatalf("the process did not say %q; it said %q", text, before)
		}
	}
}

// Two processes on one file: an edit in one is in force in the other, and survives that both are killed.
//
// faults: F162 F164
func TestAnEditInOneProcessIsInForceInTheOtherAndSurvivesBoth(t *testing.T) {
	twoProcesses(t, "file://"+filepath.ToSlash(filepath.Join(t.TempDir(), "rules", "flow.json")))
}

// The same on Apollo.
//
// faults: F162 F164
func TestTwoProcessesOnApollo(t *testing.T) {
	server := apollotest.NewServer()
	t.Cleanup(server.Close)
	t.Setenv(tokenEnv, server.Token())
	server.Namespace("orders", "default", "sentinel")
	web := httptest.NewServer(server.Handler())
	t.Cleanup(web.Close)
	at := web.Listener.Addr().String()
	twoProcesses(t, "apollo://"+at+"/orders/sentinel/flow-rules?portal="+at)
}

func twoProcesses(t *testing.T, address string) {
	a, b := start(t, address), start(t, address)
	a.wait("ready: ")
	b.wait("ready: ")

	a.say("set /orders 20")
	a.wait(": /orders=20") // by the write, or by an echo that was faster
	a.wait("in force true")
	b.wait(": /orders=20")

	b.say("set /stock 5")
	b.wait("in force true")
	a.wait(": /orders=20 /stock=5")

	a.kill()
	b.kill()
	a, b = start(t, address), start(t, address)
	a.wait("ready: /orders=20 /stock=5")
	b.wait("ready: /orders=20 /stock=5")

	a.say("set /orders -1")
	a.wait("error: ")
	a.say("remove /orders")
	a.wait("in force true")
	b.wait(": /stock=5")
	b.say("clear")
	b.wait("in force true")
	a.wait("in force (by ")
	a.say("list")
	a.wait("in force: ")
	a.say("quit")
	b.say("nonsense")
	b.wait("error: want: set")
}

func TestAddressesOfStores(t *testing.T) {
	for _, address := range []string{"etcd://127.0.0.1:1/rules", "redis://127.0.0.1:1/0/rules?channel=c", "consul://127.0.0.1:1/rules",
		"nacos://127.0.0.1:1/SENTINEL_GROUP/rules?namespace=dev",
		"file://" + t.TempDir() + "/flow.json", "apollo://127.0.0.1:1/app/application/rules?portal=127.0.0.1:1",
		"apollo://127.0.0.1:1/app/flow.json/content?admin=127.0.0.1:1"} {
		s, err := open(address)
		if err != nil || s.source.ID() != s.sink.ID() {
			t.Errorf("%s: %v", address, err)
			continue
		}
		s.close()
	}
	for _, address := range []string{"", "file://", "nosuch://x/y", "redis://h/rules", "apollo://h/app/rules?admin=h", "apollo://h/app/space/rules", "nacos://h/G/d", "nacos://h:1/d", "%", "nacos://u:secret@h:port/G/d"} {
		if _, err := open(address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
