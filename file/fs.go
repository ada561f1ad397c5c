package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/rulewire/rulewire/datasource"
)

// FSSource reads one rule document from an fs.FS, such as rules embedded in the program. It can't be watched: the engine
// reads it each interval.
type FSSource struct {
	fsys     fs.FS
	name     string
	maxBytes int64
}

var _ datasource.Source = (*FSSource)(nil)

// NewFSSource makes a source for the file name in fsys; name is slash-separated, as fs.ValidPath wants it.
func NewFSSource(fsys fs.FS, name string, opts ...FSOption) (*FSSource, error) {
	if fsys == nil {
		return nil, errors.New("file: no file system")
	}
	if !fs.ValidPath(name) || name == "." {
		return nil, fmt.Errorf("file: %q is not a name in a file system", name)
	}
	c := fsConfig{maxBytes: DefaultMaxBytes}
	for _, o := range opts {
		if o == nil {
			return nil, errNilOption
		}
		if err := o.applyFS(&c); err != nil {
			return nil, err
		}
	}
	return &FSSource{fsys: fsys, name: name, maxBytes: c.maxBytes}, nil
}

// ID is "fs:" and the name.
func (s *FSSource) ID() string { return "fs:" + s.name }

// Read gives the document.
func (s *FSSource) Read(ctx context.Context) (datasource.Document, error) {
	if err := ctx.Err(); err != nil {
		return datasource.Document{}, err
	}
	f, err := s.fsys.Open(s.name)
	if errors.Is(err, fs.ErrNotExist) {
		return datasource.Document{Presence: datasource.Missing}, nil
	}
	if err != nil {
		return datasource.Document{}, explain(err)
	}
	defer func() { _ = f.Close() }() // only read: nothing to lose
	if info, err := f.Stat(); err != nil {
		return datasource.Document{}, explain(err)
	} else if !info.Mode().IsRegular() {
		return datasource.Document{}, fmt.Errorf("%s is not a regular file (%s)", s.name, info.Mode().Type())
	}
	data, err := io.ReadAll(io.LimitReader(f, s.maxBytes+1))
	if err != nil {
		return datasource.Document{}, explain(err)
	}
	if int64(len(data)) > s.maxBytes {
		return datasource.Document{}, fmt.Errorf("%w: %s has more than %d bytes", datasource.ErrTooLarge, s.name, s.maxBytes)
	}
	return datasource.Document{Presence: datasource.Present, Data: data, Revision: revision(data)}, nil
}
