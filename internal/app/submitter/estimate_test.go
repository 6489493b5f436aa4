package submitter

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/forecast"
	"tandem/internal/grader"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// classOf is so many jobs of model m, each with a prompt of 8,000 tokens, as the hall measures them, and an answer of 400.
func classOf(n int, plan jobs.Plan) (list []*jobs.Job) {
	for range n {
		list = append(list, &jobs.Job{
			ID: jobs.NewID(), Model: "m", Prompt: strings.Repeat("x", 16_000), Plan: plan, Class: jobs.Batch, Options: jobs.Options{NumPredict: new(400)},
		})
	}
	return list
}

// hallFor is the hall with two bytes a token measured and one slot each: a prompt takes 2 s on spark-1 and 8 s on mac-1, an answer of 400 tokens 8 s and 4 s.
func hallFor() *queue.Overview {
	o := hall()
	for i := range o.Workers {
		o.Workers[i].Rates.PromptBytesPerToken, o.Workers[i].Slots = 2, 1
	}
	o.Workers[0].Rates.DecodeByLength = map[string]float64{"4k": 50, "16k": 50}
	o.Workers[1].Rates.DecodeByLength = map[string]float64{"4k": 100, "16k": 100}
	return o
}

func within1(got, want float64) bool { return math.Abs(got-want) < 0.01*want+0.01 }

func TestEstimateBatch(t *testing.T) {
	e := estimateBatch(hallFor(), classOf(3, ""))
	if len(e.Models) != 1 {
		t.Fatalf("models %+v", e.Models)
	}
	m := e.Models[0]
	if m.Jobs != 3 || m.PromptTokens != 24_000 || m.AnswerTokens != 1200 || m.JobsBefore != 0 || len(m.NotMeasured) != 0 || m.Published || m.Missing != "" {
		t.Errorf("estimate %+v", m)
	}
	// A state of 800 MB: written in 0.2 s, moved in 0.8 s, read and checked in 0.22 s.
	const handed, first = 0.22 + 4, 2 + 0.2 + 0.8
	for i, want := range []forecast.PlanEstimate{
		{Plan: jobs.PlanAuto, Seconds: 2*2.2 + 10, HandedOver: 2, BytesMoved: 1.6e9, MorePrefill: 12, MoreDecode: first + 2*2.2 + handed},
		{Plan: jobs.PlanDisaggregated, Asked: true, Seconds: first + 3*handed, HandedOver: 3, BytesMoved: 2.4e9, MorePrefill: first + 3*handed, MoreDecode: first + 2*2.2 + handed},
		{Plan: jobs.PlanLocal, Seconds: 36, MorePrefill: 36, MoreDecode: 24},
	} {
		p := m.Plans[i]
		if p.Plan != want.Plan || p.Asked != want.Asked || p.HandedOver != want.HandedOver || p.BytesMoved != want.BytesMoved || !within1(p.Seconds, want.Seconds) ||
			!within1(p.MorePrefill, want.MorePrefill) || !within1(p.MoreDecode, want.MoreDecode) {
			t.Errorf("plan %+v, want %+v", p, want)
		}
	}
	if e.Seconds != m.Plans[1].Seconds {
		t.Errorf("all are done after %v s, want %v", e.Seconds, m.Plans[1].Seconds)
	}
}

func TestEstimateBehindOthers(t *testing.T) {
	o := hallFor()
	o.Models[0].Classes[1].Prefill.Waiting, o.Models[0].Classes[1].Decode.Waiting = 2, 1
	o.Workers[1].Running = []protocol.Running{{EndsSeconds: 3}}
	m := estimateBatch(o, classOf(1, jobs.PlanLocal)).Models[0]
	if m.JobsBefore != 4 || !within1(m.Plans[2].Seconds, 3+4.22+3*12) { // what runs, a state that waits, two whole ones and ours
		t.Errorf("estimate %+v", m)
	}
	interactive := classOf(1, jobs.PlanLocal)
	interactive[0].Class = jobs.Interactive
	if m := estimateBatch(o, interactive).Models[0]; !within1(m.Plans[2].Seconds, 3+12) {
		t.Errorf("an interactive job waits for batch ones: %+v", m)
	}
	o.Workers = o.Workers[:1]
	m = estimateBatch(o, classOf(1, "")).Models[0]
	if m.Missing != protocol.RoleDecode || len(m.Workers) != 2 || m.Workers[1].Machine != forecast.PublishedDecode || len(m.NotMeasured) == 0 {
		t.Errorf("without a decode worker %+v", m)
	}
}

func TestAskedPlan(t *testing.T) {
	for want, plans := range map[jobs.Plan][]jobs.Plan{
		jobs.PlanAuto: {"local", "auto", ""}, jobs.PlanDisaggregated: {"local", ""}, jobs.PlanLocal: {"local"},
	} {
		var list []*jobs.Job
		for _, p := range plans {
			list = append(list, &jobs.Job{Plan: p})
		}
		if got := askedPlan(list); got != want {
			t.Errorf("of %v %s is asked for, want %s", plans, got, want)
		}
	}
}

