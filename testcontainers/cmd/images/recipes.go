package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func buildEtcd(ctx context.Context, t *tree) error {
	t.changes = append(t.changes, `CMD ["/usr/local/bin/etcd"]`)
	return goServer(ctx, t, "etcd", "go.etcd.io/etcd/server/v3")
}

func buildConsul(ctx context.Context, t *tree) error {
	t.changes = append(t.changes, `CMD ["/usr/local/bin/consul", "agent", "-dev", "-client=0.0.0.0"]`)
	return goServer(ctx, t, "consul", "github.com/hashicorp/consul")
}

// goServer builds a server from the module images/NAME, which pins it. Without cgo the program needs no other file.
func goServer(ctx context.Context, t *tree, name, pkg string) error {
	dir, err := imageFolder(ctx, name)
	if err != nil {
		return err
	}
	// -buildvcs=false: the version stamp of this repository says nothing about the server.
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w",
		"-o", t.path("/usr/local/bin/"+name), pkg)
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	_, err = command(build)
	return err
}

// errNoDebian means that Debian's tools are not on this machine.
var errNoDebian = errors.New("redis is packed from Debian's packages, which needs apt-get, dpkg-deb and ldd; name another image in RULEWIRE_REDIS_IMAGE")

// buildRedis unpacks Debian's packages instead of installing them, so that no server starts on this machine and
// nothing of it is in the image but the libraries that the server links.
func buildRedis(ctx context.Context, t *tree) error {
	for _, tool := range []string{"apt-get", "dpkg-deb", "ldd"} {
		if _, err := exec.LookPath(tool); err != nil {
			return errNoDebian
		}
	}
	packages := []string{"redis-server", "redis-tools"}
	missing, err := notInstalled(ctx, packages)
	if err != nil {
		return err
	}
	download := exec.CommandContext(ctx, "apt-get", append([]string{"download"}, missing...)...)
	download.Dir = t.scratch
	if _, err := command(download); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(t.scratch, "*.deb"))
	if err != nil {
		return err
	}
	unpacked := filepath.Join(t.scratch, "unpacked")
	for _, deb := range debs {
		if _, err := command(exec.CommandContext(ctx, "dpkg-deb", "-x", deb, unpacked)); err != nil {
			return err
		}
	}
	folders, err := filepath.Glob(filepath.Join(unpacked, "usr/lib/*"))
	if err != nil {
		return err
	}
	for _, program := range []string{"redis-server", "redis-cli"} {
		// redis-server is a link to redis-check-rdb, which is all three programs.
		file := filepath.Join(unpacked, "usr/bin", program)
		if err := t.copy(file, "/usr/local/bin/"+program); err != nil {
			return err
		}
		if err := libraries(ctx, t, unpacked, folders, file); err != nil {
			return err
		}
	}
	t.changes = append(t.changes, `CMD ["/usr/local/bin/redis-server"]`)
	return nil
}

// notInstalled asks apt which packages an installation would bring to this machine. What is installed already gives its
// libraries to the image from where they are.
func notInstalled(ctx context.Context, packages []string) ([]string, error) {
	ask := func() ([]byte, error) {
		return command(exec.CommandContext(ctx, "apt-get", append([]string{"install", "--simulate", "--reinstall",
			"--no-install-recommends"}, packages...)...))
	}
	out, err := ask()
	if err != nil {
		// A new machine has no lists yet.
		if _, err := command(exec.CommandContext(ctx, "apt-get", "update")); err != nil {
			return nil, err
		}
		if out, err = ask(); err != nil {
			return nil, err
		}
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Inst" {
			names = append(names, fields[1])
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("apt-get would install nothing for %s", strings.Join(packages, " "))
	}
	return names, nil
}

// libraries copies what a program links, from the folders of the unpacked packages where they have it, else from this
// machine.
func libraries(ctx context.Context, t *tree, unpacked string, folders []string, program string) error {
	ldd := exec.CommandContext(ctx, "ldd", program)
	ldd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(folders, ":"))
	out, err := command(ldd)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		// "libssl.so.3 => /usr/lib/.../libssl.so.3 (0x…)", or "/lib64/ld-linux-x86-64.so.2 (0x…)".
		fields := strings.Fields(line)
		if strings.Contains(line, "not found") {
			return fmt.Errorf("%s: %s", filepath.Base(program), strings.TrimSpace(line))
		}
		path := ""
		switch {
		case len(fields) >= 3 && fields[1] == "=>":
			path = fields[2]
		case len(fields) >= 1 && strings.HasPrefix(fields[0], "/"):
			path = fields[0]
		default:
			continue
		}
		// The loader looks in the folders it knows, so that a library from the packages goes to its place of installation.
		inImage := strings.TrimPrefix(path, unpacked)
		if err := t.copy(path, inImage); err != nil {
			return err
		}
	}
	return nil
}
