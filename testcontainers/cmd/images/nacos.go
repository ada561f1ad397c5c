package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// errNoJava means that Java's tools are not on this machine.
var errNoJava = errors.New("nacos is packed from Maven artifacts and a Java runtime, which needs mvn, a JDK of Java 17 or newer with jlink, and ldd; name another image in RULEWIRE_NACOS_IMAGE")

// unused jars of other databases and protocols; they are a fifth of the image.
const unusedJars = "nacos-istio,api,spring-test,spring-boot-test,mysql-connector-j,jna"

// buildNacos copies the server's jars and a Java runtime, cut by jlink from this machine's JDK, into an image with the
// system libraries that the runtime links and nothing else.
func buildNacos(ctx context.Context, t *tree) error {
	for _, tool := range []string{"mvn", "java", "jlink", "ldd"} {
		if _, err := exec.LookPath(tool); err != nil {
			return errNoJava
		}
	}
	project, err := imageFolder(ctx, "nacos")
	if err != nil {
		return err
	}
	jars := t.path("/opt/nacos/lib")
	if _, err := command(exec.CommandContext(ctx, "mvn", "-B", "-q", "-f", filepath.Join(project, "pom.xml"),
		"dependency:copy-dependencies", "-DoutputDirectory="+jars, "-DexcludeArtifactIds="+unusedJars)); err != nil {
		return err
	}
	derby, err := filepath.Glob(filepath.Join(jars, "derby-*.jar"))
	if err != nil || len(derby) != 1 {
		return fmt.Errorf("%d jars of derby: %w", len(derby), errors.Join(err, fs.ErrNotExist))
	}
	data := t.path("/data/nacos/data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	if _, err := command(exec.CommandContext(ctx, "java", "-Dderby.stream.error.file="+filepath.Join(t.scratch, "derby.log"),
		"-cp", derby[0], filepath.Join(project, "Database.java"), filepath.Join(data, "derby-data"))); err != nil {
		return err
	}
	runtime := t.path("/opt/java")
	if _, err := command(exec.CommandContext(ctx, "jlink", "--output", runtime, "--strip-debug", "--no-man-pages", "--no-header-files",
		"--add-modules", "java.se,jdk.unsupported,jdk.crypto.ec,jdk.zipfs,jdk.management,jdk.naming.dns,jdk.localedata,jdk.charsets")); err != nil {
		return err
	}
	rocks, err := unpackRocks(jars, t.scratch)
	if err != nil {
		return err
	}
	// The rest of what libraries of the runtime link is for screens and sound.
	programs := []string{rocks, filepath.Join(runtime, "bin/java"), filepath.Join(runtime, "lib/jspawnhelper")}
	for _, name := range []string{"server/libjvm.so", "libjava.so", "libzip.so", "libnet.so", "libnio.so", "libmanagement.so", "libjli.so"} {
		programs = append(programs, filepath.Join(runtime, "lib", name))
	}
	folders := []string{filepath.Join(runtime, "lib"), filepath.Join(runtime, "lib/server")}
	for _, program := range programs {
		if err := libraries(ctx, t, t.root, folders, program); err != nil {
			return err
		}
	}
	t.changes = append(t.changes, "ENV PATH=/opt/java/bin", `CMD ["/opt/java/bin/java", "-version"]`)
	return nil
}

// imageFolder is the folder images/NAME of this module.
func imageFolder(ctx context.Context, name string) (string, error) {
	dir, err := command(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/rulewire/rulewire/testcontainers"))
	if err != nil {
		return "", err
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "images", name), nil
}

// unpackRocks takes the native library out of RocksDB's jar: the server unpacks and loads it at run time, so that ldd has
// to see it now.
func unpackRocks(jars, scratch string) (string, error) {
	found, err := filepath.Glob(filepath.Join(jars, "rocksdbjni-*.jar"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%d jars of rocksdbjni: %w", len(found), errors.Join(err, fs.ErrNotExist))
	}
	jar, err := zip.OpenReader(found[0])
	if err != nil {
		return "", err
	}
	defer jar.Close()
	const library = "librocksdbjni-linux64.so"
	in, err := jar.Open(library)
	if err != nil {
		return "", err
	}
	defer in.Close()
	path := filepath.Join(scratch, library)
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return path, errors.Join(err, out.Close())
}
