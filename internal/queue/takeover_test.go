package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// With no live prefill worker the decode worker takes the intake, and gives it back when one is there.
func TestTakeover(t *testing.T) {
	t.Parallel()
	r := newRig(t, presenceTTL(4*time.Second))
	var prefills, decodes book
	prefill := r.startPrefill(1, prefills.note(passOn))
	r.start(protocol.RoleDecode, 2, decodes.note(answer))
	r.present("both", func(list []Presence) bool { return len(list) == 2 })
	job := func() (*jobs.Job, *jobs.Result) {
		j := testJob(jobs.Batch)
		r.submit(j)
		return j, r.result(j)
	}
	if _, res := job(); res.Method != jobs.MethodDisaggregated {
		t.Errorf("with a prefill worker: %+v", res)
	}

	prefill.kill()
	_, res := job()
	if res.Method != jobs.MethodFallback || res.Decision != "there is no live prefill worker" {
		t.Errorf("after its death: %+v", res)
	}
	local := testJob(jobs.Batch, func(j *jobs.Job) { j.Plan = jobs.PlanLocal })
	r.submit(local)
	if res := r.result(local); res.Method == jobs.MethodFallback {
		t.Errorf("a job that was to be local: %+v", res)
	}

	r.start(protocol.RolePrefill, 1, prefills.note(passOn))
	r.eventually("given back", func() bool {
		_, res := job()
		return res.Method == jobs.MethodDisaggregated
	})
	r.asking(protocol.RolePrefill, 2)
	for range 10 {
		if _, res := job(); res.Method != jobs.MethodDisaggregated {
			t.Errorf("with a new prefill worker: %+v", res)
		}
	}
}

// A prefill worker whose engine is down does not keep its jobs from the decode worker.
func TestTakeoverFromWorkerThatIsDown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(protocol.RoleDecode, 1, answer)
	r.start(protocol.RolePrefill, 1, passOn, func(c *WorkerConfig) {
		c.Describe = func() Presence { return Presence{State: StateDown, Slots: 1} }
		c.Ready = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	})
	j := testJob(jobs.Batch)
	r.submit(j)
	if res := r.results(j)[0]; res.Method != jobs.MethodFallback {
		t.Errorf("result = %+v", res)
	}
}

// However long the queue, it is not taken over while a prefill worker lives.
func TestBacklogIsNoReasonToTakeOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var prefills book
	r.startPrefill(1, prefills.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		<-time.After(10 * time.Millisecond) // so that the queue is long for a while
		return passOn(ctx, task)
	}))
	r.start(protocol.RoleDecode, 4, answer)
	list := several(100, jobs.Batch)
	r.submit(list...)
	for _, res := range r.results(list...) {
		if res.Method != jobs.MethodDisaggregated {
			t.Errorf("result = %+v", res)
		}
	}
	prefills.once(t, jobs.StagePrefill, list)
}

// Prefill stops when decode holds two jobs a slot, and goes on when it has done some.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	goOn := make(chan struct{})
	var prefills, decodes book
	r.startPrefill(3, prefills.note(passOn))
	r.start(protocol.RoleDecode, 2, decodes.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		<-goOn
		return answer(ctx, task)
	}))
	list := several(20, jobs.Batch)
	r.submit(list...)
	const limit = slotsOfQueue * 2
	r.eventually("a full decode queue", func() bool { return r.waiting(StreamRelay) == limit })
	r.remains("no more than that", time.Second, func() bool { return prefills.times() == limit && r.waiting(StreamRelay) == limit })
	goOn <- struct{}{}
	r.eventually("one more prefill", func() bool { return prefills.times() == limit+1 })
	r.remains("no more than one", 500*time.Millisecond, func() bool { return prefills.times() == limit+1 })
	close(goOn)
	r.results(list...)
	prefills.once(t, jobs.StagePrefill, list)
}

