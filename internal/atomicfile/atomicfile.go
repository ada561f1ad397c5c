// Package atomicfile replaces whole files. A reader, a second writer or a crash at any moment finds the old content or
// the new one, never a part: the bytes go to a temporary file beside the target, are forced to the disk, and take the
// target's name in one rename.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrNotDurable means that the new content is in place and seen by every reader, but that the directory could not be
// forced to the disk: a power cut may bring the old content back.
var ErrNotDurable = errors.New("written, but may not survive a power cut")

// Options say which permissions the new file gets.
type Options struct {
	// Mode is the mode of a file that was not there, and of every file if Keep is off. The umask does not touch it.
	Mode fs.FileMode
	// Keep gives the new file the mode and owner of the one it replaces.
	Keep bool
}

// Write replaces the file at path, which must not be a symbolic link (the link would be replaced).
func Write(path string, data []byte, o Options) error { return write(system{}, path, data, o) }

// disk holds the steps of a write, so that a test can break each of them.
type disk interface {
	stat(path string) (fs.FileInfo, error)
	create(dir, pattern string) (temp, error)
	owner(f temp, of fs.FileInfo) error
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error
}

type temp interface {
	Name() string
	Write(p []byte) (int, error)
	Chmod(mode fs.FileMode) error
	Chown(uid, gid int) error
	Sync() error
	Close() error
	Stat() (fs.FileInfo, error)
}

func write(d disk, path string, data []byte, o Options) (err error) {
	mode := o.Mode.Perm()
	var old fs.FileInfo
	if o.Keep {
		switch info, err := d.stat(path); {
		case err == nil:
			old, mode = info, info.Mode().Perm()
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	dir := filepath.Dir(path)
	f, err := d.create(dir, prefix(path)+"*"+suffix) // 0600: nobody else reads it before its mode is right
	if err != nil {
		return err
	}
	open := true
	defer func() {
		if err == nil || errors.Is(err, ErrNotDurable) {
			return
		}
		if open {
			_ = f.Close() // the write has failed already; its error is the one to tell
		}
		_ = d.remove(f.Name())
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if old != nil {
		// Owner before mode: a change of owner clears mode bits.
		if err := d.owner(f, old); err != nil {
			return fmt.Errorf("keep the owner of %s: %w", path, err)
		}
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	// Without this the rename may reach the disk before the bytes, and a power cut leaves an empty file.
	if err := f.Sync(); err != nil {
		return err
	}
	open = false
	if err := f.Close(); err != nil {
		return err
	}
	if err := d.rename(f.Name(), path); err != nil {
		return err
	}
	if err := d.syncDir(dir); err != nil {
		return fmt.Errorf("%w: %w", ErrNotDurable, err)
	}
	return nil
}

// MkdirAll makes dir and what is missing above it, and forces the new names to the disk.
func MkdirAll(dir string, mode fs.FileMode) error {
	switch info, err := os.Stat(dir); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := MkdirAll(parent, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// stale is the age from which a temporary file can only be what a killed write left.
const stale = time.Minute

// Sweep removes the temporary files that killed writes of path have left. It is best effort.
func Sweep(path string) {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix(path)) || !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > stale {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

const (
	suffix = ".rulewire-tmp"
	// maxBase keeps the temporary name within the 255 bytes that file systems allow.
	maxBase = 200
)

func prefix(path string) string {
	base := filepath.Base(path)
	// The star would be the place of the random part.
	return "." + strings.ReplaceAll(base[:min(len(base), maxBase)], "*", "_") + "."
}

// system is the real disk.
type system struct{}

func (system) stat(path string) (fs.FileInfo, error) { return os.Stat(path) }
func (system) create(dir, pattern string) (temp, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err // not f: a nil *os.File in an interface is not nil
	}
	return f, nil
}
func (system) owner(f temp, of fs.FileInfo) error { return keepOwner(f, of) }
func (system) rename(from, to string) error       { return os.Rename(from, to) }
func (system) remove(path string) error           { return os.Remove(path) }
func (system) syncDir(dir string) error           { return syncDir(dir) }
