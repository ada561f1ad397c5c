package main

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
)

func init() { oursUnchanged, oursChanged = unchanged, changed }

// pushed is a store that hands over whatever it is told to, on the engine's pushed path.
type pushed struct {
	first   datasource.Document
	deliver chan func(datasource.Document)
}

func newPushed(first []byte) *pushed {
	return &pushed{first: revised(first, 1), deliver: make(chan func(datasource.Document), 1)}
}

func revised(data []byte, order uint64) datasource.Document {
	return datasource.Document{Presence: datasource.Present, Data: data, Revision: strconv.FormatUint(order, 10), Order: order}
}

func (*pushed) ID() string { return "bench:flow" }

func (p *pushed) Read(context.Context) (datasource.Document, error) { return p.first, nil }

func (p *pushed) Watch(ctx context.Context, _ datasource.Document, deliver func(datasource.Document)) error {
	p.deliver <- deliver
	<-ctx.Done()
	return ctx.Err()
}

// told is a rule manager that says when the engine has come to it: with a changed document, or, for an unchanged one
// that was stored again, with the question whether the rules are still in force.
type told struct {
	*rule.Manager[rule.Flow]
	updated, asked chan struct{}
}

func (t *told) OnUpdate(ctx context.Context, rules []rule.Flow) error {
	err := t.Manager.OnUpdate(ctx, rules)
	t.updated <- struct{}{}
	return err
}

func (t *told) InForce() bool {
	ok := t.Manager.InForce()
	select {
	case t.asked <- struct{}{}:
	default: // a status asked
	}
	return ok
}

func started(b *testing.B, first []byte) (*told, func(datasource.Document), func()) {
	p := newPushed(first)
	t := &told{Manager: rule.NewManager[rule.Flow](), updated: make(chan struct{}, 1), asked: make(chan struct{}, 1)}
	r, err := datasource.New(p, converter.JSON[rule.Flow](converter.Dialect(converter.Golang)), t, datasource.Logger(nil))
	if err == nil {
		err = r.Start(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	<-t.updated
	return t, <-p.deliver, func() {
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// unchanged: the same text was stored again under a new revision. The bytes are another copy, as a store gives.
func unchanged(a, _ []byte) func(*testing.B) {
	return func(b *testing.B) {
		t, deliver, stop := started(b, a)
		defer stop()
		copied := append([]byte(nil), a...)
		docs := make([]datasource.Document, 1<<16)
		for i := range docs {
			docs[i] = revised(copied, uint64(i)+2)
		}
		generation := t.Generation()
		i := 0
		for b.Loop() {
			d := docs[i%len(docs)]
			d.Order = uint64(i) + 2
			i++
			deliver(d)
			<-t.asked
		}
		if t.Generation() != generation {
			b.Fatal("an unchanged document was loaded")
		}
	}
}

// changed: decode, validate, guard, swap.
func changed(a, other []byte) func(*testing.B) {
	return func(b *testing.B) {
		t, deliver, stop := started(b, a)
		defer stop()
		i := uint64(1)
		for b.Loop() {
			i++
			deliver(revised([][]byte{a, other}[(i+1)%2], i))
			<-t.updated
		}
		if t.Len() != documentRules {
			b.Fatal(errors.New("rules are missing"))
		}
	}
}
