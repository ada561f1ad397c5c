//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package file

import (
	"context"
	"fmt"
	"runtime"

	"github.com/rulewire/rulewire/datasource"
)

// lock refuses: without a lock a compare-and-set would promise what it can't keep.
func lock(context.Context, string) (unlock func(), err error) {
	return nil, fmt.Errorf("%w: no file locks on %s", datasource.ErrUnsupported, runtime.GOOS)
}
