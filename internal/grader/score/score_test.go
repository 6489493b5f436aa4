package score

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/grader/check"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
)

// file has an element of 60 points about a section, and one of 40 about prose.
const file = `{
	"assignment_info": {"total_points": 100},
	"rubric_elements": {
		"join": {"weight": 0.6, "criteria": ["The keys are right.", "Lost rows are looked at."]},
		"why": {"weight": 0.4, "max_points": 4, "criteria": [{"text": "It says why.", "points": 3}]}},
	"autograder_checks": {"sections": {
		"join": {"points": 3, "variables": ["a", "b", "c"], "functions": ["left_join|merge"]},
		"why": {"points": 1, "check_type": "markdown", "reflection_questions": ["Why?"]}}}
}`

func read(t testing.TB, text string) *rubric.Rubric {
	t.Helper()
	r, err := rubric.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// found makes findings of a word per item, as "join.a=found"; sections are complete if all their items are found, as package check says.
func found(r *rubric.Rubric, words ...string) *check.Findings {
	f := &check.Findings{}
	all := map[string]bool{}
	for _, w := range words {
		name, status, _ := strings.Cut(w, "=")
		section, name, _ := strings.Cut(name, ".")
		f.Items = append(f.Items, check.Item{Kind: "variable", Name: name, Section: section, Status: check.Status(status)})
		was, seen := all[section]
		all[section] = (was || !seen) && status == string(check.Found)
	}
	for _, s := range r.Sections {
		c := check.Partial
		if all[s.ID] {
			c = check.Complete
		}
		f.Sections = append(f.Sections, check.Section{ID: s.ID, Completeness: c})
	}
	return f
}

// compared makes findings of a word per output, as "join=match".
func compared(words ...string) *outputs.Findings {
	f := &outputs.Findings{}
	for _, w := range words {
		section, verdict, _ := strings.Cut(w, "=")
		kind := "table"
		if section, ok := strings.CutPrefix(section, "picture:"); ok {
			f.Comparisons = append(f.Comparisons, outputs.Comparison{Section: section, Kind: "picture", Verdict: outputs.Verdict(verdict)})
			continue
		}
		f.Comparisons = append(f.Comparisons, outputs.Comparison{Section: section, Kind: kind, Verdict: outputs.Verdict(verdict)})
		if f.Compared++; verdict == "match" {
			f.Matched++
		}
	}
	return f
}

var (
	everything = []string{"join.a=found", "join.b=found", "join.c=found", "join.left_join|merge=found", "why.Why?=found"}
	agreed     = Judgements{
		rubric.JudgeCode:     {"join.1": Unclear, "join.2": Unclear},
		rubric.JudgeFeedback: {"why.1": Unclear},
	}
)

// Each case was worked out by hand from docs/GRADING.md.
func TestCompute(t *testing.T) {
	type want struct {
		Base, Adjusted, Points, Low, High float64
		Certain                           bool
		Caps                              string
	}
	for _, tt := range []struct {
		name   string
		items  []string
		layer2 *outputs.Findings
		judged Judgements
		want   want
	}{
		{"everything is there", everything, compared("join=match"), agreed, want{100, 100, 100, 100, 100, true, ""}},
		{"nothing is there", nil, nil, agreed, want{0, 0, 0, 0, 0, true, ""}},
		// 60 × 2.5/4 + 40 × 0; of the sections' points 3 × 2.5/4 of 4 are done, which limits nothing
		{"halves count half", []string{"join.a=found", "join.b=not_run", "join.c=found", "join.d=placeholder", "why.Why?=missing"}, nil, agreed,
			want{37.5, 37.5, 37.5, 37.5, 37.5, true, ""}},
		// 60 × 3/4 + 40 = 85; 3 × 3/4 + 1 of the four points are done
		{"completion", []string{"join.a=found", "join.b=found", "join.c=found", "join.d=missing", "why.Why?=found"}, nil, agreed, want{85, 85, 81.25, 81.25, 81.25, true, "completion 81.25"}},
		// 60 × (½ + ½ × 2/3) + 40: 2 of 3 match, so no cap; the picture does not count
		{"outputs decide a half", everything, compared("join=match", "join=match", "join=differs", "picture:join=missing"), agreed, want{90, 90, 90, 90, 90, true, ""}},
		// both elements: 60 × (½ + ½ × 0) + 40 × ½
		{"outputs without a section count for all", everything, compared("=missing"), agreed, want{50, 50, 50, 50, 50, true, ""}},
		// 60 × (½ + ½ × 1/3) + 40 = 80
		{"few outputs match", everything, compared("join=match", "join=differs", "join=missing"), agreed, want{80, 80, 60, 60, 60, true, "output_match 60"}},
		{"exactly half the outputs match", everything, compared("join=match", "join=differs"), agreed, want{85, 85, 85, 85, 85, true, ""}},
		// Of two caps the lower one limits; one that limits nothing is not listed.
		{"both caps", []string{"join.a=found", "join.b=found", "join.c=found", "join.d=missing", "why.Why?=found"}, compared("why=missing", "join=match", "why=missing"), agreed,
			want{72.5, 72.5, 60, 60, 60, true, "output_match 60"}},
		// why.1 is worth 40 × ¾ = 30, join.1 and join.2 are 30 each: at most ∓ 3
		{"models take", everything, nil, Judgements{"code": {"join.1": NotMet, "join.2": Met}, "feedback": {"why.1": Partly}}, want{100, 94, 94, 94, 94, true, ""}},
		{"models cannot give more than there is", everything, nil, Judgements{"code": {"join.1": Met, "join.2": Met}, "feedback": {"why.1": Met}}, want{100, 100, 100, 100, 100, true, ""}},
		// The code model could take 3 twice, and give nothing.
		{"the code model is missing", everything, nil, Judgements{"feedback": {"why.1": NotMet}}, want{100, 97, 97, 91, 97, false, ""}},
		{"both are missing", everything, nil, nil, want{100, 100, 100, 91, 100, false, ""}},
		{"one criterion is not judged", everything, nil, Judgements{"code": {"join.2": Unclear}, "feedback": {"why.1": Unclear}}, want{100, 100, 100, 97, 100, false, ""}},
		{"a verdict that nobody knows is none", everything, nil, Judgements{"code": {"join.1": "superb", "join.2": Unclear}, "feedback": {"why.1": Unclear}}, want{100, 100, 100, 97, 100, false, ""}},
		{"the wrong model's judgement is none", everything, nil, Judgements{"feedback": {"why.1": Unclear, "join.1": NotMet, "join.2": NotMet}}, want{100, 100, 100, 94, 100, false, ""}},
		// 80 by layers 1 and 2; whatever the models say, 60 is left: 80 − 9 > 60
		{"a cap makes points certain", everything, compared("join=match", "join=differs", "join=missing"), nil, want{80, 80, 60, 60, 60, true, "output_match 60"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := read(t, file)
			s := Compute(r, found(r, tt.items...), tt.layer2, tt.judged, nil)
			var caps []string
			for _, c := range s.Caps {
				caps = append(caps, fmt.Sprintf("%s %v", c.Name, c.Limit))
			}
			got := want{s.Base, s.Adjusted, s.Points, s.Low, s.High, s.Certain, strings.Join(caps, ", ")}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s\n%s", diff, strings.Join(s.Reasons, "\n"))
			}
			if s.Max != 100 || s.Percent != s.Points {
				t.Errorf("%v points of %v are %v %%", s.Points, s.Max, s.Percent)
			}
		})
	}
}

