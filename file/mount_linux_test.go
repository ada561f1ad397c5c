package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rulewire/rulewire/writable"
)

// faults: F103
func TestFileThatIsAMountOfItsOwnIsNoted(t *testing.T) {
	dir := resolved(t)
	volume, path := filepath.Join(dir, "volume.json"), filepath.Join(dir, "with blank.json")
	write(t, volume, "v1")
	write(t, path, "")
	src := newFileSource(t, path)
	note := func() string {
		w := src.watch(nil)
		defer w.close()
		w.look()
		return src.Note()
	}
	if n := note(); n != "" {
		t.Errorf("note %q for a plain file, want none", n)
	}
	if err := syscall.Mount(volume, path, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("can't mount here: %v", err)
	}
	defer func() { must(t, syscall.Unmount(path, 0)) }()
	if n := note(); !strings.Contains(n, "subPath") {
		t.Errorf("note %q, want one that names subPath", n)
	}
	sink := newFileSink(t, path)
	doc, err := sink.Read(t.Context())
	must(t, err)
	_, err = sink.Write(t.Context(), []byte("v2"), doc.Revision)
	if !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "subPath") {
		t.Errorf("err = %v, want busy and why", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("folder holds %v, %v, want no leftovers", entries, err)
	}
}

// faults: F157
func TestReadOnlyMountIsAnErrorThatNamesConfigMaps(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("can't mount here: %v", err)
	}
	defer func() { must(t, syscall.Unmount(dir, 0)) }()
	_, err := newFileSink(t, filepath.Join(dir, "flow.json")).Write(t.Context(), []byte("[]"), writable.Absent)
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "ConfigMap") {
		t.Errorf("err = %v, want a read-only file system and why", err)
	}
}

// faults: F140
func TestLockFileServesWhereAFolderCanNotBeLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".flow.json.lock")
	unlock, err := lockFile(t.Context(), path)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := lockFile(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second lock: %v, want the end of its context", err)
	}
	unlock()
	unlock, err = lockFile(t.Context(), path)
	must(t, err)
	unlock()
}

// faults: F106
func TestExhaustedWatchesStillPoll(t *testing.T) {
	// A real limit: no file descriptor is left for an inotify instance.
	var old syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	path := filepath.Join(t.TempDir(), "flow.json")
	src := newFileSource(t, path)
	w := src.watch(nil)
	defer w.close()
	w.look() // whatever else needs a descriptor has it now
	low := old
	low.Cur = 0
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	other := newFileSource(t, path)
	w2 := other.watch(nil)
	defer w2.close()
	w2.look()
	note := other.Note()
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old))
	if !strings.Contains(note, "polling only") || !strings.Contains(note, "max_user_instances") {
		t.Errorf("note %q, want polling only and the limits", note)
	}
	w2.look()
	if note := other.Note(); note != "" {
		t.Errorf("note %q once there are descriptors, want none", note)
	}
}
