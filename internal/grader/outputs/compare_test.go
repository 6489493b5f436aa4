package outputs

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// printed is a notebook whose last cell assigns the variable result and shows what was printed.
func printed(lang notebook.Language, text string) *notebook.Notebook {
	return notebookOf(lang, cellOf("result <- f()\nresult", notebook.Output{Kind: notebook.Stream, Stream: "stdout", Text: text}))
}

// displayed is the same with an output in HTML.
func displayed(lang notebook.Language, html string) *notebook.Notebook {
	return notebookOf(lang, cellOf("result <- f()\nresult", notebook.Output{Kind: notebook.Value, HTML: html, Text: "not read"}))
}

// cellOf is a code cell that was run.
func cellOf(source string, outputs ...notebook.Output) notebook.Cell {
	return notebook.Cell{Kind: notebook.Code, Source: source, Count: 1, Outputs: outputs}
}

func notebookOf(lang notebook.Language, cells ...notebook.Cell) *notebook.Notebook {
	nb := &notebook.Notebook{Language: lang, Cells: cells}
	for i := range nb.Cells {
		nb.Cells[i].Number = i + 1
	}
	return nb
}

func TestCompareTables(t *testing.T) {
	const solution = "  region orders  revenue\n1  North    110 15233.62\n2  South     95 12000.00\n3   East     85  5479.20\n4   <NA>      9   913.60\n"
	for name, test := range map[string]struct {
		got  string
		want Comparison // verdict, note and differences
	}{
		"the same": {solution, Comparison{Verdict: Match}},
		"columns in another order": {
			"   revenue region orders\n1 15233.62  North    110\n2 12000.00  South     95\n3  5479.20   East     85\n4   913.60   <NA>      9\n",
			Comparison{Verdict: Match, Note: "equal but for the order of the columns"},
		},
		"rows in another order": {
			"  region orders  revenue\n1   <NA>      9   913.60\n2   East     85  5479.20\n3  South     95 12000.00\n4  North    110 15233.62\n",
			Comparison{Verdict: Match, Note: "equal but for the order of the rows"},
		},
		"both in another order, and rounded by a tibble": {
			"# A tibble: 4 × 3\n  orders revenue region\n   <int>   <dbl> <chr> \n1      9    914. NA    \n2    110  15234. North \n3     95  12000  South \n4     85   5479. East  \n",
			Comparison{Verdict: Match, Note: "equal but for the order of rows and columns; rounded to whole numbers"},
		},
		"rounded, from pandas, with NaN": {
			"  Region  Orders  Revenue\n0  North     110  15233.6\n1  South      95  12000.0\n2   East      85   5479.2\n3    NaN       9    913.6\n",
			Comparison{Verdict: Match, Note: "rounded to 1 decimal"},
		},
		"thousands separators and currency": {
			"|region | orders|     revenue|\n|:--|--:|--:|\n|North|110|$15,233.62|\n|South|95|$12,000.00|\n|East|85|$5,479.20|\n|NA|9|$913.60|\n",
			Comparison{Verdict: Match},
		},
		"a further column": {
			"  region orders  revenue  share\n1  North    110 15233.62   45.3\n2  South     95 12000.00   35.7\n3   East     85  5479.20   16.3\n4   <NA>      9   913.60    2.7\n",
			Comparison{Verdict: Match, Note: "further columns: share"},
		},
		"names written otherwise": {
			"  Region  ORDERS  Rev.enue\n0  North     110  15233.62\n1  South      95  12000.00\n2   East      85   5479.20\n3    NaN       9    913.60\n",
			Comparison{Verdict: Match},
		},
		"other names": {
			"       a       b         c\n0  North     110  15233.62\n1  South      95  12000.00\n2   East      85   5479.20\n3    NaN       9    913.60\n",
			Comparison{Verdict: Match, Note: "other names: a for region, b for orders, c for revenue"},
		},
		"the index is the region": {
			"        orders   revenue\nregion                  \nNorth      110  15233.62\nSouth       95  12000.00\nEast        85   5479.20\nNaN          9    913.60\n",
			Comparison{Verdict: Match},
		},
		"within the tolerance": {
			"  region orders  revenue\n1  North    110 15233.62\n2  South     95 12003.25\n3   East     85  5479.20\n4   <NA>      9   913.60\n",
			Comparison{Verdict: Match, Note: "equal within 0.1 %"},
		},
		"one cell wrong": {
			"  region orders  revenue\n1  South     95 12000.00\n2  North    110 14233.62\n3   East     85  5479.20\n4   <NA>      9   913.60\n",
			Comparison{Verdict: Differs, Differences: []Discrepancy{{"row region = North, column revenue", "15233.62", "14233.62"}}},
		},
		"a count that is off by one": {
			"  region orders  revenue\n1  North    109 15233.62\n2  South     95 12000.00\n3   East     85  5479.20\n4   <NA>      9   913.60\n",
			Comparison{Verdict: Differs, Differences: []Discrepancy{{"row region = North, column orders", "110", "109"}}},
		},
		"a word wrong": {
			"  region orders  revenue\n1  Nord     110 15233.62\n2  South     95 12000.00\n3   East     85  5479.20\n4   <NA>      9   913.60\n",
			Comparison{Verdict: Differs, Differences: []Discrepancy{{"row orders = 110, column region", "North", "Nord"}}},
		},
		"a value where there is none": {
			"  region orders  revenue\n1  North    110 15233.62\n2  South     95 12000.00\n3   East     85      NaN\n4   <NA>      9   913.60\n",
			Comparison{Verdict: Differs, Differences: []Discrepancy{{"row region = East, column revenue", "5479.20", "NaN"}}},
		},
		"a row less": {
			"  region orders  revenue\n1  North    110 15233.62\n2  South     95 12000.00\n3   East     85  5479.20\n",
			Comparison{Verdict: Differs, Differences: []Discrepancy{{"number of rows", "4", "3"}, {"row region = <NA>", "<NA>, 9, 913.60", "no such row"}}},
		},
		"a row more": {
			solution + "5   West     10   100.00\n",
			Comparison{Verdict: Differs, Differences: []Discrepancy{{"number of rows", "4", "5"}, {"row that the solution has not", "no such row", "West, 10, 100.00"}}},
		},
		"a column less": {
			"  region orders\n1  North    110\n2  South     95\n3   East     85\n4   <NA>      9\n",
			Comparison{Verdict: Differs, Differences: []Discrepancy{{"column revenue", "among the columns region, orders, revenue", "the columns region, orders"}}},
		},
		"not shown in full": {
			"# A tibble: 4 × 3\n  region orders revenue\n  <chr>   <int>   <dbl>\n1 North     110  15234.\n2 South      95  12000 \n# ℹ 2 more rows\n",
			Comparison{Verdict: Match, Note: "compared are the 2 rows shown; rounded to whole numbers"},
		},
		"not shown in full, and too long": {
			"# A tibble: 7 × 3\n  region orders revenue\n  <chr>   <int>   <dbl>\n1 North     110  15234.\n2 South      95  12000 \n# ℹ 5 more rows\n",
			Comparison{Verdict: Differs, Note: "compared are the 2 rows shown", Differences: []Discrepancy{{"number of rows", "4", "7"}}},
		},
		"not shown in full, and wrong": {
			"# A tibble: 4 × 3\n  region orders revenue\n  <chr>   <int>   <dbl>\n1 North     110  15234.\n2 South      95  11000 \n# ℹ 2 more rows\n",
			Comparison{Verdict: Differs, Note: "compared are the 2 rows shown", Differences: []Discrepancy{{"row region = South, column revenue", "12000.00", "11000"}}},
		},
		"columns hidden for want of width": {
			"# A tibble: 4 × 3\n  region orders\n  <chr>   <int>\n1 North     110\n2 South      95\n3 East       85\n4 NA          9\n# ℹ 1 more variable: revenue <dbl>\n",
			Comparison{Verdict: Match},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := Compare(printed(notebook.R, test.got), printed(notebook.R, solution), nil, nil)
			test.want.Key, test.want.Kind, test.want.SolutionCell, test.want.Cell = "result", "table", 1, 1
			if diff := cmp.Diff([]Comparison{test.want}, f.Comparisons); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// TestCompareFormats holds what one program shows against what another one shows of the same table.
func TestCompareFormats(t *testing.T) {
	shown := map[string]*notebook.Notebook{
		"IRkernel": displayed(notebook.R, irkernelTibble),
		"pandas":   displayed(notebook.R, pandasFrame),
		"tibble":   printed(notebook.R, "# A tibble: 4 × 3\n  region orders revenue\n  <chr>   <int>   <dbl>\n1 North     110  15234.\n2 South      95  12000 \n3 East       85   5479.\n4 NA          9    914.\n"),
		"R":        printed(notebook.R, "  region orders  revenue\n1  North    110 15233.62\n2  South     95 12000.00\n3   East     85  5479.20\n4   <NA>      9   913.60\n"),
		"print":    printed(notebook.R, "  region  orders   revenue\n0  North     110  15233.62\n1  South      95  12000.00\n2   East      85   5479.20\n3    NaN       9    913.60\n"),
	}
	for a, solution := range shown {
		for b, student := range shown {
			if f := Compare(student, solution, nil, nil); f.Compared != 1 || f.Matched != 1 {
				t.Errorf("%s for the solution's %s: %+v", b, a, f.Comparisons)
			}
		}
	}
}

func TestCompareValues(t *testing.T) {
	for name, test := range map[string]struct {
		want, got string
		verdict   Verdict
		note      string
		diffs     []Discrepancy
	}{
		"a number":                    {want: "[1] 61.54301", got: "61.54301204819278", verdict: Match, note: "rounded to 5 decimals"},
		"a number rounded":            {want: "[1] 12.3456", got: "[1] 12.35", verdict: Match, note: "rounded to 2 decimals"},
		"a share as a percentage":     {want: "[1] 0.1235", got: "12.35%", verdict: Match},
		"a count off by one":          {want: "[1] 420", got: "[1] 419", verdict: Differs, diffs: []Discrepancy{{"value", "420", "419"}}},
		"a number in a text":          {want: "[1] 420", got: "There are 420 orders.", verdict: Match, note: "within a text"},
		"another number in a text":    {want: "[1] 420", got: "There are 419 orders.", verdict: Differs, diffs: []Discrepancy{{"value", "420", "There are 419 orders."}}},
		"a text, and its number":      {want: "Orders: 420", got: "[1] 420", verdict: Match},
		"a table of one cell":         {want: "  total\n1   420", got: "420", verdict: Match},
		"no value":                    {want: "[1] NA", got: "nan", verdict: Match},
		"a text":                      {want: `[1] "North"`, got: "'north'", verdict: Match},
		"another text":                {want: `[1] "North"`, got: "South", verdict: Differs, diffs: []Discrepancy{{"text", "North", "South"}}},
		"numbers within a text":       {want: "Total: 12.346 EUR", got: "total 12.35 EUR.", verdict: Match, note: "rounded to 2 decimals"},
		"a wrong number in a text":    {want: "Total: 12.346 EUR", got: "Total: 13.35 EUR", verdict: Differs, diffs: []Discrepancy{{"text", "Total: 12.346 EUR", "Total: 13.35 EUR"}}},
		"other words, the same value": {want: "Total: 12.35", got: "The sum of all is 12.35", verdict: Differs, note: "the numbers agree, the words differ", diffs: []Discrepancy{{"text", "Total: 12.35", "The sum of all is 12.35"}}},
		"another comparison":          {want: "p < 0.05", got: "p > 0.05", verdict: Differs, note: "the numbers agree, the words differ", diffs: []Discrepancy{{"text", "p < 0.05", "p > 0.05"}}},
		"lines in another order":      {want: "mean is 12.5\nsum is 100", got: "sum is 100\nmean is 12.5", verdict: Match, note: "equal but for the order of the lines"},
		"further lines":               {want: "mean is 12.5", got: "hello\nmean is 12.5\nsum is 100", verdict: Match, note: "it stands among further lines"},
		"one line wrong":              {want: "mean is 12.5\nsum is 100", got: "mean is 13.5\nsum is 100", verdict: Differs, diffs: []Discrepancy{{"line of text", "mean is 12.5", "mean is 13.5"}}},
		"one line missing":            {want: "mean is 12.5\nsum is 100", got: "sum is 100", verdict: Differs, diffs: []Discrepancy{{"line of text", "mean is 12.5", "no such line"}}},
		"a vector with names":         {want: "North South \n 12.5   3.0 ", got: "{'South': 3.0, 'North': 12.5}", verdict: Match, note: "equal but for the order of the rows"},
		"a vector and a Series":       {want: "North South \n    3     2 ", got: "region\nNorth    3\nSouth    2\nName: count, dtype: int64", verdict: Match},
		"a wrong value of a vector":   {want: "North South \n 12.5   3.0 ", got: "{'North': 12.5, 'South': 4.0}", verdict: Differs, diffs: []Discrepancy{{"row South, column 2", "3.0", "4.0"}}},
		"a sequence":                  {want: "[1] 420   5", got: "(420, 5)", verdict: Match},
		"a sequence turned round":     {want: "[1] 420   5", got: "(5, 420)", verdict: Differs, diffs: []Discrepancy{{"value 1", "420", "5"}, {"value 2", "5", "420"}}},
		"a sequence too short":        {want: "[1] 1 2 3", got: "[1, 2]", verdict: Differs, diffs: []Discrepancy{{"number of values", "3", "2"}}},
		"words in another order":      {want: `[1] "North" "South"`, got: "['South', 'North']", verdict: Match, note: "equal but for the order of the rows"},
	} {
		t.Run(name, func(t *testing.T) {
			f := Compare(printed(notebook.R, test.got), printed(notebook.R, test.want), nil, nil)
			if len(f.Comparisons) != 1 {
				t.Fatalf("%d comparisons, want 1: %+v", len(f.Comparisons), f.Comparisons)
			}
			c := f.Comparisons[0]
			if c.Verdict != test.verdict || c.Note != test.note || !slices.Equal(c.Differences, test.diffs) {
				t.Errorf("got %s, note %q, differences %+v; want %s, %q, %+v", c.Verdict, c.Note, c.Differences, test.verdict, test.note, test.diffs)
			}
		})
	}
}

func TestCompareUsesTheRubricsTolerance(t *testing.T) {
	for tolerance, want := range map[string]Verdict{"0": Differs, "1/1000": Differs, "1/100": Match} {
		ratio, _ := new(big.Rat).SetString(tolerance)
		f := Compare(printed(notebook.R, "[1] 100.55"), printed(notebook.R, "[1] 100.01"), nil, &rubric.Rubric{Rules: rubric.Rules{Tolerance: ratio}})
		if f.Comparisons[0].Verdict != want {
			t.Errorf("at a tolerance of %s: %s; want %s", tolerance, f.Comparisons[0].Verdict, want)
		}
	}
}

func TestCompareByTheRubricsOutputs(t *testing.T) {
	of := func(shown string) *notebook.Notebook {
		return notebookOf(notebook.Python, cellOf("total", notebook.Output{Kind: notebook.Value, Text: shown}))
	}
	for name, tt := range map[string]struct {
		shown   string
		rule    rubric.Output
		verdict Verdict
		counts  bool
	}{
		"no rule":                     {"12.5", rubric.Output{}, Differs, true},
		"within another tolerance":    {"12.5", rubric.Output{Tolerance: big.NewRat(1, 10)}, Match, true},
		"not within a stricter one":   {"12.006", rubric.Output{Tolerance: new(big.Rat)}, Differs, true},
		"another value that is right": {"12.5", rubric.Output{AnyOf: []string{"11", "12.5"}}, Match, true},
		"a text that is right":        {"a dozen", rubric.Output{AnyOf: []string{"A dozen"}}, Match, true},
		"none of the values":          {"14", rubric.Output{AnyOf: []string{"11", "12.5"}}, Differs, true},
		"ignored":                     {"13", rubric.Output{Ignore: true}, Differs, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := Compare(of(tt.shown), of("12.00"), nil, &rubric.Rubric{Outputs: map[string]rubric.Output{"total": tt.rule}})
			if len(f.Comparisons) != 1 {
				t.Fatalf("%d comparisons, want 1", len(f.Comparisons))
			}
			if c := f.Comparisons[0]; c.Verdict != tt.verdict || c.Counts() != tt.counts || (f.Compared == 1) != tt.counts {
				t.Errorf("%s, counts: %t, compared: %d; want %s, %t: %s", c.Verdict, c.Counts(), f.Compared, tt.verdict, tt.counts, c.Note)
			}
		})
	}
}

// frameOf prints a table of many rows in a certain order.
func frameOf(n int, row func(int) (id int, value float64)) string {
	var b strings.Builder
	b.WriteString("|id|value|\n|--|--|\n")
	for i := range n {
		id, value := row(i)
		fmt.Fprintf(&b, "|%d|%.3f|\n", id, value)
	}
	return b.String()
}

// TestCompareLargeTables finds rows without words among many that are alike, in any order, and lists no more differences than are of use.
func TestCompareLargeTables(t *testing.T) {
	const n = 800
	solution := frameOf(n, func(i int) (int, float64) { return i, 100 + float64(i%50)/10 })
	turned := func(i int) (int, float64) { i = n - 1 - i; return i, 100 + float64(i%50)/10 }
	if f := Compare(printed(notebook.R, frameOf(n, turned)), printed(notebook.R, solution), nil, nil); f.Matched != 1 || f.Comparisons[0].Note != "equal but for the order of the rows" {
		t.Errorf("turned round: %+v", f.Comparisons)
	}
	one := func(i int) (int, float64) {
		id, value := turned(i)
		if id == 700 {
			value = 7
		}
		return id, value
	}
	want := []Discrepancy{{"row id = 700, column value", "100.000", "7.000"}}
	if f := Compare(printed(notebook.R, frameOf(n, one)), printed(notebook.R, solution), nil, nil); !slices.Equal(f.Comparisons[0].Differences, want) {
		t.Errorf("one cell wrong: %+v", f.Comparisons)
	}
	all := func(i int) (int, float64) { id, value := turned(i); return id, value + 1 }
	f := Compare(printed(notebook.R, frameOf(n, all)), printed(notebook.R, solution), nil, nil)
	if c := f.Comparisons[0]; c.Verdict != Differs || len(c.Differences) != maxDifferences || c.More == 0 {
		t.Errorf("all wrong: %s with %d differences and %d more", c.Verdict, len(c.Differences), c.More)
	}
}
