package property_test

import (
	"context"
	"fmt"

	"github.com/rulewire/rulewire/property"
)

func Example() {
	ctx := context.Background()
	limit := property.New[int]()
	_ = limit.Update(ctx, 100)

	// A late listener gets the current value at once, then each new one.
	remove, _ := limit.Add(ctx, property.ListenerFunc[int](func(_ context.Context, v int) error {
		fmt.Println("limit is", v)
		return nil
	}))
	_ = limit.Update(ctx, 200)
	remove()
	_ = limit.Update(ctx, 300)
	// Output:
	// limit is 100
	// limit is 200
}
