package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/internal/atomicfile"
	"github.com/rulewire/rulewire/writable"
)

// Sink writes one rule document to a file, compare-and-set on the hash of its content. Its methods may be called from
// any goroutine.
type Sink struct {
	id     string
	reader reader
	sinkConfig
}

var _ writable.Sink = (*Sink)(nil)

// NewSink makes a sink for the file at path, which need not exist yet. It writes nothing.
func NewSink(path string, opts ...SinkOption) (*Sink, error) {
	c := sinkConfig{maxBytes: DefaultMaxBytes, mode: DefaultMode}
	for _, o := range opts {
		if o == nil {
			return nil, errNilOption
		}
		if err := o.applySink(&c); err != nil {
			return nil, err
		}
	}
	abs, id, err := locate(path)
	if err != nil {
		return nil, err
	}
	r := reader{disk: realDisk{}, path: abs, maxBytes: c.maxBytes, grace: DefaultGrace}
	return &Sink{id: id, reader: r, sinkConfig: c}, nil
}

// ID is that of the Source of the same path.
func (s *Sink) ID() string { return s.id }

// Read gives the document as it is at this moment; unlike a Source it gives nobody time to finish.
func (s *Sink) Read(ctx context.Context) (datasource.Document, error) {
	data, id, err := s.reader.read(ctx, seen{})
	if err != nil {
		return datasource.Document{}, err
	}
	if !id.exists {
		return datasource.Document{Presence: datasource.Missing}, nil
	}
	return datasource.Document{Presence: datasource.Present, Data: data, Revision: revision(data)}, nil
}

// Write replaces the file if the hash of its content is expected, writable.Absent meaning that there must be no file.
// Other sinks, of this process or another, wait meanwhile: the folder is locked (flock). The lock does not keep
// editors out, whose save between the comparison and the rename is lost.
//
// A symbolic link stays and its target is replaced. The file keeps its mode and owner.
func (s *Sink) Write(ctx context.Context, data []byte, expected string) (datasource.Document, error) {
	if int64(len(data)) > s.maxBytes {
		return s.fail("", fmt.Errorf("%w: %d bytes, at most %d", datasource.ErrTooLarge, len(data), s.maxBytes))
	}
	target, unlock, err := s.lock(ctx)
	if err != nil {
		return s.fail("", hintOn(err))
	}
	defer unlock()

	now, err := s.Read(ctx)
	if err != nil {
		return s.fail("", fmt.Errorf("compare: %w", err))
	}
	switch {
	case now.Revision == expected:
	case now.Presence == datasource.Missing:
		return s.fail("", fmt.Errorf("%w: there is no file, revision %s expected", datasource.ErrConflict, expected))
	case expected == writable.Absent:
		return s.fail(now.Revision, fmt.Errorf("%w: there is a file, none expected", datasource.ErrConflict))
	default:
		return s.fail(now.Revision, fmt.Errorf("%w: revision %s expected", datasource.ErrConflict, expected))
	}

	atomicfile.Sweep(target)
	err = atomicfile.Write(target, data, atomicfile.Options{Mode: s.mode, Keep: true})
	if errors.Is(err, atomicfile.ErrNotDurable) {
		return s.fail(revision(data), fmt.Errorf("%w: %w", datasource.ErrUnknownOutcome, err))
	}
	if err != nil {
		return s.fail(now.Revision, hintOn(err))
	}
	return datasource.Document{Presence: datasource.Present, Data: bytes.Clone(data), Revision: revision(data)}, nil
}

func (s *Sink) fail(revision string, err error) (datasource.Document, error) {
	return datasource.Document{}, &datasource.Error{Op: "write", SourceID: s.id, Revision: revision, Err: err}
}

// lock locks the folder of the file that path leads to. Where the links have moved meanwhile it follows them.
func (s *Sink) lock(ctx context.Context) (target string, unlock func(), err error) {
	for {
		_, target, err = chain(s.reader.path)
		if err != nil {
			return "", nil, err
		}
		if s.makeDirs {
			if err := atomicfile.MkdirAll(filepath.Dir(target), 0o700); err != nil {
				return "", nil, err
			}
		}
		if unlock, err = lock(ctx, target); err != nil {
			return "", nil, err
		}
		_, again, err := chain(s.reader.path)
		if err == nil && again == target {
			return target, unlock, nil
		}
		unlock()
		if err != nil {
			return "", nil, err
		}
		if err := ctx.Err(); err != nil {
			return "", nil, err
		}
	}
}

// hintOn adds what to do about the failures that a deployment causes.
func hintOn(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w (MakeDirs makes missing folders)", err)
	case errors.Is(err, fs.ErrPermission):
		return explain(err)
	}
	return mounted(err)
}

// contend tries until the lock is free or ctx ends; free is false while somebody else has it.
func contend(ctx context.Context, try func() (free bool, err error)) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 16*time.Millisecond) {
		if free, err := try(); free || err != nil {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return fmt.Errorf("wait for the lock: %w", err)
		}
	}
}
