package pipeline

import (
	"slices"
	"sync"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// distrusts says why a job's KV state is not given to the engine although nothing is wrong with it that can be seen: one
// that ends the engine must not do so at every attempt, or the job would be lost because of its state.
func (s *Stage) distrusts(t *protocol.Task) *protocol.HandoverError {
	switch {
	case s.suspects.has(t.Job.ID):
		return protocol.HandoverErrorf(jobs.FailRestore, "the decode engine could not compute any more after it was given this state, so it is not given it again; look for the cause in the engine's log")
	case t.Attempt > 1 && t.Attempt >= protocol.MaxAttempts(t.Stage):
		return protocol.HandoverErrorf(jobs.FailRestore, "%d attempts with this state failed, so the last one does without it; look for the cause in the engine's log", t.Attempt-1)
	}
	return nil
}

// suspects are the last jobs whose KV state may have ended the engine.
type suspects struct {
	mu   sync.Mutex
	jobs []string
}

func (s *suspects) add(job string) {
	const remembered = 64
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, job)
	s.jobs = s.jobs[max(0, len(s.jobs)-remembered):]
}

func (s *suspects) has(job string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.jobs, job)
}
