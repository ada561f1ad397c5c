package etcdtest

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rulewire/rulewire/testcontainers/internal/trial"
	"github.com/rulewire/rulewire/testcontainers/link"
)

// An etcd that lost its volume, or was restored, counts its revisions anew: what is written to it then may have the revision
// of the document in force, and its length.
//
// faults: F069
func TestStoreThatBeginsAnew(t *testing.T) {
	t.Parallel()
	before, after := Run(t), Run(t)
	if !before.Contained() || !after.Contained() {
		t.Skip("the server is not ours to replace")
	}
	way, err := link.Listen(before.Admin(port))
	must(t, err)
	t.Cleanup(func() { _ = way.Close() })
	src := newSource(t, client(t, before, func(config *clientv3.Config) { config.Endpoints = []string{way.Addr()} }), "k")
	put := func(s *Server, n int) { must(t, s.Put(t.Context(), "k", trial.Document(n))) }
	put(before, 1)
	put(after, 1)
	l := trial.Open(t, src)
	l.InForce(t, soon, 1)
	put(before, 2)
	put(after, 3)
	l.InForce(t, soon, 2) // so the watch is open
	old := l.Status().Revision
	way.SetTarget(after.Admin(port))
	way.Reset()
	l.InForce(t, soon, 3)
	if now := l.Status().Revision; now != old {
		t.Errorf("revision %s, and it was %s before: the test shows nothing", now, old)
	}
}
