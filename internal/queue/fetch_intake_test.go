package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// planned asks for plan auto.
func planned(j *jobs.Job) { j.Plan = jobs.PlanAuto }

// An interactive job that comes while a batch job is done whole takes its slot, in a worker of either role. The batch job is done again, uncounted.
func TestPreempt(t *testing.T) {
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			began := make(chan string, 10)
			var mu sync.Mutex
			var order []string
			first := true
			run := func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
				mu.Lock()
				order = append(order, string(task.Job.Class))
				hold := task.Job.Class == jobs.Batch && first
				first = first && !hold
				mu.Unlock()
				if hold {
					task.Yields()
					began <- task.Job.ID
					<-ctx.Done()
					return protocol.Outcome{}, context.Cause(ctx)
				}
				if task.Attempt != 1 {
					t.Errorf("attempt %d, want none counted", task.Attempt)
				}
				o, err := answer(ctx, task)
				o.Result.Method, o.Result.Attempts = jobs.MethodLocal, jobs.Attempts{Prefill: task.Attempt}
				return o, err
			}
			send := r.submit
			if role == protocol.RolePrefill {
				r.prefilling(r.prepare(protocol.RolePrefill, 1, run))
			} else {
				r.idlePrefill()
				r.start(protocol.RoleDecode, 1, run)
				send = r.relay
			}
			batch, urgent := testJob(jobs.Batch), testJob(jobs.Interactive)
			send(batch)
			<-began
			send(urgent)
			for _, res := range r.results(batch, urgent) {
				if res.Status != jobs.Succeeded {
					t.Errorf("%s: %+v", res.Status, res.Error)
				}
			}
			if want := []string{"batch", "interactive", "batch"}; !slices.Equal(order, want) {
				t.Errorf("order %q, want %q", order, want)
			}
		})
	}
}

// An interactive job keeps its place from the moment when a batch job has given way to it until it has the slot, though other workers live and nobody
// would give way any more.
func TestPreemptedSlotIsKept(t *testing.T) {
	w := &Worker{cfg: WorkerConfig{Role: protocol.RoleDecode, Model: testModel}, members: newMembership(testModel, Timing{}, time.Now())}
	w.members.view = snapshot{peers: 1}
	urgent := source{StreamRelay, protocol.ConsumerName(protocol.RoleDecode, testModel, jobs.Interactive)}
	if w.belongs(urgent) {
		t.Error("it waits though nothing gives way")
	}
	d := &delivery{}
	w.running.Store("a", d)
	d.yielding.Store(true)
	if !w.belongs(urgent) {
		t.Error("it may not wait for a job that would give way")
	}
	d.preempted.Store(true)
	d.yielding.Store(false) // its task has ended
	if !w.belongs(urgent) {
		t.Error("it is sent away before it has the slot of the job that gave way to it")
	}
	w.running.Delete("a")
	if w.belongs(urgent) {
		t.Error("it waits though nothing gives way any more")
	}
}

// taker answers what a worker asks about the backlog, and remembers it.
type taker struct {
	mu     sync.Mutex
	choose func(protocol.Backlog) protocol.Choice
	asked  []protocol.Backlog
}

func (k *taker) next(b protocol.Backlog) protocol.Choice {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = append(k.asked, b)
	return k.choose(b)
}

func (k *taker) set(choose func(protocol.Backlog) protocol.Choice) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.choose = choose
}

func (k *taker) times() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.asked)
}

func (k *taker) last() protocol.Backlog {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked[len(k.asked)-1]
}

func take(protocol.Backlog) protocol.Choice  { return protocol.Choice{Take: true, Why: "because"} }
func leave(protocol.Backlog) protocol.Choice { return protocol.Choice{Again: 10 * time.Millisecond} }

