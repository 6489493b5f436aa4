package rubric

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/jobs"
)

// wholeFile has every key that a rubric can have.
const wholeFile = `{
  "assignment_info": {"name": "hw3", "title": "Joins", "description": "Join the tables.", "total_points": "50"},
  "rubric_elements": {
    "Joining": {"weight": "60%", "max_points": 30, "description": "Both joins", "criteria": [
      "The keys are right.",
      {"id": "lost", "text": "No row is lost.", "points": 12, "judge": "nobody", "bound": "5%"},
      "It is readable."]},
    "reflection": {"weight": 0.4, "criteria": {"full": "says why", "half": "says that"}, "sections": ["why"]}
  },
  "autograder_checks": {
    "required_variables": ["joined", "orders"],
    "sections": {
      "part2": {"name": "joining", "points": 30, "variables": ["joined", "orders"], "functions": ["left_join() | merge()"], "required_columns": ["id|key"]},
      "why": {"check_type": "Markdown", "points": 10.5, "reflection_questions": 2, "heading": "Why?"}
    }
  },
  "strict_scoring_rules": {"late": -5},
  "partial_credit_rules": ["half for trying"],
  "tandem": {"model_bound": 0.2, "output_share": "25%", "tolerance": 1e-6, "cap": {"output_match_below": 0.4, "score_at_most": "70%", "completion": "partial"},
    "models": {"code": "qwen3"}, "num_predict": {"feedback": 700}, "instructions": "Mind the keys."},
  "author": "x"
}`

