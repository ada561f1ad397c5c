package apollo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// quiet waits until no other writer is at work in the namespace.
func (w *write) quiet(ctx context.Context) error {
	for {
		rivals, err := w.drafts(w.base)
		if err != nil {
			// Unless it was read in the middle of somebody's release.
			if again, e := w.state(ctx); e == nil && again.latest.ID != w.base.latest.ID {
				return errReleased
			}
			return err
		}
		if stays := w.space.stays(rivals); stays >= leftAfter && len(rivals) > 0 {
			if len(rivals) == 1 && rivals[0].Key == w.key {
				return nil // left behind; it is ours to overwrite
			}
			return draftError(rivals)
		}
		if len(rivals) == 0 {
			return nil
		}
		latest := w.base.latest.ID
		if err = sleep(ctx, lookAgain); err == nil {
			w.base, err = w.state(ctx)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: another writer is at work on %q", datasource.ErrConflict, rivals[0].Key)
		}
		if err != nil {
			return err
		}
		if w.base.latest.ID != latest {
			return errReleased
		}
	}
}

// await lets writers that are at work come to their end. Else one that writes all the time would win all the time, for a
// write lasts longer than what is between two.
func (w *write) await(ctx context.Context) error {
	done, err := w.turn(ctx)
	if err != nil {
		return err
	}
	done()
	if !w.space.isContended() {
		return nil
	}
	latest := int64(-1)
	for {
		now, err := w.state(ctx)
		if err != nil || latest >= 0 && now.latest.ID != latest {
			return nil // the read will tell
		}
		rivals, err := w.drafts(now)
		if stays := w.space.stays(rivals); err != nil || len(rivals) == 0 || stays >= leftAfter || sleep(ctx, lookAgain) != nil {
			return nil
		}
		latest = now.latest.ID
	}
}

var errReleased = fmt.Errorf("%w: the namespace was released in the meantime", datasource.ErrConflict)

// drafts finds edits that a release would take along: those of other sinks of our user, and as an error those of others.
// What this client left behind in its own item is neither.
func (w *write) drafts(s state) (rivals []item, err error) {
	var others []item
	for _, i := range s.items {
		value, released := s.latest.Values[i.Key]
		switch {
		case i.Key == "": // a comment or a blank line
		case released && value == i.Value:
		case i.Key == w.key && i.ChangedBy == w.editor.user() && (i.Value == w.text || w.left(i.Value)):
		case i.ChangedBy == w.editor.user():
			rivals = append(rivals, i)
		default:
			others = append(others, i)
		}
	}
	for key := range s.latest.Values {
		if s.item(key) == nil {
			others = append(others, item{Key: key})
		}
	}
	if len(others) == 0 {
		return rivals, nil
	}
	return nil, draftError(append(others, rivals...))
}

func draftError(drafts []item) error {
	var found []string
	for _, i := range drafts {
		if i.ChangedBy == "" {
			found = append(found, fmt.Sprintf("%q deleted", i.Key))
		} else {
			found = append(found, fmt.Sprintf("%q by %q", i.Key, i.ChangedBy))
		}
	}
	slices.Sort(found)
	if more := len(found) - 3; more > 0 {
		found = append(found[:3], fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("%w: %s", ErrDraft, strings.Join(found, ", "))
}

// stays gives how long the same edits of other sinks have been there, over all writes of this client.
func (n *namespace) stays(rivals []item) time.Duration {
	c := n.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); !slices.Equal(n.rivals, rivals) {
		n.rivals, n.since = rivals, now
	}
	return time.Since(n.since)
}

// keep notes what this client has in the item without it being released; left tells it from what others have there.
func (w *write) keep(there bool) {
	c := w.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(w.space.drafts, w.key); there {
		w.space.drafts[w.key] = w.text
	}
}

func (w *write) left(text string) bool {
	c := w.client
	c.mu.Lock()
	defer c.mu.Unlock()
	ours, there := w.space.drafts[w.key]
	return there && ours == text
}

func (n *namespace) contend(conflict bool) {
	n.client.mu.Lock()
	defer n.client.mu.Unlock()
	if n.contended = (time.Time{}); conflict {
		n.contended = time.Now()
	}
}

func (n *namespace) isContended() bool {
	n.client.mu.Lock()
	defer n.client.mu.Unlock()
	return time.Since(n.contended) < contendedFor
}
