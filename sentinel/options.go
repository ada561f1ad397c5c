package sentinel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/internal/nils"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// Part is what Open is made of: a kind with its source (Flow, Degrade, System, Authority, ParamFlow, Isolation), an
// Option, which then holds for every kind, or Init.
type Part interface{ join(p *plan) }

// Option sets one thing of a kind's source; given to Open itself, of all of them. A kind's own options come after those
// of Open.
type Option func(*config) error

func (o Option) join(p *plan) { p.defaults = append(p.defaults, o) }

type config struct {
	engine []datasource.Option
	decode []converter.Option
	yaml   bool
	// custom is a converter.Converter of the kind's rule type.
	custom  any
	mapping mapping
	hold    bool
	guest   bool // see listener
	// sink, write and name are the source's other side.
	sink  writable.Sink
	write []writable.Option
	name  *string
}

func newConfig(opts ...[]Option) (config, error) {
	var c config
	var errs []error
	for _, o := range slices.Concat(opts...) {
		if o == nil {
			errs = append(errs, errors.New("nil option"))
			continue
		}
		if err := o(&c); err != nil {
			errs = append(errs, err)
		}
	}
	return c, errors.Join(errs...)
}

// Engine passes options of package datasource on: intervals, start policy, snapshots and all the rest.
func Engine(opts ...datasource.Option) Option {
	return func(c *config) error { c.engine = append(c.engine, opts...); return nil }
}

// OnInvalid says what a document with some bad rules does. Default datasource.KeepAll: the rules in force stay.
func OnInvalid(a datasource.InvalidAction) Option { return Engine(datasource.OnInvalid(a)) }

// OnEmptyList says what "[]" does to rules in force. Default datasource.Keep.
func OnEmptyList(a datasource.Action) Option { return Engine(datasource.OnEmptyList(a)) }

// OnMissing says what a missing document does to rules in force. Default datasource.Keep.
func OnMissing(a datasource.Action) Option { return Engine(datasource.OnMissing(a)) }

// MaxShrink refuses a document that would remove more than this share (0 < share < 1) of the rules. Default: off.
func MaxShrink(share float64) Option { return Engine(datasource.MaxShrink(share)) }

// OnStart says what Open does while a source has no good document. Default datasource.Fail.
func OnStart(policies ...datasource.StartPolicy) Option {
	return Engine(datasource.OnStart(policies...))
}

// Logger gets one record for each change of condition. Default slog.Default(); nil is silence. The core has a log of
// its own, see its package logging.
func Logger(l *slog.Logger) Option { return Engine(datasource.Logger(l)) }

// Observer is told what happens to each source, one event at a time also where it is given to Open for all of them.
// Default: nobody.
func Observer(o datasource.Observer) Option {
	if o == nil {
		return Engine()
	}
	var one sync.Mutex // each source has a goroutine of its own
	return Engine(datasource.WithObserver(datasource.ObserverFunc(func(e datasource.Event) {
		one.Lock()
		defer one.Unlock()
		o.Observe(e)
	})))
}

// Dialect is the dialect of the documents. Default converter.Java.
func Dialect(name converter.DialectName) Option { return Decode(converter.Dialect(name)) }

// YAML reads the documents as YAML. Default JSON.
func YAML() Option { return func(c *config) error { c.yaml = true; return nil } }

// Decode passes options of package converter on, for example converter.UnknownMembers(converter.Refuse).
func Decode(opts ...converter.Option) Option {
	return func(c *config) error { c.decode = append(c.decode, opts...); return nil }
}

// Convert decodes with a converter of the user's own; Dialect, YAML and Decode then play no part. R must be the rule type
// of the kind.
func Convert[R any](conv converter.Converter[R]) Option {
	return func(c *config) error {
		if conv == nil {
			return errors.New("Convert: nil converter")
		}
		c.custom = conv
		return nil
	}
}

// UnsupportedPolicy says what a rule does that the core can't enforce.
type UnsupportedPolicy uint8

const (
	// Refuse treats such a rule like an invalid one: by default the whole document is refused, with the rule named.
	Refuse UnsupportedPolicy = iota
	// Hold keeps such a rule in the rule manager, so that a dashboard shows it and a write-back does not lose it, and
	// out of the core. Status lists it.
	Hold
)

// Unsupported says what a rule does that sentinel-golang can't enforce: chain strategy, an origin (limitApp), cluster
// mode, a regular expression, an authority rule, a fraction or a size that the core can't hold, a limit at which it passes or
// refuses every call where Java does not. Default Refuse.
func Unsupported(p UnsupportedPolicy) Option {
	return func(c *config) error {
		if p > Hold {
			return fmt.Errorf("Unsupported: unknown policy %d", p)
		}
		c.hold = p == Hold
		return nil
	}
}

