package apollotest

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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

type message struct {
	id      int64
	content string
}

// Option is an option of NewServer.
type Option func(*Server)

// Hold is how long a poll is held. Default 60 s.
func Hold(d time.Duration) Option { return func(s *Server) { s.hold = d } }

// Scan is how often the config service looks for releases. Default 1 s.
func Scan(d time.Duration) Option { return func(s *Server) { s.scan = d } }

// ItemLimit is the longest value, in UTF-16 units. Default 20,000.
func ItemLimit(n int) Option { return func(s *Server) { s.limit = n } }

// AnyCase lets the database find app ids in any letter case, as a MySQL with its default collation does. The config
// service's notifications go by the exact spelling nevertheless.
func AnyCase() Option { return func(s *Server) { s.lenient = true } }

// NewServer makes a server without apps. Namespace makes them.
func NewServer(options ...Option) *Server {
	s := &Server{
		hold: time.Minute, scan: time.Second, limit: 20_000, born: time.Now(),
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

// Namespace is one namespace of an app in a cluster.
type Namespace struct {
	s                  *Server
	id                 int64
	app, cluster, name string
	deleted            bool
	items              []*item
	releases           []*release // oldest first
	gray               []*gray
}

type item struct {
	id                      int64
	key, value, comment     string
	kind                    int
	createdBy, changedBy    string
	createdTime, changeTime time.Time
}

type release struct {
	id                 int64
	key, name, comment string
	by                 string
	time               time.Time
	values             map[string]string
	abandoned          bool
}

type gray struct {
	ips, labels []string
	values      map[string]string // the branch's own items
	release     *release
}

// Namespace finds a namespace, or makes it with its app.
func (s *Server) Namespace(app, cluster, name string) *Namespace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.make(app, cluster, name, false)
}

// PublicNamespace is Namespace for one that other apps read, too.
func (s *Server) PublicNamespace(app, cluster, name string) *Namespace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.make(app, cluster, name, true)
}

func (s *Server) make(app, cluster, name string, public bool) *Namespace {
	if n := s.find(app, cluster, name); n != nil {
		return n
	}
	s.app(app).names[name] = public
	s.ids++
	n := &Namespace{s: s, id: s.ids, app: app, cluster: cluster, name: name}
	s.namespaces = append(s.namespaces, n)
	return n
}

// find finds a namespace as the database does. The mutex is held.
func (s *Server) find(app, cluster, name string) *Namespace {
	a := s.found(app)
	if a == nil {
		return nil
	}
	for _, n := range s.namespaces {
		if n.app == a.name && n.cluster == cluster && n.name == name && !n.deleted {
			return n
		}
	}
	return nil
}

// Put edits an item and releases the namespace.
func (n *Namespace) Put(key, value string) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.edit(key, value, Editor)
	n.publish("by hand", "", Editor)
}

// Delete deletes an item, if it is there, and releases the namespace.
func (n *Namespace) Delete(key string) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.remove(key)
	n.publish("by hand", "", Editor)
}

// Edit edits an item as user, and does not release it.
func (n *Namespace) Edit(key, value, user string) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.edit(key, value, user)
}

// Remove deletes an item, and does not release that.
func (n *Namespace) Remove(key string) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.remove(key)
}

// Release releases the namespace and gives the release's key.
func (n *Namespace) Release() string {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	return n.publish("by hand", "", Editor).key
}

// Rollback abandons the newest release.
func (n *Namespace) Rollback() {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	if r := n.latest(); r != nil {
		r.abandoned = true
		n.s.announce(n)
	}
}

// Drop deletes the namespace.
func (n *Namespace) Drop() {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.deleted = true
	delete(n.s.app(n.app).names, n.name)
	n.s.announce(n)
}

// Gray releases values, over the namespace's own, to clients with one of the addresses or labels.
func (n *Namespace) Gray(ips, labels []string, values map[string]string) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	g := &gray{ips: ips, labels: labels, values: values}
	n.gray = append(n.gray, g)
	n.branch(g)
	n.s.announce(n)
}

// EndGray gives the gray releases up.
func (n *Namespace) EndGray() {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.gray = nil
	n.s.announce(n)
}

// Value gives what is edited under key, and by whom.
func (n *Namespace) Value(key string) (value, by string, there bool) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	if i := n.item(key); i != nil {
		return i.value, i.changedBy, true
	}
	return "", "", false
}

// Comment gives the newest release's title and comment.
func (n *Namespace) Comment() (title, comment string) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	if r := n.latest(); r != nil {
		return r.name, r.comment
	}
	return "", ""
}

// Releases counts the releases that were made.
func (n *Namespace) Releases() int {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	return len(n.releases)
}

func (n *Namespace) item(key string) *item {
	for _, i := range n.items {
		if i.key == key {
			return i
		}
	}
	return nil
}

func (n *Namespace) edit(key, value, user string) *item {
	i := n.item(key)
	now := time.Now()
	if i == nil {
		n.s.ids++
		i = &item{id: n.s.ids, key: key, createdBy: user, createdTime: now}
		n.items = append(n.items, i)
	}
	i.value, i.changedBy, i.changeTime = value, user, now
	return i
}

func (n *Namespace) remove(key string) {
	n.items = slices.DeleteFunc(n.items, func(i *item) bool { return i.key == key })
}