// Without a decode worker jobs stay in the intake, where anybody can take them.
func TestNoDecodeWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var prefills book
	r.start(protocol.RolePrefill, 1, prefills.note(passOn))
	list := several(3, jobs.Batch)
	r.submit(list...)
	r.remains("no job fetched", 500*time.Millisecond, func() bool { return r.unacknowledged(protocol.RolePrefill) == 0 && prefills.times() == 0 })
	decode := r.start(protocol.RoleDecode, 1, answer)
	r.results(list...)

	// Nor when the decode worker goes while prefill waits for a job.
	r.asking(protocol.RolePrefill, 2)
	if err := decode.stop(); err != nil {
		t.Error(err)
	}
	r.asking(protocol.RolePrefill, 0)
}

func TestGate(t *testing.T) {
	slots, depth, asked := 0, 0, 0
	changed := make(chan struct{})
	g := &gate{
		slots: func() (int, <-chan struct{}) { return slots, changed },
		depth: func(context.Context) (int, error) { asked++; return depth, nil },
	}
	open := func(want bool, questions int) {
		t.Helper()
		if got := g.open(t.Context()); got != want || asked != questions {
			t.Errorf("open = %t after %d questions, want %t after %d", got, asked, want, questions)
		}
	}
	open(false, 0) // no decode worker
	slots = 2
	open(true, 1)
	open(true, 1) // known
	var ends []func(time.Time)
	for range 3 {
		ends = append(ends, g.begin())
	}
	open(true, 1)
	ends = append(ends, g.begin())
	open(false, 2) // four at work here will fill the queue
	for _, end := range ends {
		end(time.Now())
	}
	if n := g.last(); n != 4 {
		t.Errorf("%d jobs at decode, as far as is known, want the 4 that were handed over", n)
	}
	open(true, 3) // handed over, and done by decode already
	depth = 4
	g.asked = time.Time{}
	open(false, 4) // others have filled it
	if n := g.last(); n != 4 || asked != 4 {
		t.Errorf("%d jobs at decode after %d questions, want 4 after 4", n, asked)
	}
	depth = 0
	open(true, 5)
	depth = 1
	end, handed := g.begin(), time.Now()
	g.asked = time.Time{}
	open(true, 6) // which counts what is being handed over
	end(handed)
	if n := g.last(); n != 1 {
		t.Errorf("%d jobs at decode, as far as is known, want the one", n)
	}
	open(true, 7) // it may not have
	g.depth = func(context.Context) (int, error) { return 0, errors.New("no answer") }
	g.asked = time.Time{}
	if g.open(t.Context()) {
		t.Error("open without an answer")
	}
}

func TestFleet(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	f := newMembership("m:1", Timing{Beat: 3 * time.Second, PresenceTTL: 10 * time.Second}, start)
	view, changed := f.snapshot()
	expect := func(slots int, noPrefill, notified bool) {
		t.Helper()
		got, next := f.snapshot()
		if want := (snapshot{decodeSlots: slots, noPrefill: noPrefill}); got != want {
			t.Errorf("membership = %+v, want %+v", got, want)
		}
		select {
		case <-changed:
			if !notified {
				t.Error("a change was announced that is none")
			}
		default:
			if notified {
				t.Error("the change was not announced")
			}
		}
		changed = next
	}
	if view != (snapshot{}) {
		t.Errorf("first membership = %+v", view)
	}
	p := func(role jobs.Stage, model, state string) *Presence {
		return &Presence{Role: role, Model: model, State: state, Slots: 2}
	}
	f.expire(at(900 * time.Millisecond))
	expect(0, false, false) // within the grace of a third of a beat
	f.expire(at(time.Second))
	expect(0, true, true)
	f.record("a", p(protocol.RoleDecode, "m:1", StateReady), at(time.Second))
	f.record("b", p(protocol.RoleDecode, "m:1", StateLoading), at(time.Second))
	expect(4, true, true)
	f.record("c", p(protocol.RoleDecode, "other:1", StateReady), at(time.Second))
	f.record("d", p(protocol.RolePrefill, "m:1", StateDown), at(time.Second))
	expect(4, true, false)
	f.record("d", p(protocol.RolePrefill, "m:1", StateReady), at(2*time.Second))
	expect(4, false, true)
	f.record("b", nil, at(3*time.Second))
	expect(2, false, true)
	f.record("d", p(protocol.RolePrefill, "m:1", StateDraining), at(3*time.Second))
	expect(2, false, false) // a restart may be over in a moment
	f.expire(at(4 * time.Second))
	expect(2, true, true)
	f.expire(at(11 * time.Second)) // a was heard at 1 s
	expect(2, true, false)
	f.extend(at(12 * time.Second))
	f.expire(at(13 * time.Second))
	expect(2, true, false)
	f.expire(at(23 * time.Second))
	expect(0, true, true)
}

