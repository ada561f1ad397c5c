// Command images builds local images of the real servers from packages, for machines that reach package registries but
// no image registry: etcd and Consul from their Go modules, Redis from Debian's package. No base image is needed.
//
//	go run ./testcontainers/cmd/images                 build those that the engine lacks
//	go run ./testcontainers/cmd/images -force          build all again
//	go run ./testcontainers/cmd/images -ensure         build only where the official image can't be had either
//	go run ./testcontainers/cmd/images -store consul   one store
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"github.com/rulewire/rulewire/testcontainers/internal/catalog"
	"github.com/rulewire/rulewire/testcontainers/internal/engine"
)

// builders by store; each writes the root file system of its image into a tar and says what the image runs.
var builders = map[string]func(context.Context, *tree) error{
	catalog.Etcd.Name:   buildEtcd,
	catalog.Redis.Name:  buildRedis,
	catalog.Consul.Name: buildConsul,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	switch {
	case errors.Is(err, engine.ErrNone):
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(exitNoEngine)
	case err != nil:
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// exitNoEngine tells the caller that no Docker engine answers, as against a build that failed.
const exitNoEngine = 3

func run(ctx context.Context) error {
	force := flag.Bool("force", false, "build also what is there")
	ensure := flag.Bool("ensure", false, "pull the official image where that works, and build only where it does not")
	only := flag.String("store", "", "one store; empty means all")
	flag.Parse()

	c, err := engine.Client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := engine.Sweep(ctx, c); err != nil {
		return err
	}
	found := false
	var errs []error
	for _, s := range catalog.All() {
		if *only != "" && *only != s.Name {
			continue
		}
		found = true
		if *ensure {
			if image := os.Getenv(s.ImageEnv); image != "" {
				fmt.Printf("%s: %s, named by %s\n", s.Name, image, s.ImageEnv)
				continue
			}
			if engine.Has(ctx, c, s.Official) {
				fmt.Printf("%s: %s\n", s.Name, s.Official)
				continue
			}
		}
		if !*force && engine.Has(ctx, c, s.Local) {
			fmt.Printf("%s: %s\n", s.Name, s.Local)
			continue
		}
		if *ensure && engine.Pull(ctx, c, s.Official) == nil {
			fmt.Printf("%s: %s, pulled\n", s.Name, s.Official)
			continue
		}
		start := time.Now()
		fmt.Printf("%s: building %s\n", s.Name, s.Local)
		if err := build(ctx, c, s); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
			continue
		}
		fmt.Printf("%s: built %s in %s\n", s.Name, s.Local, time.Since(start).Round(time.Second))
	}
	if !found {
		return fmt.Errorf("no store %q", *only)
	}
	return errors.Join(errs...)
}

func build(ctx context.Context, c *client.Client, s catalog.Store) error {
	t, err := newTree()
	if err != nil {
		return err
	}
	defer t.remove()
	if err := builders[s.Name](ctx, t); err != nil {
		return err
	}
	tar, err := t.tar()
	if err != nil {
		return err
	}
	defer tar.Close()
	if err := engine.Import(ctx, c, s.Local, tar, t.changes...); err != nil {
		return err
	}
	if !engine.Has(ctx, c, s.Local) {
		return fmt.Errorf("the engine does not hold %s after the import", s.Local)
	}
	return nil
}
