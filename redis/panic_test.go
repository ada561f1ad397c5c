package redis

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// A panic in code of the user's that a request or a new connection calls comes on a goroutine of ours, where nobody else
// would catch it: it must be an error of that request, and not the end of the process.
//
// faults: F025
func TestPanicOfAUsersFunctionIsAnErrorOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(key, "v1")
		var broken atomic.Bool
		c := s.client(t, func(o *redis.Options) {
			o.Username, o.Password = "", ""
			o.CredentialsProvider = func() (string, string) {
				if broken.Load() {
					panic("vault is sealed")
				}
				return "app", "s3cret-pass"
			}
		})
		broken.Store(true)
		src := source(t, c)
		if _, err := src.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "vault is sealed") {
			t.Errorf("Read says %v", err)
		}
		_, ended, _ := follow(t, src)
		time.Sleep(time.Second)
		select {
		case err := <-ended:
			if !strings.Contains(err.Error(), "vault is sealed") {
				t.Errorf("Watch ended with %v", err)
			}
		default:
			t.Error("Watch goes on")
		}
		broken.Store(false)
		if doc, err := src.Read(t.Context()); err != nil || string(doc.Data) != "v1" {
			t.Errorf("Read: %v, %v", doc, err)
		}
	})
}
