package datasourcetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// docs/conformance.md names every case with the faults of its function, and no other.
func TestPageListsEveryCase(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+/[^`]+)` \\|(?:.*\\|)? *([^|]*?) *\\|$").FindAllStringSubmatch(string(page), -1) {
		listed[m[1]] = m[2]
	}
	faults := faultsOfFunctions(t)
	for _, g := range append(sourceGroups(), sinkGroups()...) {
		for _, s := range g.scenes {
			name := g.name + "/" + s.name
			got, ok := listed[name]
			delete(listed, name)
			if !ok {
				t.Errorf("%s is not in the page", name)
				continue
			}
			fn := runtime.FuncForPC(reflect.ValueOf(s.run).Pointer()).Name()
			fn = fn[strings.LastIndex(fn, ".")+1:]
			if want := faults[fn]; want != "" && got != want {
				t.Errorf("%s: the page says %q, the comment above %s %q", name, got, fn, want)
			}
		}
	}
	for name := range listed {
		t.Errorf("%s is in the page, but is no case", name)
	}
	for _, table := range []string{"guardRows", "payloadGroup"} {
		if want := "Faults: " + faults[table] + "."; !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// faultsOfFunctions gives what the comments above the package's functions name.
func faultsOfFunctions(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Doc == nil {
				continue
			}
			for _, c := range fn.Doc.List {
				if ids, ok := strings.CutPrefix(c.Text, "// faults: "); ok {
					found[fn.Name.Name] = ids
				}
			}
		}
	}
	return found
}
