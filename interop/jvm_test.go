package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// requireEnv turns a skipped test into a failed one.
const requireEnv = "RULEWIRE_REQUIRE_JAVA"

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// needJava skips the test where there is no Java, or fails it where Java is required.
func needJava(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv(requireEnv) == "1" {
				t.Fatalf("%s=1: %v", requireEnv, err)
			}
			t.Skip("needs a JDK and Maven: " + tool + " is not found")
		}
	}
}

// build compiles the Java side once for all tests and gives its class path.
var build = sync.OnceValues(func() (string, error) {
	// The first run downloads what Sentinel needs.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "compile")
	cmd.Dir = "java"
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn compile: %w\n%s", err, out)
	}
	libraries, err := os.ReadFile(filepath.Join("java", "target", "classpath"))
	if err != nil {
		return "", err
	}
	return filepath.Join("java", "target", "classes") + string(filepath.ListSeparator) + strings.TrimSpace(string(libraries)), nil
})

// jvm is a running Java side.
type jvm struct {
	t      *testing.T
	in     io.WriteCloser
	out    *bufio.Reader
	cmd    *exec.Cmd
	stderr *bytes.Buffer
}

// startJVM starts the Java side; properties are system properties, "name=value".
func startJVM(t *testing.T, properties ...string) *jvm {
	t.Helper()
	needJava(t)
	classpath, err := build()
	if err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	args := []string{"-cp", classpath, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dproject.name=rulewire",
		"-Dcsp.sentinel.log.dir=" + logs, "-Duser.home=" + logs, "-Dfile.encoding=UTF-8"}
	for _, p := range properties {
		args = append(args, "-D"+p)
	}
	j := &jvm{t: t, stderr: &bytes.Buffer{}}
	j.cmd = exec.Command("java", append(args, "rulewire.interop.Main")...)
	j.cmd.Stderr = j.stderr
	if j.in, err = j.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	j.out = bufio.NewReaderSize(out, 1<<20)
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = j.in.Close() // the program ends with its input
		kill := time.AfterFunc(20*time.Second, func() { _ = j.cmd.Process.Kill() })
		defer kill.Stop()
		if err := j.cmd.Wait(); err != nil {
			t.Errorf("java: %v\n%s", err, tail(j.stderr.Bytes()))
		}
	})
	return j
}

// question is what Main.java takes.
type question struct {
	Op       string `json:"op"`
	Kind     string `json:"kind"`
	Store    string `json:"store"`
	Path     string `json:"path,omitempty"`
	Host     string `json:"host,omitempty"`
	Port     int    `json:"port,omitempty"`
	Key      string `json:"key,omitempty"`
	Channel  string `json:"channel,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	Rules    string `json:"rules,omitempty"`
}

// answer is what Main.java gives: rules as Sentinel's classes print them.
type answer struct {
	Given json.RawMessage `json:"given"`
	Rules json.RawMessage `json:"rules"`
	Error string          `json:"error"`
}

var errJava = errors.New("java side")

func (j *jvm) ask(q question) (answer, error) {
	line, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	kill := time.AfterFunc(60*time.Second, func() { _ = j.cmd.Process.Kill() })
	defer kill.Stop()
	if _, err := j.in.Write(append(line, '\n')); err != nil {
		return answer{}, fmt.Errorf("%w: %w\n%s", errJava, err, tail(j.stderr.Bytes()))
	}
	text, err := j.out.ReadBytes('\n')
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w\n%s", errJava, err, tail(j.stderr.Bytes()))
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("%w: %w: %.200s", errJava, err, text)
	}
	if a.Error != "" {
		return a, fmt.Errorf("%w: %s", errJava, a.Error)
	}
	return a, nil
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }
