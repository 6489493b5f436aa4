package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Users of different lanes.
const (
	ada  = "ada"  // batch-5
	alan = "alan" // batch-3
)

// classOf is a batch of n jobs of a user.
func classOf(user string, n int, change ...func(*jobs.Job)) (list []*jobs.Job) {
	for range n {
		list = append(list, testJob(jobs.Batch, append(change, func(j *jobs.Job) { j.User = user })...))
	}
	return list
}

// enter publishes jobs as the submitter does.
func (r *rig) enter(list ...*jobs.Job) {
	r.t.Helper()
	for _, j := range list {
		r.publish(protocol.SubjectOf(j, jobs.StagePrefill), j.ID+".prefill", j)
	}
}

// counted waits until no worker believes what it counted before now.
func (r *rig) counted() {
	r.t.Helper()
	old := time.Now()
	r.eventually("the lanes are counted anew", func() bool { return time.Since(old) > depthAge })
}

// register notes who came when.
type register struct {
	mu    sync.Mutex
	users []string
	ids   map[string][]string
	gate  chan struct{} // closed when jobs may end
	began chan string   // ids
}

func newRegister() *register {
	return &register{ids: map[string][]string{}, gate: make(chan struct{}), began: make(chan string, 1000)}
}

// note wraps a Run function, whose jobs wait for the gate.
func (g *register) note(run func(context.Context, *protocol.Task) (protocol.Outcome, error)) func(context.Context, *protocol.Task) (protocol.Outcome, error) {
	return func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
		g.mu.Lock()
		g.users = append(g.users, t.Job.User)
		g.ids[t.Job.User] = append(g.ids[t.Job.User], t.Job.ID)
		g.mu.Unlock()
		g.began <- t.Job.ID
		select {
		case <-g.gate:
		case <-ctx.Done():
			return protocol.Outcome{}, context.Cause(ctx)
		}
		return run(ctx, t)
	}
}

// list is whose jobs began, in this order.
func (g *register) list() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.users)
}

// inOrder checks that a user's jobs began in the order of the list.
func (g *register) inOrder(t *testing.T, list []*jobs.Job) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if got := g.ids[list[0].User]; !slices.Equal(got, ids(list)) {
		t.Errorf("jobs of %s began in the order %q, want %q", list[0].User, got, ids(list))
	}
}

// whole does a request at one machine.
func whole(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	o, err := answer(ctx, t)
	o.Result.Method, o.Result.Attempts = jobs.MethodLocal, jobs.Attempts{Prefill: t.Attempt}
	return o, err
}

func choosing(c *WorkerConfig) { c.Next = take }

// Two users' classes, of which the second comes while the first is under way, end side by side, whoever takes the jobs.
func TestUsersTakeTurns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan  func(*jobs.Job)
		start func(*rig, *register)
	}{
		"prefill worker": {func(*jobs.Job) {}, func(r *rig, g *register) {
			r.prefilling(r.prepare(protocol.RolePrefill, 1, g.note(passOn)))
		}},
		"prefill worker, two slots": {func(*jobs.Job) {}, func(r *rig, g *register) {
			r.prefilling(r.prepare(protocol.RolePrefill, 2, g.note(passOn)))
		}},
		"fallback": {func(*jobs.Job) {}, func(r *rig, g *register) { r.start(protocol.RoleDecode, 1, g.note(answer)) }},
		"fallback, none ahead": {func(*jobs.Job) {}, func(r *rig, g *register) {
			r.start(protocol.RoleDecode, 1, g.note(answer), noneAhead)
		}},
		"auto, whole at prefill": {planned, func(r *rig, g *register) {
			r.prefilling(r.prepare(protocol.RolePrefill, 1, g.note(whole), choosing))
		}},
		"auto, whole at decode": {planned, func(r *rig, g *register) {
			r.idlePrefill()
			r.start(protocol.RoleDecode, 1, g.note(answer), choosing)
		}},
		"auto, no prefill worker": {planned, func(r *rig, g *register) { r.start(protocol.RoleDecode, 1, g.note(answer), choosing) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, g := newRig(t), newRegister()
			ends := r.inbox(protocol.SubjectResults)
			c.start(r, g)
			const n = 20
			first, second := classOf(ada, n, c.plan), classOf(alan, n, c.plan)
			r.enter(first...)
			<-g.began
			r.enter(second...)
			r.counted()
			close(g.gate)
			r.results(append(first, second...)...)
			if got := g.list()[:n]; count(got, alan) < n/2-3 {
				t.Errorf("of the first %d jobs %d were the second user's, want about half: %s", n, count(got, alan), got)
			}
			var ended []string
			for range 2 * n {
				ended = append(ended, strings.Split((<-ends).Subject, ".")[1])
			}
			if got := count(ended[:n], alan); got < n/2-3 || got > n/2+3 {
				t.Errorf("of the first %d results %d were the second user's, want about half: %s", n, got, ended)
			}
			if name != "prefill worker, two slots" { // where jobs begin side by side
				g.inOrder(t, first)
				g.inOrder(t, second)
			}
		})
	}
}

