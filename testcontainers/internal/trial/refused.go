package trial

import (
	"testing"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// Ill is a way for a store to refuse a source that was live.
type Ill struct {
	Name string
	// Source is over a client of its own, and Requests counts what that client sends: a request that needs a connection
	// first counts once.
	Source   datasource.Source
	Requests func() int
	// Put writes the source's document.
	Put func(data []byte) error
	// Begin makes the store refuse, End ends it.
	Begin, End func() error
	// Says tells whether an error gives the reason.
	Says func(error) bool
}

const (
	// grace is after which a failing store is asked at most once a second; watched is how long that is looked at.
	grace, watched = 5 * time.Second, 10 * time.Second
	// relist is the engine's, shortened: a watch that is open outlives a permission in most stores.
	relist = time.Second
)

// Refused makes the store refuse: the status must give the reason, the rules must stay, the store must be asked at most
// once a second after five seconds, and all must be well again afterwards. The engine's backoff is its own. The ills are
// parallel subtests.
func Refused(t *testing.T, ills ...Ill) {
	t.Helper()
	for _, ill := range ills {
		t.Run(ill.Name, func(t *testing.T) {
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(ill.Put(Document(1)))
			l := Open(t, ill.Source, datasource.Relist(relist))
			l.InForce(t, patience, 1)
			t.Parallel() // from here: to begin may reset a link that all share, which a first read does not outlive
			must(ill.Begin())
			begin := time.NewTimer(grace)
			l.Until(t, grace+relist+patience, "the status gives the reason", func() bool {
				st := l.Status()
				return st.State == datasource.StateDegraded && ill.Says(st.LastError)
			})
			<-begin.C
			before := ill.Requests()
			<-time.NewTimer(watched).C
			n := ill.Requests() - before
			st := l.Status()
			t.Logf("%d requests in %v; %s, %s: %v", n, watched, st.State, st.Cause, st.LastError)
			if n > int(watched/time.Second) {
				t.Errorf("%d requests in %v", n, watched)
			}
			if st.State != datasource.StateDegraded || !ill.Says(st.LastError) {
				t.Errorf("status is %s, %v", st.State, st.LastError)
			}
			if numbers := l.Numbers(); last(numbers) != 1 || len(numbers) != 1 || st.Rules != 1 {
				t.Errorf("the rules did not stay: in force were %v, now %d rules", numbers, st.Rules)
			}
			must(ill.End())
			must(ill.Put(Document(2)))
			l.InForce(t, 2*datasource.DefaultMaxBackoff, 2)
		})
	}
}
