package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken on purpose")

// broken fails at one step of a write.
type broken struct {
	system
	step string
}

type brokenTemp struct {
	temp
	step string
}

func (b broken) fails(step string) error {
	if b.step == step {
		return errBroken
	}
	return nil
}

func (b broken) stat(path string) (fs.FileInfo, error) {
	if err := b.fails("stat"); err != nil {
		return nil, err
	}
	return b.system.stat(path)
}

func (b broken) create(dir, pattern string) (temp, error) {
	if err := b.fails("create"); err != nil {
		return nil, err
	}
	f, err := b.system.create(dir, pattern)
	return brokenTemp{f, b.step}, err
}

func (b broken) owner(f temp, of fs.FileInfo) error {
	return errors.Join(b.fails("owner"), b.system.owner(f, of))
}

func (b broken) rename(from, to string) error {
	if err := b.fails("rename"); err != nil {
		return err
	}
	return b.system.rename(from, to)
}

func (b broken) syncDir(dir string) error {
	return errors.Join(b.fails("syncDir"), b.system.syncDir(dir))
}

func (t brokenTemp) Write(p []byte) (int, error) {
	if t.step == "write" { // the disk is full half way
		n, err := t.temp.Write(p[:len(p)/2])
		return n, errors.Join(errBroken, err)
	}
	return t.temp.Write(p)
}

func (t brokenTemp) Chmod(mode fs.FileMode) error {
	if t.step == "chmod" {
		return errBroken
	}
	return t.temp.Chmod(mode)
}

func (t brokenTemp) Sync() error {
	if t.step == "sync" {
		return errBroken
	}
	return t.temp.Sync()
}

func (t brokenTemp) Close() error {
	err := t.temp.Close()
	if t.step == "close" {
		return errBroken
	}
	return err
}

func list(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// faults: F158
func TestFailureAtAnyStepLeavesTheOldContentAndNoLitter(t *testing.T) {
	for _, step := range []string{"stat", "create", "write", "owner", "chmod", "sync", "close", "rename"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "flow.json")
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := write(broken{step: step}, path, []byte("new content"), Options{Mode: 0o600, Keep: true})
			if !errors.Is(err, errBroken) || errors.Is(err, ErrNotDurable) {
				t.Errorf("err = %v, want the cause", err)
			}
			if got := content(t, path); got != "old" {
				t.Errorf("content = %q, want the old", got)
			}
			if got := list(t, dir); got != "flow.json" {
				t.Errorf("folder holds %q, want the file alone", got)
			}
		})
	}
}

// faults: F158
func TestUnsyncedFolderIsToldApartFromAFailedWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "flow.json")
	err := write(broken{step: "syncDir"}, path, []byte("new"), Options{Mode: 0o600})
	if !errors.Is(err, ErrNotDurable) || !errors.Is(err, errBroken) {
		t.Errorf("err = %v, want ErrNotDurable and the cause", err)
	}
	if got := content(t, path); got != "new" {
		t.Errorf("content = %q, want the new", got)
	}
	if got := list(t, dir); got != "flow.json" {
		t.Errorf("folder holds %q, want the file alone", got)
	}
}

// faults: F157
func TestModeOfTheReplacedFileIsKeptWhateverTheUmask(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o666, 0o755} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "flow.json")
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			if err := Write(path, []byte("new"), Options{Mode: 0o600, Keep: true}); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != mode {
				t.Errorf("mode = %v, want %v", info.Mode(), mode)
			}
		})
	}
}

// faults: F158
func TestSweepTakesOnlyOldTemporaryFilesOfItsTarget(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "flow.json")
	old := time.Now().Add(-2 * stale)
	for name, at := range map[string]time.Time{
		".flow.json.123.rulewire-tmp":    old,        // what a killed write left
		".flow.json.456.rulewire-tmp":    time.Now(), // a write under way
		".degrade.json.12.rulewire-tmp":  old,        // another target's
		".flow.json.rulewire-tmp.backup": old,        // somebody's own
		"flow.json":                      old,
	} {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(p, at, at); err != nil {
			t.Fatal(err)
		}
	}
	Sweep(path)
	want := ".degrade.json.12.rulewire-tmp .flow.json.456.rulewire-tmp .flow.json.rulewire-tmp.backup flow.json"
	if got := list(t, dir); got != want {
		t.Errorf("left %q, want %q", got, want)
	}
}

// faults: F157
func TestLongNamesLeaveRoomForTheTemporaryOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	if err := Write(path, []byte("x"), Options{Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if got := content(t, path); got != "x" {
		t.Errorf("content = %q", got)
	}
}

// faults: F157
func TestMissingFoldersAreMade(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	if err := MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := MkdirAll(dir, 0o700); err != nil {
		t.Errorf("second time: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MkdirAll(filepath.Join(root, "file"), 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file in the way: err = %v, want ErrExist", err)
	}
}