// A judgement moves towards its aim, within its bound.
func TestJudgement(t *testing.T) {
	const one = `{"assignment_info": {"total_points": 20}, "rubric_elements": {"e": {"weight": 1, "max_points": 10, "criteria": [{"text": "x", "points": 5, "bound": %q, "judge": %q}]}},
		"autograder_checks": {"sections": {"s": {"variables": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]}}}}`
	for _, tt := range []struct {
		found     int // of ten: the criterion, worth 10, has this many points of layers 1 and 2
		verdict   Verdict
		bound     string
		change    float64
		low, high float64 // change if the judgement is missing
	}{
		{10, NotMet, "0.1", -1, -1, 0},
		{10, Partly, "0.1", -1, -1, 0},
		{10, Met, "0.1", 0, -1, 0},
		{5, Partly, "0.1", 0, -1, 1},
		{5, Met, "100%", 5, -5, 5},
		{6, Partly, "0.3", -1, -3, 3},
		{6, NotMet, "0.3", -3, -3, 3},
		{2, NotMet, "0.3", -2, -2, 3},
		{0, NotMet, "1", 0, 0, 10},
		{0, Met, "0.1", 1, 0, 1},
		{3, Unclear, "1", 0, -3, 7},
		{7, NotMet, "0", 0, 0, 0},
	} {
		t.Run(fmt.Sprintf("%d found, %s, bound %s", tt.found, tt.verdict, tt.bound), func(t *testing.T) {
			r := read(t, fmt.Sprintf(one, tt.bound, "code"))
			layer1 := found(r)
			for i := range 10 {
				status := check.Missing
				if i < tt.found {
					status = check.Found
				}
				layer1.Items = append(layer1.Items, check.Item{Kind: "variable", Section: "s", Status: status})
			}
			base := 2 * float64(tt.found)
			e := Compute(r, layer1, nil, Judgements{rubric.JudgeCode: {"e.1": tt.verdict}}, nil).Elements[0]
			if e.Criteria[0].Change != tt.change || e.Points != base+tt.change || e.Base != base || e.Low != e.Points || e.High != e.Points {
				t.Errorf("change %v, want %v; element %+v", e.Criteria[0].Change, tt.change, e)
			}
			missing := Compute(r, layer1, nil, nil, nil)
			if e := missing.Elements[0]; e.Low != base+tt.low || e.High != base+tt.high || e.Points != base || e.Criteria[0].Verdict != "" || e.Criteria[0].Change != 0 {
				t.Errorf("without a judgement %v, from %v to %v; want from %v to %v", e.Points, e.Low, e.High, base+tt.low, base+tt.high)
			}
			nobody := Compute(read(t, fmt.Sprintf(one, tt.bound, "nobody")), layer1, nil, Judgements{rubric.JudgeNobody: {"e.1": tt.verdict}}, nil)
			if e := nobody.Elements[0]; e.Points != base || e.Low != base || e.High != base || !nobody.Certain {
				t.Errorf("a criterion that nobody judges makes of %v points %v, from %v to %v", base, e.Points, e.Low, e.High)
			}
		})
	}
}

