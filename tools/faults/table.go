package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	// errTable means that docs/faults.txt can't be read.
	errTable = errors.New("bad line")
	// errUnknown means that a comment names a fault that is not in the table.
	errUnknown = errors.New("unknown fault")
)

// fault is one line of the table and the tests that name it.
type fault struct {
	id, kind, outcome, reason string
	tests                     []cover
}

// table is docs/faults.txt in its order.
type table struct {
	kinds  []kind
	faults []*fault
}

type kind struct{ id, title string }

var (
	kindID  = regexp.MustCompile(`^K\d+$`)
	faultID = regexp.MustCompile(`^F\d{3}$`)
)

func parseTable(text string) (*table, error) {
	t := &table{}
	seen := map[string]bool{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		id := cells[0]
		if seen[id] {
			return nil, fmt.Errorf("line %d: %w: %s occurs twice", number, errTable, id)
		}
		switch {
		case kindID.MatchString(id) && len(cells) == 2:
			t.kinds = append(t.kinds, kind{id, cells[1]})
		case faultID.MatchString(id) && len(cells) == 4 && cells[2] != "":
			if !seen[cells[1]] {
				return nil, fmt.Errorf("line %d: %w: no kind %s above", number, errTable, cells[1])
			}
			t.faults = append(t.faults, &fault{id: id, kind: cells[1], outcome: cells[2], reason: cells[3]})
		default:
			return nil, fmt.Errorf("line %d: %w: %s", number, errTable, line)
		}
		seen[id] = true
	}
	if len(t.faults) == 0 {
		return nil, fmt.Errorf("%w: no fault at all", errTable)
	}
	return t, nil
}

// assign hands each test to the faults it names.
func (t *table) assign(covers []cover) error {
	byID := map[string]*fault{}
	for _, f := range t.faults {
		byID[f.id] = f
	}
	var errs []error
	for _, c := range covers {
		for _, id := range c.ids {
			f := byID[id]
			if f == nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w %s", c.position, c.name, errUnknown, id))
				continue
			}
			f.tests = append(f.tests, c)
		}
	}
	for _, f := range t.faults {
		slices.SortFunc(f.tests, func(a, b cover) int { return strings.Compare(a.String(), b.String()) })
	}
	return errors.Join(errs...)
}

// uncovered are the faults that neither a test names nor a reason excuses.
func (t *table) uncovered() []*fault {
	var open []*fault
	for _, f := range t.faults {
		if len(f.tests) == 0 && f.reason == "" {
			open = append(open, f)
		}
	}
	return open
}

func render(t *table) []byte {
	var b bytes.Buffer
	covered, waiting := 0, 0
	for _, f := range t.faults {
		switch {
		case len(f.tests) > 0:
			covered++
		case f.reason != "":
			waiting++
		}
	}
	fmt.Fprintf(&b, `# Faults, and the tests that cover each

<!-- Made by tools/faults from docs/faults.txt and the "faults:" comments above the tests. Do not edit. -->

What users of rule and configuration delivery met elsewhere, and what Rulewire does instead. %d faults: %d covered by
tests, %d waiting for a later issue, %d open. A test is named by its package's folder and its function; a case of a
public suite runs for every store that calls the suite.
`, len(t.faults), covered, waiting, len(t.faults)-covered-waiting)
	for _, k := range t.kinds {
		fmt.Fprintf(&b, "\n## %s. %s\n\n| fault | Rulewire | tests |\n|---|---|---|\n", k.id, k.title)
		for _, f := range t.faults {
			if f.kind != k.id {
				continue
			}
			names := make([]string, 0, len(f.tests))
			for _, c := range f.tests {
				names = append(names, "`"+c.String()+"`")
			}
			cell := strings.Join(names, ", ")
			switch {
			case cell == "" && f.reason != "":
				cell = "not yet: " + f.reason
			case cell == "":
				cell = "open"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", f.id, f.outcome, cell)
		}
	}
	return b.Bytes()
}
