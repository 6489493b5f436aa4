package outputs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// readHTML reads the tables and lists of an output as IRkernel, pandas and knitr write them. It is empty if there are none. The text is read token by token and
// never becomes a tree, so that any text takes time in proportion to its length.
func readHTML(text string) []value {
	r := htmlReader{tokens: html.NewTokenizer(strings.NewReader(text))}
	for {
		switch r.tokens.Next() {
		case html.ErrorToken:
			r.endTable()
			r.endList()
			return r.values
		case html.StartTagToken, html.SelfClosingTagToken:
			r.start(r.tokens.Token())
		case html.EndTagToken:
			r.end(r.tokens.Token().DataAtom)
		case html.TextToken:
			r.text(string(r.tokens.Text()))
		}
	}
}

// plainHTML returns the text of HTML without markup, as IRkernel shows a single value with all its digits.
func plainHTML(text string) (string, bool) {
	return html.UnescapeString(text), !strings.Contains(text, "<") && strings.TrimSpace(text) != ""
}

// htmlCell is a cell of a table as it stands in the text.
type htmlCell struct {
	text          strings.Builder
	head          bool // th
	across, under int  // colspan and rowspan
}

type htmlReader struct {
	tokens *html.Tokenizer
	values []value

	quiet  bool // within a style or script
	tables int  // open ones: what a table within a table holds is text of the outer one's cell
	lists  int  // open ones
	row    []*htmlCell
	rows   [][]*htmlCell
	into   *strings.Builder // where text goes, nil if nowhere

	caption strings.Builder

	names, items []string // of a list: terms and what they stand for
	item         strings.Builder
	term         bool
	inItem       bool
	nested       bool
}

func (r *htmlReader) start(t html.Token) {
	switch t.DataAtom {
	case atom.Style, atom.Script:
		r.quiet = t.Type == html.StartTagToken
	case atom.Table:
		r.tables++
	case atom.Br:
		r.write(" ")
	}
	if r.tables == 0 {
		r.startItem(t.DataAtom)
		return
	}
	if r.tables > 1 {
		r.write(" ")
		return
	}
	switch t.DataAtom {
	case atom.Caption:
		r.into = &r.caption
	case atom.Tr:
		r.endRow()
	case atom.Th, atom.Td:
		if len(r.row) > maxColumns {
			r.into = nil
			return
		}
		c := &htmlCell{head: t.DataAtom == atom.Th, across: 1, under: 1}
		for _, a := range t.Attr {
			switch a.Key {
			case "colspan":
				c.across = spanOf(a.Val, maxColumns)
			case "rowspan":
				c.under = spanOf(a.Val, maxRows)
			}
		}
		r.row = append(r.row, c)
		r.into = &c.text
	}
}

func spanOf(s string, most int) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 1
	}
	return min(max(n, 1), most)
}

func (r *htmlReader) end(tag atom.Atom) {
	switch tag {
	case atom.Style, atom.Script:
		r.quiet = false
	case atom.Table:
		if r.tables > 0 {
			r.tables--
		}
		if r.tables == 0 {
			r.endTable()
		}
	case atom.Th, atom.Td, atom.Caption:
		if r.tables == 1 {
			r.into = nil
		}
	case atom.Tr:
		if r.tables == 1 {
			r.endRow()
		}
	}
	if r.tables == 0 {
		r.endItem(tag)
	}
}

// rowsBelow is what pandas writes below a table that is not shown in full.
var rowsBelow = regexp.MustCompile(`^\s*([\d,]+) rows × [\d,]+ columns`)

func (r *htmlReader) text(s string) {
	if r.quiet {
		return
	}
	if m := rowsBelow.FindStringSubmatch(s); m != nil && r.tables == 0 && len(r.values) > 0 {
		if t := r.values[len(r.values)-1].table; t != nil && t.partial {
			t.total = max(readCount(m[1]), len(t.rows))
		}
	}
	r.write(s)
}

func (r *htmlReader) write(s string) {
	switch {
	case r.tables > 0 && r.into != nil:
		r.into.WriteString(s)
	case r.tables == 0 && r.inItem:
		r.item.WriteString(s)
	}
}

func (r *htmlReader) endRow() {
	if len(r.row) > 0 && len(r.rows) < maxRows+8 {
		r.rows = append(r.rows, r.row)
	}
	r.row, r.into = nil, nil
}

// size is how IRkernel tells of a whole table: A tibble: 420 × 5.
var size = regexp.MustCompile(`: ([\d,]+) [×x] [\d,]+`)

func (r *htmlReader) endTable() {
	r.endRow()
	if len(r.rows) > 0 {
		g := layOut(r.rows)
		if m := size.FindStringSubmatch(r.caption.String()); m != nil {
			g.total = readCount(m[1])
		}
		if t := g.table(); t != nil {
			r.values = append(r.values, tableValue(t))
		}
	}
	r.rows, r.tables = nil, 0
	r.caption.Reset()
}

