package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	socket       = "/var/run/docker.sock"
	startTimeout = time.Minute
	stopTimeout  = 30 * time.Second
	pause        = 100 * time.Millisecond
)

// Files of all runs on this machine: who uses the engine that a run started, its process id, its log.
var (
	lockFile = filepath.Join(os.TempDir(), "rulewire-dockerd.lock")
	pidFile  = filepath.Join(os.TempDir(), "rulewire-dockerd.pid")
	logFile  = filepath.Join(os.TempDir(), "rulewire-dockerd.log")
)

// Start makes an engine answer: it installs one if need be, and starts it. Several runs at a time share it, and stop ends
// it with the last of them. Images stay for the next run.
func Start(ctx context.Context) (stop func(), err error) {
	if _, err := os.Stat("/etc/debian_version"); err != nil || os.Geteuid() != 0 {
		return nil, ErrCannot
	}
	lock, err := os.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// Alone while it starts, in company while it runs.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		err = start(ctx)
		if err != nil {
			_ = lock.Close()
			return nil, err
		}
	} else if !errors.Is(err, syscall.EWOULDBLOCK) {
		_ = lock.Close()
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH); err != nil {
		_ = lock.Close()
		return nil, err
	}
	stop = func() {
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			end()
		}
		_ = lock.Close()
	}
	if err := await(ctx, answers); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// start starts the engine in a session of its own, so that an interrupt from the terminal reaches the tests first and
// they can still remove their containers.
func start(ctx context.Context) error {
	if answers(ctx) == nil {
		return nil
	}
	if err := install(ctx); err != nil {
		return err
	}
	if answers(ctx) == nil {
		return nil // The package started it.
	}
	log, err := os.Create(logFile)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("dockerd")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = await(ctx, func(ctx context.Context) error {
		select {
		case err := <-ended:
			text, _ := os.ReadFile(logFile)
			return permanent{fmt.Errorf("%w: %v\n%s", ErrStart, err, text)}
		default:
			return answers(ctx)
		}
	})
	if err != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		return err
	}
	return os.WriteFile(pidFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
}

// install brings the packages that are missing. A new machine has no package lists yet.
func install(ctx context.Context) error {
	var missing []string
	for program, pkg := range map[string]string{"dockerd": "docker.io", "iptables": "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, missing...)} {
		fmt.Println("apt-get", strings.Join(args, " "))
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out.String())
		}
	}
	return nil
}

// end ends the engine that a run started, by its id.
func end() {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return // It was there before, or somebody else started it.
	}
	defer os.Remove(pidFile)
	pid, err := strconv.Atoi(string(text))
	if err != nil || !isEngine(pid) || syscall.Kill(pid, syscall.SIGTERM) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = await(ctx, func(context.Context) error {
		if isEngine(pid) {
			return errors.New("the Docker engine is still there")
		}
		return nil
	})
}

// isEngine says whether a process is the engine still: its id may belong to another one by now.
func isEngine(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return false
	}
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil && errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return strings.TrimSpace(string(name)) == "dockerd" && !bytes.Contains(state, []byte(") Z "))
}

// answers pings the engine.
func answers(ctx context.Context) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s", ErrStart, resp.Status)
	}
	return nil
}

// permanent is an error that waiting does not cure.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

func await(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil || errors.As(err, &permanent{}) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}
