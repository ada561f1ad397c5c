package apollo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// listLife is for how long a list of servers is good while they answer.
	listLife = 30 * time.Minute
	// listPause is the least time between two questions for the list while servers fail.
	listPause = 30 * time.Second
	// failoverTime is for how long each failing request is tried on the other servers, too.
	failoverTime = 4 * time.Second
)

// servers are the config services of an environment: those that the meta server lists, and behind them the configured
// addresses, for a config service is a meta server as well, and what it lists may be an address inside of a container.
type servers struct {
	direct     bool
	configured []*url.URL
	turn       chan struct{} // held by who asks for the list

	mu      sync.Mutex
	list    []*url.URL
	now     int // the one in use
	asked   time.Time
	failing time.Time // since when no server has answered
}

func (s *servers) configure(addresses string) error {
	s.turn = make(chan struct{}, 1)
	for a := range strings.SplitSeq(addresses, ",") {
		u, err := parseAddress("AppConfig.IP", strings.TrimSpace(a))
		if err != nil {
			return err
		}
		s.configured = append(s.configured, u)
	}
	return nil
}

func parseAddress(what, address string) (*url.URL, error) {
	if address == "" {
		return nil, fmt.Errorf("%s is empty", what)
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	// The text may have a password, so it is not shown.
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s is no http or https address", what)
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	return u, nil
}

// server gives the server to ask, and asks the meta server for the list where that is due.
func (c *Client) server(ctx context.Context) (*url.URL, error) {
	s := &c.servers
	if u := s.current(); u != nil {
		return u, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, c.over(ctx)
	}
	if u := s.current(); u != nil {
		return u, nil // somebody else has asked
	}
	list, err := c.listed(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Now()
	if err != nil {
		if s.list == nil {
			return nil, err
		}
		return s.list[s.now], nil // the old list is better than none
	}
	for _, u := range s.configured {
		if !slices.ContainsFunc(list, func(have *url.URL) bool { return have.String() == u.String() }) {
			list = append(list, u)
		}
	}
	if s.list == nil || !slices.EqualFunc(s.list, list, func(a, b *url.URL) bool { return a.String() == b.String() }) {
		s.list, s.now = list, 0
	}
	return s.list[s.now], nil
}

// current gives the server in use, or nil if the list is to be asked for.
func (s *servers) current() *url.URL {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.direct && s.list == nil {
		s.list = s.configured
	}
	age := time.Since(s.asked)
	if s.list == nil || !s.direct && (age > listLife || !s.failing.IsZero() && age > listPause) {
		return nil
	}
	return s.list[s.now]
}

// listed asks the configured addresses in turn. Only silence is an error: an address that answers otherwise has no list
// to give, and is asked for rules itself.
func (c *Client) listed(ctx context.Context) ([]*url.URL, error) {
	query := url.Values{"appId": {c.app}, "ip": {c.clientIP()}}
	var errs []error
	for _, base := range c.servers.configured {
		u := join(base, "/services/config", query)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, err
		}
		r, err := send(c.http, req)
		if ctx.Err() != nil {
			return nil, c.over(ctx)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var answer []struct {
			HomepageURL string `json:"homepageUrl"`
		}
		if r.status != http.StatusOK || r.into(&answer) != nil {
			return nil, nil
		}
		var list []*url.URL
		for _, a := range answer {
			if u, err := parseAddress("homepageUrl", a.HomepageURL); err == nil {
				list = append(list, u)
			}
		}
		return list, nil
	}
	return nil, errors.Join(errs...)
}

func (s *servers) worked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = time.Time{}
}

// failed moves on from a server that does not answer, and gives how many others a request may still try.
func (s *servers) failed(base *url.URL) (others int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing.IsZero() {
		s.failing = time.Now()
	}
	if len(s.list) == 0 {
		return 0
	}
	if s.list[s.now].String() == base.String() {
		s.now = (s.now + 1) % len(s.list)
	}
	if time.Since(s.failing) > failoverTime {
		return 0
	}
	return len(s.list) - 1
}
