// Command service is an HTTP service whose calls pass through sentinel-golang, with its rules in a folder of files that
// may be edited while it runs. It is the quickest way to see what Rulewire does: "make run" starts it.
//
//	GET /call/{resource}?arg=…&fail=1&sleep=20ms   200, or 429 with the kind of rule and the rule that refused
//	GET /rules                                     a page for a browser; one object per kind as JSON otherwise
//	GET /rules/{kind}                              the rules in force, as a document that a Java client reads
//
// With -command it answers the Sentinel Dashboard, which then lists and edits the files' rules.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/config"
	"github.com/alibaba/sentinel-golang/logging"

	"github.com/rulewire/rulewire/command"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/file"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/sentinel"
	"github.com/rulewire/rulewire/writable"
)

//go:embed samples
var samples embed.FS

func main() {
	rules := flag.String("rules", "", "folder with flow.json, degrade.json, … (default: run/rules, made with samples on first use)")
	addr := flag.String("addr", "127.0.0.1:8088", "address to listen on; port 0 is any free one")
	var p port
	flag.StringVar(&p.command, "command", "", "address of the command port for the Sentinel Dashboard, for example 127.0.0.1:8719; port 0 is any free one (default: none)")
	flag.StringVar(&p.dashboard, "dashboard", "", "dashboards to beat to, host:port with commas between; needs -command, else it is "+command.DefaultAddress)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *rules, *addr, p, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// port says whether and how the Sentinel Dashboard gets in. With a port the rules can be edited, and are written to their
// files.
type port struct{ command, dashboard string }

func (p port) parts() []sentinel.Part {
	if p.command == "" && p.dashboard == "" {
		return nil
	}
	opts := []command.Option{command.Dashboards(p.dashboard)}
	if p.command != "" {
		opts = append(opts, command.Address(p.command))
	}
	return []sentinel.Part{sentinel.Command(opts...)}
}

// serve runs the service until ctx ends.
func serve(ctx context.Context, dir, addr string, cmd port, out io.Writer) error {
	dir, err := prepare(dir)
	if err != nil {
		return err
	}
	if err := initCore(); err != nil {
		return err
	}
	p := &printer{out: out, dir: dir}
	rules, err := open(ctx, dir, p, cmd.parts())
	if err != nil {
		return err
	}
	defer rules.Close()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	p.line("listening on http://%s", l.Addr())
	p.line("rules in %s", dir)
	if c := rules.Command(); c != nil {
		p.line("command port http://%s", c.Addr())
	}
	srv := &http.Server{Handler: handler(rules), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = srv.Shutdown(grace)
	if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// prepare makes the folder. The default one gets samples on first use; a folder of the user's is left as it is.
func prepare(dir string) (string, error) {
	if dir != "" {
		return abs(dir, os.MkdirAll(dir, 0o755))
	}
	dir = filepath.Join("run", "rules")
	if _, err := os.Stat(dir); err == nil {
		return abs(dir, nil)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	names, err := fs.Glob(samples, "samples/*.json")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		data, err := samples.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	return abs(dir, nil)
}

func abs(dir string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// initCore starts the core library's own collectors (load, CPU, memory: system rules need them) without its log files.
func initCore() error {
	if err := logging.ResetGlobalLogger(logging.NewConsoleLogger()); err != nil {
		return err
	}
	logging.ResetGlobalLoggerLevel(logging.ErrorLevel)
	c := config.NewDefaultConfig()
	c.Sentinel.App.Name = "rulewire-example"
	c.Sentinel.Log.Logger = logging.GetGlobalLogger()
	c.Sentinel.Log.Metric.FlushIntervalSec = 0
	return api.InitWithConfig(c)
}

// open connects each kind to its file. A file that is absent or bad does not keep the service from starting: an
// operator sees what is wrong on the page, and the file's next good version comes into force.
func open(ctx context.Context, dir string, p *printer, more []sentinel.Part) (*sentinel.Rules, error) {
	parts := more
	for _, k := range rule.Kinds() {
		path := filepath.Join(dir, string(k)+".json")
		src, err := file.NewSource(path)
		if err != nil {
			return nil, err
		}
		sink, err := file.NewSink(path)
		if err != nil {
			return nil, err
		}
		quiet := slog.New(slog.DiscardHandler) // the printer says it in words
		opts := []sentinel.Option{
			sentinel.Engine(datasource.OnStart(datasource.Empty), datasource.WithObserver(p.observer(k)), datasource.Logger(quiet)),
			sentinel.Sink(sink, writable.Logger(quiet), writable.Audit(p)),
		}
		if len(more) > 0 {
			// The Dashboard's people write rules that only Java enforces, too: they are kept, and shown as held.
			opts = append(opts, sentinel.Unsupported(sentinel.Hold))
		}
		switch k {
		case rule.KindFlow:
			parts = append(parts, sentinel.Flow(src, opts...))
		case rule.KindDegrade:
			parts = append(parts, sentinel.Degrade(src, opts...))
		case rule.KindSystem:
			parts = append(parts, sentinel.System(src, opts...))
		case rule.KindAuthority:
			parts = append(parts, sentinel.Authority(src, opts...))
		case rule.KindParamFlow:
			parts = append(parts, sentinel.ParamFlow(src, opts...))
		case rule.KindIsolation:
			parts = append(parts, sentinel.Isolation(src, opts...))
		}
	}
	return sentinel.Open(ctx, parts...)
}

// printer writes what happens to the terminal, a line at a time.
type printer struct {
	mu  sync.Mutex
	out io.Writer
	dir string
}

func (p *printer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// Audit tells who edited what.
func (p *printer) Audit(_ context.Context, r writable.Record) {
	p.line("%s: written by %s: %d added, %d changed, %d removed, revision %.12s", r.Kind, r.Actor, r.Added, r.Changed, r.Removed, r.To)
}

func (p *printer) observer(k rule.Kind) datasource.Observer {
	var failed string // what was printed last, so that a failure that lasts is told once
	return datasource.ObserverFunc(func(e datasource.Event) {
		switch e.Kind {
		case datasource.EventApplied:
			for _, line := range e.Diff {
				p.line("%s", line)
			}
			if n := e.Added + e.Changed + e.Removed - len(e.Diff); n > 0 {
				p.line("%s: and %d more changes", k, n)
			}
			if e.Err != nil {
				p.line("%s: some rules skipped: %s", k, indent(e.Err))
			}
		case datasource.EventRefused:
			p.line("%s: refused (%s), %d rules stay in force: %s", k, e.Cause, e.Rules, indent(e.Err))
		case datasource.EventFailed:
			if text := indent(e.Err); text != failed {
				failed = text
				p.line("%s: failed (%s): %s", k, e.Cause, text)
			}
		case datasource.EventRecovered:
			failed = ""
			p.line("%s: the newest document is in force again", k)
		}
	})
}

func indent(err error) string { return strings.ReplaceAll(err.Error(), "\n", "\n    ") }
