package testcontainers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/network"

	"github.com/rulewire/rulewire/testcontainers/internal/engine"
	"github.com/rulewire/rulewire/testcontainers/internal/wait"
	"github.com/rulewire/rulewire/testcontainers/link"
)

const (
	// startTimeout bounds how long a server may take until it answers, the pull of its image not counted.
	startTimeout = time.Minute
	// endTimeout bounds the removal of a container after its test.
	endTimeout = 30 * time.Second
	// loggedLines of a container are shown when its test failed.
	loggedLines = 40
)

// Spec describes one server.
type Spec struct {
	// Name says which server it is, in messages.
	Name string
	// Image is the image; Command replaces its entry point and arguments.
	Image   string
	Command []string
	// Ports are the ports inside the container, each of which gets a link.
	Ports []int
	// Files are put into the container before it starts, by absolute path.
	Files map[string][]byte
	// Network, if any, is joined under the name Alias.
	Network *Network
	Alias   string
	// Ready tries once whether the server answers at its Admin addresses. It is tried again until it returns nil.
	Ready func(context.Context, *Node) error
	// Down, if any, is called before the server is stopped, killed or paused: the place to drop its clients.
	Down func()
}

// Node is one server process: in a container of this test, or elsewhere (see External). Clients under test reach it
// through the link of a port; the helper itself comes by another way, which stays open when the link is broken.
type Node struct {
	spec  Spec
	front map[int]*link.Link
	back  map[int]*link.Link
	// The rest is nil for a server elsewhere.
	ctr    *tc.DockerContainer
	docker *client.Client
	host   string
}

// Network is a network on which the containers of one test see each other by name.
type Network struct{ nw *tc.DockerNetwork }

// NewNetwork makes a network that is removed after the test.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	Require(t)
	nw, err := network.New(t.Context(), network.WithLabels(map[string]string{engine.Label: "true"}))
	if err != nil {
		t.Fatalf("network: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		if err := nw.Remove(ctx); err != nil {
			t.Errorf("network: %v", err)
		}
	})
	return &Network{nw}
}

// Run starts a server in a container, waits until it answers, and removes it after the test.
func Run(t testing.TB, spec Spec) *Node {
	t.Helper()
	return RunAll(t, spec)[0]
}

