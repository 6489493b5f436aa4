package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tandem/internal/natsembed"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// All waits of a client share at most two subscriptions and get their results once, also if NATS is started again meanwhile.
func TestManyAwaitsShareTheirSubscriptions(t *testing.T) {
	t.Parallel()
	const n = 2000
	r := newRigOn(t, natsembed.Options{LazySync: true}) // or a busy disk is all that is seen
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := NewClient(r.connect(), "user")
	list := input(n)
	r.submit(list...)
	before := c.nc.NumSubscriptions()
	var seen sync.Map
	var twice, done atomic.Int64
	var waits sync.WaitGroup
	for _, j := range list {
		waits.Go(func() {
			res, err := c.Await(ctx, j.ID)
			if err != nil || res.JobID != j.ID || res.Text != "text of "+j.ID {
				t.Errorf("job %s: %+v, %v", j.ID, res, err)
				return
			}
			if _, there := seen.LoadOrStore(res.JobID, true); there {
				twice.Add(1)
			}
			done.Add(1)
		})
	}
	r.eventually("all wait", func() bool {
		c.watch.mu.Lock()
		defer c.watch.mu.Unlock()
		return len(c.watch.waits) == n
	})
	if got := c.nc.NumSubscriptions() - before; got > 3 { // and the inbox of its requests
		t.Errorf("%d subscriptions for %d waits, want at most two and an inbox", got, n)
	}
	half := make(chan struct{})
	var begun atomic.Int64
	r.start(protocol.RoleDecode, 8, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		if begun.Add(1) == n/2 {
			close(half)
		}
		return answer(ctx, task)
	})
	<-half
	if err := r.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	waits.Wait()
	if done.Load() != n || twice.Load() != 0 {
		t.Errorf("%d results, %d of them twice; want %d, each once", done.Load(), twice.Load(), n)
	}
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	if c.watch.one != nil || c.watch.all != nil || c.watch.stop != nil || len(c.watch.jobs) != 0 {
		t.Error("the last wait has left something behind")
	}
}

// A wait that ends takes its jobs along, and leaves those that others await, too.
func TestWaitsEndAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := NewClient(r.connect(), "user")
	list := input(3)
	r.submit(list...)
	short, cancel := context.WithCancelCause(t.Context())
	var got []string
	var waits sync.WaitGroup
	waits.Go(func() {
		for res, err := range c.AwaitBatch(patient(t), list[0].Batch, ids(list)) {
			if err != nil {
				t.Error(err)
				return
			}
			got = append(got, res.JobID)
		}
	})
	waits.Go(func() {
		if _, err := c.Await(short, list[0].ID); err == nil || err.Error() != "enough" {
			t.Errorf("a wait that was given up ended with %v", err)
		}
	})
	r.eventually("both wait", func() bool {
		c.watch.mu.Lock()
		defer c.watch.mu.Unlock()
		return len(c.watch.jobs) == 3 && len(c.watch.waits) == 2
	})
	cancel(fmt.Errorf("enough"))
	r.start(protocol.RoleDecode, 1, answer)
	waits.Wait()
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(ids(list))); !slices.Equal(got, want) {
		t.Errorf("results of %v, want %v", got, want)
	}
}

// Run knows of its job what Await would have to ask for.
func TestRunAsksForNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(protocol.RoleDecode, 1, answer)
	c := NewClient(r.connect(), "user")
	j := testJob(jobs.Interactive)
	res, err := c.Run(patient(t), j, SubmitOptions{})
	if err != nil || res.Text != "text of "+j.ID {
		t.Fatalf("Run: %+v, %v", res, err)
	}
	j = testJob(jobs.Interactive)
	j.Model = "nobody:1b"
	if _, err := c.Run(patient(t), j, SubmitOptions{}); jobs.CodeOf(err) != jobs.CodeUnknownModel {
		t.Errorf("Run of an unknown model: %v", err)
	}
}
