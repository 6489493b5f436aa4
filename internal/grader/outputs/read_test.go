package outputs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sketch writes values in a form that is easy to compare: a table with its names and rows, and what is said of it, a number, a text.
func sketch(values []value) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%s", v.kind)
		switch v.kind {
		case numberKind:
			fmt.Fprintf(&b, " %s", v.num.text)
		case textKind:
			fmt.Fprintf(&b, " %s", v.text)
		case tableKind:
			if v.table.partial {
				fmt.Fprintf(&b, " part of %d", v.table.total)
			}
			if v.table.narrow {
				fmt.Fprintf(&b, " without %q", v.table.hidden)
			}
			var names []string
			for _, c := range v.table.columns {
				names = append(names, c.name)
			}
			fmt.Fprintf(&b, "\n  %s", strings.Join(names, "|"))
			for _, row := range v.table.rows {
				var cells []string
				for _, c := range row {
					cells = append(cells, c.text)
				}
				fmt.Fprintf(&b, "\n  %s", strings.Join(cells, "|"))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// lines joins lines, each with a line end.
func lines(s ...string) string { return strings.Join(s, "\n") + "\n" }

const irkernelTibble = `<table class="dataframe">
<caption>A tibble: 4 × 3</caption>
<thead>
	<tr><th scope=col>region</th><th scope=col>orders</th><th scope=col>revenue</th></tr>
	<tr><th scope=col>&lt;chr&gt;</th><th scope=col>&lt;int&gt;</th><th scope=col>&lt;dbl&gt;</th></tr>
</thead>
<tbody>
	<tr><td>North</td><td>110</td><td>15233.62</td></tr>
	<tr><td>South</td><td> 95</td><td>12000.00</td></tr>
	<tr><td>East </td><td> 85</td><td> 5479.20</td></tr>
	<tr><td>NA   </td><td>  9</td><td>  913.60</td></tr>
</tbody>
</table>
`

const pandasFrame = `<div>
<style scoped>
    .dataframe tbody tr th { vertical-align: top; }
</style>
<table border="1" class="dataframe">
  <thead>
    <tr style="text-align: right;"><th></th><th>region</th><th>orders</th><th>revenue</th></tr>
  </thead>
  <tbody>
    <tr><th>0</th><td>North</td><td>110</td><td>15233.62</td></tr>
    <tr><th>1</th><td>South</td><td>95</td><td>12000.00</td></tr>
    <tr><th>2</th><td>East</td><td>85</td><td>5479.20</td></tr>
    <tr><th>3</th><td>NaN</td><td>9</td><td>913.60</td></tr>
  </tbody>
</table>
</div>`

func TestReadHTML(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a tibble of IRkernel": {
			irkernelTibble,
			lines("table", "  region|orders|revenue", "  North|110|15233.62", "  South|95|12000.00", "  East|85|5479.20", "  NA|9|913.60"),
		},
		"a frame of pandas": {
			pandasFrame,
			lines("table", "  region|orders|revenue", "  North|110|15233.62", "  South|95|12000.00", "  East|85|5479.20", "  NaN|9|913.60"),
		},
		"row names that say something": {
			`<table><caption>A data.frame: 2 × 1</caption><thead><tr><th></th><th scope=col>mpg</th></tr><tr><th></th><th scope=col>&lt;dbl&gt;</th></tr></thead>` +
				`<tbody><tr><th scope=row>Mazda RX4</th><td>21</td></tr><tr><th scope=row>Fiat 128</th><td>32.4</td></tr></tbody></table>`,
			lines("table", "  |mpg", "  Mazda RX4|21", "  Fiat 128|32.4"),
		},
		"rows that IRkernel leaves out": {
			`<table><caption>A data.frame: 420 × 2</caption><thead><tr><th scope=col>id</th><th scope=col>n</th></tr></thead>` +
				`<tbody><tr><td>1001</td><td>1</td></tr><tr><td>⋮</td><td>⋮</td></tr><tr><td>1420</td><td>2</td></tr></tbody></table>`,
			lines("table part of 420", "  id|n", "  1001|1", "  1420|2"),
		},
		"rows and columns that pandas leaves out": {
			`<table><thead><tr><th></th><th>id</th><th>...</th><th>n</th></tr></thead><tbody><tr><th>0</th><td>1001</td><td>...</td><td>1</td></tr>` +
				`<tr><th>...</th><td>...</td><td>...</td><td>...</td></tr><tr><th>419</th><td>1420</td><td>...</td><td>2</td></tr></tbody></table><p>420 rows × 9 columns</p>`,
			lines("table part of 420 without []", "  id|n", "  1001|1", "  1420|2"),
		},
		"an index with a name": {
			`<table><thead><tr><th></th><th>revenue</th></tr><tr><th>region</th><th></th></tr></thead><tbody><tr><th>North</th><td>1.5</td></tr><tr><th>South</th><td>2</td></tr></tbody></table>`,
			lines("table", "  region|revenue", "  North|1.5", "  South|2"),
		},
		"an index and columns of two levels": {
			`<table><thead><tr><th></th><th></th><th colspan="2" halign="left">revenue</th></tr><tr><th></th><th></th><th>mean</th><th>sum</th></tr><tr><th>region</th><th>year</th><th></th><th></th></tr></thead>` +
				`<tbody><tr><th rowspan="2" valign="top">North</th><th>2023</th><td>1</td><td>2</td></tr><tr><th>2024</th><td>3</td><td>4</td></tr></tbody></table>`,
			lines("table", "  region|year|revenue mean|revenue sum", "  North|2023|1|2", "  North|2024|3|4"),
		},
		"a table of knitr": {
			`<table class="table"><caption>Sales</caption><thead><tr><th style="text-align:left;"> region </th><th style="text-align:right;"> n </th></tr></thead>` +
				`<tbody><tr><td style="text-align:left;"> North </td><td style="text-align:right;"> 3 </td></tr></tbody></table>`,
			lines("table", "  region|n", "  North|3"),
		},
		"a vector with names":    {`<style>.dl-inline {width: auto}</style><dl class=dl-inline><dt>North</dt><dd>12.5</dd><dt>South</dt><dd>3</dd></dl>`, lines("table", "  |", "  North|12.5", "  South|3")},
		"a vector without names": {`<style>.list-inline {list-style: none}</style><ol class=list-inline><li>'North'</li><li>'South'</li></ol>`, lines("table", "  ", "  'North'", "  'South'")},
		"a vector of one":        {`<ol class=list-inline><li>12.5</li></ol>`, lines("number 12.5")},
		"a list of vectors":      {`<ol><li><ol><li>1</li><li>2</li></ol></li><li>3</li></ol>`, ""},
		"no table":               {`<p>Done.</p>`, ""},
		"a table within a table": {`<table><tr><td>a<table><tr><td>1</td></tr></table></td><td>2</td></tr></table>`, lines("table", "  |", "  a 1|2")},
		"a table that breaks off": {
			`<table><tr><th>n</th></tr><tr><td>1</td></tr><tr><td>2`,
			lines("table", "  n", "  1", "  2"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, sketch(readHTML(test.text))); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

func TestReadPlain(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a data frame of R": {
			"  region  n\n1  North  3\n2  South 12\n",
			lines("table", "  region|n", "  North|3", "  South|12"),
		},
		"names of rows that hold blanks": {
			"               mpg cyl\nMazda RX4     21.0   6\nMazda RX4 Wag 21.0   6\nFiat 128      32.4   4\n",
			lines("table", "  |mpg|cyl", "  Mazda RX4|21.0|6", "  Mazda RX4 Wag|21.0|6", "  Fiat 128|32.4|4"),
		},
		"words that hold blanks, flush right": {
			"      city n\n1 New York 3\n2 Old Town 4\n",
			lines("table", "  city|n", "  New York|3", "  Old Town|4"),
		},
		"words that hold blanks, flush left": {
			"  city     n\n1 New York 3\n2 Old York 4\n",
			lines("table", "  city|n", "  New York|3", "  Old York|4"),
		},
		"a data frame without row names": {
			" region  n\n  North  3\n  South 12\n",
			lines("table", "  region|n", "  North|3", "  South|12"),
		},
		"a data frame of R that was broken": {
			"  customer_identifier product_identifier  order_date\n1                C033                P08  2024-03-01\n2                C061                P10  2024-03-02\n  quantity  revenue\n1        1     12.5\n2        2     13.5\n",
			lines("table", "  customer_identifier|product_identifier|order_date|quantity|revenue", "  C033|P08|2024-03-01|1|12.5", "  C061|P10|2024-03-02|2|13.5"),
		},
		"two data frames": {
			"  a\n1 5\n2 6\n  b\n1 7\n2 8\n",
			lines("table", "  a", "  5", "  6", "table", "  b", "  7", "  8"),
		},
		"a tibble": {
			"# A tibble: 4 × 3\n  region  orders revenue\n  <chr>    <int>   <dbl>\n1 North      110  15234.\n2 South       95  12000 \n3 New Yo…     85   5479.\n4 NA           9    914.\n",
			lines("table", "  region|orders|revenue", "  North|110|15234.", "  South|95|12000", "  New Yo…|85|5479.", "  NA|9|914."),
		},
		"a tibble that is not shown in full": {
			"# A tibble: 420 × 5\n# Groups:   region [4]\n   region    id\n   <chr>  <int>\n 1 North   1001\n10 South   1002\n# ℹ 418 more rows\n# ℹ 3 more variables: day <date>, `unit price` <dbl>,\n#   note <chr>\n",
			lines(`table part of 420 without ["day" "unit price" "note"]`, "  region|id", "  North|1001", "  South|1002"),
		},
		"a tibble with a name in quotes": {
			"# A tibble: 1 × 2\n  region `Total Revenue`\n  <chr>            <dbl>\n1 North            15234.\n",
			lines("table", "  region|Total Revenue", "  North|15234."),
		},
		"a data.table": {
			"Key: <region>\n   region     n\n   <char> <int>\n1:  North     3\n2:  South    12\n",
			lines("text Key: <region>", "table", "  region|n", "  North|3", "  South|12"),
		},
		"a matrix": {
			"     [,1] [,2]\n[1,]    1    3\n[2,]    2    4\n",
			lines("table", "  [,1]|[,2]", "  1|3", "  2|4"),
		},
		"a frame of pandas": {
			"   region  orders\n0   North     110\n1   South      95\n",
			lines("table", "  region|orders", "  North|110", "  South|95"),
		},
		"a frame of pandas that is not shown in full": {
			"     id  n\n0  1001  1\n..  ... ..\n9  1420  2\n\n[420 rows x 2 columns]\n",
			lines("table part of 420", "  id|n", "  1001|1", "  1420|2"),
		},
		"a frame of pandas that was broken": {
			"   customer  product  \\\n0      C033      P08   \n1      C061      P10   \n\n   quantity  \n0         1  \n1         2  \n",
			lines("table", "  customer|product|quantity", "  C033|P08|1", "  C061|P10|2"),
		},
		"a frame of pandas without its index": {
			"region  orders\n North     110\n South      95\n",
			lines("table", "  region|orders", "  North|110", "  South|95"),
		},
		"a name that holds a blank": {
			"  region  Total Revenue\n0  North        15233.6\n1  South        12000.0\n",
			lines("table", "  region|Total Revenue", "  North|15233.6", "  South|12000.0"),
		},
		"an index with a name": {
			"        orders  revenue\nregion                 \nNorth      110  15233.6\nSouth       95  12000.0\n",
			lines("table", "  region|orders|revenue", "  North|110|15233.6", "  South|95|12000.0"),
		},
		"an index of two levels": {
			"             revenue\nregion year         \nNorth  2023      1.5\n       2024      2.5\nSouth  2023      3.5\n",
			lines("table", "  region|year|revenue", "  North|2023|1.5", "  North|2024|2.5", "  South|2023|3.5"),
		},
		"a Series": {
			"region\nNorth    110\nSouth     95\nName: orders, dtype: int64\n",
			lines("table", "  region|orders", "  North|110", "  South|95"),
		},
		"a Series without names": {
			"0    1.5\n1    2.5\ndtype: float64\n",
			lines("table", "  ", "  1.5", "  2.5"),
		},
		"a Series of two levels": {
			"region  year\nNorth   2023    1.5\n        2024    2.5\nSouth   2023    3.5\nName: revenue, dtype: float64\n",
			lines("table", "  region|year|revenue", "  North|2023|1.5", "  North|2024|2.5", "  South|2023|3.5"),
		},
		"a Series that is not shown in full": {
			"0      1.5\n1      2.5\n      ... \n418    3.5\n419    4.5\nName: revenue, Length: 420, dtype: float64\n",
			lines("table part of 420", "  revenue", "  1.5", "  2.5", "  3.5", "  4.5"),
		},
		"a table in Markdown": {
			"|region |  n|\n|:------|--:|\n|North  |  3|\n|South  | 12|\n",
			lines("table", "  region|n", "  North|3", "  South|12"),
		},
		"a vector of R":            {" [1] 12.5  3.0\n [3]  4.0\n", lines("table", "  ", "  12.5", "  3.0", "  4.0")},
		"a number of R":            {"[1] 61.54301\n", lines("number 61.54301")},
		"a text of R":              {`[1] "Total: 12.35 EUR"` + "\n", lines("text Total: 12.35 EUR")},
		"a text without quotes":    {"[1] Total: 12.35 EUR\n", lines("text Total: 12.35 EUR")},
		"a factor":                 {"[1] North South\nLevels: North South\n", lines("table", "  ", "  North", "  South")},
		"a vector with names":      {"North South \n 12.5   3.0 \n", lines("table", "  |", "  North|12.5", "  South|3.0")},
		"a table() of R":           {"\nNorth South \n    3     2 \n", lines("table", "  |", "  North|3", "  South|2")},
		"a dict":                   {"{'North': 12.5, 'South': np.float64(3.0)}\n", lines("table", "  |", "  North|12.5", "  South|3.0")},
		"a Counter":                {"Counter({'North': 3, 'South': 2})\n", lines("table", "  |", "  North|3", "  South|2")},
		"a list":                   {"[12.5, 3, None]\n", lines("table", "  ", "  12.5", "  3", "  None")},
		"an array":                 {"array([1., 2.])\n", lines("table", "  ", "  1.", "  2.")},
		"an array as it prints":    {"[[1 2]\n [3 4]]\n", lines("table", "  |", "  1|2", "  3|4")},
		"a list of tuples":         {"[('North', 3), ('South', 2)]\n", lines("table", "  |", "  North|3", "  South|2")},
		"a number of NumPy":        {"np.float64(61.54301204819278)\n", lines("number 61.54301204819278")},
		"numbers":                  {"420\n12.35\n", lines("number 420", "number 12.35")},
		"text":                     {"The total is 420.\nThat is much.\n", lines("text The total is 420.\nThat is much.")},
		"figures below each other": {"Total:  420\nMean:   12.35\n", lines("text Total:  420\nMean:   12.35")},
		"a caption and a table":    {"Totals per region:\n  region n\n1  North 3\nThe end.\n", lines("text Totals per region:", "table", "  region|n", "  North|3", "text The end.")},
		"what libraries say": {
			"\nAttaching package: ‘dplyr’\n\nThe following objects are masked from ‘package:stats’:\n\n    filter, lag\n\nRows: 420 Columns: 5\n── Column specification ───\nDelimiter: \",\"\nchr (2): a, b\n" +
				"ℹ Use `spec()` to see more.\nJoining with `by = join_by(id)`\n`summarise()` has grouped output by 'region'.\n/tmp/a.py:3: DeprecationWarning: old\n",
			"",
		},
		"what Python shows of objects": {"<Figure size 640x480 with 1 Axes>\n<Axes: xlabel='region'>\n<matplotlib.collections.PathCollection at 0x7f3a2c>\n", ""},
		"nothing":                      {" \n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, sketch(readPlain(test.text))); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}
