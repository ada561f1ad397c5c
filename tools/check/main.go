// Command check is what "make test" and CI run: every check of the repository, over every module of go.work.
//
//	go run ./tools/check            all steps
//	go run ./tools/check vet lint   these steps only
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rulewire/rulewire/tools/internal/workspace"
)

// step is one check. It prints what it finds wrong, and its error says in one line what failed.
type step struct {
	name, what string
	run        func(context.Context, *checker) error
}

// steps in the order they run: quick ones first, so that a slip is told before the long ones start.
var steps = []step{
	{"format", "every Go file is as gofmt writes it", formatted},
	{"deps", "the root module depends on what was decided and on nothing else, and no backend builds another's client", deps},
	{"docs", "links in the documentation lead somewhere, and its index is complete", docs},
	{"faults", "docs/faults.md says what the tests say", faults},
	{"vet", "go vet", vet},
	{"lint", "staticcheck", lint},
	{"tidy", "go.mod and go.sum of every module are tidy", tidy},
	{"test", "every test, with the race detector", test},
	{"fuzz", "every fuzz target, a few seconds each", fuzz},
}

// asked are steps that run only when they are named.
var asked = []step{
	{"images", "local images of the stores' servers, built from packages", images},
}

type checker struct {
	root     string
	modules  []workspace.Module
	fuzzTime time.Duration
	timeout  time.Duration
	counts   counts
}

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
	c := &checker{}
	flag.DurationVar(&c.fuzzTime, "fuzztime", 4*time.Second, "how long each fuzz target runs")
	flag.DurationVar(&c.timeout, "timeout", 12*time.Minute, "how long the tests of one package may take")
	flag.Usage = usage
	flag.Parse()

	chosen, err := choose(flag.Args())
	if err != nil {
		return err
	}
	if c.root, err = workspace.Root(); err != nil {
		return err
	}
	if c.modules, err = workspace.Modules(ctx, c.root); err != nil {
		return err
	}

	start := time.Now()
	var failed []string
	for _, s := range chosen {
		fmt.Printf("== %s: %s\n", s.name, s.what)
		began := time.Now()
		if err := s.run(ctx, c); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			fmt.Printf("== %s FAILED: %v\n", s.name, err)
			failed = append(failed, s.name)
			continue
		}
		fmt.Printf("== %s ok, %s\n", s.name, time.Since(began).Round(100*time.Millisecond))
	}
	fmt.Printf("%d modules, %d steps, %s\n", len(c.modules), len(chosen), time.Since(start).Round(time.Second))
	if c.counts.total() > 0 {
		fmt.Println(c.counts)
	}
	if len(failed) > 0 {
		return errors.New(strings.Join(failed, ", "))
	}
	return nil
}

func choose(names []string) ([]step, error) {
	if len(names) == 0 {
		return steps, nil
	}
	var chosen []step
	for _, name := range names {
		all := slices.Concat(steps, asked)
		i := slices.IndexFunc(all, func(s step) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no step %q; -h lists them", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: go run ./tools/check [flags] [step ...]")
	for _, s := range slices.Concat(steps, asked) {
		fmt.Fprintf(os.Stderr, "  %-8s %s\n", s.name, s.what)
	}
	flag.PrintDefaults()
}
