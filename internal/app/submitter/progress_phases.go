package submitter

import (
	"fmt"

	"tandem/jobs"
)

// phase is how far a job is that has not ended.
type phase struct {
	decode  bool // or else prefill
	running bool // or else it waits
	tokens  int  // generated so far
}

// phases are those of jobs, by id, as their events told.
type phases map[string]phase

// event takes what happened to a job.
func (p phases) event(e *jobs.Event) {
	at := p[e.JobID]
	switch e.Type {
	case jobs.EventEnded:
		delete(p, e.JobID)
		return
	case jobs.EventAccepted, jobs.EventRetried, jobs.EventRequeued, jobs.EventOffered, jobs.EventFellBack:
		decode := at.decode || e.Type == jobs.EventOffered || e.Type == jobs.EventFellBack
		at = phase{decode: decode && e.Type != jobs.EventAccepted}
	case jobs.EventPrefillBegun:
		at = phase{running: true}
	case jobs.EventFetched, jobs.EventRestored, jobs.EventDecodeBegun, jobs.EventFirstToken:
		at.decode, at.running = true, true
	case jobs.EventProgress:
		at.decode, at.running, at.tokens = true, true, e.Tokens
	default:
		return
	}
	p[e.JobID] = at
}

// tokens is how many were generated for jobs that have not ended.
func (p phases) tokens() (n int) {
	for _, at := range p {
		n += at.tokens
	}
	return n
}

func (p phases) String() string {
	var n [2][2]int
	for _, at := range p {
		n[index(at.decode)][index(at.running)]++
	}
	return fmt.Sprintf("prefill %d running, %d waiting · decode %d running, %d waiting", n[0][1], n[0][0], n[1][1], n[1][0])
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}