func TestSystematicShare(t *testing.T) {
	const plain = `{"rubric_elements": {"e": {"max_points": 10}} %s}`
	for _, tt := range []struct {
		name, checks string
		layer1       *check.Findings
		want         float64
		reason       string
	}{
		{"nothing to check", "", &check.Findings{}, -1, "nothing to check: the rubric names neither sections nor anything required, so a person decides from 0 to 10"},
		{"nothing to check in an empty notebook", "", &check.Findings{Empty: true}, 0, "nothing to check: the rubric names neither sections nor anything required, and the notebook is empty: 0 of 10"},
		{"variables without sections", "", &check.Findings{Items: []check.Item{{Name: "x", Status: check.Found}, {Kind: "variable", Name: "y", Status: check.Missing}}}, 0.5, "what is required: 1 of 2 things found (variable y missing): 5 of 10"},
		{"a section that asks for nothing", `, "autograder_checks": {"sections": {"s": {}, "t": {"points": 3}}}`, &check.Findings{Sections: []check.Section{{ID: "s", Completeness: check.Complete}, {ID: "t", Completeness: check.Partial}}}, 0.25, "s: asks for nothing by name and is complete: 2.5 of 2.5\nt: asks for nothing by name and is not complete: 0 of 7.5"},
		{"sections without points weigh the same", `, "autograder_checks": {"sections": {"s": {"points": 0}, "t": {"points": 0}}}`, &check.Findings{Sections: []check.Section{{ID: "t", Completeness: check.Complete}}}, 0.5, "s: asks for nothing by name and is not complete: 0 of 5\nt: asks for nothing by name and is complete: 5 of 5"},
		{"what lacks is named", `, "autograder_checks": {"sections": {"join": {}}}`, &check.Findings{Items: []check.Item{
			{Kind: "variable", Name: "a", Section: "join", Status: check.Found, Note: "student text"}, {Kind: "function", Name: "b", Section: "join", Status: check.NotRun},
			{Kind: "variable", Name: "c", Section: "join", Status: check.Failed}, {Kind: "question", Name: strings.Repeat("ä", 70), Section: "join", Status: check.Placeholder}}}, 0.5,
			"join: 2 of 4 things found (function b never run: half, variable c ends in an error: half, question " + strings.Repeat("ä", 59) + "… left as in the template): 5 of 10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := Compute(read(t, fmt.Sprintf(plain, tt.checks)), tt.layer1, nil, nil, nil).Elements[0]
			if reason := strings.Join(e.Reasons, "\n"); e.Systematic != tt.want || e.Outputs != -1 || reason != tt.reason {
				t.Errorf("share %v, want %v\n%s\nwant\n%s", e.Systematic, tt.want, reason, tt.reason)
			}
		})
	}
}

