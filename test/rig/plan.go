package rig

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Shape is how much a storm is to have of everything.
type Shape struct {
	Jobs      int      // how many are submitted
	Auto      bool     // every second job of a batch asks for plan auto, the others for disaggregated
	Models    []string // that they are for
	BatchSize int      // jobs of a batch
	Callers   int      // submitters at a time

	Kills       int      // of workers, half of them at an exact step
	Transfers   int      // kills of workers as they save, send, fetch or restore a KV state; and a third as many freezes
	EngineKills int      // half of them in a call, and where there are states in a save or a restore
	NATSKills   int      // half of the restarts are graceful
	Quorums     int      // of a cluster: as many servers at a time that the others cannot go on, half of the times gracefully
	PowerCuts   int      // of NATS and its disk
	CallerKills int      // of submitters, which are started again with --resume
	Freezes     int      // SIGSTOP, of workers, for a time that may be longer than AckWait
	Stuns       int      // SIGSTOP, of engines, NATS and submitters in turn
	Wires       int      // delays, cuts, resets, drops, narrow links, refused connections
	Spoilt      []string // the kinds of wire that they are for
	BadAnswers  int      // an engine that refuses, hangs, says rubbish …

	Cancels  int // jobs that are cancelled
	Expiring int // jobs with a deadline that passes while they wait or run
	Singles  int // jobs submitted one by one, somebody waiting

	Away [2]time.Duration // how long a server of NATS that was ended stays so, least and most; 0: no longer than its start takes

	PromptWords [2]int // least and most
	Tokens      [2]int // to generate, least and most
}

// Job is one seeded job.
type Job struct {
	Marker      string // custom_id, and part of the prompt: by it engine calls are known
	Model       string
	Prompt      string
	Plan        string // of a job of a batch; empty is disaggregated
	Tokens      int
	Temperature float64
	Seed        int64
	Cancel      bool // soon after it was accepted
}

// Batch is what one caller submits.
type Batch struct {
	Name     string
	Single   bool          // one job, by itself
	Deadline time.Duration // from the submit; 0: none
	Jobs     []Job
}

// Step is a point on a worker's way with a job, seen on its wire.
type Step string

// The steps, in their order.
const (
	Anywhere      Step = "anywhere"
	OnDelivery    Step = "on delivery"             // the job has been sent to the worker
	InCall        Step = "in the engine call"      // which has begun to answer
	BeforePublish Step = "before publish"          // of the hop or the result: it never leaves
	AfterPublish  Step = "after publish"           // it left, and its acknowledgement never arrives
	BeforeAck     Step = "between publish and ack" // the record is stored, the delivery is not acknowledged
	AfterAck      Step = "after ack"

	// Those of a KV state. Ollama's saves and restores are on no wire of ours.
	InSave    Step = "in a save"    // done by the engine, and the worker does not know
	InSend    Step = "in a send"    // it has begun to go
	InFetch   Step = "in a fetch"   // the same moment at the other end
	InRestore Step = "in a restore" // done, and the worker does not know
)

// Steps are those at which any worker can be struck in any storm.
var Steps = []Step{OnDelivery, InCall, BeforePublish, AfterPublish, BeforeAck, AfterAck}

// stateSteps are those of a KV state on its way.
var stateSteps = []Step{InSave, InSend, InFetch, InRestore}

// What is done to whom.
const (
	Kill   = "kill"
	Freeze = "freeze"
	Engine = "engine kill"
	Stun   = "freeze of another" // of an engine, of NATS or of a submitter
	NATS   = "nats kill"
	Stop   = "nats stop" // gracefully
	Quorum = "nats quorum"
	Power  = "power loss" // of NATS and its disk
	Caller = "caller kill"
	Wire   = "wire"
	Answer = "answer" // of an engine
)

// The wires that can be spoilt.
const (
	WorkerWire = "worker to NATS"
	EngineWire = "worker to engine"
	CallerWire = "submitter to NATS"
	RouteWire  = "server to server" // all of one server of NATS
	StateWire  = "hand-over"        // of KV states, from a prefill worker to whoever fetches them
)

