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

// Slot is one concurrent request of a machine.
type Slot struct {
	Free   float64 // when what it does now will have ended; 0 if it is free
	First  float64 // when the prompt of that will be computed; 0 if it is
	Hand   bool    // it ends with a KV state to be handed over
	Kind   int     // of job, if so
	Prefix int     // which shared prefix is in its cache, or will be then; 0 if none
}

// Machine is an engine with its worker.
type Machine struct {
	Decode bool // takes over what others have computed, and whole requests; else it computes prompts for others, and whole requests
	Takes  bool // a decode machine: reads the KV states of the others
	Slots  []Slot
	Times  []Times // of each kind of job
}

// Kind is what jobs of one kind have in common, beside the times that they take.
type Kind struct {
	Prefix int     // which prefix they share with others; 0 if none
	Bytes  float64 // of a KV state
}

// Ready is a job whose KV state waits for a decode machine.
type Ready struct {
	At      float64 // when it can be read there; below 0 if nobody fetches it yet
	Kind    int
	Machine int // that fetches it, or has it
}

// Lot is some jobs of one kind.
type Lot struct {
	Kind  int
	Count int
}

// Scene is all that there is to do for a model, and by whom.
type Scene struct {
	Machines []Machine
	Kinds    []Kind
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
	End    float64 // when the last job is done; +Inf if never
	Mean   float64 // when a job is done, on average
	Next   float64 // when anything changes for a slot that waits
	Handed int     // jobs that are handed over from now on
	Bytes  float64 // of their KV states
}

// never is the forecast of work that does not end.
func never() Forecast { return Forecast{End: math.Inf(1)} }

// cost is what is made small: the end, and a share of when jobs are done on average, which tells more as long as the very end depends on who happens to be last.
func (f Forecast) cost() float64 { return f.End + 0.3*f.Mean }

// Option is one thing that a slot may do, and how the work then ends.
type Option struct {
	Action Action
	Forecast
}

// Decide says what the free slot of a machine should do with the next job, and what each thing that it may do leads to. The slot
// counts as free whatever the scene says. If the machine waits, its other free slots do, too.
func (s *Scene) Decide(machine, slot int) (best Option, options []Option) {
	actions := []Action{HandOver, Whole, Wait}
	if s.Machines[machine].Decode {
		actions = []Action{Continue, Whole, Wait}
	}
	best.Forecast = never()
	m := s.simulation(horizon)
	for _, a := range actions {
		if a == Wait && !s.Machines[machine].Decode && len(options) > 0 && !s.few() {
			continue // what the others are at is known a little late; with work for all there is nothing to wait for
		}
		o := Option{Action: a, Forecast: m.follow(Auto.rules(), machine, slot, a)}
		if math.IsInf(o.End, 1) {
			continue
		}
		options = append(options, o)
		gain := best.cost() - o.cost()
		switch {
		case a == Whole && best.Action == HandOver:
			gain += handMargin * s.whole(machine)
		case a == Wait && len(options) > 1 && s.few():
			gain -= leaveMargin * s.whole(machine)
		}
		if math.IsInf(best.End, 1) || gain > 0 {
			best = o
		}
	}
	return best, options
}

// Doing all of a job is as sure as forecasts can be. By which share of its time something else must be better:
const (
	handMargin  = 0.01 // handing it over, which costs a little that nobody measures
	leaveMargin = 0.02 // leaving it to others, once there are few: machines see things a little otherwise, and if each leaves it to the other, nobody takes it
)

// whole is how long the next job of the intake takes a machine by itself.
func (s *Scene) whole(machine int) float64 {
	t := &s.Machines[machine].Times[s.Intake[0].Kind]
	return t.Prompt + t.Generate[0]
}

// few reports whether there are fewer than two jobs in the intake for each slot.
func (s *Scene) few() bool {
	jobs, slots := 0, 0
	for _, l := range s.Intake {
		jobs += l.Count
	}
	for i := range s.Machines {
		slots += len(s.Machines[i].Slots)
	}
	return jobs > 0 && jobs < 2*slots
}

// Plan is how jobs are to be done.
type Plan int

// The plans.
const (
	Auto          Plan = iota // whoever is free takes the job for which it is best
	Disaggregated             // every state is handed over
	Local                     // all on the decode machines
)

// Forecast says how the work ends under a plan if all goes on as well as is known here. Where no decode machine takes states, handing over is of no use: the
// decode machines do all.
func (s *Scene) Forecast(p Plan) Forecast {
	m := s.simulation(math.MaxInt)
	if p == Disaggregated && !m.anyTakes() {
		p = Local
	}
	return m.follow(p.rules(), -1, -1, Wait)
}

// follow is the best end under any of the rules, after a first action.
func (m *simulation) follow(rules []rule, machine, slot int, first Action) Forecast {
	best, limit := never(), math.Inf(1)
	for _, r := range rules {
		if f := m.simulate(r, machine, slot, first, limit); f.cost() < limit {
			best, limit = f, f.cost()
		}
	}
	return best
}