// A rubric that checks nothing gives no points for a line of anything: a person decides, or the outputs alone where there are any.
func TestNothingToCheck(t *testing.T) {
	r := read(t, `{"rubric_elements": {"e": {"max_points": 10, "criteria": ["It is good."]}}}`)
	s := Compute(r, &check.Findings{}, nil, nil, nil)
	if s.Certain || s.Points != 0 || s.Low != 0 || s.High != 10 {
		t.Errorf("points %v, from %v to %v; want 0 to 10", s.Points, s.Low, s.High)
	}
	s = Compute(r, &check.Findings{}, compared("=match", "=match", "=match", "=differs"), Judgements{rubric.JudgeCode: {"e.1": Unclear}}, nil)
	if !s.Certain || s.Points != 7.5 {
		t.Errorf("with 3 of 4 outputs %v, certain %t; want 7.5", s.Points, s.Certain)
	}
}

// An element whose sections are no longer in the rubric is about all of them.
func TestUnknownSections(t *testing.T) {
	r := read(t, file)
	r.Elements[0].Sections = []string{"gone"}
	if e := Compute(r, found(r, everything...), nil, nil, nil).Elements[0]; e.Systematic != 1 || len(e.Reasons) < 2 || !strings.HasPrefix(e.Reasons[1], "why:") {
		t.Errorf("element %+v", e)
	}
}

