// Package rubric reads the rubric of an assignment: a JSON file, checked against docs/schemas/rubric.schema.json. The format is the one
// that instructors of the original installation have; the keys that Tandem adds are optional.
package rubric

import (
	"encoding/json"
	"math/big"
)

// Rubric is a checked rubric. Lists are in the order of the file.
type Rubric struct {
	Info     Info
	Elements []Element
	Required []string // autograder_checks.required_variables

	// Own keys of autograder_checks, as sections have them: what must be called, or named, anywhere.
	RequiredFunctions, RequiredColumns []string

	Sections []Section
	Outputs  map[string]Output // autograder_checks.outputs, own key: by the name that reports give an output, as "totals" or "join #2"
	Strict   json.RawMessage   // strict_scoring_rules: shown to the models as it is, nil if there are none
	Partial  json.RawMessage   // partial_credit_rules: likewise
	Rules    Rules             // "tandem", our own key, with the defaults filled in

	Unknown []string // JSON pointers of keys that nobody knows; kept in Raw, shown to the models, reported, never fatal
	Raw     []byte   // the file
	SHA256  string   // of the file, in hex

	notes []string
	root  *node
}

// Info is assignment_info.
type Info struct {
	Name, Title, Description string
	TotalPoints              *big.Rat // above 0
}

// Element is one of rubric_elements: what points are given for.
type Element struct {
	ID          string   // its key
	Description string   //
	Weight      *big.Rat // share of the total, from 0 to 1; all weights sum to exactly 1. In the file 0–1, 0–100 or "40%", or left out: then its share of all max_points
	MaxPoints   *big.Rat // what full marks are called; left out: Weight × total_points
	Criteria    []Criterion
	Sections    []string // ids of the sections that it is about. Own key "sections"; left out: the section of the same id or name, else all of them
}

// Criterion is one line of an element's criteria: a string or, our own, an object {id, text, points, judge, bound}. Criteria that are one string are one criterion. Criteria that are an
// object {level: text} are one criterion, too: a scale, of which "poor" must not be asked for by itself. Its text is "level: text; level: text", in the order of the file.
type Criterion struct {
	ID     string   // unique in the rubric: the element's id, a dot, a number from 1, or the own key "id"
	Text   string   // what is asked
	Points *big.Rat // its part of the element's MaxPoints; left out: an equal part of what the others leave
	Judge  Judge    // which model judges it. Left out: the feedback model if all sections of its element are prose, else the code model
	Bound  *big.Rat // how much of Points a model may add or take, from 0 to 1; left out: Rules.ModelBound
}

// Judge is the model that judges a criterion.
type Judge string

// The judges.
const (
	JudgeCode     Judge = "code"
	JudgeFeedback Judge = "feedback"
	JudgeNobody   Judge = "nobody" // decided by layers 1 and 2 alone
)

// Section is one of autograder_checks.sections.
type Section struct {
	ID        string   // its key
	Name      string   // as in the notebook's headings; the id if left out
	Points    *big.Rat // weight among the sections; 1 if left out
	Variables []string // that must be assigned in it
	Functions []string // that must be called in it, without parentheses; "left_join|merge" is either
	Columns   []string // required_columns that must be named in it; alternatives likewise
	Markdown  bool     // check_type "markdown": prose, not code
	Questions []string // reflection_questions. In the file a list of texts, or a number of questions ("question 1", "question 2", …), or true ("question 1")
	MinWords  int      // own key min_words: that an answer to a question has at least; 0 if left out: then 3
	Heading   string   // own key: text of the heading it begins with, where that is not Name
}

// Output is what the rubric says of one of the solution's outputs.
type Output struct {
	Weight    *big.Rat // among the outputs; 1 if left out
	Ignore    bool     // it is not compared
	Tolerance *big.Rat // relative difference at which two numbers are equal; nil: the rubric's
	AnyOf     []string // values that are as right as the solution's
}

// Rules are the own key "tandem" of the rubric.
type Rules struct {
	ModelBound     *big.Rat   // model_bound: how much of a criterion's points a model may change, either way; default 1/10
	OutputShare    *big.Rat   // output_share: part of an element's points that its outputs decide, where there are any to compare; default 1/2
	CapBelow       *big.Rat   // cap.output_match_below: default 1/2
	CapAt          *big.Rat   // cap.score_at_most, in percent of total_points: default 60
	CapCompletion  Completion // cap.completion: default partial
	Tolerance      *big.Rat   // tolerance: relative difference at which two numbers are equal; default 1/1000
	CodeModel      string     // models.code: default qwen3-coder:30b
	FeedbackModel  string     // models.feedback: default gpt-oss:120b
	CodeTokens     int        // num_predict.code: longest answer in tokens; default 1200
	FeedbackTokens int        // num_predict.feedback: default 1500
	Instructions   string     // instructions: what the assignment asks, for the models; default assignment_info.description
}

// Completion is what the score is never above.
type Completion string

// The ways to count sections for that.
const (
	CompleteOnly Completion = "complete" // the share of points of sections found complete
	PartialToo   Completion = "partial"  // the same, and of the others the part that was found
	Uncapped     Completion = "none"     // no such cap
)

// Section returns a section by its id.
func (r *Rubric) Section(id string) (*Section, bool) {
	for i := range r.Sections {
		if r.Sections[i].ID == id {
			return &r.Sections[i], true
		}
	}
	return nil, false
}

// Criteria lists the criteria that a model judges, in the order of the file.
func (r *Rubric) Criteria(judge Judge) []Criterion {
	var list []Criterion
	for _, e := range r.Elements {
		for _, c := range e.Criteria {
			if c.Judge == judge {
				list = append(list, c)
			}
		}
	}
	return list
}

// Notes lists what an instructor should know of the rubric though nothing is wrong with it: keys that nobody knows, with the key that was probably meant, and what was decided where the
// file speaks against itself. Each begins with a JSON pointer.
func (r *Rubric) Notes() []string { return cut(r.notes) }
