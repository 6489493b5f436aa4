package rubric

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// say writes down what matters of a rubric, a line each, for a comparison by eye.
func say(r *Rubric) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if r.Info.TotalPoints != nil {
		add("total %s", decimal(r.Info.TotalPoints))
	}
	if names := slices.Concat(r.Required, r.RequiredFunctions, r.RequiredColumns); len(names) > 0 {
		add("required %s", strings.Join(names, " "))
	}
	for _, e := range r.Elements {
		add("element %s %s about %s", e.ID, e.Weight.FloatString(3), strings.Join(e.Sections, " "))
		for _, c := range e.Criteria {
			add("criterion %s %s: %s", c.ID, decimal(c.Points), c.Text)
		}
	}
	for _, s := range r.Sections {
		add("section %s %q %s: %s; words %d", s.ID, s.Name, decimal(s.Points), strings.Join(slices.Concat(s.Variables, s.Functions, s.Columns, s.Questions), " "), s.MinWords)
	}
	return list
}

func TestOlderRubrics(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want []string
		note string // that one of the notes says
	}{
		"required_sections": {
			`{"rubric_elements": {"a": {"weight": 1}}, "assignment_info": {"total_points": 10}, "autograder_checks": {"required_sections": ["Import the data", "Join"], "required_functions": ["read_csv()", "left_join|merge"]}}`,
			[]string{
				"total 10", "required read_csv left_join|merge", "element a 1.000 about Import the data Join",
				`section Import the data "Import the data" 1: ; words 0`, `section Join "Join" 1: ; words 0`,
			}, `/autograder_checks/required_sections: is read as "sections"`,
		},
		"required_sections beside sections": {
			`{"rubric_elements": {"a": {"max_points": 10}}, "autograder_checks": {"sections": {"import": {"name": "Import the data"}}, "required_sections": ["Import the Data!", "Join"]}}`,
			[]string{"total 10", "element a 1.000 about import Join", `section import "Import the data" 1: ; words 0`, `section Join "Join" 1: ; words 0`},
			"is read as further sections",
		},
		"at the top": {
			`{"total_points": 20, "required_variables": ["x"], "rubric_elements": {"a": {"weight": 1}}}`,
			[]string{"total 20", "required x", "element a 1.000 about "},
			"/total_points: is read as part of assignment_info",
		},
		"keys of sections": {
			`{"rubric_elements": {"a": {"max_points": 5}}, "autograder_checks": {"min_words_per_question": 20, "sections": {"s": {
				"required_variables": ["x"], "required_functions": ["left_join"], "accepts_functions": ["merge", "inner_join"], "columns": ["id"], "questions": ["Why?"]}}}}`,
			[]string{"total 5", "element a 1.000 about s", `section s "s" 1: x left_join|merge|inner_join id Why?; words 20`},
			"is read as the min_words of each section with questions",
		},
		"functions that are accepted for others": {
			`{"rubric_elements": {"a": {"max_points": 5}}, "autograder_checks": {"sections": {"s": {"functions": ["left_join", "summarise"], "accepts_functions": {"left_join": ["merge"], "arrange": "sort"}}}}}`,
			[]string{"total 5", "element a 1.000 about s", `section s "s" 1: left_join|merge summarise arrange|sort; words 0`},
			"is read as alternatives among the functions",
		},
		"lists": {
			`{"assignment_info": {"total_points": 40}, "rubric_elements": ["Joins", "Plots"], "autograder_checks": {"sections": [{"id": "p1", "name": "Joins", "variables": ["j"]}, "Plots"]}}`,
			[]string{"total 40", "element Joins 0.500 about p1", "element Plots 0.500 about Plots", `section p1 "Joins" 1: j; words 0`, `section Plots "Plots" 1: ; words 0`},
			"the list is read as an object, keyed by the names of its entries",
		},
		"a list of elements with points": {
			`{"rubric_elements": [{"name": "Joins", "points": 30, "criteria": ["right"]}, {"name": "Plots", "points": 10}]}`,
			[]string{"total 40", "element Joins 0.750 about ", "criterion Joins.1 30: right", "element Plots 0.250 about "},
			`/rubric_elements/Joins/points: is read as "max_points"`,
		},
		"levels": {
			`{"rubric_elements": {"a": {"max_points": 7.5, "criteria": {"excellent": {"points": "6.8-7.5", "description": "all keys right"}, "poor": {"points": "0-3", "description": "none"}}}}}`,
			[]string{"total 7.5", "element a 1.000 about ", "criterion a.1 7.5: excellent: (6.8-7.5 points) all keys right; poor: (0-3 points) none"}, "",
		},
		"a list of levels": {
			`{"rubric_elements": {"a": {"max_points": 7.5, "criteria": [{"level": "good", "points": "6.8-7.5", "description": "all"}, {"level": "poor", "points": 0, "description": "none"}]}}}`,
			[]string{"total 7.5", "element a 1.000 about ", "criterion a.1 7.5: good: (6.8-7.5 points) all; poor: (0 points) none"},
			"the levels are read as one criterion, a scale",
		},
		"criteria with descriptions": {
			`{"rubric_elements": {"a": {"max_points": 10, "criteria": [{"description": "keys", "points": 4}, {"description": "rows", "points": 6}]}}}`,
			[]string{"total 10", "element a 1.000 about ", "criterion a.1 4: keys", "criterion a.2 6: rows"},
			`is read as "text", here and wherever it stands`,
		},
		"no elements, but sections": {
			`{"autograder_checks": {"sections": {"a": {"points": 30}, "b": {"points": 10}}}}`,
			[]string{"total 100", "element a 0.750 about a", "element b 0.250 about b", `section a "a" 30: ; words 0`, `section b "b" 10: ; words 0`},
			"/: there are no rubric_elements; each section is one, by its points",
		},
		"no elements, but a total": {
			`{"assignment_info": {"total_points": 12}, "autograder_checks": {"required_variables": ["x"]}}`,
			[]string{"total 12", "required x", "element work 1.000 about "},
			"all points are one element",
		},
		"an element's own": {
			`{"rubric_elements": {"joins": {"max_points": 6, "variables": ["joined"], "required_functions": ["merge"]}, "plots": {"max_points": 4, "functions": ["ggplot"]}}}`,
			[]string{"total 10", "element joins 0.600 about joins", "element plots 0.400 about plots", `section joins "joins" 1: joined merge; words 0`, `section plots "plots" 1: ggplot; words 0`},
			"is read as part of joins",
		},
		"what belongs together": {
			`{"rubric_elements": {"Data import and cleaning": {"max_points": 5}, "Joining tables": {"max_points": 5}, "Code style": {"max_points": 5}, "Totals": {"max_points": 5, "criteria": ["revenue_by_region is right"]}},
			"autograder_checks": {"sections": {"part_1": {"name": "Part 1: Importing the data"}, "part_2": {"name": "Part 2: Join the tables"}, "part_3": {"name": "Part 3", "variables": ["revenue_by_region"]}}}}`,
			[]string{
				"total 20", "element Data import and cleaning 0.250 about part_1", "element Joining tables 0.250 about part_2", "element Code style 0.250 about part_1 part_2 part_3",
				"element Totals 0.250 about part_3", "criterion Totals.1 5: revenue_by_region is right", `section part_1 "Part 1: Importing the data" 1: ; words 0`,
				`section part_2 "Part 2: Join the tables" 1: ; words 0`, `section part_3 "Part 3" 1: revenue_by_region; words 0`,
			},
			"/rubric_elements/Totals: is taken to be about part_3, by the words that they have in common",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := read(t, tt.file)
			if got := say(r); !slices.Equal(got, tt.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
			}
			if !strings.Contains(strings.Join(r.Notes(), "\n"), tt.note) {
				t.Errorf("no note says %q:\n%s", tt.note, strings.Join(r.Notes(), "\n"))
			}
			if len(r.Unknown) > 0 {
				t.Errorf("unknown keys %v", r.Unknown)
			}
		})
	}
}

// What cannot be read is refused with what to write instead.
func TestOlderRubricsThatCannotBeRead(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"in whose place": {
			`{"rubric_elements": {"a": {"max_points": 5}}, "autograder_checks": {"sections": {"s": {"functions": ["f", "g"], "accepts_functions": ["h"]}}}}`,
			`write instead of it, if it is in the place of each, "functions": ["f|h", "g|h"]`,
		},
		"a range among points": {
			`{"rubric_elements": {"a": {"max_points": 5, "criteria": [{"text": "x", "points": "2-3"}, {"text": "y", "points": 2}]}}}`,
			`write instead the most that it gives, as "points": 3`,
		},
		"an element without a name": {`{"rubric_elements": [{"points": 5}]}`, `want element 1 with a name, as {"name": "Joins"}`},
		"nothing at all":            {`{"title": "Homework"}`, "/rubric_elements: nothing stands there"},
	} {
		if _, err := Read([]byte(tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want an error that says %s", name, err, tt.want)
		}
	}
}
