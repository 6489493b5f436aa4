package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		release, err := s.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 2)
		go func() {
			if err := s.Free(t.Context()); err == nil {
				got <- "free"
			}
		}()
		synctest.Wait()
		if len(got) != 0 || s.Busy() != 1 {
			t.Fatalf("a taken slot counts as free: %d waiters returned, busy %d", len(got), s.Busy())
		}

		cause := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := s.Acquire(ctx); !errors.Is(err, cause) {
			t.Errorf("Acquire after cancellation: %v, want the cause", err)
		}

		release()
		release()
		if s.Busy() != 0 {
			t.Errorf("busy %d after a double release, want 0", s.Busy())
		}
		if <-got != "free" {
			t.Error("the waiter was not told")
		}
	})
}
