package check_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// cells makes a notebook. A text that begins with > is code that was run, with ! code that ended in an error, with - code that was never run; any other is Markdown.
func cells(lang notebook.Language, texts ...string) *notebook.Notebook {
	nb := &notebook.Notebook{Language: lang, Kernel: string(lang)}
	count := 0
	for i, s := range texts {
		c := notebook.Cell{Number: i + 1, Kind: notebook.Markdown, Source: s}
		switch mark := s[:min(1, len(s))]; mark {
		case ">", "!", "-":
			c.Kind, c.Source = notebook.Code, s[1:]
			if mark != "-" {
				count++
				c.Count = count
			}
			if mark == "!" {
				c.Outputs = []notebook.Output{{Kind: notebook.Error, ErrorName: "Error", ErrorValue: "object not found"}}
			}
		}
		nb.Cells = append(nb.Cells, c)
	}
	return nb
}

// one makes a rubric with the sections Load and Join; the latter asks for one thing.
func one(kind, name string) *rubric.Rubric {
	join := rubric.Section{ID: "join", Name: "Join"}
	switch kind {
	case "variable":
		join.Variables = []string{name}
	case "function":
		join.Functions = []string{name}
	case "column":
		join.Columns = []string{name}
	case "question":
		join.Questions = strings.Split(name, "|")
	}
	return &rubric.Rubric{Sections: []rubric.Section{{ID: "load", Name: "Load"}, join}}
}

