package outputs

import (
	"testing"

	"tandem/internal/grader/notebook"
)

// What str and glimpse show is compared with what is printed, both ways.
func TestCompareStructures(t *testing.T) {
	const frame = "  region orders  revenue\n1  North    110 15233.62\n2  South     95 12000.00\n3   East     85  5479.20\n"
	for name, pair := range map[string]struct {
		a, b  string
		equal bool
	}{
		"a number":                 {" num 25540", "[1] 25540.35", true},
		"another number":           {" num 25540", "[1] 25740.35", false},
		"a whole number":           {" int 420", "[1] 420", true},
		"a text":                   {` chr "North"`, `[1] "North"`, true},
		"a vector":                 {" num [1:3] 1 2 3", "[1] 1 2 3", true},
		"the beginning of one":     {" int [1:40] 1 2 3 4 5 6 7 8 9 10 ...", "[1]  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20\n[21] 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40", true},
		"a data frame":             {"'data.frame':\t3 obs. of  3 variables:\n $ region : chr  \"North\" \"South\" \"East\"\n $ orders : int  110 95 85\n $ revenue: num  15234 12000 5479", frame, true},
		"another data frame":       {"'data.frame':\t3 obs. of  3 variables:\n $ region : chr  \"North\" \"South\" \"East\"\n $ orders : int  110 95 86\n $ revenue: num  15234 12000 5479", frame, false},
		"a data frame, cut":        {"'data.frame':\t3 obs. of  3 variables:\n $ region : chr  \"North\" \"South\" ...\n $ orders : int  110 95 ...\n $ revenue: num  15234 12000 ...", frame, true},
		"a tibble":                 {"tibble [3 × 3] (S3: tbl_df/tbl/data.frame)\n $ region : chr [1:3] \"North\" \"South\" \"East\"\n $ orders : int [1:3] 110 95 85\n $ revenue: num [1:3] 15234 12000 5479", frame, true},
		"what was read with readr": {"spc_tbl_ [3 × 3] (S3: spec_tbl_df/tbl_df/tbl/data.frame)\n $ region : chr [1:3] \"North\" \"South\" \"East\"\n $ orders : num [1:3] 110 95 85\n $ revenue: num [1:3] 15234 12000 5479", frame, true},
		"a glimpse":                {"Rows: 3\nColumns: 3\n$ region  <chr> \"North\", \"South\", \"East\"\n$ orders  <dbl> 110, 95, 85\n$ revenue <dbl> 15233.62, 12000.00, 5479.20", frame, true},
		"a glimpse of fewer rows":  {"Rows: 2\nColumns: 3\n$ region  <chr> \"North\", \"South\"\n$ orders  <dbl> 110, 95\n$ revenue <dbl> 15233.62, 12000.00", frame, false},
		"moments":                  {"tibble [2 × 2] (S3: tbl_df/tbl/data.frame)\n $ id: num [1:2] 1 2\n $ at: POSIXct[1:2], format: \"2026-03-06 20:37:00\" \"2026-03-03 19:43:00\"", "Rows: 2\nColumns: 2\n$ id <dbl> 1, 2\n$ at <dttm> 2026-03-06 20:37:00, 2026-03-03 19:43:00", true},
		"a caption before it":      {"Revenue in all: 25540.35", "[1] 25540.35", true},
		"a tibble of one value":    {"# A tibble: 1 × 1\n  total\n  <dbl>\n1 25540.", "[1] 25540.35", true},
		"quotes":                   {`[1] "North" "South"`, "['North', 'South']", true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, one := range [][2]string{{pair.a, pair.b}, {pair.b, pair.a}} {
				f := Compare(printed(notebook.R, one[0]), printed(notebook.R, one[1]), nil, nil)
				if f.Compared != 1 || (f.Matched == 1) != pair.equal {
					t.Errorf("%q beside %q: compared %d, matched %d: %+v", one[0], one[1], f.Compared, f.Matched, f.Comparisons)
				}
			}
		})
	}
}
