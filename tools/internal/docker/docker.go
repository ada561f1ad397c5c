// Package docker starts a Docker engine for one run of the tests, where there is none and one can be had.
package docker

import "errors"

// ErrCannot means that no engine can be set up on this machine.
var ErrCannot = errors.New("no Docker engine answers, and one is set up only for root on Debian or Ubuntu")

// ErrStart means that there is an engine, and that it does not start here.
var ErrStart = errors.New("the Docker engine does not start")
