package ask

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strings"

	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// class is what the definitions "system" and "shared" of a template see. There is no student in it, so what they write is the same for all.
type class struct {
	Title        string // of the assignment
	Instructions string // what it asks
	Points       string // in total
	Language     string // of the solution
	Elements     []element
	Criteria     []criterion // those that this model is to judge
	Sections     []section
	Required     string // names of variables that must be assigned anywhere, with commas
	Strict       string // strict_scoring_rules as JSON, "" if there are none
	Partial      string // partial_credit_rules, likewise
	Unknown      string // keys of the rubric that nobody knows, likewise: an object by JSON pointer
	Template     string // the notebook that students started from, "" if there is none
	Solution     string // the solution's notebook
	Longest      lengths
	AnswerTokens int // of the whole answer
}

// element is an element of the rubric.
type element struct {
	ID, Description, Points, Percent string
	Criteria                         []criterion
}

// criterion is a criterion of the rubric.
type criterion struct {
	ID   string // as JSON writes it, with quotes
	Text string
	Mine bool // this model judges it
}

// section is what the program looks for in a section of the notebook. Lists are with commas.
type section struct {
	ID, Name, Variables, Functions, Columns string
	Questions                               []string
}

// newClass gathers what a judge's prompts share.
func newClass(a Assignment, kind rubric.Judge, f *form) *class {
	r := a.Rubric
	c := &class{
		Title: safe(r.Info.Title), Instructions: strings.TrimSpace(safe(r.Rules.Instructions)), Points: decimal(r.Info.TotalPoints),
		Required: list(r.Required), Strict: compact(r.Strict), Partial: compact(r.Partial), Unknown: unknown(r),
		Longest: f.lengths, AnswerTokens: f.tokens,
	}
	if c.Title == "" {
		c.Title = safe(r.Info.Name)
	}
	for _, e := range r.Elements {
		one := element{ID: safe(e.ID), Description: safe(e.Description), Points: decimal(e.MaxPoints), Percent: decimal(new(big.Rat).Mul(e.Weight, big.NewRat(100, 1)))}
		for _, k := range e.Criteria {
			one.Criteria = append(one.Criteria, criterion{ID: safe(string(quoted(k.ID))), Text: safe(k.Text), Mine: k.Judge == kind})
			if k.Judge == kind {
				c.Criteria = append(c.Criteria, one.Criteria[len(one.Criteria)-1])
			}
		}
		c.Elements = append(c.Elements, one)
	}
	for _, s := range r.Sections {
		one := section{ID: safe(s.ID), Name: safe(s.Name), Variables: list(s.Variables), Functions: list(s.Functions), Columns: list(s.Columns)}
		for _, q := range s.Questions {
			one.Questions = append(one.Questions, safe(q))
		}
		c.Sections = append(c.Sections, one)
	}
	c.Template = shared(a.Template)
	c.Solution = shared(a.Solution)
	if a.Solution != nil {
		c.Language = languageName(a.Solution.Language, a.Solution.Kernel)
	}
	return c
}

// shared writes a notebook of the instructor's, whole.
func shared(nb *notebook.Notebook) string {
	if nb == nil {
		return ""
	}
	text, _ := newPage(nb, math.MaxInt, nil, func(_ notebook.Kind, text string) string { return safe(text) }).write(view{output: math.MaxInt, source: math.MaxInt})
	return strings.TrimSpace(text)
}

func list(names []string) string { return safe(strings.Join(names, ", ")) }

// decimal writes a number with at most four decimals.
func decimal(r *big.Rat) string {
	if r == nil {
		return ""
	}
	s := r.FloatString(4)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// compact writes JSON without white space, "" if there is none.
func compact(value json.RawMessage) string {
	var b bytes.Buffer
	if len(value) == 0 || json.Compact(&b, value) != nil {
		return ""
	}
	return safe(b.String())
}

// unknown are the keys of a rubric that nobody knows, with their values, in the order of the file.
func unknown(r *rubric.Rubric) string {
	var b strings.Builder
	for _, pointer := range r.Unknown {
		value := compact(find(bytes.TrimPrefix(r.Raw, []byte("\xef\xbb\xbf")), pointer))
		if value == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(safe(string(quoted(pointer))) + ":" + value)
	}
	if b.Len() == 0 {
		return ""
	}
	return "{" + b.String() + "}"
}

// find is the value at a JSON pointer (RFC 6901), nil if there is none.
func find(value json.RawMessage, pointer string) json.RawMessage {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for key := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			return nil
		}
		value = object[unescape.Replace(key)]
	}
	return value
}
