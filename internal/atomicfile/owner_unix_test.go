//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// faults: F157
func TestOwnerOfTheReplacedFileIsKept(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	path := filepath.Join(t.TempDir(), "flow.json")
	if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, 54321); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new"), Options{Mode: 0o600, Keep: true}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid != 12345 || st.Gid != 54321 || info.Mode() != 0o640 {
		t.Errorf("uid %d gid %d mode %v, want 12345, 54321, 0640", st.Uid, st.Gid, info.Mode())
	}
}
