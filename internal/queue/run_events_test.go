package queue

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// hear collects the types of a job's events until it has ended, in the order of their times, since two workers publish them.
func hear(t *testing.T, c *Client, j *jobs.Job) func() []jobs.EventType {
	t.Helper()
	events, err := c.Events(patient(t), j.Batch, j.ID)
	if err != nil {
		t.Fatal(err)
	}
	return func() (types []jobs.EventType) {
		var all []*jobs.Event
		for e := range events {
			if e.JobID != j.ID || e.User != j.User || e.At.IsZero() {
				t.Errorf("event %+v of job %s", e, j.ID)
			}
			if all = append(all, e); e.Type == jobs.EventEnded {
				slices.SortStableFunc(all, func(a, b *jobs.Event) int { return a.At.Compare(b.At) })
				for _, e := range all {
					types = append(types, e.Type)
				}
				return types
			}
		}
		t.Errorf("no end came after %d events", len(all))
		return types
	}
}

// wantTimeline checks that a result says what happened, in order.
func wantTimeline(t *testing.T, r *jobs.Result, want ...jobs.EventType) {
	t.Helper()
	var got []jobs.EventType
	for i, m := range r.Timeline {
		got = append(got, m.Type)
		if i > 0 && m.At.Before(r.Timeline[i-1].At) {
			t.Errorf("%s at %v comes after %s at %v", m.Type, m.At, r.Timeline[i-1].Type, r.Timeline[i-1].At)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("timeline %v, want %v", got, want)
	}
}

// emits is a decode that writes two pieces.
func emits(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	t.Event(jobs.Event{Type: jobs.EventDecodeBegun})
	t.Emit(jobs.Chunk{Text: "a"})
	t.Emit(jobs.Chunk{Text: "b"})
	return answer(ctx, t)
}

// A job's life is published as it goes, and its result has all of it.
func TestEventsOfAJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startPrefill(1, func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
		t.Event(jobs.Event{Type: jobs.EventPrefillBegun})
		t.Event(jobs.Event{Type: jobs.EventPrefillDone, Tokens: 7})
		return passOn(ctx, t)
	})
	r.start(protocol.RoleDecode, 1, emits)
	c, j := r.client(), testJob(jobs.Interactive)
	heard := hear(t, c, j)
	res, err := c.Run(patient(t), j, SubmitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	way := []jobs.EventType{
		jobs.EventAccepted, jobs.EventPrefillBegun, jobs.EventPrefillDone, jobs.EventOffered, jobs.EventDecodeBegun, jobs.EventFirstToken, jobs.EventEnded,
	}
	if got := heard(); !slices.Equal(got, way) {
		t.Errorf("heard %v, want %v", got, way)
	}
	wantTimeline(t, res, way...)
}

// What went wrong on the way stands in the timeline, also of attempts that were lost.
func TestTimelineOfTroubles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var prefills, decodes atomic.Int64
	r.startPrefill(1, func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
		t.Event(jobs.Event{Type: jobs.EventPrefillBegun})
		prefills.Add(1)
		return protocol.Outcome{}, errors.New("the engine broke off")
	})
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
		if decodes.Add(1) == 1 {
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineBusy, "loading")
		}
		return emits(ctx, t)
	})
	c, j := r.client(), testJob(jobs.Interactive)
	heard := hear(t, c, j)
	res, err := c.Run(patient(t), j, SubmitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	way := []jobs.EventType{
		jobs.EventAccepted, jobs.EventPrefillBegun, jobs.EventRetried, jobs.EventPrefillBegun, jobs.EventFellBack,
		jobs.EventRequeued, jobs.EventDecodeBegun, jobs.EventFirstToken, jobs.EventEnded,
	}
	if got := heard(); !slices.Equal(got, way) {
		t.Errorf("heard %v, want %v", got, way)
	}
	wantTimeline(t, res, way...)
	if why := res.Timeline[2].Why; why != "the engine broke off" {
		t.Errorf("retried because %q", why)
	}
}

// A job that is cancelled ends for whoever listens, too; and workers say that they come and go.
func TestEventsOfACancelAndOfWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	all, err := r.AllEvents(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	c, j := r.client(), testJob(jobs.Interactive)
	if err := c.Submit(t.Context(), j, SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cancel(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	s := r.start(protocol.RoleDecode, 1, answer)
	want := []jobs.EventType{jobs.EventAccepted, jobs.EventEnded, jobs.EventWorkerBegan, jobs.EventWorkerLeft}
	var got []jobs.EventType
	for e := range all {
		got = append(got, e.Type)
		switch e.Type {
		case jobs.EventEnded:
			if e.Status != jobs.Cancelled {
				t.Errorf("the end says %s", e.Status)
			}
		case jobs.EventWorkerBegan:
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) == len(want) {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("heard %v, want %v", got, want)
	}
}