// RunAll starts servers that need each other: it waits for the first when all are under way.
func RunAll(t testing.TB, specs ...Spec) []*Node {
	t.Helper()
	Require(t)
	docker, err := engine.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = docker.Close() })
	nodes := make([]*Node, len(specs))
	errs := make([]error, len(specs))
	var wg sync.WaitGroup
	for i, spec := range specs {
		n := &Node{spec: spec, docker: docker}
		nodes[i] = n
		t.Cleanup(func() { n.end(t) })
		n.links(t)
		wg.Go(func() { errs[i] = n.create(t.Context()) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("%v\n(no image registry? make images in Rulewire's repository builds local images)", err)
	}
	for i, n := range nodes {
		wg.Go(func() { errs[i] = n.ready(t.Context()) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return nodes
}

// create makes and starts the container.
func (n *Node) create(ctx context.Context) error {
	options := []tc.ContainerCustomizer{
		tc.WithEntrypoint(n.spec.Command[0]), tc.WithCmd(n.spec.Command[1:]...),
		tc.WithLogger(log.NewNoopLogger()), tc.WithLabels(map[string]string{engine.Label: "true"}),
	}
	for _, port := range n.spec.Ports {
		options = append(options, tc.WithExposedPorts(proto(port)))
	}
	for path, data := range n.spec.Files {
		options = append(options, tc.WithFiles(tc.ContainerFile{
			Reader: bytes.NewReader(data), ContainerFilePath: path, FileMode: 0o644,
		}))
	}
	if n.spec.Network != nil {
		options = append(options, network.WithNetwork([]string{n.spec.Alias}, n.spec.Network.nw))
	}
	ctr, err := tc.Run(ctx, n.spec.Image, options...)
	if ctr != nil {
		n.ctr = ctr // Also after an error: the container may be half there.
	}
	if err != nil {
		return fmt.Errorf("%s: %w", n.spec.Name, err)
	}
	return nil
}

// Renew replaces the container by a new one without data, and waits until it answers. The addresses stay.
func (n *Node) Renew(ctx context.Context) error {
	return n.control("renew", func() error {
		n.down(true)
		if err := n.ctr.Terminate(ctx, tc.StopTimeout(0)); err != nil {
			return err
		}
		n.ctr = nil
		if err := n.create(ctx); err != nil {
			return err
		}
		return n.ready(ctx)
	})
}

// External is a server that is already up, with the address of each port.
func External(t testing.TB, name string, addrs map[int]string) *Node {
	t.Helper()
	n := &Node{spec: Spec{Name: name, Ports: slices.Sorted(maps.Keys(addrs))}}
	n.links(t)
	for port, addr := range addrs {
		n.target(port, addr)
	}
	return n
}

// Addr is the address of a port for the client under test: that of its link. It never changes.
func (n *Node) Addr(port int) string { return n.front[port].Addr() }

// Admin is another address of the same port, which works while the link is broken. It never changes.
func (n *Node) Admin(port int) string { return n.back[port].Addr() }

// Link is the link of a port.
func (n *Node) Link(port int) *link.Link { return n.front[port] }

// Contained says whether the process is this test's own: if not, Stop and its like return errors.ErrUnsupported.
func (n *Node) Contained() bool { return n.ctr != nil }

// Stop ends the process as an operator would (SIGTERM). Its data stay.
func (n *Node) Stop(ctx context.Context) error {
	return n.control("stop", func() error {
		n.down(true)
		_, err := n.docker.ContainerStop(ctx, n.ctr.GetContainerID(), client.ContainerStopOptions{})
		return err
	})
}

// Kill ends the process as a power cut would (SIGKILL). Its data stay as far as the server had written them.
func (n *Node) Kill(ctx context.Context) error {
	return n.control("kill", func() error {
		n.down(true)
		_, err := n.docker.ContainerKill(ctx, n.ctr.GetContainerID(), client.ContainerKillOptions{Signal: "SIGKILL"})
		return err
	})
}

// Start starts the process again and waits until it answers.
func (n *Node) Start(ctx context.Context) error {
	return n.control("start", func() error {
		if _, err := n.docker.ContainerStart(ctx, n.ctr.GetContainerID(), client.ContainerStartOptions{}); err != nil {
			return err
		}
		return n.ready(ctx)
	})
}

// Restart is Stop and Start.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Stop(ctx); err != nil {
		return err
	}
	return n.Start(ctx)
}

// Pause freezes the process: connections stay open, and nothing is answered.
func (n *Node) Pause(ctx context.Context) error {
	return n.control("pause", func() error {
		n.down(false)
		_, err := n.docker.ContainerPause(ctx, n.ctr.GetContainerID(), client.ContainerPauseOptions{})
		return err
	})
}

// Resume ends Pause and waits until the server answers.
func (n *Node) Resume(ctx context.Context) error {
	return n.control("resume", func() error {
		if _, err := n.docker.ContainerUnpause(ctx, n.ctr.GetContainerID(), client.ContainerUnpauseOptions{}); err != nil {
			return err
		}
		return n.ready(ctx)
	})
}

// IP is the address of the container on its network, for servers that must be told each other's.
func (n *Node) IP(ctx context.Context) (string, error) {
	if n.ctr == nil {
		return "", fmt.Errorf("%s: address in its network: %w", n.spec.Name, errors.ErrUnsupported)
	}
	return n.ctr.ContainerIP(ctx)
}

func (n *Node) control(what string, f func() error) error {
	if n.ctr == nil {
		return fmt.Errorf("%s: %s of a server that is not ours: %w", n.spec.Name, what, errors.ErrUnsupported)
	}
	if err := f(); err != nil {
		return fmt.Errorf("%s: %s: %w", n.spec.Name, what, err)
	}
	return nil
}

// down drops the helper's clients. The links of a process that ends refuse connections as its port does: a client that
// is let in and then reset takes that for something else than a dead server.
func (n *Node) down(ends bool) {
	if n.spec.Down != nil {
		n.spec.Down()
	}
	if !ends {
		return
	}
	for _, links := range []map[int]*link.Link{n.front, n.back} {
		for _, l := range links {
			l.Refuse()
		}
	}
}

// links makes both links of each port, which lead nowhere until target.
func (n *Node) links(t testing.TB) {
	t.Helper()
	n.front, n.back = map[int]*link.Link{}, map[int]*link.Link{}
	for _, port := range n.spec.Ports {
		for _, links := range []map[int]*link.Link{n.front, n.back} {
			l, err := link.Listen("")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			links[port] = l
		}
	}
}

func (n *Node) target(port int, addr string) {
	for _, links := range []map[int]*link.Link{n.front, n.back} {
		links[port].SetTarget(addr)
		links[port].Admit()
	}
}

// ready finds where the container's ports are now, which changes at each start, and waits for the server.
func (n *Node) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, port := range n.spec.Ports {
		mapped, err := n.ctr.MappedPort(ctx, proto(port))
		if err != nil {
			return err
		}
		addr, err := n.reach(ctx, mapped.Port())
		if err != nil {
			return err
		}
		n.target(port, addr)
	}
	if n.spec.Ready == nil {
		return nil
	}
	if err := wait.Until(ctx, func(ctx context.Context) error { return n.spec.Ready(ctx, n) }); err != nil {
		return fmt.Errorf("%s does not answer: %w", n.spec.Name, err)
	}
	return nil
}

// reach finds the host under which a mapped port is reached. That is the loopback for an engine on this machine, also
// where this process is in a container that shares the machine's network; what testcontainers-go says is for the rest.
func (n *Node) reach(ctx context.Context, port string) (string, error) {
	if n.host != "" {
		return net.JoinHostPort(n.host, port), nil
	}
	hosts := []string{"127.0.0.1"}
	if host, err := n.ctr.Host(ctx); err == nil && host != "localhost" {
		hosts = append(hosts, host)
	}
	var addr string
	err := wait.Until(ctx, func(ctx context.Context) error {
		var errs []error
		for _, host := range hosts {
			addr = net.JoinHostPort(host, port)
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err == nil {
				n.host = host
				return conn.Close()
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	return addr, err
}

// end removes the container, and shows the end of its log if the test failed.
func (n *Node) end(t testing.TB) {
	if n.ctr == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if t.Failed() {
		t.Logf("last lines of %s:\n%s", n.spec.Name, n.tail(ctx))
	}
	// Nobody needs a clean end any more, and a paused container would wait for one.
	if err := n.ctr.Terminate(ctx, tc.StopTimeout(0)); err != nil {
		t.Errorf("%s: %v", n.spec.Name, err)
	}
}

func (n *Node) tail(ctx context.Context) string {
	logs, err := n.ctr.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer logs.Close()
	text, _ := io.ReadAll(logs)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-loggedLines):], "\n")
}

func proto(port int) string { return fmt.Sprintf("%d/tcp", port) }
