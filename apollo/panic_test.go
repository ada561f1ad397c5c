package apollo_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rulewire/rulewire/apollo"
)

// A panic in code of the user's that a request calls comes on a goroutine of the client's, where nobody else would
// catch it: it must be an error of that request, and not the end of the process.
//
// faults: F025
func TestPanicOfAUsersFunctionIsAnErrorOfTheRequest(t *testing.T) {
	for _, name := range []string{"secret", "transport"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				var broken atomic.Bool
				fail := func() {
					if broken.Load() {
						panic("vault is sealed")
					}
				}
				at := b.space("application")
				at.Put("rules", doc(1))
				conf := app(appID)
				options := []apollo.ClientOption{apollo.Secret(func(context.Context) (string, error) { fail(); return "", nil })}
				if name == "transport" {
					through := b.link.Client()
					options = []apollo.ClientOption{apollo.HTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
						fail()
						return through.Transport.RoundTrip(r)
					})})}
				}
				l := b.open(b.source(newClient(b, b.link, conf, options...), "application", "rules"))
				b.within(time.Second, l, 1)
				broken.Store(true)
				at.Put("rules", doc(2))
				pass(5 * time.Second)
				if err := l.Refresh(b.Context()); err == nil || !strings.Contains(err.Error(), "vault is sealed") {
					b.Errorf("Refresh says %v", err)
				}
				broken.Store(false)
				b.within(30*time.Second, l, 2)
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