func TestReasons(t *testing.T) {
	r := read(t, file)
	layer1 := found(r, "join.a=found", "join.b=found", "join.c=found", "join.d=missing", "why.Why?=found")
	s := Compute(r, layer1, compared("join=match", "join=match", "join=differs"), Judgements{rubric.JudgeCode: {"join.1": NotMet, "join.2": Partly}}, nil)
	want := []string{
		"join: 3 of 4 things found (variable d missing): 22.5 of 30",
		"outputs: 2 of 3 match: 20 of 30",
		"criterion join.1 (code model: not met): −3, bound ±3",
		"criterion join.2 (code model: partly): −3, bound ±3",
	}
	if diff := cmp.Diff(want, s.Elements[0].Reasons); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = []string{
		"why: 1 of 1 thing found: 40 of 40",
		"criterion why.1 (feedback model: no judgement that counts): any would change between −3 and 0",
	}
	if diff := cmp.Diff(want, s.Elements[1].Reasons); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = []string{
		"by the checks and the outputs: 82.5 of 100",
		"by the models' judgements: −6, to 76.5",
		"criteria without a judgement that counts: 1, so between 73.5 and 76.5 before any cap",
	}
	if diff := cmp.Diff(want, s.Reasons); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNoFindings(t *testing.T) {
	s := Compute(read(t, file), nil, nil, nil, nil)
	if s.Points != 0 || s.Low != 0 || s.Max != 100 || len(s.Elements) != 2 {
		t.Errorf("score %+v", s)
	}
}

func TestRounding(t *testing.T) {
	for text, want := range map[string]float64{"0.005": 0.01, "0.00499999": 0, "2/3": 0.67, "-0.005": -0.01, "-0.001": 0, "99.995": 100} {
		r, _ := new(big.Rat).SetString(text)
		if got := asPoints(r); got != want || 1/got < 0 && got == 0 {
			t.Errorf("%s is rounded to %v, want %v", text, got, want)
		}
	}
}

func TestOutputsByWeight(t *testing.T) {
	r := read(t, `{"assignment_info": {"total_points": 100}, "rubric_elements": {"e": {"weight": 1}}, "tandem": {"cap": {"output_match_below": 0}},
		"autograder_checks": {"outputs": {"big": {"weight": 3}, "none": {"weight": 0}}}}`)
	f := &outputs.Findings{Comparisons: []outputs.Comparison{
		{Key: "big", Kind: "number", Verdict: outputs.Match}, {Key: "small", Kind: "number", Verdict: outputs.Differs},
		{Key: "none", Kind: "number", Verdict: outputs.Differs}, {Key: "left out", Kind: "number", Verdict: outputs.Differs, Ignored: true},
	}}
	if s := Compute(r, &check.Findings{}, f, nil, nil); s.Points != 75 {
		t.Errorf("%v points, want 75: %q", s.Points, s.Elements[0].Reasons)
	}
	given := &Given{Credits: map[Thing]*big.Rat{{Kind: Output, Name: "small"}: big.NewRat(1, 2)}}
	if s := Compute(r, &check.Findings{}, f, nil, given); s.Points != 87.5 {
		t.Errorf("with half of another: %v points, want 87.5: %q", s.Points, s.Elements[0].Reasons)
	}
	given = &Given{Waived: map[Thing]bool{{Kind: Output, Name: "small"}: true}}
	if s := Compute(r, &check.Findings{}, f, nil, given); s.Points != 100 {
		t.Errorf("without that one: %v points, want 100: %q", s.Points, s.Elements[0].Reasons)
	}
}

// Scores of any rubric, findings and judgements keep the promises of docs/GRADING.md.
func FuzzCompute(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := randomRubric(t, rng)
		layer1, layer2, judged := randomFindings(r, rng), randomOutputs(r, rng), randomJudgements(r, rng)

		s := Compute(r, layer1, layer2, judged, nil)
		if diff := cmp.Diff(s, Compute(r, layer1, layer2, judged, nil)); diff != "" {
			t.Fatalf("the same inputs score differently:\n%s", diff)
		}
		inRange(t, s)

		whole := Judgements{}
		for _, judge := range []rubric.Judge{rubric.JudgeCode, rubric.JudgeFeedback} {
			whole[judge] = map[string]Verdict{}
			for _, c := range r.Criteria(judge) {
				if whole[judge][c.ID] = judged[judge][c.ID]; whole[judge][c.ID] == "" {
					whole[judge][c.ID] = verdicts()[rng.IntN(4)]
				}
			}
		}
		full := Compute(r, layer1, layer2, whole, nil)
		if !full.Certain || full.Points < s.Low || full.Points > s.High {
			t.Errorf("with all judgements %v points (%v to %v); the range was %v to %v", full.Points, full.Low, full.High, s.Low, s.High)
		}
		for _, e := range r.Elements {
			for i := range e.Criteria {
				e.Criteria[i].Bound = new(big.Rat)
			}
		}
		if unbound := Compute(r, layer1, layer2, nil, nil); !unbound.Certain || unbound.Base != s.Base || unbound.Adjusted != s.Base {
			t.Errorf("bound 0, and yet %v points by layers 1 and 2 become %v, certain: %t", s.Base, unbound.Adjusted, unbound.Certain)
		}

		r = randomRubric(t, rand.New(rand.NewPCG(seed, 1))) // its bounds again
		better(layer1, layer2, rng)
		if more := Compute(r, layer1, layer2, judged, nil); more.Points < s.Points || more.Low < s.Low || more.High < s.High {
			t.Errorf("with more found %v points (%v to %v), before %v (%v to %v)", more.Points, more.Low, more.High, s.Points, s.Low, s.High)
		}
	})
}

