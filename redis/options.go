package redis

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/datasource"
)

// The defaults of the options.
const (
	DefaultTimeout  = 5 * time.Second
	DefaultMaxBytes = 4 << 20
	DefaultSilence  = 30 * time.Second
)

// minSilence keeps a slip of the pen (3 for 3*time.Second) from becoming a storm of pings.
const minSilence = 100 * time.Millisecond

// Option changes a default of NewSource, NewSink or NewSubscriptions. Each says which of them takes it; the others
// return an error.
type Option func(*config) error

type config struct {
	maker    maker
	timeout  time.Duration
	maxBytes int
	channel  string
	keyspace bool
	silence  time.Duration
	shared   *Subscriptions
}

// maker is who takes an option; makers add up.
type maker uint8

const (
	sourceMaker maker = 1 << iota
	sinkMaker
	subscriptionsMaker
)

func (c *config) check(name string, takers maker) error {
	if c.maker&takers == 0 {
		return fmt.Errorf("redis: option %s does not belong here", name)
	}
	return nil
}

func configure(c config, options []Option) (config, error) {
	c.timeout, c.maxBytes = DefaultTimeout, DefaultMaxBytes
	var errs []error
	for _, o := range options {
		if o == nil {
			errs = append(errs, errors.New("redis: nil option"))
			continue
		}
		errs = append(errs, o(&c))
	}
	if c.shared != nil && c.silence != 0 {
		errs = append(errs, errors.New("redis: Silence is set where the subscriptions are made, not beside Shared"))
	}
	return c, errors.Join(errs...)
}

// Timeout bounds one request. Default 5 s. An engine bounds a source's reads by its own ReadTimeout (5 s), too. For
// sources and sinks.
//
// A go-redis client puts it on the wire only with its option ContextTimeoutEnabled: without, a call that ran into
// Timeout returns in time, and what it began ends with the client's own ReadTimeout.
func Timeout(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("redis: Timeout(%v): must be positive", d)
		}
		c.timeout = d
		return c.check("Timeout", sourceMaker|sinkMaker)
	}
}

// MaxBytes is the size over which a document is refused with datasource.ErrTooLarge, on reading and on writing. A read
// asks the server for one byte more and no further, so that a huge value does not come over; only the read that finds one
// where the key was missing or empty before gets all of it, once. Default: 4 MiB. For sources and sinks.
func MaxBytes(n int) Option {
	return func(c *config) error {
		if n <= 0 {
			return fmt.Errorf("redis: MaxBytes(%d): must be positive", n)
		}
		c.maxBytes = n
		return c.check("MaxBytes", sourceMaker|sinkMaker)
	}
}

// Channel is the pub/sub channel on which a change is announced: a source subscribes to it, a sink publishes the whole
// document on it. Default: the key itself. A fleet with Java services takes the channel that their RedisDataSource was
// given. For sources and sinks.
func Channel(name string) Option {
	return func(c *config) error {
		if name == "" {
			return errors.New("redis: Channel: no name")
		}
		c.channel = name
		return c.check("Channel", sourceMaker|sinkMaker)
	}
}

// Keyspace also subscribes to the server's keyspace notifications for the key, which tell of writers that publish
// nothing, of deletion and of expiry. The server must have them on (notify-keyspace-events "K$gx" or more); Rulewire
// looks, changes nothing, and says in Note what is missing. Default: off. For sources.
func Keyspace() Option {
	return func(c *config) error {
		c.keyspace = true
		return c.check("Keyspace", sourceMaker)
	}
}

// Silence is how long the subscription may be without a sign of life before it is given up, at least 100 ms. It is
// pinged twice in that time. Default 30 s. For sources, and for NewSubscriptions instead where they are shared.
func Silence(d time.Duration) Option {
	return func(c *config) error {
		if d < minSilence {
			return fmt.Errorf("redis: Silence(%v): must be at least %v", d, minSilence)
		}
		c.silence = d
		return c.check("Silence", sourceMaker|subscriptionsMaker)
	}
}

// Shared lets the source subscribe through s, so that one connection serves all sources that share it. Default: a
// connection for each source. For sources.
func Shared(s *Subscriptions) Option {
	return func(c *config) error {
		if s == nil {
			return errors.New("redis: Shared(nil)")
		}
		c.shared = s
		return c.check("Shared", sourceMaker)
	}
}

// kind is what the driver must know of a client.
type kind struct {
	db      int
	known   bool                 // the client's type, so db is right
	cluster *redis.ClusterClient // nil if it isn't one
	// astray: plain reads may be answered by a replica or by a cache of the client.
	astray bool
}

func kindOf(client redis.UniversalClient) (kind, error) {
	errNil := errors.New("redis: no client")
	switch c := client.(type) {
	case nil:
		return kind{}, errNil
	case *redis.Client:
		if c == nil {
			return kind{}, errNil
		}
		o := c.Options()
		return kind{db: o.DB, known: true, astray: o.ClientSideCache != nil || o.ClientSideCacheConfig != nil}, nil
	case *redis.ClusterClient:
		if c == nil {
			return kind{}, errNil
		}
		return kind{known: true, cluster: c, astray: c.Options().ReadOnly}, nil
	case *redis.Ring:
		// A ring finds the server of a key and that of a channel each by its own name: no transaction spans both.
		return kind{}, fmt.Errorf("redis: a ring of servers: %w", datasource.ErrUnsupported)
	}
	return kind{}, nil
}

// locate gives the ID that source and sink of one document share.
func locate(k kind, key string) (string, error) {
	if key == "" {
		return "", errors.New("redis: no key")
	}
	if k.db != 0 {
		return "redis/" + strconv.Itoa(k.db) + ":" + key, nil
	}
	return "redis:" + key, nil
}