// The end is foreseen anew from what is left, and from what the workers are at.
func TestForesight(t *testing.T) {
	list := classOf(4, jobs.PlanLocal)
	f, o := newForesight(list), hallFor()
	check := func(want float64) {
		t.Helper()
		left, ok := f.until(o)
		if !ok || !within1(left.Seconds(), want) {
			t.Errorf("%v left, %t, want %v s", left, ok, want)
		}
	}
	check(48)
	o.Workers[1].Running = []protocol.Running{{EndsSeconds: 7}}
	check(7 + 36)
	f.done(list[0].ID)
	o.Models[0].Classes[1].Prefill.Waiting = 2
	check(7 + 24)
	o.Models[0].Classes[1].Prefill.Waiting = 5 // three of others
	check(7 + 24 + 36)
	for _, j := range list[1:] {
		f.done(j.ID)
	}
	check(0)
	f = newForesight(list)
	o.Workers = o.Workers[:1]
	if left, ok := f.until(o); ok {
		t.Errorf("without a decode worker it takes %v", left)
	}
}

// The judges work side by side; one model that is both does one part after the other.
func TestClassForesight(t *testing.T) {
	p := &grader.Plan{Models: []grader.ModelPlan{
		{Model: "m", Judge: "code", Jobs: 2, SharedTokens: 4000, Requests: []grader.RequestPlan{{OwnTokens: 4000, AnswerTokens: 400}, {OwnTokens: 4000, AnswerTokens: 400}}},
		{Model: "n", Judge: "feedback"},
	}}
	o := hallFor()
	// The prefix in 4 s once, two own parts in 4 s each, two answers in 4 s each.
	if e := forecast.Class(o, p, jobs.Batch, jobs.PlanLocal); len(e.Models) != 1 || !within1(e.Seconds, 4+2*8) {
		t.Errorf("estimate %+v", e)
	}
	f := forecast.NewClassForesight(p, jobs.Batch, jobs.PlanLocal)
	f.Event(grader.Event{Judges: [2]grader.Share{{Model: "m", Jobs: 3, Answered: 1}, {Model: "n"}}})
	if left, ok := f.Until(o); !ok || !within1(left.Seconds(), 4+2*8) {
		t.Errorf("%v left, %t", left, ok)
	}
	p.Models[1] = p.Models[0]
	p.Models[1].Judge = "feedback"
	f = forecast.NewClassForesight(p, jobs.Batch, jobs.PlanLocal)
	f.Event(grader.Event{Judges: [2]grader.Share{{Model: "m", Jobs: 2}, {Model: "m", Jobs: 2}}})
	if left, ok := f.Until(o); !ok || !within1(left.Seconds(), 2*(4+2*8)) {
		t.Errorf("%v left with two prefixes, %t", left, ok)
	}
	f.Event(grader.Event{Judges: [2]grader.Share{{Model: "m", Jobs: 5, Answered: 0}, {Model: "m", Jobs: 5}}}) // some are asked again
	if left, ok := f.Until(o); !ok || left.Seconds() < 2*(4+2*8)+6*8-1 {
		t.Errorf("%v left with some that are asked again, %t", left, ok)
	}
}

func TestProgressForesees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBatchProgress(&session{err: &strings.Builder{}}, 10)
		want := func(text string) {
			t.Helper()
			if got, _ := p.text(time.Now()); !strings.Contains(got[0], text) {
				t.Errorf("progress %q, want %q in it", got[0], text)
			}
		}
		p.foresee(100*time.Second, true)
		want("about 1 min 40 s left")
		time.Sleep(40 * time.Second)
		want("about 1 min 00 s left")
		p.result(&jobs.Result{Status: jobs.Succeeded})
		p.foresee(50*time.Second, true)
		want("about 50 s left")
		p.foresee(0, false) // by the pace: one in 40 s
		want("about 6 min 00 s left")
		for range 9 {
			p.result(&jobs.Result{Status: jobs.Succeeded})
		}
		p.foresee(5*time.Second, true)
		want("10 of 10 jobs done · 40 s")
	})
}

func TestGradeProgressForesees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := tell(t, &strings.Builder{}, false, false)
		w.p.foresee(100*time.Second, true)
		if got := first(w); !strings.Contains(got, "about 1 min 40 s left") {
			t.Errorf("progress %q", got)
		}
		time.Sleep(time.Second)
		w.answer(0)
		w.p.foresee(0, false)
		if got := first(w); strings.Contains(got, "left") {
			t.Errorf("progress %q, and the slow model has answered nothing", got)
		}
	})
}
