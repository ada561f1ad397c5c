package command

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// Defaults of the options.
const (
	// DefaultAddress is where the Java client listens too, but only for this machine.
	// Source: TransportConfig.SERVER_PORT of sentinel-transport-common 1.8.9, 8719.
	DefaultAddress = "127.0.0.1:8719"
	// DefaultVersion is what `version` answers and the beats carry. The Dashboard posts edits to clients from 1.6.0 on only,
	// and shows its cluster pages from 1.4.0 on; what follows the hyphen is free.
	DefaultVersion = "1.8.9-rulewire"
	// DefaultMaxBody is the largest request body, bytes.
	DefaultMaxBody = 4 << 20
	// DefaultMaxRemoved is how many rules in force one push may remove: a click of the Dashboard removes one.
	DefaultMaxRemoved = 1
	// DefaultEditTimeout is when an edit is answered at the latest. The Dashboard's flow page waits 5 s.
	DefaultEditTimeout = 4 * time.Second
	// DefaultMaxConns is how many connections are served at once.
	DefaultMaxConns = 512
	// DefaultHeartbeatPeriod is the Java client's. The Dashboard takes a machine for unhealthy after 60 s.
	DefaultHeartbeatPeriod = 10 * time.Second
	// DefaultHeartbeatPath is the Dashboard's.
	DefaultHeartbeatPath = "/registry/machine"
)

// AppType tells the Dashboard which menu to show.
type AppType int

const (
	// AppCommon is a service. The default.
	AppCommon AppType = 0
	// AppGateway is an API gateway: the Dashboard then shows its gateway pages, which have nothing to show here.
	AppGateway AppType = 1
)

// Option sets one thing of a Centre.
type Option func(*options) error

type options struct {
	kinds      map[rule.Kind]func(*options) ruleset
	stats      Statistics
	address    string
	exact      bool
	app        string
	appType    AppType
	version    string
	maxBody    int64
	maxRemoved int
	maxConns   int
	editLimit  time.Duration
	tokens     []token
	tls        *tls.Config
	peers      []netip.Prefix
	hosts      map[string]bool
	commands   []Command
	logger     *slog.Logger

	dashboards []dashboard
	period     time.Duration
	path       string
	ip         netip.Addr
	client     *http.Client
}

type token struct{ actor, secret string }

// guarded says that not everybody who reaches the port gets in. A client certificate that nobody verifies keeps nobody out.
func (o *options) guarded() bool {
	return len(o.peers) > 0 || len(o.tokens) > 0 ||
		o.tls != nil && (o.tls.ClientAuth == tls.RequireAndVerifyClientCert || o.tls.GetConfigForClient != nil)
}

func newOptions(opts []Option) (*options, error) {
	o := &options{
		kinds: make(map[rule.Kind]func(*options) ruleset), address: DefaultAddress, app: filepath.Base(os.Args[0]), version: DefaultVersion,
		maxBody: DefaultMaxBody, maxRemoved: DefaultMaxRemoved, maxConns: DefaultMaxConns, editLimit: DefaultEditTimeout,
		hosts: make(map[string]bool), logger: slog.Default(), period: DefaultHeartbeatPeriod, path: DefaultHeartbeatPath,
	}
	var errs []error
	for _, opt := range opts {
		if opt == nil {
			errs = append(errs, errors.New("nil option"))
			continue
		}
		if err := opt(o); err != nil {
			errs = append(errs, err)
		}
	}
	return o, errors.Join(errs...)
}

// Registry takes the documents of every kind from g, as it has them when a request comes. Kinds that Rules names too are
// those of Rules.
func Registry(g *writable.Registry) Option {
	return func(o *options) error {
		if g == nil {
			return errors.New("Registry: nil registry")
		}
		register(o, func() []Document[rule.Flow] { return registered[rule.Flow](g) }, false)
		register(o, func() []Document[rule.Degrade] { return registered[rule.Degrade](g) }, false)
		register(o, func() []Document[rule.System] { return registered[rule.System](g) }, false)
		register(o, func() []Document[rule.Authority] { return registered[rule.Authority](g) }, false)
		register(o, func() []Document[rule.ParamFlow] { return registered[rule.ParamFlow](g) }, false)
		register(o, func() []Document[rule.Isolation] { return registered[rule.Isolation](g) }, false)
		return nil
	}
}

