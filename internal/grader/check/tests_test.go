package check_test

import (
	"fmt"
	"strings"
	"testing"

	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// tested is a notebook of a function and a test of it.
func tested(test notebook.Cell) *notebook.Notebook {
	test.Number, test.Kind = 3, notebook.Code
	return &notebook.Notebook{Language: notebook.Python, Cells: []notebook.Cell{
		{Number: 1, Kind: notebook.Markdown, Source: "# Squares"},
		{Number: 2, Kind: notebook.Code, Source: "def squares(n):\n    return [i * i for i in range(n)]", Count: 1},
		test,
	}}
}

func TestTests(t *testing.T) {
	const asserts = "assert squares(3) == [0, 1, 4]"
	raised := []notebook.Output{{Kind: notebook.Error, ErrorName: "AssertionError"}}
	said := func(text string) []notebook.Output { return []notebook.Output{{Kind: notebook.Value, Text: text}} }
	nbgrader := func(source string, count int, outputs ...notebook.Output) notebook.Cell {
		return notebook.Cell{Source: source, Count: count, Outputs: outputs, GradeID: "test_squares", Test: true, Points: 2}
	}
	otter := func(text string) notebook.Cell {
		return notebook.Cell{Source: `grader.check("q1")`, Count: 2, Outputs: said(text)}
	}
	released := tested(nbgrader(asserts, 0))
	for name, tt := range map[string]struct {
		template *notebook.Notebook
		cell     notebook.Cell
		want     string // name, status, points; "" is no item
		note     string
	}{
		"passes":                            {released, nbgrader(asserts, 2), "test_squares found 2", ""},
		"fails":                             {released, nbgrader(asserts, 2, raised...), "test_squares failed 2", "it fails (cell 3)"},
		"never run":                         {released, nbgrader(asserts, 0), "test_squares not_run 2", ""},
		"changed":                           {released, nbgrader("assert True", 2), "test_squares missing 2", "its cell is not the template's any more (cell 3)"},
		"gone":                              {released, notebook.Cell{Source: "x = 1", Count: 2}, "test_squares missing 2", "its cell is gone"},
		"with the hidden tests put back":    {released, nbgrader(asserts+"\n### BEGIN HIDDEN TESTS\nassert squares(0) == []\n### END HIDDEN TESTS", 2), "test_squares found 2", ""},
		"hidden, and not put back":          {tested(nbgrader("", 0)), nbgrader("", 0), "", ""},
		"hidden, put back, and fails":       {tested(nbgrader("", 0)), nbgrader("### BEGIN HIDDEN TESTS\nassert 0\n### END HIDDEN TESTS", 2, raised...), "test_squares failed 2", "it fails (cell 3)"},
		"without a template":                {nil, nbgrader("assert squares(1) == [0]", 2), "test_squares found 2", ""},
		"Otter's, passes":                   {tested(otter("")), otter("q1 results: All test cases passed!"), "q1 found 1", ""},
		"Otter's of older versions":         {nil, otter("q1 passed! 🎉"), "q1 found 1", ""},
		"Otter's, fails":                    {nil, otter("q1 results:\n    q1 - 1 result:\n        ❌ Test case failed"), "q1 failed 1", "it fails (cell 3)"},
		"Otter's, half":                     {nil, otter("q1 results: 1 of 2 tests passed!"), "q1 failed 1", "it fails (cell 3)"},
		"Otter's without a result":          {nil, otter(""), "q1 not_run 1", ""},
		"a cell that is graded by a person": {nil, notebook.Cell{Source: "x = 1", Count: 2, GradeID: "essay", Points: 3}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := check.Run(tested(tt.cell), tt.template, &rubric.Rubric{Sections: []rubric.Section{{ID: "squares", Name: "Squares", Variables: []string{"squares"}}}})
			got, note := "", ""
			for _, item := range f.Items[1:] {
				got, note = strings.TrimSpace(fmt.Sprint(item.Name, " ", item.Status, " ", item.Points)), item.Note
				if item.Kind != check.Test || item.Section != "squares" {
					t.Errorf("%s %s of section %q", item.Kind, item.Name, item.Section)
				}
			}
			if got != tt.want || note != tt.note {
				t.Errorf("got %q, %q; want %q, %q", got, note, tt.want, tt.note)
			}
		})
	}
}
