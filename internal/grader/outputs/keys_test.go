package outputs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// prints is a cell that was run and printed text.
func prints(source, text string) notebook.Cell {
	return cellOf(source, notebook.Output{Kind: notebook.Stream, Stream: "stdout", Text: text})
}

// unrun is a code cell that was never run.
func unrun(source string) notebook.Cell { return notebook.Cell{Kind: notebook.Code, Source: source} }

func heading(text string) notebook.Cell {
	return notebook.Cell{Kind: notebook.Markdown, Source: "## " + text}
}

// many are cells of one section that show so many values of no variable.
func many(n int) (list []notebook.Cell) {
	for i := range n {
		list = append(list, prints("f("+strconv.Itoa(i)+")", "[1] "+strconv.Itoa(1000+i)))
	}
	return list
}

// matches are the lines of as many that match in their own cells.
func matches(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("output #%d match in %c", i+1, rune('1'+i)))
	}
	return list
}

// picture is a cell that was run and drew something.
func picture(source string) notebook.Cell {
	return cellOf(source, notebook.Output{Kind: notebook.Value, Text: "plot without title", Images: 1})
}

// brief is a comparison in one line: key, verdict, cell of the student's, note.
func brief(f *Findings) []string {
	var list []string
	for _, c := range f.Comparisons {
		line := c.Key + " " + string(c.Verdict)
		if c.Cell > 0 {
			line += " in " + string(rune('0'+c.Cell))
		}
		if c.Note != "" {
			line += ": " + c.Note
		}
		list = append(list, line)
	}
	return list
}

