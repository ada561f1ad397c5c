package main

import (
	"context"
	"fmt"

	"github.com/rulewire/rulewire/tools/internal/workspace"
)

// fuzz is a smoke test: it proves that the targets work and that the seeds pass. Long runs are "make fuzz".
func fuzz(ctx context.Context, c *checker) error {
	packages, err := workspace.Packages(ctx, c.root)
	if err != nil {
		return err
	}
	targets, err := workspace.FuzzTargets(packages)
	if err != nil {
		return err
	}
	failed := 0
	for _, t := range targets {
		run, err := workspace.Fuzz(ctx, c.root, t, c.fuzzTime)
		if err != nil {
			failed++
			fmt.Println(err)
			continue
		}
		fmt.Printf("ok  \t%s %s\t%s\n", t.Package, t.Name, run)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d targets", failed, len(targets))
	}
	fmt.Printf("%d fuzz targets\n", len(targets))
	return nil
}
