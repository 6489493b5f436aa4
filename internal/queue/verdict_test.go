package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// refuse is a decode whose engine takes no job.
func refuse(context.Context, *protocol.Task) (protocol.Outcome, error) {
	return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineRefused, "the engine says no")
}

// wantEnd checks that a job has one result of this status, and one dead letter if it failed and none if not.
func (r *rig) wantEnd(j *jobs.Job, want jobs.Status) {
	r.t.Helper()
	r.eventually("empty queues", func() bool { return r.waiting(StreamIntake) == 0 && r.waiting(StreamRelay) == 0 })
	if res := r.result(j); res.Status != want {
		r.t.Errorf("the job %s, want %s; error %+v", res.Status, want, res.Error)
	}
	letters := 0
	if want == jobs.Failed {
		letters = 1
	}
	if results, dead := r.state(StreamResults).LastSeq, r.state(StreamDLQ).LastSeq; results != 1 || int(dead) != letters {
		r.t.Errorf("%d results and %d dead letters were written, want 1 and %d", results, dead, letters)
	}
}

// Two workers have the same job, because the first was frozen for longer than the server waits: one makes it succeed, or
// somebody cancels it, and the other gives it up. The first of them decides, wherever the second stands, and no letter of a
// job that did not fail is ever there to be replayed.
func TestOneEndOfTwo(t *testing.T) {
	t.Parallel()
	for _, other := range []jobs.Status{jobs.Succeeded, jobs.Cancelled, jobs.Expired} {
		for _, failedFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, failed first %t", other, failedFirst), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				j := testJob(jobs.Batch)
				end := sync.OnceFunc(func() {
					res := jobs.NewResult(j, other)
					if other != jobs.Succeeded {
						res.Error = &jobs.ErrorInfo{Code: jobs.CodeCancelled, Message: "ended"}
					}
					if first, err := r.PublishResult(t.Context(), res, ""); err != nil || first == failedFirst {
						t.Errorf("the other end is first: %t, %v; want %t", first, err, !failedFirst)
					}
				})
				s := r.prepare(protocol.RoleDecode, 1, refuse)
				if failedFirst {
					s.published = func(string) { end() }
				} else {
					s.conn.js = beforePublish{s.conn.js, end} // after the worker looked for a result for the last time
				}
				s.begin()
				r.relay(j)
				if !failedFirst {
					r.wantEnd(j, other)
					_, _, err := r.Replay(t.Context(), j.ID)
					wantError(t, err, jobs.CodeInvalid, "no dead letter")
					return
				}
				r.wantEnd(j, jobs.Failed)
				if _, _, err := r.Replay(t.Context(), j.ID); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A worker dies between the failed result and the dead letter. Whoever gets the message next writes the letter, in the words of
// the result, and runs nothing.
func TestCrashBeforeDeadLetter(t *testing.T) {
	t.Parallel()
	stages := map[string]struct {
		role  jobs.Stage
		stage jobs.Stage
		put   func(r *rig, j *jobs.Job)
	}{
		"prefill":  {protocol.RolePrefill, jobs.StagePrefill, func(r *rig, j *jobs.Job) { r.submit(j) }},
		"decode":   {protocol.RoleDecode, jobs.StageDecode, func(r *rig, j *jobs.Job) { r.relay(j) }},
		"takeover": {protocol.RoleDecode, jobs.StageFallback, func(r *rig, j *jobs.Job) { r.submit(j) }},
		"exhausted": {protocol.RoleDecode, jobs.StageDecode, func(r *rig, j *jobs.Job) {
			r.relay(j)
			r.deliver(protocol.RoleDecode, protocol.MaxAttempts(jobs.StageDecode))
		}},
	}
	for name, tt := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, ackWait(2*time.Second))
			j := testJob(jobs.Batch)
			var done book
			s := r.prepare(tt.role, 1, done.note(refuse))
			died := make(chan struct{})
			s.published = func(string) {
				s.kill()
				close(died)
			}
			if tt.role == protocol.RolePrefill { // else the decode worker would take the job over
				r.prefilling(s)
				tt.put(r, j)
			} else {
				tt.put(r, j)
				s.begin()
			}
			<-died
			if n := r.waiting(StreamDLQ); n != 0 {
				t.Fatalf("%d letters before the crash", n)
			}
			if got, err := r.client().end(t.Context(), []*location{{job: j}}, jobs.Cancelled, jobs.ErrCancelled); err != nil || got[0].Status != jobs.Failed {
				t.Fatalf("cancelled by somebody who had looked before it failed: %+v, %v; want it left alone", got, err)
			}
			ran := done.times()
			r.start(tt.role, 1, done.note(refuse))
			var letter DeadLetter
			if err := json.Unmarshal(r.letter(tt.stage, j.ID).Data, &letter); err != nil {
				t.Fatal(err)
			}
			r.wantEnd(j, jobs.Failed)
			res := r.result(j)
			if letter.Code != res.Error.Code || letter.Message != res.Error.Message || letter.Job.Prompt != j.Prompt || letter.Attempts != max(res.Attempts.Prefill, res.Attempts.Decode) {
				t.Errorf("letter = %+v, result error %+v, attempts %+v", letter, res.Error, res.Attempts)
			}
			if n := done.times(); n != ran {
				t.Errorf("the job ran %d times, want %d", n, ran)
			}
		})
	}
}

