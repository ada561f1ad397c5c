package consul

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

const (
	// DefaultTimeout bounds one request that does not block.
	DefaultTimeout = 5 * time.Second
	// DefaultWaitTime is how long one blocking query waits for a change.
	DefaultWaitTime = 5 * time.Minute
	// maxWaitTime is the longest that Consul waits, whatever it is asked for.
	maxWaitTime = 10 * time.Minute
	// valueLimit is Consul's kv_max_value_size unless the agent says otherwise.
	valueLimit = 512 << 10
)

// Mode is a consistency mode of Consul's reads.
type Mode uint8

const (
	// Consistent lets the leader make sure that it is still the leader. A read never gives what was overwritten before.
	Consistent Mode = iota
	// Default lets the leader trust its lease: for some seconds after it lost the lead it may answer with an old value.
	Default
	// Stale lets any server answer, however far it is behind.
	Stale
)

// Option is an option of NewSource and NewSink.
type Option func(*settings) error

type settings struct {
	sink                        bool
	timeout, wait               time.Duration
	maxBytes                    int
	mode                        Mode
	namespace, partition, datac string
	token                       func(context.Context) (string, error)
}

// Timeout bounds one request that does not block. Default 5 s. An engine bounds a source's reads by its own ReadTimeout
// (5 s), too.
func Timeout(d time.Duration) Option {
	return func(s *settings) error {
		if d <= 0 {
			return fmt.Errorf("Timeout(%v) is not positive", d)
		}
		s.timeout = d
		return nil
	}
}

// MaxBytes is the size of the largest document, bytes. Default for a source 4 MiB; for a sink 512 KiB, which is Consul's
// own limit. Raise it only with the agents' kv_max_value_size.
func MaxBytes(n int) Option {
	return func(s *settings) error {
		if n <= 0 {
			return fmt.Errorf("MaxBytes(%d) is not positive", n)
		}
		s.maxBytes = n
		return nil
	}
}

// WaitTime is how long a blocking query waits for a change. Each is a random tenth shorter, and Consul adds up to a
// sixteenth. Default 5 minutes, at most 10 minutes. It must be shorter than the Timeout of the client's http.Client and
// than what a proxy on the way lets pass in silence. For sources.
func WaitTime(d time.Duration) Option {
	return func(s *settings) error {
		if d < time.Second || d > maxWaitTime {
			return fmt.Errorf("WaitTime(%v) is not between 1s and %v", d, maxWaitTime)
		}
		s.wait = d
		return s.source("WaitTime")
	}
}

// Consistency is the mode of a source's reads and blocking queries. Default Consistent. For sources; a sink always reads
// consistently.
func Consistency(m Mode) Option {
	return func(s *settings) error {
		if m > Stale {
			return fmt.Errorf("Consistency(%d) is no mode", m)
		}
		s.mode = m
		return s.source("Consistency")
	}
}

// Token is asked for the ACL token before each request, so that a token may be rotated. Default: the client's token.
func Token(token func(context.Context) (string, error)) Option {
	return func(s *settings) error {
		if token == nil {
			return errors.New("Token(nil)")
		}
		s.token = token
		return nil
	}
}

// Datacenter is where the key is. Default: the agent's.
func Datacenter(name string) Option {
	return func(s *settings) error {
		s.datac = name
		return nil
	}
}

// Namespace is the key's namespace (Consul Enterprise). Default: that of the client or the token.
func Namespace(name string) Option {
	return func(s *settings) error {
		s.namespace = name
		return nil
	}
}

// Partition is the key's admin partition (Consul Enterprise). Default: that of the client or the agent.
func Partition(name string) Option {
	return func(s *settings) error {
		s.partition = name
		return nil
	}
}

// source refuses an option that has no meaning for a sink.
func (s *settings) source(option string) error {
	if s.sink {
		return fmt.Errorf("option %s does not belong here", option)
	}
	return nil
}

func (s *settings) apply(key string, sink bool, options []Option) error {
	s.sink, s.timeout, s.wait = sink, DefaultTimeout, DefaultWaitTime
	for _, option := range options {
		if option == nil {
			return errors.New("option is nil")
		}
		if err := option(s); err != nil {
			return err
		}
	}
	if s.maxBytes == 0 {
		s.maxBytes = datasource.DefaultMaxBytes
		if sink {
			s.maxBytes = valueLimit
		}
	}
	switch {
	case key == "":
		return errors.New("key is empty")
	case key[0] == '/':
		return fmt.Errorf("key %q begins with a slash, which no key of Consul does", key)
	case key[len(key)-1] == '/':
		return fmt.Errorf("key %q ends with a slash: it names a folder, not a document", key)
	case path.Clean(key) != key:
		return fmt.Errorf("key %q does not survive in a URL: it has an empty segment or one of dots only", key)
	}
	return nil
}

// id names the document with its scope, in Consul's own words.
func (s *settings) id(key string) string {
	scope := url.Values{}
	for name, value := range map[string]string{"dc": s.datac, "ns": s.namespace, "partition": s.partition} {
		if value != "" {
			scope.Set(name, value)
		}
	}
	if len(scope) == 0 {
		return "consul:" + key
	}
	return "consul:" + key + "?" + scope.Encode()
}
