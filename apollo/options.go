package apollo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

const (
	// DefaultTimeout bounds one request that does not wait for a change, where AppConfig.SyncServerTimeout is not set.
	DefaultTimeout = 5 * time.Second
	// DefaultPatience is how long a long poll may last. The server holds it for 60 s.
	DefaultPatience = 90 * time.Second
	// DefaultMaxChars is Apollo's own item.value.length.limit.
	DefaultMaxChars = 20_000
	// DefaultSettle is how long a write waits between its edit and its last look.
	DefaultSettle = 300 * time.Millisecond
)

// minPatience is more than what the server holds a poll for; less would cut each one.
const minPatience = 65 * time.Second

// ClientOption is an option of NewClient.
type ClientOption func(*Client) error

// HTTPClient sends all requests, for a proxy, TLS or another dialler. It is borrowed. Its Timeout, if any, must be over
// that of a long poll. Default: a client of our own, closed with the Client.
func HTTPClient(c *http.Client) ClientOption {
	return func(cl *Client) error {
		if c == nil {
			return errors.New("HTTPClient(nil)")
		}
		cl.http = c
		return nil
	}
}

// Secret is asked for the app's access key secret before each request, so that it may be rotated. Default:
// AppConfig.Secret.
func Secret(secret func(context.Context) (string, error)) ClientOption {
	return func(c *Client) error {
		if secret == nil {
			return errors.New("Secret(nil)")
		}
		c.secret = secret
		return nil
	}
}

// ClientIP is the address by which gray releases know this instance. Default: the last IPv4 address of this machine
// that is not a loopback one, as agollo has it.
func ClientIP(ip string) ClientOption {
	return func(c *Client) error {
		if ip == "" {
			return errors.New("ClientIP is empty")
		}
		c.ip = ip
		return nil
	}
}

// Direct sends requests to the addresses of AppConfig.IP only, and does not ask them for the list of config services.
// For a config service behind a gateway, or one that registers itself under an address that is not reachable from here.
func Direct() ClientOption {
	return func(c *Client) error {
		c.servers.direct = true
		return nil
	}
}

// Patience is how long a long poll may last before the connection is taken for dead: what the server holds it for, plus
// a margin. Default 90 s, at least 65 s.
func Patience(d time.Duration) ClientOption {
	return func(c *Client) error {
		if d < minPatience {
			return fmt.Errorf("Patience(%v) is less than %v: the server holds a poll for a minute", d, minPatience)
		}
		c.patience = d
		return nil
	}
}

// Option is an option of NewSource and NewSink. Each says which of them takes it; the other returns an error.
type Option func(*settings) error

type settings struct {
	sink     bool
	timeout  time.Duration
	maxBytes int
	maxChars int
	actor    func(context.Context) string
	settle   time.Duration
	inspect  Editor
}

// Timeout bounds one request that does not wait for a change. Default: AppConfig.SyncServerTimeout, or 5 s. For sources
// and sinks; a sink sends about ten requests for a write. An engine bounds a source's reads by its own ReadTimeout (5
// s), too.
func Timeout(d time.Duration) Option {
	return func(s *settings) error {
		if d <= 0 {
			return fmt.Errorf("Timeout(%v) is not positive", d)
		}
		s.timeout = d
		return nil
	}
}

// MaxBytes is the size of the largest document, bytes; a larger one is refused with datasource.ErrTooLarge. Default
// 4 MiB. For sources and sinks.
func MaxBytes(n int) Option {
	return func(s *settings) error {
		if n <= 0 {
			return fmt.Errorf("MaxBytes(%d) is not positive", n)
		}
		s.maxBytes = n
		return nil
	}
}

// MaxChars is the length of the longest document that a sink sends, in UTF-16 units, as the server counts. Default
// 20,000. Raise it only with the server's item.value.length.limit. For sinks.
func MaxChars(n int) Option {
	return func(s *settings) error {
		if n <= 0 {
			return fmt.Errorf("MaxChars(%d) is not positive", n)
		}
		s.maxChars = n
		return s.only("MaxChars", true)
	}
}

// Actor names who writes; a release's comment shows it. It is asked for each write. Default: the editor's user. For
// sinks.
func Actor(actor func(context.Context) string) Option {
	return func(s *settings) error {
		if actor == nil {
			return errors.New("Actor(nil)")
		}
		s.actor = actor
		return s.only("Actor", true)
	}
}

// Settle is how long a write waits between its edit and its last look, so that the edit of another process that began at the
// same moment shows. All processes that write the namespace need the same. It must be more than reading the items and
// editing one take; an edit that took longer is taken back, with datasource.ErrConflict. 0 is for a namespace that only
// this process writes. Default 300 ms. For sinks.
func Settle(d time.Duration) Option {
	return func(s *settings) error {
		if d < 0 {
			return fmt.Errorf("Settle(%v) is negative", d)
		}
		s.settle = d
		return s.only("Settle", true)
	}
}

// Inspect lets a source ask e why the config service has no release: it answers 404 to a namespace that was never
// released as to one that does not exist. Asked when that begins, and once an hour; what it says stands in Note. Default:
// the two are not told apart. For sources.
func Inspect(e Editor) Option {
	return func(s *settings) error {
		if e == nil {
			return errors.New("Inspect(nil)")
		}
		s.inspect = e
		return errors.Join(e.check(), s.only("Inspect", false))
	}
}

func (s *settings) only(name string, sink bool) error {
	if s.sink != sink {
		return fmt.Errorf("option %s does not belong here", name)
	}
	return nil
}

func (s *settings) apply(c *Client, options []Option) error {
	s.timeout, s.maxBytes, s.maxChars, s.settle = c.timeout, datasource.DefaultMaxBytes, DefaultMaxChars, DefaultSettle
	for _, option := range options {
		if option == nil {
			return errors.New("option is nil")
		}
		if err := option(s); err != nil {
			return err
		}
	}
	return nil
}
