// Package ask is layers 3 and 4: what the two models are asked about a submission, and what is made of their answers.
//
// A prompt has what the class shares first (task, rubric, template, solution) and the student's part last; the shared part is the same bytes for every submission, so
// that a prefill engine computes it once. The student's text is data: it is fenced, what could end the fence or a turn of the chat is made harmless, and what reads like an
// instruction to the grader is flagged. An answer is JSON by a schema and is checked against it; what does not pass is no answer.
package ask

import (
	"encoding/json"

	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
	"tandem/internal/jobs"
)

// Kinds of requests are the judges of rubric: code (layer 3, code analysis) and feedback (layer 4).

// Assignment is what the whole class shares.
type Assignment struct {
	Rubric   *rubric.Rubric
	Solution *notebook.Notebook
	Template *notebook.Notebook // nil if there is none
}

// Subject is one student's part.
type Subject struct {
	Notebook *notebook.Notebook
	Layer1   *check.Findings
	Layer2   *outputs.Findings
	Mask     []string // names that must not reach a model: each is replaced by [student]
}

// Limits bound prompts.
type Limits struct {
	ContextTokens int // of the model's workers, prompt and answer together; 0 is unknown: 32,768
}

// Prompt is one request.
type Prompt struct {
	Kind   rubric.Judge
	Model  string
	System string
	Shared string          // the same for the whole class
	Own    string          // the student's
	Format json.RawMessage // JSON schema of the answer
	Tokens int             // longest answer: num_predict
	Cut    int             // bytes of the student's part that were left out to fit, outputs first; the text says where
}

// Job makes the request a job: Prompt = Shared + Own, SharedPrefix = len(Shared), temperature 0, seed 1. User, batch, ids, class and plan are the caller's.
func (p *Prompt) Job() *jobs.Job { return &jobs.Job{} }

// EstimateTokens estimates a prompt's length in tokens: bytes / 3.2, rounded up, plus 16 a turn.
func (p *Prompt) EstimateTokens() (shared, own int) { return 0, 0 }

// Builder makes the prompts of an assignment.
type Builder struct{}

// NewBuilder reads the templates: those in dir (code.md, feedback.md), the project's own where one is missing or dir is "". A template is Go text/template with two definitions,
// "system" and "shared", and one, "student"; only the last sees the student's part. Errors name file and line.
func NewBuilder(a Assignment, dir string, limits map[rubric.Judge]Limits) (*Builder, error) {
	return nil, jobs.Errorf(jobs.CodeInvalid, "prompts are not built yet")
}

// WriteTemplates writes the project's own templates into a folder, to be changed. It overwrites nothing.
func WriteTemplates(dir string) error {
	return jobs.Errorf(jobs.CodeInvalid, "prompts are not built yet")
}

// Prompt makes one request about a submission.
func (b *Builder) Prompt(kind rubric.Judge, s Subject) (*Prompt, error) {
	return nil, jobs.Errorf(jobs.CodeInvalid, "prompts are not built yet")
}

// Again is the same request once more after an answer that did not pass: the own part ends with what was wrong with it.
func (p *Prompt) Again(problem error) *Prompt { return p }

// Answer is what a model said, checked.
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

// Improvement is something to mend.
type Improvement struct {
	What    string `json:"what"`
	Why     string `json:"why"`
	How     string `json:"how"`
	Example string `json:"example"`
}

// Parse checks a model's text: JSON, by the schema, every criterion of the judge exactly once. The error says what to do better, for the model and for a person, and quotes none of
// the student's text. finish is the result's finish_reason: "length" means that the answer was cut off.
func Parse(kind rubric.Judge, r *rubric.Rubric, text, finish string) (*Answer, error) {
	return nil, jobs.Errorf(jobs.CodeInvalid, "answers are not built yet")
}

// Flag is something in a notebook that reads like an instruction to the grader, or like an attempt to leave the fence.
type Flag struct {
	Cell  int    `json:"cell"`
	Kind  string `json:"kind"`  // instruction, points, role, fence, chat_token, hidden
	Quote string `json:"quote"` // at most 120 characters around it
}

// Flags looks for them in sources and outputs, including what a reader does not see: HTML comments, zero-width and bidirectional characters.
func Flags(nb *notebook.Notebook) []Flag { return nil }
