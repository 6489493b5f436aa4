package code

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// rOperators are R's operators of more than one character, the longest first.
var rOperators = []string{":::", "<<-", "->>", "<-", "->", "|>", "<=", ">=", "==", "!=", "::", ":=", "&&", "||", "**"}

var rKeywords = words("if else repeat while function for next break TRUE FALSE NULL Inf NaN NA NA_integer_ NA_real_ NA_complex_ NA_character_ in ...")

// words makes a set of words.
func words(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// lexR reads R.
func lexR(src string) *lexer {
	l := &lexer{src: src, line: 1}
	for l.pos < len(l.src) {
		c, _ := utf8.DecodeRuneInString(l.rest())
		switch {
		case l.space():
		case c == '\n' || c == ';':
			l.add(end, l.src[l.pos:l.pos+1], l.pos+1)
		case c == '#':
			l.comment()
		case (c == 'r' || c == 'R') && l.rawR():
		case c == '"' || c == '\'':
			l.quotedR(text, byte(c), false)
		case c == '`':
			l.quotedR(name, '`', true)
		case isDigit(l.peek(0)) || c == '.' && isDigit(l.peek(1)):
			l.number()
		case c == '.' || c == '_' || unicode.IsLetter(c):
			to := l.word(".")
			w := l.src[l.pos:to]
			k := name
			if rKeywords[w] {
				k = keyword
			}
			l.add(k, w, to)
		case c == '%':
			to := l.pos + 1
			if i := strings.IndexAny(l.src[to:], "%\n"); i >= 0 && l.src[to+i] == '%' {
				to += i + 1
			}
			l.add(op, l.src[l.pos:to], to)
		case l.bracket():
		default:
			l.operator(rOperators)
		}
	}
	return l
}

// rawR reads a raw string, as in r"(…)" and R"--[…]--", if there is one here.
func (l *lexer) rawR() bool {
	quote := l.peek(1)
	if quote != '"' && quote != '\'' {
		return false
	}
	i := l.pos + 2
	for i < len(l.src) && l.src[i] == '-' {
		i++
	}
	dashes := l.src[l.pos+2 : i]
	if i == len(l.src) {
		return false
	}
	var closer string
	switch l.src[i] {
	case '(':
		closer = ")"
	case '[':
		closer = "]"
	case '{':
		closer = "}"
	default:
		return false
	}
	closer += dashes + string(quote)
	content := l.src[i+1:]
	to := len(l.src)
	if j := strings.Index(content, closer); j >= 0 {
		content, to = content[:j], i+1+j+len(closer)
	}
	l.add(text, content, to)
	return true
}

// quotedR reads what stands in quotes. One that is not closed ends with the source, or, where it must, with the line.
func (l *lexer) quotedR(k kind, quote byte, sameLine bool) {
	for i := l.pos + 1; i < len(l.src); i++ {
		switch c := l.src[i]; {
		case c == '\\':
			i++
		case c == quote:
			l.add(k, l.src[l.pos+1:i], i+1)
			return
		case c == '\n' && sameLine:
			l.add(k, l.src[l.pos+1:i], i)
			return
		}
	}
	l.add(k, l.src[l.pos+1:], len(l.src))
}
