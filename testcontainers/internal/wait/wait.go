// Package wait tries until something holds.
package wait

import (
	"context"
	"fmt"
	"time"
)

const (
	// attempt bounds one try, pause is between two of them.
	attempt = 5 * time.Second
	pause   = 20 * time.Millisecond
)

// Until tries f until it returns nil or ctx ends; then the error is that of the last try beside the context's.
func Until(ctx context.Context, f func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, attempt)
		err := f(try)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}
