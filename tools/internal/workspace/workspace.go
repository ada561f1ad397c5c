// Package workspace tells the project's tools which modules and packages there are. The one list of modules is go.work.
package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoWorkspace means that no go.work was found in the working directory or above it.
var ErrNoWorkspace = errors.New("no go.work here or above")

// Module is one module of go.work.
type Module struct {
	// Dir is absolute, Rel is from the root of the repository ("." for the root module).
	Dir, Rel string
	// Path is the module path.
	Path string
}

// Package is one package of the workspace.
type Package struct {
	ImportPath   string
	Dir          string
	TestGoFiles  []string
	XTestGoFiles []string
}

// Root finds the folder of go.work.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNoWorkspace
		}
		dir = parent
	}
}

// Modules lists the modules of go.work in its order.
func Modules(ctx context.Context, root string) ([]Module, error) {
	out, err := Output(ctx, root, nil, "go", "work", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var work struct {
		Use []struct{ DiskPath string }
	}
	if err := json.Unmarshal(out, &work); err != nil {
		return nil, fmt.Errorf("go.work: %w", err)
	}
	modules := make([]Module, 0, len(work.Use))
	for _, use := range work.Use {
		m := Module{Dir: filepath.Join(root, use.DiskPath), Rel: filepath.Clean(use.DiskPath)}
		out, err := Output(ctx, m.Dir, nil, "go", "mod", "edit", "-json")
		if err != nil {
			return nil, err
		}
		var mod struct{ Module struct{ Path string } }
		if err := json.Unmarshal(out, &mod); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Rel, err)
		}
		m.Path = mod.Module.Path
		modules = append(modules, m)
	}
	return modules, nil
}

// Packages lists every package of every module.
func Packages(ctx context.Context, root string) ([]Package, error) {
	out, err := Output(ctx, root, nil, "go", "list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles", "work")
	if err != nil {
		return nil, err
	}
	var packages []Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// FuzzTarget is one fuzz target.
type FuzzTarget struct{ Package, Name string }

// FuzzTargets finds every fuzz target. It reads the test files that go list names, so that no test binary has to be
// built (and no TestMain has to run) to learn what there is.
func FuzzTargets(packages []Package) ([]FuzzTarget, error) {
	var targets []FuzzTarget
	for _, p := range packages {
		for _, name := range append(append([]string(nil), p.TestGoFiles...), p.XTestGoFiles...) {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, decl := range file.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") && takesF(fn) {
					targets = append(targets, FuzzTarget{p.ImportPath, fn.Name.Name})
				}
			}
		}
	}
	return targets, nil
}

// takesF says whether fn's one parameter is a *testing.F.
func takesF(fn *ast.FuncDecl) bool {
	if fn.Type.Params.NumFields() != 1 {
		return false
	}
	star, ok := fn.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "F"
}

// Output runs a command and gives what it printed; the error has what it complained of.
func Output(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(string(out) + stderr.String())
		return out, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text)
	}
	return out, nil
}
