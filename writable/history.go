package writable

import (
	"context"
	"fmt"
	"time"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
)

// maxDiffLines bounds the difference in a record.
const maxDiffLines = 100

// Op is what was done to a document.
type Op string

// The kinds of write.
const (
	OpWrite  Op = "write"
	OpEdit   Op = "edit"
	OpCreate Op = "create"
	OpClear  Op = "clear"
)

// Record is one write that took place.
type Record struct {
	Time time.Time
	// Actor is who wrote, as WithActor said; "" = nobody said.
	Actor string
	Op    Op
	// SourceID names the document.
	SourceID string
	// Kind is the kind of rule; "" for a rule type of the user's own.
	Kind rule.Kind
	// From and To are the revisions before and after; From is Absent for a new document.
	From, To string
	// Rules is the number of rules now; Added, Changed and Removed say what became of those before.
	Rules, Added, Changed, Removed int
	// Diff has a line for each difference, at most 100.
	Diff []string
	// Attempts is how often the store was written to.
	Attempts int
	// InForce and Volatile are those of the Result.
	InForce, Volatile bool
}

// Auditor keeps the history of writes. It must be quick; a panic is contained.
type Auditor interface {
	Audit(ctx context.Context, r Record)
}

// AuditorFunc is a function as an Auditor.
type AuditorFunc func(ctx context.Context, r Record)

// Audit calls f.
func (f AuditorFunc) Audit(ctx context.Context, r Record) { f(ctx, r) }

// tell logs a write and hands it to the audit hook.
func (w *Writable[T]) tell(ctx context.Context, op Op, res *Result[T]) {
	kind, _ := rule.KindOf[T]()
	rec := Record{
		Time: time.Now(), Actor: Actor(ctx), Op: op, SourceID: w.ID(), Kind: kind, From: res.From, To: res.Revision,
		Rules: res.Rules, Added: len(res.Changes.Added), Changed: len(res.Changes.Changed), Removed: len(res.Changes.Removed),
		Diff: res.Changes.FirstLines(maxDiffLines), Attempts: res.Attempts, InForce: res.InForce, Volatile: res.Volatile,
	}
	w.opts.logger.InfoContext(ctx, "rulewire: rules written", "source", rec.SourceID, "op", rec.Op, "actor", rec.Actor,
		"from", rec.From, "to", rec.To, "rules", rec.Rules, "added", rec.Added, "changed", rec.Changed, "removed", rec.Removed,
		"diff", rec.Diff, "attempts", rec.Attempts, "in_force", rec.InForce, "volatile", rec.Volatile)
	if w.opts.auditor == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			w.opts.logger.ErrorContext(ctx, "rulewire: audit hook panicked", "source", rec.SourceID, "panic", fmt.Sprint(p))
		}
	}()
	w.opts.auditor.Audit(ctx, rec)
}

// fail makes the error of an operation on the document, unless it is one already.
func (w *Writable[T]) fail(op, revision string, err error) error {
	if e, ok := err.(*datasource.Error); ok && e.SourceID == w.ID() {
		return err
	}
	return &datasource.Error{Op: op, SourceID: w.ID(), Revision: revision, Err: err}
}
