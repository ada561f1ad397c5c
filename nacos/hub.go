package nacos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"time"
	"weak"

	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/security"
)

const (
	// dialTimeout bounds the making of a connection to one server.
	dialTimeout = 3 * time.Second
	// firstPause is the most that lies between two attempts after one that failed, however many documents ask; pauses double
	// up to lastPause and are drawn from their upper half: a fixed one can keep step with a link that breaks in a rhythm, and
	// never meet it whole.
	firstPause = 200 * time.Millisecond
	lastPause  = 2 * time.Second
)

// hub is what the sources and sinks of one client share: one connection, for as long as anybody uses it.
type hub struct {
	account *account

	mu       sync.Mutex
	conn     *conn
	users    int // of conn
	dialling *dialling
	failed   error
	resume   time.Time // until then, failed is the answer
	pause    time.Duration
	at       int    // the server that comes next
	prefer   string // the address that the last server recommended

	probe probe
}

// dialling is one attempt to connect, for all who wait for it.
type dialling struct {
	done chan struct{}
	// conn or err is there when done is closed. The connection counts those as its users who waited for it.
	conn    *conn
	err     error
	waiters int
	cancel  context.CancelFunc
}

type hubKey struct {
	client   config_client.IConfigClient
	provider security.RamCredentialProvider
	signIn   *Login
}

// hubs finds the hub of a client without keeping either alive: once no source or sink has it, it goes.
var hubs = struct {
	sync.Mutex
	m map[hubKey]weak.Pointer[hub]
}{m: map[hubKey]weak.Pointer[hub]{}}

func hubOf(client config_client.IConfigClient, provider security.RamCredentialProvider, signIn *Login) (*hub, error) {
	if client == nil || reflect.ValueOf(client).Kind() == reflect.Pointer && reflect.ValueOf(client).IsNil() {
		return nil, errNoClient
	}
	k := hubKey{client, provider, signIn}
	shared := reflect.ValueOf(client).Comparable() && (provider == nil || reflect.ValueOf(provider).Comparable())
	hubs.Lock()
	defer hubs.Unlock()
	if shared {
		if h := hubs.m[k].Value(); h != nil {
			return h, nil
		}
	}
	a, err := newAccount(client, provider, signIn)
	if err != nil {
		return nil, err
	}
	h := &hub{account: a, at: rand.IntN(1 << 16)}
	if shared {
		p := weak.Make(h)
		hubs.m[k] = p
		runtime.AddCleanup(h, func(k hubKey) {
			hubs.Lock()
			defer hubs.Unlock()
			if hubs.m[k] == p {
				delete(hubs.m, k)
			}
		}, k)
	}
	return h, nil
}

// acquire gives the connection, made first if there is none. release must be called once: the last one closes it, so
// that nothing is left behind a readable that was closed.
func (h *hub) acquire(ctx context.Context) (c *conn, release func(), err error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	h.mu.Lock()
	if c := h.conn; c != nil {
		h.users++
		h.mu.Unlock()
		return c, h.releaser(c), nil
	}
	if h.failed != nil && time.Now().Before(h.resume) {
		defer h.mu.Unlock()
		return nil, nil, h.failed
	}
	d := h.dialling
	if d == nil {
		d = h.dial()
	}
	d.waiters++
	h.mu.Unlock()

	select {
	case <-d.done:
		if d.err != nil {
			return nil, nil, d.err
		}
		return d.conn, h.releaser(d.conn), nil
	case <-ctx.Done():
		h.mu.Lock()
		d.waiters--
		late := d.conn
		if d.waiters == 0 && late == nil {
			d.cancel()
			if h.dialling == d {
				h.dialling = nil
			}
		}
		h.mu.Unlock()
		if late != nil {
			h.release(late)
		}
		return nil, nil, context.Cause(ctx)
	}
}

// dial begins an attempt. The lock is held.
func (h *hub) dial() *dialling {
	ctx, cancel := context.WithCancel(context.Background())
	d := &dialling{done: make(chan struct{}), cancel: cancel}
	h.dialling = d
	prefer, at := h.prefer, h.at
	h.at++
	h.prefer = ""
	go func() {
		defer cancel()
		c, err := h.attempt(ctx, prefer, at)
		h.mu.Lock()
		mine := h.dialling == d
		if mine {
			h.dialling = nil
		}
		if err == nil && c.over() {
			err = c.err
		}
		switch {
		case err != nil && mine:
			h.pause = min(max(firstPause, 2*h.pause), lastPause)
			h.failed, h.resume = err, time.Now().Add(h.pause/2+rand.N(h.pause/2))
		case err == nil && mine:
			h.failed, h.pause, h.conn, h.users = nil, 0, c, d.waiters
			d.conn = c
		}
		d.err = err
		close(d.done)
		h.mu.Unlock()
		if c != nil && d.conn == nil {
			c.end(errUnder, nil) // everybody left meanwhile
		}
	}()
	return d
}

// attempt tries each server once.
func (h *hub) attempt(ctx context.Context, prefer string, at int) (*conn, error) {
	listing, cancel := context.WithTimeout(ctx, dialTimeout)
	servers, err := h.account.list(listing)
	cancel()
	if err != nil {
		return nil, err
	}
	for i, s := range servers {
		if rpcAddress(s) == prefer || s.IpAddr+":"+strconv.FormatUint(s.Port, 10) == prefer {
			at = i
		}
	}
	var errs []error
	for i := range servers {
		one, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("not connected within %v: %w", dialTimeout, context.DeadlineExceeded))
		c, err := connect(one, h.account, servers[(at+i)%len(servers)], h.ended)
		cancel()
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (h *hub) releaser(c *conn) func() { return sync.OnceFunc(func() { h.release(c) }) }

func (h *hub) release(c *conn) {
	h.mu.Lock()
	unused := false
	if h.conn == c {
		h.users--
		if unused = h.users == 0; unused {
			h.conn = nil
		}
	}
	h.mu.Unlock()
	if unused {
		c.end(errUnder, nil)
	}
}

// ended is told by a connection that it is given up.
func (h *hub) ended(c *conn, elsewhere *pushed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if elsewhere != nil && elsewhere.ServerIP != "" {
		h.prefer = elsewhere.ServerIP + ":" + elsewhere.ServerPort
	}
	if h.conn == c {
		h.conn, h.users = nil, 0
	}
}
