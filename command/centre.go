package command

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// Centre is a command centre: an http.Handler, and with Start a server and a heartbeat. Its methods are safe for concurrent
// use.
type Centre struct {
	opts     *options
	commands map[string]Command
	rules    map[rule.Kind]ruleset
	ring     *ring
	bodies   chan struct{} // held by each large body that is read
	turns    chan struct{} // held by each edit
	edits    sync.WaitGroup
	beat     beatState

	answered, editsDone, editsRefused, editsFailed, deniedCount atomic.Uint64

	deniedAt atomic.Int64 // when a denied request was logged last, Unix nanoseconds

	mu      sync.Mutex
	started bool
	closed  bool
	addr    net.Addr
	server  *http.Server
	stop    context.CancelFunc
	running sync.WaitGroup
	ended   error // of the server
}

// maxBodies bounds the large bodies that are read at once, and the edits that are under way. A body up to smallBody is read
// without a turn: its memory is bounded by that of the connections, and clients that send slowly must not hold up all edits.
const (
	maxBodies = 32
	smallBody = 64 << 10
)

// New makes a command centre. It does no I/O and starts nothing.
func New(opts ...Option) (*Centre, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, fmt.Errorf("command.New: %w", err)
	}
	c := &Centre{opts: o, commands: make(map[string]Command), rules: make(map[rule.Kind]ruleset),
		ring: newRing(o.stats), bodies: make(chan struct{}, maxBodies), turns: make(chan struct{}, maxBodies)}
	for name, build := range o.kinds {
		c.rules[name] = build(o)
	}
	for _, cmd := range slices.Concat(c.builtin(), o.commands) {
		c.commands[cmd.Name] = cmd
	}
	return c, nil
}

// enter waits for a free slot.
func (c *Centre) enter(ctx context.Context, slots chan struct{}) error {
	t := time.NewTimer(c.opts.editLimit)
	defer t.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-t.C:
	case <-ctx.Done():
	}
	return failf(http.StatusServiceUnavailable, "too many requests with a body at once")
}

// ServeHTTP answers one request, for a server of the user's own. Give that one time-outs: this is the only thing that Start
// does better, beside the sampler of the metrics and the heartbeat.
func (c *Centre) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.answered.Add(1)
	answer, err := c.answer(w, r)
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	status, kind := http.StatusOK, "text/plain; charset=utf-8"
	switch {
	case err != nil:
		status = http.StatusBadRequest
		var s *StatusError
		if errors.As(err, &s) && s.Status >= 400 && s.Status <= 599 {
			status = s.Status
		}
		answer.Body = []byte(strings.ToValidUTF8(err.Error(), "\uFFFD"))
	case answer.JSON:
		kind = "application/json; charset=utf-8"
	}
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Length", itoa(int64(len(answer.Body))))
	w.WriteHeader(status)
	_, _ = w.Write(answer.Body) // the client went away
}

func (c *Centre) answer(w http.ResponseWriter, r *http.Request) (answer Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.opts.logger.Error("rulewire: command panicked", "path", short(r.URL.Path), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			answer, err = Answer{}, &StatusError{http.StatusInternalServerError, errors.New(textServerError)}
		}
	}()
	actor, err := c.admit(r)
	if err != nil {
		c.denied(r, err)
		w.Header().Set("Connection", "close")
		return Answer{}, err
	}
	params, err := c.parse(w, r)
	if err != nil {
		return Answer{}, err
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		return Answer{}, bad(textInvalid)
	}
	cmd, ok := c.commands[name]
	if !ok {
		return Answer{}, unknownCommand(name)
	}
	if cmd.Edits {
		if err := mayEdit(r); err != nil {
			c.denied(r, err)
			return Answer{}, err
		}
	}
	return cmd.Run(writable.WithActor(r.Context(), actor), &Request{Actor: actor, peer: peerOf(r), params: params})
}