func readCount(s string) int {
	n, err := strconv.Atoi(strings.ReplaceAll(s, ",", ""))
	if err != nil {
		return 0
	}
	return n
}

// typeName is what stands below a column's name in R: <chr>, <dbl[1d]>.
var typeName = regexp.MustCompile(`^<[^<> ]{1,30}>$`)

// layOut makes a grid of rows of cells that may span several.
func layOut(rows [][]*htmlCell) *grid {
	texts, heads := expand(rows)
	first := 0
	for first < len(heads) && !slices.Contains(heads[first], false) {
		first++
	}
	g := &grid{rows: texts[first:]}
	for i, row := range heads[first:] {
		lead := 0
		for lead < len(row) && row[lead] {
			lead++
		}
		if i == 0 || lead < g.labels {
			g.labels = lead
		}
	}
	g.name(texts[:first])
	return g
}

// expand repeats cells in all the places that they span. The second result says which are heads.
func expand(rows [][]*htmlCell) (texts [][]string, heads [][]bool) {
	type hanging struct {
		text string
		head bool
		rows int
	}
	var from [maxColumns + 1]hanging // cells of rows above that reach down
	for _, row := range rows {
		var line []string
		var head []bool
		next := 0
		for len(line) < len(from) {
			at := len(line)
			if h := &from[at]; h.rows > 0 {
				h.rows--
				line, head = append(line, h.text), append(head, h.head)
				continue
			}
			if next == len(row) {
				break
			}
			c := row[next]
			next++
			text := strings.Join(strings.FieldsFunc(c.text.String(), func(r rune) bool { return r <= ' ' }), " ")
			for i := range min(c.across, len(from)-at) {
				from[at+i] = hanging{text, c.head, c.under - 1}
				line, head = append(line, text), append(head, c.head)
			}
		}
		texts, heads = append(texts, line), append(heads, head)
	}
	return texts, heads
}

// name sets the columns' names from the rows of the head: names of several levels are joined, R's row of types is left out, and a last row of pandas that names the index only does so.
func (g *grid) name(head [][]string) {
	width := 0
	for _, row := range head {
		width = max(width, len(row))
	}
	g.names = make([]string, width)
	head = slices.DeleteFunc(slices.Clone(head), isTypes)
	if n := len(head); n > 1 && g.labels > 0 && blank(head[n-1], g.labels) {
		for i := range min(g.labels, width) {
			g.names[i] = cell(head[n-1], i)
		}
		head = head[:n-1]
	} else if n == 1 {
		for i := range min(g.labels, width) {
			g.names[i] = cell(head[0], i)
		}
	}
	for i := g.labels; i < width; i++ {
		var levels []string
		for _, row := range head {
			if c := cell(row, i); c != "" && !slices.Contains(levels, c) {
				levels = append(levels, c)
			}
		}
		g.names[i] = strings.Join(levels, " ")
	}
}

func isTypes(row []string) bool {
	found := false
	for i := range row {
		c := cell(row, i)
		if c != "" && !isDots(c) && !typeName.MatchString(c) {
			return false
		}
		found = found || typeName.MatchString(c)
	}
	return found
}

// blank reports whether a row says nothing from a column on.
func blank(row []string, from int) bool {
	for i := from; i < len(row); i++ {
		if cell(row, i) != "" {
			return false
		}
	}
	return true
}

// startItem and endItem read IRkernel's vectors: <ol> with <li>, and <dl> with <dt> and <dd> for those with names. A list within a list is not a vector.
func (r *htmlReader) startItem(tag atom.Atom) {
	switch tag {
	case atom.Ol, atom.Ul, atom.Dl:
		r.lists++
		r.nested = r.nested || r.lists > 1
	case atom.Li, atom.Dt, atom.Dd:
		if r.lists > 0 {
			r.closeItem()
			r.inItem, r.term = true, tag == atom.Dt
		}
	}
}

func (r *htmlReader) endItem(tag atom.Atom) {
	switch tag {
	case atom.Li, atom.Dt, atom.Dd:
		r.closeItem()
	case atom.Ol, atom.Ul, atom.Dl:
		if r.lists > 0 {
			r.lists--
		}
		if r.lists == 0 {
			r.endList()
		}
	}
}

func (r *htmlReader) closeItem() {
	if r.inItem && len(r.items) <= maxRows {
		text := strings.TrimSpace(r.item.String())
		if r.term {
			r.names = append(r.names, text)
		} else {
			r.items = append(r.items, text)
		}
	}
	r.item.Reset()
	r.inItem = false
}

func (r *htmlReader) endList() {
	r.closeItem()
	if len(r.items) > 0 && !r.nested {
		r.values = append(r.values, named(r.names, r.items))
	}
	r.names, r.items, r.lists, r.nested = nil, nil, 0, false
}