func (n *Namespace) latest() *release {
	for _, r := range slices.Backward(n.releases) {
		if !r.abandoned {
			return r
		}
	}
	return nil
}

// publish releases all items, and the gray branches over them.
func (n *Namespace) publish(name, comment, user string) *release {
	values := map[string]string{}
	for _, i := range n.items {
		if i.key != "" {
			values[i.key] = i.value
		}
	}
	r := n.make(name, comment, user, values)
	n.releases = append(n.releases, r)
	for _, g := range n.gray {
		n.branch(g)
	}
	n.s.announce(n)
	return r
}

func (n *Namespace) branch(g *gray) {
	values := map[string]string{}
	if r := n.latest(); r != nil {
		values = maps.Clone(r.values)
	}
	maps.Copy(values, g.values)
	g.release = n.make("gray", "", Editor, values)
}

func (n *Namespace) make(name, comment, user string, values map[string]string) *release {
	n.s.ids++
	now := time.Now()
	var noise [8]byte
	for i := range noise {
		noise[i] = byte(rand.N(256))
	}
	return &release{
		id: n.s.ids, key: now.UTC().Format("20060102150405") + "-" + hex.EncodeToString(noise[:]),
		name: name, comment: comment, by: user, time: now, values: values,
	}
}

// announce lets the config service find the release at its next scan. The mutex is held.
func (s *Server) announce(n *Namespace) {
	s.messages++
	s.pending = append(s.pending, message{s.messages, n.content()})
	if s.scanning != nil || s.closed {
		return
	}
	wait := s.scan - time.Since(s.born)%s.scan
	s.scanning = time.AfterFunc(wait, s.look)
}

func (n *Namespace) content() string { return watchKey(n.app, n.cluster, n.name) }

func watchKey(app, cluster, name string) string { return app + "+" + cluster + "+" + name }

// look is the config service's scan for release messages.
func (s *Server) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scanning = nil
	pending := s.pending
	s.pending = nil
	for _, m := range pending {
		s.scanned[m.content] = m.id
		for key := range s.cache {
			if strings.EqualFold(key, m.content) {
				delete(s.cache, key)
			}
		}
		for p := range s.polls {
			// Each message answers the polls of its namespace alone: what else is new they are told next time.
			if name, watched := p.watches(m.content); watched {
				p.answer([]note{{name, m.id, details{map[string]int64{m.content: m.id}}}})
			}
		}
	}
}

// Restore sets the database back: the namespace has values and no others, and messages count from a lower number.
func (s *Server) Restore(n *Namespace, values map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages /= 2
	n.items, n.gray = nil, nil
	for _, key := range slices.Sorted(maps.Keys(values)) {
		n.edit(key, values[key], Editor)
	}
	n.publish("restored", "", Editor)
	s.restart()
}

// Restart ends all polls and lets the config service begin anew.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restart()
}

func (s *Server) restart() {
	for p := range s.polls {
		p.hangUp()
	}
	s.cache = map[string]map[string]string{}
	if s.scanning != nil {
		s.scanning.Stop()
		s.scanning = nil
	}
	// What was not scanned yet is read at the start.
	for _, m := range s.pending {
		s.scanned[m.content] = m.id
	}
	s.pending = nil
}

// served finds what the config service gives to a client.
func (s *Server) served(app, cluster, name, ip, label string) (list []*release, from string) {
	from = cluster
	a := s.found(app)
	if a == nil {
		return nil, from
	}
	name = s.normal(a.name, name)
	load := func(owner string) *release {
		for _, c := range []string{cluster, "default"} {
			n := s.find(owner, c, name)
			if n == nil {
				continue
			}
			for _, g := range n.gray {
				if slices.Contains(g.ips, ip) || slices.Contains(g.ips, "*") || label != "" && slices.Contains(g.labels, label) {
					from = cmp.Or(c, from)
					return g.release
				}
			}
			if r := n.latest(); r != nil {
				from = c
				return r
			}
		}
		return nil
	}
	if r := load(app); r != nil {
		list = append(list, r)
	}
	if _, own := a.names[name]; !own {
		for id, other := range s.apps {
			if public := other.names[name]; public && id != a.name {
				was := from
				if r := load(id); r != nil {
					list = append(list, r)
				}
				if len(list) > 1 {
					from = was
				}
			}
		}
	}
	return list, from
}

// normal gives the name as the namespace was made.
func (s *Server) normal(app, name string) string {
	if a := s.apps[app]; a != nil {
		for n := range a.names {
			if strings.EqualFold(n, name) {
				return n
			}
		}
	}
	for _, a := range s.apps {
		for n, public := range a.names {
			if public && strings.EqualFold(n, name) {
				return n
			}
		}
	}
	return name
}

func merged(list []*release) (key string, values map[string]string) {
	values = map[string]string{}
	for _, r := range slices.Backward(list) {
		maps.Copy(values, r.values)
		if key == "" {
			key = r.key
		} else {
			key = r.key + "+" + key
		}
	}
	return key, values
}

// String names the namespace.
func (n *Namespace) String() string { return fmt.Sprintf("%s/%s/%s", n.app, n.cluster, n.name) }

// Name is the namespace's name.
func (n *Namespace) Name() string { return n.name }
