package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/rulewire/rulewire/tools/internal/docker"
	"github.com/rulewire/rulewire/tools/internal/workspace"
)

const (
	// requireEnv turns skipped container suites into a failure, here and in the suites themselves.
	requireEnv = "RULEWIRE_REQUIRE_CONTAINERS"
	// exitNoEngine is how testcontainers/cmd/images says that no Docker engine answers.
	exitNoEngine = 3
)

// images builds the local images of all stores, also where official ones could be had.
func images(ctx context.Context, c *checker) error {
	stop, err := c.containers(ctx)
	stop()
	return err
}

// containers makes ready what the container suites need: a Docker engine, set up for this run where there is none, and
// an image of each store. Its error wraps docker.ErrCannot where the suites can only be skipped. stop is never nil.
func (c *checker) containers(ctx context.Context, args ...string) (stop func(), err error) {
	stop = func() {}
	if !slices.ContainsFunc(c.modules, func(m workspace.Module) bool { return m.Rel == "testcontainers" }) {
		return stop, nil
	}
	// Built and run by itself: "go run" hides the exit code.
	dir, err := os.MkdirTemp("", "rulewire-check-")
	if err != nil {
		return stop, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "images")
	if err := pass(ctx, c.root, "go", "build", "-o", program, "./testcontainers/cmd/images"); err != nil {
		return stop, err
	}
	run := func() error { return pass(ctx, c.root, program, args...) }
	err = run()
	if !noEngine(err) {
		return stop, err
	}
	fmt.Println("setting one up for this run")
	started, err := docker.Start(ctx)
	if err != nil {
		return stop, err
	}
	return started, run()
}

func noEngine(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == exitNoEngine
}

// skipped tells once why the container suites will be skipped, or fails if they must not be.
func skipped(reason error) error {
	if os.Getenv(requireEnv) == "1" {
		return fmt.Errorf("%s=1: %w", requireEnv, reason)
	}
	fmt.Println("container suites are skipped:", reason)
	return nil
}
