// Command service is an HTTP service whose calls pass through sentinel-golang, with its rules in a folder of files that
// may be edited while it runs. It is the quickest way to see what Rulewire does: "make run" starts it.
//
//	GET /call/{resource}?arg=…&fail=1&sleep=20ms   200, or 429 with the kind of rule and the rule that refused
//	GET /rules                                     a page for a browser; one object per kind as JSON otherwise
//	GET /rules/{kind}                              the rules in force, as a document that a Java client reads
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

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/file"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/sentinel"
)

//go:embed samples
var samples embed.FS

func main() {
	rules := flag.String("rules", "", "folder with flow.json, degrade.json, … (default: run/rules, made with samples on first use)")
	addr := flag.String("addr", "127.0.0.1:8088", "address to listen on; port 0 is any free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *rules, *addr, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// serve runs the service until ctx ends.
func serve(ctx context.Context, dir, addr string, out io.Writer) error {
	dir, err := prepare(dir)
	if err != nil {
		return err
	}
	if err := initCore(); err != nil {
		return err
	}
	p := &printer{out: out, dir: dir}
	rules, err := open(ctx, dir, p)
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
func open(ctx context.Context, dir string, p *printer) (*sentinel.Rules, error) {
	var parts []sentinel.Part
	for _, k := range rule.Kinds() {
		src, err := file.NewSource(filepath.Join(dir, string(k)+".json"))
		if err != nil {
			return nil, err
		}
		opt := sentinel.Engine(
			datasource.OnStart(datasource.Empty),
			datasource.WithObserver(p.observer(k)),
			datasource.Logger(slog.New(slog.DiscardHandler)), // the printer says it in words
		)
		switch k {
		case rule.KindFlow:
			parts = append(parts, sentinel.Flow(src, opt))
		case rule.KindDegrade:
			parts = append(parts, sentinel.Degrade(src, opt))
		case rule.KindSystem:
			parts = append(parts, sentinel.System(src, opt))
		case rule.KindAuthority:
			parts = append(parts, sentinel.Authority(src, opt))
		case rule.KindParamFlow:
			parts = append(parts, sentinel.ParamFlow(src, opt))
		case rule.KindIsolation:
			parts = append(parts, sentinel.Isolation(src, opt))
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
