package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// ErrUnsettled means that the file kept changing for the whole grace period, so that no state of it could be taken for
// a finished one.
var ErrUnsettled = errors.New("file keeps changing")

// reader reads one file, and never a state that its writer has not finished with, as far as that can be seen.
type reader struct {
	disk     disk
	path     string
	maxBytes int64
	// settle is how long a file that is written in place must rest. 0 switches settling off.
	settle time.Duration
	// grace is how long a file that went away or became empty may take to come back, and bounds every read.
	grace time.Duration
}

// seen is the outcome of the last read.
type seen struct {
	known bool
	id    ident
}

// read gives the bytes and what the file looked like then; the zero ident means that there is no file.
func (r *reader) read(ctx context.Context, prev seen) ([]byte, ident, error) {
	var start, since time.Time // since: when the state in id was first looked at
	var id ident
	born := false // it was seen missing or empty by this read: what comes then is written in place
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return nil, ident{}, err
		}
		cur, err := r.disk.stat(r.path)
		if err != nil {
			return nil, ident{}, explain(err)
		}
		now := time.Now()
		if first {
			start = now
		}
		if first || cur != id {
			id, since = cur, now
		}
		born = born || !id.exists || id.size == 0
		wait := r.rest(prev, id, born, now) - now.Sub(since)
		if wait <= 0 {
			data, whole, err := r.once(id)
			if whole || err != nil {
				return data, id, explain(err)
			}
		}
		left := r.grace - now.Sub(start)
		if left <= 0 {
			return nil, ident{}, fmt.Errorf("%w: no rest in %s", ErrUnsettled, r.grace)
		}
		// A look every fifth of the settle time: soon enough when the file comes back, and cheap.
		if err := sleep(ctx, min(max(wait, time.Millisecond), max(r.settle/5, time.Millisecond), left)); err != nil {
			return nil, ident{}, err
		}
	}
}

// rest is how long the state id must have been seen unchanged before it is taken for finished.
//
// A rename puts a finished file in place and must be fast; a write in place passes through an empty file and through
// halves. They are told apart by the inode and by the change time, which a rename moves and a write moves together
// with the modification time.
func (r *reader) rest(prev seen, id ident, born bool, now time.Time) time.Duration {
	switch {
	case r.settle == 0, prev.known && id == prev.id:
		return 0
	case !id.exists:
		if !prev.id.exists {
			return 0 // nothing went away
		}
		return r.grace
	case prev.id.sameFile(id):
		// Written in place. Clocks of file servers differ from ours, so that its age proves little: watch it rest.
		if id.size == 0 {
			return r.grace // truncated; what follows may take its time
		}
		return r.settle
	case now.Sub(id.touched()) >= r.grace:
		return 0 // long finished; a shorter age could be the grain of the file system's clock
	case id.size == 0:
		return r.grace
	case id.modified < id.changed:
		return 0 // renamed after its last write
	case prev.id.exists && !born:
		// A new inode in the place of another: most likely a rename within one tick of the file system's clock.
		return r.settle / 10
	default:
		return r.settle // created where nothing was
	}
}

// once reads the file that looks like id; whole is false if that file changed or was replaced before or meanwhile.
func (r *reader) once(id ident) (data []byte, whole bool, err error) {
	if !id.exists {
		return nil, true, nil
	}
	if id.size > r.maxBytes {
		return nil, false, r.tooLarge()
	}
	f, err := r.disk.open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }() // only read: nothing to lose
	before, err := f.stat()
	if err != nil || before != id {
		return nil, false, err
	}
	// One byte more than the size, so that the end is seen without growing; one more than the cap, so that it shows.
	data = make([]byte, min(id.size, r.maxBytes)+1)
	n, err := io.ReadFull(f, data)
	switch {
	case err == nil: // longer than it was
		return nil, false, nil
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return nil, false, err
	}
	after, err := f.stat()
	if err != nil || !after.sameBytes(before) || int64(n) != after.size {
		return nil, false, err
	}
	return data[:n:n], true, nil
}

func (r *reader) tooLarge() error {
	return fmt.Errorf("%w: %s has more than %d bytes", datasource.ErrTooLarge, r.path, r.maxBytes)
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// revision is the hash of the content: the only version that a file has on every file system.
func revision(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
