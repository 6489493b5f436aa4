package queue

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// held is an engine whose jobs run until the test lets them go, and which says what becomes of each.
type held struct {
	t                          testing.TB
	prepared, begun, discarded chan string // ids of jobs
	done                       book

	mu   sync.Mutex
	goOn map[string]chan struct{}
}

func newHeld(t testing.TB) *held {
	return &held{t: t, prepared: make(chan string, 100), begun: make(chan string, 100), discarded: make(chan string, 100), goOn: map[string]chan struct{}{}}
}

func (h *held) gate(id string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.goOn[id] == nil {
		h.goOn[id] = make(chan struct{})
	}
	return h.goOn[id]
}

// let lets jobs end.
func (h *held) let(list ...*jobs.Job) {
	for _, j := range list {
		close(h.gate(j.ID))
	}
}

func (h *held) run(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
	return h.done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		task.Expect(enough)
		h.begun <- task.Job.ID
		select {
		case <-h.gate(task.Job.ID):
			return answer(ctx, task)
		case <-ctx.Done():
			return protocol.Outcome{}, context.Cause(ctx)
		}
	})(ctx, task)
}

// ahead has a worker fetch one job ahead of each slot.
func (h *held) ahead(c *WorkerConfig) {
	c.Ahead = 1
	c.Prepare = func(_ context.Context, task *protocol.Task) func() {
		h.prepared <- task.Job.ID
		return func() { h.discarded <- task.Job.ID }
	}
}

// next waits for the next job that something happens to, and checks which one it is.
func (h *held) next(what string, happened chan string, want *jobs.Job) {
	h.t.Helper()
	select {
	case id := <-happened:
		if id != want.ID {
			h.t.Fatalf("job %s is %s, want %s", id, what, want.ID)
		}
	case <-time.After(enough):
		h.t.Fatalf("no job is %s", what)
	}
}

// lined waits until so many deliveries wait at the worker for a slot, all of them prepared.
func (s *station) lined(n int) {
	s.rig.t.Helper()
	s.rig.eventually("jobs that wait for a slot", func() bool {
		s.waiting.mu.Lock()
		defer s.waiting.mu.Unlock()
		return len(s.waiting.waiters) == n && !slices.ContainsFunc(s.waiting.waiters, func(t *slotWaiter) bool { return !t.ready })
	})
}

// known waits until the worker knows that so many others have so many slots free.
func (s *station) known(peers, idle int) {
	s.rig.t.Helper()
	s.rig.eventually("view of the other workers", func() bool {
		view, _ := s.members.snapshot()
		return view.peers == peers && view.idleSlots == idle
	})
}

// While a job runs, the next one is prepared, and no third is fetched. Its wait is no silence of the engine.
func TestAheadWhileBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	list := several(3, jobs.Batch)
	r.start(protocol.RoleDecode, 1, h.run, h.ahead, func(c *WorkerConfig) { c.StallLimit = 500 * time.Millisecond })
	r.relay(list[0])
	h.next("begun", h.begun, list[0])
	r.relay(list[1:]...)
	h.next("prepared", h.prepared, list[1])
	r.remains("two jobs fetched, and one runs", 1500*time.Millisecond, func() bool {
		return r.unacknowledged(protocol.RoleDecode) == 2 && h.done.times() == 1
	})
	h.let(list[0])
	h.next("begun", h.begun, list[1])
	h.next("prepared", h.prepared, list[2])
	h.let(list[1:]...)
	found := r.results(list...)
	gone := []string{<-h.discarded, <-h.discarded} // after their records, so in any order
	if slices.Sort(gone); !slices.Equal(gone, []string{list[1].ID, list[2].ID}) {
		t.Errorf("discarded what was prepared for %q, want the two that waited", gone)
	}
	if _, attempts := h.done.list(); !slices.Equal(attempts, []int{1, 1, 1}) {
		t.Errorf("attempts = %v, want none counted", attempts)
	}
	if n := r.state("KV_" + BucketHandbacks).Msgs; n != 0 {
		t.Errorf("%d histories were written, want none", n)
	}
	if waited := found[1].Timings.QueueDecodeSeconds; waited < 1.5 {
		t.Errorf("the job that waited says %v s, want its time ahead to count", waited)
	}
	if len(h.prepared) != 0 {
		t.Error("a job was prepared that had a slot")
	}
}

