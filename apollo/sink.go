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
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/writable"
)

// ErrDraft means that the namespace has edits that were not released yet. A release takes all of a namespace, so they
// would come into force with ours. Nothing was written; somebody has to release or revert them in the portal.
var ErrDraft = errors.New("the namespace has unreleased edits")

const (
	// afterwards is what a write may take beyond its context, to take back what it began.
	afterwards = 400 * time.Millisecond
	// firstLook and longestLook are between two looks whether a release is served.
	firstLook, longestLook = 10 * time.Millisecond, 500 * time.Millisecond
	// commentLimit is that of a release's comment, characters.
	commentLimit = 256
)

var _ writable.Sink = (*Sink)(nil)

// Sink writes one document: it edits the item and releases the namespace. Its methods may be called from any goroutine.
type Sink struct {
	document
	editor Editor
}

// NewSink makes a sink of the document that stands in namespace under key, which edits and releases through editor. It
// does no I/O. The client is borrowed; the editor's requests use its http.Client.
func NewSink(client *Client, editor Editor, namespace, key string, options ...Option) (*Sink, error) {
	d, err := newDocument(client, namespace, key, true, options)
	if err != nil {
		return nil, err
	}
	if editor == nil {
		return nil, errors.New("apollo: editor is nil")
	}
	if err := editor.check(); err != nil {
		return nil, fmt.Errorf("apollo: %w", err)
	}
	return &Sink{d, editor}, nil
}

// ID is that of the Source of the same document.
func (s *Sink) ID() string { return s.id }

// Read reads the document as the config service serves it to this instance.
func (s *Sink) Read(ctx context.Context) (datasource.Document, error) {
	rel, err := s.fetch(ctx)
	if err != nil {
		return datasource.Document{}, s.fail("read", "", err)
	}
	doc, err := s.of(rel)
	if err != nil {
		return datasource.Document{}, s.fail("read", "", err)
	}
	return doc, nil
}

// Write replaces the document if its revision is expected. Apollo has no compare-and-set; the package comment says what
// is done instead and what window is left.
func (s *Sink) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	w := write{Sink: s, text: string(data)}
	doc, revision, err := w.do(ctx, expected)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return datasource.Document{}, s.fail("write", revision, err)
	}
	return doc, nil
}

func (s *Sink) fail(op, revision string, err error) error {
	return &datasource.Error{Op: op, SourceID: s.id, Revision: revision, Err: err}
}

func (s *Sink) fits(data string) error {
	switch n := len(utf16.Encode([]rune(data))); {
	case len(data) > s.maxBytes:
		return fmt.Errorf("%w: %d bytes, the limit is %d", datasource.ErrTooLarge, len(data), s.maxBytes)
	case n > s.maxChars:
		return fmt.Errorf("%w: %d characters, the limit is %d", datasource.ErrTooLarge, n, s.maxChars)
	case !utf8.ValidString(data):
		return fmt.Errorf("%w: the document is not UTF-8, and Apollo keeps text", datasource.ErrUnsupported)
	}
	return nil
}

// turn lets the writes of this client to one namespace pass one by one.
func (s *Sink) turn(ctx context.Context) (release func(), err error) {
	c := s.client
	c.mu.Lock()
	turn := c.writes[s.space.name]
	if turn == nil {
		turn = make(chan struct{}, 1)
		c.writes[s.space.name] = turn
	}
	c.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// write is one write.
type write struct {
	*Sink
	text   string
	before *release // as served
	base   state    // as edited and released before
}

// do gives the document, or the revision that an error is about.
//
// The item is a register: a sink puts its own text into it, sees that it is still there and that nobody has released
// since, and releases. Two that do so over one release are never both told yes: the second release would have to hold a
// text that was put after the first, and whoever put it sees the first. But a release asks for no condition. One that
// hangs between its sender's look and the server publishes whatever the item holds by then, and that may be the text of a
// third writer, who was about to stand back. Then nobody is told a wrong yes, and the third is told that it happened.
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
	if err := w.drafts(w.base); err != nil {
		// Unless it was read in the middle of somebody's release.
		if again, e := w.state(ctx); e == nil && again.latest.ID != w.base.latest.ID {
			err = fmt.Errorf("%w: the namespace was released in the meantime", datasource.ErrConflict)
		}
		return doc, expected, err
	}
	if err := w.put(ctx); err != nil {
		w.undo(ctx)
		return doc, expected, err
	}
	if err := w.check(ctx); err != nil {
		if _, taken := w.undo(ctx); taken {
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
	doc, err = w.served(ctx, rel)
	return doc, expected, err
}

func (w *write) state(ctx context.Context) (state, error) {
	ctx, cancel := w.bound(ctx)
	defer cancel()
	return w.editor.state(ctx, w.place())
}

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
	return fmt.Errorf("%w: the namespace was released in the meantime", datasource.ErrConflict)
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

// drafts finds edits that a release would take along. One of our own user's in our own item is what a write of ours
// left behind.
func (w *write) drafts(s state) error {
	var found []string
	for _, i := range s.items {
		value, released := s.latest.Values[i.Key]
		switch {
		case i.Key == "": // a comment or a blank line
		case released && value == i.Value:
		case i.Key == w.key && i.ChangedBy == w.editor.user():
		default:
			found = append(found, fmt.Sprintf("%q by %q", i.Key, i.ChangedBy))
		}
	}
	for key := range s.latest.Values {
		if s.item(key) == nil {
			found = append(found, fmt.Sprintf("%q deleted", key))
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	if more := len(found) - 3; more > 0 {
		found = append(found[:3], fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("%w: %s", ErrDraft, strings.Join(found, ", "))
}

func (w *write) put(ctx context.Context) error {
	if i := w.base.item(w.key); i != nil && i.Value == w.text {
		return nil
	}
	ctx, cancel := w.bound(ctx)
	defer cancel()
	return w.editor.put(ctx, w.place(), w.base, w.text)
}

// check sees, as late as can be, that the item is ours and all else as it was.
func (w *write) check(ctx context.Context) error {
	now, err := w.state(ctx)
	if err != nil {
		return err
	}
	i := now.item(w.key)
	switch {
	case now.latest.ID != w.base.latest.ID:
		return fmt.Errorf("%w: the namespace was released in the meantime", datasource.ErrConflict)
	case i == nil || i.Value != w.text:
		return fmt.Errorf("%w: the item was edited in the meantime", datasource.ErrConflict)
	}
	return w.drafts(now)
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

// late is a context for what must be tried although the write's has ended, or is about to.
func (d *document) late(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.timeout)
	stop := context.AfterFunc(ctx, func() {
		_ = sleep(late, afterwards)
		cancel()
	})
	return late, func() {
		stop()
		cancel()
	}
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

// clip keeps a comment within the store's limit.
func clip(text string) string {
	r := []rune(strings.ToValidUTF8(text, "\ufffd"))
	return string(r[:min(len(r), commentLimit/2)]) // a rune may count twice
}

func conflict(expected string, now datasource.Document) error {
	return fmt.Errorf("%w: expected revision %q, the document is %s", datasource.ErrConflict, expected, now.Presence)
}
