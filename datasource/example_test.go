package datasource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing/fstest"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
)

// inMemory is about the smallest source there can be.
type inMemory struct{ files fstest.MapFS }

func (s inMemory) ID() string { return "memory:limits.json" }

func (s inMemory) Read(context.Context) (datasource.Document, error) {
	f, ok := s.files["limits.json"]
	if !ok {
		return datasource.Document{Presence: datasource.Missing}, nil
	}
	return datasource.Document{Presence: datasource.Present, Data: f.Data}, nil
}

// Limit is a rule of an engine of the user's own.
type Limit struct {
	Name string
	Max  int
}

// limitConverter reads it with encoding/json.
type limitConverter struct{}

func (limitConverter) Decode(data []byte) (d converter.Decoded[Limit], err error) {
	err = json.Unmarshal(data, &d.Rules)
	return d, err
}

func (limitConverter) Encode(rules []Limit) ([]byte, error) { return json.Marshal(rules) }

func Example() {
	ctx := context.Background()
	source := inMemory{fstest.MapFS{"limits.json": {Data: []byte(`[{"Name":"orders","Max":10}]`)}}}
	listener := property.ListenerFunc[[]Limit](func(_ context.Context, limits []Limit) error {
		fmt.Println("in force:", limits)
		return nil
	})

	limits, err := datasource.New(source, limitConverter{}, listener, datasource.Logger(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := limits.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer limits.Close()

	// Somebody empties the list: the rules stay, and the status says why.
	source.files["limits.json"] = &fstest.MapFile{Data: []byte(`[]`)}
	_ = limits.Refresh(ctx)
	st := limits.Status()
	fmt.Println(st.State, st.Cause, st.Rules, "rule in force,", st.Pending.Removed, "would go")
	// Output:
	// in force: [{orders 10}]
	// degraded empty_list 1 rule in force, 1 would go
}