// Who else can be frozen.
const (
	stunEngine = "an engine"
	stunNATS   = "a node of NATS"
	stunCaller = "a submitter"
)

// Action is one fault of a schedule. It strikes when so many jobs have ended, never at a time: the same seed gives the same
// schedule on a fast machine and on a slow one.
type Action struct {
	After  int // jobs that have ended
	What   string
	Target int           // an index, taken modulo the number of those there are
	Step   Step          // of Kill, Freeze and Engine, and of a Wire that is only in use then
	Where  string        // of Wire and Stun
	How    string        // of Wire, Answer and Quorum
	For    time.Duration // how long, for what ends
}

func (a Action) String() string {
	parts := []string{fmt.Sprintf("%s #%d", a.What, a.Target)}
	for _, more := range []string{string(a.Step), a.Where, a.How} {
		if more != "" {
			parts = append(parts, more)
		}
	}
	if a.For > 0 {
		parts = append(parts, "for "+a.For.String())
	}
	return strings.Join(parts, ", ")
}

// Plan is what a storm does: jobs and faults, all of it from the seed.
type Plan struct {
	Seed    uint64
	Shape   Shape
	Batches []Batch
	Actions []Action // by After
}

// hows are the bad days of a wire and of an engine.
var (
	wireHows   = []string{"delay", "drop", "cut", "reset", "narrow", "refuse"}
	answerHows = []string{"refuse", "500 out of memory", "503 loading", "404 missing", "hang before", "hang in mid stream", "error line", "close early", "rubbish"}
)

// NewPlan returns the plan of a seed. Equal arguments give equal plans.
func NewPlan(seed uint64, shape Shape) *Plan {
	p := &Plan{Seed: seed, Shape: shape}
	p.batches(rand.New(rand.NewPCG(seed, 1)))
	p.actions(rand.New(rand.NewPCG(seed, 2)))
	return p
}

// Jobs is how many there are.
func (p *Plan) Jobs() (n int) {
	for _, b := range p.Batches {
		n += len(b.Jobs)
	}
	return n
}

func (p *Plan) batches(r *rand.Rand) {
	s := p.Shape
	n := 0
	job := func() Job {
		j := Job{
			Marker: fmt.Sprintf("rig-%d-%d", p.Seed, n), Model: s.Models[r.IntN(len(s.Models))],
			Tokens: between(r, s.Tokens), Seed: int64(r.IntN(1 << 30)),
		}
		j.Prompt = prompt(r, j.Marker, between(r, s.PromptWords))
		if s.Auto && n%2 == 1 {
			j.Plan = "auto"
		}
		if r.IntN(10) == 0 {
			j.Temperature = 0.7
		}
		n++
		return j
	}
	add := func(b Batch, jobs int) {
		b.Name = fmt.Sprintf("storm-%d-%d", p.Seed, len(p.Batches))
		for range jobs {
			b.Jobs = append(b.Jobs, job())
		}
		p.Batches = append(p.Batches, b)
	}
	for left := s.Jobs - s.Singles - s.Expiring; left > 0; left -= s.BatchSize {
		add(Batch{}, min(left, s.BatchSize))
	}
	for i := range s.Cancels {
		b := &p.Batches[i%len(p.Batches)]
		b.Jobs[r.IntN(len(b.Jobs))].Cancel = true
	}
	const expiring = 10
	for left := s.Expiring; left > 0; left -= expiring {
		add(Batch{Deadline: time.Duration(100+r.IntN(1400)) * time.Millisecond}, min(left, expiring))
	}
	for range s.Singles {
		add(Batch{Single: true}, 1)
	}
	r.Shuffle(len(p.Batches), func(i, j int) { p.Batches[i], p.Batches[j] = p.Batches[j], p.Batches[i] })
}

// words are those of synthetic code.
var words = strings.Fields(`df price mean sum filter group_by summarise library ( ) <- c ( 1 2 3 5 8 13 ) median sd plot lm print TRUE FALSE NULL if else for in function return`)

// prompt is a text with the job's marker in front, so that a call to an engine is known by its body.
func prompt(r *rand.Rand, marker string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s] Review:", marker)
	for range n {
		b.WriteString(" " + words[r.IntN(len(words))])
	}
	return b.String()
}

