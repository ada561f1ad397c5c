package writable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// Defaults of the options.
const (
	DefaultAttempts   = 30
	DefaultTimeout    = 5 * time.Second
	DefaultMinBackoff = 2 * time.Millisecond
	DefaultMaxBackoff = 250 * time.Millisecond
)

// Option sets one thing of a Writable.
type Option func(*options) error

type options struct {
	// readable is a *datasource.Readable of the writable's own rule type; New makes sure of that.
	readable               interface{ ID() string }
	attempts               int
	timeout                time.Duration
	minBackoff, maxBackoff time.Duration
	auditor                Auditor
	logger                 *slog.Logger
}

func newOptions(opts []Option) (options, error) {
	o := options{
		attempts: DefaultAttempts, timeout: DefaultTimeout,
		minBackoff: DefaultMinBackoff, maxBackoff: DefaultMaxBackoff, logger: slog.Default(),
	}
	var errs []error
	for _, opt := range opts {
		if opt == nil {
			errs = append(errs, errors.New("nil option"))
			continue
		}
		if err := opt(&o); err != nil {
			errs = append(errs, err)
		}
	}
	return o, errors.Join(errs...)
}

// Readable attaches the readable of the same document, so that this process sees its own write when the write returns,
// and so that rules which the readable's listener would refuse are refused before they are written. Its source must have
// the sink's ID. Default: none, the write reaches this process as it reaches every other.
func Readable[T any](r *datasource.Readable[T]) Option {
	return func(o *options) error {
		if r == nil {
			return errors.New("Readable: nil readable")
		}
		o.readable = r
		return nil
	}
}

// Attempts is how often Edit and Clear read and write before a conflict is their answer. Default 30.
func Attempts(n int) Option {
	return func(o *options) error {
		if n <= 0 {
			return fmt.Errorf("Attempts: %d is not positive", n)
		}
		o.attempts = n
		return nil
	}
}

// Timeout bounds each request to the store, and the wait until the readable has applied a write; also the look-up of a
// write whose answer was lost, which is made although the caller's context may have ended. Default 5 s.
func Timeout(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("Timeout: %v is not a positive duration", d)
		}
		o.timeout = d
		return nil
	}
}

// Backoff sets the longest first and the longest later wait between two attempts of an Edit. The waits double, and each
// is drawn at random from its upper half, so that two editors do not meet again. Default 2 ms and 250 ms.
func Backoff(first, longest time.Duration) Option {
	return func(o *options) error {
		if first <= 0 || longest < first {
			return fmt.Errorf("Backoff: %v and %v are not two rising durations", first, longest)
		}
		o.minBackoff, o.maxBackoff = first, longest
		return nil
	}
}

// Audit gives each write that took place to a, on the writer's goroutine and before the write returns. Default: nobody.
func Audit(a Auditor) Option {
	return func(o *options) error { o.auditor = a; return nil }
}

// Logger gets one record for each write that took place (info), and for each whose outcome is unknown (warn). Default
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

type actorKey struct{}

// WithActor says who makes the writes under this context: free text, for people. It goes into the log and the Audit hook.
func WithActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// Actor gives what WithActor set; "" = nobody said.
func Actor(ctx context.Context) string {
	actor, _ := ctx.Value(actorKey{}).(string)
	return actor
}
