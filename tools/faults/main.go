// Command faults writes docs/faults.md: each fault of docs/faults.txt, what Rulewire does about it, and the tests that
// prove it. A test says which faults it covers in a line of the comment directly above it:
//
//	// faults: F034 F037
//
// So may a case of a public test suite (a function of a package whose name ends in "test"): it runs for every store.
//
//	go run ./tools/faults            write docs/faults.md
//	go run ./tools/faults -check     fail if it is stale, or if a comment names an unknown fault
//	go run ./tools/faults -missing   list the faults that have neither a test nor a reason
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rulewire/rulewire/tools/internal/workspace"
)

const (
	tableFile = "docs/faults.txt"
	docFile   = "docs/faults.md"
)

// errStale means that docs/faults.md is not what its sources say.
var errStale = errors.New(docFile + " is stale: run go run ./tools/faults")

func main() {
	check := flag.Bool("check", false, "write nothing; fail if "+docFile+" is stale")
	strict := flag.Bool("strict", false, "with -check: fail also if a fault has neither a test nor a reason")
	missing := flag.Bool("missing", false, "write nothing; list the faults that have neither a test nor a reason")
	flag.Parse()
	if err := run(*check, *strict, *missing); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(check, strict, missing bool) error {
	root, err := workspace.Root()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, tableFile))
	if err != nil {
		return err
	}
	list, err := parseTable(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", tableFile, err)
	}
	covers, err := collect(os.DirFS(root))
	if err != nil {
		return err
	}
	if err := list.assign(covers); err != nil {
		return err
	}
	open := list.uncovered()
	if missing {
		for _, f := range open {
			fmt.Printf("%s %s\n", f.id, f.outcome)
		}
		return nil
	}
	doc := render(list)
	path := filepath.Join(root, docFile)
	if !check {
		return os.WriteFile(path, doc, 0o644)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(old, doc) {
		return errStale
	}
	if len(open) > 0 {
		fmt.Printf("%d faults have neither a test nor a reason; go run ./tools/faults -missing lists them\n", len(open))
		if strict {
			return fmt.Errorf("name them in a test, or say in %s why not yet", tableFile)
		}
	}
	return nil
}
