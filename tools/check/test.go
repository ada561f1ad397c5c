package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rulewire/rulewire/tools/internal/docker"
	"github.com/rulewire/rulewire/tools/internal/workspace"
)

// errNoTest: a run that tested nothing must not look like a run in which all went well.
var errNoTest = errors.New("no test ran")

// endTime is how long go test may take to end when it is interrupted.
const endTime = 30 * time.Second

// counts are of top-level tests, examples and fuzz seeds.
type counts struct{ passed, failed, skipped int }

func (c counts) total() int { return c.passed + c.failed + c.skipped }

// String is the closing line that CI reads.
func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

// test runs every test of every module in one go command, so that packages of all modules share the two or more cores.
func test(ctx context.Context, c *checker) error {
	stop, err := c.containers(ctx, "-ensure")
	defer stop()
	switch {
	case errors.Is(err, docker.ErrCannot), errors.Is(err, docker.ErrStart):
		if err := skipped(err); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("container images: %w", err)
	}
	// One package more than there are cores: those with servers mostly wait for them.
	args := []string{"test", "-json", "-timeout", c.timeout.String(), "-p", strconv.Itoa(runtime.GOMAXPROCS(0) + 1)}
	if race(ctx) {
		args = append(args, "-race")
	} else {
		fmt.Println("no C compiler here, which the race detector needs: the tests run without it")
	}
	cmd := exec.CommandContext(ctx, "go", append(append(args, c.longest()...), "work")...)
	cmd.Dir = c.root
	cmd.Stderr = os.Stderr
	// Ended from outside, the tests get the time to remove their containers.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = endTime
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	got, readErr := report(os.Stdout, stdout)
	err = cmd.Wait()
	c.counts = got
	switch {
	case err != nil:
		return fmt.Errorf("%s (go test: %w)", got, err)
	case readErr != nil:
		return readErr
	case got.failed > 0:
		return errors.New(got.String())
	case got.passed == 0:
		return errNoTest
	}
	return nil
}

// longest are the packages that take longest. The go command begins with what is named first, and what began last would keep
// all others waiting.
func (c *checker) longest() []string {
	var there []string
	for _, dir := range []string{"testcontainers/nacostest", "apollo", "interop"} {
		if _, err := os.Stat(filepath.Join(c.root, dir)); err == nil {
			there = append(there, "./"+dir)
		}
	}
	return there
}

// race says whether the race detector can be built: it needs cgo, which the go command turns off without a compiler.
func race(ctx context.Context) bool {
	out, err := workspace.Output(ctx, ".", nil, "go", "env", "CGO_ENABLED")
	return err == nil && strings.TrimSpace(string(out)) == "1"
}

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// report writes what a person wants to read of a go test -json stream: a line per package, the output of what failed,
// and each reason for a skip once. Tests that pass stay quiet.
func report(w io.Writer, r io.Reader) (counts, error) {
	type key struct{ pkg, test string }
	var got counts
	outputs := map[key]*strings.Builder{}
	reasons := map[string]bool{}
	dec := json.NewDecoder(bufio.NewReader(r))
	for {
		var e event
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			// Let go test end by itself: its own error tells more than a broken pipe.
			_, _ = io.Copy(w, r)
			return got, fmt.Errorf("output of go test: %w", err)
		}
		k := key{e.Package, e.Test}
		switch {
		case e.Action == "build-output":
			fmt.Fprint(w, e.Output)
		case e.Action == "output" && e.Test == "":
			if e.Output != "PASS\n" {
				fmt.Fprint(w, e.Output)
			}
		case e.Action == "output":
			if outputs[k] == nil {
				outputs[k] = &strings.Builder{}
			}
			outputs[k].WriteString(e.Output)
		case e.Test == "":
		case e.Action == "fail":
			if b := outputs[k]; b != nil {
				fmt.Fprintf(w, "%s %s\n%s", e.Package, e.Test, b)
			}
		case e.Action == "skip":
			if b := outputs[k]; b != nil {
				if reason := skipReason(b.String()); !reasons[reason] {
					reasons[reason] = true
					fmt.Fprintf(w, "skipped %s %s: %s\n", e.Package, e.Test, reason)
				}
			}
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			delete(outputs, k)
		}
		// A subtest is a part of its test, but a skipped or failed one is counted so that it can't hide.
		switch sub := strings.Contains(e.Test, "/"); {
		case e.Test == "":
		case e.Action == "pass" && !sub:
			got.passed++
		case e.Action == "fail" && !sub:
			got.failed++
		case e.Action == "skip":
			got.skipped++
		}
	}
}

// skipReason takes the text of t.Skip out of a skipped test's output, where it follows "file_test.go:12: ".
func skipReason(output string) string {
	var kept []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if _, after, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok := strings.Cut(after, ": "); ok {
				line = text
			}
		}
		kept = append(kept, line)
	}
	if len(kept) == 0 {
		return "no reason given"
	}
	return strings.Join(kept, " ")
}
