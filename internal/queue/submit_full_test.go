package queue

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// What a full intake says, and when it says to try again, for intakes of all kinds.
func TestFullness(t *testing.T) {
	t.Parallel()
	now := time.Now()
	intake := func(jobs, megabytes uint64, age time.Duration) fullness {
		return fullness{
			state:  jetstream.StreamState{Msgs: jobs, Bytes: megabytes * 1e6, FirstTime: now.Add(-age)},
			config: jetstream.StreamConfig{MaxMsgs: 20_000, MaxBytes: 2 << 30}, at: now, bytes: 5_000,
		}
	}
	byBytes := func(f fullness, job uint64) fullness {
		f.byBytes, f.bytes = true, job
		return f
	}
	for _, tt := range []struct {
		name    string
		intake  fullness
		stopped bool // no job leaves
		after   time.Duration
		says    string
	}{
		{"slow", intake(20_000, 100, 4000*time.Second), false, 40 * time.Second,
			"the queue is full: 20,000 jobs wait, the limit is 20,000; try again in about 40 s"},
		{"slower", intake(20_000, 100, 20_000*time.Second), false, 200 * time.Second, "; try again in about 3 min"},
		{"fast", intake(20_000, 100, 20*time.Second), false, time.Second, "; try again in about 1 s"},
		{"with a job that nobody takes", intake(20_000, 100, 72*time.Hour), false, 5 * time.Minute, "; try again in about 5 min"},
		{"with a clock that was set back", intake(20_000, 100, -time.Hour), false, time.Second, "; try again in about 1 s"},
		{"small", intake(3, 1, 30*time.Second), false, 10 * time.Second, "3 jobs wait, the limit is 20,000; try again in about 10 s"},
		{"emptied meanwhile", intake(0, 0, 0), false, time.Second, "0 jobs wait"},
		{"of long prompts", byBytes(intake(500, 2147, 500*time.Second), 5_000), false, 5 * time.Second,
			"the queue is full: 500 jobs of 2.1 GB wait, the limit is 2.1 GB; try again in about 5 s"},
		{"of short prompts, for a long one", byBytes(intake(10_000, 2000, 1000*time.Second), 40e6), false, 20100 * time.Millisecond, "about 20 s"},
		{"that nobody serves", intake(20_000, 100, time.Hour), true, 0,
			"the queue is full: 20,000 jobs wait, the limit is 20,000; none of them leaves, since no decode worker lives that could take one; start one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.intake.err(!tt.stopped)
			if err.RetryAfter != tt.after || !strings.Contains(err.Error(), tt.says) || !errors.Is(err, jobs.ErrQueueFull) {
				t.Errorf("try again after %v, %q; want %v and %q", err.RetryAfter, err, tt.after, tt.says)
			}
		})
	}
}

// An intake that is full says so and when to try again, whichever of its limits it is, and still lets hops pass.
func TestFullIntakeSaysWhen(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit func(*jetstream.StreamConfig)
		says  string
	}{
		"jobs":  {func(c *jetstream.StreamConfig) { c.MaxMsgs = 3 }, "3 jobs wait, the limit is 3"},
		"bytes": {func(c *jetstream.StreamConfig) { c.MaxBytes = 4 << 20 }, "3 jobs of 3.1 MB wait, the limit is 4.2 MB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c := r.client()
			long := func() *jobs.Job {
				return testJob(jobs.Batch, func(j *jobs.Job) { j.Prompt = strings.Repeat("x", 1<<20) })
			}
			r.changeIntake(tt.limit)
			submit := func() *jobs.Error {
				t.Helper()
				err := c.Submit(t.Context(), long(), SubmitOptions{})
				full, ok := errors.AsType[*jobs.Error](err)
				if !ok || !errors.Is(err, jobs.ErrQueueFull) || !strings.Contains(err.Error(), tt.says) {
					t.Fatalf("submit to a full intake: error = %v, want one that says %q", err, tt.says)
				}
				return full
			}
			for range 3 {
				if err := c.Submit(t.Context(), long(), SubmitOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if full := submit(); full.RetryAfter != 0 || !strings.Contains(full.Message, "no decode worker lives") {
				t.Errorf("without a worker: after %v, %q", full.RetryAfter, full.Message)
			}
			if err := r.publishHop(t.Context(), &jobs.Handover{V: jobs.Version, Stage: jobs.StageDecode, Job: *long(), Kind: jobs.KindNone}, ""); err != nil {
				t.Errorf("hop while the intake is full: %v", err)
			}
			begun, goOn := make(chan struct{}, 9), make(chan struct{})
			r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
				begun <- struct{}{}
				<-goOn
				return answer(ctx, task)
			})
			<-begun
			if full := submit(); full.RetryAfter < time.Second || full.RetryAfter > 5*time.Minute || !strings.Contains(full.Message, "try again in about ") {
				t.Errorf("with a worker: after %v, %q", full.RetryAfter, full.Message)
			}
			close(goOn)
			r.eventually("room", func() bool { return c.Submit(t.Context(), long(), SubmitOptions{}) == nil })
		})
	}
}

// A job that the server refuses for another reason than a limit is not told that the queue is full.
func TestRefusedForAnotherReason(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for why, full := range map[string]bool{tooMany: true, tooLarge: true, "write /store/1.blk: no space left on device": false} {
		_, verdict, err := r.refusal(t.Context(), testJob(jobs.Batch), 100, &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: why})
		if err != nil || errors.Is(verdict, jobs.ErrQueueFull) != full || !full && !strings.Contains(verdict.Error(), why) {
			t.Errorf("%q: %v, %v; want a full queue: %t", why, verdict, err, full)
		}
	}
	// It was there when it was refused, and has moved on since.
	j := testJob(jobs.Batch)
	r.relay(j)
	again, verdict, err := r.refusal(t.Context(), j, 100, &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum messages per subject exceeded"})
	if !again || verdict != nil || err != nil {
		t.Errorf("a job that has moved on: again = %t, %v, %v", again, verdict, err)
	}
}

// A batch that waits for room says so each time, and is done.
func TestBatchTellsThatItWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.limitIntake(2)
	c := r.client()
	var told atomic.Int32
	worker := make(chan struct{})
	c.OnFull = func(err error) {
		if !errors.Is(err, jobs.ErrQueueFull) || !strings.Contains(err.Error(), "jobs wait, the limit is 2") {
			t.Errorf("told %v", err)
		}
		if told.Add(1) == 1 {
			close(worker)
		}
	}
	list := input(6)
	submitted := make(chan error, 1)
	go func() { submitted <- submitBatch(c, t.Context(), filepath.Join(t.TempDir(), "m"), list, nil) }()
	<-worker
	r.start(protocol.RoleDecode, 1, answer)
	if err := <-submitted; err != nil {
		t.Fatal(err)
	}
	r.results(list...)
}
