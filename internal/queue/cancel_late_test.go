package queue

import (
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
	"tandem/test/rig/tap"
)

// A hop that is on its way when its job is cancelled or purged, or expires, over a wire that holds it up or breaks, is not taken when it comes at last.
func TestEndWithHopUnderWay(t *testing.T) {
	t.Parallel()
	cancel := func(_ *rig, c *Client, j *jobs.Job) error {
		_, err := c.Cancel(t.Context(), j.ID)
		return err
	}
	purge := func(_ *rig, c *Client, j *jobs.Job) error {
		_, err := c.PurgeBatch(t.Context(), j.Batch)
		return err
	}
	expire := func(r *rig, _ *Client, j *jobs.Job) error { // by the worker that is sent it next
		if res := r.result(j); res.Status != jobs.Expired {
			t.Errorf("result = %+v, want that it has expired", res)
		}
		r.eventually("empty queues", func() bool { return r.waiting(StreamIntake) == 0 && r.waiting(StreamRelay) == 0 })
		return nil
	}
	for _, tt := range []struct {
		name    string
		verdict tap.Verdict // on the first hop, after the end
		end     func(r *rig, c *Client, j *jobs.Job) error
	}{
		{"held up", tap.Pass, cancel},
		{"cut", tap.Cut, cancel},
		{"held up, and purged", tap.Pass, purge},
		{"cut, and purged", tap.Cut, purge},
		{"held up, and expired", tap.Pass, expire},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(t *Timing) { t.CancelWait = 50 * time.Millisecond })
			leaves, goOn := make(chan struct{}), make(chan struct{})
			var first sync.Once
			wire, err := tap.ListenNATS(tap.NATSOptions{Target: strings.TrimPrefix(r.server.URL(), "nats://"), On: func(op *tap.Op) (v tap.Verdict) {
				if op.FromClient && strings.HasPrefix(op.Subject, "jobs.decode.") {
					first.Do(func() {
						v = tt.verdict
						close(leaves)
						<-goOn
					})
				}
				return v
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = wire.Close() })
			s := r.prepare(protocol.RolePrefill, 1, passOn)
			s.Worker.c = r.connectTo("nats://" + wire.Addr())
			r.prefilling(s)
			j := testJob(jobs.Batch, func(j *jobs.Job) { j.Deadline = time.Now().Add(time.Second) })
			r.submit(j)
			<-leaves
			if err := tt.end(r, NewClient(r.connect(), j.User), j); err != nil {
				t.Error(err)
			}
			before := r.state(StreamRelay).LastSeq
			close(goOn)
			r.eventually("end of the delivery", func() bool { return s.slots.Busy() == 0 && r.unacknowledged(protocol.RolePrefill) == 0 })
			if state := r.state(StreamRelay); state.LastSeq != before || state.Msgs != 0 {
				t.Errorf("the relay holds %d messages, and %d came after the end", state.Msgs, state.LastSeq-before)
			}
		})
	}
}

// What a cancel leaves that dies before it has cleaned up is no job to anybody, and the next cancel removes it.
func TestBarsLeftBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	if err := c.blockHops(t.Context(), testJob(jobs.Batch)); err != nil {
		t.Fatal(err)
	}
	s := r.start(protocol.RoleDecode, 1, answer)
	j, waits := testJob(jobs.Batch), testJob(jobs.Batch)
	r.relay(j)
	if res := r.result(j); res.Status != jobs.Succeeded {
		t.Errorf("result = %+v, want a success", res)
	}
	r.eventually("end of the delivery", func() bool { return s.slots.Busy() == 0 && r.waiting(StreamRelay) == 2 })
	o, err := r.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range o.Models {
		for _, class := range m.Classes {
			if class.Decode != (Depth{}) {
				t.Errorf("%d jobs wait for decode and %d are at it, want none", class.Decode.Waiting, class.Decode.InFlight)
			}
		}
	}
	if n := r.waiting(StreamDLQ); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	r.submit(waits)
	if ended, _, err := c.CancelBatch(t.Context(), waits.Batch); err != nil || len(ended) != 1 {
		t.Errorf("CancelBatch ended %d jobs, %v; want the one that waits", len(ended), err)
	}
	if n := r.waiting(StreamRelay); n != 0 {
		t.Errorf("the relay holds %d messages after the next cancel", n)
	}
}
