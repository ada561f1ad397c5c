package writable

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rulewire/rulewire/datasource"
)

// volatileRevision names a generation of rules that only this process has. No store gives such a revision, so that one
// can't be taken for the other.
func volatileRevision(generation uint64) string {
	if generation == 0 {
		return Absent
	}
	return "memory-" + strconv.FormatUint(generation, 10)
}

// override changes the readable's rules in this process only. expected is nil for an Edit.
func (w *Writable[T]) override(ctx context.Context, op Op, change func([]T) ([]T, error), expected *string) (Result[T], error) {
	old, generation := w.readable.Property().Value()
	from := volatileRevision(generation)
	if expected != nil && *expected != from {
		return Result[T]{}, w.fail("write", from, fmt.Errorf("%w: revision %q expected", datasource.ErrConflict, *expected))
	}
	rules, err := w.change(change, append(make([]T, 0, len(old)+1), w.traits.CloneAll(old)...), from)
	if err != nil {
		return Result[T]{}, err
	}
	res := Result[T]{From: from, Rules: len(rules), Volatile: true, Attempts: 1}
	next := w.traits.CloneAll(rules)
	if res.Changes, err = w.compare(old, next); err != nil {
		return Result[T]{}, w.fail("write", from, err)
	}
	if generation > 0 && res.Changes.Empty() && !res.Changes.Reordered {
		res.Revision, res.Unchanged, res.InForce = from, true, true
		return res, nil
	}
	ctx2, cancel := context.WithTimeout(ctx, w.opts.timeout)
	defer cancel()
	if err := w.readable.Override(ctx2, next, generation); err != nil {
		return Result[T]{}, w.fail("write", from, err)
	}
	_, now := w.readable.Property().Value()
	res.Revision, res.InForce = volatileRevision(now), true
	w.tell(ctx, op, &res)
	return res, nil
}
