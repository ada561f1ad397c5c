package apollotest

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The addresses of the services in memory.
const (
	ConfigURL = "http://config.apollo.test"
	PortalURL = "http://portal.apollo.test"
	AdminURL  = "http://admin.apollo.test"
	// Env is the environment that the portal has.
	Env = "LOCAL"
)

// serving is a Server's side to the network.
type serving struct {
	mu     sync.Mutex
	closed bool
	polls  map[*poll]struct{}
	http   *http.Server
	listen *listener
	ended  chan struct{}
	links  []*Link
	counts map[string]int
}

func (v *serving) serve(s *Server) {
	v.polls = map[*poll]struct{}{}
	v.counts = map[string]int{}
	v.listen = &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	v.http = &http.Server{Handler: s.Handler(), ErrorLog: log.New(silence{}, "", 0)}
	v.ended = make(chan struct{})
	go func() {
		defer close(v.ended)
		_ = v.http.Serve(v.listen)
	}()
}

type silence struct{}

func (silence) Write(b []byte) (int, error) { return len(b), nil }

// Link makes a way to the server for one client, in memory. It ends with the server.
func (s *Server) Link() *Link {
	l := Dial(func(ctx context.Context, _ string) (net.Conn, error) { return s.listen.dial(ctx) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, l)
	return l
}

// Close ends all polls and links, and waits for what they leave.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	if s.scanning != nil {
		s.scanning.Stop()
		s.scanning = nil
	}
	for p := range s.polls {
		p.hangUp()
	}
	links := s.links
	s.mu.Unlock()
	for _, l := range links {
		l.Close()
	}
	_ = s.http.Close()
	<-s.ended
}

// Polls counts the long polls that are held now.
func (s *Server) Polls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.polls)
}

// Requests counts the requests so far whose path begins with prefix.
func (s *Server) Requests(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for path, count := range s.counts {
		if strings.HasPrefix(path, prefix) {
			n += count
		}
	}
	return n
}

// Handler is all three services; their paths do not overlap. It can be put behind a listener of one's own.
func (s *Server) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /configs/{app}/{cluster}/{namespace}", s.signed(s.configs))
	m.HandleFunc("GET /configfiles/json/{app}/{cluster}/{namespace}", s.signed(s.configFiles))
	m.HandleFunc("GET /notifications/v2", s.signed(s.notifications))
	m.HandleFunc("GET /services/config", s.services)
	s.portal(m)
	s.admin(m)
	m.HandleFunc("/", notFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.counts[r.URL.Path]++
		s.mu.Unlock()
		m.ServeHTTP(w, r)
	})
}

// signed checks the signature where the app has access keys.
func (s *Server) signed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("app")
		if id == "" {
			id = r.FormValue("appId")
		}
		s.mu.Lock()
		var secrets []string
		if a := s.found(id); a != nil {
			secrets = a.secrets
		}
		s.mu.Unlock()
		if len(secrets) > 0 {
			stamp := r.Header.Get("Timestamp")
			at, err := strconv.ParseInt(stamp, 10, 64)
			if skew := time.Since(time.UnixMilli(at)); err != nil || skew.Abs() > time.Minute {
				failure(w, r, http.StatusUnauthorized)
				return
			}
			_, signature, _ := strings.Cut(r.Header.Get("Authorization"), ":")
			good := false
			for _, secret := range secrets {
				mac := hmac.New(sha1.New, []byte(secret))
				mac.Write([]byte(stamp + "\n" + r.RequestURI))
				good = good || base64.StdEncoding.EncodeToString(mac.Sum(nil)) == signature
			}
			if !good {
				failure(w, r, http.StatusUnauthorized)
				return
			}
		}
		next(w, r)
	}
}

// The bodies of the answers, with the members in the real server's order.
type (
	config struct {
		AppID          string            `json:"appId"`
		Cluster        string            `json:"cluster"`
		Namespace      string            `json:"namespaceName"`
		Configurations map[string]string `json:"configurations"`
		ReleaseKey     string            `json:"releaseKey"`
	}
	service struct {
		Name string `json:"appName"`
		ID   string `json:"instanceId"`
		URL  string `json:"homepageUrl"`
	}
	note struct {
		Namespace string  `json:"namespaceName"`
		ID        int64   `json:"notificationId"`
		Messages  details `json:"messages"`
	}
	details struct {
		Details map[string]int64 `json:"details"`
	}
)

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.WriteHeader(status)
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err == nil {
		_, _ = w.Write(b)
	}
}

// failure is the error page of the framework, as a client sees it that accepts JSON.
func failure(w http.ResponseWriter, r *http.Request, status int) {
	write(w, status, struct {
		Timestamp string `json:"timestamp"`
		Status    int    `json:"status"`
		Error     string `json:"error"`
		Path      string `json:"path"`
	}{stamp(time.Now()), status, http.StatusText(status), r.URL.Path})
}

func notFound(w http.ResponseWriter, r *http.Request) { failure(w, r, http.StatusNotFound) }

// exception is Apollo's own answer to what it does not do.
func exception(w http.ResponseWriter, status int, kind, message string) {
	write(w, status, struct {
		Exception string `json:"exception"`
		Message   string `json:"message"`
		Status    int    `json:"status"`
		Timestamp string `json:"timestamp"`
	}{"com.ctrip.framework.apollo.common.exception." + kind, message, status, time.Now().UTC().Format("2006-01-02T15:04:05.000000")})
}

func badRequest(w http.ResponseWriter, message string) {
	exception(w, http.StatusBadRequest, "BadRequestException", message)
}

func missing(w http.ResponseWriter, message string) {
	exception(w, http.StatusNotFound, "NotFoundException", message)
}

func bare(name string) string {
	if n := len(name) - len(".properties"); n > 0 && strings.EqualFold(name[n:], ".properties") {
		return name[:n]
	}
	return name
}

func remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (s *Server) load(r *http.Request) (key, cluster string, values map[string]string) {
	ip := r.FormValue("ip")
	if ip == "" {
		ip = remote(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list, cluster := s.served(r.PathValue("app"), r.PathValue("cluster"), bare(r.PathValue("namespace")), ip, r.FormValue("label"))
	if len(list) == 0 {
		return "", "", nil
	}
	key, values = merged(list)
	return key, cluster, values
}

func (s *Server) configs(w http.ResponseWriter, r *http.Request) {
	key, cluster, values := s.load(r)
	switch {
	case values == nil:
		notFound(w, r)
	case key == r.FormValue("releaseKey"):
		w.WriteHeader(http.StatusNotModified)
	default:
		write(w, http.StatusOK, config{r.PathValue("app"), cluster, r.PathValue("namespace"), values, key})
	}
}

// configFiles answers from a cache that the next scan clears.
func (s *Server) configFiles(w http.ResponseWriter, r *http.Request) {
	key := watchKey(r.PathValue("app"), r.PathValue("cluster"), bare(r.PathValue("namespace")))
	s.mu.Lock()
	values := s.cache[key]
	s.mu.Unlock()
	if values == nil {
		if _, _, values = s.load(r); values == nil {
			notFound(w, r)
			return
		}
		s.mu.Lock()
		s.cache[key] = values
		s.mu.Unlock()
	}
	write(w, http.StatusOK, values)
}

func (s *Server) services(w http.ResponseWriter, r *http.Request) {
	write(w, http.StatusOK, []service{{"APOLLO-CONFIGSERVICE", "stand-in:apollo-configservice", "http://" + r.Host + "/"}})
}