// A decode worker takes a job of plan auto from the intake if that is chosen, and no other job, as long as a prefill worker lives.
func TestDecodeTakesWholeRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := make(chan struct{})
	r.startPrefill(1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		select {
		case <-hold:
		case <-ctx.Done():
			return protocol.Outcome{}, context.Cause(ctx)
		}
		return passOn(ctx, task)
	})
	k := &taker{choose: leave}
	tasks := make(chan *protocol.Task, 10)
	decode := r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		tasks <- task
		return answer(ctx, task)
	}, func(c *WorkerConfig) { c.Next = k.next })
	busy := testJob(jobs.Batch)
	r.submit(busy) // which keeps the prefill worker busy
	r.eventually("the prefill worker is busy", func() bool { return r.unacknowledged(protocol.RolePrefill) == 1 })

	auto, other := testJob(jobs.Batch, planned), testJob(jobs.Batch)
	r.submit(auto)
	r.eventually("it was asked", func() bool { return k.times() > 2 })
	if len(tasks) > 0 {
		t.Fatal("it took a job that it was to leave")
	}
	if b := k.last(); !b.Has(b.Place) || b.Place.Sequence == 0 {
		t.Errorf("the job at %+v is not among those that wait: fetched were %v", b.Place, b.Fetched)
	}
	k.set(take)
	if res := r.result(auto); res.Decision != "because" && res.Status != jobs.Succeeded {
		t.Errorf("%s: %q", res.Status, res.Decision)
	}
	got := <-tasks
	if got.Job.ID != auto.ID || got.Stage != jobs.StageDecode || !got.Intake || got.Handover.Decision != "because" || got.Handover.Reason != "" {
		t.Errorf("task %+v, hand-over %+v", got, got.Handover)
	}
	r.eventually("it is done with", func() bool { return r.waiting(StreamIntake) == 1 })
	asked := k.times()
	r.submit(other) // not of plan auto
	decode.Changed()
	r.remains("one job in the intake beside that at work", 300*time.Millisecond, func() bool { return r.waiting(StreamIntake) == 2 })
	if n := k.times(); n != asked {
		t.Errorf("it was asked %d times about a job that is not of plan auto", n-asked)
	}
	close(hold)
	r.results(busy, other, auto)
}

// While the KV state of the next job is on its way, the slot that it will have may be used for a whole request.
func TestWholeWhileAStateComes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, handed, next, whole := testJob(jobs.Batch), testJob(jobs.Batch), testJob(jobs.Interactive), testJob(jobs.Batch, planned)
	computing, computed := make(chan struct{}), make(chan struct{}) // the prefill worker has no time for the whole request
	r.startPrefill(1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		if task.Job.ID == next.ID {
			close(computing)
			<-computed
		}
		return passOn(ctx, task)
	}, func(c *WorkerConfig) { c.Next = leave })
	ran := make(chan string, 4)
	busy, hold, state := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		if task.Job.ID == first.ID {
			close(busy)
			<-hold
		}
		ran <- task.Job.ID
		return answer(ctx, task)
	}, func(c *WorkerConfig) {
		c.Next, c.Ahead = take, 1
		c.Prepare = func(ctx context.Context, task *protocol.Task) func() {
			if task.Job.ID == handed.ID {
				select {
				case <-state:
				case <-ctx.Done():
				}
			}
			return func() {}
		}
	})
	r.submit(first)
	<-busy
	r.submit(handed)
	r.eventually("the second waits at the decode worker", func() bool { return r.unacknowledged(protocol.RoleDecode) == 2 })
	r.submit(next)
	<-computing
	r.submit(whole)
	close(hold)
	r.result(whole)
	close(state)
	r.result(handed)
	close(computed)
	r.results(first, handed, next, whole)
	if got, want := []string{<-ran, <-ran, <-ran, <-ran}, []string{first.ID, whole.ID, handed.ID, next.ID}; !slices.Equal(got, want) {
		t.Errorf("ran %s, want %s", got, want)
	}
}

// A prefill worker takes jobs of plan auto beyond what its gate lets pass, if that is chosen, and leaves them if not; others wait for the gate.
func TestPrefillChooses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	k := &taker{choose: take}
	prefill := r.prepare(protocol.RolePrefill, 1, passOn, func(c *WorkerConfig) { c.Next = k.next })
	hold := make(chan struct{})
	r.beginPrefill(prefill)
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		select {
		case <-hold:
		case <-ctx.Done():
			return protocol.Outcome{}, context.Cause(ctx)
		}
		return answer(ctx, task)
	})
	auto := several(6, jobs.Batch)
	for _, j := range auto {
		planned(j)
	}
	r.submit(auto[:5]...)
	r.eventually("five jobs at decode", func() bool { return r.waiting(StreamRelay) == 5 }) // the gate closes at two
	k.set(leave)
	asked := k.times()
	r.submit(auto[5])
	r.eventually("it was asked", func() bool { return k.times() > asked+2 })
	if n := r.waiting(StreamIntake); n != 1 {
		t.Errorf("%d jobs in the intake, want the one that was left", n)
	}
	k.set(take)
	r.eventually("six jobs at decode", func() bool { return r.waiting(StreamRelay) == 6 })
	plain := testJob(jobs.Batch)
	r.eventually("the sixth is done with", func() bool { return r.waiting(StreamIntake) == 0 })
	r.asking(protocol.RolePrefill, 1) // for interactive jobs
	r.submit(plain)
	r.remains("a job that waits for the gate", 300*time.Millisecond, func() bool { return r.waiting(StreamIntake) == 1 })
	close(hold)
	r.results(append(auto, plain)...)
}

