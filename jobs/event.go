package jobs

import "time"

// EventType says what happened.
type EventType string

// What happens to a job, in this order if nothing goes wrong; and to a worker.
const (
	EventAccepted       EventType = "accepted"        // the job is stored
	EventPrefillBegun   EventType = "prefill_begun"   // a prefill machine computes the prompt
	EventPrefillDone    EventType = "prefill_done"    // it has: tokens computed, and those that were cached
	EventSaved          EventType = "saved"           // its engine wrote the KV state
	EventOffered        EventType = "offered"         // the job waits for decode
	EventFetched        EventType = "fetched"         // the KV state is on the decode machine: bytes
	EventRestored       EventType = "restored"        // its engine continues from the KV state
	EventHandoverFailed EventType = "handover_failed" // the KV state is not used, and the prompt is computed again: failure, why
	EventDecodeBegun    EventType = "decode_begun"    // a machine generates; if there was no prefill, it computes the prompt first
	EventFirstToken     EventType = "first_token"     // the first piece of text or thinking is there
	EventProgress       EventType = "progress"        // tokens so far; at most one a second
	EventRetried        EventType = "retried"         // an attempt failed, and there will be another: code, why
	EventRequeued       EventType = "requeued"        // the job goes back to the queue, which counts as no attempt: code, why
	EventFellBack       EventType = "fell_back"       // both phases go to a decode machine: why
	EventEnded          EventType = "ended"           // the result is there: status

	EventWorkerBegan  EventType = "worker_began"  // it takes jobs
	EventWorkerPaused EventType = "worker_paused" // one job after the other failed there: for so many seconds it takes none
	EventWorkerLeft   EventType = "worker_left"   // it takes no more
)

// Event is a moment in the life of a job, or of a worker, as it is published when it happens, on the subject
// events.<user>.<batch>.<job> or events.workers.<worker>. Events may be lost; those of a job come in their order from each worker, and have it by their times. What lasts
// stands in the result's timeline.
type Event struct {
	V       int       `json:"v"`                 // version of this record, always 1
	Type    EventType `json:"type"`              // what happened
	At      time.Time `json:"at"`                // when; the NATS server's clock
	JobID   string    `json:"job_id,omitempty"`  // of a job, as the next two
	User    string    `json:"user,omitempty"`    // as in the job
	Batch   string    `json:"batch,omitempty"`   // as in the job
	Model   string    `json:"model,omitempty"`   // as in the job, or that the worker serves
	Stage   Stage     `json:"stage,omitempty"`   // where the job is, or the role of a worker
	Attempt int       `json:"attempt,omitempty"` // of the stage, from 1
	Worker  string    `json:"worker,omitempty"`  // "machine/worker id"

	Tokens       int      `json:"tokens,omitempty"`        // computed of the prompt (prefill_done), or generated so far
	CachedTokens int      `json:"cached_tokens,omitempty"` // of the prompt, found in a cache
	Bytes        int64    `json:"bytes,omitempty"`         // of the KV state
	MovedBytes   int64    `json:"moved_bytes,omitempty"`   // of them, over the network
	Seconds      float64  `json:"seconds,omitempty"`       // that it took, or will take (worker_paused)
	Rebuilt      bool     `json:"rebuilt,omitempty"`       // the KV state was put together from rows that were there and the rest
	RebuildLost  bool     `json:"rebuild_lost,omitempty"`  // that failed, and the whole was fetched
	Failure      Failure  `json:"failure,omitempty"`       // of the hand-over
	Status       Status   `json:"status,omitempty"`        // how the job ended; and of its result the next three
	Method       Method   `json:"method,omitempty"`        // the way it went
	Usage        *Usage   `json:"usage,omitempty"`         // tokens
	Timings      *Timings `json:"timings,omitempty"`       // seconds
	Code         Code     `json:"code,omitempty"`          // of the error
	Why          string   `json:"why,omitempty"`           // in words

	Extra Extra `json:"-"`
}

// Moment is an event as a result keeps it.
type Moment struct {
	Type   EventType `json:"type"`             // what happened
	At     time.Time `json:"at"`               // when; the NATS server's clock
	Worker string    `json:"worker,omitempty"` // where: "machine/worker id"
	Why    string    `json:"why,omitempty"`    // in words, of what went wrong

	Extra Extra `json:"-"`
}

// Moment is what the timeline keeps of an event.
func (e *Event) Moment() Moment { return Moment{Type: e.Type, At: e.At, Worker: e.Worker, Why: e.Why} }

func (e *Event) validate() error {
	if e.V != Version {
		return Errorf(CodeInvalid, "v is %d; want %d", e.V, Version)
	}
	if e.Type == "" {
		return Errorf(CodeInvalid, "type is empty; want one such as %s", EventAccepted)
	}
	if e.JobID == "" {
		return nil
	}
	return CheckID("job_id", e.JobID)
}
