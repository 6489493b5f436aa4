package check_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

func TestQuestions(t *testing.T) {
	const why, how = "Why do you keep all orders?", "How many rows are lost by it?"
	both := why + "|" + how
	english := []string{"In this part you join the two tables. Say what each of them has, which rows are lost by it and why, and what that means for the revenue of the shop that sells them."}
	for _, c := range []struct {
		what      string
		questions string
		template  []string // cells below the heading; nil for no template
		cells     []string // likewise
		want      string   // status and cell of each question
		note      string   // of the last one
	}{
		{"an answer below", why, nil, []string{why, "They are what we count."}, "found 3", ""},
		{"an answer in the same cell", why, nil, []string{"**(a) " + why + "**\n\nThey are what we count."}, "found 2", ""},
		{"an answer on the same line", why, nil, []string{"1. " + why + " They are what we count."}, "found 2", ""},
		{"an answer below a heading", why, nil, []string{"### " + why, "They are what we count."}, "found 3", ""},
		{"a question over two lines", why, nil, []string{"Why do you\nkeep *all* orders?\nThey are what we count."}, "found 2", ""},
		{"a question in other words", why, nil, []string{"Why do we keep all the orders?", "They are what we count."}, "found 3", ""},
		{"a question that the answer says again", why, nil, []string{"You do keep all orders when they count."}, "found 2", ""},
		{"an answer without the question", why, nil, []string{"They are what we count."}, "found 2", ""},
		{"an answer with a label", why, nil, []string{why + "\n\n**Answer:** they are what counts"}, "found 2", ""},
		{"an answer in Chinese", why, nil, []string{why, "因为它们是我们要数的"}, "found 3", ""},
		{"an answer of two words", why, nil, []string{why, "No idea."}, "missing 0", "fewer than 3 words (cell 3)"},
		{"an answer in code", why, nil, []string{why, ">x <- 'They are what we count.'"}, "missing 0", "no answer after the question (cell 2)"},
		{"no answer", why, nil, []string{why}, "missing 0", "no answer after the question (cell 2)"},
		{"nothing", why, nil, []string{">1"}, "missing 0", ""},
		{"headings", why, nil, []string{"### What I think of all this"}, "missing 0", ""},
		{"a picture", why, nil, []string{why, "![what we think of it](x.png)"}, "missing 0", "no answer after the question (cell 2)"},
		{"what nobody sees", why, nil, []string{why, "<!-- They are what\nwe count. -->"}, "missing 0", "no answer after the question (cell 2)"},

		{"letters", why, nil, []string{why, "asdf kjhgf sdfgh"}, "missing 0", "not words (cell 3)"},
		{"letters without vowels", why, nil, []string{why, "xkcd brrrt wzzzp tnk"}, "missing 0", "not words (cell 3)"},
		{"one word again and again", why, nil, []string{why, "orders orders orders orders"}, "missing 0", "the same words again and again (cell 3)"},
		{"words that fill the place", why, nil, []string{why, "foo bar test baz"}, "missing 0", "words that only fill the place (cell 3)"},
		{"the question again", why, nil, []string{why, "You keep all orders, why do you?"}, "missing 0", "only the question again (cell 3)"},
		{"words like none of the assignment's language", why, english, []string{why, "mba kuyu lolo hanzi wepesi tena"}, "missing 0", "none of its words is one of English, which the notebook is in, or of the assignment (cell 3)"},
		{"an answer with one word of it", why, english, []string{why, "Revenue grew strongly, orders doubled everywhere."}, "found 3", ""},

		{"a placeholder", why, nil, []string{why, "[your answer]"}, "placeholder 3", "the template's placeholder stands unchanged (cell 3)"},
		{"a placeholder in capitals", why, nil, []string{why + "\n\n*YOUR ANSWER HERE*"}, "placeholder 2", "the template's placeholder stands unchanged (cell 2)"},
		{"a label", why, nil, []string{why + "\n\n**Answer:**"}, "placeholder 2", "the template's placeholder stands unchanged (cell 2)"},
		{"a label and a placeholder", why, nil, []string{why + "\n\nAnswer: Type your answer here"}, "placeholder 2", "the template's placeholder stands unchanged (cell 2)"},
		{"to be done", why, nil, []string{why, "TODO"}, "placeholder 3", "the template's placeholder stands unchanged (cell 3)"},
		{"dots", why, nil, []string{why, "…"}, "placeholder 3", "the template's placeholder stands unchanged (cell 3)"},
		{"the double click", why, nil, []string{why, "Double-click to edit"}, "placeholder 3", "the template's placeholder stands unchanged (cell 3)"},
		{"an answer beside a placeholder", why, nil, []string{why, "[your answer]\n\nThey are what we count."}, "found 3", ""},

		{"the template", why, []string{why, "[explain in two sentences]"}, []string{why, "[explain in two sentences]"}, "placeholder 2", "nothing was added to the template (cell 2)"},
		{"an answer in place of the template's line", why, []string{why, "[explain in two sentences]"}, []string{why, "They are what we count."}, "found 3", ""},
		{"an answer behind the template's line", why, []string{why, "In two or three sentences:"}, []string{why, "In two or three sentences: they are what counts."}, "found 3", ""},
		{"the template's words on another line", why, []string{why + "\nIn two or three sentences."}, []string{why, "In two or three sentences."}, "placeholder 2", "nothing was added to the template (cell 2)"},

		{"two in order", both, nil, []string{why, "They are what we count.", how, "None at all here."}, "found 3, found 5", ""},
		{"two in one cell", both, nil, []string{why + " They are what we count. " + how + " None at all here."}, "found 2, found 2", ""},
		{"two in another order", both, nil, []string{how, "None at all here.", why, "They are what we count."}, "found 5, found 3", ""},
		{"the first alone", both, nil, []string{why, "They are what we count.", how, "[your answer]"}, "found 3, placeholder 5", "the template's placeholder stands unchanged (cell 5)"},
		{"the second alone", both, nil, []string{why, how, "None at all here."}, "missing 0, found 4", ""},
		{"a long answer to the first", both, nil, []string{why, "They are what we count.", "And there is more.", how}, "found 3, missing 0", "no answer after the question (cell 5)"},
		{"a question that was deleted", both, nil, []string{why, "They are what we count.", "None at all here."}, "found 3, found 4", ""},
		{"the first question deleted", both, nil, []string{"They are what we count.", how, "None at all here."}, "found 2, found 4", ""},
		{"a list, then the answers", both, nil, []string{"* " + why + "\n* " + how, "They are what we count.", "None at all here."}, "found 3, found 4", ""},
		{"a list, then one answer", both, nil, []string{"* " + why + "\n* " + how, "They are what we count."}, "found 3, missing 0", "no answer after the question (cell 2)"},
		{"a list, then each again", both, nil, []string{"* " + why + "\n* " + how, why, how, "None at all here."}, "missing 0, found 5", ""},
		{"by letters", both, nil, []string{"(a) They are what we count.\n(b) None at all here."}, "found 2, found 2", ""},
		{"by numbers, one without an answer", both, nil, []string{"Q1: TODO", "Q2: None at all here."}, "placeholder 2, found 3", ""},
		{"by nothing", both, nil, []string{"They are what we count.\n\nNone at all here."}, "found 2, found 2", ""},
		{"one paragraph for two", both, nil, []string{"They are what we count."}, "found 2, missing 0", ""},
		{"more paragraphs than questions", both, nil, []string{"They are what we count.", "None at all here.", "More about it here."}, "found 2, found 3", ""},

		{"only counted", "question 1|question 2", nil, []string{"They are what we count.", "None at all here."}, "found 2, found 3", ""},
		{"only counted, with a template", "question 1|question 2", []string{"**1.** Say why.", "[your answer]", "**2.** Say how.", "[your answer]"},
			[]string{"**1.** Say why.", "They are what we count.", "**2.** Say how.", "[your answer]"}, "found 3, placeholder 5", "the template's placeholder stands unchanged (cell 5)"},
	} {
		t.Run(c.what, func(t *testing.T) {
			var template *notebook.Notebook
			if c.template != nil {
				template = cells(notebook.R, append([]string{"# Join"}, c.template...)...)
			}
			f := check.Run(cells(notebook.R, append([]string{"# Join"}, c.cells...)...), template, one("question", c.questions))
			if got := statuses(f); got != c.want {
				t.Errorf("%s; want %s", got, c.want)
			}
			if note := f.Items[len(f.Items)-1].Note; note != c.note {
				t.Errorf("note %q; want %q", note, c.note)
			}
		})
	}
}

