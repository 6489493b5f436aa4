package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		release, err := s.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		free, released := s.Idle()
		got := make(chan func(), 1)
		go func() {
			if next, err := s.Acquire(t.Context()); err == nil {
				got <- next
			}
		}()
		synctest.Wait()
		select {
		case <-released:
			t.Error("a slot was released that was not")
		default:
		}
		if len(got) != 0 || free != 0 || s.Busy() != 1 {
			t.Fatalf("a taken slot counts as free: %d waiters returned, %d free, busy %d", len(got), free, s.Busy())
		}

		cause := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := s.Acquire(ctx); !errors.Is(err, cause) {
			t.Errorf("Acquire after cancellation: %v, want the cause", err)
		}

		time.Sleep(3 * time.Second) // by the bubble's clock
		release()
		release()
		<-released
		(<-got)()
		if free, _ := s.Idle(); s.Busy() != 0 || free != 1 {
			t.Errorf("busy %d and %d free after all was released, want 0 and 1", s.Busy(), free)
		}
		time.Sleep(time.Second)
		if spent := s.BusySeconds(); spent != 3 {
			t.Errorf("slots were taken for %v s, want 3", spent)
		}
	})
}
