package queue

import (
	"context"
	"strings"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// noResults takes the stream of results away.
func (r *rig) noResults() {
	r.t.Helper()
	if err := r.js.DeleteStream(r.t.Context(), StreamResults); err != nil {
		r.t.Fatal(err)
	}
}

// uncounted waits until a job was handed back uncounted, and returns what was noted.
func (r *rig) uncounted(j *jobs.Job) (h history) {
	r.t.Helper()
	r.eventually("uncounted redelivery", func() (ok bool) {
		var err error
		h, _, err = r.readHistory(r.t.Context(), historyKey(jobs.StageDecode, j.User, j.ID))
		return err == nil && h.HandBacks > 0
	})
	return h
}

// A result that NATS does not take until the worker ends is not the job's fault.
func TestRefusedResultIsNoAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var done book
	begun, goOn := make(chan struct{}), make(chan struct{})
	s := r.start(protocol.RoleDecode, 1, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		close(begun)
		<-goOn
		return answer(ctx, task)
	}), func(c *WorkerConfig) { c.DrainLimit = 100 * time.Millisecond })
	j := testJob(jobs.Batch)
	r.relay(j)
	<-begun
	r.noResults()
	close(goOn)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if h := r.uncounted(j); h.HandBacks != 1 || h.Reason == "" {
		t.Errorf("history = %+v, want one hand-back with its reason", h)
	}
	if err := r.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.start(protocol.RoleDecode, 1, answer)
	if res := r.results(j)[0]; res.Status != jobs.Succeeded || res.Attempts.Decode != 1 {
		t.Errorf("result = %+v, want that of a first attempt", res)
	}
}

// A result that NATS does not take for a while is published when it does, without another run.
func TestResultWaitsForNATS(t *testing.T) {
	t.Parallel()
	r := newRig(t, ackWait(2*time.Second))
	var done book
	begun, goOn := make(chan struct{}), make(chan struct{})
	s := r.prepare(protocol.RoleDecode, 1, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		close(begun)
		<-goOn
		return answer(ctx, task)
	}))
	s.lookLimit = 100 * time.Millisecond
	s.begin()
	j := testJob(jobs.Batch)
	r.relay(j)
	<-begun
	r.noResults()
	close(goOn)
	r.remains("the worker holds the job", r.timing.AckWait+time.Second, func() bool {
		_, held := s.running.Load(protocol.SubjectOf(j, jobs.StageDecode))
		return held
	})
	if err := r.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := r.results(j)[0]; res.Status != jobs.Succeeded {
		t.Errorf("result = %+v", res)
	}
	done.once(t, jobs.StageDecode, []*jobs.Job{j})
}

// A job about which NATS says nothing is handed back, and no attempt is counted.
func TestUnansweredLookIsNoAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var done book
	s := r.prepare(protocol.RoleDecode, 1, done.note(answer))
	s.lookLimit = 100 * time.Millisecond
	s.begin()
	r.asking(protocol.RoleDecode, 2)
	r.noResults()
	j := testJob(jobs.Batch)
	r.relay(j)
	if h := r.uncounted(j); !strings.Contains(h.Reason, "look up job") {
		t.Errorf("history = %+v", h)
	}
	if n := done.times(); n != 0 {
		t.Errorf("the job ran %d times without a look", n)
	}
	if err := r.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := r.results(j)[0]; res.Status != jobs.Succeeded || res.Attempts.Decode != 1 {
		t.Errorf("result = %+v, want that of a first attempt", res)
	}
}

// A link over which nothing comes through, though no connection breaks, is not the job's fault.
func TestFrozenLinkIsNoAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t, ackWait(5*time.Second))
	r.link = newLink(t, r.server.URL())
	var done book
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	s := r.start(protocol.RoleDecode, 2, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		begun <- struct{}{}
		if done.times() == 1 {
			<-goOn
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "failed")
		}
		return answer(ctx, task)
	}))
	j := testJob(jobs.Batch)
	r.relay(j)
	<-begun
	r.link.freeze()
	r.remains("the connection", r.timing.AckWait+3*r.timing.InProgressEvery, s.conn.Connected)
	r.link.restore()
	if h := r.uncounted(j); h.HandBacks != 1 {
		t.Errorf("history = %+v, want one hand-back", h)
	}
	close(goOn)
	if res := r.results(j)[0]; res.Status != jobs.Succeeded || res.Attempts.Decode > 2 {
		t.Errorf("result = %+v", res)
	}
}
