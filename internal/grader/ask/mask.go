package ask

import (
	"regexp"
	"strings"
	"unicode"

	"tandem/internal/grader/notebook"
)

// masked stands where a name was.
const masked = "[student]"

// masker takes out of a text who wrote it.
type masker struct{ names *names }

const who = `(?:(?:(?:my|full|first|last|family|given|student)[ _-]?)*names?|(?:submitted|written) by|students?(?:[ _-]?(?:id|no|number))?|authors?|autor(?:in|es|a)?|nom|nombre|alumn[oa]|étudiante?|` +
	`matrikelnummer|matriculation(?:[ _-]?(?:no|number))?|姓名|学号|作者)`

var (
	// label is a line of prose that says who wrote it: "Name: …", "**Author**: …", "author:" of YAML with its list. The first group stays.
	label = regexp.MustCompile(`(?im)^([ \t]*(?:[#>*+-]+[ \t]*)*[*_]*` + who + `[*_]*[ \t]*[:：][*_]*(?:[ \t]*\n[ \t]*-)?[ \t]*)([^\s*_-].*)$`)
	// codeLabel is such a line in code: a comment, or what R and Python have for it.
	codeLabel = regexp.MustCompile(`(?im)^([ \t]*(?:(?:#|//)[#/'*| \t-]*` + who + `[ \t]*[:：][ \t]*|#'[ \t]*@author[ \t:]+|__author__[ \t]*=[ \t]*))(\S.*)$`)
	// saidName is a name in a sentence.
	saidName = regexp.MustCompile(`((?i:my name is)\s+)\p{Lu}[\p{L}\p{M}'-]*(?: \p{Lu}[\p{L}\p{M}'-]*){0,3}`)
	// email is an address whose end is a usual one: obj@slot.name is R, A@B.copy is Python.
	email = regexp.MustCompile(`(?i)[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}._%+'’-]*[\p{L}\p{M}\p{N}_%+-])?@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|org|net|edu|gov|info|int|mil|[a-z]{2})\b`)
)

// Masks take names out of texts. It may be used by several goroutines at a time.
type Masks struct {
	common map[string]bool // words of the template, the solution and the rubric, in lower case
}

// NewMasks reads the texts that the whole class has.
func NewMasks(a Assignment) *Masks {
	m := &Masks{common: map[string]bool{}}
	addWords(m.common, everyday)
	addWords(m.common, string(a.Rubric.Raw))
	for _, nb := range []*notebook.Notebook{a.Template, a.Solution} {
		if nb == nil {
			continue
		}
		for _, c := range nb.Cells {
			addWords(m.common, c.Source)
		}
	}
	return m
}

// of returns what masks a student's names, and those of the folders that the notebook names.
func (m *Masks) of(nb *notebook.Notebook, names []string) *masker {
	return &masker{newNames(names, logins(nb), m.common)}
}

// Of returns a function that replaces a student's names, folders and e-mail addresses in what is quoted of the notebook.
func (m *Masks) Of(nb *notebook.Notebook, names []string) func(string) string {
	masker := m.of(nb, names)
	return func(text string) string { return masker.mask("", text) }
}

// mask replaces names in a text from a cell of some kind, "" for an output.
func (m *masker) mask(kind notebook.Kind, text string) string {
	switch kind {
	case notebook.Code:
		text = codeLabel.ReplaceAllString(text, "${1}"+masked)
	case notebook.Markdown, notebook.Raw:
		text = label.ReplaceAllString(text, "${1}"+masked)
		text = saidName.ReplaceAllString(text, "${1}"+masked)
	}
	if strings.Contains(text, "@") {
		text = email.ReplaceAllString(text, masked)
	}
	text = replace(text, accounts(kind, text))
	return replace(text, m.names.find(text))
}

// replace puts a mark in the place of what is found in a text.
func replace(text string, found [][2]int) string {
	if len(found) == 0 {
		return text
	}
	var b strings.Builder
	from := 0
	for _, at := range found {
		b.WriteString(text[from:max(from, at[0])])
		if at[0] >= from {
			b.WriteString(masked)
		}
		from = max(from, at[1])
	}
	b.WriteString(text[from:])
	return b.String()
}

// addWords notes the words of a text, in lower case: the parts of names of variables, too.
func addWords(words map[string]bool, text string) {
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) }) {
		words[strings.ToLower(w)] = true
		words[foldAll(w)] = true
	}
}
