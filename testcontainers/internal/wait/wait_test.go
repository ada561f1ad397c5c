package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errNotYet = errors.New("not yet")

func TestUntilTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		err := Until(t.Context(), func(context.Context) error {
			if tries++; tries < 10 {
				return errNotYet
			}
			return nil
		})
		if err != nil || tries != 10 {
			t.Errorf("%d tries, %v", tries, err)
		}
	})
}

func TestUntilGivesUpWithTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Until(ctx, func(ctx context.Context) error {
			<-ctx.Done() // A try that hangs is ended.
			return errNotYet
		})
		if !errors.Is(err, errNotYet) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
