package rig

import (
	"time"

	"tandem/test/rig/check"
	"tandem/test/rig/host"
)

// Mutant is Tandem with one of its defences taken out, and the faults that this defence is for. The judge must see the difference: a rig that finds nothing
// in a broken system proves nothing about a whole one.
type Mutant struct {
	Name  string
	Lacks string // what was taken out, and what hides it where several defences stand behind one another
	Edits []host.Edit
	Fault []host.Edit // what goes wrong inside the programs, where nothing from outside could bring it about: the whole ones have it, too
	Plan  func(seed uint64) *Plan
	Rule  check.Rule // that is broken
	Real  bool       // needs engines with KV states
	Slow  bool       // its engines take so long that jobs wait while others are cancelled
	Spoil bool       // states are altered on their way
}

const (
	fileHop      = "internal/queue/settle_publish.go"
	fileSettle   = "internal/queue/settle.go"
	fileDelivery = "internal/queue/run_delivery.go"
	fileTopology = "internal/queue/topology.go"
	fileEnd      = "internal/queue/control_end.go"
	fileTransfer = "internal/handover/transfer.go"
	fileImport   = "internal/slots/import.go"
	fileResult   = "internal/engine/result.go"
)

// The workers of a [MutantSystem].
const (
	onePrefill = iota
	otherPrefill
	oneDecode
	otherDecode
)

// longFreeze is longer than the server waits for a sign of life, so that the job runs elsewhere meanwhile.
const longFreeze = 17 * time.Second

// Mutants are all of them.
func Mutants() []Mutant { return append(queueMutants(), autoMutants()...) }

// queueMutants lack what every plan relies on.
func queueMutants() []Mutant {
	return []Mutant{
		{
			Name:  "no Msg-Id",
			Lacks: "the id by which NATS knows a hop that was published before",
			Edits: []host.Edit{{File: fileHop, Old: `jetstream.WithMsgID(messageID(j, h.Stage)), `, New: ""}},
			Plan:  struck(Action{What: Freeze, Target: onePrefill, Step: BeforePublish, For: longFreeze}),
			Rule:  check.Repeated,
		},
		{
			Name:  "ack before publish",
			Lacks: "the order in which a job is let go of only when the next record is stored",
			Edits: []host.Edit{{
				File: fileSettle, Old: "\t\tfirst, handed := true, time.Time{}\n",
				New: "\t\tif err := d.acknowledge(ctx); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tfirst, handed := true, time.Time{}\n",
			}},
			Plan: struck(Action{What: Kill, Target: onePrefill, Step: BeforePublish}, Action{What: Kill, Target: oneDecode, Step: BeforePublish}),
			Rule: check.Lost,
		},
		{
			Name:  "result without expected sequence",
			Lacks: "the condition that a result is the first of its job; and the stream's own limit of one for each subject, which would refuse the second as well",
			Edits: []host.Edit{
				{File: fileHop, Old: `jetstream.WithExpectLastSequencePerSubject(0), jetstream.WithExpectStream(StreamResults)`, New: `jetstream.WithExpectStream(StreamResults)`},
				{File: fileTopology, Old: "MaxAge: keepResults, Duplicates: 2 * time.Minute,\n\t\t\tMaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,", New: "MaxAge: keepResults, Duplicates: 2 * time.Minute,\n\t\t\tMaxMsgsPerSubject: 1,"},
			},
			Plan: struck(Action{What: Freeze, Target: oneDecode, Step: BeforePublish, For: longFreeze}),
			Rule: check.Duplicate,
		},
		{
			Name:  "no checksum on the hand-over",
			Lacks: "the comparison of SHA-256; and that of the first prediction, which would stop a state as wrong as this one, too",
			Edits: []host.Edit{
				{File: fileTransfer, Old: "if sum != want {", New: "if sum != want && want == \"\" {"},
				{File: fileImport, Old: "if done.Divergence > maxDivergence {", New: "if done.Divergence > 2 {"},
			},
			Plan: struck(),
			Rule: check.WrongText, Real: true, Spoil: true,
		},
		{
			Name:  "silent burial",
			Lacks: "the failed result of a job that becomes a dead letter",
			Edits: []host.Edit{{File: fileSettle, Old: "return d.publishEnd(ctx, jobs.Failed, attempts, cause)", New: "return d.acknowledge(ctx)"}},
			Plan:  struck(badDay()...),
			Rule:  check.Lost,
		},
		{
			Name:  "cancel unheeded",
			Lacks: "the removal of a cancelled job from the queue; and the look whether a job has ended, which would stop it as well",
			Edits: []host.Edit{
				{File: fileEnd, Old: `return c.purge(ctx, stream, protocol.AnyJobFilter("*", j.User, j.ID))`, New: "return nil"},
				{File: fileDelivery, Old: "return there != nil, err\n}\n\n// isGone", New: "return there != nil && false, err\n}\n\n// isGone"},
			},
			Plan: cancelled,
			Rule: check.Restarted, Slow: true,
		},
		{
			Name:  "text of another",
			Lacks: "the text as the engine wrote it",
			Edits: []host.Edit{{File: fileResult, Old: "r.Warnings = c.Text,", New: `r.Warnings = c.Text+" ",`}},
			Plan:  struck(),
			Rule:  check.WrongText,
		},
	}
}

// MutantSystem is the system for a mutant, or, to compare, for a whole one under the same faults.
func MutantSystem(dir string, p *host.Programs, m Mutant) Options {
	o := Options{Dir: dir, Programs: p, Models: RealStorm(0).Models[:1], Each: 2, Nodes: 1, Slots: 1, NumCtx: 4096, PerToken: 200 * time.Microsecond, SpoilStates: m.Spoil}
	if m.Real {
		o.Real, o.Each = true, 1
	}
	if m.Slow {
		o.PerToken = 8 * time.Millisecond
	}
	return o
}

// struck is a plan of a few jobs and just these faults.
func struck(actions ...Action) func(uint64) *Plan {
	return func(seed uint64) *Plan {
		p := NewPlan(seed, Shape{
			Jobs: 24, Models: RealStorm(0).Models[:1], BatchSize: 24, Callers: 1, PromptWords: [2]int{40, 80}, Tokens: [2]int{8, 24},
		})
		p.Actions = actions
		return p
	}
}

// cancelled is a plan in which many jobs are cancelled while they wait.
func cancelled(seed uint64) *Plan {
	p := struck()(seed)
	for i := range p.Batches[0].Jobs[12:] {
		p.Batches[0].Jobs[12+i].Cancel = true
	}
	return p
}

// badDay has engines of both sides fail so often that a job becomes a dead letter.
func badDay() (list []Action) {
	for range 6 {
		for machine := range otherDecode + 1 {
			list = append(list, Action{What: Answer, Target: machine, How: "500 out of memory"})
		}
	}
	return list
}
