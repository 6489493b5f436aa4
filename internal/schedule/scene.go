// Package schedule decides who does what of a model's work, so that all of it ends soonest: which job a free slot of a
// machine takes, and whether a prompt that was computed is handed over or its answer generated where it is.
//
// It knows no queue and no engine, only times. A [Scene] says which machines there are, what each does at this moment, and what waits.
// A decision is made by looking ahead: each thing that the free slot may do now is followed to the end of the work under some
// simple rules, and the one whose best end is soonest is done (in operations research, a rollout). It is made again for each job,
// since estimates are never quite right. All times are in seconds from now.
package schedule

import "math"

// Times are what one job takes on one machine, as long as the machine does nothing else.
type Times struct {
	Prompt   float64   // computing the prompt, with its shared prefix in the cache
	Prefix   float64   // computing the shared prefix; once in each slot
	Save     float64   // writing the prompt's KV state
	Move     float64   // fetching that from another machine
	Restore  float64   // reading it, until it is checked
	Generate []float64 // the answer, while so many requests generate: one, two, …; beyond the last as that. At least one
}

// generate is what the answer takes while so many requests, at least one, generate.
func (t *Times) generate(busy int) float64 { return t.Generate[min(busy, len(t.Generate))-1] }

// Slot is one concurrent request of a machine.
type Slot struct {
	Free float64 // when what it does now will have ended; 0 if it is free
	Hand bool    // that ends with a KV state to be handed over
	Warm bool    // the shared prefix of what waits is in its cache, or will be then
}

// Machine is an engine with its worker.
type Machine struct {
	Decode bool // takes over what others have computed, and whole requests; else it computes prompts for others, and whole requests
	Takes  bool // a decode machine: reads the KV states of the others
	Slots  []Slot
	Times  []Times // of each kind of job
}

// Ready is a job whose KV state waits for a decode machine.
type Ready struct {
	At   float64 // when it can be read there
	Kind int
}

// Lot is some jobs of one kind.
type Lot struct {
	Kind  int
	Count int
}

// Scene is all that there is to do for a model, and by whom.
type Scene struct {
	Machines []Machine
	Intake   []Lot   // jobs that have not begun, in order
	Relay    []Ready // in order
}

// Action is what a free slot does next.
type Action int

// The actions.
const (
	Wait     Action = iota // leave it to others, until something changes
	HandOver               // compute the prompt of the next job, for a decode machine
	Whole                  // both phases of the next job
	Continue               // generate the answer from a KV state that is ready
)

func (a Action) String() string { return [...]string{"wait", "hand over", "whole", "continue"}[a] }

// Forecast is how the work ends.
type Forecast struct {
	End  float64 // when the last job is done; +Inf if never
	Mean float64 // when a job is done, on average
	Next float64 // when anything changes for a slot that waits
}

// cost is what is made small: the end, and among ends that are as good the sooner job.
func (f Forecast) cost() float64 { return f.End + 0.02*f.Mean }

// Option is one thing that a slot may do, and how the work then ends.
type Option struct {
	Action Action
	Forecast
}

// leaveMargin is by which share of a job's time leaving it to others must be better, once there are fewer jobs than slots: these see things a little otherwise,
// and if each leaves it to the other, nobody takes it.
const leaveMargin = 0.02

// Decide says what the free slot of a machine should do with the next job, and what each thing that it may do leads to. The slot
// counts as free whatever the scene says.
func (s *Scene) Decide(machine, slot int) (best Option, options []Option) {
	m := &s.Machines[machine]
	actions := []Action{HandOver, Whole, Wait}
	if m.Decode {
		actions = []Action{Continue, Whole, Wait}
	}
	best.End = math.Inf(1)
	for _, a := range actions {
		if a == Wait && !m.Decode && len(options) > 0 && !s.few() {
			continue // what the others are at is known a little late; with work for all there is nothing to wait for
		}
		o := Option{Action: a, Forecast: s.follow(machine, slot, a)}
		if math.IsInf(o.End, 1) {
			continue
		}
		options = append(options, o)
		gain := best.cost() - o.cost()
		if a == Wait && len(options) > 1 && s.few() {
			t := &m.Times[s.Intake[0].Kind]
			gain -= leaveMargin * (t.Prompt + t.generate(1))
		}
		if math.IsInf(best.End, 1) || gain > 0 {
			best = o
		}
	}
	return best, options
}

// few reports whether there are fewer jobs in the intake than slots.
func (s *Scene) few() bool {
	jobs, slots := 0, 0
	for _, l := range s.Intake {
		jobs += l.Count
	}
	for i := range s.Machines {
		slots += len(s.Machines[i].Slots)
	}
	return jobs > 0 && jobs < slots
}

// Forecast says how the work ends if all goes on as well as is known here.
func (s *Scene) Forecast() Forecast { return s.follow(-1, -1, Wait) }

// follow is the best end under any of the rules, after a first action.
func (s *Scene) follow(machine, slot int, first Action) Forecast {
	best := Forecast{End: math.Inf(1)}
	for _, r := range rules() {
		if f := s.simulate(r, machine, slot, first); math.IsInf(best.End, 1) || f.cost() < best.cost() {
			best = f
		}
	}
	return best
}
