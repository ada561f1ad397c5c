package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/snapshot"
)

// store is a source that is up or down.
type store struct{ down bool }

func (s *store) ID() string { return "example:/rules/flow" }

func (s *store) Read(context.Context) (datasource.Document, error) {
	if s.down {
		return datasource.Document{}, errors.New("connection refused")
	}
	return datasource.Document{Presence: datasource.Present, Data: []byte(`[{"resource":"/orders","count":10}]`)}, nil
}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "snapshots")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	snapshots, err := snapshot.Dir(filepath.Join(dir, "rules"))
	if err != nil {
		fmt.Println(err)
		return
	}
	listener := property.ListenerFunc[[]rule.Flow](func(context.Context, []rule.Flow) error { return nil })

	for _, source := range []*store{{down: false}, {down: true}} {
		flow, err := datasource.New(source, converter.JSON[rule.Flow](), listener, datasource.Logger(nil),
			datasource.Snapshots(snapshots), datasource.OnStart(datasource.Snapshot))
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := flow.Start(ctx); err != nil {
			fmt.Println(err)
			return
		}
		_ = flow.Refresh(ctx)
		fmt.Println(flow.Status().State, flow.Status().Rules)
		_ = flow.Close()
	}
	// Output:
	// live 1
	// stale 1
}
