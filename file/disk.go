package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// ident is what a file looks like from outside: when it differs, the content may differ. The zero value is "no such
// file". Where the system has no inode numbers or change times (Windows), dev, ino and changed are zero.
type ident struct {
	exists   bool
	dev, ino uint64
	size     int64
	modified int64 // mtime, ns
	changed  int64 // ctime, ns: moves also when mtime was set back and when the file was renamed
	// odd marks a path that can't be looked at or is no regular file; it equals no state that was ever read.
	odd bool
}

// sameFile reports that a and b are one inode: what lies between them was written in place.
func (a ident) sameFile(b ident) bool {
	return a.exists && b.exists && a.dev == b.dev && a.ino == b.ino
}

// sameBytes reports that one open file was not written between a and b. The change time is left out: replacing the
// name moves it on the old inode, whose bytes stay whole.
func (a ident) sameBytes(b ident) bool {
	return a.sameFile(b) && a.size == b.size && a.modified == b.modified
}

// touched is the last moment of which the file system tells.
func (a ident) touched() time.Time { return time.Unix(0, max(a.modified, a.changed)) }

// disk is the file system under a source, so that tests can script it.
type disk interface {
	// stat follows symbolic links. A file that is not there is the zero ident; a folder or device is an error.
	stat(path string) (ident, error)
	// open gives an error that wraps fs.ErrNotExist for a file that is not there.
	open(path string) (handle, error)
}

type handle interface {
	io.ReadCloser
	stat() (ident, error)
}

type realDisk struct{}

func (realDisk) stat(path string) (ident, error) {
	info, err := os.Stat(path)
	if err != nil {
		if absent(err) {
			return ident{}, nil
		}
		return ident{}, err
	}
	return identOf(path, info)
}

func (realDisk) open(path string) (handle, error) {
	f, err := os.Open(path)
	if err != nil {
		if absent(err) {
			return nil, fs.ErrNotExist
		}
		return nil, err
	}
	return realFile{f}, nil
}

type realFile struct{ *os.File }

func (f realFile) stat() (ident, error) {
	info, err := f.Stat()
	if err != nil {
		return ident{}, err
	}
	return identOf(f.Name(), info)
}

func identOf(path string, info fs.FileInfo) (ident, error) {
	if info.IsDir() {
		return ident{}, fmt.Errorf("%s is a folder, not a rule document", path)
	}
	if !info.Mode().IsRegular() {
		// A pipe would block the read for ever.
		return ident{}, fmt.Errorf("%s is not a regular file (%s)", path, info.Mode().Type())
	}
	id := ident{exists: true, size: info.Size(), modified: info.ModTime().UnixNano()}
	inode(&id, info)
	return id, nil
}

// absent tells "there is no such file" from other failures; a file where a folder should be counts as absent.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// explain adds who asked, which "permission denied" does not tell.
func explain(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w (this process runs as uid %d)", datasource.ErrDenied, err, os.Geteuid())
	}
	return err
}
