package file_test

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/file"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// folder makes an empty folder for an example.
func folder() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		panic(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}

func Example() {
	ctx := context.Background()
	dir, remove := folder()
	defer remove()
	path := filepath.Join(dir, "flow.json")
	if err := os.WriteFile(path, []byte(`[{"resource":"/orders","count":10}]`), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	source, err := file.NewSource(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	inForce := make(chan []rule.Flow, 1)
	listener := property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
		inForce <- rules
		return nil
	})
	flow, err := datasource.New(source, converter.JSON[rule.Flow](), listener, datasource.Logger(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := flow.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer flow.Close()
	fmt.Println("start:", (<-inForce)[0].Count)

	// Somebody edits the file.
	if err := os.WriteFile(path, []byte(`[{"resource":"/orders","count":20}]`), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("edit:", (<-inForce)[0].Count)
	// Output:
	// start: 10
	// edit: 20
}

func ExampleNewSink() {
	ctx := context.Background()
	dir, remove := folder()
	defer remove()
	sink, err := file.NewSink(filepath.Join(dir, "rules", "flow.json"), file.MakeDirs())
	if err != nil {
		fmt.Println(err)
		return
	}

	first, err := sink.Write(ctx, []byte(`[{"resource":"/orders","count":10}]`), writable.Absent)
	fmt.Println("first:", err)
	_, err = sink.Write(ctx, []byte(`[{"resource":"/orders","count":20}]`), first.Revision)
	fmt.Println("second:", err)
	_, err = sink.Write(ctx, []byte(`[]`), first.Revision) // from what was read before the second write
	fmt.Println("third is a conflict:", errors.Is(err, datasource.ErrConflict))
	// Output:
	// first: <nil>
	// second: <nil>
	// third is a conflict: true
}

func ExampleWithNotifier() {
	notifier := file.NewNotifier()
	defer notifier.Close() // after the sources are closed

	var sources []datasource.Source
	for _, kind := range []string{"flow", "degrade", "system"} {
		source, err := file.NewSource("/etc/rules/"+kind+".json", file.WithNotifier(notifier))
		if err != nil {
			fmt.Println(err)
			return
		}
		sources = append(sources, source)
	}
	fmt.Println(sources[0].ID())
	// Output: file:/etc/rules/flow.json
}

//go:embed testdata/embedded
var embedded embed.FS

func ExampleNewFSSource() {
	source, err := file.NewFSSource(embedded, "testdata/embedded/flow.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	doc, err := source.Read(context.Background())
	fmt.Println(source.ID(), doc.Presence, len(doc.Data), err)
	// Output: fs:testdata/embedded/flow.json present 36 <nil>
}
