// Package engine talks to the Docker engine where testcontainers-go does not: it looks before it leaps.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/rulewire/rulewire/testcontainers/internal/catalog"
)

// ErrNone means that no Docker engine answers.
var ErrNone = errors.New("no Docker engine answers")

const (
	pingTimeout = 5 * time.Second
	pullTimeout = 10 * time.Minute
)

// Client connects to the engine that the environment names, else to the one that testcontainers-go finds, which knows
// the places of rootless and desktop engines.
func Client(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	c, err := client.New(client.FromEnv)
	if err == nil {
		if _, err = c.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err == nil {
			return c, nil
		}
		_ = c.Close()
	}
	if os.Getenv(client.EnvOverrideHost) == "" {
		if found, findErr := testcontainers.NewDockerClientWithOpts(ctx); findErr == nil {
			return found.Client, nil
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrNone, err)
}

// Has says whether the engine holds an image.
func Has(ctx context.Context, c *client.Client, image string) bool {
	_, err := c.ImageInspect(ctx, image)
	return err == nil
}

// Pull fetches an image. Where no registry is reachable it fails at once.
func Pull(ctx context.Context, c *client.Client, image string) error {
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	progress, err := c.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	defer progress.Close()
	if err := progress.Wait(ctx); err != nil {
		return err
	}
	return nil
}

// Image chooses a store's image: what the environment names, else the official one, else, where the engine holds only
// that, the one that "make images" built.
func Image(ctx context.Context, c *client.Client, s catalog.Store) string {
	if image := os.Getenv(s.ImageEnv); image != "" {
		return image
	}
	if !Has(ctx, c, s.Official) && Has(ctx, c, s.Local) {
		return s.Local
	}
	return s.Official
}

var prepare = sync.OnceValue(func() error {
	ctx := context.Background()
	c, err := Client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if os.Getenv(ryukEnv) != "" {
		return nil
	}
	// testcontainers-go removes forgotten containers by a container of its own, called Ryuk. Where its image can't be
	// had every start would fail, so it is turned off there, and only there. Each helper removes what it started anyway.
	//lint:ignore SA1019 the name that replaced it is internal
	ryuk := testcontainers.ReaperDefaultImage
	if !Has(ctx, c, ryuk) && Pull(ctx, c, ryuk) != nil {
		return os.Setenv(ryukEnv, "true")
	}
	return nil
})

const ryukEnv = "TESTCONTAINERS_RYUK_DISABLED"

// Prepare makes sure that an engine answers and that testcontainers-go can work with it. It must come before the first
// use of testcontainers-go, which reads its configuration once.
func Prepare() error { return prepare() }

// Label marks what the helpers start.
const Label = "com.github.rulewire.test"

// leftOver is the age from which a marked container belongs to no run any more: a package's tests may take 12 minutes.
const leftOver = time.Hour

// Sweep removes what killed runs left behind.
func Sweep(ctx context.Context, c *client.Client) error {
	marked := client.Filters{}.Add("label", Label)
	found, err := c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: marked})
	if err != nil {
		return err
	}
	var errs []error
	for _, ctr := range found.Items {
		if time.Since(time.Unix(ctr.Created, 0)) > leftOver {
			_, err := c.ContainerRemove(ctx, ctr.ID, client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
			errs = append(errs, err)
		}
	}
	networks, err := c.NetworkList(ctx, client.NetworkListOptions{Filters: marked})
	if err != nil {
		return err
	}
	for _, nw := range networks.Items {
		if time.Since(nw.Created) > leftOver {
			_, err := c.NetworkRemove(ctx, nw.ID, client.NetworkRemoveOptions{})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Import makes an image from a tar of its file system, without a builder or a base image.
func Import(ctx context.Context, c *client.Client, name string, tar io.Reader, changes ...string) error {
	progress, err := c.ImageImport(ctx, client.ImageImportSource{Source: tar, SourceName: "-"}, name,
		client.ImageImportOptions{Changes: changes})
	if err != nil {
		return err
	}
	defer progress.Close()
	_, err = io.Copy(io.Discard, progress)
	return err
}
