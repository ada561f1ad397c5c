package etcdtest

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/etcd"
	"github.com/rulewire/rulewire/testcontainers/internal/trial"
)

// ill is what the trials of one server have in common.
func ill(t *testing.T, s *Server, name, key string, change func(*clientv3.Config)) trial.Ill {
	t.Helper()
	w := &wire{}
	c := client(t, s, func(config *clientv3.Config) {
		config.DialOptions = w.options()
		if change != nil {
			change(config)
		}
	})
	src, err := etcd.NewSource(c, key)
	must(t, err)
	return trial.Ill{
		Name: name, Source: src, Requests: w.count,
		Put: func(data []byte) error { return s.Put(context.Background(), key, data) },
	}
}

// faults: F111 F112 F116
func TestRefusedByTheServer(t *testing.T) {
	t.Parallel()
	s := Run(t, WithArgs("--bcrypt-cost=4"))
	must(t, s.EnableAuth(t.Context(), "root", "root password"))
	admin := s.Client()
	const secret = "correct horse"
	one := func(name, key string) trial.Ill {
		_, err := admin.RoleAdd(t.Context(), key)
		must(t, err)
		_, err = admin.RoleGrantPermission(t.Context(), key, key, "", clientv3.PermissionType(clientv3.PermRead))
		must(t, err)
		_, err = admin.UserAdd(t.Context(), key, secret)
		must(t, err)
		_, err = admin.UserGrantRole(t.Context(), key, key)
		must(t, err)
		return ill(t, s, name, key, func(c *clientv3.Config) { c.Username, c.Password = key, secret })
	}
	ctx := context.Background()

	permission := one("no permission", "allowed")
	permission.Begin = func() error { _, err := admin.RoleRevokePermission(ctx, "allowed", "allowed", ""); return err }
	permission.End = func() error {
		_, err := admin.RoleGrantPermission(ctx, "allowed", "allowed", "", clientv3.PermissionType(clientv3.PermRead))
		return err
	}
	permission.Says = func(err error) bool {
		return errors.Is(err, datasource.ErrDenied) && errors.Is(err, rpctypes.ErrPermissionDenied)
	}

	password := one("wrong password", "known")
	password.Begin = func() error { _, err := admin.UserChangePassword(ctx, "known", "another"); return err }
	password.End = func() error { _, err := admin.UserChangePassword(ctx, "known", secret); return err }
	password.Says = func(err error) bool {
		return errors.Is(err, datasource.ErrDenied) && errors.Is(err, rpctypes.ErrAuthFailed)
	}

	trial.Refused(t, permission, password)
}

// The server's certificate is for another name than the one that was dialled.
//
// faults: F112 F116
func TestWrongNameOfTLS(t *testing.T) {
	t.Parallel()
	s := Run(t, WithTLS(false))
	var wrong atomic.Bool
	name := ill(t, s, "wrong name", "k", func(c *clientv3.Config) {
		c.TLS.VerifyConnection = func(state tls.ConnectionState) error {
			if wrong.Load() {
				return state.PeerCertificates[0].VerifyHostname("elsewhere.test")
			}
			return nil
		}
	})
	name.Begin = func() error { wrong.Store(true); s.Link().Reset(); return nil }
	name.End = func() error { wrong.Store(false); return nil }
	name.Says = func(err error) bool { // gRPC makes a text of it
		return err != nil && strings.Contains(err.Error(), "x509") && strings.Contains(err.Error(), "elsewhere.test")
	}
	trial.Refused(t, name)
}