// Those that wait begin in the order of class and arrival.
func TestAheadInteractiveFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	batch, urgent := several(3, jobs.Batch), several(2, jobs.Interactive)
	s := r.start(protocol.RoleDecode, 1, h.run, h.ahead)
	r.relay(batch[0])
	h.next("begun", h.begun, batch[0])
	r.relay(batch[1:]...)
	h.next("prepared", h.prepared, batch[1])
	r.relay(urgent...)
	h.next("prepared", h.prepared, urgent[0])
	s.lined(2)
	h.let(batch...)
	h.next("begun", h.begun, urgent[0])
	h.next("prepared", h.prepared, urgent[1])
	s.lined(2)
	h.let(urgent...)
	r.results(slices.Concat(batch, urgent)...)
	var want []string
	for _, j := range slices.Concat(batch[:1], urgent, batch[1:]) {
		want = append(want, "decode "+j.ID)
	}
	if ran, _ := h.done.list(); !slices.Equal(ran, want) {
		t.Errorf("order = %q, want %q", ran, want)
	}
}

// An interactive job stays where the first of several workers finds it, and begins before the batch job that waits there.
func TestInteractiveGoesToTheFirstFreeWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	list := several(4, jobs.Batch)
	first, second := r.start(protocol.RoleDecode, 1, h.run, h.ahead), r.start(protocol.RoleDecode, 1, h.run, h.ahead)
	first.known(1, 1)
	second.known(1, 1)
	r.relay(list...)
	first.lined(1)
	second.lined(1)
	urgent := testJob(jobs.Interactive)
	r.relay(urgent)
	r.remains("the interactive job in its stream", 300*time.Millisecond, func() bool { return r.unacknowledged(protocol.RoleDecode) == 4 })
	running := []string{<-h.begun, <-h.begun}
	h.let(&jobs.Job{ID: running[1]})
	h.next("begun", h.begun, urgent)
	for _, j := range append(list, urgent) {
		if j.ID != running[1] {
			h.let(j)
		}
	}
	r.results(append(list, urgent)...)
	if _, attempts := h.done.list(); !slices.Equal(attempts, []int{1, 1, 1, 1, 1}) {
		t.Errorf("attempts = %v, want none counted", attempts)
	}
}

// A job that is cancelled while it waits, or is prepared, ends at once and leaves nothing, and another gets its place.
func TestAheadCancelled(t *testing.T) {
	t.Parallel()
	for _, preparing := range []bool{false, true} {
		t.Run(map[bool]string{false: "waiting", true: "being prepared"}[preparing], func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			h := newHeld(t)
			list := several(3, jobs.Batch)
			s := r.start(protocol.RoleDecode, 1, h.run, h.ahead, func(c *WorkerConfig) {
				if ready := c.Prepare; preparing {
					c.Prepare = func(ctx context.Context, task *protocol.Task) func() {
						if task.Job.ID == list[1].ID {
							defer func() { <-ctx.Done() }()
						}
						return ready(ctx, task)
					}
				}
			})
			r.relay(list[0])
			h.next("begun", h.begun, list[0])
			r.relay(list[1])
			h.next("prepared", h.prepared, list[1])
			if !preparing {
				s.lined(1)
			}
			r.relay(list[2])
			if got, err := r.client().Cancel(t.Context(), list[1].ID); err != nil || got.Status != jobs.Cancelled {
				t.Errorf("Cancel = %+v, %v", got, err)
			}
			if len(h.discarded) != 1 {
				t.Error("the cancel was answered before what was prepared was removed")
			}
			h.next("discarded", h.discarded, list[1])
			h.next("prepared", h.prepared, list[2])
			h.let(list[0], list[2])
			if res := r.results(list...)[1]; res.Status != jobs.Cancelled {
				t.Errorf("result = %+v", res)
			}
			if n := h.done.times(); n != 2 {
				t.Errorf("%d runs, want the two of the others", n)
			}
		})
	}
}

// A job whose end this worker did not hear of is found out before it begins.
func TestAheadEndedUnheard(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	list := several(2, jobs.Batch)
	s := r.start(protocol.RoleDecode, 1, h.run, h.ahead)
	r.relay(list[0])
	h.next("begun", h.begun, list[0])
	r.relay(list[1])
	s.lined(1)
	end := jobs.NewResult(list[1], jobs.Cancelled)
	end.Error = &jobs.ErrorInfo{Code: jobs.CodeCancelled, Message: "cancelled"}
	if first, err := r.PublishResult(t.Context(), end, ""); err != nil || !first {
		t.Fatalf("publish result: first = %t, %v", first, err)
	}
	r.eventually("the worker hears of it", func() bool {
		d, _ := s.running.Load(protocol.SubjectOf(list[1], jobs.StageDecode))
		n, _, err := d.(*delivery).ends.Pending()
		return err == nil && n == 1
	})
	h.let(list[0])
	r.results(list...)
	h.next("discarded", h.discarded, list[1])
	if n := h.done.times(); n != 1 {
		t.Errorf("%d runs, want that of the other job", n)
	}
}

