package apollotest

import (
	"strings"
	"time"
)

// Editor is who edits where no name is given.
const Editor = "apollo"

// Server is an Apollo: config service, portal and admin service over one database. Its methods may be called from any
// goroutine.
type Server struct {
	serving
	hold, scan time.Duration
	commit     time.Duration
	limit      int
	lenient    bool

	// Under the mutex of serving.
	born       time.Time
	apps       map[string]*app
	namespaces []*Namespace
	ids        int64 // of items, releases and namespaces
	messages   int64 // ids of release messages
	pending    []message
	scanned    map[string]int64 // the newest message of each content that the config service knows of
	scanning   *time.Timer
	cache      map[string]map[string]string
	users      []string
	token      string
}

// app is an app with the namespaces that were made for it.
type app struct {
	name    string
	secrets []string
	names   map[string]bool // its namespaces, and whether each is public
}

// Option is an option of NewServer.
type Option func(*Server)

// Hold is how long a poll is held. Default 60 s.
func Hold(d time.Duration) Option { return func(s *Server) { s.hold = d } }

// Scan is how often the config service looks for releases. Default 1 s.
func Scan(d time.Duration) Option { return func(s *Server) { s.scan = d } }

// Commit is how long a release over the network takes between reading the items and being in the database. Default 5 ms.
func Commit(d time.Duration) Option { return func(s *Server) { s.commit = d } }

// ItemLimit is the longest value, in UTF-16 units. Default 20,000.
func ItemLimit(n int) Option { return func(s *Server) { s.limit = n } }

// AnyCase lets the database find app ids in any letter case, as a MySQL with its default collation does. The config
// service's notifications go by the exact spelling nevertheless.
func AnyCase() Option { return func(s *Server) { s.lenient = true } }

// NewServer makes a server without apps. Namespace makes them.
func NewServer(options ...Option) *Server {
	s := &Server{
		hold: time.Minute, scan: time.Second, commit: 5 * time.Millisecond, limit: 20_000, born: time.Now(),
		apps: map[string]*app{}, scanned: map[string]int64{}, cache: map[string]map[string]string{},
		users: []string{Editor}, token: "portal-token",
	}
	for _, o := range options {
		o(s)
	}
	s.serve(s)
	return s
}

// Token is the one that the open API takes.
func (s *Server) Token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// SetToken changes the token that the open API takes.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// AddUser makes a user who may edit and release through the open API. There is Editor already.
func (s *Server) AddUser(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users = append(s.users, name)
}

// SetSecrets turns the app's access keys on; without any they are off.
func (s *Server) SetSecrets(id string, secrets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.app(id).secrets = secrets
}

// app finds an app, or makes it. The mutex is held.
func (s *Server) app(id string) *app {
	a := s.apps[id]
	if a == nil {
		a = &app{name: id, names: map[string]bool{"application": false}}
		s.apps[id] = a
	}
	return a
}

// found finds an app as the database does, or gives nil.
func (s *Server) found(id string) *app {
	if a := s.apps[id]; a != nil || !s.lenient {
		return a
	}
	for name, a := range s.apps {
		if strings.EqualFold(name, id) {
			return a
		}
	}
	return nil
}
