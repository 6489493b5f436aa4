package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// settled notes what stages are told of their outcomes.
type settled struct {
	mu   sync.Mutex
	told []bool
}

// of adds a Settled to what a stage returns.
func (s *settled) of(run func(context.Context, *protocol.Task) (protocol.Outcome, error)) func(context.Context, *protocol.Task) (protocol.Outcome, error) {
	return func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
		o, err := run(ctx, t)
		o.Settled = func(done bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.told = append(s.told, done)
		}
		return o, err
	}
}

func (s *settled) list() []bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// A stage is told once what became of each outcome that it returned, before the job can come to it again.
func TestSettled(t *testing.T) {
	t.Parallel()
	purge := func(r *rig, j *jobs.Job) {
		for _, stream := range []string{StreamIntake, StreamRelay} {
			if err := r.purge(r.t.Context(), stream, "jobs.*.*.*."+j.ID); err != nil {
				r.t.Error(err)
			}
		}
	}
	tests := []struct {
		name string
		role jobs.Stage
		run  func(r *rig, s *station, ctx context.Context, t *protocol.Task) (protocol.Outcome, error)
		want []bool
	}{
		{"hop", protocol.RolePrefill, func(_ *rig, _ *station, ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
			return passOn(ctx, t)
		}, []bool{true}},
		{"result", protocol.RoleDecode, func(_ *rig, _ *station, ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
			return answer(ctx, t)
		}, []bool{true}},
		{"failed at first", protocol.RoleDecode, func(_ *rig, _ *station, ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
			o, err := answer(ctx, t)
			if t.Attempt == 1 {
				err = errors.New("broken")
			}
			return o, err
		}, []bool{false, true}},
		{"handed back at first", protocol.RolePrefill, func(r *rig, s *station, ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
			o, err := passOn(ctx, t)
			if r.history(s, t).HandBacks == 0 {
				err = jobs.Errorf(jobs.CodeEngineBusy, "busy")
			}
			return o, err
		}, []bool{false, true}},
		{"permanent", protocol.RoleDecode, func(_ *rig, _ *station, ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
			o, _ := answer(ctx, t)
			return o, jobs.Errorf(jobs.CodeEngineRefused, "no")
		}, []bool{false}},
		{"neither hop nor result", protocol.RoleDecode, func(_ *rig, _ *station, ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
			if t.Attempt > 1 {
				return answer(ctx, t)
			}
			return protocol.Outcome{}, nil
		}, []bool{false, true}},
		{"too large to publish", protocol.RoleDecode, func(_ *rig, _ *station, ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
			o, err := answer(ctx, t)
			o.Result.Text = strings.Repeat("x", jobs.MaxRecord)
			return o, err
		}, []bool{false}},
		{"purged meanwhile, with a result", protocol.RolePrefill, func(r *rig, _ *station, ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
			end := jobs.NewResult(t.Job, jobs.Cancelled)
			end.Error = &jobs.ErrorInfo{Code: jobs.CodeCancelled, Message: "cancelled"}
			if _, err := r.PublishResult(ctx, end, ""); err != nil {
				r.t.Error(err)
			}
			purge(r, t.Job)
			return passOn(ctx, t)
		}, []bool{false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var told settled
			j := testJob(jobs.Batch)
			var s *station
			s = r.prepare(tt.role, 1, told.of(func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) { return tt.run(r, s, ctx, t) }))
			if tt.role == protocol.RolePrefill {
				r.prefilling(s)
				r.submit(j)
			} else {
				s.begin()
				r.relay(j)
			}
			r.results(j)
			r.eventually("the stage is told", func() bool { return len(told.list()) >= len(tt.want) })
			if err := s.stop(); err != nil {
				t.Error(err)
			}
			if got := told.list(); !slices.Equal(got, tt.want) {
				t.Errorf("the stage was told %v, want %v", got, tt.want)
			}
		})
	}
}

// history is what is known of a task's job at this moment.
func (r *rig) history(s *station, t *protocol.Task) history {
	h, _, err := r.readHistory(r.t.Context(), historyKey(t.Stage, t.Job.User, t.Job.ID))
	if err != nil {
		r.t.Error(err)
	}
	return h
}

// A worker that loses NATS for good tells its stages what it knows: what was published was, whether or not it could
// be acknowledged, and what was not will not be.
func TestSettledWhenTheWorkerEnds(t *testing.T) {
	t.Parallel()
	for name, published := range map[string]bool{"before the publish": false, "before the acknowledgement": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, ackWait(2*time.Second))
			var told settled
			var s *station
			s = r.prepare(protocol.RoleDecode, 1, told.of(func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
				if !published {
					s.kill()
				}
				return answer(ctx, t)
			}))
			s.published = func(string) { s.kill() }
			s.begin()
			j := testJob(jobs.Batch)
			r.relay(j)
			select {
			case err := <-s.ended:
				s.ended <- err
			case <-time.After(enough):
				t.Fatal("the worker does not end")
			}
			if got := told.list(); !slices.Equal(got, []bool{published}) {
				t.Errorf("the stage was told %v, want %t once", got, published)
			}
			r.start(protocol.RoleDecode, 1, answer)
			r.results(j)
		})
	}
}

// Dead letters hold nothing that opens a KV state.
func TestDeadLetterOfAState(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(protocol.RoleDecode, 1, func(context.Context, *protocol.Task) (protocol.Outcome, error) {
		return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineRefused, "no")
	})
	j := testJob(jobs.Batch)
	r.publish(protocol.SubjectOf(j, jobs.StageDecode), messageID(j, jobs.StageDecode), &jobs.Handover{
		V: jobs.Version, Stage: jobs.StageDecode, Job: *j, AcceptedAt: time.Now(), Kind: jobs.KindState,
		State:   &jobs.State{URL: "http://192.0.2.7:8002/state/0011", Token: "s3cret", Bytes: 7, Tokens: 5},
		Prefill: &jobs.Prefill{Server: "elsewhere"}, Attempts: 1,
	})
	r.results(j)
	data := string(r.letter(jobs.StageDecode, j.ID).Data)
	if strings.Contains(data, "s3cret") || strings.Contains(data, "0011") || !strings.Contains(data, `"bytes":7`) {
		t.Errorf("dead letter = %s", data)
	}
	l, err := r.DeadLetter(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	if l.Handover.State == nil || l.Handover.State.Tokens != 5 {
		t.Errorf("the dead letter's state = %+v", l.Handover.State)
	}
}
