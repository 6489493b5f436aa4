package ask

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
	"tandem/jobs"
)

// finishLength is the finish reason of an answer that ended at its longest.
const finishLength = "length"

// Parse checks a model's text: JSON, by the schema, every criterion of the judge exactly once. The error says what to do better, for the model and for a person, and quotes none of
// the student's text. finish is the result's finish_reason: "length" means that the answer was cut off.
func Parse(kind rubric.Judge, r *rubric.Rubric, text, finish string) (*Answer, error) {
	f, err := newForm(kind, r)
	if err != nil {
		return nil, err
	}
	data := []byte(unwrap(text))
	switch err := jobs.CheckJSON(data); {
	case err != nil && finish == finishLength:
		return nil, jobs.Errorf(jobs.CodeInvalid, "the answer was cut off at its longest, %d tokens: be brief, and write no white space between keys and values", f.tokens)
	case len(data) == 0:
		return nil, jobs.Errorf(jobs.CodeInvalid, "the answer is empty; want one JSON object")
	case err != nil:
		return nil, jobs.Errorf(jobs.CodeInvalid, "the answer is not one JSON object: %s", quotes.ReplaceAllString(err.Error(), ""))
	}
	if err := f.check(data); err != nil {
		return nil, err
	}
	return f.read(data)
}

// quotes are keys that an error about JSON quotes: they may be anything that a model wrote.
var quotes = regexp.MustCompile(` (after )?"(?:[^"\\]|\\.)*"`)

// unwrap takes the white space around an answer away, and one fence of backticks.
func unwrap(text string) string {
	text = strings.TrimSpace(text)
	inner, opened := strings.CutPrefix(text, "```")
	inner, closed := strings.CutSuffix(inner, "```")
	if !opened || !closed {
		return text
	}
	return strings.TrimSpace(strings.TrimPrefix(inner, "json"))
}

// check holds an answer to the schema.
func (f *form) check(data []byte) error {
	schema, err := f.compile()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "the answer is not one JSON object: %w", err)
	}
	err = schema.Validate(value)
	if failed, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return explain(failed)
	}
	return err
}

// compile makes the schema ready to check answers.
func (f *form) compile() (*jsonschema.Schema, error) {
	data, err := f.json()
	if err != nil {
		return nil, err
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	const name = "answer.schema.json"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, tree); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// read makes an answer of JSON that the schema lets pass.
func (f *form) read(data []byte) (*Answer, error) {
	var said struct {
		Criteria map[string]struct {
			Evidence string
			Verdict  score.Verdict
		}
		Issues       []Issue
		Summary      string
		Strengths    []string
		Improvements []Improvement
		Question     string
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "read answer: %w", err)
	}
	a := &Answer{Criteria: []Judged{}, Summary: tidy(said.Summary), Question: tidy(said.Question)}
	for _, c := range f.criteria {
		one := said.Criteria[c.ID]
		a.Criteria = append(a.Criteria, Judged{ID: c.ID, Verdict: one.Verdict, Evidence: tidy(one.Evidence)})
	}
	for _, i := range said.Issues {
		if i = (Issue{tidy(i.Where), tidy(i.What), tidy(i.Fix)}); i.What != "" || i.Fix != "" {
			a.Issues = append(a.Issues, i)
		}
	}
	for _, s := range said.Strengths {
		if s = tidy(s); s != "" {
			a.Strengths = append(a.Strengths, s)
		}
	}
	for _, i := range said.Improvements {
		// One that does not say what it is about is none.
		if i = (Improvement{tidy(i.What), tidy(i.Why), tidy(i.How), tidy(i.Example)}); i.What != "" {
			a.Improvements = append(a.Improvements, i)
		}
	}
	return a, nil
}

// tidy takes from a text of an answer what nobody sees: white space around it, hidden and control characters. Lines stay, since an example may have some.
func tidy(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, visible(lineEnds.Replace(s))))
}
