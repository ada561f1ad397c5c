package apollo

import (
	"context"
	"errors"
	"fmt"
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
	// leftAfter is when another sink's edit is taken for one that was left behind. A write that lives waits less; the limit
	// is below writable.DefaultTimeout, so that one write waits it out.
	leftAfter = 4 * time.Second
	// contendedFor is for how long after a conflict reads look whether another writer is at work.
	contendedFor = 30 * time.Second
	// lookAgain is between two looks whether it still is.
	lookAgain = 50 * time.Millisecond
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

// Read reads the document as the config service serves it to this instance. It waits for a write of this client that is
// under way, and after a conflict for those of others: what is read meanwhile could not be written over.
func (s *Sink) Read(ctx context.Context) (datasource.Document, error) {
	w := write{Sink: s}
	if err := w.await(ctx); err != nil {
		return datasource.Document{}, s.fail("read", "", err)
	}
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
		s.space.contend(errors.Is(err, datasource.ErrConflict))
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return datasource.Document{}, s.fail("write", revision, err)
	}
	s.space.contend(false)
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
	select {
	case s.space.turn <- struct{}{}:
		return func() { <-s.space.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
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
