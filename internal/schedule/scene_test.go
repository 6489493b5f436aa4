package schedule_test

import (
	"math"
	"testing"

	"tandem/internal/schedule"
)

// pair is a prefill machine that computes a prompt in 1 s and an answer in 6 s, and a decode machine that takes 4 s for each; a state is there at once.
func pair(jobs int) *schedule.Scene {
	return &schedule.Scene{
		Machines: []schedule.Machine{
			{Slots: make([]schedule.Slot, 1), Times: []schedule.Times{{Prompt: 1, Generate: []float64{6}}}},
			{Decode: true, Takes: true, Slots: make([]schedule.Slot, 1), Times: []schedule.Times{{Prompt: 4, Generate: []float64{4}}}},
		},
		Kinds: []schedule.Kind{{Bytes: 100}}, Intake: []schedule.Lot{{Count: jobs}},
	}
}

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name    string
		scene   func() *schedule.Scene
		machine int
		want    schedule.Action
		end     float64
	}{
		{"one job ends soonest on both machines", func() *schedule.Scene { return pair(1) }, 0, schedule.HandOver, 5},
		{"a decode machine leaves it to prefill", func() *schedule.Scene { return pair(1) }, 1, schedule.Wait, 5},
		{"nobody else takes it", func() *schedule.Scene {
			s := pair(1)
			s.Machines = s.Machines[1:]
			return s
		}, 0, schedule.Whole, 8},
		{"no machine takes states", func() *schedule.Scene {
			s := pair(1)
			s.Machines[1].Takes = false
			return s
		}, 0, schedule.Whole, 7},
		{"of two, one is handed over, one stays", func() *schedule.Scene { return pair(2) }, 0, schedule.HandOver, 8},
		{"decode has enough to do", func() *schedule.Scene {
			s := pair(1)
			s.Machines[1].Slots[0].Free = 4
			return s
		}, 0, schedule.Whole, 7},
		{"decode has a state to go on from", func() *schedule.Scene {
			s := pair(2)
			s.Relay = []schedule.Ready{{At: 0, Machine: 1}}
			return s
		}, 1, schedule.Continue, 8},
		{"one more that runs here hands over", func() *schedule.Scene {
			s := pair(0)
			s.Machines[0].Slots[0] = schedule.Slot{Free: 2, Hand: true}
			return s
		}, 1, schedule.Wait, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			best, options := tt.scene().Decide(tt.machine, 0)
			if best.Action != tt.want || math.Abs(best.End-tt.end) > 1e-9 {
				t.Errorf("%v, with an end after %v s, of %+v; want %v, after %v s", best.Action, best.End, options, tt.want, tt.end)
			}
		})
	}
}

// Whoever waits knows until when; and prefill does not wait if nobody is at work.
func TestWait(t *testing.T) {
	s := pair(1)
	s.Machines[0].Slots[0].Free = 0.5
	best, options := s.Decide(1, 0)
	if best.Action != schedule.Wait || best.Next != 0.5 {
		t.Errorf("%+v of %+v, want to wait 0.5 s", best, options)
	}
	if _, options := pair(9).Decide(0, 0); len(options) != 2 {
		t.Errorf("options %+v, want none of waiting", options)
	}
}

func TestForecastOfPlans(t *testing.T) {
	for _, tt := range []struct {
		plan             schedule.Plan
		jobs             int
		end, mean, bytes float64
		handed           int
	}{
		{plan: schedule.Auto, jobs: 0},
		{plan: schedule.Local, jobs: 3, end: 24, mean: 16},
		{plan: schedule.Disaggregated, jobs: 3, end: 13, mean: 9, handed: 3, bytes: 300},
		{plan: schedule.Auto, jobs: 3, end: 9, mean: 7 + 2.0/3, handed: 2, bytes: 200}, // two prompts, then a whole request: they end after 5, 9 and 9 s
	} {
		f := pair(tt.jobs).Forecast(tt.plan)
		if math.Abs(f.End-tt.end) > 1e-9 || math.Abs(f.Mean-tt.mean) > 1e-9 || f.Handed != tt.handed || f.Bytes != tt.bytes {
			t.Errorf("plan %d, %d jobs: %+v, want %+v", tt.plan, tt.jobs, f, tt)
		}
	}
	s := pair(3)
	s.Machines[1].Takes = false
	if f := s.Forecast(schedule.Disaggregated); f.End != 24 || f.Handed != 0 {
		t.Errorf("all are handed over to nobody: %+v", f)
	}
	s.Machines = nil
	if f := s.Forecast(schedule.Auto); !math.IsInf(f.End, 1) {
		t.Errorf("nobody is there, and all is done after %v s", f.End)
	}
}

// A machine with two slots: prompts one after the other, answers side by side, more slowly each; the prefix once in each slot.
func TestSlots(t *testing.T) {
	s := &schedule.Scene{
		Machines: []schedule.Machine{{
			Decode: true, Slots: make([]schedule.Slot, 2), Times: []schedule.Times{{Prompt: 1, Prefix: 2, Generate: []float64{4, 6}}},
		}},
		Kinds: []schedule.Kind{{Prefix: 1}}, Intake: []schedule.Lot{{Count: 2}},
	}
	// Prompts 0 … 3 and 3 … 6, then two answers of 4 s alone, 1.5 times as slow.
	if f := s.Forecast(schedule.Local); math.Abs(f.End-12) > 1e-9 {
		t.Errorf("both end after %v s, want 12", f.End)
	}
	s.Machines[0].Slots[0].Prefix, s.Machines[0].Slots[1].Prefix = 1, 2
	// 0 … 1, and 1 … 4 with another prefix in the cache.
	if f := s.Forecast(schedule.Local); math.Abs(f.End-10) > 1e-9 {
		t.Errorf("both end after %v s with the prefix in one slot, want 10", f.End)
	}
	s.Intake[0].Count = 1
	s.Machines[0].Slots[1] = schedule.Slot{Free: 7, First: 1}
	// At the other's prompt until 1, then ours until 2; its 6 s are 6 alone, of which both share 4.
	if f := s.Forecast(schedule.Local); math.Abs(f.End-10) > 1e-9 {
		t.Errorf("both end after %v s beside another, want 10", f.End)
	}
}
