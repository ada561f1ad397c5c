package command

import (
	"context"

	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// Document is one document of a kind of rule, as the command centre reads and edits it. Pair makes one of a readable and its
// writable. Its methods must be safe for concurrent use.
type Document[T any] interface {
	// ID names the document.
	ID() string
	// InForce gives the document's rules that are in force in this process, held ones included. The caller does not
	// change them. It must not block.
	InForce() []T
	// Edit is writable.Writable.Edit: validate, store with compare-and-set, bring into force; change may be called again.
	Edit(ctx context.Context, change func(current []T) ([]T, error)) (writable.Result[T], error)
}

// Pair is the two sides of one document as a Document. Without a readable the process has no rules of it in force.
func Pair[T any](p writable.Pair[T]) Document[T] { return pair[T]{p} }

type pair[T any] struct{ writable.Pair[T] }

func (p pair[T]) ID() string { return p.Writable.ID() }

func (p pair[T]) InForce() []T {
	if p.Readable == nil {
		return nil
	}
	rules, _ := p.Readable.Property().Value()
	return rules
}

func (p pair[T]) Edit(ctx context.Context, change func([]T) ([]T, error)) (writable.Result[T], error) {
	return p.Writable.Edit(ctx, change)
}

// Volatile says whether edits reach no store.
func (p pair[T]) Volatile() bool { return p.Writable.Volatile() }

// registered gives the documents of rule type T that a registry has at this moment.
func registered[T any](g *writable.Registry) []Document[T] {
	kind, _ := rule.KindOf[T]()
	var docs []Document[T]
	for _, info := range g.List() {
		if info.Kind != kind {
			continue
		}
		if p, err := writable.Lookup[T](g, info.Name); err == nil { // else it was removed meanwhile
			docs = append(docs, Pair(p))
		}
	}
	return docs
}
