package workspace

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// execs finds the last count of executions in what go test -fuzz prints.
var execs = regexp.MustCompile(`execs: (\d+)`)

// Fuzz runs one target for a while and tells how many inputs it tried.
func Fuzz(ctx context.Context, root string, t FuzzTarget, d time.Duration) (string, error) {
	// Up to three times: the fuzzer sometimes reports the end of its own time as a failure of the target (golang/go 75804, in every Go before 1.27), and
	// then there is no failing input to show.
	var out []byte
	var err error
	for range 3 {
		out, err = fuzzOnce(ctx, root, t, d)
		if err == nil {
			break
		}
		if !bytes.Contains(out, []byte("context deadline exceeded")) || bytes.Contains(out, []byte("Failing input written")) {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", t.Package, t.Name, err, out)
	}
	counts := execs.FindAllSubmatch(out, -1)
	if len(counts) == 0 {
		return "", fmt.Errorf("%s %s: nothing was executed\n%s", t.Package, t.Name, out)
	}
	return fmt.Sprintf("%s executions in %s", counts[len(counts)-1][1], d), nil
}

func fuzzOnce(ctx context.Context, root string, t FuzzTarget, d time.Duration) ([]byte, error) {
	args := []string{"test", "-run", "^$", "-fuzz", "^" + t.Name + "$", "-fuzztime", d.String(), t.Package}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return out, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
