package redistest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/redis"
	"github.com/rulewire/rulewire/testcontainers/internal/trial"
	"github.com/rulewire/rulewire/testcontainers/redistest"
)

// ill is what the trials have in common.
func ill(t *testing.T, s *redistest.Server, name, key string, change func(*goredis.Options)) trial.Ill {
	t.Helper()
	o := once(s.Options())
	if change != nil {
		change(o)
	}
	sent := new(requests)
	c := goredis.NewClient(o)
	c.AddHook(sent)
	t.Cleanup(func() { _ = c.Close() })
	src, err := redis.NewSource(c, key)
	must(t, err)
	return trial.Ill{
		Name: name, Source: src, Requests: sent.count,
		Put: func(data []byte) error { return s.Publish(context.Background(), key, key, data) },
	}
}

// faults: F019 F097 F111 F112 F116
func TestRefusedByTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.WithPassword("root password"))
	admin, ctx := s.Client(), context.Background()
	const secret = "correct horse"
	acl := func(user string, rules ...string) error { return admin.ACLSetUser(ctx, user, rules...).Err() }
	one := func(name, key string) trial.Ill {
		must(t, acl(key, "on", ">"+secret, "~*", "&*", "+@all"))
		return ill(t, s, name, key, func(o *goredis.Options) { o.Username, o.Password = key, secret })
	}

	list := one("a list at the key", "list")
	list.Begin = func() error {
		return errors.Join(admin.Del(ctx, "list").Err(), admin.RPush(ctx, "list", "a", "b").Err())
	}
	list.End = func() error { return nil } // the write replaces it
	list.Says = func(err error) bool { return errors.Is(err, redis.ErrWrongType) }

	permission := one("no permission", "allowed")
	permission.Begin = func() error { return acl("allowed", "resetkeys") }
	permission.End = func() error { return acl("allowed", "~*") }
	permission.Says = func(err error) bool { return errors.Is(err, datasource.ErrDenied) && goredis.IsPermissionError(err) }

	channel := one("no permission for the channel", "channel")
	channel.Begin = func() error { return acl("channel", "resetchannels") } // the server also cuts the subscription
	channel.End = func() error { return acl("channel", "&*") }
	channel.Says = permission.Says

	// The server cuts the connections of a user whose password changes only if it is told to.
	password := one("wrong password", "known")
	password.Begin = func() error {
		return errors.Join(acl("known", "resetpass", ">another"), admin.Do(ctx, "client", "kill", "user", "known").Err())
	}
	password.End = func() error { return acl("known", ">"+secret) }
	password.Says = func(err error) bool { return errors.Is(err, datasource.ErrDenied) && goredis.IsAuthError(err) }

	trial.Refused(t, list, permission, channel, password)
}

// The server's certificate is for another name than the one that was dialled.
//
// faults: F112 F116
func TestWrongNameOfTLS(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.WithTLS(false))
	var wrong atomic.Bool
	name := ill(t, s, "wrong name", "k", func(o *goredis.Options) {
		o.TLSConfig.VerifyConnection = func(state tls.ConnectionState) error {
			if wrong.Load() {
				return state.PeerCertificates[0].VerifyHostname("elsewhere.test")
			}
			return nil
		}
	})
	name.Begin = func() error { wrong.Store(true); s.Link().Reset(); return nil }
	name.End = func() error { wrong.Store(false); return nil }
	name.Says = func(err error) bool {
		var name x509.HostnameError
		return errors.As(err, &name) && name.Host == "elsewhere.test"
	}
	trial.Refused(t, name)
}
