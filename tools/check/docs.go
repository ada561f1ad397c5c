package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// index lists every page of docs/.
const index = "docs/README.md"

var (
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// docs checks that what a page links to is there, and that every page of docs/ is in the index.
func docs(_ context.Context, c *checker) error {
	wrong, err := docFaults(os.DirFS(c.root))
	if err != nil {
		return err
	}
	for _, w := range wrong {
		fmt.Println(w)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d links", len(wrong))
	}
	return nil
}

func docFaults(root fs.FS) ([]string, error) {
	var wrong []string
	indexed := map[string]bool{index: true}
	var pages []string
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || name == "run" {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		if strings.HasPrefix(name, "docs/") {
			pages = append(pages, name)
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			full := path.Join(path.Dir(name), filepath.ToSlash(target))
			if _, err := fs.Stat(root, full); err != nil {
				if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
					return err
				}
				wrong = append(wrong, fmt.Sprintf("%s: no %s", name, m[1]))
			}
			if name == index {
				indexed[full] = true
			}
		}
		return nil
	})
	for _, page := range pages {
		if !indexed[page] {
			wrong = append(wrong, fmt.Sprintf("%s: does not list %s", index, page))
		}
	}
	return wrong, err
}
