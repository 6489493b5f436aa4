package ask

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
	"tandem/jobs"
)

const (
	goodCode     = `{"criteria":{"join.2":{"evidence":"cell 4","verdict":"unclear"},"join.1":{"evidence":" cell 3: by = \"id\"\u0007 \u202e","verdict":"met"}},"issues":[{"where":"cell 4","what":"Rows are lost.","fix":"Keep them."},{"where":"cell 5","what":" ","fix":""}]}`
	goodFeedback = `{"criteria":{"say.1":{"evidence":"cell 9","verdict":"partly"}},"summary":"Good.","strengths":["The join.","\t"],"improvements":[{"what":"The sum","why":"NA","how":"Leave NA out.","example":"sum(x,\n  na.rm = TRUE)"}],"question":"And then?"}`
)

func TestParse(t *testing.T) {
	r := readRubric(t, small)
	code := &Answer{
		Criteria: []Judged{{"join.1", score.Met, `cell 3: by = "id"`}, {"join.2", score.Unclear, "cell 4"}},
		Issues:   []Issue{{"cell 4", "Rows are lost.", "Keep them."}},
	}
	feedback := &Answer{
		Criteria: []Judged{{"say.1", score.Partly, "cell 9"}}, Summary: "Good.", Strengths: []string{"The join."},
		Improvements: []Improvement{{"The sum", "NA", "Leave NA out.", "sum(x,\n  na.rm = TRUE)"}}, Question: "And then?",
	}
	for _, tt := range []struct {
		name   string
		kind   rubric.Judge
		text   string
		finish string
		want   *Answer
	}{
		{"code", rubric.JudgeCode, goodCode, "stop", code},
		{"feedback", rubric.JudgeFeedback, goodFeedback, "stop", feedback},
		{"white space around it", rubric.JudgeCode, "\n\n " + goodCode + "\n", "stop", code},
		{"a fence around it", rubric.JudgeCode, "```json\n" + goodCode + "\n```\n", "", code},
		{"a fence without a word", rubric.JudgeFeedback, "```\n" + goodFeedback + "```", "stop", feedback},
		{"whole, with the last token that it had", rubric.JudgeCode, goodCode, "length", code},
	} {
		got, err := Parse(tt.kind, r, tt.text, tt.finish)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestParseSaysWhatIsWrong, without a word of what the answer says.
func TestParseSaysWhatIsWrong(t *testing.T) {
	r := readRubric(t, small)
	with := func(old, new string) string {
		if !strings.Contains(goodCode, old) {
			t.Fatalf("%q is not in the good answer", old)
		}
		return strings.Replace(goodCode, old, new, 1)
	}
	for _, tt := range []struct{ name, text, finish, want string }{
		{"empty", " \n", "stop", "the answer is empty; want one JSON object"},
		{"cut off", goodCode[:60], "length", "the answer was cut off at its longest, 1200 tokens: be brief, and write no white space between keys and values"},
		{"prose", "Secret words.", "stop", "the answer is not one JSON object: JSON at byte 0: unexpected character"},
		{"two fences", "```json\n{}\n```\n```json\n{}\n```", "stop", "the answer is not one JSON object: JSON at byte 3: data after the end of the JSON value"},
		{"two values", goodCode + "{}", "stop", fmt.Sprintf("the answer is not one JSON object: JSON at byte %d: data after the end of the JSON value", len(goodCode))},
		{"a key twice", `{"secret \" words": 1, "secret \" words": 2}`, "stop", "the answer is not one JSON object: JSON at byte 40: duplicate key"},
		{"no comma", `{"secret words": 1 "b": 2}`, "stop", "the answer is not one JSON object: JSON at byte 19: want a comma or }"},
		{"a list", `["secret"]`, "stop", "the answer is of type array; want object"},
		{"a wrong verdict", with(`"met"`, `"good"`), "stop", `criteria.join.1.verdict is "good"; want met, partly, not_met or unclear`},
		{"a verdict of many words", with(`"met"`, `"secret words"`), "stop", `criteria.join.1.verdict is something else; want met, partly, not_met or unclear`},
		{"a verdict that is no text", with(`"met"`, `1`), "stop", `criteria.join.1.verdict is of type number; want string`},
		{"a criterion too few", with(`"join.2":{"evidence":"cell 4","verdict":"unclear"},`, ``), "stop", "criteria.join.2 is missing"},
		{"a criterion too many", with(`"join.2":`, `"secret":{},"join.2":`), "stop", "criteria has 1 key that nobody asked for"},
		{"a long text", with(`"cell 4"`, `"`+strings.Repeat("secret ", 100)+`"`), "stop", "criteria.join.2.evidence has 700 characters; want at most 120"},
		{"no fix", with(`,"fix":"Keep them."`, ``), "stop", "issues[0].fix is missing"},
		{"too many issues", with(`"issues":[`, `"issues":[`+strings.Repeat(`{"where":"","what":"","fix":""},`, 9)), "stop", "issues has 11 entries; want at most 6"},
		{"everything", `{"secret":1,"words":2}`, "stop", "criteria is missing; issues is missing; the answer has 2 keys that nobody asked for"},
		{"more than five things", with(`"issues":[`, `"issues":[`+strings.Repeat(`{"where":"cell"},`, 4)), "stop",
			"issues[0].fix is missing; issues[0].what is missing; issues[1].fix is missing; issues[1].what is missing; issues[2].fix is missing; 3 more"},
	} {
		a, err := Parse(rubric.JudgeCode, r, tt.text, tt.finish)
		if a != nil || jobs.CodeOf(err) != jobs.CodeInvalid || fmt.Sprint(err) != tt.want {
			t.Errorf("%s: %v, %v\nwant %s", tt.name, a, err, tt.want)
		}
	}
	if _, err := Parse(rubric.JudgeNobody, r, goodCode, "stop"); err == nil {
		t.Error("nobody is a judge")
	}
}

// FuzzParse: whatever a model says is an answer with every criterion, or an error that quotes nothing.
func FuzzParse(f *testing.F) {
	for _, s := range []string{goodCode, goodFeedback, "", "```json\n{}\n```", "```", `{"criteria":{}}`, `{"criteria":{"join.1":{"verdict":"met","evidence":"\ud800"}}}`, "[[[[", "\xff", `{"a":1e999999999}`} {
		f.Add(s, "stop")
	}
	r := readRubric(f, small)
	f.Fuzz(func(t *testing.T, text, finish string) {
		for _, kind := range judges() {
			a, err := Parse(kind, r, text, finish)
			if (a == nil) == (err == nil) {
				t.Fatalf("%v, %v", a, err)
			}
			if err != nil {
				if len(err.Error()) > 1000 {
					t.Fatalf("an error of %d bytes", len(err.Error()))
				}
				continue
			}
			for i, c := range r.Criteria(kind) {
				if a.Criteria[i].ID != c.ID || a.Criteria[i].Verdict == "" {
					t.Fatalf("criterion %s is %+v", c.ID, a.Criteria[i])
				}
			}
		}
	})
}
