package outputs

import (
	"regexp"
	"strconv"
	"strings"
)

// element begins a line that R prints of a vector.
var element = regexp.MustCompile(`^\s*\[(\d+)\](\s|$)`)

// entry is one value of a vector: in quotes or without blanks.
var entry = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\S+`)

// readVector reads a vector of R: [1] 12.5 3.0, with a number at the beginning of each line.
func readVector(lines []string) (value, int) {
	var values []string
	read := 0
	for read < len(lines) && len(values) <= maxRows {
		m := element.FindStringSubmatch(lines[read])
		if m == nil || m[1] != strconv.Itoa(len(values)+1) {
			break
		}
		values = append(values, entry.FindAllString(lines[read][len(m[0]):], -1)...)
		read++
	}
	if len(values) == 0 {
		return value{}, 0
	}
	factor := read < len(lines) && strings.HasPrefix(lines[read], "Levels:")
	if factor {
		read++
	}
	for _, v := range values {
		if s := readScalar(v); s.kind == word && !factor && v[0] != '"' && !isLogical(v) {
			// Text printed without quotes: its words are no values.
			return value{kind: textKind, text: strings.Join(values, " ")}, read
		}
	}
	return vector(values), read
}

func isLogical(s string) bool { return s == "TRUE" || s == "FALSE" }

// readNamed reads a vector of R whose values have names: a line of names above a line of values, flush on the right, more such pairs for a long one.
func readNamed(lines []string) (value, int) {
	var names, values []string
	read := 0
	for read+1 < len(lines) && len(values) <= maxRows {
		above, below := []rune(lines[read]), []rune(lines[read+1])
		if len(above) > maxWidth || len(below) > maxWidth {
			break
		}
		n, v := words(above), words(below)
		if len(n) == 0 || len(n) != len(v) || len(v) > maxColumns || !pairs(above, below, n, v) {
			break
		}
		for i := range n {
			names = append(names, text(above, n[i]))
			values = append(values, text(below, v[i]))
		}
		read += 2
	}
	if len(values) == 0 {
		return value{}, 0
	}
	return named(names, values), read
}

// pairs reports whether each word of the one line is a name that ends above a number of the other.
func pairs(above, below []rune, names, values []run) bool {
	for i := range names {
		if names[i].to != values[i].to || readScalar(text(above, names[i])).kind != word || readScalar(text(below, values[i])).kind == word {
			return false
		}
	}
	return true
}
