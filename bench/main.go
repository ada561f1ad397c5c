// Command bench measures Rulewire beside what it replaces and prints one table: work, ours, theirs, ratio, budget, met.
//
// Both sides run in one process, in turns, several rounds; each ratio is the median over the rounds, so that a busy
// machine slows both sides alike. No time is asserted: the budgets are ratios, or counts, or are told as they are.
//
//	go run ./bench                  every row
//	go run ./bench -row unchanged   those whose name matches
//	go run ./bench -strict          exit 1 if a budget is not met
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// errBudget means that a row missed its budget.
var errBudget = errors.New("a budget was not met")

// row is one line of the table.
type row struct {
	work string
	// measure runs both sides. Its error says why there is no result.
	measure func(context.Context, settings) (result, error)
}

// result is what a row shows; met is judged by the row itself.
type result struct {
	ours, theirs, ratio, budget string
	met                         bool
}

// settings hold for every row.
type settings struct{ rounds int }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	testing.Init() // registers test.benchtime, which testing.Benchmark reads
	pattern := flag.String("row", "", "regular expression for the rows' names; empty means all")
	rounds := flag.Int("rounds", 7, "how often each side is measured")
	each := flag.Duration("time", 300*time.Millisecond, "how long one measurement takes")
	strict := flag.Bool("strict", false, "exit 1 if a budget is not met")
	flag.Parse()
	if err := flag.Set("test.benchtime", each.String()); err != nil {
		return err
	}
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	if *rounds < 1 {
		return fmt.Errorf("-rounds is %d, at least 1 is needed", *rounds)
	}
	var chosen []row
	for _, r := range rows() {
		if match.MatchString(r.work) {
			chosen = append(chosen, r)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no row matches %q", *pattern)
	}

	fmt.Fprintf(w, "%s %s/%s, %d processors, %d rounds\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), *rounds)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "work\tours\ttheirs\tratio\tbudget\tmet")
	missed := false
	for _, r := range chosen {
		fmt.Fprintln(os.Stderr, "measuring:", r.work)
		got, err := r.measure(ctx, settings{rounds: *rounds})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			missed = true
			fmt.Fprintf(table, "%s\t-\t-\t-\t-\tno: %v\n", r.work, err)
			continue
		}
		met := "yes"
		if !got.met {
			met, missed = "NO", true
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.work, got.ours, got.theirs, got.ratio, got.budget, met)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if missed && *strict {
		return errBudget
	}
	return nil
}