// LocalFallback counts locally for rules in cluster mode whose clusterConfig.fallbackToLocalWhenFail is true, as a Java
// client does whose token server does not answer. Each process then grants the whole count. Default: such rules are
// unsupported.
func LocalFallback() Option {
	return func(c *config) error { c.mapping.localFallback = true; return nil }
}

// Init runs before anything else in Open, for example api.InitDefault. Without it Open leaves the core's own set-up
// alone; see the package comment for what works without one.
func Init(f func() error) Part { return initPart(f) }

type initPart func() error

func (f initPart) join(p *plan) { p.inits = append(p.inits, f) }

// plan collects the parts of an Open.
type plan struct {
	inits    []initPart
	defaults []Option
	entries  []entry
	// completes run once all parts are known, starts once every source has decided.
	completes []func(p *plan)
	starts    []func(ctx context.Context, r *Rules) (stop func() error, err error)
}

// entry is one source.
type entry struct {
	kind rule.Kind
	add  func(r *Rules, defaults []Option) error
}

func (e entry) join(p *plan) { p.entries = append(p.entries, e) }

// Flow reads flow rules from src: QPS rules go to the core's flow manager, thread-grade rules to its isolation manager.
// Each kind may be given several times; the sources' rules are joined in that order, each source with its last good ones.
func Flow(src datasource.Source, opts ...Option) Part {
	return newEntry(rule.KindFlow, src, opts, func(r *Rules) *kindState[rule.Flow] { return r.flow })
}

// Degrade reads circuit breakers from src.
func Degrade(src datasource.Source, opts ...Option) Part {
	return newEntry(rule.KindDegrade, src, opts, func(r *Rules) *kindState[rule.Degrade] { return r.degrade })
}

// System reads system rules from src.
func System(src datasource.Source, opts ...Option) Part {
	return newEntry(rule.KindSystem, src, opts, func(r *Rules) *kindState[rule.System] { return r.system })
}

// Authority reads authority rules from src. The core can't enforce them: use Unsupported(Hold) to keep them for lookups
// of your own and for write-back.
func Authority(src datasource.Source, opts ...Option) Part {
	return newEntry(rule.KindAuthority, src, opts, func(r *Rules) *kindState[rule.Authority] { return r.authority })
}

// ParamFlow reads hot-parameter rules from src.
func ParamFlow(src datasource.Source, opts ...Option) Part {
	return newEntry(rule.KindParamFlow, src, opts, func(r *Rules) *kindState[rule.ParamFlow] { return r.paramFlow })
}

// Isolation reads isolation rules from src. The core's isolation manager then belongs to Rulewire as a whole.
func Isolation(src datasource.Source, opts ...Option) Part {
	return newEntry(rule.KindIsolation, src, opts, func(r *Rules) *kindState[rule.Isolation] { return r.isolation })
}

func newEntry[R any](kind rule.Kind, src datasource.Source, opts []Option, state func(*Rules) *kindState[R]) Part {
	return entry{kind: kind, add: func(r *Rules, defaults []Option) error {
		if nils.Is(src) {
			return fmt.Errorf("%w source", datasource.ErrNil)
		}
		conf, err := newConfig(defaults, opts)
		if err != nil {
			return err
		}
		conv, err := converterOf[R](&conf)
		if err != nil {
			return err
		}
		k := state(r)
		l := &listener[R]{state: k, index: len(k.parts), sourceID: src.ID(), mapping: conf.mapping, hold: conf.hold, guest: conf.guest}
		readable, err := datasource.New(src, conv, l, conf.engine...)
		if err != nil {
			return err
		}
		k.parts = append(k.parts, part[R]{})
		if err := r.group.Add(readable); err != nil {
			return err
		}
		r.members = append(r.members, member{kind: kind, readable: readable})
		return register(r, &conf, len(k.parts) == 1, readable, conv)
	}}
}

func converterOf[R any](c *config) (converter.Converter[R], error) {
	if c.custom != nil {
		conv, ok := c.custom.(converter.Converter[R])
		if !ok {
			return nil, fmt.Errorf("Convert: %T does not make the kind's rules", c.custom)
		}
		return conv, nil
	}
	if c.yaml {
		return converter.YAML[R](c.decode...), nil
	}
	return converter.JSON[R](c.decode...), nil
}
