package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rulewire/rulewire/internal/condition"
)

const (
	// beatTimeout bounds one beat to one dashboard; the Java client's time-out.
	beatTimeout = 3 * time.Second
	// beatAnswer bounds what is read of an answer, bytes.
	beatAnswer = 64 << 10
	// slowest is how many periods a pause may grow to after failures.
	slowest = 6
)

// dashboard is one place to beat to.
type dashboard struct {
	base string // scheme://host:port
	host string // host:port
}

// parseDashboard reads host[:port] with or without a scheme. Source: TransportConfig and Endpoint of the Java client: the
// default ports are those of the scheme.
func parseDashboard(text string) (dashboard, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return dashboard{}, err
	}
	port := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return dashboard{}, fmt.Errorf("%q: want http or https", text)
	case u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return dashboard{}, fmt.Errorf("%q: want host:port only", text)
	case port == "" && u.Scheme == "https":
		port = "443"
	case port == "":
		port = "80"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return dashboard{}, fmt.Errorf("%q: port %q", text, port)
	}
	host := net.JoinHostPort(u.Hostname(), port)
	return dashboard{base: u.Scheme + "://" + host, host: host}, nil
}

// Heartbeat is the state of the heartbeat.
type Heartbeat struct {
	// Dashboard is the address in use; the last one that was tried.
	Dashboard string
	// IP is the address that the Dashboard was told to call back.
	IP netip.Addr
	// Beats counts those that were taken, Failures those that were not, by any dashboard.
	Beats, Failures uint64
	// LastBeat is when one was taken last.
	LastBeat time.Time
	// LastError is nil while beats are taken.
	LastError error
}

type beatState struct {
	mu sync.Mutex
	s  Heartbeat
}

func (b *beatState) get() Heartbeat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.s
}

func (b *beatState) set(change func(*Heartbeat)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.s)
}

// heartbeat tells the dashboards that this process is there.
type heartbeat struct {
	o      *options
	addr   net.Addr
	client *http.Client
	done   func() // ends what is ours of the client
	state  *beatState
	turn   int    // of the dashboards
	said   string // the last condition that was logged
}

func newHeartbeat(o *options, addr net.Addr, state *beatState) *heartbeat {
	h := &heartbeat{o: o, addr: addr, client: o.client, state: state, done: func() {}}
	if h.client == nil {
		// One connection is reused; nobody else's pool is touched.
		h.client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second,
			ResponseHeaderTimeout: beatTimeout, ForceAttemptHTTP2: true}}
		h.done = h.client.CloseIdleConnections
	}
	h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return h
}

// run beats at once and then each period until ctx ends.
func (h *heartbeat) run(ctx context.Context) {
	defer h.done()
	pause := h.o.period
	for {
		if h.round(ctx) == nil {
			pause = h.o.period
		} else {
			pause = min(2*pause, slowest*h.o.period)
		}
		wait := pause
		if wait > h.o.period { // many processes whose dashboard came back do not all come at once
			wait = wait/2 + rand.N(wait/2)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// round sends one beat to the dashboard in use and, where that fails, to the others in turn.
func (h *heartbeat) round(ctx context.Context) error {
	var errs []error
	for range h.o.dashboards {
		d := h.o.dashboards[h.turn]
		ip, err := h.send(ctx, d)
		if ctx.Err() != nil {
			return ctx.Err() // nobody failed: we are closing
		}
		h.state.set(func(s *Heartbeat) {
			s.Dashboard, s.IP = d.base, ip
			if err == nil {
				s.Beats, s.LastBeat, s.LastError = s.Beats+1, time.Now(), nil
			} else {
				s.Failures, s.LastError = s.Failures+1, err
			}
		})
		if err == nil {
			h.say("taken by " + d.base)
			return nil
		}
		errs = append(errs, err)
		h.turn = (h.turn + 1) % len(h.o.dashboards)
	}
	err := errors.Join(errs...)
	h.say(condition.Of(err))
	return err
}

// say logs a condition once for each change.
func (h *heartbeat) say(condition string) {
	if condition == h.said {
		return
	}
	first := h.said == ""
	h.said = condition
	if h.state.get().LastError == nil {
		h.o.logger.Info("rulewire: heartbeat "+condition, "app", h.o.app, "addr", h.addr)
		return
	}
	h.o.logger.Warn("rulewire: no dashboard takes the heartbeat", "app", h.o.app, "first", first, "error", condition)
}

// errBeat is wrapped where a dashboard answered but does not take the beat.
var errBeat = errors.New("beat refused")

func (h *heartbeat) send(ctx context.Context, d dashboard) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	ip := h.ip(ctx, d)
	form := h.form(ip)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+h.o.path, strings.NewReader(form))
	if err != nil {
		return ip, fmt.Errorf("%s: %w", d.base, err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
	req.Header.Set("User-Agent", "rulewire")
	resp, err := h.client.Do(req)
	if err != nil {
		return ip, err // names method and address itself
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, beatAnswer))
	if err != nil {
		return ip, fmt.Errorf("%s: %w", d.base, err)
	}
	if resp.StatusCode != http.StatusOK {
		return ip, fmt.Errorf("%s: %w: status %d", d.base, errBeat, resp.StatusCode)
	}
	var answer struct {
		Success *bool  `json:"success"`
		Code    int    `json:"code"`
		Msg     string `json:"msg"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Success == nil {
		return ip, fmt.Errorf("%s: %w: the answer is not a dashboard's", d.base, errBeat)
	}
	if !*answer.Success || answer.Code != 0 {
		return ip, fmt.Errorf("%s: %w: code %d: %.200s", d.base, errBeat, answer.Code, answer.Msg)
	}
	return ip, nil
}

// form is the body of a beat, in the Java client's order.
func (h *heartbeat) form(ip netip.Addr) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if len(host) > 256 {
		host = host[:256]
	}
	var b strings.Builder
	for _, p := range [...][2]string{
		{"app", h.o.app}, {"hostname", host}, {"app_type", strconv.Itoa(int(h.o.appType))}, {"port", portOf(h.addr)}, {"v", h.o.version},
		{"ip", ip.String()}, {"version", itoa(time.Now().UnixMilli())},
	} {
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p[0] + "=" + url.QueryEscape(p[1]))
	}
	return b.String()
}

func portOf(a net.Addr) string {
	_, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return "-1"
	}
	return port
}

// ip is the address that the dashboard shall call back.
func (h *heartbeat) ip(ctx context.Context, d dashboard) netip.Addr {
	if h.o.ip.IsValid() {
		return h.o.ip
	}
	if ip := ipOf(h.addr.String()); ip.IsValid() && !ip.IsUnspecified() {
		return ip
	}
	// Choosing a route sends nothing. The Dashboard can't call IPv6 back, so that comes second.
	for _, network := range [...]string{"udp4", "udp6"} {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, network, d.host)
		if err != nil {
			continue
		}
		local := conn.LocalAddr().String()
		_ = conn.Close() // nothing was sent
		if ip := ipOf(local); ip.IsValid() {
			return ip
		}
	}
	return ownIP(h.addr)
}

// ownIP is an address of this machine where no dashboard tells which: the one listened on, else the first of a network.
func ownIP(listening net.Addr) netip.Addr {
	if listening != nil {
		if ip := ipOf(listening.String()); ip.IsValid() && !ip.IsUnspecified() {
			return ip
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().Unmap().Is4() && !p.Addr().IsLoopback() {
				return p.Addr().Unmap()
			}
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