func TestCompareFindsTheStudentsOutput(t *testing.T) {
	sections := &rubric.Rubric{Sections: []rubric.Section{{ID: "import", Name: "Import"}, {ID: "join", Name: "Join"}}}
	type cells = []notebook.Cell
	for name, test := range map[string]struct {
		solution, student cells
		rubric            *rubric.Rubric
		want              []string
	}{
		"by the variable that is shown": {
			solution: cells{prints("total <- 5\nrate <- 7\ntotal", "[1] 5")},
			student:  cells{prints("rate <- 7\nrate", "[1] 7"), prints("total <- 5\nprint(total)", "[1] 5")},
			want:     []string{"total match in 2"},
		},
		"by the variable that is assigned where none is shown": {
			solution: cells{prints("orders <- f()\nnrow(orders)", "[1] 420")},
			student:  cells{prints("orders <- f()", "[1] 420"), prints("x <- 3", "[1] 3")},
			want:     []string{"orders match in 1"},
		},
		"the solution's last showing counts": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5"), prints("total <- 6\ntotal", "[1] 6")},
			student:  cells{prints("total <- 6\ntotal", "[1] 6")},
			want:     []string{"total match in 1"},
		},
		"showing counts before assigning": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5"), prints("total <- g(total)", "[1] 6")},
			student:  cells{prints("total <- 5\ntotal", "[1] 5")},
			want:     []string{"total match in 1"},
		},
		"the student's best counts": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5")},
			student:  cells{prints("total <- 5\ntotal", "[1] 5"), prints("total <- 6\ntotal", "[1] 6")},
			want:     []string{"total match in 1"},
		},
		"of wrong ones the last": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5")},
			student:  cells{prints("total <- 7\ntotal", "[1] 7"), prints("total <- 6\ntotal", "[1] 6")},
			want:     []string{"total differs in 2"},
		},
		"several outputs of a cell, in any order": {
			solution: cells{prints("total <- 5\nprint(sum(x))\nprint(n)\nprint(total)", "[1] 9\n[1] 8\n[1] 5")},
			student:  cells{prints("total <- 5\nprint(total)\nprint(sum(x))", "[1] 5\n[1] 9"), prints("print(n)", "[1] 8")},
			want:     []string{"total match in 1", "total #2 match in 2", "total #3 match in 1"},
		},
		"captions beside a table are not compared": {
			solution: cells{prints("total <- f()\ntotal", "Totals:\n  region n\n1  North 3\n")},
			student:  cells{prints("total <- f()\ntotal", "The table\n  region n\n1  North 3\n")},
			want:     []string{"total match in 1"},
		},
		"what a cell of its own says of the variable": {
			solution: cells{prints("orders <- f()\nnrow(orders)", "[1] 420")},
			student:  cells{cellOf("orders <- f()"), prints("paste(\"Rows:\", nrow(orders))", "[1] \"Rows: 420\"")},
			want:     []string{"orders match in 2: within a text"},
		},
		"a cell of its own says something else of the variable": {
			solution: cells{prints("orders <- f()\nnrow(orders)", "[1] 420")},
			student:  cells{cellOf("orders <- f()"), prints("ncol(orders)", "[1] 8")},
			want:     []string{"orders missing in 1: the cell was run, but shows no number of it"},
		},
		"a variable that is never assigned": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5")},
			student:  cells{prints("# total <- 5\nprint(\"total\")", "[1] 6"), prints("x <- 1\nx", "[1] 7")},
			want:     []string{"total missing: total is never assigned"},
		},
		"a variable under another name": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5"), prints("mean_price <- 7\nmean_price", "[1] 7.25")},
			student:  cells{prints("summe <- 5\nsumme", "[1] 5"), prints("mean_price <- 7\nmean_price", "[1] 7.25")},
			want:     []string{"total match in 1: by its value, since total is never assigned", "mean_price match in 2"},
		},
		"a wrong number under another name": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5")},
			student:  cells{prints("summe <- 6\nsumme", "[1] 6")},
			want:     []string{"total differs in 1: by its value, since total is never assigned"},
		},
		"a value in another section, told by its digits": {
			solution: cells{heading("Import"), prints("rate <- 3.14159\nrate", "[1] 3.14159"), prints("n <- 5\nn", "[1] 5"), heading("Join")},
			student:  cells{heading("Import"), heading("Join"), prints("x <- 3.14159\nx", "[1] 3.14159"), prints("y <- 5\ny", "[1] 5")},
			rubric:   sections,
			want:     []string{"rate match in 3: by its value, since rate is never assigned", "n missing: n is never assigned"},
		},
		"more values than anybody has": {
			solution: many(100),
			student:  many(100),
			want:     matches(100),
		},
		"what depends on the day, on the machine and on chance": {
			solution: cells{prints("heute <- Sys.Date()\nheute", "[1] \"2026-11-23\""), prints("x <- rnorm(1)\nx", "[1] 0.31"), prints("p <- getwd()\np", "[1] \"/home/me\""), prints("f <- dir()\nf", "[1] \"/home/me/a.csv\""), prints("n <- 5\nn", "[1] 5")},
			student:  cells{prints("n <- 5\nn", "[1] 5")},
			want:     []string{"n match in 1"},
		},
		"what is computed from chance": {
			solution: cells{
				prints("x <- rnorm(1)\nk <- 4", ""), prints("y <- round(x) +\n  1\ny", "[1] 2"), prints("k", "[1] 4"), prints("m <- mean(y)\nm", "[1] 2"),
				prints("x <- 7\nx", "[1] 7"), prints("z <- x * 2\nz", "[1] 14"),
			},
			student: cells{prints("k <- 4\nk", "[1] 4"), prints("x <- 7\nx", "[1] 7"), prints("z <- x * 2\nz", "[1] 14")},
			want:    []string{"k match in 1", "x match in 2", "z match in 3"},
		},
		"a caption above a table": {
			solution: cells{prints("print('Table 2: revenue of each region')\nt", "Table 2: revenue of each region\n  region revenue\n1  North   110.5\n2  South  1220.2")},
			student:  cells{prints("t <- f()\nt", "  region revenue\n1  North   110.5\n2  South  1220.2")},
			want:     []string{"t match in 1"},
		},
		"a warning with a path beside a value": {
			solution: cells{cellOf("n <- 5\nn", notebook.Output{Kind: notebook.Stream, Stream: "stderr", Text: "/home/me/lib.R: a warning"}, notebook.Output{Kind: notebook.Value, Text: "[1] 5"})},
			student:  cells{prints("n <- 5\nn", "[1] 5")},
			want:     []string{"n match in 1"},
		},
		"chance that is seeded": {
			solution: cells{prints("set.seed(1)\nx <- rnorm(1)\nx", "[1] 0.31")},
			student:  cells{prints("x <- rnorm(1)\nx", "[1] 0.87")},
			want:     []string{"x differs in 1"},
		},
		"a cell that was never run": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5")},
			student:  cells{prints("x <- 1\nx", "[1] 5"), unrun("total <- 5\ntotal")},
			want:     []string{"total missing in 2: the cell was never run"},
		},
		"a showing that was never run": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5")},
			student:  cells{cellOf("total <- 5"), unrun("total")},
			want:     []string{"total missing in 2: the cell that comes last with it was never run"},
		},
		"a cell that shows nothing": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5")},
			student:  cells{cellOf("total <- 5")},
			want:     []string{"total missing in 1: the cell was run, but shows no number of it"},
		},
		"a cell that failed": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5")},
			student:  cells{cellOf("total <- 5\ntotal", notebook.Output{Kind: notebook.Error, ErrorName: "ValueError", ErrorValue: "5"})},
			want:     []string{"total missing in 1: the cell ended in an error: ValueError"},
		},
		"a cell that shows something wrong and fails": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5")},
			student:  cells{cellOf("total <- 5\ntotal", notebook.Output{Kind: notebook.Stream, Stream: "stdout", Text: "6\n"}, notebook.Output{Kind: notebook.Error, ErrorName: "ValueError"})},
			want:     []string{"total differs in 1: the cell ended in an error: ValueError"},
		},
		"a cell that assigns it and shows another is not held against it": {
			solution: cells{prints("total <- 5\ntotal", "[1] 5")},
			student:  cells{prints("total <- 5\nrate <- 7\nrate", "[1] 7")},
			want:     []string{"total missing in 1: the cell was run, but shows no number of it"},
		},
		"what is printed to stderr is no output": {
			solution: cells{cellOf("library(dplyr)", notebook.Output{Kind: notebook.Stream, Stream: "stderr", Text: "Attaching 5 packages"}), prints("total <- 5\ntotal", "[1] 5")},
			student:  cells{cellOf("total <- 5\ntotal", notebook.Output{Kind: notebook.Stream, Stream: "stderr", Text: "5"})},
			want:     []string{"total missing in 1: the cell was run, but shows no number of it"},
		},
		"a line that comes in two outputs": {
			solution: cells{prints("total <- 5\ntotal", "total is 420")},
			student: cells{cellOf("total <- 5\ntotal", notebook.Output{Kind: notebook.Stream, Stream: "stdout", Text: "total is "},
				notebook.Output{Kind: notebook.Stream, Stream: "stdout", Text: "420\n"})},
			want: []string{"total match in 1"},
		},
		"pictures": {
			solution: cells{picture("p <- plot(x)\np"), picture("p2 <- plot(y)\np2")},
			student:  cells{picture("p <- plot(x)\np"), cellOf("p2 <- plot(y)\np2")},
			want:     []string{"p match in 1", "p2 missing in 2: the cell was run, but shows no picture of it"},
		},
		"part of a table, shown by head": {
			solution: cells{prints("orders <- f()\nhead(orders, 2)", "  id  n\n1  1 10\n2  2 20\n")},
			student:  cells{prints("orders <- f()\norders", "  id  n\n1  1 10\n2  2 20\n3  3 30\n")},
			want:     []string{"orders match in 1: compared are the 2 rows shown"},
		},
		"a table that head made": {
			solution: cells{prints("top <- orders |>\n  head(2)\ntop", "  id  n\n1  1 10\n2  2 20\n")},
			student:  cells{prints("top <- orders\ntop", "  id  n\n1  1 10\n2  2 20\n3  3 30\n")},
			want:     []string{"top differs in 1"},
		},
		"by section": {
			solution: cells{heading("Import"), prints("nrow(f())", "[1] 5"), heading("Join"), prints("nrow(f())", "[1] 5"), prints("nrow(g())", "[1] 6")},
			student:  cells{heading("Import"), prints("nrow(f())", "[1] 5"), heading("Join"), prints("nrow(g())", "[1] 6"), prints("nrow(f())", "[1] 5")},
			rubric:   sections,
			want:     []string{"import #1 match in 2", "join #1 match in 5", "join #2 match in 4"},
		},
		"in a section each output is used once": {
			solution: cells{heading("Join"), prints("nrow(f())", "[1] 5"), prints("nrow(g())", "[1] 5")},
			student:  cells{heading("Join"), prints("nrow(f())", "[1] 5")},
			rubric:   sections,
			want:     []string{"join #1 match in 2", "join #2 missing: no number like it is shown"},
		},
		"in a section, wrong": {
			solution: cells{heading("Join"), prints("nrow(f())", "[1] 5")},
			student:  cells{heading("Join"), prints("nrow(g())", "[1] 6")},
			rubric:   sections,
			want:     []string{"join #1 differs in 2"},
		},
		"in a section, of another kind": {
			solution: cells{heading("Join"), prints("nrow(f())", "[1] 5")},
			student:  cells{heading("Join"), prints("colSums(f())", "a b \n1 2 \n")},
			rubric:   sections,
			want:     []string{"join #1 differs in 2"},
		},
		"in a section, what is shown of a variable with its own comparison stays there": {
			solution: cells{heading("Join"), prints("nrow(f())", "[1] 5"), prints("total <- 7\ntotal", "[1] 7")},
			student:  cells{heading("Join"), prints("total <- 6\ntotal", "[1] 6")},
			rubric:   sections,
			want:     []string{"join #1 missing: no number like it is shown", "total differs in 2"},
		},
		"a section that was never run": {
			solution: cells{heading("Join"), prints("nrow(f())", "[1] 5")},
			student:  cells{heading("Join"), unrun("nrow(f())")},
			rubric:   sections,
			want:     []string{"join #1 missing: the section's cells were never run"},
		},
		"a section without heading is looked for in the whole notebook": {
			solution: cells{heading("Join"), prints("nrow(f())", "[1] 5"), prints("nrow(g())", "[1] 6")},
			student:  cells{heading("Something"), prints("nrow(f())", "[1] 5")},
			rubric:   sections,
			want:     []string{"join #1 match in 2", "join #2 missing: the section was not found, and no number like it elsewhere"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := Compare(notebookOf(notebook.R, test.student...), notebookOf(notebook.R, test.solution...), nil, test.rubric)
			if diff := cmp.Diff(test.want, brief(f)); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

func TestCompareAcrossLanguages(t *testing.T) {
	solution := notebookOf(notebook.R, prints("total <- sum(x)\ntotal", "[1] 420"), prints("regions <- f()\nhead(regions)", "  region n\n1  North 3\n2  South 4\n"))
	student := notebookOf(notebook.Python, prints("total = sum(x)\nprint(total)", "420\n"), prints("regions = f()\nregions.head()", "  region  n\n0  North  3\n1  South  4\n"))
	for _, pair := range [][2]*notebook.Notebook{{student, solution}, {solution, student}} {
		f := Compare(pair[0], pair[1], nil, nil)
		if f.Compared != 2 || f.Matched != 2 || f.Overlap != 1 {
			t.Errorf("compared %d, matched %d, overlap %v: %+v", f.Compared, f.Matched, f.Overlap, f.Comparisons)
		}
	}
}

// What the template's own code shows is compared with nobody's.
func TestCompareLeavesOutTheTemplates(t *testing.T) {
	template := notebookOf(notebook.R, unrun("shops <- read_csv('shops.csv')\nshops"), unrun("total <- NULL\n"))
	solution := notebookOf(notebook.R, prints("shops <- read_csv('shops.csv')\nshops", "[1] 3"), prints("total <- sum(shops)\ntotal", "[1] 5"))
	for of, want := range map[*notebook.Notebook]int{nil: 2, template: 1} {
		if f := Compare(solution, solution, of, nil); f.Compared != want || f.Matched != want {
			t.Errorf("compared %d, matched %d; want %d", f.Compared, f.Matched, want)
		}
	}
}

func TestCompareCounts(t *testing.T) {
	solution := notebookOf(notebook.R, prints("total <- 5\ntotal", "[1] 5"), prints("rate <- 7\nrate", "[1] 7"), picture("p <- plot(x)\np"))
	student := notebookOf(notebook.R, prints("total <- 5\ntotal", "[1] 5"), picture("p <- plot(x)\np"))
	f := Compare(student, solution, nil, nil)
	if f.Compared != 2 || f.Matched != 1 {
		t.Errorf("compared %d, matched %d; want 2 and 1, as pictures do not count", f.Compared, f.Matched)
	}
}

func TestOverlap(t *testing.T) {
	for name, test := range map[string]struct {
		lang              notebook.Language
		solution, student string
		want              float64
	}{
		"all":                      {notebook.R, "orders <- 1\nsales <- 2", "sales <- 3\norders <- 4\nmore <- 5", 1},
		"half":                     {notebook.R, "orders <- 1\nsales <- 2", "orders <- 4", 0.5},
		"another assignment":       {notebook.R, "orders <- 1\nsales <- 2", "flights <- 4", 0},
		"loops and single letters": {notebook.R, "orders <- 1\nx <- 2\nfor (item in 1:3) print(item)", "x <- 1\nfor (item in 1:3) print(item)", 0},
		"imports":                  {notebook.Python, "import pandas as pd\nimport numpy as np, os\nfrom math import sqrt as root\norders = 1\nfor key, value in f():\n    pass", "import pandas as pd\nimport numpy as np", 0},
		"nothing to go by":         {notebook.R, "print(1)", "y <- 2", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := Compare(notebookOf(test.lang, unrun(test.student)), notebookOf(test.lang, unrun(test.solution)), nil, nil)
			if f.Overlap != test.want {
				t.Errorf("overlap is %v; want %v", f.Overlap, test.want)
			}
		})
	}
}

// TestCompareIsRepeatable since the same inputs must give the same score.
func TestCompareIsRepeatable(t *testing.T) {
	solution := notebookOf(notebook.R, prints("total <- 5\nrate <- 6\nprint(c(total, rate))", "[1] 5 6"), prints("a1 <- 1; b1 <- 2; c1 <- 3", "North South \n 1 2 "))
	student := notebookOf(notebook.R, prints("rate <- 6\ntotal <- 5\nprint(c(rate, total))", "[1] 6 5"), prints("a1 <- 1; b1 <- 2; c1 <- 3", "North South \n 1 2 "))
	first, err := json.Marshal(Compare(student, solution, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := json.Marshal(Compare(student, solution, nil, nil))
		if err != nil || !slices.Equal(first, again) {
			t.Fatalf("%s and then %s (%v)", first, again, err)
		}
	}
}
