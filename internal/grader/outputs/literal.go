package outputs

import (
	"regexp"
	"strings"
)

// literalStart begins a list, tuple, dict or array of Python, perhaps within a constructor.
var literalStart = regexp.MustCompile(`^(?:[A-Za-z_][\w.]*\()?[\[({]|^(?:np|numpy|decimal)\.[\w.]+\(|^Decimal\(`)

// Limits of a literal.
const (
	maxNesting = 8
	maxLiteral = 64 << 10 // bytes
	maxSpread  = 100      // lines; a bracket that is never closed costs as many
)

// readLiteral reads a list, tuple, dict or array of Python that stands alone, on one line or several, and numbers of NumPy as it shows them: np.float64(12.5).
func readLiteral(lines []string) (value, int) {
	if !literalStart.MatchString(lines[0]) {
		return value{}, 0
	}
	p := literalParser{}
	for read := 1; read <= min(len(lines), maxSpread); read++ {
		if !p.take(lines[read-1]) {
			return value{}, 0
		}
		if p.depth > 0 {
			continue
		}
		n, ok := p.parse()
		if !ok {
			return value{}, 0
		}
		if v, ok := n.value(); ok {
			return v, read
		}
		return value{kind: textKind, text: strings.Join(lines[:read], "\n")}, read
	}
	return value{}, 0
}

// node is a value of Python: a scalar or a sequence.
type node struct {
	text  string
	items []*node
	key   *node // of an entry of a dict
	list  bool
}

// literalParser collects lines until all brackets are closed, then reads them.
type literalParser struct {
	text  []byte
	at    int
	depth int  // of brackets
	quote byte // that is open
}

// take adds a line. It fails if the literal is too long or too deep, or a bracket is closed that was not opened.
func (p *literalParser) take(line string) bool {
	if len(p.text)+len(line) > maxLiteral || p.quote != 0 {
		return false
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case p.quote != 0:
			if c == '\\' {
				i++
			} else if c == p.quote {
				p.quote = 0
			}
		case c == '"' || c == '\'':
			p.quote = c
		case strings.IndexByte("([{", c) >= 0:
			p.depth++
		case strings.IndexByte(")]}", c) >= 0:
			p.depth--
		}
		if p.depth < 0 || p.depth > maxNesting {
			return false
		}
	}
	p.text = append(append(p.text, line...), ' ')
	return true
}

func (p *literalParser) parse() (*node, bool) {
	n, ok := p.node(0)
	p.blanks()
	return n, ok && p.at == len(p.text)
}

func (p *literalParser) blanks() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\n') {
		p.at++
	}
}

func (p *literalParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// node reads one value. A constructor is what its first argument is.
func (p *literalParser) node(depth int) (*node, bool) {
	p.blanks()
	switch c := p.peek(); {
	case depth > maxNesting || c == 0:
		return nil, false
	case c == '"' || c == '\'':
		return p.quoted()
	case strings.IndexByte("([{", c) >= 0:
		return p.sequence(depth)
	}
	from := p.at
	for p.at < len(p.text) && strings.IndexByte(" ,:()[]{}'\"", p.text[p.at]) < 0 {
		p.at++
	}
	if p.at == from {
		return nil, false
	}
	if p.peek() != '(' {
		return &node{text: string(p.text[from:p.at])}, true
	}
	arguments, ok := p.sequence(depth)
	if !ok || len(arguments.items) == 0 {
		return nil, false
	}
	return arguments.items[0], true
}

func (p *literalParser) quoted() (*node, bool) {
	quote, from := p.text[p.at], p.at+1
	for p.at++; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			p.at++
		case quote:
			p.at++
			return &node{text: string(p.text[from : p.at-1])}, true
		}
	}
	return nil, false
}

// sequence reads values between brackets. Commas separate them, or blanks as NumPy prints them.
func (p *literalParser) sequence(depth int) (*node, bool) {
	closing := map[byte]byte{'(': ')', '[': ']', '{': '}'}[p.peek()]
	p.at++
	n := &node{list: true}
	for {
		p.blanks()
		switch p.peek() {
		case closing:
			p.at++
			return n, true
		case ',':
			p.at++
			continue
		}
		item, ok := p.node(depth + 1)
		if !ok {
			return nil, false
		}
		p.blanks()
		if p.peek() == ':' {
			p.at++
			entry, ok := p.node(depth + 1)
			if !ok {
				return nil, false
			}
			entry.key = item
			item = entry
		}
		n.items = append(n.items, item)
	}
}

// value is what a literal shows: a value, a sequence, values with names, or rows. What is nested otherwise has no such form.
func (n *node) value() (value, bool) {
	if !n.list {
		return scalarValue(readScalar(n.text)), true
	}
	if len(n.items) == 0 {
		return value{}, false
	}
	var names, values []string
	var rows [][]string
	for _, item := range n.items {
		switch {
		case item.key != nil && !item.key.list && !item.list:
			names, values = append(names, item.key.text), append(values, item.text)
		case item.key != nil:
			return value{}, false
		case !item.list:
			values = append(values, item.text)
		default:
			row, ok := item.row()
			if !ok || len(rows) > 0 && len(row) != len(rows[0]) {
				return value{}, false
			}
			rows = append(rows, row)
		}
	}
	switch {
	case len(rows) == 0:
		return named(names, values), true
	case len(values) > 0:
		return value{}, false
	}
	t := (&grid{names: make([]string, len(rows[0])), rows: rows}).table()
	if t == nil {
		return value{}, false
	}
	return tableValue(t), true
}

// row returns the scalars of a sequence that holds nothing else.
func (n *node) row() ([]string, bool) {
	var row []string
	for _, item := range n.items {
		if item.list || item.key != nil {
			return nil, false
		}
		row = append(row, item.text)
	}
	return row, len(row) > 0
}
