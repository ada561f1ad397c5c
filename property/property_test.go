package property_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/rulewire/rulewire/property"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type recorder struct {
	mu     sync.Mutex
	values []int
	fail   error
}

func (r *recorder) OnUpdate(_ context.Context, v int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	r.values = append(r.values, v)
	return nil
}

func (r *recorder) setFail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

func (r *recorder) got() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.values)
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func TestLateListenerGetsTheCurrentValueAtOnceAndInOrder(t *testing.T) {
	ctx := t.Context()
	p := property.New[int]()
	var early, late recorder
	if _, err := p.Add(ctx, &early); err != nil {
		t.Fatal(err)
	}
	for v := 1; v <= 2; v++ {
		if err := p.Update(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Add(ctx, &late); err != nil {
		t.Fatal(err)
	}
	expect(t, "late, at once", late.got(), "[2]")
	if err := p.Update(ctx, 3); err != nil {
		t.Fatal(err)
	}
	expect(t, "late", late.got(), "[2 3]")
	expect(t, "early", early.got(), "[1 2 3]")
}

// faults: F125
func TestFailedUpdateIsNotTakenForTheCurrentValue(t *testing.T) {
	ctx := t.Context()
	p := property.New[int]()
	var good, bad recorder
	_, _ = p.Add(ctx, &good)
	_, _ = p.Add(ctx, &bad)
	if err := p.Update(ctx, 1); err != nil {
		t.Fatal(err)
	}
	refusal := errors.New("not now")
	bad.setFail(refusal)
	if err := p.Update(ctx, 2); !errors.Is(err, refusal) {
		t.Fatalf("Update: %v, want the listener's error", err)
	}
	v, _ := p.Value()
	expect(t, "current", v, 1)
	pending, ok := p.Pending()
	expect(t, "pending", fmt.Sprint(pending, ok), "2 true")

	if err := p.Retry(ctx); !errors.Is(err, refusal) {
		t.Fatalf("Retry: %v, want the listener's error", err)
	}
	expect(t, "good is told once", good.got(), "[1 2]")

	bad.setFail(nil)
	if err := p.Retry(ctx); err != nil {
		t.Fatal(err)
	}
	v, _ = p.Value()
	expect(t, "current", v, 2)
	expect(t, "bad, in the end", bad.got(), "[1 2]")
	expect(t, "good is told once", good.got(), "[1 2]")
	if _, ok := p.Pending(); ok {
		t.Fatal("still pending")
	}
}

func TestNewerValueReplacesThePendingOne(t *testing.T) {
	ctx := t.Context()
	p := property.New[int]()
	var good, bad recorder
	_, _ = p.Add(ctx, &good)
	_, _ = p.Add(ctx, &bad)
	_ = p.Update(ctx, 1)
	bad.setFail(errors.New("no"))
	_ = p.Update(ctx, 2)
	bad.setFail(nil)
	// Back to the first value: the listener that had already taken 2 must be told again.
	if err := p.Update(ctx, 1); err != nil {
		t.Fatal(err)
	}
	expect(t, "good", good.got(), "[1 2 1]")
	expect(t, "bad", bad.got(), "[1 1]")
}

// faults: F025
func TestPanicOfAListenerIsAnErrorAndDoesNotStopTheOthers(t *testing.T) {
	ctx := t.Context()
	p := property.New[int]()
	var good recorder
	_, _ = p.Add(ctx, property.ListenerFunc[int](func(context.Context, int) error { panic("boom") }))
	_, _ = p.Add(ctx, &good)
	err := p.Update(ctx, 7)
	if !errors.Is(err, property.ErrPanic) {
		t.Fatalf("got %v, want ErrPanic", err)
	}
	expect(t, "good", good.got(), "[7]")
	if _, generation := p.Value(); generation != 0 {
		t.Fatal("a value that a listener has not taken is current")
	}
}

func TestLateListenerThatRefusesIsReachedByRetry(t *testing.T) {
	ctx := t.Context()
	p := property.New[int]()
	_ = p.Update(ctx, 5)
	late := &recorder{fail: errors.New("not ready")}
	if _, err := p.Add(ctx, late); err == nil {
		t.Fatal("Add hides the listener's error")
	}
	select {
	case <-p.Behind():
	default:
		t.Fatal("nobody is told that a listener is behind")
	}
	late.setFail(nil)
	if err := p.Retry(ctx); err != nil {
		t.Fatal(err)
	}
	expect(t, "late", late.got(), "[5]")
}

func TestAddAndRemoveFromInsideAListener(t *testing.T) {
	ctx := t.Context()
	p := property.New[int]()
	var inner recorder
	var remove func()
	_, _ = p.Add(ctx, property.ListenerFunc[int](func(ctx context.Context, v int) error {
		switch v {
		case 1:
			var err error
			remove, err = p.Add(ctx, &inner)
			return err
		case 2:
			remove()
		}
		return nil
	}))
	for v := 1; v <= 3; v++ {
		if err := p.Update(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "inner", inner.got(), "[1]")
	err := p.Update(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = p.Add(ctx, property.ListenerFunc[int](func(ctx context.Context, v int) error {
		if p.Update(ctx, v+1) == nil || p.Retry(ctx) == nil {
			t.Error("an update from inside a listener would wait for itself and must be refused")
		}
		return nil
	}))
}

func TestRemovedListenerIsNotCalledAgain(t *testing.T) {
	ctx := t.Context()
	p := property.New[int]()
	var a, b recorder
	removeA, _ := p.Add(ctx, &a)
	_, _ = p.Add(ctx, &b)
	_ = p.Update(ctx, 1)
	removeA()
	removeA()
	_ = p.Update(ctx, 2)
	expect(t, "a", a.got(), "[1]")
	expect(t, "b", b.got(), "[1 2]")
}

func TestRemovingTheListenerThatRefusesLeavesTheOthersWithTheNewestValue(t *testing.T) {
	ctx := t.Context()
	p := property.New[int]()
	bad := &recorder{fail: errors.New("no")}
	remove, _ := p.Add(ctx, bad)
	_ = p.Update(ctx, 1)
	remove()
	if err := p.Retry(ctx); err != nil {
		t.Fatal(err)
	}
	v, generation := p.Value()
	if v != 1 || generation == 0 {
		t.Fatalf("got %d, generation %d", v, generation)
	}
}

func TestAWaitForTheTurnEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := property.New[int]()
		hold, entered := make(chan struct{}), make(chan struct{})
		_, _ = p.Add(t.Context(), property.ListenerFunc[int](func(context.Context, int) error {
			close(entered)
			<-hold
			return nil
		}))
		go func() { _ = p.Update(t.Context(), 1) }()
		<-entered
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Update(ctx, 2); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		if _, err := p.Add(ctx, &recorder{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		close(hold)
	})
}

// faults: F135
func TestConcurrentUpdateAddRemove(t *testing.T) {
	ctx := t.Context()
	p := property.New[int]()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				_ = p.Update(ctx, w*1000+i)
				_, _ = p.Value()
			}
		})
		wg.Go(func() {
			for range 200 {
				var r recorder
				remove, err := p.Add(ctx, &r)
				if err != nil {
					t.Error(err)
				}
				_, _ = p.Pending()
				remove()
			}
		})
	}
	wg.Wait()
	var last recorder
	_, _ = p.Add(ctx, &last)
	v, _ := p.Value()
	expect(t, "late", last.got(), fmt.Sprintf("[%d]", v))
}

func TestNilListenerIsRefused(t *testing.T) {
	if _, err := property.New[int]().Add(t.Context(), nil); err == nil {
		t.Fatal("accepted")
	}
}
