package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/internal/atomicfile"
)

// ErrCorrupt means that a file bears the name of a snapshot and is none that this version can trust: cut short,
// changed, of another source, or of a later format.
var ErrCorrupt = errors.New("snapshot is corrupt")

// DefaultMaxBytes is the default of MaxBytes.
const DefaultMaxBytes = 16 << 20

// Option changes a default of Dir.
type Option func(*Store) error

// MaxBytes is the size over which a document is not saved and a file is not loaded. Default: 16 MiB.
func MaxBytes(n int64) Option {
	return func(s *Store) error {
		if n <= 0 {
			return fmt.Errorf("snapshot: MaxBytes(%d): must be positive", n)
		}
		s.maxBytes = n
		return nil
	}
}

// Store keeps the last document of each source in a file of its own. Its methods may be called from any goroutine, and
// several processes may share a folder: the last one to save a source wins.
type Store struct {
	dir      string
	maxBytes int64
}

// Dir makes a store in the folder dir, which is made with mode 0700 when the first document is saved. It reads and
// writes nothing.
func Dir(dir string, opts ...Option) (*Store, error) {
	if dir == "" || strings.ContainsRune(dir, 0) {
		return nil, fmt.Errorf("snapshot: %q is not a path", dir)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	s := &Store{dir: abs, maxBytes: DefaultMaxBytes}
	for _, o := range opts {
		if err := o(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// magic opens the first line of every snapshot; the checksum of all that follows the line ends it.
const magic = "rulewire-snapshot 1 "

// header is the second line. The payload follows it.
type header struct {
	ID       string    `json:"id"` // as quote gives it
	Presence string    `json:"presence"`
	Revision string    `json:"revision"` // likewise
	Order    uint64    `json:"order"`
	Saved    time.Time `json:"saved"`
	Bytes    int       `json:"bytes"`
}

// Save replaces the snapshot of the source.
func (s *Store) Save(ctx context.Context, sourceID string, doc datasource.Document) error {
	if err := s.save(ctx, sourceID, doc); err != nil {
		return fmt.Errorf("save snapshot of %s: %w", sourceID, err)
	}
	return nil
}

func (s *Store) save(ctx context.Context, id string, doc datasource.Document) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if doc.Presence == datasource.Unknown {
		return errors.New("a hint is no document")
	}
	if doc.Presence == datasource.Missing && len(doc.Data) > 0 {
		return errors.New("a missing document has no bytes")
	}
	if int64(len(doc.Data)) > s.maxBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", datasource.ErrTooLarge, len(doc.Data), s.maxBytes)
	}
	head, err := json.Marshal(header{
		ID: quote(id), Presence: doc.Presence.String(), Revision: quote(doc.Revision), Order: doc.Order,
		Saved: time.Now().UTC(), Bytes: len(doc.Data),
	})
	if err != nil {
		return err
	}
	body := make([]byte, 0, len(head)+1+len(doc.Data))
	body = append(append(append(body, head...), '\n'), doc.Data...)
	file := append([]byte(magic+checksum(body)+"\n"), body...)

	if err := atomicfile.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	path := s.path(id)
	atomicfile.Sweep(path)
	return atomicfile.Write(path, file, atomicfile.Options{Mode: 0o600})
}

// Load gives the document that was saved last for the source, and when. Without one the error wraps
// datasource.ErrMissing; a file that can't be trusted is ErrCorrupt.
func (s *Store) Load(ctx context.Context, sourceID string) (datasource.Document, time.Time, error) {
	doc, saved, err := s.load(ctx, sourceID)
	if err != nil {
		return datasource.Document{}, time.Time{}, fmt.Errorf("load snapshot of %s: %w", sourceID, err)
	}
	return doc, saved, nil
}

func (s *Store) load(ctx context.Context, id string) (doc datasource.Document, saved time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return doc, saved, err
	}
	f, err := os.Open(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return doc, saved, datasource.ErrMissing
	}
	if err != nil {
		return doc, saved, err
	}
	defer func() { _ = f.Close() }() // only read: nothing to lose
	if info, err := f.Stat(); err != nil {
		return doc, saved, err
	} else if !info.Mode().IsRegular() {
		return doc, saved, fmt.Errorf("%w: not a regular file", ErrCorrupt)
	}
	limit := s.maxBytes + maxHead
	file, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return doc, saved, err
	}
	if int64(len(file)) > limit {
		return doc, saved, fmt.Errorf("%w: more than %d bytes", datasource.ErrTooLarge, s.maxBytes)
	}
	return parse(file, id)
}

// maxHead is more room than the two lines before the payload take.
const maxHead = 64 << 10

func parse(file []byte, id string) (doc datasource.Document, saved time.Time, err error) {
	line, body, ok := bytes.Cut(file, []byte("\n"))
	sum, known := bytes.CutPrefix(line, []byte(magic))
	switch {
	case !ok || !known:
		return doc, saved, fmt.Errorf("%w: does not start with %q", ErrCorrupt, magic)
	case string(sum) != checksum(body):
		return doc, saved, fmt.Errorf("%w: checksum differs", ErrCorrupt)
	}
	head, data, ok := bytes.Cut(body, []byte("\n"))
	var h header
	if !ok {
		return doc, saved, fmt.Errorf("%w: no header", ErrCorrupt)
	}
	if err := json.Unmarshal(head, &h); err != nil {
		return doc, saved, fmt.Errorf("%w: header: %w", ErrCorrupt, err)
	}
	switch h.Presence {
	case datasource.Present.String():
		doc.Presence = datasource.Present
	case datasource.Missing.String():
		doc.Presence = datasource.Missing
	default:
		return doc, saved, fmt.Errorf("%w: presence %q", ErrCorrupt, h.Presence)
	}
	switch {
	case h.ID != quote(id):
		return datasource.Document{}, saved, fmt.Errorf("%w: it is of %s", ErrCorrupt, h.ID)
	case h.Bytes != len(data), doc.Presence == datasource.Missing && len(data) > 0:
		return datasource.Document{}, saved, fmt.Errorf("%w: %d bytes of payload, %d announced", ErrCorrupt, len(data), h.Bytes)
	}
	if doc.Revision, err = strconv.Unquote(`"` + h.Revision + `"`); err != nil {
		return datasource.Document{}, saved, fmt.Errorf("%w: revision: %w", ErrCorrupt, err)
	}
	if len(data) > 0 {
		doc.Data = data
	}
	doc.Order = h.Order
	return doc, h.Saved, nil
}

// quote escapes the bytes that are no UTF-8, which a path may have and JSON would blur.
func quote(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// maxName keeps file names short; the hash behind it is what tells two sources apart.
const maxName = 60

// path names the file of a source: readable for people, one of its own for every ID.
func (s *Store) path(id string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_' // no dots: no hidden file, no "..", and nothing that a system gives a meaning
	}, id)
	if len(name) > maxName {
		name = name[len(name)-maxName:] // the end of an ID, the key, says more than the start
	}
	return filepath.Join(s.dir, name+"-"+checksum([]byte(id))[:32]+".snap")
}
