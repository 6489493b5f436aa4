package ask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
	"tandem/jobs"
)

// node is a JSON schema of the few kinds that every engine's grammar holds a model to. Properties are written in the order that they have here, which is the order in which a model says them: all of them are
// asked for, and nothing else.
type node struct {
	properties []property // of an object
	items      *node      // of an array
	most       int        // items of an array, characters of a string
	enum       []string   // of a string
}

// property is one key of an object.
type property struct {
	key   string
	value *node
}

// MarshalJSON writes the schema.
func (n *node) MarshalJSON() ([]byte, error) {
	switch {
	case n.enum != nil:
		return json.Marshal(struct {
			Type string   `json:"type"`
			Enum []string `json:"enum"`
		}{"string", n.enum})
	case n.items != nil:
		return json.Marshal(struct {
			Type  string `json:"type"`
			Items *node  `json:"items"`
			Most  int    `json:"maxItems"`
		}{"array", n.items, n.most})
	case n.properties == nil:
		return json.Marshal(struct {
			Type string `json:"type"`
			Most int    `json:"maxLength"`
		}{"string", n.most})
	}
	var b bytes.Buffer
	var required []string
	b.WriteString(`{"type":"object","properties":{`)
	for i, p := range n.properties {
		value, err := json.Marshal(p.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", quoted(p.key), value)
		required = append(required, p.key)
	}
	keys, err := json.Marshal(required)
	fmt.Fprintf(&b, `},"required":%s,"additionalProperties":false}`, keys)
	return b.Bytes(), err
}

// quoted writes a text as JSON.
func quoted(s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be written
	}
	return text
}

// longest is the length of the longest value by the schema, in characters, without white space between.
func (n *node) longest() int {
	switch {
	case n.enum != nil:
		most := 0
		for _, word := range n.enum {
			most = max(most, len(word))
		}
		return most + len(`""`)
	case n.items != nil:
		return len(`[]`) + n.most*(n.items.longest()+len(`,`))
	case n.properties == nil:
		return n.most + len(`""`)
	}
	size := len(`{}`)
	for _, p := range n.properties {
		size += len(quoted(p.key)) + len(`:`) + p.value.longest() + len(`,`)
	}
	return size
}

// Limits of an answer, where its tokens allow them.
const (
	answerPerToken = 2.2 // characters, at least
	leastLength    = 40  // characters that every text may have
)

// lengths are how long an answer may be: characters of its texts, and entries of its lists. They are the fields that a prompt may name.
type lengths struct {
	Evidence     int // of a criterion
	Issues       int // entries
	Where        int // of an issue
	What         int // of an issue or improvement, as Fix, Why and How
	Example      int
	Summary      int
	Strengths    int // entries
	Strength     int
	Improvements int // entries
	Question     int
}

// full is how long an answer may be at most.
var full = lengths{Evidence: 160, Issues: 6, Where: 60, What: 200, Example: 240, Summary: 300, Strengths: 3, Strength: 200, Improvements: 3, Question: 200}

// shorter is full with fewer entries and shorter texts.
func (l lengths) shorter(issues, entries, percent int) lengths {
	text := func(n int) int { return max(leastLength, n*percent/100) }
	return lengths{
		Evidence: text(l.Evidence), Issues: issues, Where: text(l.Where), What: text(l.What), Example: text(l.Example), Summary: text(l.Summary),
		Strengths: entries, Strength: text(l.Strength), Improvements: entries, Question: text(l.Question),
	}
}

// form is what an answer must look like.
type form struct {
	criteria []rubric.Criterion // to be judged
	lengths  lengths
	tokens   int // longest answer
	root     *node
}

// newForm makes the form of a judge's answers: as long as its tokens allow, first with shorter texts, then with fewer entries, then with texts as short as they may be.
func newForm(kind rubric.Judge, r *rubric.Rubric) (*form, error) {
	f := &form{criteria: r.Criteria(kind)}
	tokens, build := &f.tokens, f.code
	switch kind {
	case rubric.JudgeCode:
		*tokens = r.Rules.CodeTokens
	case rubric.JudgeFeedback:
		*tokens, build = r.Rules.FeedbackTokens, f.feedback
	default:
		return nil, jobs.Errorf(jobs.CodeInvalid, "judge is %.40q; want %s or %s", kind, rubric.JudgeCode, rubric.JudgeFeedback)
	}
	room := int(answerPerToken * float64(*tokens))
	for _, try := range []struct {
		issues, entries, percent int // percent of the full length that texts keep, at least
	}{{6, 3, 60}, {4, 2, 50}, {2, 1, 0}} {
		for percent := 100; percent >= try.percent; percent -= 5 {
			f.lengths = full.shorter(try.issues, try.entries, percent)
			if f.root = build(); f.root.longest() <= room {
				return f, nil
			}
		}
	}
	return nil, jobs.Errorf(jobs.CodeInvalid, "tandem.num_predict.%s is %d; the answer about %d criteria needs at least %d tokens: raise it, or have fewer criteria judged by the %s model",
		kind, *tokens, len(f.criteria), int(math.Ceil(float64(f.root.longest())/answerPerToken)), kind)
}

// json is the schema as an engine gets it.
func (f *form) json() (json.RawMessage, error) {
	data, err := json.Marshal(f.root)
	if err == nil && len(data) > jobs.MaxFormat {
		err = jobs.Errorf(jobs.CodeInvalid, "the answer about %d criteria has a schema of %d bytes; %d are allowed: shorten the criteria's ids", len(f.criteria), len(data), jobs.MaxFormat)
	}
	return data, err
}

// text is a string of at most so many characters.
func text(most int) *node { return &node{most: most} }

// judged are the criteria of a judge, each a key; none if it has none. A verdict comes after its evidence, so that a model says what it saw before it judges.
func (f *form) judged() []property {
	if len(f.criteria) == 0 {
		return nil
	}
	one := &node{properties: []property{
		{"evidence", text(f.lengths.Evidence)},
		{"verdict", &node{enum: []string{string(score.Met), string(score.Partly), string(score.NotMet), string(score.Unclear)}}},
	}}
	all := &node{}
	for _, c := range f.criteria {
		all.properties = append(all.properties, property{c.ID, one})
	}
	return []property{{"criteria", all}}
}

// code is the form of layer 3.
func (f *form) code() *node {
	l := f.lengths
	issue := &node{properties: []property{{"where", text(l.Where)}, {"what", text(l.What)}, {"fix", text(l.What)}}}
	return &node{properties: append(f.judged(), property{"issues", &node{items: issue, most: l.Issues}})}
}

// feedback is the form of layer 4.
func (f *form) feedback() *node {
	l := f.lengths
	improvement := &node{properties: []property{{"what", text(l.What)}, {"why", text(l.What)}, {"how", text(l.What)}, {"example", text(l.Example)}}}
	return &node{properties: append(f.judged(),
		property{"summary", text(l.Summary)},
		property{"strengths", &node{items: text(l.Strength), most: l.Strengths}},
		property{"improvements", &node{items: improvement, most: l.Improvements}},
		property{"question", text(l.Question)},
	)}
}
