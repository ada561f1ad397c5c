package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// peerEnv names the program that is measured beside Rulewire.
//
// It stays a program of its own because sentinel-golang's data sources are modules that were never tagged: there is no
// version to require, and their code is not ours to keep here. What it must do fits in fifty lines around each of them:
// read one peerOrder as JSON from its standard input, open the data source that it names, and print a line "NUMBER NANOSECONDS"
// each time its listener has the rules: the threshold of the first rule, and Unix time. It ends when its input does.
const peerEnv = "RULEWIRE_BENCH_PEER"

// peerOrder tells the peer what to open; of the members only those of the store are set.
type peerOrder struct {
	// Store is etcd, consul, nacos or apollo.
	Store string `json:"store"`
	// Addr is one address: host:port; for Apollo the URL of its config service.
	Addr string `json:"addr"`
	// Key is the key, the data ID of Nacos, or the key within Apollo's namespace.
	Key string `json:"key"`
	// Group is Nacos's.
	Group string `json:"group,omitempty"`
	// User and Password are Nacos's.
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
	// App, Cluster and Namespace are Apollo's.
	App       string `json:"app,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Folder is where the peer may write logs and caches; it goes with the run.
	Folder string `json:"folder"`
}

// peer is the path of the program, empty for none.
func peer() string { return os.Getenv(peerEnv) }

// errPeer means that the peer said something else than its numbers, or ended early.
var errPeer = errors.New(peerEnv)

// openPeer starts the peer on a document. It is stopped, and waited for, when tb ends.
func openPeer(ctx context.Context, tb testing.TB, program string, order peerOrder) (*told, error) {
	dir, err := os.MkdirTemp("", "rulewire-bench-")
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	order.Folder = dir
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.WaitDelay = 10 * time.Second // for one that does not end with its input
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", errPeer, err)
	}
	t := newTold()
	var reading sync.WaitGroup
	reading.Go(func() {
		if err := hear(out, t); err != nil {
			tb.Log(err)
		}
	})
	tb.Cleanup(func() {
		_ = in.Close()
		late := time.AfterFunc(cmd.WaitDelay, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		reading.Wait()
		_ = cmd.Wait()
	})
	if _, err := in.Write(append(text, '\n')); err != nil {
		return nil, fmt.Errorf("%w: %w", errPeer, err)
	}
	return t, nil
}

// hear notes what the peer prints, until its output ends.
func hear(out io.Reader, t *told) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var number int
		var at int64
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &number, &at); err != nil {
			_, _ = io.Copy(io.Discard, out) // or it would stand still at a full pipe
			return fmt.Errorf("%w: it printed %.80q", errPeer, lines.Text())
		}
		t.seen(sighting{number, time.Unix(0, at)})
	}
	return lines.Err()
}
