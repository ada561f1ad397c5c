package nacos

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/common/security"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
)

// provider is one of the user's own, whose code may do what it likes.
type provider struct {
	security.RamCredentialProvider
	mu sync.Mutex
	do func()
}

func (p *provider) MatchProvider() bool { return true }
func (p *provider) Init() error         { return nil }
func (p *provider) GetCredentialsForNacosClient() security.RamContext {
	p.mu.Lock()
	do := p.do
	p.mu.Unlock()
	if do != nil {
		do()
	}
	return security.RamContext{AccessKey: "a", SecretKey: "s"}
}

func (p *provider) set(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.do = do
}

// What the connection asks for by itself comes on a goroutine of ours, where nobody else would catch the panic.
//
// faults: F025
func TestPanicOfAProviderIsAnErrorOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		p := &provider{}
		f := follow(t, source(t, s.client(t), "d", Credentials(p)))
		p.set(func() { panic("vault is sealed") })
		wait(time.Minute)
		if err := f.Status().LastError; err == nil || !strings.Contains(err.Error(), "vault is sealed") {
			t.Errorf("status says %v", err)
		}
		p.set(nil)
		s.put(at("d"), numbered(2))
		wait(time.Minute)
		if last, _ := f.now(); last != 2 || f.Status().LastError != nil {
			t.Errorf("at %d: %v", last, f.Status().LastError)
		}
	})
}

// The SDK's providers ask servers for keys and know no context: whoever waits for them must be free to leave.
//
// faults: F147
func TestProviderThatHangsHoldsUpNeitherCloseNorTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(at("d"), numbered(1))
		open := make(chan struct{})
		p := &provider{do: func() { <-open }}
		c := s.client(t)
		src := source(t, c, "d", Credentials(p), Timeout(2*time.Second))
		begin := time.Now()
		if _, err := src.Read(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 3*time.Second {
			t.Errorf("Read: %v after %v", err, time.Since(begin))
		}
		r, err := datasource.New(src, converter.JSON[rule.Flow](),
			property.ListenerFunc[[]rule.Flow](func(context.Context, []rule.Flow) error { return nil }), datasource.Logger(nil))
		must(t, err)
		started := make(chan error, 1)
		go func() { started <- r.Start(context.Background()) }()
		wait(100 * time.Millisecond)
		begin = time.Now()
		if err := r.Close(); err != nil || time.Since(begin) > time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(begin))
		}
		<-started
		close(open)
		wait(time.Second)
		if doc, err := src.Read(t.Context()); err != nil || string(doc.Data) != numbered(1) {
			t.Errorf("Read: %v, %v", doc, err)
		}
	})
}
