// Package ask is layers 3 and 4: what the two models are asked about a submission, and what is made of their answers.
//
// A prompt has what the class shares first (task, rubric, template, solution) and the student's part last; the shared part is the same bytes for every submission, so
// that a prefill engine computes it once. The student's text is data: it is fenced, what could end the fence or a turn of the chat is made harmless, and what reads like an
// instruction to the grader is flagged. An answer is JSON by a schema and is checked against it; what does not pass is no answer.
package ask

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

// Kinds of requests are the judges of rubric: code (layer 3, code analysis) and feedback (layer 4).

// Assignment is what the whole class shares.
type Assignment struct {
	Rubric   *rubric.Rubric
	Solution *notebook.Notebook
	Template *notebook.Notebook // nil if there is none
	Seed     int64              // 0: the likeliest answer; else one that is drawn by this seed, at temperature 0.3
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
	Seed   int64           // of the assignment
	Cut    int             // bytes of the student's part that were left out to fit, outputs first; the text says where
}

// Job makes the request a job: Prompt = Shared + Own, SharedPrefix = len(Shared), temperature 0 unless the assignment has a seed, little thinking: a model that reasons must not use up the tokens of its answer, of which
// llama-server counts the thinking as a part. User, batch, ids, class and plan are the caller's.
func (p *Prompt) Job() *jobs.Job {
	temperature, seed := 0.0, int64(1)
	if p.Seed != 0 {
		temperature, seed = drawTemperature, p.Seed
	}
	return &jobs.Job{
		V: jobs.Version, Model: p.Model, System: p.System, Prompt: p.Shared + p.Own, SharedPrefix: len(p.Shared), Format: p.Format, Think: jobs.ThinkLow,
		Options: jobs.Options{Temperature: &temperature, Seed: &seed, NumPredict: new(p.Tokens)},
	}
}

// drawTemperature is that of answers that are drawn.
const drawTemperature = 0.3

// What a prompt is estimated by. English and code have 3 to 4 bytes a token in the vocabularies of Qwen and GPT models; 2.5 is what no real class goes below, by which prompts are made to fit.
const (
	bytesPerToken = 3.2
	fitPerToken   = 2.5
	turnTokens    = 16 // that a chat template adds to a turn, about
)

// EstimateTokens estimates a prompt's length in tokens: bytes / 3.2, rounded up, plus 16 a turn. The turns of system and user begin in the shared part, the model's after the own.
func (p *Prompt) EstimateTokens() (shared, own int) {
	turns := 1
	if p.System != "" {
		turns = 2
	}
	return estimate(len(p.System)+len(p.Shared)) + turns*turnTokens, estimate(len(p.Own)) + turnTokens
}

// ContextTokens is about the least context in which nothing of the student's part is left out, even if it is asked again: in tokens, a multiple of 1,024. The headings of cells that were left out whole are not counted.
func (p *Prompt) ContextTokens() int {
	bytes := len(p.System) + len(p.Shared) + len(p.Own) + p.Cut + len(againText) + maxProblem
	tokens := int(math.Ceil(float64(bytes)/fitPerToken)) + p.Tokens + marginTokens
	return (tokens + 1023) / 1024 * 1024
}

func estimate(bytes int) int { return int(math.Ceil(float64(bytes) / bytesPerToken)) }

// maxProblem is how many bytes of a problem a model is told.
const maxProblem = 400

// againText is what an own part ends with when a model is asked again.
const againText = "\nYour last answer was not accepted: %s.\nAnswer again, JSON only, shorter.\n"

// Again is the same request once more after an answer that did not pass: the own part ends with what was wrong with it. All before that stays as it was, so that an engine need not compute it again.
func (p *Prompt) Again(problem error) *Prompt {
	said := strings.Join(strings.Fields(safe(problem.Error())), " ")
	if len(said) > maxProblem {
		said = said[:boundary(said, maxProblem-len("…"))] + "…"
	}
	again := *p
	again.Own += fmt.Sprintf(againText, strings.TrimRight(said, "."))
	return &again
}
