package outputs

import (
	"regexp"
	"slices"
	"strings"
)

// Tables whose cells are separated by a character, or by two blanks at least.

// readPipes reads a table in Markdown, as knitr and tabulate write it.
func readPipes(lines []string) (value, int) {
	var g grid
	read := 0
	for ; read < len(lines) && len(g.rows) <= maxRows+1; read++ {
		line := strings.TrimSpace(lines[read])
		if !strings.HasPrefix(line, "|") {
			break
		}
		if strings.Trim(line, "|:-+= ") == "" {
			continue
		}
		g.rows = append(g.rows, strings.SplitN(strings.Trim(line, "|"), "|", maxColumns+1))
	}
	if len(g.rows) < 2 {
		return value{}, 0
	}
	for i := range g.rows[0] {
		g.names = append(g.names, cell(g.rows[0], i))
	}
	g.rows = g.rows[1:]
	t := g.table()
	if t == nil {
		return value{}, 0
	}
	return tableValue(t), read
}

// seriesEnd ends a Series of pandas, with its name and its length if it is not shown in full.
var seriesEnd = regexp.MustCompile(`^(?:Name: (.*?), )?(?:Length: (\d+), )?dtype: \S+$`)

// gap separates cells.
var gap = regexp.MustCompile(` {2,}`)

// readAligned reads a Series of pandas, or a table with names that begin in the first place and two blanks between the cells. Lines in columns that are neither are text.
func readAligned(lines []string) (value, int) {
	index := gap.Split(strings.TrimSpace(lines[0]), maxColumns)
	if !strings.HasPrefix(lines[0], " ") {
		below := readColumns(lines[1:])
		if below.end != nil && below.width == len(index)+1 {
			return below.series(index), below.read + 2
		}
	}
	c := readColumns(lines)
	switch {
	case c.end != nil:
		return c.series(nil), c.read + 1
	case c.read < 2:
		return value{}, 0
	}
	g := grid{names: c.rows[0], rows: c.rows[1:]}
	if !c.filled && g.measures() {
		if t := g.table(); t != nil {
			return tableValue(t), c.read
		}
	}
	return value{kind: textKind, text: strings.Join(lines[:c.read], "\n")}, c.read
}

// columns are lines that have as many cells as the first.
type columns struct {
	rows   [][]string
	width  int
	read   int      // lines
	filled bool     // labels were filled in, where pandas does not repeat them
	end    []string // match of the line below, if it ends a Series
}

func readColumns(lines []string) columns {
	var c columns
	for c.read < len(lines) && len(c.rows) <= maxRows {
		line := lines[c.read]
		if m := seriesEnd.FindStringSubmatch(line); m != nil && c.read > 0 {
			c.end = m
			break
		}
		cells := gap.Split(strings.TrimSpace(line), maxColumns)
		if c.read == 0 {
			c.width = len(cells)
		}
		lacking := c.width - len(cells)
		inner := strings.HasPrefix(line, "  ")
		switch {
		case c.width < 2 || lacking < 0 || cells[0] == "":
			return c
		case lacking > 0 && inner && allDots(cells):
		case lacking > 0 && inner && len(cells) > 1:
			cells = slices.Concat(c.rows[c.read-1][:lacking], cells)
			c.filled = true
		case lacking > 0:
			return c
		}
		c.rows = append(c.rows, cells)
		c.read++
	}
	return c
}

// series makes a table of a Series, whose index may have names.
func (c *columns) series(index []string) value {
	g := grid{labels: c.width - 1, rows: c.rows, names: make([]string, c.width), total: readCount(c.end[2])}
	copy(g.names, index)
	g.names[c.width-1] = c.end[1]
	return tableValue(g.table())
}
