package apollo

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apolloconfig/agollo/v4/env/config"

	"github.com/rulewire/rulewire/datasource"
)

const (
	defaultCluster = "default"
	// dialTimeout leaves time for another server within DefaultTimeout.
	dialTimeout = 2 * time.Second
)

// errClosed: it is the client that is closed, not the source or the sink.
var errClosed = fmt.Errorf("the client: %w", datasource.ErrClosed)

// Client speaks to the config service for one app id in one cluster. All its sources share one long poll, and sources of
// one namespace share its reads. For another app id make another Client. Its methods may be called from any goroutine.
type Client struct {
	app, cluster, label string
	ip                  string
	secret              func(context.Context) (string, error)
	http                *http.Client
	own                 *http.Transport // nil where the user brought an http.Client
	timeout, patience   time.Duration
	servers             servers

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	spaces map[string]*namespace
	legs   map[*leg]struct{}
	// limped: the last read did not get through. Polls that seem to be held may hang on dead connections.
	limped bool
}

// NewClient makes a client from the configuration that agollo takes: AppID, Cluster (default "default"), IP (the meta
// server or config services, separated by commas), Secret, Label and SyncServerTimeout (seconds) are read, once; the
// rest is not. It does no I/O. Close it after all its sources and sinks.
func NewClient(app *config.AppConfig, options ...ClientOption) (*Client, error) {
	c, err := newClient(app, options)
	if err != nil {
		return nil, fmt.Errorf("apollo: %w", err)
	}
	return c, nil
}

func newClient(app *config.AppConfig, options []ClientOption) (*Client, error) {
	if app == nil {
		return nil, errors.New("AppConfig is nil")
	}
	c := &Client{
		app: app.AppID, cluster: app.Cluster, label: app.Label, timeout: DefaultTimeout, patience: DefaultPatience,
		spaces: map[string]*namespace{}, legs: map[*leg]struct{}{},
	}
	secret := app.Secret
	c.secret = func(context.Context) (string, error) { return secret, nil }
	if c.cluster == "" {
		c.cluster = defaultCluster
	}
	if app.SyncServerTimeout > 0 {
		c.timeout = time.Duration(app.SyncServerTimeout) * time.Second
	}
	for name, part := range map[string]string{"AppConfig.AppID": c.app, "AppConfig.Cluster": c.cluster} {
		if err := checkName(name, part); err != nil {
			return nil, err
		}
	}
	if err := c.servers.configure(app.IP); err != nil {
		return nil, err
	}
	for _, option := range options {
		if option == nil {
			return nil, errors.New("option is nil")
		}
		if err := option(c); err != nil {
			return nil, err
		}
	}
	if c.http == nil {
		c.own = &http.Transport{
			Proxy: http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{
				Timeout: dialTimeout,
				// A poll is silent for a minute. A peer that went without a word shows in half of that.
				KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
			}).DialContext,
			TLSHandshakeTimeout: dialTimeout,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     90 * time.Second,
		}
		c.http = &http.Client{Transport: c.own}
	} else if c.http.Timeout > 0 && c.http.Timeout < c.patience {
		return nil, fmt.Errorf("the http.Client's Timeout %v is less than %v, which a long poll may last", c.http.Timeout, c.patience)
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// Close ends the long poll and what is under way, and waits for it. Sources and sinks of the client say
// datasource.ErrClosed afterwards. It is safe to call twice, and at once.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.running.Wait()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	return nil
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("%s is empty", what)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || strings.ContainsRune("/\\,+?#%\x7f", r) }); i >= 0 {
		return fmt.Errorf("%s %q has a character that Apollo does not take", what, name)
	}
	return nil
}

// clientIP is the address by which gray releases know this machine, as agollo finds it.
func (c *Client) clientIP() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ip != "" {
		return c.ip
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "" // the server then takes the address that it sees
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			c.ip = n.IP.String()
		}
	}
	return c.ip
}

// get asks a config service. It goes on to the next server where one does not answer, but not for long: a service that
// is down as a whole must not be asked once for each of its servers.
func (c *Client) get(ctx context.Context, path string, query url.Values) (reply, error) {
	for tried := 1; ; tried++ {
		base, err := c.server(ctx)
		if err != nil {
			return reply{}, err
		}
		r, err := c.ask(ctx, base, path, query)
		if ctx.Err() != nil {
			return reply{}, c.over(ctx)
		}
		if err == nil && r.status < http.StatusInternalServerError {
			c.servers.worked()
			return r, nil
		}
		others := c.servers.failed(base)
		if tried > others {
			return r, err
		}
	}
}

// over says why a request whose context has ended was not answered.
func (c *Client) over(ctx context.Context) error {
	if c.isClosed() {
		return errClosed
	}
	return context.Cause(ctx)
}

// ask sends one signed request.
func (c *Client) ask(ctx context.Context, base *url.URL, path string, query url.Values) (reply, error) {
	u := join(base, path, query)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return reply{}, err
	}
	secret, err := c.secretNow(ctx)
	if err != nil {
		return reply{}, fmt.Errorf("secret: %w", err)
	}
	if secret != "" {
		stamp := strconv.FormatInt(time.Now().UnixMilli(), 10)
		req.Header.Set("Timestamp", stamp)
		req.Header.Set("Authorization", "Apollo "+c.app+":"+sign(secret, stamp, u))
	}
	return send(c.http, req)
}

// secretNow asks for the secret. A panic of the user's function would come on a goroutine of the client's.
func (c *Client) secretNow(ctx context.Context) (secret string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c.secret(ctx)
}

// sign is Apollo's signature of a request: over the path and query as they go over the wire.
func sign(secret, stamp string, u *url.URL) string {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(stamp + "\n" + u.RequestURI()))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// join appends a path, escaped already, to a server's address.
func join(base *url.URL, path string, query url.Values) *url.URL {
	u := *base
	escaped := strings.TrimSuffix(base.EscapedPath(), "/") + path
	if plain, err := url.PathUnescape(escaped); err == nil {
		u.Path, u.RawPath = plain, escaped
	}
	u.RawQuery = query.Encode()
	return &u
}
