package jobs

// PriorState says what a cancel found.
type PriorState string

// What a cancel may find.
const (
	PriorQueued   PriorState = "queued"   // the job had not begun, or waited for another attempt
	PriorRunning  PriorState = "running"  // a worker was at it, and has stopped
	PriorFinished PriorState = "finished" // it had ended before; nothing was changed
	PriorKept     PriorState = "kept"     // no worker is alive; the first one that comes cancels it
)

// Cancellation says what became of a job that was to be cancelled.
type Cancellation struct {
	JobID  string     `json:"job_id"`           // of the job, or of its replay
	Was    PriorState `json:"was"`              // before
	Status Status     `json:"status,omitempty"` // of its result: cancelled, unless it was finished; none while the cancel is kept
}
