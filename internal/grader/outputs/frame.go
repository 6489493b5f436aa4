package outputs

import (
	"regexp"
	"slices"
	"strings"
)

// Tables in columns of fixed width: R's data frames and tibbles, pandas' frames. No character separates the columns; what does is a strip of blanks that goes
// through all lines, and each column has a word in the line of names (of a tibble: in the line of types).

// maxWidth is the longest line of such a table, in runes.
const maxWidth = 2000

// run is a piece of a line's width, from its first place to behind its last.
type run struct{ from, to int }

func (r run) overlaps(o run) bool { return r.from < o.to && o.from < r.to }

// words returns the places of a line's words.
func words(line []rune) []run {
	var runs []run
	for i := 0; i < len(line); i++ {
		if line[i] == ' ' {
			continue
		}
		from := i
		for i < len(line) && line[i] != ' ' {
			i++
		}
		runs = append(runs, run{from, i})
	}
	return runs
}

// union joins the places of two lines' words; what is left between them are the strips of blanks. The results are sorted.
func union(a, b []run) []run {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b run) int { return a.from - b.from })
	merged := all[:0]
	for _, r := range all {
		if n := len(merged); n > 0 && r.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, r.to)
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}

// frame is such a table, read line by line.
type frame struct {
	header  []rune   // the line of names
	anchors []run    // a word for each column
	labels  bool     // rows begin with a label, which has no name
	index   int      // columns that are an index, with names
	cover   []run    // of all lines
	rows    [][]rune // the lines below
}

// add takes one more row, unless it closes a strip between two columns, or the one between label and first column.
func (f *frame) add(text string) bool {
	if text == "" || len(text) > 4*maxWidth || element.MatchString(text) {
		return false
	}
	line := []rune(text)
	row := words(line)
	if len(row) == 0 || len(line) > maxWidth || row[len(row)-1].to <= f.anchors[0].from {
		return false
	}
	cover := union(f.cover, row)
	if f.labels && (!row[0].overlaps(cover[0]) || cover[0].overlaps(f.anchors[0])) || f.index == 1 && row[0].from != 0 {
		return false
	}
	next := 0
	for _, r := range cover {
		count := 0
		for next < len(f.anchors) && f.anchors[next].overlaps(r) {
			next++
			count++
		}
		if count > 1 {
			return false
		}
	}
	f.cover = cover
	f.rows = append(f.rows, line)
	return true
}

// span is the width of one column.
type span struct {
	run
	named, filled bool // has a name, has cells
}

// columns divides the width among the columns. A strip may go through the names or through the cells of one column by chance; each part belongs to a neighbour then.
func (f *frame) columns() []span {
	var parts []span
	for i, r := range f.cover {
		s := span{run: r, named: f.labels && i == 0}
		for _, a := range f.anchors {
			s.named = s.named || a.overlaps(r)
		}
		s.filled = slices.ContainsFunc(f.rows, func(line []rune) bool { return text(line, r) != "" })
		parts = append(parts, s)
	}
	// A part of a name without cells: the nearer neighbour's.
	for i := 0; i < len(parts); i++ {
		if parts[i].filled || len(parts) == 1 {
			continue
		}
		if i+1 < len(parts) && (i == 0 || parts[i+1].from-parts[i].to <= parts[i].from-parts[i-1].to) {
			parts[i+1].from, parts[i+1].named = parts[i].from, true
			parts = slices.Delete(parts, i, i+1)
		} else {
			parts[i-1].to = parts[i].to
			parts = slices.Delete(parts, i, i+1)
		}
		i--
	}
	// Cells without a name: they belong to the column whose cells are words, if the other's are numbers; else it depends on which side the columns are flush.
	for i := 1; i < len(parts); i++ {
		if parts[i].named {
			continue
		}
		after := i + 1
		for after < len(parts) && !parts[after].named {
			after++
		}
		if after < len(parts) && f.flushRight(parts[i-1].run, parts[after].run) {
			parts[after].from = parts[i].from
		} else {
			parts[i-1].to = parts[after-1].to
		}
		parts = slices.Delete(parts, i, after)
	}
	return parts
}

// flushRight decides that cells between two columns belong to the second.
func (f *frame) flushRight(first, second run) bool {
	one, two := f.numbers(first), f.numbers(second)
	if one != two {
		return one
	}
	return !slices.ContainsFunc(f.rows, func(line []rune) bool { return len(line) < second.to || line[second.to-1] == ' ' })
}

// numbers reports whether there is nothing but numbers in a part of the width.
func (f *frame) numbers(r run) bool {
	return !slices.ContainsFunc(f.rows, func(line []rune) bool { return readScalar(text(line, r)).kind == word })
}

