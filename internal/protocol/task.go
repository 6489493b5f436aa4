package protocol

import (
	"context"
	"time"

	"tandem/jobs"
)

// Worker roles are named like the stages they serve.
const (
	RolePrefill = jobs.StagePrefill
	RoleDecode  = jobs.StageDecode // also serves fallback
)

// Task is one delivery of one job to one stage, as the queue hands it to the pipeline.
type Task struct {
	Stage    jobs.Stage     // prefill, decode or fallback
	Job      *jobs.Job      // never nil
	Handover *jobs.Handover // nil in a prefill worker
	Attempt  int            // from 1, hand-backs not counted
	Waited   time.Duration  // for this stage, in the stream and ahead in the worker
	Transfer time.Duration  // of that, on the way to a worker that was already asking for it
	Intake   bool           // it comes straight from the intake

	Redelivered bool // it was delivered before, here or elsewhere

	// Backlog counts what waits of batch jobs for the workers of the model now, this one among it.
	Backlog func(ctx context.Context) Backlog

	// Progress says that the engine is alive, Expect that it may be silent for up to d from now.
	// Without either for the queue's stall limit the task is cancelled and delivered again.
	Progress func()
	Expect   func(d time.Duration)
	// Yields says that the task may from now on be ended for the sake of an interactive job, with the cause ErrPreempted.
	Yields func()
	// Emit publishes a piece of the answer, text, thinking or calls, to whoever watches. It never fails the job.
	Emit func(piece jobs.Chunk)
	// Event tells of something that happened; type and figures are to be given, the rest is filled in.
	Event func(e jobs.Event)
	// SinceAccepted is the time since the intake stored the job, by the NATS server's clock.
	SinceAccepted func() time.Duration
}

// Observer is told what happens in a worker, for metrics.
type Observer interface {
	// Task is told of each delivery that ran.
	Task(t *Task, took time.Duration, o Outcome, err error)
	// Event is told of what happens to jobs and to the worker, as it is published.
	Event(e *jobs.Event)
	// Ended is told of each job whose result was published here: it has no other.
	Ended(j *jobs.Job, r *jobs.Result)
}

// Outcome is what a stage made of a task: the next hop or the result, never both.
type Outcome struct {
	Next   *jobs.Handover
	Result *jobs.Result

	// Settled, if set, is called once: when the outcome, or that of an earlier delivery, was published and the
	// task's message acknowledged as far as the server answers (true), or when it will not be published here
	// any more (false). The job may come here again only after that.
	Settled func(done bool)
}