func count(list []string, of string) (n int) {
	for _, s := range list {
		if s == of {
			n++
		}
	}
	return n
}

// A user who is alone has the machines as before: in the order of publishing, and nothing is asked for in the other lanes while jobs wait.
func TestOneUserAlone(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newRegister()
	list := classOf(ada, 20)
	r.enter(list...)
	pulls := r.inbox("$JS.API.CONSUMER.MSG.NEXT." + StreamIntake + ".*")
	r.prefilling(r.prepare(protocol.RolePrefill, 1, g.note(passOn)))
	close(g.gate)
	asked := map[string]int{}
	for begun := 0; begun < len(list)-1; {
		select {
		case m := <-pulls:
			token := m.Subject[strings.LastIndexByte(m.Subject, '_')+1:]
			asked[token]++
		case <-g.began:
			begun++
		}
	}
	for token, n := range asked {
		switch jobs.Class(token) {
		case jobs.Interactive:
		case protocol.TokenOf(list[0]):
			if n > len(list)+2 {
				t.Errorf("%d jobs were asked for %d times", len(list), n)
			}
		default:
			t.Errorf("lane %s was asked %d times while jobs of another waited", token, n)
		}
	}
	r.results(list...)
	g.inOrder(t, list)
}

// Jobs of a program that knows no lanes are served, by turns with the others.
func TestJobsWithoutLane(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newRegister()
	r.prefilling(r.prepare(protocol.RolePrefill, 1, g.note(passOn)))
	old, others := classOf(alan, 6), classOf(ada, 6)
	r.enter(others...)
	<-g.began
	r.submit(old...) // on the plain class
	r.counted()
	close(g.gate)
	r.results(append(old, others...)...)
	if got := count(g.list()[:6], alan); got < 2 || got > 4 {
		t.Errorf("of the first 6 jobs %d came without a lane: %s", got, g.list())
	}
	g.inOrder(t, old)
}

// A job that waits for another try has its turn although there are always others.
func TestRedeliveryHasItsTurn(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newRegister()
	again, others := classOf(ada, 1), classOf(alan, 10)
	r.enter(append(again, others...)...)
	c, err := r.js.Consumer(t.Context(), StreamIntake, protocol.ConsumerName(protocol.RolePrefill, testModel, protocol.TokenOf(again[0])))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.Fetch(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := (<-batch.Messages()).Nak(); err != nil {
		t.Fatal(err)
	}
	r.prefilling(r.prepare(protocol.RolePrefill, 1, g.note(passOn)))
	close(g.gate)
	r.results(append(again, others...)...)
	if at := slices.Index(g.list(), ada); at > 2 {
		t.Errorf("it began as number %d: %s", at, g.list())
	}
}

// A worker that leaves a user's next job to others goes on with another user's.
func TestDeclinedLaneLosesItsTurn(t *testing.T) {
	t.Parallel()
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			r, g := newRig(t), newRegister()
			k := &taker{choose: func(b protocol.Backlog) protocol.Choice { return protocol.Choice{Take: b.Head.User == alan} }}
			left, taken := classOf(ada, 2, planned), classOf(alan, 5, planned)
			r.enter(append(left, taken...)...)
			choose := func(c *WorkerConfig) { c.Next = k.next }
			if role == protocol.RolePrefill {
				r.prefilling(r.prepare(role, 1, g.note(whole), choose))
			} else {
				r.idlePrefill()
				r.start(role, 1, g.note(answer), choose)
			}
			close(g.gate)
			r.eventually("all but those that were left", func() bool { return r.waiting(StreamIntake) == len(left) })
			for _, j := range taken {
				r.result(j)
			}
			k.set(take)
			r.results(append(left, taken...)...)
		})
	}
}

// A worker that is started again goes on in all lanes.
func TestLanesOutliveWorkers(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newRegister()
	first, second := classOf(ada, 6), classOf(alan, 6)
	r.enter(append(first, second...)...)
	s := r.start(protocol.RoleDecode, 1, g.note(answer), noneAhead)
	<-g.began
	close(g.gate)
	<-g.began
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	r.server.Stop()
	if err := r.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.eventually("the connection", r.nc.IsConnected)
	r.start(protocol.RoleDecode, 1, g.note(answer), noneAhead)
	r.results(append(first, second...)...)
	if got := count(g.list()[:6], alan); got < 2 || got > 4 {
		t.Errorf("of the first 6 jobs %d were the second user's: %s", got, g.list())
	}
}