// The deadline of a job that waits passes.
func TestAheadExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	first := testJob(jobs.Batch)
	r.start(protocol.RoleDecode, 1, h.run, h.ahead)
	r.relay(first)
	h.next("begun", h.begun, first)
	soon := testJob(jobs.Batch, func(j *jobs.Job) { j.Deadline = time.Now().Add(3 * time.Second) }) // for a busy machine to fetch it
	r.relay(soon)
	h.next("prepared", h.prepared, soon)
	if res := r.result(soon); res.Status != jobs.Expired || res.Error.Code != jobs.CodeDeadline {
		t.Errorf("result = %+v, error %+v", res, res.Error)
	}
	h.next("discarded", h.discarded, soon)
	h.let(first)
	r.results(first, soon)
	h.done.once(t, jobs.StageDecode, []*jobs.Job{first})
}

// A worker that drains finishes what runs, and hands back at once what waits or is being prepared.
func TestAheadIsHandedBackByDrain(t *testing.T) {
	t.Parallel()
	for _, preparing := range []bool{false, true} {
		t.Run(map[bool]string{false: "waiting", true: "being prepared"}[preparing], func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			h := newHeld(t)
			s := r.start(protocol.RoleDecode, 1, h.run, h.ahead, func(c *WorkerConfig) {
				if ready := c.Prepare; preparing {
					c.Prepare = func(ctx context.Context, task *protocol.Task) func() {
						defer func() { <-ctx.Done() }()
						return ready(ctx, task)
					}
				}
			})
			list := several(2, jobs.Batch)
			r.relay(list[0])
			h.next("begun", h.begun, list[0])
			r.relay(list[1])
			h.next("prepared", h.prepared, list[1])
			if !preparing {
				s.lined(1)
			}
			s.drain()
			h.next("discarded", h.discarded, list[1])
			r.start(protocol.RoleDecode, 1, h.run) // the other still runs
			h.next("begun", h.begun, list[1])
			h.let(list...)
			r.results(list...)
			if _, attempts := h.done.list(); !slices.Equal(attempts, []int{1, 1}) {
				t.Errorf("attempts = %v, want none counted", attempts)
			}
			if err := s.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A job that waits goes to a worker that has nothing to do, and is fetched there once.
func TestAheadGoesToIdleWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	list := several(2, jobs.Batch)
	first := r.start(protocol.RoleDecode, 1, h.run, h.ahead)
	r.relay(list[0])
	h.next("begun", h.begun, list[0])
	r.relay(list[1])
	h.next("prepared", h.prepared, list[1])
	first.lined(1)
	second := r.start(protocol.RoleDecode, 1, h.run, h.ahead)
	h.next("begun", h.begun, list[1])
	h.next("discarded", h.discarded, list[1])
	second.known(1, 0)
	if n := len(h.prepared); n != 0 {
		t.Errorf("%d jobs were prepared though a slot was free", n)
	}
	h.let(list...)
	r.results(list...)
	if _, attempts := h.done.list(); !slices.Equal(attempts, []int{1, 1}) {
		t.Errorf("attempts = %v, want none counted", attempts)
	}
	if got := r.uncounted(list[1]); got.HandBacks != 1 {
		t.Errorf("history = %+v, want one hand-back", got)
	}
}

// While another worker has a slot free, nothing is fetched ahead.
func TestNothingAheadOfAnIdleWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	s := r.start(protocol.RoleDecode, 1, h.run, h.ahead)
	j := testJob(jobs.Batch)
	r.relay(j)
	h.next("begun", h.begun, j)
	r.start(protocol.RoleDecode, 2, h.run, h.ahead, func(c *WorkerConfig) { // which does not take any, whatever it says
		c.Ready = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	})
	s.known(1, 2)
	other := testJob(jobs.Batch)
	r.relay(other)
	r.remains("one job fetched", 600*time.Millisecond, func() bool { return len(h.prepared) == 0 && h.done.times() == 1 })
	h.let(j, other)
	r.results(j, other)
	if n := len(h.prepared); n != 0 {
		t.Errorf("%d jobs were prepared, want none", n)
	}
}

// A worker dies with one job at work and one that waits. Each ends once.
func TestWorkerDiesWithOneAhead(t *testing.T) {
	t.Parallel()
	r := newRig(t, ackWait(3*time.Second))
	h := newHeld(t)
	list := several(2, jobs.Batch)
	first := r.start(protocol.RoleDecode, 1, h.run, h.ahead)
	r.relay(list[0])
	h.next("begun", h.begun, list[0])
	r.relay(list[1])
	first.lined(1)
	first.kill()
	r.start(protocol.RoleDecode, 1, answer, h.ahead)
	for _, res := range r.results(list...) {
		if res.Status != jobs.Succeeded || res.Attempts.Decode != 2 {
			t.Errorf("result = %+v", res)
		}
	}
}

// A job that waits beside others that kill its workers loses one attempt to that, not all of them; what happens when it runs counts.
func TestAheadIsBlamedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, ackWait(2*time.Second))
	h := newHeld(t)
	j := testJob(jobs.Batch)
	r.relay(j)
	r.lose(protocol.RoleDecode)
	handBacks := func(want int) {
		t.Helper()
		if got, _, err := r.readHistory(t.Context(), historyKey(jobs.StageDecode, j.User, j.ID)); err != nil || got.HandBacks != want {
			t.Errorf("history = %+v, %v; want %d hand-backs", got, err, want)
		}
	}
	for died := range 3 {
		s := r.prepare(protocol.RoleDecode, 1, h.run, h.ahead)
		release, err := s.slots.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.begin()
		s.lined(1)
		handBacks(died + 1)
		if died < 2 {
			s.kill()
			continue
		}
		release()
	}
	h.next("begun", h.begun, j)
	handBacks(2)
	h.let(j)
	if res := r.results(j)[0]; res.Status != jobs.Succeeded || res.Attempts.Decode != 2 {
		t.Errorf("result = %+v, want the second attempt to succeed", res)
	}
}