// statuses are the states of items, with their cells.
func statuses(f *check.Findings) string {
	var list []string
	for _, i := range f.Items {
		list = append(list, string(i.Status)+" "+string('0'+rune(i.Cell)))
	}
	return strings.Join(list, ", ")
}

func TestQuestionsElsewhere(t *testing.T) {
	const why = "Why do you keep all orders?"
	for _, c := range []struct {
		what  string
		cells []string
		want  check.Item
	}{
		{"in another section", []string{"# Load", why, "They are what we count.", "# Join", ">1"}, check.Item{Status: check.Found, Cell: 3, Note: "in cell 3, outside of its section"}},
		{"without a section", []string{why, "They are what we count."}, check.Item{Status: check.Found, Cell: 2}},
		{"text that answers nothing", []string{"# Load", "They are what we count.", "# Join", ">1"}, check.Item{Status: check.Missing}},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.want.Kind, c.want.Name, c.want.Section = "question", why, "join"
			f := check.Run(cells(notebook.R, c.cells...), nil, one("question", why))
			if diff := cmp.Diff([]check.Item{c.want}, f.Items); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Questions beside code count among the items of their section.
func TestQuestionsBesideCode(t *testing.T) {
	r := one("question", "Why do you keep all orders?")
	r.Sections[1].Variables = []string{"total"}
	f := check.Run(cells(notebook.R, "# Join", ">total <- 1", "They are what we count."), nil, r)
	if s := f.Sections[1]; s.Completeness != check.Complete || s.Found != 2 || s.Asked != 2 {
		t.Errorf("%+v; want two of two found", s)
	}
}

func FuzzRun(f *testing.F) {
	f.Add("(a) Why? Because of that.\n\n(b) TODO", "Why?", "x <- NULL # y")
	f.Add("# Join\n\n- one two three\n- four five six", "one two three four five", "x = ____")
	f.Add("Answer:\n…", "question 1", "x: int = None; x == 1")
	f.Add("<!-- \xff", "\xfe", "`x` <-")
	f.Fuzz(func(t *testing.T, text, name, source string) {
		r := &rubric.Rubric{Required: []string{name}, Sections: []rubric.Section{
			{ID: "a", Name: "Join", Variables: []string{name, "x"}, Functions: []string{name}, Columns: []string{name}, Questions: []string{name, "one two three", "question 3"}},
			{ID: "b", Name: text},
		}}
		for _, lang := range []notebook.Language{notebook.R, notebook.Python, notebook.Other} {
			student, template := cells(lang, "# Join", text, ">"+source, name), cells(lang, "# Join", name, "-"+source)
			got := check.Run(student, template, r)
			if len(got.Sections) != 2 || len(got.Items) != 7 {
				t.Errorf("%d sections, %d items; want 2 and 7", len(got.Sections), len(got.Items))
			}
			for _, i := range got.Items {
				if i.Status == "" || i.Status == check.Found && i.Cell == 0 {
					t.Errorf("%+v", i)
				}
			}
			if got.Unchanged < 0 || got.Unchanged > 1 {
				t.Errorf("unchanged: %v", got.Unchanged)
			}
		}
	})
}
