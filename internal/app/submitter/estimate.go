package submitter

import (
	"math"
	"slices"

	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/schedule"
	"tandem/jobs"
)

// estimate says when jobs will be done, model by model, since each has workers of its own.
type estimate struct {
	Models  []modelEstimate `json:"models"`
	Seconds float64         `json:"seconds"` // until all are done by the plan that they have; 0 if there are none
}

// modelEstimate is what one model's jobs come to.
type modelEstimate struct {
	Model        string         `json:"model"`
	Jobs         int            `json:"jobs"`
	PromptTokens int            `json:"prompt_tokens"`
	SharedTokens int            `json:"shared_tokens"` // of these, in prefixes that several share; each of them is computed but once in a slot
	AnswerTokens int            `json:"answer_tokens"`
	JobsBefore   int            `json:"jobs_before"` // of others, that run or wait
	Workers      []servant      `json:"workers"`
	Missing      jobs.Stage     `json:"missing,omitempty"` // decode, if no such worker lives
	Plans        []planEstimate `json:"plans"`
	Published    bool           `json:"published,omitempty"`    // nobody was asked: all rests on published figures
	NotMeasured  []string       `json:"not_measured,omitempty"` // published figures of other machines stand for it
}

// servant is a worker that serves the model.
type servant struct {
	Machine string     `json:"machine"`
	Role    jobs.Stage `json:"role"`
	Slots   int        `json:"slots"`
}

// planEstimate is how a plan goes.
type planEstimate struct {
	Plan       jobs.Plan `json:"plan"`
	Asked      bool      `json:"asked,omitempty"` // it is the one that the jobs have
	Seconds    float64   `json:"seconds"`         // until all are done
	HandedOver int       `json:"handed_over"`     // jobs
	BytesMoved float64   `json:"bytes_moved"`     // of their KV states
	// Seconds with one more machine like the first one of its role; 0 if there is none.
	MorePrefill float64 `json:"seconds_with_one_more_prefill_machine,omitempty"`
	MoreDecode  float64 `json:"seconds_with_one_more_decode_machine,omitempty"`
}

// lookout is what the workers of a model are at.
type lookout struct {
	model   string
	workers []engine.Peer
	missing jobs.Stage // decode, if there is none: the published Mac Studio stands for it
	asked   bool       // else all are the published machines
	waiting int        // jobs in the intake
	relay   int        // jobs that wait for a decode worker
}

// The machines of which figures are published.
const (
	publishedPrefill = "DGX Spark"
	publishedDecode  = "Mac Studio"
)

func publishedPeer(role jobs.Stage) engine.Peer {
	machine := publishedPrefill
	if role == protocol.RoleDecode {
		machine = publishedDecode
	}
	return engine.Peer{Worker: machine, Machine: machine, Role: role, Slots: 1}
}

// lookAt finds the workers of a model, and what waits before a job of the class; without an overview the published machines.
func lookAt(o *admin.Overview, model string, class jobs.Class) *lookout {
	l := &lookout{model: model, asked: o != nil}
	if o == nil {
		l.workers = []engine.Peer{publishedPeer(protocol.RolePrefill), publishedPeer(protocol.RoleDecode)}
		return l
	}
	l.workers = app.Peers(o.Workers, model)
	if !slices.ContainsFunc(l.workers, func(w engine.Peer) bool { return w.Role == protocol.RoleDecode }) {
		l.missing = protocol.RoleDecode
		l.workers = append(l.workers, publishedPeer(protocol.RoleDecode))
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
func (l *lookout) running() (n int) {
	for _, w := range l.workers {
		n += len(w.Running)
	}
	return n
}

// sizes estimates the sizes of jobs by what was measured of texts and answers.
func (l *lookout) sizes(texts []engine.Text) []engine.Size {
	bytesPerToken := engine.BytesPerToken(l.workers).Value
	sizes := make([]engine.Size, len(texts))
	for i, t := range texts {
		sizes[i] = t.Size(bytesPerToken, engine.Answer(l.model, t.Kind, t.Limit, l.workers).Value)
	}
	return sizes
}

// outlook has jobs wait behind so many of others. Of these, and of those that run, nobody knows more than that they may be like some, on average.
func (l *lookout) outlook(waiting, like []engine.Size, before int) *engine.Outlook {
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

// estimate estimates jobs of these sizes with each plan.
func (l *lookout) estimate(sizes []engine.Size, asked jobs.Plan) modelEstimate {
	o := l.outlook(sizes, sizes, l.waiting)
	e := modelEstimate{Model: l.model, Jobs: len(sizes), JobsBefore: l.waiting + l.relay + l.running(), Missing: l.missing, Published: !l.asked, NotMeasured: o.Guessed()}
	for _, z := range sizes {
		e.PromptTokens += z.Tokens
		e.SharedTokens += z.Prefix
		e.AnswerTokens += z.Generated
	}
	for _, w := range l.workers {
		e.Workers = append(e.Workers, servant{w.Machine, w.Role, max(1, w.Slots)})
	}
	scene, more := o.Scene(), map[jobs.Stage]*schedule.Scene{}
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		like := publishedPeer(role)
		if i := slices.IndexFunc(l.workers, func(w engine.Peer) bool { return w.Role == role }); i >= 0 {
			like = l.workers[i]
		}
		more[role] = o.With(like).Scene()
	}
	for _, p := range []jobs.Plan{jobs.PlanAuto, jobs.PlanDisaggregated, jobs.PlanLocal} {
		f := scene.Forecast(planOf(p))
		e.Plans = append(e.Plans, planEstimate{
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

// add adds a model, whose jobs are done beside those of the others.
func (e *estimate) add(m modelEstimate) {
	e.Models = append(e.Models, m)
	for _, p := range m.Plans {
		if p.Asked {
			e.Seconds = max(e.Seconds, p.Seconds)
		}
	}
}

// askedPlan is the plan that jobs have, or, of several, the one that rules who does what.
func askedPlan(list []*jobs.Job) jobs.Plan {
	has := map[jobs.Plan]bool{}
	for _, j := range list {
		has[j.EffectivePlan()] = true
	}
	for _, p := range []jobs.Plan{jobs.PlanAuto, jobs.PlanDisaggregated} {
		if has[p] {
			return p
		}
	}
	return jobs.PlanLocal
}

// estimateBatch estimates a batch that nobody has submitted; without an overview by published figures.
func estimateBatch(o *admin.Overview, list []*jobs.Job) *estimate {
	e := new(estimate)
	order := publishingOrder(list)
	for _, model := range models(list) {
		var texts []engine.Text
		var of []*jobs.Job
		for _, j := range order {
			if j.Model == model {
				of, texts = append(of, j), append(texts, engine.TextOf(j))
			}
		}
		l := lookAt(o, model, list[0].Class)
		e.add(l.estimate(l.sizes(texts), askedPlan(of)))
	}
	return e
}
