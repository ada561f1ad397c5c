package main

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"fmt"
)

// tree is the root file system of an image in the making.
type tree struct {
	// dir is a temporary folder: root is the image's "/", scratch is for what does not go in.
	dir, root, scratch string
	// changes are the image's settings, in the words of a Dockerfile.
	changes []string
}

func newTree() (*tree, error) {
	dir, err := os.MkdirTemp("", "rulewire-image-")
	if err != nil {
		return nil, err
	}
	t := &tree{dir: dir, root: filepath.Join(dir, "root"), scratch: filepath.Join(dir, "scratch"),
		changes: []string{"ENV PATH=/usr/local/bin:/usr/bin:/bin"}}
	// Servers want a place for temporary files, and ours keep their data in /data.
	for _, d := range []string{t.scratch, filepath.Join(t.root, "tmp"), filepath.Join(t.root, "data"), filepath.Join(t.root, "usr/local/bin")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tree) remove() { _ = os.RemoveAll(t.dir) }

// path is a file's path outside of the image.
func (t *tree) path(inImage string) string { return filepath.Join(t.root, inImage) }

// copy takes a file of this machine into the image under the same name, following links.
func (t *tree) copy(from, inImage string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	to := t.path(inImage)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// tar streams the file system. Everything belongs to root; /tmp is open to all.
func (t *tree) tar() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(t.write(w)) }()
	return r, nil
}

func (t *tree) write(w io.Writer) error {
	out := tar.NewWriter(w)
	err := filepath.WalkDir(t.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == t.root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		header, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(t.root, path)
		header.Name = filepath.ToSlash(rel)
		header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
		if header.Name == "tmp" {
			header.Mode = 0o1777
		}
		if err := out.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(out, file)
		return err
	})
	if err != nil {
		return err
	}
	return out.Close()
}

// command is a command whose output is shown only if it fails.
func command(cmd *exec.Cmd) ([]byte, error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.String())
	}
	return out, nil
}