func TestCode(t *testing.T) {
	const r, python = notebook.R, notebook.Python
	for _, c := range []struct {
		what       string
		lang       notebook.Language
		kind, name string
		template   string // one code cell below the heading Join; "" for no template
		cells      []string
		status     check.Status
		cell       int
		note       string
	}{
		{"assigned", r, "variable", "total", "", []string{"# Join", ">total <- 1"}, check.Found, 2, ""},
		{"assigned in Python", python, "variable", "total", "", []string{"# Join", ">a, total = f()"}, check.Found, 2, ""},
		{"by another name", r, "variable", "total|sum_all", "", []string{"# Join", ">sum_all <- 1"}, check.Found, 2, ""},
		{"in another case", r, "variable", "total", "", []string{"# Join", ">Total <- 1"}, check.Missing, 0, ""},
		{"nowhere", r, "variable", "total", "", []string{"# Join", ">x <- 1"}, check.Missing, 0, ""},
		{"compared", python, "variable", "total", "", []string{"# Join", ">total == 1"}, check.Missing, 0, "used in cell 2, never assigned"},
		{"an argument", r, "variable", "total", "", []string{"# Join", ">f(total = 1)"}, check.Missing, 0, "used in cell 2, never assigned"},
		{"only called", r, "variable", "total", "", []string{"# Join", ">total(1)"}, check.Missing, 0, "called in cell 2 as a function, never assigned"},
		{"only in a comment", r, "variable", "total", "", []string{"# Join", ">1", ">x <- 1 # total <- 2"}, check.Missing, 0, "only in a comment (cell 3)"},
		{"only in a string", python, "variable", "total", "", []string{"# Join", ">print('the total = 3')"}, check.Missing, 0, "only in a string (cell 2)"},
		{"only in a docstring", python, "variable", "total", "", []string{"# Join", ">def f():\n  '''Gives\n  total = 3'''"}, check.Missing, 0, "only in a string (cell 2)"},
		{"only in prose", r, "variable", "total", "", []string{"# Join", "total <- 1"}, check.Missing, 0, ""},
		{"outside of its section", r, "variable", "total", "", []string{"# Load", ">total <- 1", "# Join", ">total"}, check.Found, 2, "in cell 2, outside of its section"},
		{"in its section, too", r, "variable", "total", "", []string{"# Load", ">total <- 1", "# Join", ">total <- 2"}, check.Found, 4, ""},
		{"without its section", r, "variable", "total", "", []string{">total <- 1"}, check.Found, 1, ""},
		{"in a comment elsewhere", r, "variable", "total", "", []string{"# Load", "># total", "# Join", ">1"}, check.Missing, 0, "only in a comment (cell 2)"},

		{"never run", r, "variable", "total", "", []string{"# Join", "-total <- 1", ">1"}, check.NotRun, 2, ""},
		{"nothing was ever run", r, "function", "f", "", []string{"# Join", "-f()"}, check.NotRun, 2, ""},
		{"run once of twice", r, "variable", "total", "", []string{"# Join", "-total <- 1", ">total <- 2"}, check.Found, 3, ""},
		{"run elsewhere", r, "variable", "total", "", []string{"# Load", ">total <- 1", "# Join", "-total <- 2"}, check.Found, 2, "in cell 2, outside of its section"},
		{"failed", r, "variable", "total", "", []string{"# Join", "!total <- f()"}, check.Failed, 2, ""},
		{"failed, then fixed", r, "variable", "total", "", []string{"# Join", "!total <- f()", ">total <- g()"}, check.Found, 3, ""},
		{"failed, then never run", r, "variable", "total", "", []string{"# Join", "-total <- g()", "!total <- f()"}, check.Failed, 3, ""},
		{"a function that another section runs", r, "function", "f", "", []string{"# Load", ">f()", "# Join", "-f()"}, check.NotRun, 4, ""},
		{"never run, outside", r, "variable", "total", "", []string{"# Load", "-total <- 1", "# Join", ">1"}, check.NotRun, 2, "in cell 2, outside of its section"},

		{"a placeholder", r, "variable", "total", "", []string{"# Join", ">total <- NULL # your code"}, check.Placeholder, 2, "only a placeholder, no value (cell 2)"},
		{"a placeholder in Python", python, "variable", "total", "", []string{"# Join", ">total: int = None"}, check.Placeholder, 2, "only a placeholder, no value (cell 2)"},
		{"the template's placeholder", r, "variable", "total", "total <- NULL", []string{"# Join", ">total <- NULL"}, check.Placeholder, 2, "the template's placeholder stands unchanged (cell 2)"},
		{"a placeholder that was never run", r, "variable", "total", "total <- NULL", []string{"# Join", "-total <- NULL"}, check.Placeholder, 2, "the template's placeholder stands unchanged (cell 2)"},
		{"a gap", r, "variable", "total", "", []string{"# Join", "-total <- left_join(a, ____)"}, check.Placeholder, 2, "only a placeholder, no value (cell 2)"},
		{"words in place of a value", python, "variable", "total", "", []string{"# Join", ">total = 'YOUR CODE HERE'"}, check.Placeholder, 2, "only a placeholder, no value (cell 2)"},
		{"dots in place of a value", python, "variable", "total", "", []string{"# Join", ">total = ..."}, check.Placeholder, 2, "only a placeholder, no value (cell 2)"},
		{"the template's zero", r, "variable", "total", "total <- 0", []string{"# Join", ">total <- 0"}, check.Placeholder, 2, "the template's placeholder stands unchanged (cell 2)"},
		{"a zero of one's own", r, "variable", "total", "total <- NULL", []string{"# Join", ">total <- 0"}, check.Found, 2, ""},
		{"the template's empty frame", python, "variable", "total", "total = pd.DataFrame()", []string{"# Join", ">total = pd.DataFrame()"}, check.Placeholder, 2, "the template's placeholder stands unchanged (cell 2)"},
		{"a comment in place of a value", r, "variable", "total", "total <- # your code", []string{"# Join", ">total <- # your code\nx <- 1"}, check.Placeholder, 2, "the template's placeholder stands unchanged (cell 2)"},
		{"a value on the next line", r, "variable", "total", "total <- NULL", []string{"# Join", ">total <-\n  f(1)"}, check.Found, 2, ""},
		{"a first value that is none", python, "variable", "total", "", []string{"# Join", ">total = None\nfor x in y: total = x"}, check.Found, 2, ""},
		{"a value after a comparison with none", r, "variable", "total", "", []string{"# Join", ">if (total == 1) total <- f(NULL)"}, check.Found, 2, ""},
		{"a placeholder for two", python, "variable", "total", "", []string{"# Join", ">total=other=None"}, check.Placeholder, 2, "only a placeholder, no value (cell 2)"},
		{"a comparison of none", python, "variable", "total", "", []string{"# Join", ">total = other == None"}, check.Found, 2, ""},
		{"a placeholder for another", r, "variable", "a", "", []string{"# Join", ">data <- NULL; a <- 1"}, check.Found, 2, ""},
		{"a hash in a string", r, "variable", "total", "", []string{"# Join", ">total <- f(\"#\")"}, check.Found, 2, ""},
		{"a dunder is no gap", python, "variable", "total", "", []string{"# Join", ">total = f.__name__"}, check.Found, 2, ""},
		{"a right arrow", r, "variable", "total", "", []string{"# Join", ">NULL |> f() -> total"}, check.Found, 2, ""},
		{"a placeholder in place, done elsewhere", r, "variable", "total", "", []string{"# Load", ">total <- f()", "# Join", ">total <- NULL"}, check.Found, 2, "in cell 2, outside of its section"},
		{"given by the template", r, "variable", "total", "total <- read_csv('x')", []string{"# Join", ">total <- read_csv('x')"}, check.Placeholder, 2, "only in the template's own code (cell 2)"},
		{"given by the template, never run", r, "variable", "total", "total <- read_csv('x')", []string{"# Join", "-  total <- read_csv('x') "}, check.Placeholder, 2, "only in the template's own code (cell 2)"},
		{"given by the template, done once more", r, "variable", "total", "total <- read_csv('x')", []string{"# Join", ">total <- read_csv('x')", ">total <- f(total)"}, check.Found, 3, ""},
		{"a call that the template makes", r, "function", "read_csv", "total <- read_csv('x')", []string{"# Join", ">total <- read_csv('x')"}, check.Placeholder, 2, "only in the template's own code (cell 2)"},
		{"a column that the template names", r, "column", "region", "count(shops, region)", []string{"# Join", ">count(shops, region)"}, check.Placeholder, 2, "only in the template's own code (cell 2)"},
		{"the template's pipe goes on", r, "variable", "total", "total <- shops |>\n  # your code", []string{"# Join", ">total <- shops |>\n  # your code\n  count(region)"}, check.Found, 2, ""},
		{"the template's pipe does not", r, "variable", "total", "total <- shops |>\n  # your code", []string{"# Join", "!total <- shops |>\n  # your code"}, check.Placeholder, 2, "only in the template's own code (cell 2)"},
		{"the template's call is filled in", r, "function", "left_join", "left_join(\n  # your code\n)", []string{"# Join", ">left_join(\n  # your code\n  a, b\n)"}, check.Found, 2, ""},
		{"a call that holds a comment", r, "function", "left_join", "", []string{"# Join", ">left_join(\n  # your code\n)"}, check.Missing, 0, ""},
		{"a call of nothing", r, "function", "Sys.time", "", []string{"# Join", ">Sys.time() # now"}, check.Found, 2, ""},
		{"the template's head of a function", python, "variable", "clean", "def clean(df):\n    # your code", []string{"# Join", ">def clean(df):\n    # your code\n    return df.dropna()"}, check.Found, 2, ""},
		{"the template's function", python, "variable", "clean", "def clean(df):\n    return df", []string{"# Join", ">def clean(df):\n    return df\n\nclean(df).head()"}, check.Placeholder, 2, "only in the template's own code (cell 2)"},
		{"an assignment of nothing", r, "variable", "total", "", []string{"# Join", "!total <-"}, check.Placeholder, 2, "only a placeholder, no value (cell 2)"},

		{"the other pipe", r, "function", "%>%", "", []string{"# Join", ">a |> head()"}, check.Found, 2, ""},
		{"the other spelling", r, "function", "dplyr::summarise", "", []string{"# Join", ">summarize(a)"}, check.Found, 2, ""},
		{"behind a condition that is never true", r, "variable", "total", "", []string{"# Join", ">if (FALSE) {\n  total <- 1\n}\nx <- 2"}, check.NotRun, 2, "only in code that is never reached (cell 2)"},
		{"behind a condition, on one line", r, "function", "merge", "", []string{"# Join", ">if (FALSE) merge(a, b)"}, check.NotRun, 2, "only in code that is never reached (cell 2)"},
		{"behind a condition of Python", python, "variable", "total", "", []string{"# Join", ">if False:\n    total = 1\nx = 2"}, check.NotRun, 2, "only in code that is never reached (cell 2)"},
		{"beside such a condition", python, "variable", "x", "", []string{"# Join", ">if False:\n    total = 1\nx = 2"}, check.Found, 2, ""},
		{"behind a stop", r, "variable", "total", "", []string{"# Join", "!x <- 1\nstop('here')\ntotal <- 2"}, check.NotRun, 2, "only in code that is never reached (cell 2)"},
		{"before a stop", r, "variable", "x", "", []string{"# Join", "!x <- 1\nstop('here')\ntotal <- 2"}, check.Failed, 2, ""},
		{"reached elsewhere", r, "variable", "total", "", []string{"# Join", ">if (FALSE) total <- 1", ">total <- 2"}, check.Found, 3, ""},
		{"the other package's reader", r, "function", "read_csv", "", []string{"# Join", ">read.csv('a.csv')"}, check.Found, 2, ""},
		{"an alias of another language", python, "function", "summarise", "", []string{"# Join", ">summarize(a)"}, check.Missing, 0, ""},
		{"called", r, "function", "left_join|merge", "", []string{"# Join", ">dplyr::left_join(a, b)"}, check.Found, 2, ""},
		{"called with its package", r, "function", "dplyr::left_join", "", []string{"# Join", ">left_join(a, b)"}, check.Found, 2, ""},
		{"called as a method", python, "function", "pd.merge", "", []string{"# Join", ">a.merge(b)"}, check.Found, 2, ""},
		{"the dot in a name of R", r, "function", "read.csv", "", []string{"# Join", ">csv(a)"}, check.Missing, 0, ""},
		{"R's pipe", r, "function", "|>|%>%", "", []string{"# Join", ">a |> f()"}, check.Found, 2, ""},
		{"another of the pipes", r, "function", "%>%|%in%||>", "", []string{"# Join", ">a %in% b"}, check.Found, 2, ""},
		{"named, not called", r, "function", "merge", "", []string{"# Join", ">merge"}, check.Missing, 0, "named in cell 2, never called"},
		{"a function in a comment", r, "function", "merge", "", []string{"# Join", "># merge(a, b)"}, check.Missing, 0, "only in a comment (cell 2)"},
		{"a function in a string", r, "function", "merge", "", []string{"# Join", ">print('merge(a, b)')"}, check.Missing, 0, "only in a string (cell 2)"},

		{"a column by name", r, "column", "region", "", []string{"# Join", ">group_by(df, region)"}, check.Found, 2, ""},
		{"a column by dollar", r, "column", "region", "", []string{"# Join", ">df$region"}, check.Found, 2, ""},
		{"a column by string", python, "column", "Unit Price", "", []string{"# Join", ">df['Unit Price']"}, check.Found, 2, ""},
		{"a column by backticks", r, "column", "Unit Price", "", []string{"# Join", ">select(df, `Unit Price`)"}, check.Found, 2, ""},
		{"a column in a longer string", python, "column", "region", "", []string{"# Join", ">print('by region')"}, check.Missing, 0, "only in a string (cell 2)"},
		{"a column in a comment", python, "column", "region", "", []string{"# Join", ">x # region"}, check.Missing, 0, "only in a comment (cell 2)"},
		{"a variable of a column's name", r, "column", "region", "", []string{"# Join", ">region <- 1"}, check.Missing, 0, "a variable in cell 2, not a column"},

		{"a function that is never called", python, "function", "merge", "", []string{"# Join", ">def join(a, b):\n    return merge(a, b)\nx = 1"}, check.NotRun, 2, "only in code that is never reached (cell 2)"},
		{"one that is called in another cell", python, "function", "merge", "", []string{"# Join", ">def join(a, b):\n    return merge(a, b)", ">join(x, y)"}, check.Found, 2, ""},
		{"one that is handed over", python, "function", "merge", "", []string{"# Join", ">def join(a):\n    return merge(a)\nx = df.apply(join)"}, check.Found, 2, ""},
		{"a method", python, "function", "merge", "", []string{"# Join", ">class A:\n    def join(self):\n        return merge(self)"}, check.Found, 2, ""},
		{"R's function that is never called", r, "function", "merge", "", []string{"# Join", ">join <- function(a, b) {\n  merge(a, b)\n}\nx <- 1"}, check.NotRun, 2, "only in code that is never reached (cell 2)"},
		{"R's that is handed over", r, "function", "merge", "", []string{"# Join", ">join <- function(a) {\n  merge(a, b)\n}\nx <- lapply(l, join)"}, check.Found, 2, ""},
		{"a variable of a function", python, "variable", "joined", "", []string{"# Join", ">def join(a, b):\n    joined = merge(a, b)\n    return joined\njoin(x, y)"}, check.NotRun, 2, "only within a function (cell 2)"},
		{"one that is global", python, "variable", "joined", "", []string{"# Join", ">def join(a, b):\n    global joined\n    joined = merge(a, b)\njoin(x, y)"}, check.Found, 2, ""},
		{"R's variable of a function", r, "variable", "joined", "", []string{"# Join", ">f <- function() {\n  joined <- merge(a, b)\n}\nf()"}, check.NotRun, 2, "only within a function (cell 2)"},
		{"R's that is global", r, "variable", "joined", "", []string{"# Join", ">f <- function() {\n  joined <<- merge(a, b)\n}\nf()"}, check.Found, 2, ""},
		{"a function itself", python, "variable", "join", "", []string{"# Join", ">def join(a, b):\n    return merge(a, b)"}, check.Found, 2, ""},
		{"R in Python", python, "function", "dplyr::left_join|merge", "", []string{"# Join", ">%%R\nx <- left_join(a, b)"}, check.Found, 2, ""},

		{"text", notebook.Other, "variable", "total", "", []string{"# Join", ">total := 1"}, check.Found, 2, "read as text: the language is not known token by token"},
		{"text that only begins so", notebook.Other, "variable", "total", "", []string{"# Join", ">totals := subtotal + total_2"}, check.Missing, 0, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			var template *notebook.Notebook
			if c.template != "" {
				template = cells(c.lang, "# Join", "-"+c.template)
			}
			f := check.Run(cells(c.lang, c.cells...), template, one(c.kind, c.name))
			want := []check.Item{{Kind: c.kind, Name: c.name, Section: "join", Status: c.status, Cell: c.cell, Note: c.note}}
			if diff := cmp.Diff(want, f.Items); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRequiredVariables(t *testing.T) {
	r := one("variable", "total")
	r.Required = []string{"total", "sales"}
	f := check.Run(cells(notebook.R, "# Join", ">total <- sales <- 1"), nil, r)
	want := []check.Item{
		{Kind: "variable", Name: "sales", Status: check.Found, Cell: 2},
		{Kind: "variable", Name: "total", Section: "join", Status: check.Found, Cell: 2},
	}
	if diff := cmp.Diff(want, f.Items); diff != "" {
		t.Error(diff)
	}
}

func TestSections(t *testing.T) {
	template := cells(notebook.R, "# Join", "Join them.", "-x <- 1")
	for _, c := range []struct {
		what     string
		section  rubric.Section
		template *notebook.Notebook
		cells    []string
		want     check.Section
	}{
		{"all found", rubric.Section{Variables: []string{"a", "b"}}, nil, []string{"# Join", ">a <- b <- 1"},
			check.Section{Completeness: check.Complete, Found: 2, Asked: 2, Cells: []int{1, 2}}},
		{"some found", rubric.Section{Variables: []string{"a", "b"}}, nil, []string{"# Join", ">a <- 1"},
			check.Section{Completeness: check.Partial, Found: 1, Asked: 2, Cells: []int{1, 2}}},
		{"one never run", rubric.Section{Variables: []string{"a", "b"}}, nil, []string{"# Join", ">a <- 1", "-b <- 1"},
			check.Section{Completeness: check.Partial, Found: 1, Asked: 2, Cells: []int{1, 2, 3}}},
		{"none found", rubric.Section{Variables: []string{"a", "b"}}, nil, []string{"# Join", "-a <- 1", "!b <- 1"},
			check.Section{Completeness: check.Incomplete, Asked: 2, Cells: []int{1, 2, 3}}},
		{"no heading", rubric.Section{Variables: []string{"a"}}, nil, []string{">a <- 1"},
			check.Section{Completeness: check.Complete, Found: 1, Asked: 1, Cells: []int{}, Note: "its heading was not found"}},

		{"asks for nothing, done", rubric.Section{}, template, []string{"# Join", "Join them.", ">x <- 2"},
			check.Section{Completeness: check.Complete, Cells: []int{1, 2, 3}}},
		{"asks for nothing, unchanged", rubric.Section{}, template, []string{"# Join", "Join them.", ">x <- 1"},
			check.Section{Completeness: check.Incomplete, Cells: []int{1, 2, 3}}},
		{"asks for nothing, never run", rubric.Section{}, template, []string{"# Join", "-x <- 2"},
			check.Section{Completeness: check.Partial, Cells: []int{1, 2}, Note: "changed, but not run without an error"}},
		{"asks for nothing, failed", rubric.Section{}, template, []string{"# Join", "!x <- 2"},
			check.Section{Completeness: check.Partial, Cells: []int{1, 2}, Note: "changed, but not run without an error"}},
		{"asks for nothing, only comments", rubric.Section{}, template, []string{"# Join", "># still to be done"},
			check.Section{Completeness: check.Incomplete, Cells: []int{1, 2}}},
		{"asks for nothing, only words where code is wanted", rubric.Section{}, template, []string{"# Join", "I did not get to this.", "-x <- 1"},
			check.Section{Completeness: check.Incomplete, Cells: []int{1, 2, 3}}},
		{"asks for nothing but prose", rubric.Section{Markdown: true}, template, []string{"# Join", "I did get to this.", "-x <- 1"},
			check.Section{Completeness: check.Complete, Cells: []int{1, 2, 3}}},
		{"asks for prose, unchanged", rubric.Section{Markdown: true}, template, []string{"# Join", "Join them."},
			check.Section{Completeness: check.Incomplete, Cells: []int{1, 2}}},
		{"asks for nothing, without template", rubric.Section{}, nil, []string{"# Join", ">x <- 1"},
			check.Section{Completeness: check.Complete, Cells: []int{1, 2}}},
		{"asks for nothing, no heading", rubric.Section{}, nil, []string{">x <- 1"},
			check.Section{Completeness: check.Incomplete, Cells: []int{}, Note: "its heading was not found"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.section.ID, c.section.Name, c.section.Points = "join", "Join", big.NewRat(5, 2)
			c.want.ID, c.want.Name, c.want.Points = "join", "Join", 2.5
			f := check.Run(cells(notebook.R, c.cells...), c.template, &rubric.Rubric{Sections: []rubric.Section{c.section}})
			if diff := cmp.Diff([]check.Section{c.want}, f.Sections); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	r := &rubric.Rubric{}
	for i, p := range []*big.Rat{big.NewRat(1, 10), big.NewRat(2, 10), big.NewRat(7, 10), nil} {
		r.Sections = append(r.Sections, rubric.Section{ID: fmt.Sprint(i), Name: fmt.Sprintf("Section of %c", 'a'+i), Points: p, Variables: []string{fmt.Sprintf("v%d", i)}})
	}
	f := check.Run(cells(notebook.R, ">v0 <- v1 <- 1", "-v2 <- 1"), nil, r)
	if f.CompletePoints != 0.3 || f.AllPoints != 2 {
		t.Errorf("completion is %v of %v; want 0.3 of 2", f.CompletePoints, f.AllPoints)
	}
}

func TestNotebook(t *testing.T) {
	template := []string{"# Join", "Join them.\n\n---", "-x <- NULL\nf({\n  x\n})\nx <- NULL"}
	for _, c := range []struct {
		what     string
		template []string
		cells    []string
		want     check.Findings
	}{
		{"nothing", nil, nil, check.Findings{Empty: true}},
		{"headings", nil, []string{"# Join\n\n## More"}, check.Findings{Added: 2, Empty: true}},
		{"comments", nil, []string{"># to do"}, check.Findings{CodeCells: 1, BareCells: 1, Added: 1, Empty: true}},
		{"a sentence", nil, []string{"# Join", "I did."}, check.Findings{Added: 2}},
		{"the template", template, template, check.Findings{CodeCells: 1, Unchanged: 1, Empty: true}},
		{"the template, run, with blanks", template, []string{"  # Join  ", "Join them.", ">\n\n  x <- NULL\nf({\nx\n})\n)\nx <- NULL"}, check.Findings{CodeCells: 1, RunCells: 1, RunShare: 1, Unchanged: 1, Empty: true}},
		{"one of two equal lines", template, []string{"# Join", ">x <- NULL\nx <- 2"}, check.Findings{CodeCells: 1, RunCells: 1, RunShare: 1, Unchanged: 2.0 / 6, Added: 1}},
		{"the template's line three times", template, []string{">x <- NULL\nx <- NULL\nx <- NULL"}, check.Findings{CodeCells: 1, RunCells: 1, RunShare: 1, Unchanged: 2.0 / 6, Added: 1}},
		{"cells that were run", nil, []string{">1", "-2", ">3", "># four", "-", "-  \n# six", ">7"}, check.Findings{CodeCells: 7, BareCells: 3, RunCells: 3, RunShare: 0.75, Added: 6}},
	} {
		t.Run(c.what, func(t *testing.T) {
			var given *notebook.Notebook
			if c.template != nil {
				given = cells(notebook.R, c.template...)
			}
			f := check.Run(cells(notebook.R, c.cells...), given, &rubric.Rubric{})
			c.want.Language, c.want.Sections, c.want.Items, c.want.Errors = "r", []check.Section{}, []check.Item{}, []check.CellError{}
			f.Names = nil // see TestNames
			if diff := cmp.Diff(&c.want, f, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOrderOfRuns(t *testing.T) {
	for _, c := range []struct {
		counts []int
		want   bool
	}{
		{[]int{1, 2, 5}, false}, {[]int{3, 0, 4}, false}, {nil, false},
		{[]int{2, 1}, true}, {[]int{1, 0, 1}, true}, {[]int{1, 5, 3}, true},
	} {
		nb := &notebook.Notebook{Language: notebook.Python}
		for i, n := range c.counts {
			nb.Cells = append(nb.Cells, notebook.Cell{Number: i + 1, Kind: notebook.Code, Source: "x", Count: n})
		}
		if f := check.Run(nb, nil, &rubric.Rubric{}); f.OutOfTurn != c.want {
			t.Errorf("counts %v: out of turn is %t; want %t", c.counts, f.OutOfTurn, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	nb := cells(notebook.Python, "!x", ">y", "!z")
	nb.Cells[2].Outputs = []notebook.Output{{Kind: notebook.Stream, Text: "…"}, {Kind: notebook.Error, ErrorName: "ValueError", ErrorValue: strings.Repeat("ü", 400)}}
	want := []check.CellError{{Cell: 1, Name: "Error", Value: "object not found"}, {Cell: 3, Name: "ValueError", Value: strings.Repeat("ü", 300)}}
	if diff := cmp.Diff(want, check.Run(nb, nil, &rubric.Rubric{}).Errors); diff != "" {
		t.Error(diff)
	}
}

func TestLanguage(t *testing.T) {
	nb := &notebook.Notebook{Language: notebook.Other, Kernel: "julia"}
	if f := check.Run(nb, nil, &rubric.Rubric{}); f.Language != "julia" {
		t.Errorf("language is %q; want julia", f.Language)
	}
}

func TestNames(t *testing.T) {
	nb := cells(notebook.Python, "# Join", ">joined = merge(a, b, on=\"key\")\njoined.total", "# Other", ">x = 1")
	r := &rubric.Rubric{Sections: []rubric.Section{{ID: "j", Name: "Join"}}}
	names := check.Run(nb, nil, r).Names
	for _, n := range []check.Name{{"variable", "j", "joined"}, {"function", "j", "merge"}, {"column", "j", "key"}, {"column", "j", "total"}, {"variable", "j", "x"}} {
		if !names[n] {
			t.Errorf("%v is not among the names", n)
		}
	}
	if names[check.Name{"function", "j", "joined"}] {
		t.Error("a variable is taken for a function")
	}
}
