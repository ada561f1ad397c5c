//go:build linux

package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// asNobody runs do on a thread that may not read other people's files, also when the tests run as root.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread is not unlocked: it ends with this goroutine, and nobody else gets its identity.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		do()
	}()
	<-done
}

// faults: F030
func TestForbiddenFileIsAnErrorThatSaysSo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "flow.json")
	write(t, path, "v1")
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chmod(path, 0))
	src := newFileSource(t, path)
	asNobody(t, func() {
		_, err := src.Read(t.Context())
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), path) {
			t.Errorf("err = %v, want one for the permission that names the file", err)
		}
	})
	must(t, os.Chmod(path, 0o644))
	asNobody(t, func() {
		doc, err := src.Read(t.Context())
		if err != nil || string(doc.Data) != "v1" {
			t.Errorf("read %q, %v after the permission came", doc.Data, err)
		}
	})
}

// faults: F157
func TestForbiddenFolderIsAnErrorOfTheSink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o555))
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	sink, err := NewSink(filepath.Join(dir, "flow.json"))
	must(t, err)
	asNobody(t, func() {
		_, err := sink.Write(t.Context(), []byte("[]"), "")
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("err = %v, want one for the permission", err)
		}
	})
}
