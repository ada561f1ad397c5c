package datasource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Defaults of the options.
const (
	DefaultInterval    = 3 * time.Second
	DefaultRelist      = 60 * time.Second
	DefaultReadTimeout = 5 * time.Second
	DefaultMinBackoff  = 500 * time.Millisecond
	DefaultMaxBackoff  = 30 * time.Second
	DefaultMaxBytes    = 4 << 20
	// quietPeriod without a failure resets the backoff.
	quietPeriod = 2 * time.Minute
	// stopGrace is how long Close waits for a driver that does not return although its ctx ended.
	stopGrace = time.Second
)

// Action is what a missing document or an empty list does to rules in force.
type Action uint8

const (
	// Keep leaves the rules in force. The default.
	Keep Action = iota
	// Clear takes the store at its word: no rules. Where the store gives no order of revisions, two reads must agree.
	Clear
)

// InvalidAction is what a document with some bad rules does.
type InvalidAction uint8

const (
	// KeepAll refuses the whole document; the rules in force stay. The default.
	KeepAll InvalidAction = iota
	// SkipRule loads the good rules and reports the bad ones. A document with bad rules only is refused all the same.
	SkipRule
)

// StartPolicy says what Start does while the store can't be read or holds a document that is refused.
// A missing document is an answer, not a failure: Start succeeds without rules, and the status says missing.
type StartPolicy struct {
	kind startKind
	wait time.Duration
}

type startKind uint8

const (
	startFail startKind = iota
	startWait
	startSnapshot
	startEmpty
)

var (
	// Fail makes Start return the error. The default, and the end of every list of policies.
	Fail = StartPolicy{kind: startFail}
	// Snapshot starts with the last-known-good document from disk (option Snapshots), marked stale.
	Snapshot = StartPolicy{kind: startSnapshot}
	// Empty starts without rules and goes on trying.
	Empty = StartPolicy{kind: startEmpty}
)

// Wait makes Start go on trying, with backoff, for d.
func Wait(d time.Duration) StartPolicy { return StartPolicy{kind: startWait, wait: d} }

// String names the policy.
func (p StartPolicy) String() string {
	switch p.kind {
	case startWait:
		return "wait " + p.wait.String()
	case startSnapshot:
		return "snapshot"
	case startEmpty:
		return "empty"
	default:
		return "fail"
	}
}

// SnapshotStore keeps the last-known-good document of each source. Package snapshot has one on disk.
type SnapshotStore interface {
	// Save replaces the document of sourceID.
	Save(ctx context.Context, sourceID string, doc Document) error
	// Load gives the document of sourceID and when it was saved. The error wraps ErrMissing where there is none.
	Load(ctx context.Context, sourceID string) (doc Document, saved time.Time, err error)
}

// Option sets one thing of a Readable.
type Option func(*options) error

type options struct {
	interval, relist, readTimeout time.Duration
	minBackoff, maxBackoff        time.Duration
	maxBytes                      int
	onMissing, onEmptyList        Action
	onInvalid                     InvalidAction
	maxShrink                     float64 // 0 = off
	start                         []StartPolicy
	snapshots                     SnapshotStore
	observer                      Observer
	logger                        *slog.Logger
}

