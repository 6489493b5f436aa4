package code

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// pythonOperators are Python's operators of more than one character, the longest first.
var pythonOperators = []string{"**=", "//=", ">>=", "<<=", "...", ":=", "==", "!=", "<=", ">=", "->", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=", "**", "//", "<<", ">>"}

var pythonKeywords = words(`False None True and as assert async await break class continue def del elif else except finally for from global if import in is
	lambda nonlocal not or pass raise return try while with yield`)

// maxNested bounds how deep f-strings within f-strings are read, so that the time stays linear.
const maxNested = 3

// lexPython reads Python as a notebook has it, with IPython's magics.
func lexPython(src string, line, nested int) *lexer {
	l := &lexer{src: src, line: line, nested: nested}
	depth := 0
	for l.pos < len(l.src) {
		c, _ := utf8.DecodeRuneInString(l.rest())
		switch {
		case l.space():
		case c == '\n' || c == ';':
			l.add(end, l.src[l.pos:l.pos+1], l.pos+1)
		case c == '\\' && l.peek(1) == '\n':
			l.advance(l.pos + 2)
		case c == '#':
			l.comment()
		case depth == 0 && l.magic():
		case l.stringPython():
		case isDigit(l.peek(0)) || c == '.' && isDigit(l.peek(1)):
			l.number()
		case c == '_' || unicode.IsLetter(c):
			to := l.word("")
			w := l.src[l.pos:to]
			k := name
			if pythonKeywords[w] {
				k = keyword
			}
			l.add(k, w, to)
		case l.bracket():
			if l.tokens[len(l.tokens)-1].kind == open {
				depth++
			} else {
				depth = max(0, depth-1)
			}
		default:
			l.operator(pythonOperators)
		}
	}
	return l
}

// magic reads a line that IPython takes for itself, if there is one here: %magic, !command, ?help, also after an equals sign.
func (l *lexer) magic() bool {
	c := l.peek(0)
	if c != '%' && c != '!' && c != '?' || l.peek(1) == '=' {
		return false
	}
	if n := len(l.tokens); n > 0 && l.tokens[n-1].kind != end && !l.tokens[n-1].is("=") {
		return false
	}
	// %time df = f() runs the rest of its line here.
	if rest, ok := strings.CutPrefix(l.rest(), "%time "); ok && !strings.HasPrefix(rest, "-") {
		l.add(end, "", l.pos+len("%time "))
		return true
	}
	to := l.lineEnd()
	l.add(magic, l.src[l.pos:to], to)
	return true
}

// stringPython reads a string with its prefix, if there is one here.
func (l *lexer) stringPython() bool {
	i := l.pos
	formatted := false
	for i < len(l.src) && i < l.pos+2 && strings.IndexByte("rRbBuUfFtT", l.src[i]) >= 0 {
		formatted = formatted || strings.IndexByte("fFtT", l.src[i]) >= 0
		i++
	}
	if i == len(l.src) || l.src[i] != '"' && l.src[i] != '\'' {
		return false
	}
	quote := l.src[i : i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(l.src[i:], triple) {
		quote = triple
	}
	from := i + len(quote)
	content, to := l.src[from:], len(l.src)
scan:
	for j := from; j < len(l.src); j++ {
		switch c := l.src[j]; {
		case c == '\\':
			j++
		case c == '\n' && len(quote) == 1:
			content, to = l.src[from:j], j
			break scan
		case c == quote[0] && strings.HasPrefix(l.src[j:], quote):
			content, to = l.src[from:j], j+len(quote)
			break scan
		}
	}
	line := l.line
	l.add(text, content, to)
	if formatted && l.nested < maxNested {
		l.tokens[len(l.tokens)-1].parts = expressions(content, line, l.nested+1)
	}
	return true
}

// expressions reads what stands in the braces of an f-string.
func expressions(content string, line, nested int) [][]token {
	var list [][]token
	for i := 0; i < len(content); i++ {
		switch content[i] {
		case '\n':
			line++
		case '{':
			if strings.HasPrefix(content[i:], "{{") {
				i++
				continue
			}
			expr, spec, size := field(content[i+1:])
			tokens := lexPython(expr, line, nested).tokens
			list = append(list, tokens)
			if nested < maxNested && strings.Contains(spec, "{") {
				list = append(list, expressions(spec, line+strings.Count(expr, "\n"), nested+1)...)
			}
			line += strings.Count(content[i+1:i+1+size], "\n")
			i += size
		}
	}
	return list
}

// field cuts a replacement field, from behind its brace, into its expression and what says how to format it. size is the length of both.
func field(s string) (expr, spec string, size int) {
	depth, cut := 0, -1
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case c == '}' && depth == 0:
			if cut < 0 {
				return s[:i], "", i
			}
			return s[:cut], s[cut:i], i
		case strings.IndexByte(")]}", c) >= 0:
			depth = max(0, depth-1)
		case cut < 0 && depth == 0 && (c == ':' || c == '!' && !strings.HasPrefix(s[i:], "!=")):
			cut = i
		}
	}
	if cut < 0 {
		return s, "", len(s)
	}
	return s[:cut], s[cut:], len(s)
}
