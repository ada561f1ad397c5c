package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rulewire/rulewire/tools/internal/workspace"
)

// decided is the root module's whole list of direct dependencies. Whoever imports Rulewire downloads these, so the list
// is short on purpose; a change here needs a record in docs/decisions.
var decided = map[string]string{
	"github.com/fsnotify/fsnotify":       "v1.10.1",
	"github.com/go-json-experiment/json": "v1.27.2",
	"go.uber.org/goleak":                 "v1.3.0",
	"go.yaml.in/yaml/v3":                 "v3.0.6",
}

// testOnly are those of them that only tests, and the public test suites, may import.
var testOnly = []string{"go.uber.org/goleak"}

// clients are the stores' client libraries by the backend that has each. Whoever uses one backend builds its client, and no
// other's; the rest of the library builds none.
var clients = map[string]string{
	"apollo": "github.com/apolloconfig/agollo",
	"consul": "github.com/hashicorp/consul",
	"etcd":   "go.etcd.io/etcd",
	"nacos":  "github.com/nacos-group/nacos-sdk-go",
	"redis":  "github.com/redis/go-redis",
}

// deps compares the root go.mod with what was decided, and what its packages and the backends really build with.
func deps(ctx context.Context, c *checker) error {
	out, err := workspace.Output(ctx, c.root, nil, "go", "mod", "edit", "-json")
	if err != nil {
		return err
	}
	var mod struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return fmt.Errorf("go.mod: %w", err)
	}
	found := map[string]string{}
	for _, r := range mod.Require {
		if !r.Indirect {
			found[r.Path] = r.Version
		}
	}
	wrong := differences(decided, found)
	leaks, err := leaked(ctx, c.root)
	if err != nil {
		return err
	}
	wrong = append(wrong, leaks...)
	for _, m := range c.modules {
		if clients[m.Rel] == "" && m.Rel != "." {
			continue
		}
		built, err := workspace.Output(ctx, m.Dir, []string{"GOWORK=off"}, "go", "list", "-deps", "./...")
		if err != nil {
			return err
		}
		strange := strangers(m.Rel, strings.Fields(string(built)))
		wrong = append(wrong, strange...)
		if len(strange) == 0 {
			fmt.Println(proof(m.Rel))
		}
	}
	for _, w := range wrong {
		fmt.Println(w)
	}
	if len(wrong) > 0 {
		return errors.New("tools/check/deps.go holds the decided list")
	}
	return nil
}

// strangers names what a backend, or the root module ("."), builds of another backend or of another store's client.
func strangers(module string, built []string) []string {
	var wrong []string
	for _, backend := range slices.Sorted(maps.Keys(clients)) {
		if backend == module {
			continue
		}
		for _, prefix := range []string{clients[backend], "github.com/rulewire/rulewire/" + backend} {
			i := slices.IndexFunc(built, func(p string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") })
			if i >= 0 {
				wrong = append(wrong, fmt.Sprintf("module %s builds with %s, which is of %s", module, built[i], backend))
			}
		}
	}
	return wrong
}

// proof is what strangers found nothing against.
func proof(module string) string {
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(clients)), func(b string) bool { return b == module })
	return fmt.Sprintf("module %s builds nothing of %s", module, strings.Join(others, ", "))
}

// differences names each dependency that is not as decided, in order of path.
func differences(want, got map[string]string) []string {
	var wrong []string
	for _, path := range slices.Sorted(maps.Keys(want)) {
		switch got[path] {
		case want[path]:
		case "":
			wrong = append(wrong, fmt.Sprintf("go.mod lacks %s %s", path, want[path]))
		default:
			wrong = append(wrong, fmt.Sprintf("go.mod has %s %s, decided is %s", path, got[path], want[path]))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if want[path] == "" {
			wrong = append(wrong, fmt.Sprintf("go.mod has %s %s, which was not decided", path, got[path]))
		}
	}
	return wrong
}

// leaked finds packages for users that build with a module that is for tests.
func leaked(ctx context.Context, root string) ([]string, error) {
	const format = `{{$p := .ImportPath}}{{range .Deps}}{{$p}} {{.}}{{"\n"}}{{end}}`
	out, err := workspace.Output(ctx, root, []string{"GOWORK=off"}, "go", "list", "-f", format, "./...")
	if err != nil {
		return nil, err
	}
	var wrong []string
	for line := range strings.Lines(string(out)) {
		importer, imported, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasSuffix(importer, "test") {
			continue // A public test suite, such as datasourcetest: only tests import it.
		}
		for _, path := range testOnly {
			if imported == path {
				wrong = append(wrong, fmt.Sprintf("%s builds with %s, which is for tests only", importer, path))
			}
		}
	}
	return wrong, nil
}
