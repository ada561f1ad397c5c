// Command writeback edits the flow rules of one store from any number of processes: what is typed into one is in force in
// all of them, and still there after each was killed and started again.
//
//	go run ./examples/writeback -store file:///tmp/rules/flow.json -name anna     # one terminal
//	go run ./examples/writeback -store file:///tmp/rules/flow.json -name ben      # another
//
//	set /orders 20     limit a resource to 20 calls per second
//	remove /orders     take its rules away
//	clear              no rules
//	list               what is in force here
//	quit
//
// Other stores: etcd://host:port/key, redis://host:port/db/key?channel=name, consul://host:port/key,
// nacos://host:port/group/dataid?namespace=id,
// apollo://host:port/app/namespace/key?portal=host:port&env=LOCAL&user=apollo with the token in RULEWIRE_APOLLO_TOKEN.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("writeback", flag.ContinueOnError)
	address := flags.String("store", "file:///tmp/rulewire/flow.json", "where the rules are kept")
	name := flags.String("name", "somebody", "who edits, for the history")
	if err := flags.Parse(args); err != nil {
		return err
	}
	st, err := open(*address)
	if err != nil {
		return err
	}
	defer st.close()

	s := &screen{out: out}
	conv := converter.JSON[rule.Flow]()
	manager := rule.NewManager[rule.Flow]()
	readable, err := datasource.New(st.source, conv, manager, datasource.Logger(nil),
		// All edits of this document come through Rulewire, so that an empty list is meant, also when others wrote it.
		datasource.OnEmptyList(datasource.Clear),
		datasource.WithObserver(datasource.ObserverFunc(func(e datasource.Event) {
			if e.Kind != datasource.EventApplied {
				return
			}
			s.say("in force (by %s): %s", e.Channel, show(manager.Rules()))
		})))
	if err != nil {
		return err
	}
	edit, err := writable.New(st.sink, conv, writable.Readable(readable), writable.Logger(nil))
	if err != nil {
		return err
	}
	if err := readable.Start(ctx); err != nil {
		return err
	}
	defer readable.Close()
	s.say("ready: %s", show(manager.Rules()))

	ctx = writable.WithActor(ctx, *name)
	for line := range lines(ctx, in) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "quit":
			return nil
		case words[0] == "list":
			s.say("in force: %s", show(manager.Rules()))
		default:
			result, err := do(ctx, edit, words)
			if err != nil {
				s.say("error: %v", err)
				continue
			}
			s.say("done: %s, revision %s to %s, in force %v", result.Changes.Summary(), result.From, result.Revision, result.InForce)
		}
	}
	return nil
}

var errUsage = errors.New("want: set RESOURCE COUNT, remove RESOURCE, clear, list or quit")

func do(ctx context.Context, edit *writable.Writable[rule.Flow], words []string) (writable.Result[rule.Flow], error) {
	switch {
	case words[0] == "set" && len(words) == 3:
		count, err := strconv.ParseFloat(words[2], 64)
		if err != nil {
			return writable.Result[rule.Flow]{}, errUsage
		}
		return edit.Edit(ctx, func(rules []rule.Flow) ([]rule.Flow, error) { return set(rules, words[1], count), nil })
	case words[0] == "remove" && len(words) == 2:
		return edit.Edit(ctx, func(rules []rule.Flow) ([]rule.Flow, error) {
			return slices.DeleteFunc(rules, func(r rule.Flow) bool { return r.Resource == words[1] }), nil
		})
	case words[0] == "clear" && len(words) == 1:
		return edit.Clear(ctx)
	}
	return writable.Result[rule.Flow]{}, errUsage
}

// set changes the limit of a resource and leaves all else of its rules as it is.
func set(rules []rule.Flow, resource string, count float64) []rule.Flow {
	found := false
	for i := range rules {
		if rules[i].Resource == resource {
			rules[i].Count, found = count, true
		}
	}
	if !found {
		rules = append(rules, rule.NewFlow(resource, count))
	}
	return rules
}

func show(rules []rule.Flow) string {
	parts := make([]string, len(rules))
	for i, r := range rules {
		parts[i] = r.Resource + "=" + strconv.FormatFloat(r.Count, 'g', -1, 64)
	}
	return strings.Join(parts, " ")
}

// screen keeps the lines of the observer and of the commands apart.
type screen struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// lines gives what is typed until in or ctx ends.
func lines(ctx context.Context, in io.Reader) <-chan string {
	c := make(chan string)
	go func() {
		defer close(c)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			select {
			case c <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return c
}
