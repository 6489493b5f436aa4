package code

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind uint8

const (
	name    kind = iota // an identifier; of R's `quoted name` without the backticks
	keyword             // a word of the language that names nothing
	number
	text    // a string literal; its text is the content between the quotes, escapes as written
	op      // an operator, a comma, a colon
	open    // ( [ {
	closing // ) ] }
	end     // a line end or a semicolon that ends a statement
	magic   // a line that IPython reads, not Python
)

// token is one token. Comments are kept apart, white space is not kept.
type token struct {
	kind  kind
	text  string
	line  int
	last  int       // line on which it ends
	match int       // of a bracket: index of its partner, -1 if it has none
	parts [][]token // of an f-string: the expressions in its braces
}

// is reports whether the token is this operator, bracket or keyword.
func (t *token) is(s string) bool {
	return t.text == s && (t.kind == op || t.kind == open || t.kind == closing || t.kind == keyword)
}

// lexer cuts a source into tokens. Any bytes will do; it takes time linear in their number.
type lexer struct {
	src      string
	pos      int
	line     int
	tokens   []token
	comments []token
	nested   int // f-strings around this one
}

// rest is what is still to be read.
func (l *lexer) rest() string { return l.src[l.pos:] }

// peek returns the byte at an offset from here, 0 beyond the end.
func (l *lexer) peek(offset int) byte {
	if i := l.pos + offset; i < len(l.src) {
		return l.src[i]
	}
	return 0
}

// add makes a token of the source up to an offset of it, and goes there.
func (l *lexer) add(k kind, text string, to int) {
	t := token{kind: k, text: text, line: l.line, match: -1}
	l.advance(to)
	t.last = l.line
	l.tokens = append(l.tokens, t)
}

// advance goes to an offset of the source and counts lines on the way.
func (l *lexer) advance(to int) {
	to = min(to, len(l.src))
	l.line += strings.Count(l.src[l.pos:to], "\n")
	l.pos = to
}

// comment reads one, to the end of its line.
func (l *lexer) comment() {
	to := l.lineEnd()
	l.comments = append(l.comments, token{text: l.src[l.pos:to], line: l.line})
	l.advance(to)
}

// lineEnd is the offset of the next line break, or of the end.
func (l *lexer) lineEnd() int {
	if i := strings.IndexByte(l.rest(), '\n'); i >= 0 {
		return l.pos + i
	}
	return len(l.src)
}

// space skips blanks that are no line end and reports whether there were any.
func (l *lexer) space() bool {
	c, size := utf8.DecodeRuneInString(l.rest())
	if c == '\n' || !unicode.IsSpace(c) && c != '\ufeff' {
		return false
	}
	l.pos += size
	return true
}

// operator reads the first of the operators that stands here, else one character.
func (l *lexer) operator(operators []string) {
	for _, o := range operators {
		if strings.HasPrefix(l.rest(), o) {
			l.add(op, o, l.pos+len(o))
			return
		}
	}
	_, size := utf8.DecodeRuneInString(l.rest())
	l.add(op, l.src[l.pos:l.pos+size], l.pos+size)
}

// bracket reads a bracket if there is one here.
func (l *lexer) bracket() bool {
	k := open
	switch l.peek(0) {
	case '(', '[', '{':
	case ')', ']', '}':
		k = closing
	default:
		return false
	}
	l.add(k, l.src[l.pos:l.pos+1], l.pos+1)
	return true
}

// number reads a number, in R's or Python's spelling.
func (l *lexer) number() {
	i := l.pos
	hex := strings.HasPrefix(l.rest(), "0x") || strings.HasPrefix(l.rest(), "0X")
	for i < len(l.src) {
		c := l.src[i]
		if isDigit(c) || c == '.' || c == '_' || isLetter(c) {
			i++
			continue
		}
		if before := l.src[max(l.pos, i-1)]; (c == '+' || c == '-') && !hex && (before == 'e' || before == 'E') && i > l.pos {
			i++
			continue
		}
		break
	}
	l.add(number, l.src[l.pos:i], i)
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// word is the end of the longest run of characters that a name may hold, with extra ones.
func (l *lexer) word(extra string) int {
	i := l.pos
	for i < len(l.src) {
		c, size := utf8.DecodeRuneInString(l.src[i:])
		if !nameRune(c) && !strings.ContainsRune(extra, c) || c == utf8.RuneError {
			break
		}
		i += size
	}
	return i
}

// nameRune reports whether a character may stand within a name of either language.
func nameRune(c rune) bool {
	return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.Is(unicode.Mn, c) || unicode.Is(unicode.Mc, c)
}

// pair finds the partner of each bracket. A bracket that is never closed, or never opened, has none and so encloses nothing.
func pair(tokens []token) {
	var stack []int
	waiting := map[string]int{}
	partner := map[string]string{")": "(", "]": "[", "}": "{"}
	for i := range tokens {
		t := &tokens[i]
		switch t.kind {
		case open:
			stack = append(stack, i)
			waiting[t.text]++
		case closing:
			// One of another kind closes what it finds open inside, and if nothing of its own kind is open, the innermost.
			want := partner[t.text]
			for paired, known := false, waiting[want] > 0; !paired && len(stack) > 0; paired = paired || !known {
				last := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				waiting[tokens[last].text]--
				if tokens[last].text == want {
					t.match, tokens[last].match = last, i
					paired = true
				}
			}
		}
	}
}
