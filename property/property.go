// Package property holds the current value of something that changes while a program runs, and tells its listeners.
package property

import "context"

// Listener is told each new value. An error (or a panic) means "not applied": the property keeps the value as pending
// for this listener, and its owner retries. Calls for one property come one at a time, in order.
type Listener[T any] interface {
	OnUpdate(ctx context.Context, value T) error
}

// ListenerFunc is a function as a Listener.
type ListenerFunc[T any] func(ctx context.Context, value T) error

// OnUpdate calls f.
func (f ListenerFunc[T]) OnUpdate(ctx context.Context, value T) error { return f(ctx, value) }
