//go:build unix

package file

import (
	"errors"
	"fmt"
	"syscall"
)

// limits names the setting behind the two errors of inotify that name another thing.
func limits(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return err.Error() + " (open files, or fs.inotify.max_user_instances)"
	case errors.Is(err, syscall.ENOSPC):
		return err.Error() + " (fs.inotify.max_user_watches)"
	}
	return err.Error()
}

// mounted adds what to do about a target that a container runtime has mounted.
func mounted(err error) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w (a mounted ConfigMap or Secret can't be written; write it through the Kubernetes API)", err)
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%w (a file that is mounted on its own, as a subPath volume is, can't be replaced)", err)
	}
	return err
}