// A job that waits is handed back when the engine cannot work any more.
func TestAheadOfAnEngineThatIsDown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	list := several(2, jobs.Batch)
	down := make(chan struct{})
	s := r.start(protocol.RoleDecode, 1, h.run, h.ahead, func(c *WorkerConfig) {
		c.Ready = func(ctx context.Context) error {
			select {
			case <-down:
				<-ctx.Done()
				return context.Cause(ctx)
			default:
				return nil
			}
		}
	})
	r.relay(list[0])
	h.next("begun", h.begun, list[0])
	r.relay(list[1])
	s.lined(1)
	close(down)
	h.next("discarded", h.discarded, list[1])
	if got := r.uncounted(list[1]); got.HandBacks != 1 {
		t.Errorf("history = %+v, want one hand-back", got)
	}
	h.let(list...)
	r.result(list[0])
	r.start(protocol.RoleDecode, 1, h.run)
	r.results(list...)
}

// Jobs of the intake that wait at a decode worker go back when there is a prefill worker.
func TestAheadGoesBackToPrefill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	s := r.start(protocol.RoleDecode, 1, h.run, h.ahead)
	list := several(2, jobs.Batch)
	r.submit(list[0])
	h.next("begun", h.begun, list[0])
	r.submit(list[1])
	s.lined(1)
	r.startPrefill(1, passOn)
	h.next("discarded", h.discarded, list[1])
	h.let(list...)
	found := r.results(list...)
	if found[0].Method != jobs.MethodFallback || found[1].Method != jobs.MethodDisaggregated {
		t.Errorf("methods %s and %s, want the second to be prefilled", found[0].Method, found[1].Method)
	}
}

// Whoever else uses the slots, those that wait get what becomes free.
func TestAheadSharesSlots(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	s := r.prepare(protocol.RoleDecode, 2, h.run, h.ahead)
	var releases []func()
	for range 2 {
		release, err := s.slots.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	s.begin()
	list := several(2, jobs.Batch)
	r.relay(list...)
	s.lined(2)
	for _, release := range releases {
		release()
	}
	ran := []string{<-h.begun, <-h.begun}
	if slices.Sort(ran); !slices.Equal(ran, []string{list[0].ID, list[1].ID}) { // ids are in order
		t.Errorf("ran %q", ran)
	}
	h.let(list...)
	r.results(list...)
}

// What panics while it is prepared runs all the same.
func TestPanicAhead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	list := several(2, jobs.Batch)
	r.start(protocol.RoleDecode, 1, h.run, func(c *WorkerConfig) {
		c.Ahead = 1
		c.Prepare = func(_ context.Context, task *protocol.Task) func() {
			h.prepared <- task.Job.ID
			panic("a prompt: " + task.Job.Prompt)
		}
	})
	r.relay(list[0])
	h.next("begun", h.begun, list[0])
	r.relay(list[1])
	h.next("prepared", h.prepared, list[1])
	h.let(list...)
	r.results(list...)
	h.done.once(t, jobs.StageDecode, list)
}

