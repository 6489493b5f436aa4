// Package forecast says when jobs will be done by the workers that there are, and whose KV states these take.
package forecast

import (
	"math"
	"slices"
	"time"

	"tandem/client/admin"
	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/schedule"
	"tandem/jobs"
)

// Estimate says when jobs will be done, model by model, since each has workers of its own.
type Estimate struct {
	Models  []ModelEstimate `json:"models"`
	Seconds float64         `json:"seconds"` // until all are done by the plan that they have; 0 if there are none
}

// ModelEstimate is what one model's jobs come to.
type ModelEstimate struct {
	Model        string         `json:"model"`
	Jobs         int            `json:"jobs"`
	PromptTokens int            `json:"prompt_tokens"`
	SharedTokens int            `json:"shared_tokens"` // of these, in prefixes that several share; each of them is computed but once in a slot
	AnswerTokens int            `json:"answer_tokens"`
	JobsBefore   int            `json:"jobs_before"` // of others, that run or wait
	Workers      []Servant      `json:"workers"`
	Missing      jobs.Stage     `json:"missing,omitempty"` // decode, if no such worker lives
	Plans        []PlanEstimate `json:"plans"`
	Published    bool           `json:"published,omitempty"`    // nobody was asked: all rests on published figures
	NotMeasured  []string       `json:"not_measured,omitempty"` // published figures of other machines stand for it
}

// Servant is a worker that serves the model.
type Servant struct {
	Machine string     `json:"machine"`
	Role    jobs.Stage `json:"role"`
	Slots   int        `json:"slots"`
}

// PlanEstimate is how a plan goes.
type PlanEstimate struct {
	Plan       jobs.Plan `json:"plan"`
	Asked      bool      `json:"asked,omitempty"` // it is the one that the jobs have
	Seconds    float64   `json:"seconds"`         // until all are done
	HandedOver int       `json:"handed_over"`     // jobs
	BytesMoved float64   `json:"bytes_moved"`     // of their KV states
	// Seconds with one more machine like the first one of its role; 0 if there is none.
	MorePrefill float64 `json:"seconds_with_one_more_prefill_machine,omitempty"`
	MoreDecode  float64 `json:"seconds_with_one_more_decode_machine,omitempty"`
}

// Lookout is what the workers of a model are at.
type Lookout struct {
	model   string
	workers []engine.Peer
	missing jobs.Stage // decode, if there is none: the published Mac Studio stands for it
	asked   bool       // else all are the published machines
	waiting int        // jobs in the intake
	relay   int        // jobs that wait for a decode worker
}

// The machines of which figures are published.
const (
	PublishedPrefill = "DGX Spark"
	PublishedDecode  = "Mac Studio"
)

func PublishedPeer(role jobs.Stage) engine.Peer {
	machine := PublishedPrefill
	if role == protocol.RoleDecode {
		machine = PublishedDecode
	}
	return engine.Peer{Worker: machine, Machine: machine, Role: role, Slots: 1}
}

// Look finds the workers of a model, and what waits before a job of the class; without an overview the published machines.
func Look(o *admin.Overview, model string, class jobs.Class) *Lookout {
	l := &Lookout{model: model, asked: o != nil}
	if o == nil {
		l.workers = []engine.Peer{PublishedPeer(protocol.RolePrefill), PublishedPeer(protocol.RoleDecode)}
		return l
	}
	l.workers = Peers(o.Workers, model)
	if !slices.ContainsFunc(l.workers, func(w engine.Peer) bool { return w.Role == protocol.RoleDecode }) {
		l.missing = protocol.RoleDecode
		l.workers = append(l.workers, PublishedPeer(protocol.RoleDecode))
	}
	for _, m := range o.Models {
		for _, c := range m.Classes {
			if m.Model == model && (c.Class == class || c.Class == jobs.Interactive) {
				l.waiting += c.Prefill.Waiting
				l.relay += c.Decode.Waiting
			}
		}
	}
	return l
}

// running is how many jobs the workers are at.
func (l *Lookout) running() (n int) {
	for _, w := range l.workers {
		n += len(w.Running)
	}
	return n
}

// Sizes estimates the sizes of jobs by what was measured of texts and answers.
func (l *Lookout) Sizes(texts []engine.Text) []engine.Size {
	bytesPerToken := engine.BytesPerToken(l.workers).Value
	sizes := make([]engine.Size, len(texts))
	for i, t := range texts {
		sizes[i] = t.Size(bytesPerToken, engine.Answer(l.model, t.Kind, t.Limit, l.workers).Value)
	}
	return sizes
}

