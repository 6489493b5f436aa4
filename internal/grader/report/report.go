// Package report writes what grading came to: per student a JSON file and a self-contained page, for the class a page, summary.json, grades.csv and what
// nbgrader, Gradescope and a gradebook import. All text of students and models is sanitized in each of them.
//
//	DIR/index.html                        the class
//	DIR/summary.json                      the same as data
//	DIR/grades.csv                        one line a submission, by pseudonym
//	DIR/reports/<id>.html, <id>.json      one student
//	DIR/gradescope/<id>/results.json      once it is released; https://gradescope-autograders.readthedocs.io/en/latest/specs/
//	DIR/instructor/roster.csv             whose pseudonym it is, with points: the only exports with names are in this folder
//	DIR/instructor/gradebook.csv          name, learning system's id, points, percent, status
//	DIR/instructor/nbgrader.csv           the columns of `nbgrader export`
//	DIR/instructor/notebooks/<id>.json    the cells of a submission, for the page that the student gets
//	DIR/students/<id>.html                that page, once it is released
//
// Folders are 0700, files 0600. Files are replaced whole or not at all. Pages hold their style, no script, and ask for nothing from anywhere.
// Tables are CSV in UTF-8 without a byte order mark; points that are not certain are empty in them, never 0.
package report

import (
	"time"

	"tandem/internal/batchstats"
	"tandem/internal/grader/ask"
	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/score"
	"tandem/jobs"
)

// Status is how a submission ended.
type Status string

// The ends of a submission.
const (
	Graded Status = "graded"
	Final  Status = "final"        // the instructor says so
	Review Status = "needs_review" // points are a range, or something asks for a person's eye: the reasons say which
	Failed Status = "failed"       // it could not be graded: the problem says why
)

// Student is one submission's record, DIR/reports/<id>.json. It holds no name.
type Student struct {
	V          int               `json:"v"` // 1
	ID         string            `json:"id"`
	Assignment string            `json:"assignment"`
	Status     Status            `json:"status"`
	Reasons    []string          `json:"reasons,omitempty"` // why a person must look
	Problem    string            `json:"problem,omitempty"` // of a failed one, with what to do about it
	Late       bool              `json:"late,omitempty"`
	Notice     string            `json:"notice,omitempty"` // what a reader must know of the models: stand-ins write gibberish
	Score      *score.Score      `json:"score,omitempty"`
	Layer1     *check.Findings   `json:"layer1,omitempty"`
	Layer2     *outputs.Findings `json:"layer2,omitempty"`
	Code       *Part             `json:"code,omitempty"`     // layer 3
	Feedback   *Part             `json:"feedback,omitempty"` // layer 4
	Flags      []ask.Flag        `json:"flags,omitempty"`
	Dropped    notebook.Dropped  `json:"dropped"`
	SpeedUp    float64           `json:"speed_up,omitempty"`  // sum of both requests' seconds / the slower one's; 0 if there are not two
	Overrides  *Overrides        `json:"overrides,omitempty"` // what the instructor has decided, nil if nothing
	Inputs     Inputs            `json:"inputs"`
	GradedAt   time.Time         `json:"graded_at"`
}

// Things are what a submission was asked for: items and outputs that count, and sections that ask for nothing by name.
func (s *Student) Things() []score.Thing {
	var list []score.Thing
	if s.Layer1 != nil {
		for _, item := range s.Layer1.Items {
			list = append(list, score.ThingOf(item))
		}
		for _, section := range s.Layer1.Sections {
			if section.Asked == 0 {
				list = append(list, score.Thing{Kind: score.Section, Section: section.ID, Name: section.Name})
			}
		}
	}
	if s.Layer2 != nil {
		for _, o := range s.Layer2.Comparisons {
			if o.Counts() {
				list = append(list, score.Thing{Kind: score.Output, Section: o.Section, Name: o.Key})
			}
		}
	}
	return list
}

// Overrides are what the instructor has decided about a submission.
type Overrides struct {
	Decisions []Decision  `json:"decisions"`          // in force, oldest first
	Feedback  *ask.Answer `json:"feedback,omitempty"` // the feedback model's words as the instructor has changed them; nil if none was
	Notes     []Note      `json:"notes,omitempty"`    // the instructor's own words to the student
}

// Decision is one line of instructor/overrides.jsonl that is in force.
type Decision struct {
	Line int       `json:"line"`
	At   time.Time `json:"at"`
	By   string    `json:"by"`
	What string    `json:"what"` // "points of element joins: 7"
	Why  string    `json:"why,omitempty"`
	Was  string    `json:"was,omitempty"` // what it rested on: what the program said then
	Now  string    `json:"now,omitempty"` // what it says now, if that is something else: a person must look again
}

// Note is a comment of the instructor's.
type Note struct {
	Line int    `json:"line"` // of the file, by which it is edited
	Text string `json:"text"`
}

// Inputs are the hashes of what the grades rest on, SHA-256 in hex.
type Inputs struct {
	Notebook string `json:"notebook"`
	Rubric   string `json:"rubric"`
	Solution string `json:"solution"`
	Template string `json:"template,omitempty"`
	Prompts  string `json:"prompts,omitempty"` // of the templates
}

