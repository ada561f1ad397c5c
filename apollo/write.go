package apollo

import (
	"context"
	"fmt"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// write is one write.
type write struct {
	*Sink
	text   string
	before *release // as served
	base   state    // as edited and released before
}

// do gives the document, or the revision that an error is about.
//
// The item is a register with which writers agree who releases, as in Fischer's algorithm: who finds it as it was released
// puts a text of its own into it, waits, and goes on only if that text is still there. Whoever had also found it clean has
// put its text by then, for an edit that takes longer than the wait is taken back, and whoever comes later sees ours and
// waits. So the last one to put is the only one to release, however long that takes: on a real server a release reads the
// items and is in the database some time later, and a look at the releases alone would let another in meanwhile.
func (w *write) do(ctx context.Context, expected string) (doc datasource.Document, revision string, err error) {
	if err := w.fits(w.text); err != nil {
		return doc, expected, err
	}
	done, err := w.turn(ctx)
	if err != nil {
		return doc, expected, err
	}
	defer done()
	if w.before, err = w.fetch(ctx); err != nil {
		return doc, expected, err
	}
	now, err := w.of(w.before)
	if err != nil {
		return doc, expected, err
	}
	if now.Revision != expected {
		return doc, now.Revision, conflict(expected, now)
	}
	if w.base, err = w.state(ctx); err != nil {
		return doc, expected, err
	}
	if err := w.isServed(ctx); err != nil {
		return doc, expected, err
	}
	if err := w.quiet(ctx); err != nil {
		return doc, expected, err
	}
	err = w.put(ctx)
	late := err != nil && !refused(err) || time.Since(w.base.asked) > w.settle // nobody waits for such an edit
	if err == nil {
		err = w.check(ctx)
	}
	if err != nil {
		_, taken := w.undo(ctx)
		if taken || late && w.tookAlong(ctx) {
			err = fmt.Errorf("%w: %v; and another writer's release took ours along", datasource.ErrUnknownOutcome, err)
		}
		return doc, expected, err
	}
	rel, err := w.publish(ctx)
	if err != nil {
		return doc, expected, err
	}
	if text, there := rel.Values[w.key]; !there || text != w.text {
		// Somebody edited the item between our look and our release. What we released is theirs.
		return doc, expected, fmt.Errorf("%w: the item was edited while it was released", datasource.ErrConflict)
	}
	w.keep(false)
	doc, err = w.served(ctx, rel)
	return doc, expected, err
}

// tookAlong says whether a rival that had looked before a late edit released it. Its release may have read our text before
// undo took that back, and then is in the database a little later.
func (w *write) tookAlong(ctx context.Context) bool {
	ctx, cancel := w.late(ctx)
	defer cancel()
	_ = sleep(ctx, min(w.settle, afterwards/2))
	now, err := w.editor.state(ctx, w.place())
	text, there := now.latest.Values[w.key]
	return err == nil && there && text == w.text && now.latest.ID != w.base.latest.ID
}

func (w *write) state(ctx context.Context) (state, error) {
	ctx, cancel := w.bound(ctx)
	defer cancel()
	return w.editor.state(ctx, w.place())
}

func (w *write) put(ctx context.Context) error {
	if i := w.base.item(w.key); i != nil && i.Value == w.text {
		return nil
	}
	w.keep(true)
	ctx, cancel := w.bound(ctx)
	defer cancel()
	return w.editor.put(ctx, w.place(), w.base, w.text)
}

// check sees, as late as can be and when every rival's edit must show, that the item is ours and all else as it was.
func (w *write) check(ctx context.Context) error {
	took := time.Since(w.base.asked)
	if err := sleep(ctx, w.settle); err != nil {
		return context.Cause(ctx)
	}
	if w.settle > 0 && took > w.settle {
		return fmt.Errorf("%w: the edit took %v, more than Settle's %v", datasource.ErrConflict, took.Round(time.Millisecond), w.settle)
	}
	now, err := w.state(ctx)
	if err != nil {
		return err
	}
	i := now.item(w.key)
	switch {
	case now.latest.ID != w.base.latest.ID:
		return errReleased
	case i == nil || i.Value != w.text:
		return fmt.Errorf("%w: the item was edited in the meantime", datasource.ErrConflict)
	}
	rivals, err := w.drafts(now)
	if len(rivals) > 0 {
		return fmt.Errorf("%w: another writer is at work on %q", datasource.ErrConflict, rivals[0].Key)
	}
	return err
}