// The worker that was frozen thaws between the other's failed result and its death, makes the job succeed too late, and takes
// the message off: then the letter is its to write.
func TestLateSuccessWritesTheLetter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := testJob(jobs.Batch)
	s := r.prepare(protocol.RoleDecode, 1, answer)
	var once sync.Once
	s.conn.js = beforePublish{s.conn.js, func() {
		once.Do(func() {
			end := jobs.NewResult(j, jobs.Failed)
			end.Error = &jobs.ErrorInfo{Code: jobs.CodeEngineRefused, Stage: jobs.StageDecode, Message: "the engine says no"}
			if first, err := r.PublishResult(t.Context(), end, ""); err != nil || !first {
				t.Errorf("PublishResult = %t, %v", first, err)
			}
		})
	}}
	s.begin()
	r.relay(j)
	r.letter(jobs.StageDecode, j.ID)
	r.wantEnd(j, jobs.Failed)
}

// A message that cannot be read is dead-lettered only if that is the end of its job; and if the worker dies after the result, by the
// next delivery.
func TestOneEndOfAnUnreadableMessage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before jobs.Status // the result that is there before
		want   jobs.Status
	}{
		"nothing before": {"", jobs.Failed}, "told before": {jobs.Failed, jobs.Failed}, "succeeded": {jobs.Succeeded, jobs.Succeeded}, "cancelled": {jobs.Cancelled, jobs.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			j := testJob(jobs.Batch)
			if tt.before != "" {
				end := jobs.NewResult(j, tt.before)
				end.Error = &jobs.ErrorInfo{Code: jobs.CodeInvalid, Stage: jobs.StageDecode, Message: "ended"}
				if _, err := r.PublishResult(t.Context(), end, ""); err != nil {
					t.Fatal(err)
				}
			}
			record := fmt.Appendf(nil, `{"v":2,"stage":"decode","job":{"user":%q,"batch":%q}}`, j.User, j.Batch)
			r.publish(protocol.SubjectOf(j, jobs.StageDecode), "1", record)
			r.start(protocol.RoleDecode, 1, answer)
			r.wantEnd(j, tt.want)
		})
	}
}

// Whoever is told that a job failed can replay it at once, though the letter follows the result.
func TestReplayRightAfterTheResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := testJob(jobs.Batch)
	s := r.prepare(protocol.RoleDecode, 1, refuse)
	asked := make(chan struct{})
	replayed := make(chan error, 1)
	s.published = func(id string) {
		if id == j.ID {
			<-asked
		}
	}
	s.begin()
	r.relay(j)
	r.result(j)
	if ending, err := r.ending(t.Context(), "user", j.ID); err != nil || !ending {
		t.Errorf("ending = %t, %v; want the letter to come", ending, err)
	}
	go func() {
		_, _, err := r.Replay(t.Context(), j.ID)
		replayed <- err
	}()
	close(asked)
	if err := <-replayed; err != nil {
		t.Error(err)
	}
	r.eventually("its end", func() bool { ending, err := r.ending(t.Context(), "user", j.ID); return err == nil && !ending })
}
