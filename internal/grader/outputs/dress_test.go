package outputs

import (
	"testing"

	"tandem/internal/grader/notebook"
)

// What a student shows may be dressed otherwise than the solution's.
func TestCompareDress(t *testing.T) {
	const (
		sales    = "  region revenue\n1  North   110.5\n2  South  1220.2\n3   East     3.1\n"
		counts   = "r\nNorth    110\nSouth     95\nName: count, dtype: int64\n"
		months   = "       month revenue\n1 2026-01-01     100\n2 2026-02-01     200\n"
		quarters = "   Min. 1st Qu.  Median    Mean 3rd Qu.    Max. \n   1.00    3.25    5.50    5.50    7.75   10.00 \n"
		long     = "     id     v\n0     1   1.5\n1     2   2.5\n..  ...   ...\n98   99   9.5\n99  100  10.5\n\n[100 rows x 2 columns]\n"
	)
	for name, test := range map[string]struct {
		want, got string
		verdict   Verdict
		note      string
	}{
		"kable, simple":               {sales, "\n\nregion    revenue\n-------  --------\nNorth       110.5\nSouth      1220.2\nEast          3.1\n\n", Match, ""},
		"tabulate, grid":              {sales, "+----------+-----------+\n| region   |   revenue |\n+==========+===========+\n| North    |     110.5 |\n+----------+-----------+\n| South    |    1220.2 |\n+----------+-----------+\n| East     |       3.1 |\n+----------+-----------+\n", Match, ""},
		"tabulate, psql":              {sales, "+----------+-----------+\n| region   |   revenue |\n|----------+-----------|\n| North    |     110.5 |\n| South    |    1220.2 |\n| East     |       3.1 |\n+----------+-----------+\n", Match, ""},
		"other names, decimal comma":  {sales, "|Region | Umsatz|\n|:------|------:|\n|North  |  110,5|\n|South  |1.220,2|\n|East   |    3,1|\n", Match, "other names: Umsatz for revenue"},
		"other names, a wrong value":  {sales, "|Region | Umsatz|\n|:------|------:|\n|North  |  110,5|\n|South  |1.230,2|\n|East   |    3,1|\n", Differs, "further columns: Umsatz"},
		"counts of an older pandas":   {counts, "North    110\nSouth     95\nName: r, dtype: int64\n", Match, "other names: r for count"},
		"wrong counts of that pandas": {counts, "North    111\nSouth     95\nName: r, dtype: int64\n", Differs, "the columns have other names and were compared in their order"},
		"dates in German":             {months, "       month revenue\n1 01.01.2026     100\n2 01.02.2026     200\n", Match, ""},
		"other dates in German":       {months, "       month revenue\n1 01.01.2026     100\n2 02.01.2026     200\n", Differs, ""},
		"quartiles, rounded":          {quarters, "   Min. 1st Qu.  Median    Mean 3rd Qu.    Max. \n    1.0     3.2     5.5     5.5     7.8    10.0 \n", Match, "rounded to 1 decimal"},
		"quartiles, one wrong":        {quarters, "   Min. 1st Qu.  Median    Mean 3rd Qu.    Max. \n   1.00    3.25    5.50    6.50    7.75   10.00 \n", Differs, ""},
		"more of the first rows":      {long, "   id    v\n0   1  1.5\n1   2  2.5\n2   3  4.5\n3   4  4.5\n4   5  5.5\n", Match, "compared are the 4 rows shown"},
		"other first rows":            {long, "   id    v\n0   1  1.5\n1   2  2.6\n2   3  4.5\n3   4  4.5\n4   5  5.5\n", Differs, "compared are the 4 rows shown"},
		"a year beside the value":     {"[1] 25540.35\n", "Total revenue in 2026: 25,540.35 €\n", Match, "within a text"},
		"a decimal comma in a text":   {"[1] 25540.35\n", "Umsatz: 25.540,35 €\n", Match, "within a text"},
		"a count beside the value":    {"[1] 14\n", "14 of 434 orders\n", Differs, ""},
		"many numbers":                {"[1] 25540.35\n", "1 2 3 25540.35 99 x\n", Differs, ""},
	} {
		t.Run(name, func(t *testing.T) {
			solution, student := printed(notebook.Python, test.want), printed(notebook.Python, test.got)
			if test.want == long && test.got[0] == ' ' {
				student.Cells[0].Source = "result = f()\nresult.head()"
			}
			c := Compare(student, solution, nil, nil).Comparisons[0]
			if c.Verdict != test.verdict || c.Note != test.note {
				t.Errorf("%s: %s %+v; want %s: %s", c.Verdict, c.Note, c.Differences, test.verdict, test.note)
			}
		})
	}
}
