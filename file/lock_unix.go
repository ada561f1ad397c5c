//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// lock takes the lock that all sinks of the file at target take. It is the folder that is locked: the file changes its
// inode with every write, and a lock file would stay behind for ever, since whoever removes one may pull it from under
// a waiter. Only where a folder can't be locked (NFS asks for a file open for writing) it is a file beside the target.
func lock(ctx context.Context, target string) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(target))
	if err != nil {
		return nil, err
	}
	err = flock(ctx, dir)
	if err == nil {
		return func() { _ = dir.Close() }, nil // closing gives the lock back
	}
	_ = dir.Close()
	if !errors.Is(err, syscall.EBADF) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return nil, err
	}
	return lockFile(ctx, filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+".lock"))
}

func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(ctx, f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

func flock(ctx context.Context, f *os.File) error {
	return contend(ctx, func() (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			return false, nil
		}
		if err != nil {
			return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
		return true, nil
	})
}
