// Package score turns findings into points. It is deterministic, exact (rational numbers, rounded once, at the end) and explains every point.
package score

import (
	"tandem/internal/grader/check"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
)

// Verdict is a model's judgement of a criterion.
type Verdict string

// The verdicts. Unclear changes nothing.
const (
	Met     Verdict = "met"
	Partly  Verdict = "partly"
	NotMet  Verdict = "not_met"
	Unclear Verdict = "unclear"
)

// Judgements are what the models say, by criterion id. A model whose answer is missing is not in it, and neither is one whose answer must not count.
type Judgements map[rubric.Judge]map[string]Verdict

// Score is a submission's points.
type Score struct {
	Points   float64   `json:"points"`   // what is certain if nothing is missing: Low = High = Points, else the points of layers 1 and 2 alone
	Low      float64   `json:"low"`      // the least that any answer of the missing models can leave
	High     float64   `json:"high"`     // the most
	Max      float64   `json:"max"`      // total_points
	Percent  float64   `json:"percent"`  // of Points
	Certain  bool      `json:"certain"`  // Low = High: no model's answer is missing that could change anything
	Base     float64   `json:"base"`     // points by layers 1 and 2 alone, before any cap
	Adjusted float64   `json:"adjusted"` // Base with the models' judgements, before any cap
	Elements []Element `json:"elements"` // in the order of the rubric
	Caps     []Cap     `json:"caps"`     // those that were applied
	Reasons  []string  `json:"reasons"`  // the way from Base to Points, one sentence a step
}

// Element is the points of one rubric element, in its share of total_points: Weight × total_points is the most.
type Element struct {
	ID         string      `json:"id"`
	Points     float64     `json:"points"` // with the judgements
	Base       float64     `json:"base"`   // by layers 1 and 2
	Low        float64     `json:"low"`
	High       float64     `json:"high"`
	Max        float64     `json:"max"`
	Systematic float64     `json:"systematic"` // share of layer 1, 0 to 1
	Outputs    float64     `json:"outputs"`    // share of layer 2, 0 to 1; -1 if there is nothing to compare
	Reasons    []string    `json:"reasons"`    // every point that is given or not, and why
	Criteria   []Criterion `json:"criteria"`
}

// Criterion is what a model changed.
type Criterion struct {
	ID      string  `json:"id"`
	Text    string  `json:"text"`
	Judge   string  `json:"judge"`   // code, feedback, nobody
	Verdict Verdict `json:"verdict"` // "" if the model's answer is missing
	Points  float64 `json:"points"`  // what the criterion is worth, in points of the total
	Bound   float64 `json:"bound"`   // the most that the model may add or take, in points of the total
	Change  float64 `json:"change"`  // what it did
}

// Cap is a limit that the points hit.
type Cap struct {
	Name   string  `json:"name"`  // output_match, completion
	Limit  float64 `json:"limit"` // in points of the total
	Reason string  `json:"reason"`
}

// Compute scores a submission. docs/GRADING.md has the formulas.
func Compute(r *rubric.Rubric, layer1 *check.Findings, layer2 *outputs.Findings, judged Judgements) *Score {
	return &Score{}
}
