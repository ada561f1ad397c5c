package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rulewire/rulewire/testcontainers/internal/catalog"
)

func TestEveryStoreHasARecipe(t *testing.T) {
	for _, s := range catalog.All() {
		if builders[s.Name] == nil {
			t.Errorf("no recipe for %s", s.Name)
		}
	}
}

func TestTreeBecomesATarOfRootsFiles(t *testing.T) {
	made, err := newTree()
	if err != nil {
		t.Fatal(err)
	}
	defer made.remove()
	from := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(from, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := made.copy(from, "/usr/local/bin/program"); err != nil {
		t.Fatal(err)
	}
	r, err := made.tar()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	modes := map[string]int64{}
	for files := tar.NewReader(r); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s belongs to %d:%d", header.Name, header.Uid, header.Gid)
		}
		modes[header.Name] = header.Mode & 0o7777
	}
	for name, mode := range map[string]int64{"tmp": 0o1777, "data": 0o755, "usr/local/bin/program": 0o755} {
		if modes[name] != mode {
			t.Errorf("%s has mode %o, want %o; all: %v", name, modes[name], mode, modes)
		}
	}
	if _, err := os.Stat(filepath.Join(made.dir, "root")); err != nil {
		t.Error(err)
	}
}