// What asks about the intake sees every lane.
func TestEveryLaneIsSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var all []*jobs.Job
	lanes := map[jobs.Class]bool{}
	for n := 0; len(lanes) < protocol.Lanes; n++ {
		user := fmt.Sprintf("user-%d", n)
		c := NewClient(r.Conn, user)
		for _, j := range classOf(user, 3) {
			if err := c.Submit(t.Context(), j, SubmitOptions{}); err != nil {
				t.Fatal(err)
			}
			all = append(all, j)
		}
		lanes[protocol.TokenOf(all[len(all)-1])] = true
	}
	waiting := func() int {
		o, err := r.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return o.Models[0].Classes[1].Prefill.Waiting
	}
	if got := waiting(); got != len(all) {
		t.Errorf("%d jobs wait, want %d", got, len(all))
	}
	left := len(all)
	for i := 0; i < len(all); i += 3 {
		j, c := all[i], NewClient(r.Conn, all[i].User)
		_, err := c.Result(t.Context(), j.ID)
		wantError(t, err, jobs.CodeTimeout, string(PlaceIntake))
		if err := c.Submit(t.Context(), j, SubmitOptions{}); err != nil {
			t.Errorf("submit again: %v", err)
		}
		if was, err := c.Cancel(t.Context(), j.ID); err != nil || was.Was != jobs.PriorQueued {
			t.Errorf("Cancel = %+v, %v", was, err)
		}
		if left--; r.waiting(StreamIntake) != left { // what a consumer counts is corrected when it has passed the job: see unqueue
			t.Fatalf("after the cancel of a job of %s %d wait, want %d", j.User, r.waiting(StreamIntake), left)
		}
		if p, err := c.PurgeBatch(t.Context(), j.Batch); err != nil || p.Queued != 2 {
			t.Errorf("PurgeBatch = %+v, %v", p, err)
		}
		if left -= 2; r.waiting(StreamIntake) != left {
			t.Fatalf("after the purge of a batch of %s %d wait, want %d", j.User, r.waiting(StreamIntake), left)
		}
	}
	if n := r.waiting(StreamIntake); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

// A job is refused that workers of an older version would not find.
func TestSubmitToWorkersWithoutLanes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.js.DeleteConsumer(t.Context(), StreamIntake, protocol.ConsumerName(protocol.RolePrefill, testModel, protocol.TokenOf(classOf(ada, 1)[0]))); err != nil {
		t.Fatal(err)
	}
	err := NewClient(r.Conn, ada).Submit(t.Context(), classOf(ada, 1)[0], SubmitOptions{})
	wantError(t, err, jobs.CodeUnknownModel, "older", "upgrade")
	if err := NewClient(r.Conn, alan).Submit(t.Context(), classOf(alan, 1)[0], SubmitOptions{}); err != nil {
		t.Errorf("another lane: %v", err)
	}
}

// The head that is looked at is that of the lane whose turn it is, and what waits is that of all.
func TestBacklogOfAllLanes(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newRegister()
	k := &taker{choose: take}
	first, second := classOf(ada, 3, planned), classOf(alan, 3, planned)
	r.enter(append(first, second...)...)
	r.idlePrefill()
	r.start(protocol.RoleDecode, 1, g.note(answer), noneAhead, func(c *WorkerConfig) { c.Next = k.next })
	close(g.gate)
	r.results(append(first, second...)...)
	k.mu.Lock()
	defer k.mu.Unlock()
	var heads []string
	var intake []int
	for _, b := range k.asked {
		heads, intake = append(heads, b.Head.ID), append(intake, b.Intake)
	}
	var ran []string
	for len(g.began) > 0 {
		ran = append(ran, <-g.began)
	}
	if !slices.Equal(heads, ran) {
		t.Errorf("looked at %q, ran %q", heads, ran)
	}
	if want := []int{6, 5, 4, 3, 2, 1}; !slices.Equal(intake, want) {
		t.Errorf("jobs in the intake: %d, want %d", intake, want)
	}
}

// Jobs that wait for the gate do not keep those of another user from being done whole.
func TestGateHoldsOneLaneOnly(t *testing.T) {
	t.Parallel()
	r, g, decode := newRig(t), newRegister(), newRegister()
	close(g.gate)
	prefill := r.prepare(protocol.RolePrefill, 1, g.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		if task.Job.Plan == jobs.PlanAuto {
			return whole(ctx, task)
		}
		return passOn(ctx, task)
	}), choosing)
	r.beginPrefill(prefill)
	r.start(protocol.RoleDecode, 1, decode.note(answer))
	held, others := classOf(ada, 5), classOf(alan, 5, planned)
	r.enter(held...)
	r.eventually("the gate closes", func() bool { return r.waiting(StreamRelay) == 2 && r.waiting(StreamIntake) == 3 })
	r.enter(others...)
	for _, j := range others {
		r.result(j)
	}
	if n := r.waiting(StreamRelay); n != 2 {
		t.Errorf("%d jobs at decode, want 2", n)
	}
	close(decode.gate)
	r.results(append(held, others...)...)
	g.inOrder(t, held)
}