// outlook has jobs wait behind so many of others. Of these, and of those that run, nobody knows more than that they may be like some, on average.
func (l *Lookout) outlook(waiting, like []engine.Size, before int) *engine.Outlook {
	kinds, lots := engine.Kinds(waiting)
	o := &engine.Outlook{Model: l.model, Workers: l.workers, Sizes: append(kinds, typical(like)), Typical: len(kinds), Relay: l.relay}
	o.Intake = append([]schedule.Lot{{Kind: o.Typical, Count: before}}, lots...)
	return o
}

// typical is what jobs are like on average.
func typical(sizes []engine.Size) (z engine.Size) {
	n := len(sizes)
	if n == 0 {
		return z
	}
	for _, one := range sizes {
		z.Tokens, z.Prefix, z.Generated = z.Tokens+one.Tokens, z.Prefix+one.Prefix, z.Generated+one.Generated
	}
	return engine.Size{Tokens: z.Tokens / n, Prefix: z.Prefix / n, Generated: z.Generated / n, Key: sizes[0].Key}
}

// planOf is what the schedule calls a plan.
func planOf(p jobs.Plan) schedule.Plan {
	switch p {
	case jobs.PlanAuto:
		return schedule.Auto
	case jobs.PlanLocal:
		return schedule.Local
	}
	return schedule.Disaggregated
}

// Estimate estimates jobs of these sizes with each plan.
func (l *Lookout) Estimate(sizes []engine.Size, asked jobs.Plan) ModelEstimate {
	o := l.outlook(sizes, sizes, l.waiting)
	e := ModelEstimate{Model: l.model, Jobs: len(sizes), JobsBefore: l.waiting + l.relay + l.running(), Missing: l.missing, Published: !l.asked, NotMeasured: o.Guessed()}
	for _, z := range sizes {
		e.PromptTokens += z.Tokens
		e.SharedTokens += z.Prefix
		e.AnswerTokens += z.Generated
	}
	for _, w := range l.workers {
		e.Workers = append(e.Workers, Servant{w.Machine, w.Role, max(1, w.Slots)})
	}
	scene, more := o.Scene(), map[jobs.Stage]*schedule.Scene{}
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		like := PublishedPeer(role)
		if i := slices.IndexFunc(l.workers, func(w engine.Peer) bool { return w.Role == role }); i >= 0 {
			like = l.workers[i]
		}
		more[role] = o.With(like).Scene()
	}
	for _, p := range []jobs.Plan{jobs.PlanAuto, jobs.PlanDisaggregated, jobs.PlanLocal} {
		f := scene.Forecast(planOf(p))
		e.Plans = append(e.Plans, PlanEstimate{
			Plan: p, Asked: p == asked, Seconds: finite(f.End), HandedOver: f.Handed, BytesMoved: f.Bytes,
			MorePrefill: finite(more[protocol.RolePrefill].Forecast(planOf(p)).End), MoreDecode: finite(more[protocol.RoleDecode].Forecast(planOf(p)).End),
		})
	}
	return e
}

// finite is 0 for an end that never comes, which JSON has no number for.
func finite(seconds float64) float64 {
	if math.IsInf(seconds, 1) {
		return 0
	}
	return seconds
}

// Add adds a model, whose jobs are done beside those of the others.
func (e *Estimate) Add(m ModelEstimate) {
	e.Models = append(e.Models, m)
	for _, p := range m.Plans {
		if p.Asked {
			e.Seconds = max(e.Seconds, p.Seconds)
		}
	}
}

// mostForeseen is for how many jobs of a model it takes no time worth mentioning to foresee their end.
const mostForeseen = 20_000

// Until foresees when jobs will be done that were published in this order and have no result. As many of the first ones as the workers are at, or as
// wait for a decode worker, are taken to be those; the others wait, behind jobs of others if there are more of them.
func (l *Lookout) Until(sizes []engine.Size, plan jobs.Plan) (left time.Duration, ok bool) {
	switch {
	case len(sizes) == 0:
		return 0, true
	case l.missing != "" || len(sizes) > mostForeseen:
		return 0, false
	}
	waiting := sizes[min(len(sizes), l.running()+l.relay):]
	f := l.outlook(waiting, sizes, max(0, l.waiting-len(waiting))).Scene().Forecast(planOf(plan))
	return time.Duration(f.End * float64(time.Second)), !math.IsInf(f.End, 1)
}
