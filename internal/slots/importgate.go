package slots

import (
	"context"
	"iter"
	"sync"
	"time"
)

// How often the server's slots are looked at: ever less often, since each look interrupts it.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// longestHold is for how long one waits for another: a call that hangs holds up no others beyond that, who then go on side by side. What a state is worth
// that was lost by it is found out when it is used.
const longestHold = time.Minute

// importGate is open for one at a time; a nil one for all. On a shared server, that is for an import, from when the server reads the state until it has begun
// to use it, or a request for which the server still has to choose a slot.
type importGate chan struct{}

func newImportGate() importGate { return make(importGate, 1) }

// open waits until the gate is free. Further calls of close do nothing.
func (g importGate) open(ctx context.Context) (close func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	select {
	case g <- struct{}{}:
		return sync.OnceFunc(func() { <-g }), nil
	case <-time.After(longestHold):
		return func() {}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Begin waits until no state is being imported, so that a request whose slot the server chooses does not
// take the one that the state is in. Call started at the first byte of the request's answer, or when it
// has ended, even if the context ended before; further calls do nothing.
//
// On a server of ours every request names its slot, so that nothing remains to be waited for. On a shared one
// no import begins before the request is seen in a slot.
func (s *Server) Begin(ctx context.Context) (started func(), err error) {
	if s.importGate == nil {
		return func() {}, nil
	}
	seen, err := s.importGate.open(ctx)
	if err != nil {
		return nil, err
	}
	before, err := s.tasks(ctx)
	if err != nil {
		seen()
		return nil, err
	}
	// A request that is given up can still come into a slot until its sender sees its end.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() {
		defer seen()
		s.awaitTask(ctx, before)
	})
	return sync.OnceFunc(func() {
		cancel()
		watch.Wait()
	}), nil
}

// awaitTask waits until a slot is busy with a task that is not among those, or until the context ends.
func (s *Server) awaitTask(ctx context.Context, before []task) {
	seen := map[task]bool{}
	for _, t := range before {
		seen[t] = true
	}
	for pause := firstPause; sleep(ctx, pause) == nil; pause = min(2*pause, lastPause) {
		now, err := s.tasks(ctx)
		if err != nil {
			continue // whoever began the request sees its end, and says so
		}
		for _, t := range now {
			if t.Busy && !seen[t] {
				return
			}
		}
	}
}

// task is what a slot is busy with, or was last.
type task struct {
	Slot int  `json:"id"`
	Task int  `json:"id_task"`
	Busy bool `json:"is_processing"`
}

// tasks asks the server for its slots.
func (s *Server) tasks(ctx context.Context) ([]task, error) {
	var answer []task
	err := s.Call(ctx, "/slots", nil, &answer)
	return answer, err
}

// busy yields the slots that are.
func busy(tasks []task) iter.Seq2[int, bool] {
	return func(yield func(int, bool) bool) {
		for _, t := range tasks {
			if t.Busy && !yield(t.Slot, true) {
				return
			}
		}
	}
}