// peerOf tells readers of lists apart. It is remembered, so that its length is bounded.
func peerOf(r *http.Request) string {
	agent := r.UserAgent()
	if len(agent) > sha256.Size {
		sum := sha256.Sum256([]byte(agent))
		agent = string(sum[:])
	}
	return ipOf(r.RemoteAddr).String() + " " + agent
}

// deniedPeriod bounds what a stranger can write into the log.
const deniedPeriod = 10 * time.Second

// denied counts a request that was not let in, and logs it, but not each.
func (c *Centre) denied(r *http.Request, err error) {
	n := c.deniedCount.Add(1)
	now, last := time.Now().UnixNano(), c.deniedAt.Load()
	if now-last >= int64(deniedPeriod) && c.deniedAt.CompareAndSwap(last, now) {
		c.opts.logger.Warn("rulewire: request refused", "remote", r.RemoteAddr, "path", short(r.URL.Path), "error", err, "so_far", n)
	}
}

// edit runs one edit, whose caller may go away: what was received whole is carried through. It is answered in time, whatever
// the store does.
func (c *Centre) edit(ctx context.Context, kind rule.Kind, run func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.opts.editLimit)
	if err := c.enter(ctx, c.turns); err != nil {
		cancel()
		return err
	}
	done := make(chan error, 1)
	started := c.begin(func() {
		defer cancel()
		defer func() { <-c.turns }()
		defer func() {
			if p := recover(); p != nil {
				c.opts.logger.Error("rulewire: edit panicked", "kind", kind, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				done <- &StatusError{http.StatusInternalServerError, errors.New(textServerError)}
			}
		}()
		done <- run(ctx)
	})
	if !started {
		cancel()
		<-c.turns
		return &StatusError{http.StatusServiceUnavailable, errors.New("closing")}
	}
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done: // both at once: what is known counts
		default:
			err = fmt.Errorf("no outcome after %v: %w", c.opts.editLimit, ctx.Err())
		}
	}
	return c.outcome(kind, writable.Actor(ctx), err)
}

// begin runs an edit on a goroutine that Close waits for; not once it does.
func (c *Centre) begin(run func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.edits.Go(run)
	return true
}

// outcome counts and logs an edit, and makes its answer.
func (c *Centre) outcome(kind rule.Kind, actor string, err error) error {
	var status *StatusError
	switch {
	case err == nil:
		c.editsDone.Add(1)
		return nil
	case errors.Is(err, ErrStale): // its kind counts it
	case errors.As(err, &status) && status.Status < 500:
		c.editsRefused.Add(1)
	case errors.As(err, &status):
		c.editsFailed.Add(1)
	case !errors.Is(err, datasource.ErrUnknownOutcome) && unchanged(err):
		c.editsRefused.Add(1)
		status = &StatusError{http.StatusBadRequest, err}
	default:
		c.editsFailed.Add(1)
		// Java's words for "the store failed". Unlike there, nothing changed in memory then.
		status = &StatusError{http.StatusInternalServerError, errors.New(textPartial)}
	}
	c.opts.logger.Warn("rulewire: edit refused or failed", "kind", kind, "actor", actor, "error", err)
	if status == nil {
		errors.As(err, &status)
	}
	return status
}

// unchanged says that an edit ended because of what it held, and that nothing was changed.
func unchanged(err error) bool {
	return slices.ContainsFunc([]error{datasource.ErrInvalid, datasource.ErrDecode, datasource.ErrUnsupported, datasource.ErrRefused,
		datasource.ErrConflict, datasource.ErrTooLarge}, func(e error) bool { return errors.Is(err, e) })
}

// Pending gives the pushes that were held back, by kind, oldest first; at most 8 of each kind.
func (c *Centre) Pending() []Pending {
	all := []Pending{}
	for _, name := range rule.Kinds() {
		if k, ok := c.rules[name]; ok {
			all = append(all, k.pending()...)
		}
	}
	return all
}