func between(r *rand.Rand, bounds [2]int) int {
	return bounds[0] + r.IntN(bounds[1]-bounds[0]+1)
}

func (p *Plan) actions(r *rand.Rand) {
	s := p.Shape
	n := p.Jobs()
	last := min(n*9/10, max(n/2, n-10)) // so that every fault strikes while there is work
	add := func(n int, make func(i int) Action) {
		for i := range n {
			a := make(i)
			a.After, a.Target = r.IntN(last+1), r.IntN(1<<10)
			p.Actions = append(p.Actions, a)
		}
	}
	strike := func(what string) func(int) Action {
		return func(i int) Action {
			a := Action{What: what, Step: Anywhere}
			if i%2 == 0 {
				a.Step = Steps[i/2%len(Steps)]
			}
			if what == Freeze { // sometimes longer than AckWait
				a.For = []time.Duration{200 * time.Millisecond, 2 * time.Second, 6 * time.Second, 15 * time.Second}[r.IntN(4)]
			}
			return a
		}
	}
	add(s.Kills, strike(Kill))
	add(s.Freezes, strike(Freeze))
	steps := []Step{InCall}
	if s.Transfers > 0 {
		steps = append(steps, InSave, InRestore)
	}
	add(s.EngineKills, func(i int) Action {
		a := Action{What: Engine, Step: Anywhere}
		if i%2 == 0 {
			a.Step = steps[i/2%len(steps)]
		}
		return a
	})
	add(s.Stuns, func(i int) Action {
		return Action{What: Stun, Where: []string{stunEngine, stunNATS, stunCaller}[i%3], For: time.Duration(200+r.IntN(5000)) * time.Millisecond}
	})
	away := func(a Action) Action {
		if s.Away[1] > 0 {
			a.For = (s.Away[0] + time.Duration(r.Int64N(int64(s.Away[1]-s.Away[0])+1))).Round(time.Millisecond)
		}
		return a
	}
	add(s.NATSKills, func(i int) Action { return away(Action{What: []string{NATS, Stop}[i%2]}) })
	add(s.PowerCuts, func(int) Action { return Action{What: Power} })
	add(s.CallerKills, func(int) Action { return Action{What: Caller} })
	add(s.Wires, func(i int) Action { // each way of each wire in turn, and of the first few all ways and all wires
		n := len(wireHows)
		a := Action{What: Wire, Where: s.Spoilt[(i+i/n)%len(s.Spoilt)], How: wireHows[i%n], For: time.Duration(200+r.IntN(3000)) * time.Millisecond}
		if a.Where == StateWire {
			a.Step = InSend
		}
		if a.Where == RouteWire { // the servers take longer than others to find out
			a.For *= 4
		}
		return a
	})
	add(s.BadAnswers, func(i int) Action { return Action{What: Answer, How: answerHows[i%len(answerHows)]} })
	add(s.Transfers, func(i int) Action { return Action{What: Kill, Step: stateSteps[i%len(stateSteps)]} })
	add(s.Transfers/3, func(i int) Action {
		return Action{What: Freeze, Step: stateSteps[i%len(stateSteps)], For: time.Duration(200+r.IntN(10_000)) * time.Millisecond}
	})
	add(s.Quorums, func(i int) Action { return away(Action{What: Quorum, How: []string{"killed", "stopped"}[i%2]}) })
	slices.SortStableFunc(p.Actions, func(a, b Action) int { return cmp.Compare(a.After, b.After) })
}

// Print writes the plan, a line for each batch and each fault, without prompts.
func (p *Plan) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d jobs in %d batches, %d faults\n", p.Seed, p.Jobs(), len(p.Batches), len(p.Actions))
	for _, batch := range p.Batches {
		fmt.Fprintf(&b, "batch %s: %d jobs", batch.Name, len(batch.Jobs))
		if batch.Deadline > 0 {
			fmt.Fprintf(&b, ", within %s", batch.Deadline)
		}
		b.WriteString("\n")
	}
	for _, a := range p.Actions {
		fmt.Fprintf(&b, "after %d jobs: %s\n", a.After, a)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
