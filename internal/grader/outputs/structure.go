package outputs

import (
	"regexp"
	"strings"
)

// What R's str and dplyr's glimpse print of a data frame: a head with its size, and a line for each column with its name, its type and its first values.
var (
	strHead   = regexp.MustCompile(`^(?:'data\.frame'|Classes .*‘data\.frame’|tibble|spc_tbl_|[\w.]+ \[).*?:?\s*\[?([\d,]+)(?: obs\. of| [×x]) `)
	glimpsed  = regexp.MustCompile(`^Rows: ([\d,]+)$`)
	strColumn = regexp.MustCompile("^ ?[ .]*\\$ (`[^`]+`|[^\\s:<]+) *:? +(?:<\\w+>|Factor w/.*?:|Ord\\.factor w/.*?:|[A-Za-z]+)(?: ?\\[1:[\\d,]+\\])?,?(?: format:)? (.*)$")
	// of a vector or a single value: num [1:3] 1 2 3
	strVector = regexp.MustCompile(`^ (?:Named )?(num|int|chr|logi|Date|POSIXct)(?:\[1:\d+\],)?(?: \[1:([\d,]+)\])?,?(?: format:)? (.*)$`)
	strValue  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?|[^\s,]+`)
)

// readStructure reads what str or glimpse shows. Values that do not stand there are left out.
func readStructure(lines []string) (value, int) {
	if m := strVector.FindStringSubmatch(lines[0]); m != nil {
		values, whole := strValues(m[3])
		switch {
		case len(values) == 0:
			return value{}, 0
		case whole:
			return vector(values), 1
		}
		g := grid{names: []string{""}, part: true, total: readCount(m[2])}
		for _, v := range values {
			g.rows = append(g.rows, []string{v})
		}
		t := g.table()
		t.vector = true
		return tableValue(t), 1
	}
	m := strHead.FindStringSubmatch(lines[0])
	read := 1
	if m == nil {
		if m = glimpsed.FindStringSubmatch(lines[0]); m == nil || len(lines) < 3 || !strings.HasPrefix(lines[1], "Columns: ") {
			return value{}, 0
		}
		read = 2
	}
	g := grid{total: readCount(m[1])}
	var columns [][]string
	for read < len(lines) && len(columns) < maxColumns {
		c := strColumn.FindStringSubmatch(lines[read])
		if c == nil {
			break
		}
		values, _ := strValues(c[2])
		g.names, columns = append(g.names, strings.Trim(c[1], "`")), append(columns, values)
		read++
	}
	if len(columns) == 0 {
		return value{}, 0
	}
	shown := len(columns[0]) // of all columns
	for _, c := range columns {
		shown = min(shown, len(c))
	}
	for i := range shown {
		row := make([]string, len(columns))
		for k, c := range columns {
			row[k] = c[i]
		}
		g.rows = append(g.rows, row)
	}
	if shown == 0 {
		return value{}, 0
	}
	g.part = g.total > shown
	return tableValue(g.table()), read
}

// strValues are the values at the end of a line, and whether these are all.
func strValues(s string) (values []string, whole bool) {
	s, cut := strings.CutSuffix(strings.TrimSpace(s), "...")
	s, dots := strings.CutSuffix(strings.TrimSpace(s), "…")
	return strValue.FindAllString(s, -1), !cut && !dots
}
