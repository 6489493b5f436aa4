package outputs

import (
	"strings"
	"testing"
	"time"

	"tandem/internal/grader/notebook"
)

// checkValues holds what every reader promises: tables within the limits, with rows as wide as the names, and no kind without its content.
func checkValues(t testing.TB, values []value) {
	t.Helper()
	for _, v := range values {
		if (v.kind == tableKind) != (v.table != nil) {
			t.Fatalf("a %s with table %v", v.kind, v.table)
		}
		if v.table == nil {
			continue
		}
		if n := len(v.table.columns); n == 0 || n > maxColumns || len(v.table.rows) > maxRows {
			t.Fatalf("a table of %d × %d", len(v.table.rows), n)
		}
		if !v.table.partial && v.table.total != len(v.table.rows) {
			t.Fatalf("a whole table of %d rows has %d in all", len(v.table.rows), v.table.total)
		}
		for _, row := range v.table.rows {
			if len(row) != len(v.table.columns) {
				t.Fatalf("a row of %d cells below %d names", len(row), len(v.table.columns))
			}
		}
	}
}

func FuzzReadHTML(f *testing.F) {
	f.Add(irkernelTibble)
	f.Add(pandasFrame)
	f.Add(`<dl class=dl-inline><dt>a</dt><dd>1</dd></dl><ol><li>2</li></ol>`)
	f.Add(`<table><tr><th rowspan=9 colspan=999>a<td colspan=-1>b<tr><td>c<table><tr><td>d</table>`)
	f.Add(`<table><tr><td rowspan="2">a</td></tr><tr></tr><tr><td>b</td><td>c</td></tr></table></table></ol>`)
	f.Fuzz(func(t *testing.T, text string) { checkValues(t, readHTML(text)) })
}

func FuzzReadPlain(f *testing.F) {
	for _, text := range []string{
		"  region  n\n1  North  3\n2  South 12\n",
		"# A tibble: 9 × 2\n  region     n\n  <chr>  <int>\n1 North      3\n# ℹ 8 more rows\n# ℹ 1 more variable: x <dbl>\n",
		"             revenue\nregion year         \nNorth  2023      1.5\n       2024      2.5\n",
		"region  year\nNorth   2023    1.5\n        2024    2.5\nName: revenue, Length: 9, dtype: float64\n",
		"   a  \\\n0  1   \n\n   b  \n0  2  \n\n[9 rows x 2 columns]\n",
		"|a|b|\n|-|-|\n|1|2|\n",
		"North South \n 12.5   3.0 \n [1] 1 2\n[3] 4\nLevels: 1\n",
		"{'a': [1, 2], 'b': np.float64(3)}\n[[1. 2.]\n [3. 4.]]\n(('x', 1), ('y', 2))\n",
		"a  1\n  b\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkValues(t, readPlain(text)) })
}

func FuzzCompare(f *testing.F) {
	f.Add("  region  n\n1  North  3\n", "# A tibble: 1 × 2\n  region     n\n  <chr>  <int>\n1 North      3\n")
	f.Add("Total: 12.35 EUR", "[1] 12.346")
	f.Add("[1] 1 2 3", "{'a': 1}")
	f.Add("|a|a|\n|-|-|\n|1|x|\n|1|y|\n", "|a|b|\n|-|-|\n|x|1|\n|NA|1.0|\n")
	f.Add("0", "|0||! \n|\n|00|0")
	f.Fuzz(func(t *testing.T, got, want string) {
		student, solution := printed(notebook.R, got), printed(notebook.R, want)
		for _, c := range Compare(student, solution, nil, nil).Comparisons {
			if (c.Verdict == Differs) != (len(c.Differences) > 0) || len(c.Differences) > maxDifferences {
				t.Fatalf("%s with %d differences", c.Verdict, len(c.Differences))
			}
		}
		// What equals the solution byte for byte equals it.
		f := Compare(solution, solution, nil, nil)
		if f.Matched != f.Compared {
			t.Fatalf("the solution differs from itself: %+v", f.Comparisons)
		}
	})
}

// hostile are texts that lead a reader on: each piece, repeated, might be the beginning of something.
func hostile() map[string]string {
	return map[string]string{
		"headers of frames":      "  a b\n",
		"rows that do not fit":   "  aaaa bbbb\n1 c\n",
		"columns without an end": "a  b\n",
		"names of a Series":      "a\nb  c\n",
		"brackets":               "[",
		"lists":                  "[1,\n",
		"calls":                  "a(",
		"pipes":                  "|",
		"pairs of names":         "a b\n1 2\n",
		"tibbles":                "# A tibble: 1 × 1\n",
		"one long line":          "a 1 ",
		"wide frames":            "  a" + strings.Repeat(" b", 60) + "\n1 2" + strings.Repeat(" 3", 60) + "\n",
		"numbers":                "1\n",
		"quotes":                 "['",
		"tags":                   "<table><tr><td>",
		"cells":                  "<td colspan=100 rowspan=2000>1",
		"lists of HTML":          "<ol><li>",
	}
}

// readHostile reads a text in every way there is.
func readHostile(t testing.TB, piece string, size int) {
	text := strings.Repeat(piece, size/len(piece))
	checkValues(t, readPlain(text))
	checkValues(t, readHTML(text))
	checkValues(t, readHTML("<table><tr>"+text))
}

// Reading ends, within the limits, whatever a student's notebook holds; a reader that does not end is stopped with the tests.
func TestHostileTextsAreRead(t *testing.T) {
	for name, piece := range hostile() {
		t.Run(name, func(t *testing.T) { readHostile(t, piece, 32<<10) })
	}
}

// BenchmarkHostile reports how many times as long a text takes that is twice as long: 2 is linear, 4 quadratic.
func BenchmarkHostile(b *testing.B) {
	for name, piece := range hostile() {
		b.Run(name, func(b *testing.B) {
			var half, whole time.Duration
			for b.Loop() {
				begin := time.Now()
				readHostile(b, piece, 16<<10)
				middle := time.Now()
				readHostile(b, piece, 32<<10)
				half, whole = half+middle.Sub(begin), whole+time.Since(middle)
			}
			b.ReportMetric(float64(whole)/float64(half), "×/doubling")
		})
	}
}
