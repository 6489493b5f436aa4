package outputs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// scalar is one cell of a table, or one value.
type scalar struct {
	text string // as shown
	kind scalarKind
	num  number // of a numeric
	word string // of a word: without case, white space and quotes
}

type scalarKind uint8

// The kinds of scalars. All the ways to say that there is no value are one.
const (
	absent scalarKind = iota
	numeric
	word
)

func readScalar(s string) scalar {
	s = strings.TrimSpace(s)
	switch s {
	case "", "NA", "<NA>", "NaN", "nan", "NaT", "None", "NULL", "null", "NA_character_", "NA_real_", "NA_integer_":
		return scalar{text: s}
	}
	if n, ok := readNumber(s); ok {
		return scalar{text: s, kind: numeric, num: n}
	}
	return scalar{text: s, kind: word, word: fold(s)}
}

// german is a date as it is written in German: 31.12.2026.
var german = regexp.MustCompile(`^(\d{1,2})\.(\d{1,2})\.(\d{4})$`)

// fold brings a text into the form in which texts are compared: lower case, single blanks, no quotes, no punctuation at its end. A time of
// midnight says no more than its date, and a date in German the same as in ISO 8601.
func fold(s string) string {
	s = strings.TrimSuffix(strings.TrimSpace(s), " 00:00:00")
	if m := german.FindStringSubmatch(s); m != nil {
		s = fmt.Sprintf("%s-%02s-%02s", m[3], m[2], m[1])
	}
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune("\"'`´“”‘’„«»", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
	return strings.TrimRight(strings.Join(strings.Fields(s), " "), ".,;:! ")
}

// shown is the scalar for a person.
func (s scalar) shown() string {
	if s.text == "" {
		return "empty"
	}
	return s.text
}

// key is equal for scalars that must be equal to belong to the same row.
func (s scalar) key() string {
	switch s.kind {
	case numeric:
		return strconv.FormatFloat(s.num.value, 'g', -1, 64)
	case word:
		return s.word
	}
	return "\x00"
}

// alikeScalars compares two cells. A text that a print cut short is equal to what begins like it.
func alikeScalars(a, b scalar, tolerance float64) likeness {
	switch {
	case a.kind != b.kind:
		return likeness{}
	case a.kind == numeric:
		return alike(a.num, b.num, tolerance)
	case a.word == b.word, begins(a.word, b.word), begins(b.word, a.word):
		return likeness{grade: same}
	}
	return likeness{}
}

// begins reports whether a text that ends in an ellipsis is the beginning of another.
func begins(cut, whole string) bool {
	start, ok := strings.CutSuffix(cut, "…")
	return ok && len(start) >= 3 && strings.HasPrefix(whole, start)
}