// inRange checks that the figures of one score fit together.
func inRange(t *testing.T, s *Score) {
	t.Helper()
	const hundredths = 0.0051
	if s.Low < 0 || s.Low > s.Points || s.Points > s.High || s.High > s.Max || s.Certain != (s.Low == s.High) {
		t.Errorf("points %v, from %v to %v of %v", s.Points, s.Low, s.High, s.Max)
	}
	var base, adjusted float64
	for _, e := range s.Elements {
		base, adjusted = base+e.Base, adjusted+e.Points
		if e.Low < 0 || e.Low > e.Points || e.Points > e.High || e.High > e.Max || e.Systematic < 0 && e.Systematic != -1 || e.Systematic > 1 || e.Outputs > 1 || len(e.Reasons) == 0 {
			t.Errorf("element %+v", e)
		}
		change := e.Base
		for _, c := range e.Criteria {
			if change += c.Change; c.Change > c.Bound || c.Change < -c.Bound || c.Points > e.Max {
				t.Errorf("criterion %+v", c)
			}
		}
		if d := change - e.Points; d > hundredths*float64(len(e.Criteria)+2) || -d > hundredths*float64(len(e.Criteria)+2) {
			t.Errorf("base and changes are %v points, the element has %v", change, e.Points)
		}
	}
	for _, d := range []float64{base - s.Base, adjusted - s.Adjusted} {
		if within := hundredths * float64(len(s.Elements)+1); d > within || -d > within {
			t.Errorf("elements add up to %v and %v, the score has %v and %v", base, adjusted, s.Base, s.Adjusted)
		}
	}
	for _, c := range s.Caps {
		if s.High > c.Limit {
			t.Errorf("%v points, capped at %v", s.High, c.Limit)
		}
	}
}

func randomRubric(t *testing.T, rng *rand.Rand) *rubric.Rubric {
	var elements, sections []string
	for i := range rng.IntN(4) {
		sections = append(sections, fmt.Sprintf(`"s%d": {"points": %d}`, i, rng.IntN(4)))
	}
	for i := range 1 + rng.IntN(4) {
		most := 1 + rng.IntN(30)
		var criteria, about []string
		for left := most; rng.IntN(4) > 0; {
			points := rng.IntN(left + 1)
			left -= points
			criteria = append(criteria, fmt.Sprintf(`{"text": "x", "points": %d, "bound": "%d%%", "judge": %q}`, points, rng.IntN(101), []string{"code", "feedback", "nobody"}[rng.IntN(3)]))
		}
		if len(sections) > 0 && rng.IntN(2) == 0 {
			about = append(about, fmt.Sprintf(`"s%d"`, rng.IntN(len(sections))))
		}
		elements = append(elements, fmt.Sprintf(`"e%d": {"max_points": %d, "criteria": [%s], "sections": [%s]}`, i, most, strings.Join(criteria, ","), strings.Join(about, ",")))
	}
	return read(t, fmt.Sprintf(`{"rubric_elements": {%s}, "autograder_checks": {"sections": {%s}}, "tandem": {"output_share": "%d%%", "cap": {"score_at_most": %d}}}`,
		strings.Join(elements, ","), strings.Join(sections, ","), rng.IntN(101), rng.IntN(101)))
}