// Rules gives the documents of one kind; T is rule.Flow, Degrade, System, Authority, ParamFlow or Isolation. With several a
// read answers all of their rules, and an edit may change one of them; new rules go to the first that has a store.
func Rules[T any](docs ...Document[T]) Option {
	return func(o *options) error {
		for _, d := range docs {
			if d == nil {
				return errors.New("Rules: nil document")
			}
		}
		if !register(o, func() []Document[T] { return docs }, true) {
			return fmt.Errorf("Rules: %T is no kind of rule: %w", *new(T), rule.ErrUnsupported)
		}
		return nil
	}
}

// register gives kind T its documents.
func register[T any](o *options, docs func() []Document[T], replace bool) bool {
	name, ok := rule.KindOf[T]()
	if _, there := o.kinds[name]; there && !replace {
		return ok
	}
	switch docs := any(docs).(type) {
	case func() []Document[rule.Flow]:
		o.kinds[name] = func(o *options) ruleset { return newKind(docs, flowForm(), o) }
	case func() []Document[rule.Degrade]:
		o.kinds[name] = func(o *options) ruleset { return newKind(docs, degradeForm(), o) }
	case func() []Document[rule.System]:
		o.kinds[name] = func(o *options) ruleset { return newKind(docs, systemForm(), o) }
	case func() []Document[rule.Authority]:
		o.kinds[name] = func(o *options) ruleset { return newKind(docs, authorityForm(), o) }
	case func() []Document[rule.ParamFlow]:
		o.kinds[name] = func(o *options) ruleset { return newKind(docs, paramFlowForm(), o) }
	case func() []Document[rule.Isolation]:
		o.kinds[name] = func(o *options) ruleset { return newKind(docs, isolationForm(), o) }
	}
	return ok
}

// Stats gives what the charts and the tree show. Default: a root without resources.
func Stats(s Statistics) Option {
	return func(o *options) error { o.stats = s; return nil }
}

// Address is where to listen, host:port. Port 0 is any free one; a port that is taken leads to the next free one, as with the
// Java client (see ExactPort). Default 127.0.0.1:8719: only this machine can reach it. For another address see Peers, Token
// and TLS: who reaches the port may set rules.
func Address(addr string) Option {
	return func(o *options) error {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("Address: %w", err)
		}
		o.address = addr
		return nil
	}
}

// ExactPort makes Start fail if the port is taken. Default: the next free one, at most 100 further on.
func ExactPort() Option { return func(o *options) error { o.exact = true; return nil } }

// App is the application's name and type in the Dashboard; at most 256 characters. Default: the name of the program's file,
// AppCommon. The Dashboard takes the type from the first beat of a name only.
func App(name string, t AppType) Option {
	return func(o *options) error {
		if strings.TrimSpace(name) == "" || len([]rune(name)) > 256 {
			return fmt.Errorf("App: %q: want 1 to 256 characters", name)
		}
		o.app, o.appType = name, t
		return nil
	}
}

// Version is what `version` answers and the beats carry. Default DefaultVersion; see there for what depends on it.
func Version(v string) Option {
	return func(o *options) error {
		if v == "" {
			return errors.New("Version: blank")
		}
		o.version = v
		return nil
	}
}

// MaxBody bounds the body of a request, bytes. A longer one is answered with 413 and never applied; one
// of more than twice the bound is not read either, so that its sender may miss the answer. Default 4 MiB.
func MaxBody(n int64) Option {
	return func(o *options) error {
		if n <= 0 {
			return fmt.Errorf("MaxBody: %d is not positive", n)
		}
		o.maxBody = n
		return nil
	}
}

// MaxRemoved is how many rules in force one push may remove; one that would remove more is held back, see Centre.Pending.
// Negative = any, as the Java client does. Default 1.
func MaxRemoved(n int) Option { return func(o *options) error { o.maxRemoved = n; return nil } }

// MaxConns bounds the connections that are served at once; others wait. Default 512.
func MaxConns(n int) Option {
	return func(o *options) error {
		if n <= 0 {
			return fmt.Errorf("MaxConns: %d is not positive", n)
		}
		o.maxConns = n
		return nil
	}
}

// EditTimeout is when an edit is answered at the latest. Default 4 s: the Dashboard waits 5.
func EditTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("EditTimeout: %v is not a positive duration", d)
		}
		o.editLimit = d
		return nil
	}
}

