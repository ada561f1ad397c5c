package consultest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/rulewire/rulewire/consul"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/testcontainers/internal/trial"
)

// ill is what the trials have in common.
func ill(t *testing.T, s *Server, name, key string, verify *tls.Config, options ...consul.Option) trial.Ill {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: verify}
	t.Cleanup(transport.CloseIdleConnections)
	sent := new(atomic.Int64)
	config := &api.Config{Address: s.Addr(), HttpClient: &http.Client{Transport: counting{transport, sent}}}
	if verify != nil {
		config.Scheme = "https"
	}
	c, err := api.NewClient(config)
	must(t, err)
	src, err := consul.NewSource(c, key, options...)
	must(t, err)
	return trial.Ill{
		Name: name, Source: src, Requests: func() int { return int(sent.Load()) },
		Put: func(data []byte) error { return s.Put(context.Background(), key, data) },
	}
}

// faults: F111 F112 F116 F117
func TestRefusedByTheServer(t *testing.T) {
	t.Parallel()
	s := Run(t, WithToken("5b1b1c0e-7a0f-4f3e-9d2a-0d8f5f7c1a11"))
	token := func(policy, rules string) string {
		_, _, err := s.Client().ACL().PolicyCreate(&api.ACLPolicy{Name: policy, Rules: rules}, nil)
		must(t, err)
		token, _, err := s.Client().ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{Name: policy}}}, nil)
		must(t, err)
		return token.SecretID
	}
	good, stranger := token("good", `key "allowed" { policy = "read" } key "known" { policy = "read" }`), token("stranger", `key "other" { policy = "read" }`)
	one := func(name, key, bad, says string) trial.Ill {
		var refused atomic.Bool
		i := ill(t, s, name, key, nil, consul.Token(func(context.Context) (string, error) {
			if refused.Load() {
				return bad, nil
			}
			return good, nil
		}))
		i.Begin = func() error { refused.Store(true); s.Link().Reset(); return nil } // what blocks is asked again
		i.End = func() error { refused.Store(false); return nil }
		i.Says = func(err error) bool {
			var status api.StatusError
			return errors.Is(err, datasource.ErrDenied) && errors.As(err, &status) && status.Code == http.StatusForbidden && strings.Contains(err.Error(), says)
		}
		return i
	}
	trial.Refused(t, one("no permission", "allowed", stranger, "Permission denied"),
		one("unknown token", "known", "11111111-2222-3333-4444-555555555555", "ACL not found"))
}

// The server's certificate is for another name than the one that was dialled.
//
// faults: F112 F116
func TestWrongNameOfTLS(t *testing.T) {
	t.Parallel()
	s := Run(t, WithTLS(false))
	var wrong atomic.Bool
	config := s.TLS()
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if wrong.Load() {
			return state.PeerCertificates[0].VerifyHostname("elsewhere.test")
		}
		return nil
	}
	name := ill(t, s, "wrong name", "k", config)
	name.Begin = func() error { wrong.Store(true); s.Link().Reset(); return nil }
	name.End = func() error { wrong.Store(false); return nil }
	name.Says = func(err error) bool {
		var name x509.HostnameError
		return errors.As(err, &name) && name.Host == "elsewhere.test"
	}
	trial.Refused(t, name)
}
