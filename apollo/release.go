package apollo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// isServed sees that what is released is what is served here; else a write would be over another document than the one
// expected.
func (w *write) isServed(ctx context.Context) error {
	if w.matches(w.before) {
		return nil
	}
	c := w.client
	if w.before.key != "" && !strings.EqualFold(w.before.cluster, c.cluster) {
		return fmt.Errorf("%w: cluster %q has no release of its own, that of cluster %q is served; release the namespace once", datasource.ErrUnsupported, c.cluster, w.before.cluster)
	}
	// How is it for an instance that no gray release means?
	plain, err := func() (*release, error) {
		ctx, cancel := w.bound(ctx)
		defer cancel()
		return c.release(ctx, w.space.name, url.Values{"ip": {"0.0.0.0"}}, nil)
	}()
	if err != nil {
		return err
	}
	now, err := w.fetch(ctx)
	if err != nil {
		return err
	}
	if now.key == w.before.key && now.key != plain.key {
		return fmt.Errorf("%w: a gray release is served to this instance; write from another one", datasource.ErrUnsupported)
	}
	return errReleased
}

func (w *write) matches(r *release) bool {
	latest := w.base.latest
	if r.key == "" || latest.ID == 0 {
		return r.key == "" && latest.ID == 0
	}
	if strings.Contains(r.key, "+") {
		// An associated namespace: the app's own release over that of the public namespace.
		for key, value := range latest.Values {
			if v, there := r.values[key]; !there || v != value {
				return false
			}
		}
		return true
	}
	return (latest.Key == "" || latest.Key == r.key) && maps.Equal(latest.Values, r.values)
}

// publish releases. Where no answer comes it finds out what happened.
func (w *write) publish(ctx context.Context) (published, error) {
	c := w.client
	c.mu.Lock()
	w.space.expecting = w.space.leg != nil
	c.mu.Unlock()
	actor := w.editor.user()
	if w.actor != nil {
		actor = w.actor(ctx)
	}
	title := "rulewire " + time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	rel, err := func() (published, error) {
		ctx, cancel := w.bound(ctx)
		defer cancel()
		return w.editor.publish(ctx, w.place(), title, clip("Rulewire, for "+actor))
	}()
	if err == nil {
		return rel, nil
	}
	if refused(err) {
		w.undo(ctx)
		return published{}, err
	}
	// With the item put back, a request that is still on its way can only release what is in force already.
	undone, _ := w.undo(ctx)
	ctx, cancel := w.late(ctx)
	defer cancel()
	// One that the server is at work on has read our text, and is in the database a little later.
	_ = sleep(ctx, min(w.settle, afterwards/2))
	now, lookErr := w.editor.state(ctx, w.place())
	text, there := now.latest.Values[w.key]
	switch {
	case lookErr != nil:
		return published{}, fmt.Errorf("%w: %w; and looking for the release: %w", datasource.ErrUnknownOutcome, err, lookErr)
	case now.latest.ID != w.base.latest.ID && there && text == w.text:
		return now.latest, nil
	case now.latest.ID == w.base.latest.ID && undone:
		return published{}, err
	}
	return published{}, fmt.Errorf("%w: %w", datasource.ErrUnknownOutcome, err)
}

// undo puts the item back to what is released, if it is still as we left it, so that nobody releases half a write. It
// looks again after that: what was released before took our text along, what comes later can't. taken: somebody did, and
// so the write took place.
func (w *write) undo(ctx context.Context) (undone, taken bool) {
	defer func() {
		if undone {
			w.keep(false)
		}
	}()
	ctx, cancel := w.late(ctx)
	defer cancel()
	ours, removed := w.text, false // what we left in the item
	for range 4 {
		now, err := w.editor.state(ctx, w.place())
		if err != nil {
			return false, taken
		}
		value, released := now.latest.Values[w.key]
		taken = released && value == w.text && now.latest.ID != w.base.latest.ID
		i := now.item(w.key)
		switch {
		case i == nil && !(removed && released), i != nil && (removed || i.Value != ours || i.ChangedBy != w.editor.user()):
			return true, taken // somebody else's by now
		case i != nil && released && i.Value == value:
			return true, taken
		case released:
			err = w.editor.put(ctx, w.place(), now, value)
			ours, removed = value, false
		default:
			err = w.editor.remove(ctx, w.place(), now)
			removed = true
		}
		if err != nil {
			return false, taken
		}
	}
	return false, taken // others release all the time
}

// served waits until the release is served, for before that no source sees it.
func (w *write) served(ctx context.Context, rel published) (datasource.Document, error) {
	ctx, cancel := w.bound(ctx)
	defer cancel()
	var last error
	for wait := firstLook; ; wait = min(2*wait, longestLook) {
		now, err := w.space.fetch(ctx)
		switch {
		case err != nil:
			last = err
		case now.key == w.before.key:
			last = errors.New("the config service serves the one before; where it is a gray release to this instance, that will not change")
		case now.values[w.key] == w.text && (rel.Key == "" || slices.Contains(strings.Split(now.key, "+"), rel.Key)):
			return w.of(now)
		default:
			// Somebody released right after us. No document will have this revision but with our text, so the next write
			// over it is a conflict.
			revision := rel.Key
			if revision == "" {
				revision = "release " + strconv.FormatInt(rel.ID, 10)
			}
			return datasource.Document{Presence: datasource.Present, Data: []byte(w.text), Revision: revision}, nil
		}
		if sleep(ctx, wait) != nil {
			return datasource.Document{}, fmt.Errorf("%w: released, but not seen: %w", datasource.ErrUnknownOutcome, last)
		}
	}
}