// A prefill worker whose only slot has a job that would give way asks for interactive jobs. It chooses no batch job: others would believe that it is about to
// fetch it.
func TestNothingIsChosenWithoutASlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	k := &taker{choose: take}
	more, hold := make(chan struct{}), make(chan struct{})
	prefill := r.prepare(protocol.RolePrefill, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		<-more
		task.Yields()
		select {
		case <-hold:
		case <-ctx.Done():
			return protocol.Outcome{}, context.Cause(ctx)
		}
		return passOn(ctx, task)
	}, func(c *WorkerConfig) { c.Next = k.next })
	r.prefilling(prefill)
	list := several(3, jobs.Batch)
	for _, j := range list {
		planned(j)
	}
	r.submit(list...)
	r.eventually("one is fetched", func() bool { return r.unacknowledged(protocol.RolePrefill) == 1 })
	asked := k.times()
	close(more)
	r.asking(protocol.RolePrefill, 1) // for interactive jobs
	r.remains("nothing asked about jobs for which there is no slot", 500*time.Millisecond, func() bool { return k.times() == asked })
	close(hold)
	r.results(list...)
}

// While no slot is free, the next job is shown to who may prepare for it.
func TestLook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold, seen := make(chan struct{}), make(chan string, 8)
	prefill := r.prepare(protocol.RolePrefill, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		select {
		case <-hold:
		case <-ctx.Done():
			return protocol.Outcome{}, context.Cause(ctx)
		}
		return passOn(ctx, task)
	}, func(c *WorkerConfig) {
		c.Peek = func(_ context.Context, j *jobs.Job) { seen <- j.ID }
	})
	r.prefilling(prefill)
	list := several(3, jobs.Batch)
	r.submit(list...)
	id := <-seen
	if id == list[0].ID { // which was not fetched yet
		id = <-seen
	}
	if id != list[1].ID {
		t.Errorf("it was shown %s, want the second of %s, %s, %s", id, list[0].ID, list[1].ID, list[2].ID)
	}
	close(hold)
	r.results(list...)
}

// The first job of a class says what follows it; what was fetched since then does no more.
func TestFollowing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	class := testJob(jobs.Batch, func(j *jobs.Job) { j.Following.Jobs = 40 })
	next, alone := testJob(jobs.Batch, func(j *jobs.Job) { j.Following.Jobs = 39 }), testJob(jobs.Batch)
	waiting, fetched := make(chan protocol.Backlog, 2), make(chan struct{})
	prefill := r.prepare(protocol.RolePrefill, 2, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		switch task.Job.ID {
		case class.ID:
			waiting <- task.Backlog(ctx)
			<-fetched
		case next.ID:
			defer close(fetched)
		}
		waiting <- task.Backlog(ctx)
		return passOn(ctx, task)
	})
	r.prefilling(prefill)
	want := func(job string, n int, next uint64) {
		t.Helper()
		if b := <-waiting; b.Intake != n || b.Has(protocol.Place{Sequence: next - 1}) || !b.Has(protocol.Place{Sequence: next}) {
			t.Errorf("%s sees %d jobs in the intake and that %v were fetched last, want %d and %d", job, b.Intake, b.Fetched, n, next-1)
		}
	}
	r.submit(class)
	want("the first of a class", 41, 2)
	r.submit(next)
	want("the second", 40, 3)
	want("the first, when the second was fetched", 40, 3)
	r.results(class, next)
	r.submit(alone)
	want("another", 1, 4)
	r.result(alone)
}

// A job that is left to others is taken all the same when nobody comes for it.
func TestDeclineEnds(t *testing.T) {
	w := &Worker{cfg: WorkerConfig{Next: leave}, members: newMembership(testModel, Timing{}, time.Now())}
	i := &intake{w: w}
	defer i.stop()
	b := protocol.Backlog{Head: testJob(jobs.Batch), Intake: 1}
	if i.choose(0, b).Take {
		t.Error("taken at once")
	}
	if i.choose(1, protocol.Backlog{Head: testJob(jobs.Batch), Intake: 1}).Take {
		t.Error("that of another lane is taken at once")
	}
	i.declined[0].until = time.Now().Add(-time.Second)
	if !i.choose(0, b).Take {
		t.Error("left for ever")
	}
	if i.choose(0, protocol.Backlog{Head: testJob(jobs.Batch), Intake: 1}).Take {
		t.Error("the next one is taken at once")
	}
	if !errors.Is(jobs.ErrPreempted, jobs.ErrPreempted) || protocol.Classify(jobs.ErrPreempted) != protocol.HandBack {
		t.Error("a job that gave way counts an attempt")
	}
}
