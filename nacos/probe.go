package nacos

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"time"
)

const (
	// probeName begins the names of the documents by which a server is tried; see probe.
	probeName = "rulewire-cas-probe-"
	// probeCleanup bounds the removal of such a document.
	probeCleanup = 2 * time.Second
)

// probe finds out, once for each client, whether its servers compare checksums. Some that speak Nacos's protocol do not,
// and say yes to a write that should have failed. It tries on a document of its own, which it removes: a try on the
// user's own could overwrite somebody's edit.
type probe struct{ yes atomic.Bool }

func (p *probe) compares(ctx context.Context, c *conn, group string) (bool, error) {
	if p.yes.Load() {
		return true, nil
	}
	k := key{group: group, dataID: probeName + rand.Text()}
	publish := func(content, expected string) error {
		return c.call(ctx, k, typePublish, publishRequest{
			configRequest: configRequest{place: c.place(k), Module: "config"}, Content: content, CasMD5: expected,
			Additions: map[string]string{"type": "text"},
		}, "", new(answer))
	}
	if err := publish("1", ""); err != nil {
		return false, err
	}
	// Only a write that expects what is not there tells, and only where there is a document.
	refuses := func(content string) (bool, *ServerError, error) {
		var refusal *ServerError
		err := publish(content, emptySum)
		return errors.As(err, &refusal) && !errors.Is(err, ErrDenied), refusal, err
	}
	compares, refusal, err := refuses("2")
	if compares && !saysConflict(refusal) {
		// A database that is down for a moment refuses, too. What takes the right checksum and then refuses a wrong one
		// compares.
		if err = publish("3", sum([]byte("1"))); err == nil {
			compares, _, err = refuses("4")
		} else {
			compares = false
		}
	}
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeCleanup)
	defer cancel()
	removed := c.call(cleanup, k, typeRemove, configRequest{place: c.place(k), Module: "config"}, "", new(answer))
	switch {
	case compares:
		p.yes.Store(true)
		return true, nil
	case err != nil:
		return false, err
	}
	return false, removed
}