func randomFindings(r *rubric.Rubric, rng *rand.Rand) *check.Findings {
	f := &check.Findings{Empty: rng.IntN(2) == 0}
	ids := []string{""}
	for _, s := range r.Sections {
		ids = append(ids, s.ID)
		f.Sections = append(f.Sections, check.Section{ID: s.ID, Completeness: []check.Completeness{check.Complete, check.Partial, check.Incomplete}[rng.IntN(3)]})
	}
	for range rng.IntN(12) {
		f.Items = append(f.Items, check.Item{Section: ids[rng.IntN(len(ids))], Status: []check.Status{check.Found, check.NotRun, check.Failed, check.Placeholder, check.Missing}[rng.IntN(5)]})
	}
	return f
}

func randomOutputs(r *rubric.Rubric, rng *rand.Rand) *outputs.Findings {
	var words []string
	for range rng.IntN(8) {
		section := ""
		if len(r.Sections) > 0 && rng.IntN(3) > 0 {
			section = r.Sections[rng.IntN(len(r.Sections))].ID
		}
		words = append(words, []string{"", "picture:"}[rng.IntN(2)]+section+"="+[]string{"match", "differs", "missing"}[rng.IntN(3)])
	}
	return compared(words...)
}

func randomJudgements(r *rubric.Rubric, rng *rand.Rand) Judgements {
	j := Judgements{}
	for _, judge := range []rubric.Judge{rubric.JudgeCode, rubric.JudgeFeedback} {
		if rng.IntN(3) == 0 {
			continue
		}
		j[judge] = map[string]Verdict{}
		for _, c := range r.Criteria(judge) {
			if rng.IntN(4) > 0 {
				j[judge][c.ID] = verdicts()[rng.IntN(4)]
			}
		}
	}
	return j
}

// better makes one thing of the findings better.
func better(layer1 *check.Findings, layer2 *outputs.Findings, rng *rand.Rand) {
	switch n := rng.IntN(3); {
	case n == 0 && len(layer1.Items) > 0:
		layer1.Items[rng.IntN(len(layer1.Items))].Status = check.Found
	case n == 1 && len(layer1.Sections) > 0:
		layer1.Sections[rng.IntN(len(layer1.Sections))].Completeness = check.Complete
	case len(layer2.Comparisons) > 0:
		c := &layer2.Comparisons[rng.IntN(len(layer2.Comparisons))]
		if c.Verdict != outputs.Match && c.Kind != "picture" {
			layer2.Matched++
		}
		c.Verdict = outputs.Match
	}
	layer1.Empty = false
}

func TestCompletionCap(t *testing.T) {
	for _, test := range []struct {
		rule   string
		points float64
		reason string
	}{
		{"complete", 25, "sections of 1 of 4 points are complete: at most 25"},
		{"partial", 81.25, "3.25 of the sections' 4 points are done: at most 81.25"},
		{"none", 85, ""},
	} {
		t.Run(test.rule, func(t *testing.T) {
			r := read(t, strings.Replace(file, `"rubric_elements"`, `"tandem": {"model_bound": 0, "cap": {"completion": "`+test.rule+`"}}, "rubric_elements"`, 1))
			s := Compute(r, found(r, "join.a=found", "join.b=found", "join.c=found", "join.d=missing", "why.Why?=found"), nil, nil, nil)
			if s.Points != test.points {
				t.Errorf("points %v, want %v", s.Points, test.points)
			}
			reason := ""
			for _, c := range s.Caps {
				reason = c.Reason
			}
			if reason != test.reason {
				t.Errorf("reason %q, want %q", reason, test.reason)
			}
		})
	}
}
