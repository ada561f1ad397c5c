package etcd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

const (
	// DefaultTimeout bounds one request.
	DefaultTimeout = 5 * time.Second
	// requestLimit is etcd's --max-request-bytes unless the server says otherwise. It counts the whole request: the
	// key, which a write names three times, and the message around it.
	requestLimit    = 1536 << 10
	requestOverhead = 1 << 10
)

// Option is an option of NewSource and NewSink.
type Option func(*settings) error

type settings struct {
	prefix   string
	timeout  time.Duration
	maxBytes int
}

// Prefix goes before the key, as package clientv3/namespace does it for a whole client. Default: none.
func Prefix(prefix string) Option {
	return func(s *settings) error {
		s.prefix = prefix
		return nil
	}
}

// Timeout bounds one request, and the opening of a watch. Default 5 s. An engine bounds a source's reads by its own
// ReadTimeout (5 s), too.
func Timeout(d time.Duration) Option {
	return func(s *settings) error {
		if d <= 0 {
			return fmt.Errorf("Timeout(%v) is not positive", d)
		}
		s.timeout = d
		return nil
	}
}

// MaxBytes is the size of the largest document, bytes. Default for a source 4 MiB; for a sink what etcd's default limit
// of 1.5 MiB for a request leaves. Raise it only with the server's --max-request-bytes.
func MaxBytes(n int) Option {
	return func(s *settings) error {
		if n <= 0 {
			return fmt.Errorf("MaxBytes(%d) is not positive", n)
		}
		s.maxBytes = n
		return nil
	}
}

func (s *settings) apply(key string, options []Option) error {
	s.timeout = DefaultTimeout
	for _, option := range options {
		if option == nil {
			return errors.New("option is nil")
		}
		if err := option(s); err != nil {
			return err
		}
	}
	switch {
	case key == "":
		return errors.New("key is empty")
	case strings.ContainsRune(s.prefix+key, 0):
		// etcd writes the end of a range so: "\x00" is "every key from here".
		return fmt.Errorf("key %q has a NUL byte: a range of keys is not a document", key)
	case strings.HasSuffix(key, "/"):
		return fmt.Errorf("key %q ends with a slash: it names a range of keys, not a document", key)
	}
	return nil
}

// limit gives the cap of a source (larger documents are not read) or of a sink.
func (s *settings) limit(key string, sink bool) int {
	switch {
	case s.maxBytes > 0:
		return s.maxBytes
	case sink:
		return max(0, requestLimit-requestOverhead-3*len(key))
	default:
		return datasource.DefaultMaxBytes
	}
}
