// Command backends measures on the real servers how long a write takes until the listener is called, beside a peer such as
// sentinel-golang's own data sources, and prints one table.
//
// The peer is a program that RULEWIRE_BENCH_PEER names, see peer.go; without it there is only our side. Both have a document and
// a client of their own, and their writes come in turns, so that a busy machine slows both alike. A write counts from before it is sent until the listener has the rules; how long
// the store took to acknowledge it is shown beside. The servers run in containers (package testcontainers), or are those
// that RULEWIRE_ETCD_ADDR and its like name; Apollo is measured where RULEWIRE_APOLLO_CONFIG_ADDR and
// RULEWIRE_APOLLO_ADMIN_ADDR name one, and always on the stand-in.
//
//	go run ./bench/backends                       every store
//	go run ./bench/backends -store 'etcd|redis'   those whose name matches
//	go run ./bench/backends -writes 200           fewer writes
//	go run ./bench/backends -keys 1000            goroutines, memory and connections of so many keys on one client
//	go run ./bench/backends -strict               exit 1 if a budget is not met
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
)

// errBudget means that a store missed its budget, or that measuring it failed. Where there is no server it is skipped.
var errBudget = errors.New("a budget was not met")

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
	testing.Init()
	pattern := flag.String("store", "", "regular expression for the stores' names; empty means all")
	writes := flag.Int("writes", 0, "writes to each side; 0 means 1,000, and 200 to Nacos and Apollo")
	keys := flag.Int("keys", 0, "measure what so many keys on one client take, instead of the writes")
	strict := flag.Bool("strict", false, "exit 1 if a budget is not met")
	flag.Parse()
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	if *writes < 0 || *keys < 0 {
		return fmt.Errorf("-writes is %d, -keys is %d", *writes, *keys)
	}
	if *keys > 0 {
		return keysTable(ctx, w, match, *keys, *strict)
	}
	fmt.Fprintf(w, "%s %s/%s, %d processors; write → listener called\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "store\tside\twrites\tlost\tp50\tp99\tmax\tacknowledged p50, p99\ttheirs/ours p50, p99\tbudget\tmet")
	var notes []string
	missed := false
	for _, s := range stores() {
		if !match.MatchString(s.name) {
			continue
		}
		if *writes > 0 {
			s.writes = *writes
		}
		fmt.Fprintln(os.Stderr, "measuring:", s.name)
		got, err := onServer(ctx, s)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			missed = missed || !errors.Is(err, errSkipped)
			notes = append(notes, fmt.Sprintf("%s: not measured: %v", s.name, err))
			continue
		}
		met := "yes"
		if !s.met(got) {
			met, missed = "NO", true
		}
		for i := range got {
			ratio, budget, verdict := "", "", ""
			if i == 0 {
				budget, verdict = s.budget(), met
				if len(got) > 1 {
					ratio = got[0].ratio(got[1])
				}
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", s.name, got[i].name, got[i].row(), ratio, budget, verdict)
		}
		if s.note != "" {
			notes = append(notes, s.name+": "+s.note)
		}
	}
	if peer() == "" {
		notes = append(notes, "no peer: "+peerEnv+" names no program")
	}
	return finish(w, table, notes, missed && *strict)
}

// finish prints the table, and the notes below it; failed is what -strict makes of it.
func finish(w io.Writer, table *tabwriter.Writer, notes []string, failed bool) error {
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(w, note)
	}
	if failed {
		return errBudget
	}
	return nil
}