func newOptions(opts []Option) (options, error) {
	o := options{
		interval: DefaultInterval, relist: DefaultRelist, readTimeout: DefaultReadTimeout,
		minBackoff: DefaultMinBackoff, maxBackoff: DefaultMaxBackoff, maxBytes: DefaultMaxBytes,
		logger: slog.Default(),
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
	if o.minBackoff > o.maxBackoff {
		errs = append(errs, fmt.Errorf("Backoff: %v is more than %v", o.minBackoff, o.maxBackoff))
	}
	for _, p := range o.start {
		if p.kind == startSnapshot && o.snapshots == nil {
			errs = append(errs, errors.New("OnStart: policy Snapshot needs option Snapshots"))
		}
	}
	return o, errors.Join(errs...)
}

func positive(name string, d time.Duration, set func(time.Duration)) error {
	if d <= 0 {
		return fmt.Errorf("%s: %v is not a positive duration", name, d)
	}
	set(d)
	return nil
}

// Interval is the time between two reads of a source that can't push. Default 3 s, as Sentinel's
// AutoRefreshDataSource; each wait is made up to a tenth shorter or longer, so that a fleet does not read at once.
func Interval(d time.Duration) Option {
	return func(o *options) error { return positive("Interval", d, func(d time.Duration) { o.interval = d }) }
}

// Relist is the time between two safety reads of a source that pushes. Default 60 s, a tenth shorter or longer.
func Relist(d time.Duration) Option {
	return func(o *options) error { return positive("Relist", d, func(d time.Duration) { o.relist = d }) }
}

// ReadTimeout bounds one read. Default 5 s.
func ReadTimeout(d time.Duration) Option {
	return func(o *options) error { return positive("ReadTimeout", d, func(d time.Duration) { o.readTimeout = d }) }
}

// Backoff sets the first and the longest wait after failures in a row. Default 500 ms and 30 s. Each wait is drawn
// from the upper half of its step, the steps double, and two minutes without a failure start over.
func Backoff(first, longest time.Duration) Option {
	return func(o *options) error {
		return errors.Join(
			positive("Backoff", first, func(d time.Duration) { o.minBackoff = d }),
			positive("Backoff", longest, func(d time.Duration) { o.maxBackoff = d }))
	}
}

// MaxBytes is the size cap of a document, bytes. Default 4 MiB. A larger one is refused as "decode", with ErrTooLarge.
func MaxBytes(n int) Option {
	return func(o *options) error {
		if n <= 0 {
			return fmt.Errorf("MaxBytes: %d is not positive", n)
		}
		o.maxBytes = n
		return nil
	}
}

// OnMissing says what a missing document does to rules in force. Default Keep.
func OnMissing(a Action) Option {
	return func(o *options) error { o.onMissing = a; return checkAction("OnMissing", a) }
}

// OnEmptyList says what "[]" does to rules in force. Default Keep.
func OnEmptyList(a Action) Option {
	return func(o *options) error { o.onEmptyList = a; return checkAction("OnEmptyList", a) }
}

func checkAction(name string, a Action) error {
	if a > Clear {
		return fmt.Errorf("%s: unknown action %d", name, a)
	}
	return nil
}

// OnInvalid says what a document with some bad rules does. Default KeepAll.
func OnInvalid(a InvalidAction) Option {
	return func(o *options) error {
		if a > SkipRule {
			return fmt.Errorf("OnInvalid: unknown action %d", a)
		}
		o.onInvalid = a
		return nil
	}
}

// MaxShrink refuses a document that would remove more than this share (0 < share < 1) of the rules in force.
// Default: off.
func MaxShrink(share float64) Option {
	return func(o *options) error {
		if !(share > 0 && share < 1) {
			return fmt.Errorf("MaxShrink: %v is not between 0 and 1", share)
		}
		o.maxShrink = share
		return nil
	}
}

// OnStart says what Start does while there is no good document: the policies are tried in the order given, for
// example OnStart(Wait(5*time.Second), Snapshot, Empty). Default Fail.
func OnStart(policies ...StartPolicy) Option {
	return func(o *options) error { o.start = policies; return nil }
}

// Snapshots keeps the last-known-good document after each change. Default: none, nothing is written.
func Snapshots(s SnapshotStore) Option {
	return func(o *options) error {
		if s == nil {
			return errors.New("Snapshots: nil store")
		}
		o.snapshots = s
		return nil
	}
}

// WithObserver is told what happens. Default: nobody.
func WithObserver(obs Observer) Option {
	return func(o *options) error { o.observer = obs; return nil }
}

// Logger gets one record for each change of condition: applied (info), refused or failing (warn), payload (debug only).
// Default slog.Default(); nil is silence.
func Logger(l *slog.Logger) Option {
	return func(o *options) error {
		if l == nil {
			l = slog.New(slog.DiscardHandler)
		}
		o.logger = l
		return nil
	}
}
