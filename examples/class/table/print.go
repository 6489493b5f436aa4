package table

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// R returns the table as IRkernel shows it: HTML with a caption and a line of types, LaTeX, Markdown and plain text. The class is tibble or data.frame;
// the latter numbers its rows.
func (t *Table) R(class string) (page, latex, markdown, plain string) {
	cells, types := t.rCells(), t.types()
	caption := fmt.Sprintf("A %s: %d × %d", class, len(t.Rows), len(t.Columns))
	corner, number := "", func(int) string { return "" }
	if class == "data.frame" {
		corner, number = "<th></th>", func(i int) string { return fmt.Sprintf("<th scope=row>%d</th>", i+1) }
	}

	var h strings.Builder
	fmt.Fprintf(&h, "<table class=\"dataframe\">\n<caption>%s</caption>\n<thead>\n\t<tr>%s", caption, corner)
	for _, c := range t.Columns {
		fmt.Fprintf(&h, "<th scope=col>%s</th>", html.EscapeString(c))
	}
	fmt.Fprintf(&h, "</tr>\n\t<tr>%s", corner)
	for _, typ := range types {
		fmt.Fprintf(&h, "<th scope=col>&lt;%s&gt;</th>", typ)
	}
	h.WriteString("</tr>\n</thead>\n<tbody>\n")
	for i, row := range cells {
		fmt.Fprintf(&h, "\t<tr>%s", number(i))
		for _, cell := range row {
			fmt.Fprintf(&h, "<td>%s</td>", html.EscapeString(cell))
		}
		h.WriteString("</tr>\n")
	}
	h.WriteString("</tbody>\n</table>\n")

	var l, m strings.Builder
	escape := strings.NewReplacer("_", `\_`, "<", `\textless{}`, ">", `\textgreater{}`)
	fmt.Fprintf(&l, "%s\n\\begin{tabular}{%s}\n", strings.Replace(caption, "×", `\times`, 1), strings.Repeat("l", len(t.Columns)))
	fmt.Fprintf(&l, " %s\\\\\n\\hline\n", escape.Replace(strings.Join(t.Columns, " & ")))
	fmt.Fprintf(&m, "\n%s\n\n|", caption)
	for i, c := range t.Columns {
		fmt.Fprintf(&m, " %s &lt;%s&gt; |", c, types[i])
	}
	fmt.Fprintf(&m, "\n|%s\n", strings.Repeat("---|", len(t.Columns)))
	for _, row := range cells {
		fmt.Fprintf(&l, "\t %s\\\\\n", escape.Replace(strings.Join(row, " & ")))
		fmt.Fprintf(&m, "| %s |\n", strings.Join(row, " | "))
	}
	l.WriteString("\\end{tabular}\n")
	m.WriteString("\n")
	return h.String(), l.String(), m.String(), t.grid(cells, 1, false)
}

// rCells makes texts of all cells as R does, which makes the numbers of a column equally wide.
func (t *Table) rCells() [][]string {
	cells, types := t.format(rNumbers, "NA"), t.types()
	for c := range t.Columns {
		if types[c] != "int" && types[c] != "dbl" {
			continue
		}
		width := 0
		for _, row := range cells {
			width = max(width, len(row[c]))
		}
		for _, row := range cells {
			row[c] = fmt.Sprintf("%*s", width, row[c])
		}
	}
	return cells
}

// Pandas returns the table as pandas shows a data frame with a plain index: HTML, and the text that print gives.
func (t *Table) Pandas() (page, plain string) {
	cells := t.format(pandasNumbers, "NaN")
	var h strings.Builder
	h.WriteString(`<div>
<style scoped>
    .dataframe tbody tr th:only-of-type {
        vertical-align: middle;
    }

    .dataframe tbody tr th {
        vertical-align: top;
    }

    .dataframe thead th {
        text-align: right;
    }
</style>
<table border="1" class="dataframe">
  <thead>
    <tr style="text-align: right;">
      <th></th>
`)
	for _, c := range t.Columns {
		fmt.Fprintf(&h, "      <th>%s</th>\n", html.EscapeString(c))
	}
	h.WriteString("    </tr>\n  </thead>\n  <tbody>\n")
	for i, row := range cells {
		fmt.Fprintf(&h, "    <tr>\n      <th>%d</th>\n", i)
		for _, cell := range row {
			fmt.Fprintf(&h, "      <td>%s</td>\n", html.EscapeString(cell))
		}
		h.WriteString("    </tr>\n")
	}
	h.WriteString("  </tbody>\n</table>\n</div>")
	return h.String(), t.grid(cells, 0, true)
}

