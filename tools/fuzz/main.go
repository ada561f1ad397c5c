// Command fuzz runs every fuzz target whose name matches for a given time, one after the other.
//
//	go run ./tools/fuzz -time 10m            all targets, ten minutes each
//	go run ./tools/fuzz -target Flow         those with "Flow" in their name
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/rulewire/rulewire/tools/internal/workspace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	d := flag.Duration("time", time.Minute, "how long each target runs")
	pattern := flag.String("target", "", "regular expression for the targets' names; empty means all")
	flag.Parse()
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	root, err := workspace.Root()
	if err != nil {
		return err
	}
	packages, err := workspace.Packages(ctx, root)
	if err != nil {
		return err
	}
	targets, err := workspace.FuzzTargets(packages)
	if err != nil {
		return err
	}
	ran := 0
	for _, t := range targets {
		if !match.MatchString(t.Name) {
			continue
		}
		ran++
		result, err := workspace.Fuzz(ctx, root, t, *d)
		if err != nil {
			return err
		}
		fmt.Printf("ok  \t%s %s\t%s\n", t.Package, t.Name, result)
	}
	if ran == 0 {
		return fmt.Errorf("no fuzz target matches %q", *pattern)
	}
	return nil
}