func TestStallLimit(t *testing.T) {
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	p := newStallWatchdog(10*time.Second, start)
	left := func(now, want int) {
		t.Helper()
		if got := p.left(at(now)); got != time.Duration(want)*time.Second {
			t.Errorf("at %d s %v are left, want %d s", now, got, want)
		}
	}
	left(4, 6)
	p.progress(at(5))
	left(5, 10)
	p.expect(30*time.Second, at(6))
	p.progress(at(7)) // does not shorten what is expected
	left(8, 28)
	p.expect(time.Second, at(9))
	left(9, 27)
	left(40, -4)
}

func TestServerClock(t *testing.T) {
	var c serverClock
	start := time.Now()
	if got := c.at(start); !got.Equal(start) {
		t.Errorf("before any reading: %v, want the local time", got)
	}
	ahead := start.Add(time.Hour)
	c.observe(start, start.Add(2*time.Second), ahead.Add(time.Second)) // exact by chance
	c.observe(start, start.Add(4*time.Second), ahead)                  // less exact: not taken
	if got := c.at(start.Add(time.Minute)); !got.Equal(ahead.Add(time.Minute)) {
		t.Errorf("a minute later: %v, want %v", got, ahead.Add(time.Minute))
	}
	if got := c.since(ahead, start.Add(3*time.Second)); got != 3*time.Second {
		t.Errorf("since = %v, want 3 s", got)
	}
	if got := c.since(ahead.Add(time.Minute), start); got != 0 {
		t.Errorf("since an instant to come = %v, want 0", got)
	}
	if got := c.skew(start); got != -time.Hour {
		t.Errorf("skew = %v, want -1h", got)
	}
	late := start.Add(2 * sampleAge)
	c.observe(late, late.Add(10*time.Second), late.Add(5*time.Second)) // old readings are worth less
	if got := c.skew(late); got != 0 {
		t.Errorf("skew after the server's clock was set = %v, want 0", got)
	}
	soon := late.Add(time.Second)
	c.observe(soon, soon.Add(20*time.Second), soon.Add(18*time.Second)) // 8 s off, within what both may be wrong
	if got := c.skew(soon); got != 0 {
		t.Errorf("skew after a less exact reading = %v, want 0", got)
	}
	c.observe(soon, soon.Add(20*time.Second), soon.Add(-time.Hour)) // no clock goes so wrong by itself
	if got := c.skew(soon); got != time.Hour+10*time.Second {
		t.Errorf("skew after the server's clock was set back by an hour = %v", got)
	}
}

func TestHistory(t *testing.T) {
	for _, tt := range []struct{ delivered, handBacks, want int }{{1, 0, 1}, {3, 1, 2}, {3, 2, 1}, {1, 2, 1}} {
		if got := (history{HandBacks: tt.handBacks}).attempt(tt.delivered); got != tt.want {
			t.Errorf("delivery %d with %d hand-backs is attempt %d, want %d", tt.delivered, tt.handBacks, got, tt.want)
		}
	}
	r := newRig(t)
	kv, err := r.js.KeyValue(t.Context(), BucketHandbacks)
	if err != nil {
		t.Fatal(err)
	}
	const n = 8
	failed := make(chan error, n)
	for range n { // at the same time
		go func() {
			failed <- r.changeHistory(t.Context(), kv, "job.decode", func(h *history) { h.HandBacks++ })
		}()
	}
	for range n {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if h, _, err := r.readHistory(t.Context(), "job.decode"); err != nil || h.HandBacks != n {
		t.Errorf("history = %+v, %v; want %d hand-backs", h, err, n)
	}
}
