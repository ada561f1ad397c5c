package nacos

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
)

const (
	// loginPath and loginPathV3 are where a password becomes a token; a server from 3.0 on may have the second only.
	loginPath   = "/v1/auth/users/login"
	loginPathV3 = "/v3/auth/user/login"
	// loginLimit is how much of an answer to a login is read.
	loginLimit = 64 << 10
	// loginPause lies between two logins after one that failed, however many documents ask.
	loginPause = time.Second
	// renewPause lies between two logins because a token was refused: where the rights are what is missing, another token
	// does not help.
	renewPause = 5 * time.Second
)

// Login is a user and a password that may change while sources and sinks run; option [SignIn] takes it. Its methods may be
// called from any goroutine.
type Login struct {
	mu             sync.Mutex
	user, password string
}

// NewLogin makes a login. A user "" signs in nowhere.
func NewLogin(user, password string) *Login { return &Login{user: user, password: password} }

// Set changes user and password. They count from the next login on: the server takes a token that it gave before until
// that expires or is refused.
func (l *Login) Set(user, password string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.user, l.password = user, password
}

// String shows the user alone.
func (l *Login) String() string {
	user, _ := l.get()
	return user
}

// GoString is String.
func (l *Login) GoString() string { return l.String() }

func (l *Login) get() (user, password string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.user, l.password
}

// login sees to it that there is a token, if there is a user to sign in.
func (a *account) login(ctx context.Context) error {
	now := time.Now()
	if name, _ := a.signIn.get(); name == "" || a.token != "" && now.Before(a.refresh) {
		return nil
	}
	if a.failed != nil && now.Sub(a.failedAt) < loginPause {
		return a.failed
	}
	servers, err := a.list(ctx)
	if err != nil {
		return err
	}
	for _, server := range servers {
		if err = a.loginAt(ctx, server); err == nil {
			a.failed, a.gotAt = nil, time.Now()
			return nil
		}
		if errors.Is(err, ErrDenied) || ctx.Err() != nil {
			break
		}
	}
	if a.token != "" && now.Before(a.expires) {
		a.refresh = now.Add(renewPause) // it is good for a while
		return nil
	}
	err = fmt.Errorf("login: %w", err)
	if ctx.Err() == nil {
		a.failed, a.failedAt = err, time.Now()
	}
	return err
}

func (a *account) loginAt(ctx context.Context, server constant.ServerConfig) error {
	name, password := a.signIn.get()
	form := url.Values{"username": {name}, "password": {password}}.Encode()
	status, body, err := a.http(ctx, http.MethodPost, base(server)+loginPath, form)
	if err == nil && (status == http.StatusNotFound || status == http.StatusGone || status == http.StatusNotImplemented) {
		status, body, err = a.http(ctx, http.MethodPost, base(server)+loginPathV3, form)
	}
	if err != nil {
		return err
	}
	var answer struct {
		AccessToken string `json:"accessToken"`
		TTL         int64  `json:"tokenTtl"`
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("%w: status %d", ErrDenied, status)
	case status == http.StatusInternalServerError:
		// Nacos 2.3 says so where there is no such user, and where its database is down.
		return fmt.Errorf("%w: status %d; does the user exist?", errServer, status)
	case status != http.StatusOK:
		return fmt.Errorf("%w: status %d", errServer, status)
	case json.Unmarshal(body, &answer) != nil:
		return errSignInPage
	}
	// A server without authentication may answer without a token.
	ttl := time.Duration(answer.TTL) * time.Second
	now := time.Now()
	a.token, a.refresh, a.expires = answer.AccessToken, now.Add(ttl-ttl/10), now.Add(ttl)
	return nil
}

// renew forgets a token that was refused, so that the next request logs in again: the server's key may have changed, or
// the user's rights (F111). It says whether there is anything to hope for from that.
func (a *account) renew(ctx context.Context, refused string) bool {
	if name, _ := a.signIn.get(); name == "" {
		return false
	}
	select {
	case <-a.turn:
	case <-ctx.Done():
		return false
	}
	defer func() { a.turn <- struct{}{} }()
	if a.token != refused {
		return true // somebody else did
	}
	if time.Since(a.gotAt) < renewPause {
		return false
	}
	a.token = ""
	return true
}

// http sends one request on a connection of its own. A redirect is not followed: it would carry the password to where
// somebody else says. Not by http.Client, since Nacos 2.3 answers a wrong password with the status 0, over which
// that fails without saying anything that a program could tell from a broken line; 0 counts as 403.
func (a *account) http(ctx context.Context, method, address, form string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Close = true
	host := r.URL.Host
	if r.URL.Port() == "" {
		host = net.JoinHostPort(r.URL.Hostname(), map[string]string{"http": "80", "https": "443"}[r.URL.Scheme])
	}
	var secure *tls.Config
	if r.URL.Scheme == "https" {
		if secure, err = a.tls(); err != nil {
			return 0, nil, err
		}
		if secure == nil {
			secure = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if secure.ServerName == "" {
			secure.ServerName = r.URL.Hostname()
		}
	}
	conn, err := a.dial(ctx, host)
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	over := conn
	if secure != nil {
		over = tls.Client(conn, secure)
	}
	status, body, err := roundTrip(over, r)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return status, body, err
}

func roundTrip(conn net.Conn, r *http.Request) (int, []byte, error) {
	if err := r.Write(conn); err != nil {
		return 0, nil, err
	}
	in := bufio.NewReader(conn)
	const zero = "HTTP/1.1 0 "
	if line, err := in.Peek(len(zero)); err == nil && string(line) == zero {
		return http.StatusForbidden, nil, nil
	}
	reply, err := http.ReadResponse(in, r)
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, loginLimit))
	return reply.StatusCode, body, err
}
