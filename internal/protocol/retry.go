package protocol

import (
	"context"
	"errors"
	"time"

	"tandem/jobs"
)

// policies are how often each stage is tried, by counted attempts, and where a job goes that has used them up; to the dead letters if that is empty.
var policies = map[jobs.Stage]struct {
	attempts int
	then     jobs.Stage
}{
	jobs.StagePrefill:  {2, jobs.StageFallback},
	jobs.StageDecode:   {3, ""},
	jobs.StageFallback: {3, ""},
}

// MaxAttempts is how often a stage may be tried, by counted attempts, before the job leaves it.
func MaxAttempts(s jobs.Stage) int { return policies[s].attempts }

// Exhausted is the stage to which a job goes that has used up its attempts at one; empty if it becomes a dead letter.
func Exhausted(s jobs.Stage) jobs.Stage { return policies[s].then }

// ErrorClass says what becomes of a job whose stage failed.
type ErrorClass int

// The classes of errors.
const (
	Retry     ErrorClass = iota // try again, counted as an attempt
	HandBack                    // try again, nobody's fault: not counted
	Permanent                   // will fail everywhere: dead letter and a failed result
	Ended                       // the job has its terminal record already, or must get it now: cancelled or expired
)

func (c ErrorClass) String() string {
	return [...]string{"retry", "hand back", "permanent", "ended"}[c]
}

// Classify decides what becomes of a job whose stage returned err. It is the only place that does.
func Classify(err error) ErrorClass {
	e, ok := errors.AsType[*jobs.Error](err)
	if !ok {
		if errors.Is(err, context.Canceled) {
			return HandBack // the process is stopping and gave no other cause
		}
		return Retry
	}
	switch e.Code {
	case jobs.CodeInvalid, jobs.CodeUnknownModel, jobs.CodeContextOverflow, jobs.CodeEngineRefused, jobs.CodeAttempts:
		return Permanent
	case jobs.CodeEngineBusy, jobs.CodeModelMissing, jobs.CodeDraining, jobs.CodePreempted, jobs.CodeNATS, jobs.CodeQueueFull:
		return HandBack
	case jobs.CodeCancelled, jobs.CodeDeadline:
		return Ended
	}
	return Retry
}

// RetryDelay is how long the queue waits before it delivers a job again, by the class of the
// error and the attempt (from 1) that failed. After a failure that is a little less than the pause of a worker
// at which one job after the other fails, so that the job comes back while that worker pauses, and gets to another.
func RetryDelay(class ErrorClass, attempt int) time.Duration {
	if class == HandBack {
		return time.Second
	}
	const first = 800 * time.Millisecond
	return first << min(max(attempt, 1)-1, 5)
}
