package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"tandem/internal/engine"
	"tandem/internal/handover"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// ahead holds the KV states that were fetched for tasks which wait for a slot, within a budget of disk space.
type ahead struct {
	budget int64

	mu      sync.Mutex
	bytes   int64 // of all that are here, or on their way
	fetched map[*protocol.Task]fetched
}

// fetched is what came of fetching a state.
type fetched struct {
	file   handover.Fetched
	took   time.Duration // also of a transfer that failed
	failed error         // a *protocol.HandoverError, or the context's cause
	ahead  bool          // while the task waited for a slot
}

// handsOver reports whether a task comes with a KV state.
func handsOver(t *protocol.Task) bool {
	return t.Stage == jobs.StageDecode && t.Handover != nil && t.Handover.Kind == jobs.KindState && t.Handover.Prefill != nil
}

// Prepare fetches the KV state of a task that waits for a slot, so that Run finds it on the disk. A failure is Run's to tell, and
// what does not fit on the disk now, or not within what the budget has left, Run fetches itself. Discard removes what Run did not use.
func (s *Stage) Prepare(ctx context.Context, t *protocol.Task) (discard func()) {
	nothing := func() {}
	if !handsOver(t) {
		return nothing
	}
	transfer, refused := s.usable(ctx, t)
	if bytes := t.Handover.State.Bytes; refused != nil || !s.ahead.reserve(bytes) {
		return nothing
	}
	s.running.wait(t, s.moving(t.Handover))
	f := s.fetch(ctx, t, transfer)
	f.ahead = true
	failed, _ := errors.AsType[*protocol.HandoverError](f.failed)
	if ctx.Err() != nil || failed != nil && failed.Failure == jobs.FailDisk {
		s.ahead.release(t.Handover.State.Bytes)
		s.running.end(t)
		if f.failed == nil {
			s.remove(t.Job.ID, f.file.Path)
		}
		return nothing
	}
	s.ahead.store(t, f)
	s.running.wait(t, 0)
	s.Look(ctx, t.Job)
	return func() {
		s.running.end(t)
		if f, there := s.ahead.take(t); there && f.failed == nil {
			s.remove(t.Job.ID, f.file.Path)
		}
	}
}

// Look has the engine read a job's prompt before there is a slot for it, which takes some milliseconds that nobody waits for then: it remembers the
// tokens. A failure will come again when the job runs.
func (s *Stage) Look(ctx context.Context, j *jobs.Job) {
	if e, ok := s.engine.(engine.Estimator); ok && s.about().KVTransfer != nil {
		if _, err := e.Estimate(ctx, engine.RequestOf(j)); err != nil {
			s.log.Debug("look at a job before its turn", "job", j.ID, "error", err)
		}
	}
}

// usable returns the engine's transfer if a task's KV state may be given to the engine, as far as that is known before a byte of it is
// fetched, and else why not.
func (s *Stage) usable(ctx context.Context, t *protocol.Task) (*engine.KVTransfer, *protocol.HandoverError) {
	transfer, refused := s.accepts(ctx, t.Handover)
	if refused == nil {
		refused = s.distrusts(t)
	}
	return transfer, refused
}

// moving is how long a KV state will probably be on its way, in seconds.
func (s *Stage) moving(h *jobs.Handover) float64 {
	speeds, bytes := engine.SpeedsOf(h.Job.Model, s.role, s.rates.Snapshot()), h.State.Bytes
	if m := s.about().KVTransfer; m != nil && s.Rows()[engine.PrefixKey(engine.RequestOf(&h.Job))] > 0 {
		bytes = max(0, bytes-m.BytesPerToken*int64(h.State.Prefix))
	}
	return float64(bytes) / speeds.Link(machineOf(h.Prefill.Server)).Value
}

// fetch fetches the KV state of a task.
func (s *Stage) fetch(ctx context.Context, t *protocol.Task, transfer *engine.KVTransfer) fetched {
	begin := time.Now()
	file, err := s.fetcher.Fetch(ctx, t.Handover.State, transfer.Dir, transfer.Prefix, t.Progress)
	if err != nil {
		return fetched{took: time.Since(begin), failed: err}
	}
	s.rows.note(engine.PrefixKey(engine.RequestOf(t.Job)), file.Rows, t.Handover.State.Prefix)
	return fetched{file: file, took: file.Duration}
}

// reserve sets so many bytes aside, unless the budget has too little left.
func (a *ahead) reserve(bytes int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bytes+bytes > a.budget {
		return false
	}
	a.bytes += bytes
	return true
}

// release ends what reserve began.
func (a *ahead) release(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes -= bytes
}

// keep holds what was fetched until it is taken.
func (a *ahead) store(t *protocol.Task, f fetched) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fetched[t] = f
}

// take returns what was fetched for a task, once, and releases what was reserved for it.
func (a *ahead) take(t *protocol.Task) (f fetched, there bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f, there = a.fetched[t]; there {
		delete(a.fetched, t)
		a.bytes -= t.Handover.State.Bytes
	}
	return f, there
}
