package file

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// The defaults of the options.
const (
	DefaultMaxBytes = 4 << 20
	DefaultInterval = 3 * time.Second
	DefaultSettle   = 50 * time.Millisecond
	// DefaultSettleYAML is for files that end in .yaml or .yml: half of such a document is often one too, so that
	// nothing but time tells a whole one.
	DefaultSettleYAML = 500 * time.Millisecond
	DefaultGrace      = time.Second
	DefaultMode       = fs.FileMode(0o600)
)

// minInterval keeps a slip of the pen (3 for 3*time.Second) from becoming a hot loop.
const minInterval = 100 * time.Millisecond

var errNilOption = errors.New("file: nil option")

// settleOf is the settle time of a file whose option says nothing.
func settleOf(path string) time.Duration {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml":
		return DefaultSettleYAML
	default:
		return DefaultSettle
	}
}

type sourceConfig struct {
	maxBytes int64
	interval time.Duration
	settle   time.Duration
	grace    time.Duration
	notifier *Notifier
	pollOnly bool
}

type sinkConfig struct {
	maxBytes int64
	mode     fs.FileMode
	makeDirs bool
}

// SourceOption changes a default of NewSource.
type SourceOption interface{ applySource(*sourceConfig) error }

// SinkOption changes a default of NewSink.
type SinkOption interface{ applySink(*sinkConfig) error }

// FSOption changes a default of NewFSSource.
type FSOption interface{ applyFS(*fsConfig) error }

// Option is one for sources and sinks alike.
type Option interface {
	SourceOption
	SinkOption
	FSOption
}

type sourceOption func(*sourceConfig) error

func (o sourceOption) applySource(c *sourceConfig) error { return o(c) }

type sinkOption func(*sinkConfig) error

func (o sinkOption) applySink(c *sinkConfig) error { return o(c) }

type fsConfig struct{ maxBytes int64 }

type maxBytes int64

func (m maxBytes) applySource(c *sourceConfig) error { return m.set(&c.maxBytes) }
func (m maxBytes) applySink(c *sinkConfig) error     { return m.set(&c.maxBytes) }
func (m maxBytes) applyFS(c *fsConfig) error         { return m.set(&c.maxBytes) }

func (m maxBytes) set(to *int64) error {
	if m <= 0 {
		return fmt.Errorf("file: MaxBytes(%d): must be positive", int64(m))
	}
	*to = int64(m)
	return nil
}

// MaxBytes is the size over which a document is refused with datasource.ErrTooLarge, on reading and on writing.
// Default: 4 MiB.
func MaxBytes(n int64) Option { return maxBytes(n) }

// Interval is the time between two looks at the file, with a tenth of it as jitter. It bounds how late a change is seen
// where no event tells of it. At least 100 ms. Default: 3 s.
func Interval(d time.Duration) SourceOption {
	return sourceOption(func(c *sourceConfig) error {
		if d < minInterval {
			return fmt.Errorf("file: Interval(%v): must be at least %v", d, minInterval)
		}
		c.interval = d
		return nil
	})
}

// Settle is how long a file that is written in place must rest before it is read. A file put in place by a rename does
// not wait. 0 reads whatever is there, finished or not. Default: 50 ms, and 500 ms for .yaml and .yml files, of which a
// half may be a document too.
func Settle(d time.Duration) SourceOption {
	return sourceOption(func(c *sourceConfig) error {
		if d < 0 {
			return fmt.Errorf("file: Settle(%v): must not be negative", d)
		}
		c.settle = d
		return nil
	})
}

// Grace is how long a file that was removed or emptied has to come back before a read says so; it bounds a read, too.
// It must be longer than the settle time. Default: 1 s.
func Grace(d time.Duration) SourceOption {
	return sourceOption(func(c *sourceConfig) error {
		if d <= 0 {
			return fmt.Errorf("file: Grace(%v): must be positive", d)
		}
		c.grace = d
		return nil
	})
}

// WithNotifier shares one event watcher among sources. The notifier is borrowed: whoever made it closes it. Default: a
// watcher of its own for each source that is watched.
func WithNotifier(n *Notifier) SourceOption {
	return sourceOption(func(c *sourceConfig) error {
		if n == nil {
			return errors.New("file: WithNotifier(nil)")
		}
		c.notifier = n
		return nil
	})
}

// PollOnly switches events off: for network and user-space file systems, which have none, and to save watches.
func PollOnly() SourceOption {
	return sourceOption(func(c *sourceConfig) error {
		c.pollOnly = true
		return nil
	})
}

// Mode is the mode of a file that the sink creates; a file that is there keeps its own. Default: 0600.
func Mode(m fs.FileMode) SinkOption {
	return sinkOption(func(c *sinkConfig) error {
		if m&^fs.ModePerm != 0 || m&0o200 == 0 {
			return fmt.Errorf("file: Mode(%v): permission bits, writable by the owner", m)
		}
		c.mode = m
		return nil
	})
}

// MakeDirs makes missing folders above the file, with mode 0700. Default: a missing folder is an error.
func MakeDirs() SinkOption {
	return sinkOption(func(c *sinkConfig) error {
		c.makeDirs = true
		return nil
	})
}

// locate makes path absolute, so that a later change of the working folder moves nothing, and gives the ID that source
// and sink of one document share.
func locate(path string) (abs, id string, err error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", "", fmt.Errorf("file: %q is not a path", path)
	}
	if abs, err = filepath.Abs(path); err != nil {
		return "", "", fmt.Errorf("file: %w", err)
	}
	return abs, "file:" + abs, nil
}
