package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestModulesComeFromGoWork(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := Modules(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(modules, func(m Module) bool { return m.Rel == "tools" })
	if i < 0 || modules[i].Path != "github.com/rulewire/rulewire/tools" {
		t.Errorf("tools is not among %v", modules)
	}
}

func TestFuzzTargetsAreFound(t *testing.T) {
	dir := t.TempDir()
	const text = `package p

const inText = "\nfunc FuzzText(f *testing.F) {}"

func FuzzOne(f *testing.F) {}
func FuzzHelper(x int) {}

// func FuzzNot(f *testing.F)
func TestTwo(t *testing.T) {}
`
	if err := os.WriteFile(filepath.Join(dir, "p_test.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := FuzzTargets([]Package{{ImportPath: "p", Dir: dir, XTestGoFiles: []string{"p_test.go"}}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []FuzzTarget{{"p", "FuzzOne"}}) {
		t.Errorf("got %v", got)
	}
}
