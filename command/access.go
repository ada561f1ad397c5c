package command

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// admit says who asks, or why not. What a browser does on behalf of a web page is refused altogether: also reading, so that
// nothing about the process leaks.
func (c *Centre) admit(r *http.Request) (actor string, err error) {
	ip := ipOf(r.RemoteAddr)
	if len(c.opts.peers) > 0 && !allowed(c.opts.peers, ip) {
		return "", failf(http.StatusForbidden, "%s is not on the list of peers", ip)
	}
	if !c.ownHost(r) {
		return "", failf(http.StatusForbidden, "host %.100q is not known here; option Hosts adds it", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return "", failf(http.StatusForbidden, "requests of web pages (Origin %.100q) are refused", origin)
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return "", &StatusError{http.StatusForbidden, errors.New("requests of web pages are refused")}
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		cert := r.TLS.VerifiedChains[0][0]
		actor = cert.Subject.CommonName
		if actor == "" && len(cert.DNSNames) > 0 {
			actor = cert.DNSNames[0]
		}
	}
	if len(c.opts.tokens) > 0 {
		holder, ok := c.holder(r.Header.Get("Authorization"))
		if !ok {
			return "", &StatusError{http.StatusUnauthorized, errors.New("a bearer token is needed")}
		}
		actor = holder
	}
	if actor == "" {
		return "command port, from " + ip.String(), nil
	}
	return actor + ", from " + ip.String(), nil
}

// mayEdit refuses what is left of a browser's ways to edit for a web page: a link or an image, which needs no script, and
// shows neither an origin nor a fetch mode where the page is not on a secure address.
func mayEdit(r *http.Request) error {
	if r.Method == http.MethodPost {
		return nil // a browser always sends Origin with a post
	}
	if r.Method == http.MethodHead {
		return &StatusError{http.StatusMethodNotAllowed, errors.New("HEAD changes nothing")}
	}
	if from := r.Header.Get("Referer"); from != "" {
		if u, err := url.Parse(from); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return &StatusError{http.StatusForbidden, errors.New("requests of web pages are refused")}
		}
	}
	if r.Header.Get("Sec-Fetch-Site") == "" && strings.HasPrefix(r.UserAgent(), "Mozilla/") {
		return &StatusError{http.StatusForbidden, errors.New("an edit by a browser has to be a post")}
	}
	return nil
}

// holder finds whose token was sent, in the same time whatever was sent.
func (c *Centre) holder(header string) (actor string, ok bool) {
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	sent := sha256.Sum256([]byte(strings.TrimSpace(secret)))
	for _, t := range c.opts.tokens {
		want := sha256.Sum256([]byte(t.secret))
		if subtle.ConstantTimeCompare(sent[:], want[:]) == 1 {
			actor, ok = t.actor, true
		}
	}
	return actor, ok
}

// ownHost says whether the request came under a name of ours. Addresses can't be rebound.
func (c *Centre) ownHost(r *http.Request) bool {
	host := r.Host
	if host == "" {
		return r.ProtoMajor == 1 && r.ProtoMinor == 0
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "localhost" || c.opts.hosts[host]
}

// ipOf is the address in ip:port, without the zone; not valid if there is none.
func ipOf(addrPort string) netip.Addr {
	ap, err := netip.ParseAddrPort(addrPort)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

func allowed(networks []netip.Prefix, ip netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(ip) {
			return true
		}
	}
	return false
}
