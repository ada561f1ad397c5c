//go:build !linux

package docker

import "context"

// Start can't set up an engine here.
func Start(context.Context) (stop func(), err error) { return nil, ErrCannot }