// grid prints columns under their names, rows numbered from first. R shows a limited table flush left, pandas flush right, with a space before each value and
// before the names of columns of numbers.
func (t *Table) grid(cells [][]string, first int, right bool) string {
	lead, align := "", "%-*s"
	if right {
		lead, align = " ", "%*s"
	}
	columns := [][]string{{""}}
	for i := range cells {
		columns[0] = append(columns[0], strconv.Itoa(i+first))
	}
	for c, name := range t.Columns {
		column := []string{name}
		if right && t.types()[c] != "chr" && t.types()[c] != "date" {
			column[0] = lead + name
		}
		for _, row := range cells {
			column = append(column, lead+row[c])
		}
		columns = append(columns, column)
	}
	lines := make([]string, len(cells)+1)
	for c, column := range columns {
		width := 0
		for _, cell := range column {
			width = max(width, len(cell))
		}
		for i, cell := range column {
			if c == 0 {
				lines[i] = fmt.Sprintf("%-*s", width, cell)
			} else {
				lines[i] += " " + fmt.Sprintf(align, width, cell)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// types names the types of the columns as tibbles do.
func (t *Table) types() []string {
	types := make([]string, len(t.Columns))
	for i := range types {
		types[i] = "chr"
		for _, row := range t.Rows {
			switch v := row[i].(type) {
			case int:
				types[i] = "int"
			case float64:
				types[i] = "dbl"
			case string:
				if isDate(v) {
					types[i] = "date"
				}
			}
		}
	}
	return types
}

func isDate(s string) bool {
	return len(s) == len("2024-03-01") && strings.Count(s, "-") == 2
}

// format makes texts of all cells. The numbers of a column are printed alike.
func (t *Table) format(numbers func([]float64) int, missing string) [][]string {
	out := make([][]string, len(t.Rows))
	for i := range out {
		out[i] = make([]string, len(t.Columns))
	}
	for c := range t.Columns {
		var floats []float64
		for _, row := range t.Rows {
			if f, ok := row[c].(float64); ok {
				floats = append(floats, f)
			}
		}
		decimals := numbers(floats)
		for i, row := range t.Rows {
			switch v := row[c].(type) {
			case nil:
				out[i][c] = missing
			case float64:
				out[i][c] = strconv.FormatFloat(v, 'f', decimals, 64)
			default:
				out[i][c] = fmt.Sprint(v)
			}
		}
	}
	return out
}

// rNumbers returns the decimals that R prints numbers with: as many as the one needs that needs most for its seven digits.
func rNumbers(numbers []float64) int {
	decimals := 0
	for _, x := range numbers {
		decimals = max(decimals, decimalsOf(RNumber(x)))
	}
	return decimals
}

// pandasNumbers returns the decimals that pandas prints numbers with: six, less the zeros that all end in, and one at least.
func pandasNumbers(numbers []float64) int {
	decimals := 1
	for _, x := range numbers {
		decimals = max(decimals, decimalsOf(trim(strconv.FormatFloat(x, 'f', 6, 64))))
	}
	return decimals
}

// RNumber prints one number as R does: seven digits at most, without zeros at the end.
func RNumber(x float64) string {
	whole := len(strconv.FormatFloat(max(x, -x), 'f', 0, 64))
	return trim(strconv.FormatFloat(x, 'f', max(0, 7-whole), 64))
}

// trim cuts zeros off after the point.
func trim(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

func decimalsOf(s string) int {
	_, after, _ := strings.Cut(s, ".")
	return len(after)
}
