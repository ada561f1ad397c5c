package writable_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// An edit of one rule: in the store first, then in force in this process.
func ExampleWritable_Edit() {
	store := datasourcetest.NewStore() // any store; this one is in memory
	store.Put("flow", []byte(`[{"resource":"/orders","count":10}]`))
	source, sink := store.Source("flow", datasourcetest.Pushed), store.Sink("flow", datasourcetest.Pushed)

	conv := converter.JSON[rule.Flow]()
	manager := rule.NewManager[rule.Flow]()
	readable, err := datasource.New(source, conv, manager, datasource.Logger(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer readable.Close()
	edit, err := writable.New(sink, conv, writable.Readable(readable), writable.Logger(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := writable.WithActor(context.Background(), "anna")
	if err := readable.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}

	result, err := edit.Edit(ctx, func(rules []rule.Flow) ([]rule.Flow, error) {
		rules[0].Count = 20
		return append(rules, rule.NewFlow("/stock", 5)), nil
	})
	fmt.Println(err, result.InForce, "revision", result.From, "to", result.Revision)
	fmt.Println(result.Changes)
	fmt.Println(len(manager.Lookup("/stock")), "rule for /stock")
	// Output:
	// <nil> true revision 1 to 2
	// ~ flow /orders: count 10 → 20
	// + flow /stock: count 5
	// 1 rule for /stock
}

// Write replaces everything, but only what the caller has seen.
func ExampleWritable_Write() {
	store := datasourcetest.NewStore()
	sink := store.Sink("flow", datasourcetest.Pushed)
	edit, err := writable.New(sink, converter.JSON[rule.Flow](), writable.Logger(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	first, err := edit.Create(ctx, []rule.Flow{rule.NewFlow("/orders", 10)})
	fmt.Println(first.Revision, err)
	second, err := edit.Write(ctx, []rule.Flow{rule.NewFlow("/orders", 20)}, first.Revision)
	fmt.Println(second.Revision, err)
	_, err = edit.Write(ctx, []rule.Flow{rule.NewFlow("/orders", 30)}, first.Revision) // another console's stale page
	fmt.Println(errors.Is(err, datasource.ErrConflict), err)
	// Output:
	// 1 <nil>
	// 2 <nil>
	// true write memory:flow at revision 2: conflict: revision 1 expected
}

// A registry is what a command centre edits, kind by kind.
func ExampleRegister() {
	store := datasourcetest.NewStore()
	source := store.Source("degrade", datasourcetest.Pulled)
	readable, err := datasource.New(source, converter.JSON[rule.Degrade](), rule.NewManager[rule.Degrade](), datasource.Logger(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	var registry writable.Registry
	// No sink for this kind: edits are volatile.
	fmt.Println(writable.Register(&registry, "", writable.Pair[rule.Degrade]{Readable: readable}))
	fmt.Println(writable.Register(&registry, "again", writable.Pair[rule.Degrade]{Readable: readable}))
	for _, info := range registry.List() {
		fmt.Println(info.Kind, info.SourceID, "volatile", info.Volatile)
	}
	// Output:
	// <nil>
	// writable.Register: document memory:degrade is registered already, as degrade
	// degrade memory:degrade volatile true
}
