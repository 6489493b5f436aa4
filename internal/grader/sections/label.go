package sections

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// label is the text of a heading, or of a section's name, made ready to be compared.
type label struct {
	words []string // all of them, in lower case
	plain []string // without numbering; all of them if there is nothing else
}

var (
	tag       = regexp.MustCompile(`<[^>]*>`)
	entity    = regexp.MustCompile(`&[a-zA-Z]+;|&#\d+;`)
	link      = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	anchor    = regexp.MustCompile(`\{[#.][^}]*\}\s*$`)
	numbering = regexp.MustCompile(`^(?:` +
		`(?:part|section|sec|question|q|task|exercise|ex|problem|step|chapter|unit|module|teil|abschnitt|aufgabe|frage|übung|schritt|partie|exercice|étape|parte|sección|ejercicio|pregunta)[^\pL\pN]*(?:\pN+(?:\.\pN+)*\pL?|[ivx]+|[a-z])(?:[^\pL\pN]+|$)` +
		`|\pN+(?:\.\pN+)*[a-z]?(?:[^\pL\pN]+|$)` +
		`|(?:[ivx]+|[a-z])[.):]+(?:[^\pL\pN]+|$))`)
)

// newLabel makes a text ready. Links are their texts; Markdown marks, HTML tags, punctuation and emoji are nothing.
func newLabel(s string) label {
	s = anchor.ReplaceAllString(s, "")
	s = link.ReplaceAllString(s, "$1")
	s = tag.ReplaceAllString(s, " ")
	s = entity.ReplaceAllString(s, " ")
	s = strings.ToLower(s)
	s = strings.TrimLeftFunc(s, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	l := label{words: split(s)}
	l.plain = split(numbering.ReplaceAllString(s, ""))
	if len(l.plain) == 0 {
		l.plain = l.words
	}
	return l
}

// split cuts a text into words; a number is a word by itself, so that q1 is "q 1".
func split(s string) []string {
	var list []string
	start, class := -1, 0
	for i, c := range s {
		now := 0
		switch {
		case unicode.IsLetter(c) || unicode.IsMark(c) && class == 1:
			now = 1
		case unicode.IsDigit(c):
			now = 2
		}
		if now != class {
			if class != 0 {
				list = append(list, s[start:i])
			}
			start, class = i, now
		}
	}
	if class != 0 {
		list = append(list, s[start:])
	}
	return list
}

// contains reports whether the words stand in a row in others.
func contains(others, words []string) bool {
	if len(words) == 0 {
		return false
	}
	for i := 0; i+len(words) <= len(others); i++ {
		if slices.Equal(others[i:i+len(words)], words) {
			return true
		}
	}
	return false
}
