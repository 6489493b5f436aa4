package pipeline

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// What a worker is at: until its prompt is computed, and until its end, by what was foreseen and then by what is seen.
func TestRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		r := &running{changed: func() { told++ }, tasks: map[*protocol.Task]*course{}}
		task := new(protocol.Task)
		want := func(ends, first float64) {
			t.Helper()
			list := r.list()
			if len(list) != 1 || math.Abs(list[0].EndsSeconds-ends) > 0.01 || math.Abs(list[0].FirstSeconds-first) > 0.01 {
				t.Fatalf("running %+v, want an end in %v s and an answer in %v s", list, ends, first)
			}
		}
		r.begin(task, course{before: 4, tokens: 100, perSecond: 10})
		if got := r.share(task); got != 1 {
			t.Errorf("before its answer the task had %v of the engine", got)
		}
		want(14, 4)
		time.Sleep(3 * time.Second)
		want(11, 1)
		time.Sleep(7 * time.Second) // six longer than expected: a tenth of all is still to come
		want(11, 1)
		r.emitted(task, 1)
		want(10, 0)
		for range 40 { // at twice the speed
			time.Sleep(50 * time.Millisecond)
			r.emitted(task, 1)
		}
		want(3, 0)
		other := new(protocol.Task)
		r.begin(other, course{before: 5, hands: true})
		time.Sleep(5 * time.Second) // the engine was at the prompt of another
		r.end(other)
		r.emitted(task, 1)
		want(59.0/(41/(2+0.1)), 0)
		if got := r.share(task); math.Abs(got-(2+0.1)/7) > 0.01 {
			t.Errorf("the answer had the engine for %v of its time", got)
		}
		for range 100 { // longer than expected
			time.Sleep(50 * time.Millisecond)
			r.emitted(task, 1)
		}
		if list := r.list(); list[0].EndsSeconds < 0.5 {
			t.Errorf("an answer that is longer than expected ends in %v s", list[0].EndsSeconds)
		}
		slow := new(protocol.Task) // nobody's prompt, the machine is so slow
		r.begin(slow, course{tokens: 100, perSecond: 10})
		for range 30 {
			r.emitted(slow, 1)
			time.Sleep(time.Second)
		}
		if got, all := r.share(slow), r.list(); got != 1 || max(all[0].EndsSeconds, all[1].EndsSeconds) < 60 {
			t.Errorf("an answer at a tenth of the speed had the engine for %v of its time; %+v", got, all)
		}
		r.end(slow)
		before := told
		r.end(task)
		if told != before+1 || len(r.list()) > 0 {
			t.Errorf("told %d times of the end, running %+v", told-before, r.list())
		}
		r.begin(task, course{before: 2, hands: true})
		if list := r.list(); len(list) != 1 || !list[0].HandsOver || list[0].EndsSeconds != 2 || list[0].FirstSeconds != 0 {
			t.Errorf("running %+v, want one that hands over", list)
		}
	})
}

// What was chosen for one slot counts when the next one is filled, until the job is here; and an engine computes one prompt after the other.
func TestExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &running{changed: func() {}, tasks: map[*protocol.Task]*course{}}
		want := func(n int, prompts float64) {
			t.Helper()
			if got, left := r.busy(), r.prompts(); got != n || math.Abs(left-prompts) > 0.01 {
				t.Errorf("%d run, prompts are computed for %v s, want %d for %v s", got, left, n, prompts)
			}
		}
		r.expect("a", protocol.Place{}, course{before: 4, tokens: 100, perSecond: 10})
		r.expect("b", protocol.Place{}, course{turn: 4, before: 8, hands: true})
		want(2, 8)
		if turn := r.arrived(&jobs.Job{ID: "urgent", Class: jobs.Interactive}); turn != 8 {
			t.Errorf("an interactive job has its turn in %v s, want 8", turn)
		}
		want(2, 8)
		if turn := r.arrived(&jobs.Job{ID: "b", Class: jobs.Batch}); turn != 4 {
			t.Errorf("a job that was expected has its turn in %v s, want 4", turn)
		}
		want(1, 4)
		r.begin(new(protocol.Task), course{before: 8, hands: true})
		want(2, 8)
		if turn := r.arrived(&jobs.Job{ID: "another, instead of a", Class: jobs.Batch}); turn != 0 {
			t.Errorf("a job in another's place has its turn in %v s, want at once, before the one that was chosen later", turn)
		}
		want(1, 8)
		r.expect("c", protocol.Place{}, course{before: 12})
		time.Sleep(expectation + time.Millisecond) // somebody else has it
		want(1, 7)
		r.expect("d", protocol.Place{}, course{before: 9})
		want(2, 9)
		time.Sleep(expectation / 2)
		r.unexpect(func(expected) bool { return true })
		r.expect("d", protocol.Place{}, course{before: 9}) // chosen again: its time begins anew
		time.Sleep(expectation/2 + 5*time.Millisecond)
		want(2, 8.5)
		time.Sleep(expectation / 2)
		want(1, 5.5)
	})
}

// A KV state that comes later than expected is not taken to be here.
func TestStateComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, task := &running{changed: func() {}, tasks: map[*protocol.Task]*course{}}, new(protocol.Task)
		left := func() float64 { return r.list()[0].EndsSeconds }
		r.wait(task, 2)
		if got := left(); got != 2 {
			t.Errorf("it comes in %v s, want 2", got)
		}
		time.Sleep(3 * time.Second)
		if got := left(); got <= 0 {
			t.Error("a second later than expected it is taken to be here")
		}
		r.wait(task, 0)
		time.Sleep(time.Second)
		if got := left(); got != 0 {
			t.Errorf("it is here, and comes in %v s", got)
		}
	})
}

// A job that is looked at again and again counts once.
func TestSeen(t *testing.T) {
	var s seen
	next := engine.Size{Tokens: 7, Key: "k"}
	if got := s.average(next); got != next {
		t.Errorf("nothing was seen, and jobs are like %+v", got)
	}
	for range 3 {
		s.note("a", engine.Size{Tokens: 1000, Prefix: 500, Generated: 100, Key: "k"})
	}
	s.note("b", engine.Size{Tokens: 2000, Prefix: 500, Generated: 300, Key: "k"})
	if got, want := s.average(next), (engine.Size{Tokens: 1500, Prefix: 500, Generated: 200, Key: "k"}); got != want {
		t.Errorf("jobs are like %+v, want %+v", got, want)
	}
}
