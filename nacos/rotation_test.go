package nacos

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/nacos-group/nacos-sdk-go/v2/api/grpc"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/common/security"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rulewire/rulewire/datasource"
)

// The password is changed at the server, and no token is good any more: the status says that the credentials are refused,
// the rules stay, and once the application has the new password they follow again. Two documents share the login.
//
// faults: F111
func TestRotatedPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.auth = true
		for _, name := range []string{"d", "e"} {
			s.put(at(name), numbered(1))
		}
		login := NewLogin(user, pass)
		c := s.client(t)
		f, g := follow(t, source(t, c, "d", SignIn(login))), follow(t, source(t, c, "e", SignIn(login)))
		wait(time.Minute)
		const next = "n3xt-pass"
		s.set(func() { s.password = next; clear(s.tokens) })
		s.put(at("d"), numbered(2))
		wait(time.Minute)
		if st := f.Status(); !errors.Is(st.LastError, ErrDenied) || st.Rules != 1 {
			t.Errorf("%d rules, %v", st.Rules, st.LastError)
		}
		login.Set(user, next)
		wait(time.Minute)
		s.put(at("e"), numbered(3))
		synctest.Wait()
		for want, f := range map[int]*follower{2: f, 3: g} {
			last, _ := f.now()
			if st := f.Status(); last != want || st.LastError != nil {
				t.Errorf("at %d, want %d: %v", last, want, st.LastError)
			}
		}
		if text := fmt.Sprintf("%v %+v %#v", login, login, login); strings.Contains(text, next) {
			t.Errorf("a login prints as %s", text)
		}
	})
}

// keys are access keys that somebody renews.
type keys struct {
	security.RamCredentialProvider
	mu             sync.Mutex
	access, secret string
}

func (k *keys) MatchProvider() bool { return true }
func (k *keys) Init() error         { return nil }
func (k *keys) GetCredentialsForNacosClient() security.RamContext {
	k.mu.Lock()
	defer k.mu.Unlock()
	return security.RamContext{AccessKey: k.access, SecretKey: k.secret}
}

// Access keys count from the request on before which their provider gives them, without a new client. A
// server that asks for signatures signs the same text as the SDK: group and namespace with a time stamp, by HMAC-SHA1.
//
// faults: F111 F112
func TestRotatedAccessKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		valid := &keys{access: "key-1", secret: "secret-1"}
		k := &keys{access: valid.access, secret: valid.secret}
		s.answered = func(kind string, _ place) (*pb.Payload, error) {
			if kind != typeQuery && kind != typeListen {
				return nil, nil
			}
			h := s.headers[kind]
			valid.mu.Lock()
			defer valid.mu.Unlock()
			space := namespace + "+G"
			if kind == typeListen {
				space = ""
			}
			if h["Spas-AccessKey"] != valid.access || h["Spas-Signature"] != signature(valid.secret, space, h["Timestamp"]) {
				return reply(strings.TrimSuffix(kind, "Request")+"Response", no(codeForbidden, "signature does not match"))
			}
			return nil, nil
		}
		f := follow(t, source(t, s.client(t), "d", Credentials(k)))
		wait(time.Minute)
		if last, _ := f.now(); last != 1 || f.Status().LastError != nil {
			t.Fatalf("at %d: %v", last, f.Status().LastError)
		}
		valid.mu.Lock()
		valid.access, valid.secret = "key-2", "secret-2"
		valid.mu.Unlock()
		s.put(at("d"), numbered(2))
		wait(time.Minute)
		if st := f.Status(); !errors.Is(st.LastError, ErrDenied) || strings.Contains(st.LastError.Error(), "secret-") {
			t.Errorf("%v", st.LastError)
		}
		k.mu.Lock()
		k.access, k.secret = "key-2", "secret-2"
		k.mu.Unlock()
		wait(time.Minute)
		if last, _ := f.now(); last != 2 || f.Status().LastError != nil {
			t.Errorf("at %d: %v", last, f.Status().LastError)
		}
	})
}

// Two notifications at once, while reads still give old texts, as another server of a cluster may: the
// comparisons bring the newest although the store is silent from then on. (Checksums have no order, so that until then an old text
// counts as any other.)
//
// faults: F081
func TestTwoNotificationsAtOnceWithOldAndNewText(t *testing.T) {
	for _, stale := range []int{1, 2, 3} {
		t.Run(fmt.Sprint("stale=", stale), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.put(at("d"), numbered(1))
				f := follow(t, source(t, s.client(t), "d"))
				wait(time.Second)
				texts := []string{numbered(2), numbered(1), numbered(2)}[:stale]
				s.answered = func(kind string, _ place) (*pb.Payload, error) {
					if kind != typeQuery || len(texts) == 0 {
						return nil, nil
					}
					text := texts[0]
					texts = texts[1:]
					return reply(typeQueryAnswer, queryAnswer{answer: yes, Content: text, MD5: sum([]byte(text))})
				}
				s.put(at("d"), numbered(2))
				s.put(at("d"), numbered(3))
				wait(time.Duration(stale) * DefaultCompare) // each comparison reads once
				if last, _ := f.now(); last != 3 {
					t.Errorf("at %d: %v", last, f.Status().LastError)
				}
			})
		})
	}
}