// Token demands "Authorization: Bearer secret" of every request. It may be given several times; actor is who then edits,
// for the log and the audit hook. The stock Dashboard can't send one: it needs a proxy that adds it. Default: none.
func Token(actor, secret string) Option {
	return func(o *options) error {
		if secret == "" || strings.ContainsAny(secret, " \t\r\n") {
			return errors.New("Token: a secret is blank or holds blanks")
		}
		o.tokens = append(o.tokens, token{actor, secret})
		return nil
	}
}

// TLS serves with c, which must have a certificate. With ClientAuth tls.RequireAndVerifyClientCert only holders of a
// certificate of ClientCAs get in, and the certificate's common name is who edits. Default: plain HTTP, as the Dashboard
// speaks it.
func TLS(c *tls.Config) Option {
	return func(o *options) error {
		if c == nil || len(c.Certificates) == 0 && c.GetCertificate == nil && c.GetConfigForClient == nil {
			return errors.New("TLS: no certificate")
		}
		o.tls = c.Clone()
		return nil
	}
}

// Peers lets in only connections from these networks, e.g. the Dashboard's address as a /32. Proxy headers are not looked
// at. Default: any that reaches the port.
func Peers(networks ...netip.Prefix) Option {
	return func(o *options) error {
		for _, n := range networks {
			if !n.IsValid() {
				return errors.New("Peers: invalid network")
			}
			o.peers = append(o.peers, n.Masked())
		}
		return nil
	}
}

// Hosts are names under which this port is asked for, beside localhost and every IP address. A request under any other name
// is refused: a web page whose name was made to lead here (DNS rebinding) would come under its own. Default: none.
func Hosts(names ...string) Option {
	return func(o *options) error {
		for _, n := range names {
			o.hosts[strings.ToLower(n)] = true
		}
		return nil
	}
}

// Handle adds a command of the user's own, or replaces one.
func Handle(c Command) Option {
	return func(o *options) error {
		if strings.Trim(c.Name, "/") != c.Name || c.Name == "" || c.Run == nil {
			return fmt.Errorf("Handle: command %q: want a name without slashes at its ends, and Run", c.Name)
		}
		o.commands = append(o.commands, c)
		return nil
	}
}

// Logger gets one record for each edit that was refused or failed, and one for each change of condition. Default
// slog.Default(); nil is silence.
func Logger(l *slog.Logger) Option {
	return func(o *options) error {
		if l == nil {
			l = slog.New(slog.DiscardHandler)
		}
		o.logger = l
		return nil
	}
}

// Dashboards are where to beat to: host:port, http://host:port or https://host:port (port 80 or 443 if absent), each also
// with commas between. Beats go to one of them; if it fails, to the next. Default: none, no heartbeat.
func Dashboards(addrs ...string) Option {
	return func(o *options) error {
		for _, addr := range strings.Split(strings.Join(addrs, ","), ",") {
			if addr = strings.TrimSpace(addr); addr == "" {
				continue
			}
			d, err := parseDashboard(addr)
			if err != nil {
				return fmt.Errorf("Dashboards: %w", err)
			}
			o.dashboards = append(o.dashboards, d)
		}
		return nil
	}
}

// HeartbeatPeriod is the time between two beats. After failures it doubles, up to six periods. Default 10 s.
func HeartbeatPeriod(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("HeartbeatPeriod: %v is not a positive duration", d)
		}
		o.period = d
		return nil
	}
}

// HeartbeatPath is the Dashboard's path. Default /registry/machine.
func HeartbeatPath(path string) Option {
	return func(o *options) error {
		o.path = "/" + strings.TrimPrefix(path, "/")
		return nil
	}
}

// HeartbeatIP is the address that the Dashboard is told to call back, for containers and machines with several networks.
// Default: the one that is listened on, or, if that is any, the one from which the way to the Dashboard leads. The Dashboard
// can't call back an IPv6 address.
func HeartbeatIP(ip netip.Addr) Option {
	return func(o *options) error {
		if !ip.IsValid() {
			return errors.New("HeartbeatIP: invalid address")
		}
		o.ip = ip.Unmap().WithZone("")
		return nil
	}
}

// HeartbeatClient sends the beats, for a proxy or own certificates. Redirects are not followed whatever it says. Default: a
// client of its own.
func HeartbeatClient(c *http.Client) Option {
	return func(o *options) error {
		if c == nil {
			return errors.New("HeartbeatClient: nil client")
		}
		copied := *c
		o.client = &copied
		return nil
	}
}
