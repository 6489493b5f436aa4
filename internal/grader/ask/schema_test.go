package ask

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

// rubricOf has so many criteria for the code model, and so long an answer.
func rubricOf(t *testing.T, criteria, tokens int) *rubric.Rubric {
	t.Helper()
	list, err := json.Marshal(strings.Split(strings.TrimSuffix(strings.Repeat("It is right.\n", criteria), "\n"), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return readRubric(t, fmt.Sprintf(`{"assignment_info": {"name": "hw", "total_points": 10}, "rubric_elements": {"code": {"weight": 1, "criteria": %s}}, "tandem": {"num_predict": {"code": %d}}}`, list, tokens))
}

// TestFormFitsItsTokens: with fewer tokens texts get shorter, then lists, and the longest answer always fits.
func TestFormFitsItsTokens(t *testing.T) {
	for _, tt := range []struct {
		criteria, tokens int
		want             lengths // as far as it is about code
	}{
		{2, 4000, lengths{Evidence: 160, Issues: 6, Where: 60, What: 200}},
		{2, 1200, lengths{Evidence: 120, Issues: 6, Where: 45, What: 150}},
		{10, 1200, lengths{Evidence: 88, Issues: 4, Where: 40, What: 110}},
		{10, 700, lengths{Evidence: 56, Issues: 2, Where: 40, What: 70}},
		{10, 560, lengths{Evidence: 40, Issues: 2, Where: 40, What: 40}},
	} {
		f, err := newForm(rubric.JudgeCode, rubricOf(t, tt.criteria, tt.tokens))
		if err != nil {
			t.Fatal(err)
		}
		l := f.lengths
		if got := (lengths{Evidence: l.Evidence, Issues: l.Issues, Where: l.Where, What: l.What}); got != tt.want {
			t.Errorf("%d criteria in %d tokens: %+v, want %+v", tt.criteria, tt.tokens, got, tt.want)
		}
		if longest := f.root.longest(); float64(longest) > answerPerToken*float64(tt.tokens) {
			t.Errorf("%d criteria in %d tokens: %d characters", tt.criteria, tt.tokens, longest)
		}
	}
	_, err := newForm(rubric.JudgeCode, rubricOf(t, 10, 300))
	if jobs.CodeOf(err) != jobs.CodeInvalid || !regexp.MustCompile(`^tandem\.num_predict\.code is 300; the answer about 10 criteria needs at least \d{3} tokens`).MatchString(fmt.Sprint(err)) {
		t.Errorf("the error is %v", err)
	}
}

// TestLongestIsLongest writes the longest answer by the schema: it is as long as was reckoned, and passes.
func TestLongestIsLongest(t *testing.T) {
	r := readRubric(t, small)
	for _, kind := range judges() {
		f, err := newForm(kind, r)
		if err != nil {
			t.Fatal(err)
		}
		text := longestAnswer(f.root)
		if n := f.root.longest(); len(text) > n || len(text) < n*9/10 {
			t.Errorf("%s: %d characters, reckoned %d", kind, len(text), n)
		}
		if _, err := Parse(kind, r, text, "stop"); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func longestAnswer(n *node) string {
	var parts []string
	switch {
	case n.enum != nil:
		return `"` + n.enum[2] + `"`
	case n.items != nil:
		for range n.most {
			parts = append(parts, longestAnswer(n.items))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case n.properties == nil:
		return `"` + strings.Repeat("x", n.most) + `"`
	}
	for _, p := range n.properties {
		parts = append(parts, string(quoted(p.key))+":"+longestAnswer(p.value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// TestSchema holds the schema to what grammars of engines can do, and to its order.
func TestSchema(t *testing.T) {
	r := readRubric(t, strings.Replace(small, `["The keys are named.", `, `[{"id": "a \"b\" <c>", "text": "The keys are named."}, `, 1))
	f, err := newForm(rubric.JudgeCode, r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := f.json()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{` +
		`"criteria":{"type":"object","properties":{` +
		`"a \"b\" \u003cc\u003e":{"type":"object","properties":{"evidence":{"type":"string","maxLength":112},"verdict":{"type":"string","enum":["met","partly","not_met","unclear"]}},"required":["evidence","verdict"],"additionalProperties":false},` +
		`"join.2":{"type":"object","properties":{"evidence":{"type":"string","maxLength":112},"verdict":{"type":"string","enum":["met","partly","not_met","unclear"]}},"required":["evidence","verdict"],"additionalProperties":false}},` +
		`"required":["a \"b\" \u003cc\u003e","join.2"],"additionalProperties":false},` +
		`"issues":{"type":"array","items":{"type":"object","properties":{"where":{"type":"string","maxLength":42},"what":{"type":"string","maxLength":140},"fix":{"type":"string","maxLength":140}},"required":["where","what","fix"],"additionalProperties":false},"maxItems":6}},` +
		`"required":["criteria","issues"],"additionalProperties":false}`
	if string(data) != want {
		t.Errorf("the schema is\n%s\nwant\n%s", data, want)
	}
}

// TestNoCriteria: a judge with nothing to judge is asked for the rest.
func TestNoCriteria(t *testing.T) {
	r := rubricOf(t, 1, 1200)
	f, err := newForm(rubric.JudgeFeedback, r)
	if err != nil {
		t.Fatal(err)
	}
	if key := f.root.properties[0].key; key != "summary" {
		t.Errorf("the first key is %s, want summary", key)
	}
	a, err := Parse(rubric.JudgeFeedback, r, `{"summary":"Good.","strengths":[],"improvements":[],"question":"Why?"}`, "stop")
	if err != nil || a.Criteria == nil || len(a.Criteria) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}
