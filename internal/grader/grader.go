// Package grader grades a class: it reads the submissions, makes the checks of layers 1 and 2, asks two models about each submission (layers 3 and 4, two jobs side by
// side), scores, and writes reports. What it has done stands in a ledger, so that it goes on after any crash where it was.
package grader

import (
	"context"
	"iter"
	"time"

	"tandem/internal/grader/report"
	"tandem/jobs"
)

// Model is what is known of a model before it is asked.
type Model struct {
	ContextTokens int    // smallest context of its workers; 0 if not known
	Digest        string // of the model file; "" if not known or if its workers differ
}

// What [Options.Only] may say.
const (
	OnlyFailed = "failed" // submissions with a request that failed
	OnlyReview = "review" // those that need review since an answer is missing
)

// Options are how a class is graded.
type Options struct {
	Paths      []string         // submissions, as of intake.Collect
	Course     string           // which assignment of an nbgrader tree, "" if there is but one
	Notebook   string           // which of the notebooks that each student handed in, "" for the one that is called like the solution
	Out        string           // folder for everything that is written
	Prompts    string           // folder with prompt templates, "" for the project's own
	User       string           // whose jobs these are
	Plan       jobs.Plan        // of the jobs
	Class      jobs.Class       // of the jobs; default batch
	Deadline   time.Time        // of the jobs; zero: none
	Models     map[string]Model // by canonical name
	Resume     bool             // go on with what Out holds; without it a folder that holds a ledger is refused
	Only       string           // "", [OnlyFailed] or [OnlyReview]: which submissions are asked about again, beside those that are not done yet (with Resume)
	Student    string           // pseudonym: this one alone is asked about, anew (with Resume)
	Seed       int64            // 0: the models' likeliest answers; else answers drawn by this seed
	WithoutAsk bool             // layers 1 and 2 only: every submission needs review, with its range
	Notice     string           // for the reports: what a reader must know of the models
	Now        func() time.Time // for tests, called by several goroutines; default time.Now
}

// Answerer has models do jobs. The queue does it, and so does one Ollama by itself.
type Answerer interface {
	// Submit takes a job. Taking one again that was taken before, by an earlier process, changes nothing: earlier says that this may be so.
	Submit(ctx context.Context, j *jobs.Job, earlier bool) error
	// Await yields the results of jobs of a batch as they come, each once, and ends after the last; an error is the last thing yielded.
	Await(ctx context.Context, batch string, ids []string) iter.Seq2[*jobs.Result, error]
}

// Event tells how far the work is. It is sent from one goroutine at a time.
type Event struct {
	Submissions int             // all of them
	Done        int             // reports written
	Review      int             // of these
	Failed      int             // of these
	Judges      [2]Share        // of the requests: code, then feedback
	Result      *jobs.Result    // that came just now, nil otherwise
	Finished    *report.Student // whose report was written just now, nil otherwise
}

// Share is how far one judge is.
type Share struct {
	Model    string
	Jobs     int // requests that it answers by the end of this run, those of earlier runs and those asked again included
	Answered int // of these
}

// Plan is what would be sent, for a dry run.
type Plan struct {
	Submissions int           `json:"submissions"`
	Failed      int           `json:"failed"` // that cannot be graded
	Warnings    []string      `json:"warnings,omitempty"`
	Models      []ModelPlan   `json:"models"`
	Problems    []ProblemPlan `json:"problems,omitempty"`

	SelfCheck *report.SelfCheck `json:"self_check"` // of the rubric, by solution and template
}

// ModelPlan is what one model would be asked.
type ModelPlan struct {
	Model        string `json:"model"`
	Judge        string `json:"judge"`
	Jobs         int    `json:"jobs"`          // to send
	Reused       int    `json:"reused"`        // answers of earlier runs that still hold
	SharedTokens int    `json:"shared_tokens"` // of the prefix, about; computed once per prefill slot
	OwnTokens    int    `json:"own_tokens"`    // of all students' parts, about
	LongestOwn   int    `json:"longest_own"`   // of the longest student's part, about
	AnswerTokens int    `json:"answer_tokens"` // at most, of all answers
	Cut          int    `json:"cut"`           // prompts that do not fit and are cut
	Context      int    `json:"context"`       // of its workers, in tokens, about: from there on none is cut

	Requests []RequestPlan `json:"-"` // those to send, in the order in which they are sent
}

// RequestPlan is one request.
type RequestPlan struct {
	OwnTokens    int // of the student's part, about
	AnswerTokens int // at most
}

// ProblemPlan is a submission that cannot be graded.
type ProblemPlan struct {
	ID      string `json:"id"`
	Problem string `json:"problem"`
}