func read(t *testing.T, file string) *Rubric {
	t.Helper()
	r, err := Read([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// compare compares by value and by exact numbers.
func compare(t *testing.T, want, got any) {
	t.Helper()
	exact := cmp.Comparer(func(a, b *big.Rat) bool { return a == b || a != nil && b != nil && a.Cmp(b) == 0 })
	if diff := cmp.Diff(want, got, exact); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func rat(text string) *big.Rat {
	r, _ := new(big.Rat).SetString(text)
	return r
}

func TestRead(t *testing.T) {
	r := read(t, "\xef\xbb\xbf"+wholeFile)
	compare(t, Info{"hw3", "Joins", "Join the tables.", rat("50")}, r.Info)
	compare(t, []Element{
		{ID: "Joining", Description: "Both joins", Weight: rat("0.6"), MaxPoints: rat("30"), Sections: []string{"part2"}, Criteria: []Criterion{
			{"Joining.1", "The keys are right.", rat("9"), JudgeCode, rat("0.2")},
			{"lost", "No row is lost.", rat("12"), JudgeNobody, rat("0.05")},
			{"Joining.3", "It is readable.", rat("9"), JudgeCode, rat("0.2")},
		}},
		{ID: "reflection", Weight: rat("0.4"), MaxPoints: rat("20"), Sections: []string{"why"}, Criteria: []Criterion{
			{"reflection.1", "full: says why; half: says that", rat("20"), JudgeFeedback, rat("0.2")},
		}},
	}, r.Elements)
	compare(t, []string{"joined", "orders"}, r.Required)
	compare(t, []Section{
		{ID: "part2", Name: "joining", Points: rat("30"), Variables: []string{"joined", "orders"}, Functions: []string{"left_join|merge"}, Columns: []string{"id|key"}},
		{ID: "why", Name: "why", Points: rat("10.5"), Markdown: true, Questions: []string{"question 1", "question 2"}, Heading: "Why?"},
	}, r.Sections)
	compare(t, Rules{rat("0.2"), rat("0.25"), rat("0.4"), rat("70"), PartialToo, rat("0.000001"), "qwen3:latest", "gpt-oss:120b", 1200, 700, "Mind the keys."}, r.Rules)
	compare(t, `{"late": -5}`, string(r.Strict))
	compare(t, `["half for trying"]`, string(r.Partial))
	compare(t, []string{"/author"}, r.Unknown)
	if want := "\xef\xbb\xbf" + wholeFile; string(r.Raw) != want || len(r.SHA256) != 64 {
		t.Errorf("the file is not kept as it is, or has hash %q", r.SHA256)
	}
}

// What is left out gets what the documentation promises.
func TestDefaults(t *testing.T) {
	r := read(t, `{"assignment_info": {"description": "Join."}, "rubric_elements": {"b": {"max_points": 30, "criteria": "All is right."}, "a": {"max_points": "10", "criteria": []}}}`)
	compare(t, Rules{rat("0.1"), rat("0.5"), rat("0.5"), rat("60"), PartialToo, rat("0.001"), "qwen3-coder:30b", "gpt-oss:120b", 1200, 1500, "Join."}, r.Rules)
	compare(t, rat("40"), r.Info.TotalPoints)
	compare(t, []Element{
		{ID: "b", Weight: rat("0.75"), MaxPoints: rat("30"), Criteria: []Criterion{{"b.1", "All is right.", rat("30"), JudgeCode, rat("0.1")}}},
		{ID: "a", Weight: rat("0.25"), MaxPoints: rat("10")},
	}, r.Elements)
	if len(r.Notes()) != 0 {
		t.Errorf("notes on a rubric without fault: %q", r.Notes())
	}
}

func TestWeights(t *testing.T) {
	for _, tt := range []struct {
		name, weights string // of elements a, b, …
		want          []string
		wrong         string
	}{
		{"shares", "0.25 0.75", []string{"1/4", "3/4"}, ""},
		{"percentages", "25 75", []string{"1/4", "3/4"}, ""},
		{"strings", `"25" "75"`, []string{"1/4", "3/4"}, ""},
		{"percent signs", `"25%" "75 %"`, []string{"1/4", "3/4"}, ""},
		{"percent signs among shares", `"25%" 0.75`, []string{"1/4", "3/4"}, ""},
		{"percent signs among percentages", `"25%" 75`, []string{"1/4", "3/4"}, ""},
		{"one percentage alone", "100", []string{"1"}, ""},
		{"rounded thirds are thirds", "0.333 0.333 0.333", []string{"1/3", "1/3", "1/3"}, ""},
		{"too much", "0.5 0.6", nil, `/rubric_elements: the weights sum to 1.1 (a 0.5, b 0.6); want 1 (±0.001) or, as percentages, 100 (±0.1); change them so that they do`},
		{"just too little", "0.5 0.4989", nil, `the weights sum to 0.9989 (a 0.5, b 0.4989)`},
		{"nothing", "0 0", nil, `the weights sum to 0 (a 0, b 0)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var list []string
			for i, w := range strings.Fields(strings.ReplaceAll(tt.weights, " %", "_%")) {
				list = append(list, fmt.Sprintf(`"%c": {"weight": %s}`, 'a'+i, strings.ReplaceAll(w, "_", " ")))
			}
			r, err := Read([]byte(`{"assignment_info": {"total_points": 10}, "rubric_elements": {` + strings.Join(list, ", ") + `}}`))
			if tt.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wrong) {
					t.Fatalf("error %v, want %q", err, tt.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got, want []*big.Rat
			for i, e := range r.Elements {
				got, want = append(got, e.Weight), append(want, rat(tt.want[i]))
			}
			compare(t, want, got)
		})
	}
}

// A message names the place, what stands there, what is wanted and what to do.
func TestErrors(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tt := range []struct {
		name, file string
		want       []string
	}{
		{"empty", " \n", []string{"the file is empty"}},
		{"HTML", "\n<!DOCTYPE html><html>", []string{`begins with "<!DOCTYPE html><html`, "download the file itself"}},
		{"notebook", `{"cells": [], "nbformat": 4, "metadata": {}}`, []string{"is a notebook", "swapped"}},
		{"UTF-16", "\xff\xfe{\x00}\x00", []string{"UTF-16", "UTF-8"}},
		{"UTF-16 without a mark", "{\x00}\x00", []string{"UTF-16"}},
		{"invalid UTF-8", "{\"a\": \"\xe9\"}", []string{"invalid UTF-8 at byte 7", "save it"}},
		{"half a surrogate", `{"a": "\ud800"}`, []string{"half a surrogate pair"}},
		{"comma at the end", "{\n  \"a\": 1,\n}", []string{"line 3, column 1 is not JSON", "no comma after a last entry"}},
		{"single quotes", `{'a': 1}`, []string{"line 1, column 2"}},
		{"cut off", `{"a": [1`, []string{"unexpected end"}},
		{"two values", `{} {}`, []string{"line 1, column 4"}},
		{"too large", strings.Repeat(" ", 1_000_000) + "{}", []string{"1000002 bytes; want at most 1000000"}},
		{"too many values", `{"a": [` + strings.Repeat("1,", 20_000) + `1]}`, []string{"more than 20000 values"}},
		{"too deep", strings.Repeat("[", 70) + strings.Repeat("]", 70), []string{"nested more than 64 deep"}},
		{"a key twice", `{"rubric_elements": {"a/b": {"weight": 1, "weight": 2}}}`, []string{"/rubric_elements/a~1b/weight: this key stands twice"}},
		{"a number that never ends", `{"rubric_elements": {"a": {"max_points": 1e999999999}}}`, []string{"/rubric_elements/a/max_points: 1e999999999 stands there", "exponent of at most 64"}},
		{"a small one", `{"rubric_elements": {"a": {"max_points": 1e-999999999}}}`, []string{"1e-999999999 stands there"}},
		{"a long number", `{"rubric_elements": {"a": {"max_points": 0.` + strings.Repeat("3", 90) + `}}}`, []string{"33… stands there"}},

		{"no object", `[1, 2]`, []string{"/: [1, 2] stands there; want an object with the key rubric_elements"}},
		{"no elements", `{}`, []string{"/rubric_elements: nothing stands there; want an object of 1 to 200 elements", "; add it"}},
		{"elements misspelt", `{"rubric_elments": {}}`, []string{"/rubric_elements: nothing stands there", "; rename /rubric_elments"}},
		{"empty elements", `{"rubric_elements": {}}`, []string{"/rubric_elements: {} stands there; want an object of 1 to 200"}},
		{"blank element", `{"rubric_elements": {" ": {"weight": 1}}}`, []string{`/rubric_elements: "" is a key there; want a key of 1 to 200 characters`}},
		{"all at once", `{"assignment_info": {"total_points": -3}, "rubric_elements": {"a": {"weight": "heavy", "criteria": [{"points": -1}, {"text": "` + long + `", "judge": "me"}]}}}`, []string{
			"rubric: 5 things are wrong:\n",
			"/assignment_info/total_points: -3 stands there; want a number above 0",
			"/rubric_elements/a/weight: \"heavy\" stands there; want a share of the total, as 0.25",
			"/rubric_elements/a/criteria/0/points: -1 stands there",
			"/rubric_elements/a/criteria/0/text: nothing stands there; want a text in quotes",
			`/rubric_elements/a/criteria/1/judge: "me" stands there; want "code", "feedback" or "nobody"`,
		}},
		{"a long value is cut", `{"rubric_elements": "` + long + `"}`, []string{`/rubric_elements: "` + long[:58] + `… stands there`}},
		{"null", `{"rubric_elements": {"a": {"weight": null}}}`, []string{"/rubric_elements/a/weight: null stands there"}},
		{"section points below 0", section(`"points": -1`), []string{"/autograder_checks/sections/s/points: -1 stands there; want a number from 0"}},
		{"blank name", section(`"variables": ["x", " "]`), []string{`/autograder_checks/sections/s/variables/1: " " stands there; want a name`}},
		{"nothing beside a bar", section(`"functions": ["a||b"]`), []string{`/autograder_checks/sections/s/functions: "a||b" stands in it, with nothing on one side of a bar`, `"left_join|merge"`}},
		{"bar at the end", section(`"required_columns": ["a|"]`), []string{"required_columns: \"a|\" stands in it"}},
		{"bound above 1", element(`"criteria": [{"text": "x", "bound": 1.5}]`), []string{"/rubric_elements/a/criteria/0/bound: 1.5 stands there; want a number from 0 to 1"}},
		{"bound above 100 %", element(`"criteria": [{"text": "x", "bound": "150%"}]`), []string{"/rubric_elements/a/criteria/0/bound: \"150%\" stands there; want a number from 0 to 1"}},
		{"unknown section", element(`"sections": ["s", "joins"]`), []string{`/rubric_elements/a/sections: "joins" stands in it, which is no section; want ids of autograder_checks.sections: there are none`}},
		{"other unknown section", `{"rubric_elements": {"a": {"max_points": 1, "sections": ["t"]}}, "autograder_checks": {"sections": {"s": {}, "\u202e2": {}}}}`, []string{"want ids of autograder_checks.sections: s, \ufffd2; correct it"}},
		{"same id twice", element(`"criteria": ["x", {"id": "a.1", "text": "y"}]`), []string{`/rubric_elements/a/criteria/1: "a.1" is its id and that of a criterion before`}},
		{"too many points", element(`"max_points": 10, "criteria": [{"text": "x", "points": 6}, {"text": "y", "points": 4.5}]`), []string{"/rubric_elements/a/criteria: the points of the criteria sum to 10.5; want no more than the element's max_points, 10"}},
		{"worth something, full marks 0", element(`"max_points": 0`), []string{"/rubric_elements/a/max_points: 0 stands there, and weight 1 beside it"}},
		{"total 0 as a string", `{"assignment_info": {"total_points": "0"}, "rubric_elements": {"a": {"weight": 1}}}`, []string{`/assignment_info/total_points: "0" stands there; want a number above 0`}},
		{"no total", `{"rubric_elements": {"a": {"weight": 1}}}`, []string{"/assignment_info/total_points: nothing stands there, and a without max_points cannot be added up"}},
		{"all max_points 0", `{"rubric_elements": {"a": {"max_points": 0}}}`, []string{"all max_points are 0"}},
		{"some weights", `{"assignment_info": {"total_points": 10}, "rubric_elements": {"a": {"weight": 1}, "b": {}}}`, []string{"/rubric_elements: no weight stands in b, but in the other elements; want it in all or in none"}},
		{"neither weights nor points", `{"assignment_info": {"total_points": 10}, "rubric_elements": {"a": {"max_points": 1}, "b": {}}}`, []string{"neither a weight nor max_points stand in b"}},
		{"sums differ", `{"assignment_info": {"total_points": 100}, "rubric_elements": {"a": {"max_points": 30}, "b": {"max_points": 60}}}`, []string{"/rubric_elements: the max_points sum to 90 (a 30, b 60), and total_points is 100"}},
		{"no model", tandem(`"models": {"code": "a b"}`), []string{`/tandem/models/code: "a b" stands there; want the name of a model`}},
		{"no tokens", tandem(`"num_predict": {"code": 0}`), []string{"/tandem/num_predict/code: 0 stands there; want a whole number from 1"}},
		{"cap above 100", tandem(`"cap": {"score_at_most": "101%"}`), []string{"/tandem/cap/score_at_most: \"101%\" stands there; want a percentage from 0 to 100"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read([]byte(tt.file))
			if e, ok := errors.AsType[*jobs.Error](err); !ok || e.Code != jobs.CodeInvalid {
				t.Fatalf("error %v, want one of code invalid", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

// section, element and tandem make a rubric that is right but for the keys given.
func section(keys string) string {
	return `{"assignment_info": {"total_points": 10}, "rubric_elements": {"a": {"weight": 1}}, "autograder_checks": {"sections": {"s": {` + keys + `}}}}`
}

func element(keys string) string {
	return `{"assignment_info": {"total_points": 10}, "rubric_elements": {"a": {"weight": 1, ` + keys + `}}}`
}

func tandem(keys string) string {
	return `{"assignment_info": {"total_points": 10}, "rubric_elements": {"a": {"weight": 1}}, "tandem": {` + keys + `}}`
}

func TestErrorListEnds(t *testing.T) {
	_, err := Read([]byte(element(`"criteria": [` + strings.Repeat(`{"text": 1}, `, 29) + `1]`)))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 22 || !strings.Contains(lines[0], "30 things") || !strings.Contains(lines[21], "and 10 more") {
		t.Errorf("want 20 lines and how many more there are:\n%v", err)
	}
}

func TestNotes(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		unknown    []string
		want       string
	}{
		{"misspelt key", element(`"criterea": []`), []string{"/rubric_elements/a/criterea"}, "/rubric_elements/a/criterea: did you mean criteria?"},
		{"other case", element(`"maxPoints": 3`), []string{"/rubric_elements/a/maxPoints"}, "did you mean max_points?"},
		{"key like none", tandem(`"colour": {"weight": 3}`), []string{"/tandem/colour"}, "/tandem/colour: nobody knows this key"},
		{"in a criterion", element(`"criteria": [{"text": "x", "hint/s": 1}]`), []string{"/rubric_elements/a/criteria/0/hint~1s"}, "nobody knows"},
		{"any JSON is no unknown key", `{"strict_scoring_rules": {"x": 1}, "partial_credit_rules": null, "rubric_elements": {"a": {"max_points": 1}}}`, nil, ""},
		{"weight against max_points", element(`"max_points": 25`), nil, "/rubric_elements: the weight decides what an element is worth, max_points only what full marks are called; they differ in a (max_points 25, weight × total_points 10)"},
		{"twice in a list", section(`"variables": ["x", "x"]`), nil, `/autograder_checks/sections/s/variables/1: "x" stands in the list before`},
		{"another check", section(`"check_type": "manual"`), nil, `/autograder_checks/sections/s/check_type: "manual" is neither`},
		{"sections with and without points", `{"rubric_elements": {"a": {"max_points": 1}}, "autograder_checks": {"sections": {"s": {"points": 25}, "t": {}}}}`, nil, "/autograder_checks/sections/t: other sections have points"},
		{"variables without points", `{"rubric_elements": {"a": {"max_points": 1}}, "autograder_checks": {"required_variables": ["x"], "sections": {"s": {}}}}`, nil, "/autograder_checks/required_variables: no section names x"},
		{"criteria worth nothing", element(`"criteria": ["x", {"text": "y", "points": 10}]`), nil, "/rubric_elements/a/criteria: the criteria with points leave none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := read(t, tt.file)
			compare(t, tt.unknown, r.Unknown)
			if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, tt.want) || tt.want == "" && notes != "" {
				t.Errorf("notes %q, want %q", notes, tt.want)
			}
		})
	}
}

// An element is about the section that is called like it, if there is one; who judges follows from that.
func TestLinks(t *testing.T) {
	r := read(t, `{"rubric_elements": {"join": {"max_points": 1, "criteria": ["x"]}, "Final Thoughts": {"max_points": 1, "criteria": ["x"]}, "style": {"max_points": 1, "criteria": ["x"]}, "both": {"max_points": 1, "sections": ["s2", "join"], "criteria": ["x"]}},
		"autograder_checks": {"sections": {"join": {}, "Join": {}, "s2": {"name": "Final thoughts!", "check_type": "markdown", "reflection_questions": ["Why?"]}}}}`)
	want := map[string]struct {
		sections []string
		judge    Judge
	}{
		"join":           {[]string{"join"}, JudgeCode},
		"Final Thoughts": {[]string{"s2"}, JudgeFeedback},
		"style":          {[]string{"join", "Join", "s2"}, JudgeCode},
		"both":           {[]string{"s2", "join"}, JudgeCode},
	}
	for _, e := range r.Elements {
		if !slices.Equal(e.Sections, want[e.ID].sections) || e.Criteria[0].Judge != want[e.ID].judge {
			t.Errorf("%s is about %q and judged by %s, want %v", e.ID, e.Sections, e.Criteria[0].Judge, want[e.ID])
		}
	}
}

func TestReflectionQuestions(t *testing.T) {
	for value, want := range map[string][]string{
		`["Why?", " How? "]`: {"Why?", "How?"},
		`2`:                  {"question 1", "question 2"},
		`2.0`:                {"question 1", "question 2"},
		`true`:               {"question 1"},
		`false`:              nil,
		`0`:                  nil,
		`[]`:                 nil,
	} {
		r := read(t, section(`"reflection_questions": `+value))
		if !slices.Equal(r.Sections[0].Questions, want) {
			t.Errorf("%s is %q, want %q", value, r.Sections[0].Questions, want)
		}
	}
}

func TestCriteriaOfAJudge(t *testing.T) {
	r := read(t, element(`"criteria": ["x", {"text": "y", "judge": "feedback"}, {"text": "z", "judge": "nobody"}, "w"]`))
	for judge, want := range map[Judge]string{JudgeCode: "a.1 a.4", JudgeFeedback: "a.2", JudgeNobody: "a.3"} {
		var ids []string
		for _, c := range r.Criteria(judge) {
			ids = append(ids, c.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s judges %q, want %q", judge, got, want)
		}
	}
}

func TestSchemaIsPublished(t *testing.T) {
	published, err := os.ReadFile("../../../docs/schemas/rubric.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(published, schemaFile) {
		t.Error("docs/schemas/rubric.schema.json is out of date; run `go generate ./internal/grader/rubric`")
	}
}

// Every part of the schema that can be wrong says what is wanted.
func TestSchemaSaysWhatIsWanted(t *testing.T) {
	form, err := loadSchema()
	if err != nil {
		t.Fatal(err)
	}
	var walk func(n *node)
	walk = func(n *node) {
		if (n.get("type") != nil && n.get("type").kind != '{' || n.get("enum") != nil) && form.want(n) == "" {
			t.Errorf("%s has no description", n.where())
		}
		for _, c := range n.list {
			walk(c)
		}
	}
	walk(form.tree)
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{wholeFile, section(`"points": "3", "functions": ["a|b"]`), element(`"criteria": {"full": "x"}`), tandem(`"model_bound": 1e-9`),
		`{"rubric_elements":{"a":{"weight":"40%"},"b":{"weight":60}},"assignment_info":{"total_points":1e2}}`, `{"rubric_elements":{"a":{"max_points":0}}}`, "\xef\xbb\xbf{}", "<html>", "[[[[",
		`{"sections":["a",{"name":"b"}],"required_sections":["c"],"min_words_per_question":5,"rubric_elements":["x",{"name":"y","points":3,"functions":["f"]}]}`,
		`{"rubric_elements":{"a":{"max_points":5,"criteria":[{"level":"good","points":"2-3"}],"accepts_functions":{"f":["g"]}}},"autograder_checks":{"required_sections":{"s":1}}}`} {
		f.Add([]byte(seed))
	}
	one := big.NewRat(1, 1)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read(data)
		if err != nil {
			if e, ok := errors.AsType[*jobs.Error](err); !ok || e.Code != jobs.CodeInvalid || len(e.Message) > 64<<10 {
				t.Fatalf("error %.500q is none of code invalid, or without end", err)
			}
			return
		}
		weights, ids := new(big.Rat), map[string]bool{}
		for _, e := range r.Elements {
			weights.Add(weights, e.Weight)
			points := new(big.Rat)
			for _, c := range e.Criteria {
				points.Add(points, c.Points)
				if ids[c.ID] || c.ID == "" || c.Text == "" || c.Points.Sign() < 0 || c.Bound.Sign() < 0 || c.Bound.Cmp(one) > 0 {
					t.Errorf("criterion %+v", c)
				}
				ids[c.ID] = true
			}
			if points.Cmp(e.MaxPoints) > 0 {
				t.Errorf("criteria of %q are worth %v, it is worth %v", e.ID, points, e.MaxPoints)
			}
			for _, id := range e.Sections {
				if _, ok := r.Section(id); !ok {
					t.Errorf("element %q is about section %q, which is none", e.ID, id)
				}
			}
		}
		if weights.Cmp(one) != 0 || r.Info.TotalPoints.Sign() <= 0 {
			t.Errorf("weights sum to %v, total_points is %v", weights, r.Info.TotalPoints)
		}
		if r.Strict != nil && !json.Valid(r.Strict) || r.Partial != nil && !json.Valid(r.Partial) {
			t.Errorf("rules are no JSON: %q, %q", r.Strict, r.Partial)
		}
		r.Notes()
	})
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		if _, err := Read([]byte(wholeFile)); err != nil {
			b.Fatal(err)
		}
	}
}
