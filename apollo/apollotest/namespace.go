package apollotest

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Namespace is one namespace of an app in a cluster.
type Namespace struct {
	s                  *Server
	id                 int64
	app, cluster, name string
	deleted            bool
	items              []*item
	releases           []*release // oldest first
	gray               []*gray
	parent             *Namespace // of a branch
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
	release     *release          // nil until the branch is released
	branch      *Namespace        // where the items are edited; nil if values were given
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
	return n.publishValues(n.values(), name, comment, user)
}

func (n *Namespace) values() map[string]string {
	values := map[string]string{}
	for _, i := range n.items {
		if i.key != "" {
			values[i.key] = i.value
		}
	}
	return values
}

// transaction is publish as the real server does it: other requests are served between its look at the items and the
// release. The mutex is held, and let go meanwhile.
func (n *Namespace) transaction(name, comment, user string) *release {
	values := n.values()
	n.s.mu.Unlock()
	<-time.After(n.s.commit)
	n.s.mu.Lock()
	return n.publishValues(values, name, comment, user)
}

func (n *Namespace) publishValues(values map[string]string, name, comment, user string) *release {
	if n.parent != nil {
		return n.parent.publishBranch(n, values)
	}
	r := n.make(name, comment, user, values)
	n.releases = append(n.releases, r)
	for _, g := range n.gray {
		if g.release != nil {
			n.branch(g)
		}
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

func (n *Namespace) content() string { return watchKey(n.app, n.cluster, n.name) }

// String names the namespace.
func (n *Namespace) String() string { return fmt.Sprintf("%s/%s/%s", n.app, n.cluster, n.name) }

// Name is the namespace's name.
func (n *Namespace) Name() string { return n.name }
