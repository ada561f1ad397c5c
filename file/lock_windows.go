package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Not in package syscall.
const (
	errSharingViolation = syscall.Errno(32)
	flagDeleteOnClose   = 0x04000000
)

// lock opens a file beside the target that nobody else may open meanwhile; the system closes and removes it, also when
// the process dies.
func lock(ctx context.Context, target string) (unlock func(), err error) {
	path := filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+".lock")
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	var h syscall.Handle
	err = contend(ctx, func() (bool, error) {
		h, err = syscall.CreateFile(name, syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS,
			syscall.FILE_ATTRIBUTE_NORMAL|flagDeleteOnClose, 0)
		if errors.Is(err, errSharingViolation) {
			return false, nil
		}
		if err != nil {
			return false, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return func() { _ = syscall.CloseHandle(h) }, nil
}
