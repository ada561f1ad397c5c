package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks is where Linux gives up, too.
const maxLinks = 40

// chain walks path through its symbolic links. names are the directory entries whose change gives path another file:
// each link on the way, and the file at the end or the first entry that is missing. target is where the walk ends, with
// no link in it.
//
// A mounted ConfigMap has three: rules/flow.json -> ..data/flow.json, rules/..data -> ..2026_01_01/, and the file
// itself; only the second ever changes.
func chain(path string) (names []string, target string, err error) {
	root := filepath.VolumeName(path) + string(filepath.Separator)
	cur, rest := root, parts(path[len(root):])
	for links := 0; len(rest) > 0; {
		name := filepath.Join(cur, rest[0]) // Join also walks ".." of a link's target, by then without links before it
		rest = rest[1:]
		info, err := os.Lstat(name)
		switch {
		case err != nil, len(rest) > 0 && info.Mode().IsRegular():
			// Missing, forbidden, or a file where a folder should be: what can be watched ends here.
			return append(names, name), filepath.Join(append([]string{name}, rest...)...), nil
		case info.Mode()&fs.ModeSymlink == 0:
			if cur = name; len(rest) == 0 {
				names = append(names, name)
			}
			continue
		}
		names = append(names, name)
		if links++; links > maxLinks {
			return nil, "", fmt.Errorf("%s: more than %d symbolic links", path, maxLinks)
		}
		to, err := os.Readlink(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			return names, name, nil // replaced under our eyes; its change is an event
		}
		if err != nil {
			return nil, "", err
		}
		if filepath.IsAbs(to) {
			cur = filepath.VolumeName(to) + string(filepath.Separator)
			to = to[len(cur):]
		}
		rest = append(parts(to), rest...)
	}
	return names, cur, nil
}

func parts(path string) []string {
	return slices.DeleteFunc(strings.Split(filepath.FromSlash(path), string(filepath.Separator)),
		func(s string) bool { return s == "" || s == "." })
}
