package rig

import (
	"math/rand/v2"

	"tandem/test/rig/check"
	"tandem/test/rig/host"
)

const (
	fileErrors  = "internal/protocol/retry.go"
	fileIntake  = "internal/queue/fetch_intake.go"
	fileOutlook = "internal/pipeline/outlook.go"
	fileBases   = "internal/handover/bases.go"
)

// autoMutants lack what plan auto, and states of which only what is new travels, rely on.
func autoMutants() []Mutant {
	return []Mutant{
		{
			Name:  "an attempt for giving way",
			Lacks: "the rule that a batch job that gives way to an interactive one is requeued without an attempt",
			Edits: []host.Edit{{File: fileErrors, Old: "jobs.CodeDraining, jobs.CodePreempted, jobs.CodeNATS", New: "jobs.CodeDraining, jobs.CodeNATS"}},
			Plan:  urgent,
			Rule:  check.Miscounted, Slow: true,
		},
		{
			Name:  "left to others for ever",
			Lacks: "the end of leaving a job to others",
			Fault: []host.Edit{{File: fileOutlook, Old: "\tif b.Head == nil {\n\t\treturn protocol.Choice{}\n\t}\n", New: "\tif b.Head != nil || s == nil {\n\t\treturn protocol.Choice{Again: time.Second}\n\t}\n"}},
			Edits: []host.Edit{{File: fileIntake, Old: "case now.After(last.until):", New: "case now.After(last.until) && false:"}},
			Plan:  leftOver,
			Rule:  check.Left,
		},
		{
			Name:  "jobs of other plans taken whole",
			Lacks: "the look of a decode worker at the plan of the next job of the intake; and that at the one which it got, which would be handed back",
			Edits: []host.Edit{
				{File: fileIntake, Old: "if err == nil && b.Head != nil && b.Head.EffectivePlan() == jobs.PlanAuto {", New: "if err == nil && b.Head != nil {"},
				{File: fileDelivery, Old: "return plan != jobs.PlanAuto && plan != jobs.PlanLocal", New: `return plan == ""`},
			},
			Plan: mixed,
			Rule: check.Strayed,
		},
		{
			Name:  "no checksum on what is put together",
			Lacks: "the comparison of SHA-256 where only what is new of a state was fetched; and that of the first prediction, as above",
			Fault: []host.Edit{{
				File: fileBases, Old: "\tif err == nil && name != p.Name {\n",
				New: "\tfor at := int64(0); err == nil && at < made.bytes; at += 64 {\n\t\t_, err = made.file.WriteAt([]byte{0x55}, at)\n\t}\n\tif err == nil && name != p.Name {\n",
			}},
			Edits: []host.Edit{
				{File: fileTransfer, Old: "if sum != want {", New: "if sum != want && t.base == nil {"},
				{File: fileImport, Old: "if done.Divergence > maxDivergence {", New: "if done.Divergence > 2 {"},
			},
			Plan: sharing,
			Rule: check.WrongText, Real: true,
		},
	}
}

// mixed is a plan of jobs half of which ask for plan auto, with no fault.
func mixed(seed uint64) *Plan {
	return NewPlan(seed, Shape{
		Jobs: 200, Auto: true, Models: RealStorm(0).Models[:1], BatchSize: 200, Callers: 1, PromptWords: [2]int{40, 80}, Tokens: [2]int{8, 24},
	})
}

// urgent is a plan in which a batch is of plan auto, and some callers beside it wait for one interactive job after the other.
func urgent(seed uint64) *Plan {
	p := NewPlan(seed, Shape{
		Jobs: 90, Models: RealStorm(0).Models[:1], BatchSize: 60, Callers: 4, Singles: 30, PromptWords: [2]int{40, 80}, Tokens: [2]int{8, 24},
	})
	for i, b := range p.Batches {
		if !b.Single {
			p.Batches[0], p.Batches[i] = p.Batches[i], p.Batches[0] // it is there as long as the others
		}
	}
	p.allAuto()
	return p
}

// leftOver is a plan of few jobs, all of plan auto, since each of them but the first is left to others for a while.
func leftOver(seed uint64) *Plan {
	p := NewPlan(seed, Shape{Jobs: 4, Models: RealStorm(0).Models[:1], BatchSize: 4, Callers: 1, PromptWords: [2]int{40, 80}, Tokens: [2]int{8, 24}})
	p.allAuto()
	return p
}

// allAuto has all jobs of the first batch ask for plan auto.
func (p *Plan) allAuto() {
	for i := range p.Batches[0].Jobs {
		p.Batches[0].Jobs[i].Plan = "auto"
	}
}

// sharing is a plan of jobs that share most of their prompts.
func sharing(seed uint64) *Plan {
	p := struck()(seed)
	shared := prompt(rand.New(rand.NewPCG(seed, 4)), "shared", 400)
	for i := range p.Batches[0].Jobs {
		j := &p.Batches[0].Jobs[i]
		j.Prompt = shared + "\n" + j.Prompt
	}
	return p
}
