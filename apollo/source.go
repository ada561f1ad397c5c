package apollo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// Content is the key of the document in a namespace that is one document: .json, .yaml, .yml, .txt, .xml.
const Content = "content"

const (
	properties = ".properties"
	// inspectEvery is how often an editor is asked why nothing is released.
	inspectEvery = time.Hour
)

var _ datasource.Watcher = (*Source)(nil)

// Source reads and watches one document: a key of a namespace. Its methods may be called from any goroutine.
type Source struct {
	document

	mu        sync.Mutex
	from      *release            // of the last good read
	last      datasource.Document // what it gave
	held      bool                // the key was there once
	finding   string              // why nothing is released, as the editor says
	inspected time.Time
}

// NewSource makes a source of the document that stands in namespace under key; in a namespace with a format other than
// properties, the key is Content. It does no I/O. The client is borrowed.
func NewSource(client *Client, namespace, key string, options ...Option) (*Source, error) {
	d, err := newDocument(client, namespace, key, false, options)
	if err != nil {
		return nil, err
	}
	return &Source{document: d}, nil
}

// ID is "apollo:" with app id, cluster, namespace and key.
func (s *Source) ID() string { return s.id }

// Note says what a status should show: that changes come by poll only, why nothing is released, that the key is missing
// or was deleted, that another cluster's release is served, that the document was encoded twice. It is empty when all is
// well.
func (s *Source) Note() string {
	var notes []string
	if note := s.space.note(); note != "" {
		notes = append(notes, note)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.client
	switch r := s.from; {
	case r == nil:
	case r.key == "" && s.finding != "":
		notes = append(notes, s.finding)
	case r.key == "":
		notes = append(notes, fmt.Sprintf("nothing is released: namespace %q was never released, or app id %q, cluster %q or the namespace does not exist",
			s.space.name, c.app, c.cluster))
	case s.last.Presence == datasource.Missing && s.held:
		notes = append(notes, fmt.Sprintf("key %q was deleted; release %s does not have it", s.key, r.key))
	case s.last.Presence == datasource.Missing:
		notes = append(notes, fmt.Sprintf("release %s has no key %q", r.key, s.key))
	case twice(s.last.Data):
		notes = append(notes, "the document is a JSON text within quotes: it was encoded twice")
	}
	if r := s.from; r != nil && r.key != "" && !strings.EqualFold(r.cluster, c.cluster) {
		notes = append(notes, fmt.Sprintf("cluster %q has no release of its own; that of cluster %q is served", c.cluster, r.cluster))
	}
	return strings.Join(notes, "; ")
}

// Read gives the document as the config service serves it to this instance.
func (s *Source) Read(ctx context.Context) (datasource.Document, error) {
	rel, err := s.fetch(ctx)
	if err != nil {
		return datasource.Document{}, err
	}
	s.mu.Lock()
	if s.from == rel {
		defer s.mu.Unlock()
		return s.last, nil
	}
	s.mu.Unlock()
	doc, err := s.of(rel)
	if err != nil {
		return datasource.Document{}, err
	}
	if rel.key == "" {
		s.why(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.last = rel, doc
	s.held = s.held || doc.Presence == datasource.Present
	return doc, nil
}

// why asks the editor, if there is one, why the config service knows no release.
func (s *Source) why(ctx context.Context) {
	s.mu.Lock()
	again := s.inspect != nil && (s.from == nil || s.from.key != "" || time.Since(s.inspected) > inspectEvery)
	s.mu.Unlock()
	if !again {
		return
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	_, err := s.inspect.state(ctx, s.place())
	finding := ""
	switch {
	case errors.Is(err, ErrNoNamespace):
		finding = err.Error()
	case err == nil:
		finding = fmt.Sprintf("namespace %q exists, and was never released", s.space.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finding, s.inspected = finding, time.Now()
}

// Watch delivers a hint for each release of the namespace, and when a broken connection comes to light. It ends with ctx
// and with the client. A poll that fails does not end it, for nothing can be lost between two polls.
func (s *Source) Watch(ctx context.Context, _ datasource.Document, deliver func(datasource.Document)) error {
	m, err := s.space.join(deliver)
	if err != nil {
		return err
	}
	defer m.leave()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.client.ctx.Done():
		return errClosed
	}
}