// The next job begins while the record of the last one is still to be published.
func TestSlotIsFreeBeforeThePublish(t *testing.T) {
	t.Parallel()
	for _, ahead := range []int{0, 1} {
		r := newRig(t)
		h := newHeld(t)
		list := several(2, jobs.Batch)
		s := r.prepare(protocol.RoleDecode, 1, h.run, func(c *WorkerConfig) { c.Ahead = ahead })
		publish := make(chan struct{})
		s.conn.js = beforePublish{s.conn.js, func() { <-publish }}
		s.begin()
		r.relay(list...)
		h.next("begun", h.begun, list[0])
		h.let(list[0])
		h.next("begun", h.begun, list[1])
		if n := r.waiting(StreamResults); n != 0 {
			t.Errorf("%d results, want none yet", n)
		}
		close(publish)
		h.let(list[1])
		r.results(list...)
	}
}

func TestLine(t *testing.T) {
	l := newSlotQueue()
	at := func(class jobs.Class) source {
		return source{StreamRelay, protocol.ConsumerName(protocol.RoleDecode, testModel, class)}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiters []*slotWaiter
	for _, class := range []jobs.Class{jobs.Batch, jobs.Interactive, jobs.Batch, jobs.Interactive} {
		waiters = append(waiters, l.join(ctx, at(class)))
	}
	if same, before := l.counts(at(jobs.Interactive)); same != 2 || before != 2 {
		t.Errorf("an interactive newcomer finds %d of its class and goes behind %d, want 2 and 2", same, before)
	}
	if same, before := l.counts(at(jobs.Batch)); same != 2 || before != 4 {
		t.Errorf("a batch newcomer finds %d of its class and goes behind %d, want 2 and 4", same, before)
	}
	if l.first() != waiters[1] || l.next(4) != nil {
		t.Error("want the first interactive one first, and nobody ready")
	}
	type end struct {
		waiter int
		slot   slotGrant
		err    error
	}
	ends := make(chan end, len(waiters))
	var waiting sync.WaitGroup
	for _, step := range []struct{ ready, none, free, next int }{ // with none slots free nobody begins, with free the next
		{2, 2, 3, 2}, // two are for the interactive ones
		{0, 2, 3, 0}, {1, 0, 1, 1}, {3, 0, 1, 1},
	} {
		waiter, moved := waiters[step.ready], l.changes()
		waiting.Go(func() {
			s, err := waiter.wait(waiter.waits)
			ends <- end{step.ready, s, err}
		})
		<-moved
		if l.next(step.none) != nil || l.next(step.free) != waiters[step.next] {
			t.Errorf("when waiter %d is ready, somebody begins with %d free slots, or not waiter %d with %d", step.ready, step.none, step.next, step.free)
		}
	}
	for _, i := range []int{1, 3, 0} {
		next, released := l.next(1), false
		if next != waiters[i] || !next.grant(slotGrant{release: func() { released = true }}) {
			t.Fatalf("waiter %d is not next", i)
		}
		got := <-ends
		if got.waiter != i || got.err != nil {
			t.Errorf("waiter %d got a slot, %v; want %d", got.waiter, got.err, i)
		}
		if got.slot.release(); !released {
			t.Error("it is another slot")
		}
		if next.grant(slotGrant{}) || next.remove() {
			t.Error("a waiter that has gone gets another slot")
		}
	}
	l.handBack(func(t *slotWaiter) bool { return t == waiters[2] })
	if got := <-ends; got.waiter != 2 || got.err == nil || l.first() != nil {
		t.Errorf("waiter %d ended with %v; want the dismissed one to leave", got.waiter, got.err)
	}
	cancel()
	waiting.Wait()
}

// An interactive job that waits at the only worker goes back when there is another, which may have a slot for it first.
func TestInteractiveGoesBackToBeShared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHeld(t)
	first, urgent := testJob(jobs.Batch), testJob(jobs.Interactive)
	s := r.start(protocol.RoleDecode, 1, h.run, h.ahead)
	r.relay(first)
	h.next("begun", h.begun, first)
	r.relay(urgent)
	s.lined(1)
	other := r.prepare(protocol.RoleDecode, 1, h.run, h.ahead)
	release, err := other.slots.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other.begin()
	h.next("discarded", h.discarded, urgent)
	release()
	h.next("begun", h.begun, urgent)
	h.let(first, urgent)
	r.results(first, urgent)
	if _, attempts := h.done.list(); !slices.Equal(attempts, []int{1, 1}) {
		t.Errorf("attempts = %v, want none counted", attempts)
	}
}