// Accept carries a held push through, exactly as Pending shows it; if the rules have changed since, the error wraps
// datasource.ErrConflict. An unknown one wraps ErrNotPending. ctx may carry writable.WithActor.
func (c *Centre) Accept(ctx context.Context, kind rule.Kind, id string) error {
	k, ok := c.rules[kind]
	if !ok {
		return fmt.Errorf("%w: %s %q", ErrNotPending, kind, id)
	}
	return k.accept(ctx, id, pusher{actor: writable.Actor(ctx)})
}

// Status is what a centre knows of itself.
type Status struct {
	// Addr is where it listens; nil = it does not.
	Addr net.Addr
	// Requests counts all of them. Edits were answered with success, Refused and Failed were not: nothing was changed, and
	// the store failed or its outcome is unknown.
	Requests, Edits, Refused, Failed uint64
	// Denied counts the requests that were not let in: by peer, host, origin or token.
	Denied uint64
	// Stale counts the pushes that were held back, by kind.
	Stale map[rule.Kind]uint64
	// Pending is what Centre.Pending gives.
	Pending []Pending
	// Heartbeat is the state of the heartbeat; its zero value if there is none.
	Heartbeat Heartbeat
}

// Status gives a copy of what the centre knows of itself.
func (c *Centre) Status() Status {
	stale := make(map[rule.Kind]uint64)
	for name, k := range c.rules {
		if n := k.stale(); n > 0 {
			stale[name] = n
		}
	}
	return Status{Addr: c.Addr(), Requests: c.answered.Load(), Edits: c.editsDone.Load(), Refused: c.editsRefused.Load(),
		Failed: c.editsFailed.Load(), Denied: c.deniedCount.Load(), Stale: stale, Pending: c.Pending(), Heartbeat: c.beat.get()}
}

// Addr is where the centre listens; nil before Start and where Start was not called.
func (c *Centre) Addr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addr
}

// Start binds the port and then serves, samples the statistics and beats until Close. ctx bounds Start only.
func (c *Centre) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.closed {
		return fmt.Errorf("command: %w", ErrStarted)
	}
	l, err := listen(ctx, c.opts)
	if err != nil {
		return fmt.Errorf("command: %w", err)
	}
	c.started, c.addr = true, l.Addr()
	if exposed(l.Addr()) && !c.opts.guarded() {
		c.opts.logger.Warn("rulewire: everybody who reaches the command port can set rules; see the options Peers, Token and TLS", "addr", l.Addr())
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.server = &http.Server{
		Handler:           c,
		ReadHeaderTimeout: 3 * time.Second, // the Java client's read time-out
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10*time.Second + c.opts.editLimit,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    1 << 20, // edits may come in the query
		ErrorLog:          slog.NewLogLogger(c.opts.logger.Handler(), slog.LevelDebug),
	}
	c.running.Go(func() {
		if err := c.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			c.opts.logger.Error("rulewire: command port failed", "error", err)
			c.ended = err
		}
	})
	if c.opts.stats != nil {
		c.running.Go(func() { c.ring.run(run) })
	}
	if len(c.opts.dashboards) > 0 {
		b := newHeartbeat(c.opts, l.Addr(), &c.beat)
		c.running.Go(func() { b.run(run) })
	}
	return nil
}

// closeGrace is how long Close waits for requests under way.
const closeGrace = 5 * time.Second

// Close stops the heartbeat and the server, after the requests under way have had up to five seconds, and waits until nothing
// is left running. It is safe in every state and twice.
func (c *Centre) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	server, stop := c.server, c.stop
	c.mu.Unlock()
	var err error
	if server != nil && first {
		stop()
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		if err = server.Shutdown(ctx); err != nil {
			err = errors.Join(err, server.Close())
		}
		cancel()
	}
	c.running.Wait()
	c.edits.Wait() // each ends within the edit time-out and that of its document
	if first {
		err = errors.Join(err, c.ended)
	}
	if err != nil {
		return fmt.Errorf("command: close: %w", err)
	}
	return nil
}

// encode writes JSON without HTML escapes.
func encode[V any](v V) Answer {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // of plain fields: never fails
	return Answer{Body: bytes.TrimRight(b.Bytes(), "\n"), JSON: true}
}
