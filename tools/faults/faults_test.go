package main

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
)

const smallTable = `
K1 | Absence
F001 | K1 | keeps the rules |
F002 | K1 | waits | later issue
`

func TestCommentsBecomeRows(t *testing.T) {
	root := fstest.MapFS{
		"file/file_test.go": {Data: []byte("package file\n\n// TestKeep keeps.\n// faults: F001\nfunc TestKeep(t *testing.T) {}\n")},
		"live/live_test.go": {Data: []byte("package live\n\n// faults: F002\nfunc kills(t *testing.T, s *server) {}\n")},
		"datasource/datasourcetest/cases.go": {Data: []byte(
			"package datasourcetest\n\n// faults: F001, F002\nfunc caseRead() {}\n")},
		".cache/x_test.go":        {Data: []byte("package broken {")},
		"file/testdata/y_test.go": {Data: []byte("package broken {")},
	}
	list, err := parseTable(smallTable)
	if err != nil {
		t.Fatal(err)
	}
	covers, err := collect(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := list.assign(covers); err != nil {
		t.Fatal(err)
	}
	doc := string(render(list))
	for _, want := range []string{
		"| F001 | keeps the rules | `datasource/datasourcetest.caseRead`, `file.TestKeep` |",
		"| F002 | waits | `datasource/datasourcetest.caseRead`, `live.kills` |",
		"2 faults: 2 covered by\ntests, 0 waiting for a later issue, 0 open",
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("no %q in:\n%s", want, doc)
		}
	}
}

func TestBadCommentsAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"drifted away": "package p\n\n// faults: F001\n\nvar x int\n",
		"in a body":    "package p\n\nfunc TestX(t *testing.T) {\n\t// faults: F001\n}\n",
		"no id":        "package p\n\n// faults:\nfunc TestX(t *testing.T) {}\n",
		"wrong id":     "package p\n\n// faults: F1\nfunc TestX(t *testing.T) {}\n",
		"not a test":   "package p\n\n// faults: F001\nfunc helper() {}\n",
		"not a case":   "package p\n\n// faults: F001\nfunc helper(t *testing.T) {}\n",
		"not go":       "package {",
	} {
		if _, err := collect(fstest.MapFS{"p/p_test.go": {Data: []byte(text)}}); err == nil {
			t.Errorf("%s: accepted", name)
		} else if name != "not go" && !errors.Is(err, errComment) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnknownFaultIsRefused(t *testing.T) {
	list, err := parseTable(smallTable)
	if err != nil {
		t.Fatal(err)
	}
	err = list.assign([]cover{{dir: "p", name: "TestX", position: "p/p_test.go:3", ids: []string{"F003"}}})
	if !errors.Is(err, errUnknown) || !strings.Contains(err.Error(), "p/p_test.go:3") {
		t.Errorf("got %v", err)
	}
}

func TestUncovered(t *testing.T) {
	list, err := parseTable(smallTable)
	if err != nil {
		t.Fatal(err)
	}
	open := list.uncovered()
	if len(open) != 1 || open[0].id != "F001" {
		t.Errorf("got %v", open)
	}
}

func TestBadTablesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":        "# nothing\n",
		"no kind":      "F001 | K1 | x |\n",
		"twice":        "K1 | a\nF001 | K1 | x |\nF001 | K1 | x |\n",
		"too few":      "K1 | a\nF001 | K1 | x\n",
		"no outcome":   "K1 | a\nF001 | K1 | |\n",
		"strange line": "K1 | a\nhello\n",
	} {
		if _, err := parseTable(text); !errors.Is(err, errTable) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
