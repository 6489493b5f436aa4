package outputs

import (
	"regexp"
	"strings"
)

// tibbleHead begins a tibble: # A tibble: 420 × 5.
var tibbleHead = regexp.MustCompile(`^# An? [\w ]+: ([\d,]+) [×x] [\d,]+`)

// maxRemarks is how many comments stand at the head of a tibble at most: its size, its groups, how they are sorted.
const maxRemarks = 5

// hiddenName is a column that a tibble names below, with its type, for want of width.
var hiddenName = regexp.MustCompile("(`[^`]+`|[^\\s,:`]+) <[^<>]+>")

// readTibble reads a tibble: comments with its size, names, types, rows, and comments with what is left out.
func readTibble(lines []string) (value, int) {
	m := tibbleHead.FindStringSubmatch(lines[0])
	if m == nil {
		return value{}, 0
	}
	read := 1
	for read < min(len(lines), maxRemarks) && strings.HasPrefix(lines[read], "#") {
		read++
	}
	if read+1 >= len(lines) || len(lines[read]) > 4*maxWidth || !isTypes(strings.Fields(lines[read+1])) {
		return value{}, 0
	}
	f := frame{header: []rune(lines[read]), anchors: words([]rune(lines[read+1])), labels: true}
	if len(f.anchors) == 0 || len(f.anchors) > maxColumns {
		return value{}, 0
	}
	f.cover = union(f.anchors, words(f.header))
	read += 2
	for read < len(lines) && len(f.rows) <= maxRows && !strings.HasPrefix(lines[read], "#") && f.add(lines[read]) {
		read++
	}
	if len(f.rows) == 0 {
		return value{}, 0
	}
	g := f.grid()
	g.total = readCount(m[1])
	var below []string
	for read < len(lines) && strings.HasPrefix(lines[read], "#") && !tibbleHead.MatchString(lines[read]) {
		below = append(below, strings.TrimPrefix(lines[read], "#"))
		read++
	}
	g.leftOut(strings.Join(below, " "))
	g.part = g.part || g.total > len(g.rows)
	t := g.table()
	if t == nil {
		return value{}, 0
	}
	return tableValue(t), read
}

// leftOut reads the comments below a tibble.
func (g *grid) leftOut(comment string) {
	g.part = strings.Contains(comment, "more row")
	_, names, ok := strings.Cut(comment, "more variable")
	if !ok {
		return
	}
	g.narrow = true
	for _, m := range hiddenName.FindAllStringSubmatch(names, maxColumns) {
		g.hidden = append(g.hidden, strings.Trim(m[1], "`"))
	}
}
