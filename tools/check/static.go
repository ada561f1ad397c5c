package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// formatted compares with go/format instead of calling gofmt, which not every Go installation puts on PATH.
func formatted(_ context.Context, c *checker) error {
	bad, files := 0, 0
	err := filepath.WalkDir(c.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			// Hidden folders and testdata are not Go's, and go ignores them too.
			if path != c.root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(c.root, path)
		want, err := format.Source(text)
		switch {
		case err != nil:
			bad++
			fmt.Printf("%s: %v\n", rel, err)
		case !bytes.Equal(text, want):
			bad++
			fmt.Printf("%s: not formatted; run gofmt -w %s\n", rel, rel)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if files == 0 {
		return errors.New("found no Go file")
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d files", bad, files)
	}
	return nil
}

func vet(ctx context.Context, c *checker) error {
	return pass(ctx, c.root, "go", "vet", "work")
}

// lint runs the staticcheck that tools/go.mod pins.
func lint(ctx context.Context, c *checker) error {
	return pass(ctx, c.root, "go", "tool", "staticcheck", "work")
}

// tidy runs for each module alone, as a user's go command sees it.
func tidy(ctx context.Context, c *checker) error {
	var bad []string
	for _, m := range c.modules {
		if err := pass(ctx, m.Dir, "go", "mod", "tidy", "-diff"); err != nil {
			fmt.Printf("%s: run go mod tidy there\n", m.Rel)
			bad = append(bad, m.Rel)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("modules %s", strings.Join(bad, ", "))
	}
	return nil
}

func faults(ctx context.Context, c *checker) error {
	return pass(ctx, c.root, "go", "run", "./tools/faults", "-check")
}

// pass runs a command whose output is shown as it is.
func pass(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