// A server that finds a document in whatever letter case its namespace is asked for, and notifies of the right one only,
// as a server on a database that does not tell them apart: edits come with the relist, and the status says by which way.
//
// faults: F082
func TestNamespaceInAnotherLetterCase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		s.answered = func(kind string, k place) (*pb.Payload, error) {
			switch kind {
			case typeListen:
				return reply(typeListenAnswer, listenAnswer{answer: yes})
			case typeQuery:
				k.Tenant = strings.ToLower(k.Tenant)
				text := s.docs[k]
				return reply(typeQueryAnswer, queryAnswer{answer: yes, Content: text, MD5: sum([]byte(text))})
			}
			return nil, nil
		}
		c := s.client(t, func(c *constant.ClientConfig) { c.NamespaceId = "Orders-Dev" })
		f := follow(t, source(t, c, "d"), datasource.Relist(time.Minute))
		s.put(at("d"), numbered(2))
		wait(90 * time.Second)
		last, _ := f.now()
		if st := f.Status(); last != 2 || st.LastChannel != "read" || !strings.Contains(st.SourceID, "Orders-Dev") {
			t.Errorf("at %d, by %s, %s", last, st.LastChannel, st.SourceID)
		}
	})
}

// The server is killed ten times while numbered writes go on, each time in the middle of one, and says "starting" for a
// while: what was acknowledged is never undone, and the last number gets into force.
//
// faults: F080 F164
func TestTenKillsDuringNumberedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		c := s.client(t)
		f, k := follow(t, source(t, c, "d")), sink(t, c, "d")
		now, err := k.Read(t.Context())
		must(t, err)
		sure, sent := 1, 1
		for i := range 10 {
			for range 5 {
				sent++
				now, err = k.Write(t.Context(), []byte(numbered(sent)), now.Revision)
				if err != nil {
					t.Fatalf("kill %d: %v", i, err)
				}
				sure = sent
			}
			s.set(func() { s.lose = func() (bool, bool) { return i%2 == 0, true } }) // done or not: nobody hears of it
			sent++
			go func() {
				s.rpc.cut(true)
				time.Sleep(3 * time.Second)
				s.set(func() { s.starting = true })
				s.rpc.cut(false)
				time.Sleep(2 * time.Second)
				s.set(func() { s.starting = false })
			}()
			if doc, err := k.Write(t.Context(), []byte(numbered(sent)), now.Revision); err == nil {
				now, sure = doc, sent
			}
			wait(10 * time.Second)
			s.set(func() { s.lose = nil }) // the write may have met a connection that was cut already
			now, err = k.Read(t.Context())
			must(t, err)
			var n int
			if _, err := fmt.Sscanf(string(now.Data), `[{"resource":"n","count":%d}]`, &n); err != nil || n < sure || n > sent {
				t.Fatalf("kill %d: the store has %s; acknowledged %d, sent %d", i, now.Data, sure, sent)
			}
			sure = n
		}
		wait(datasource.DefaultMaxBackoff + DefaultCompare) // as long as the engine may take after ten kills in a row
		if last, _ := f.now(); last != sure {
			t.Errorf("at %d, the store at %d: %v", last, sure, f.Status().LastError)
		}
	})
}

// Ten idle minutes of two hundred documents, counted at the server: one comparison each ten seconds for all of them, one
// read of each per relist, and no sign of life while anything else is answered.
//
// faults: F121
func TestIdleRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(t)
		const documents = 200
		for i := range documents {
			s.put(at(fmt.Sprint("d", i)), numbered(1))
			follow(t, source(t, c, fmt.Sprint("d", i)), datasource.Relist(datasource.DefaultRelist))
		}
		wait(time.Minute)
		before := map[string]int{}
		kinds := []string{typeListen, typeQuery, typeHealth, typeServerCheck, typePublish, typeRemove}
		for _, kind := range kinds {
			before[kind] = s.count(kind)
		}
		wait(10 * time.Minute)
		total := 0
		for _, kind := range kinds {
			n := s.count(kind) - before[kind]
			total += n
			t.Logf("%s: %d", kind, n)
			limit := map[string]int{typeListen: 61, typeQuery: 13 * documents, typeHealth: 120}[kind]
			if n > limit {
				t.Errorf("%s: %d, at most %d", kind, n, limit)
			}
		}
		t.Logf("%.2f requests for each document and minute", float64(total)/documents/10)
	})
}

// The server accepts a write and the connection breaks before it is seen to be served: the writer, who is told yes, reads
// what he wrote and nothing older.
//
// faults: F156
func TestAcknowledgedWriteIsServedAlthoughTheConnectionBroke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		k := sink(t, s.client(t), "d")
		doc, err := k.Write(t.Context(), []byte(numbered(2)), sum([]byte(numbered(1))))
		must(t, err)
		written := time.Now()
		const lag = 40 * time.Millisecond
		s.answered = func(kind string, _ place) (*pb.Payload, error) {
			switch _, done := s.docs[at("d")]; {
			case kind != typeQuery || !done || s.docs[at("d")] != numbered(3) || time.Since(written) >= lag:
				return nil, nil
			case time.Since(written) == 0:
				return nil, status.Error(codes.Unavailable, "broken")
			}
			return reply(typeQueryAnswer, queryAnswer{answer: yes, Content: numbered(2), MD5: doc.Revision})
		}
		if _, err = k.Write(t.Context(), []byte(numbered(3)), doc.Revision); err != nil {
			t.Fatal(err)
		}
		now, err := k.Read(context.Background())
		if err != nil || string(now.Data) != numbered(3) {
			t.Errorf("the writer reads %s, %v", now.Data, err)
		}
	})
}

// signature is what a server that knows the secret computes.
func signature(secret, space, at string) string {
	text := at
	if space != "" {
		text = space + "+" + at
	}
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
