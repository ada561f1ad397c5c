package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// errComment means that a "faults:" comment is not where or what it should be.
var errComment = errors.New("bad faults comment")

// cover is one test with the faults it names.
type cover struct {
	// dir is the folder of the package, name the function.
	dir, name string
	position  string
	ids       []string
}

// String names the test as docs/faults.md does.
func (c cover) String() string {
	if c.dir == "." {
		return c.name
	}
	return c.dir + "." + c.name
}

var (
	marker   = regexp.MustCompile(`^//\s*[Ff]aults:(.*)$`)
	testFunc = regexp.MustCompile(`^(Test|Fuzz|Example|Benchmark)`)
)

// collect reads the comments of every test file, and of the public suites, below root.
func collect(root fs.FS) ([]cover, error) {
	var covers []cover
	var errs []error
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		inTest := strings.HasSuffix(name, "_test.go")
		inSuite := path.Ext(name) == ".go" && strings.HasSuffix(path.Dir(name), "test")
		if !inTest && !inSuite {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		found, err := parse(name, text, inTest)
		covers = append(covers, found...)
		errs = append(errs, err)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return covers, errors.Join(errs...)
}

// parse reads one file. Each marker must belong to the comment directly above a function, so that a marker can't drift
// away from its test unseen.
func parse(name string, text []byte, inTest bool) ([]cover, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	used := map[*ast.Comment]bool{}
	var covers []cover
	var errs []error
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Doc == nil {
			continue
		}
		var ids []string
		for _, comment := range fn.Doc.List {
			match := marker.FindStringSubmatch(comment.Text)
			if match == nil {
				continue
			}
			used[comment] = true
			at := files.Position(comment.Pos())
			named := strings.FieldsFunc(match[1], func(r rune) bool { return r == ' ' || r == ',' || r == '\t' })
			if len(named) == 0 {
				errs = append(errs, fmt.Errorf("%s: %w: names no fault", at, errComment))
			}
			for _, id := range named {
				if !faultID.MatchString(id) {
					errs = append(errs, fmt.Errorf("%s: %w: %q is no fault id", at, errComment, id))
				}
			}
			if inTest && !isTest(fn) {
				errs = append(errs, fmt.Errorf("%s: %w: %s is not a test", at, errComment, fn.Name.Name))
			}
			ids = append(ids, named...)
		}
		if len(ids) > 0 {
			covers = append(covers, cover{path.Dir(name), fn.Name.Name, files.Position(fn.Pos()).String(), ids})
		}
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if marker.MatchString(comment.Text) && !used[comment] {
				errs = append(errs, fmt.Errorf("%s: %w: not directly above a function", files.Position(comment.Pos()), errComment))
			}
		}
	}
	return covers, errors.Join(errs...)
}

// isTest accepts tests, and the cases of a test that hands each what they share: functions of a *testing.T and more.
func isTest(fn *ast.FuncDecl) bool {
	if fn.Recv != nil {
		return false
	}
	if testFunc.MatchString(fn.Name.Name) {
		return true
	}
	params := fn.Type.Params.List
	if len(params) < 2 {
		return false
	}
	star, ok := params[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	name, ok := star.X.(*ast.SelectorExpr)
	return ok && name.Sel.Name == "T"
}