// Part is what became of one model's request.
type Part struct {
	Model    string          `json:"model"`
	Answer   *ask.Answer     `json:"answer,omitempty"`  // nil if there is none that passed
	Problem  string          `json:"problem,omitempty"` // why there is none
	Counted  bool            `json:"counted"`           // its judgements count; not those about a flagged submission
	Asked    int             `json:"asked"`             // how often
	Cut      int             `json:"cut,omitempty"`     // bytes of the student's part that did not fit
	Job      string          `json:"job,omitempty"`     // id of the last one
	Method   jobs.Method     `json:"method,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
	Usage    jobs.Usage      `json:"usage"`
	Timings  jobs.Timings    `json:"timings"`
	Servers  jobs.Servers    `json:"servers"`
	Decision string          `json:"decision,omitempty"`
	Source   jobs.Provenance `json:"provenance"`
}

// Class is DIR/summary.json.
type Class struct {
	V            int                `json:"v"` // 1
	Assignment   string             `json:"assignment"`
	Title        string             `json:"title,omitempty"`
	Batch        string             `json:"batch"`
	Notice       string             `json:"notice,omitempty"`
	Warnings     []string           `json:"warnings,omitempty"` // of the whole run: the solution hardly overlaps, keys of the rubric that nobody knows, …
	Submissions  int                `json:"submissions"`
	Graded       int                `json:"graded"`
	Review       int                `json:"needs_review"`
	Failed       int                `json:"failed"`
	Final        int                `json:"final"` // by the instructor's word
	MaxPoints    float64            `json:"max_points"`
	Distribution Distribution       `json:"distribution"`
	SelfCheck    *SelfCheck         `json:"self_check,omitempty"` // of the rubric, by solution and template
	Rare         []Rare             `json:"rare,omitempty"`       // what hardly anybody has
	Missed       []Missed           `json:"missed"`               // most often first, 20 at most
	Students     []Row              `json:"students"`             // in the order of their ids
	Metrics      *batchstats.Report `json:"metrics"`              // tokens, seconds, rates per model and together
	PairSpeedUp  float64            `json:"pair_speed_up"`        // sum over the submissions with both requests of the sum of the two / sum of the slower one's
	Prefix       []Prefix           `json:"prefix,omitempty"`     // what the shared prefix saved, per model
	Reused       int                `json:"reused"`               // answers of earlier runs
	WallSeconds  float64            `json:"wall_seconds"`         // of this run
	FinishedAt   time.Time          `json:"finished_at,omitzero"` // zero while it runs
}

// Distribution of the percentages of all submissions with points; of a range its middle counts.
type Distribution struct {
	Count  int     `json:"count"`
	Ranges int     `json:"ranges"` // of these, those whose points are a range
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Tenths [10]int `json:"tenths"` // 0–10 %, …, 90–100 %
}

// Missed is something that many did not do.
type Missed struct {
	Kind    string `json:"kind"` // variable, function, column, question, output, section
	Name    string `json:"name"`
	Section string `json:"section,omitempty"`
	Count   int    `json:"count"`
	Of      int    `json:"of"`
}

// Rare is something that hardly anybody has, which is more likely the rubric's fault than the class's: it counts for nobody until the instructor says so.
type Rare struct {
	score.Thing
	Have    int      `json:"have"`
	Of      int      `json:"of"`
	Instead []string `json:"instead,omitempty"` // what students have in its place, most often first
	Verdict Verdict  `json:"verdict,omitempty"` // the instructor's; "" while there is none
}

// Verdict is what the instructor decides about a thing for the whole class.
type Verdict string

// The verdicts.
const (
	Count  Verdict = "count"  // it counts
	Ignore Verdict = "ignore" // it counts for nobody
)

// Row is a submission in the class's table.
type Row struct {
	ID      string     `json:"id"`
	Status  Status     `json:"status"`
	Points  float64    `json:"points"`
	Low     float64    `json:"low"`
	High    float64    `json:"high"`
	Percent float64    `json:"percent"`
	Certain bool       `json:"certain"` // points are; else they lie between low and high, which are both 0 if there is no score
	Flags   int        `json:"flags"`
	Quotes  []ask.Flag `json:"quotes,omitempty"` // what the flags are, for the instructor
	Late    bool       `json:"late,omitempty"`
	Why     []string   `json:"why,omitempty"`     // reasons or problem
	Decided []Decision `json:"decided,omitempty"` // by the instructor
}

// Totals are the points of an assignment of several notebooks.
type Totals struct {
	Parts    []string `json:"parts"` // names of the folders, one each notebook
	Max      float64  `json:"max"`
	Students []Total  `json:"students"` // by name
}

// Total is one student's.
type Total struct {
	Name    string      `json:"name"`
	LMSID   string      `json:"lms_id,omitempty"`
	Parts   []TotalPart `json:"parts"`   // in their order
	Sum     float64     `json:"sum"`     // of those that are certain
	Certain bool        `json:"certain"` // all are that were handed in
}

// TotalPart is one notebook of a student's.
type TotalPart struct {
	There   bool    `json:"there"` // it was handed in
	Certain bool    `json:"certain"`
	Points  float64 `json:"points"` // if they are certain
}

// Prefix is what became of a model's prompts.
type Prefix struct {
	Model    string `json:"model"`
	Jobs     int    `json:"jobs"`
	Tokens   int    `json:"prompt_tokens"` // of all prompts
	Computed int    `json:"computed"`      // by the prefill engines, or where the prompt was processed first
	Cached   int    `json:"cached"`        // found there
}