// text returns what stands in a part of a line.
func text(line []rune, r run) string {
	from, to := min(r.from, len(line)), min(r.to, len(line))
	return strings.Trim(strings.TrimSpace(string(line[from:to])), "`")
}

func (f *frame) grid() *grid {
	columns := f.columns()
	g := &grid{labels: f.index}
	if f.labels {
		g.labels = 1
	}
	for _, c := range columns {
		g.names = append(g.names, text(f.header, c.run))
	}
	for k, line := range f.rows {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = text(line, c.run)
			// pandas shows a repeated label of an outer index once.
			if row[i] == "" && k > 0 && i+1 < f.index {
				row[i] = g.rows[k-1][i]
			}
		}
		g.rows = append(g.rows, row)
	}
	return g
}

// readFrame reads a data frame: its names begin with blanks, above the labels of the rows; or, without labels, above columns of which one is numeric at least. One
// that R or pandas broke, since it is wider than the line, is put together.
func readFrame(lines []string) (value, int) {
	g, read := readPart(lines)
	if g == nil {
		return value{kind: textKind, text: strings.Join(lines[:read], "\n")}, read
	}
	full := strings.HasSuffix(lines[0], `\`) || len(lines[0]) >= fullLine
	for full && read < len(lines) {
		skip := 0
		if lines[read] == "" {
			skip = 1
		}
		next, n := readPart(lines[read+skip:])
		if next == nil || !g.continues(next) {
			break
		}
		g.join(next)
		read += skip + n
	}
	for skip := range 2 {
		if read+skip >= len(lines) {
			break
		}
		if m := footer.FindStringSubmatch(lines[read+skip]); m != nil {
			g.part = true
			g.total = readCount(m[1])
			read += skip + 1
			break
		}
	}
	t := g.table()
	if t == nil {
		return value{}, 0
	}
	return tableValue(t), read
}

// fullLine is how long a line of R's is at least before it breaks a table. It has 80 places, and the next column found no place.
const fullLine = 50

// footer stands below a table of which R or pandas left out rows.
var footer = regexp.MustCompile(`^(?:\[([\d,]+) rows x [\d,]+ columns\]| \[ reached .* omitted [\d,]+ rows \])$`)

// readPart reads a data frame up to where it is broken. Without a frame the lines read are text, which no reader needs to try again.
func readPart(lines []string) (*grid, int) {
	if len(lines) < 2 || !strings.HasPrefix(lines[0], " ") || len(lines[0]) > maxWidth {
		return nil, 0
	}
	f := frame{header: []rune(strings.TrimRight(strings.TrimSuffix(lines[0], `\`), " "))}
	f.anchors = words(f.header)
	if len(f.anchors) == 0 || len(f.anchors) > maxColumns || len(lines[1]) > 4*maxWidth {
		return nil, 0
	}
	read := 1
	second := []rune(lines[1])
	under := words(second)
	switch {
	case len(under) == 0:
		return nil, 0
	case isTypes(strings.Fields(lines[1])): // data.table
		f.labels = true
		f.cover = under
		read++
	case len(lines) > 2 && under[len(under)-1].to < f.anchors[0].from && under[0].from == 0: // pandas: the names of the index
		copy(f.header, second)
		f.index = len(under)
		f.anchors = slices.Concat(under, f.anchors)
		read++
	default:
		f.labels = under[0].to < f.anchors[0].from
	}
	f.cover = union(f.cover, f.anchors)
	for read < len(lines) && len(f.rows) <= maxRows && f.add(lines[read]) {
		read++
	}
	if len(f.rows) == 0 {
		return nil, 0
	}
	g := f.grid()
	if !f.labels && f.index == 0 && !g.measures() {
		return nil, read
	}
	return g, read
}

// continues reports whether a block has the same labels, and so is the next part of a broken table.
func (g *grid) continues(next *grid) bool {
	return g.labels == 1 && next.labels == 1 && slices.EqualFunc(g.rows, next.rows, func(a, b []string) bool { return a[0] == b[0] })
}

// join puts the columns of the next part beside those of this one.
func (g *grid) join(next *grid) {
	g.names = append(g.names, next.names[1:]...)
	for i := range g.rows {
		g.rows[i] = append(g.rows[i], next.rows[i][1:]...)
	}
}

// measures reports whether a column holds numbers and no name is one: what else stands in columns may be prose.
func (g *grid) measures() bool {
	found := false
	for i, name := range g.names {
		if _, ok := readNumber(name); ok {
			return false
		}
		numbers, words := 0, 0
		for _, row := range g.rows {
			switch readScalar(cell(row, i)).kind {
			case numeric:
				numbers++
			case word:
				words++
			}
		}
		found = found || numbers > 0 && words == 0
	}
	return found && len(g.names) > 1
}
