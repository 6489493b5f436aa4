package ask

import (
	"tandem/internal/grader/score"
)

// Answer is what a model said, checked. In the model's own JSON the criteria are an object with one key per criterion: so a grammar can hold it to each of them, once.
type Answer struct {
	Criteria     []Judged      `json:"criteria"`               // in the order of the rubric, each criterion of the judge once
	Issues       []Issue       `json:"issues,omitempty"`       // code analysis: what is wrong in the code
	Summary      string        `json:"summary,omitempty"`      // feedback, two or three sentences
	Strengths    []string      `json:"strengths,omitempty"`    // feedback
	Improvements []Improvement `json:"improvements,omitempty"` // feedback, most important first
	Question     string        `json:"question,omitempty"`     // feedback: one to think about next
}

// Judged is one criterion.
type Judged struct {
	ID       string        `json:"id"`
	Verdict  score.Verdict `json:"verdict"`
	Evidence string        `json:"evidence"` // the line or sentence it rests on
}

// Issue is something wrong in the code.
type Issue struct {
	Where string `json:"where"` // cell or line
	What  string `json:"what"`
	Fix   string `json:"fix"`
}

// Improvement is something to improve.
type Improvement struct {
	What    string `json:"what"`
	Why     string `json:"why"`
	How     string `json:"how"`
	Example string `json:"example"`
}
