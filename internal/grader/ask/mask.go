package ask

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tandem/internal/grader/notebook"
)

// masked stands where a name was.
const masked = "[student]"

// masker takes out of a text who wrote it.
type masker struct {
	names *regexp.Regexp // nil if there are none
}

// The least letters of a name that is looked for, and letters and digits of one that has hardly any letters: a shorter number may be a result.
const (
	leastName   = 4
	leastNumber = 6
)

// newMasker looks for names: whole, in both orders, with whatever may stand between their words; each longer word of a name of several by itself, as it is written; and a long name of one word in two parts, in
// both orders, since learning systems write doejane for Jane Doe. A single word that the class's own texts have, too, says nothing about a student and is no name: masked, it would take the class's
// variables away.
func newMasker(names []string, common map[string]bool) *masker {
	var patterns []string
	for _, name := range names {
		parts := strings.FieldsFunc(visible(name), func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) })
		single := len(parts) == 1
		if len(parts) == 0 || !isName(strings.Join(parts, "")) || single && common[strings.ToLower(parts[0])] {
			continue
		}
		patterns = append(patterns, phrase(parts))
		if single {
			patterns = append(patterns, halves(parts[0], common)...)
			continue
		}
		patterns = append(patterns, phrase(append(parts[len(parts)-1:len(parts):len(parts)], parts[:len(parts)-1]...)))
		for _, part := range parts {
			if first, _ := utf8.DecodeRuneInString(part); unicode.IsUpper(first) && letters(part) >= leastName && !common[strings.ToLower(part)] {
				patterns = append(patterns, "(?-i:"+word(part)+"|"+word(strings.ToUpper(part))+")")
			}
		}
	}
	if len(patterns) == 0 {
		return &masker{}
	}
	// the longest first, since the first that matches is taken
	slices.SortStableFunc(patterns, func(a, b string) int { return len(b) - len(a) })
	return &masker{names: regexp.MustCompile("(?i)" + strings.Join(patterns, "|"))}
}

func letters(s string) int {
	n := 0
	for _, r := range s {
		if unicode.IsLetter(r) {
			n++
		}
	}
	return n
}

func isName(s string) bool {
	return letters(s) >= leastName || utf8.RuneCountInString(s) >= leastNumber
}

// Letters of a name of one word that may be two, and of each of these.
const (
	leastRunTogether = 8
	mostRunTogether  = 60
	leastHalf        = 2
)

// halves are patterns for a name that was written without what stands between its words, wherever that was: doejane is Doe, Jane and Jane Doe; obrienjane is Jane O'Brien. Two words of the class's own texts
// are none.
func halves(name string, common map[string]bool) []string {
	runes := []rune(strings.ToLower(name))
	if letters(name) != len(runes) || len(runes) < leastRunTogether || len(runes) > mostRunTogether {
		return nil
	}
	// apart allows for what may stand within a word.
	apart := func(runes []rune) string {
		list := make([]string, len(runes))
		for i, r := range runes {
			list[i] = anyAccent(r)
		}
		return strings.Join(list, `['’ -]?`)
	}
	var patterns []string
	for i := leastHalf; i <= len(runes)-leastHalf; i++ {
		if common[string(runes[:i])] && common[string(runes[i:])] {
			continue
		}
		a, b := apart(runes[:i]), apart(runes[i:])
		patterns = append(patterns, a+`[\s,._-]{1,3}`+b, b+`[\s,._-]{0,3}`+a)
	}
	return patterns
}

// accents are the letters that file names write without their marks.
var accents = map[rune]string{
	'a': "àáâãäåā", 'c': "çćč", 'd': "ďđ", 'e': "èéêëēėęě", 'g': "ğ", 'i': "ìíîïīı", 'l': "łľ", 'n': "ñńň", 'o': "òóôõöøōő", 'r': "řŕ", 's': "śšş", 't': "ťţ", 'u': "ùúûüūůű", 'y': "ýÿ", 'z': "źżž",
}

// anyAccent matches a letter with marks or without.
func anyAccent(r rune) string {
	switch {
	case accents[r] != "":
		return "[" + string(r) + accents[r] + `]\p{M}*`
	case r > unicode.MaxASCII:
		return `\p{L}\p{M}*`
	}
	return string(r)
}

// phrase matches the words of a name: Jane Doe, jane_doe, Doe, Jane, JaneDoe.
func phrase(parts []string) string {
	list := make([]string, len(parts))
	for i, part := range parts {
		list[i] = word(part)
	}
	return strings.Join(list, `[\s,._-]{0,3}`)
}

// word matches a word of a name. A letter that is not ASCII matches any, with accents or without: file names and notebooks write it in different forms.
func word(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		accent := i+1 < len(runes) && unicode.Is(unicode.M, runes[i+1])
		switch {
		case unicode.Is(unicode.M, r):
		case accent || r > unicode.MaxASCII && unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic):
			b.WriteString(`\p{L}\p{M}*`)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

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

// Of returns a function that replaces a student's names, and e-mail addresses, in what is quoted of the notebook.
func (m *Masks) Of(names []string) func(string) string {
	masker := newMasker(names, m.common)
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
	return m.maskNames(text)
}

// maskNames replaces the names that are known.
func (m *masker) maskNames(text string) string {
	if m.names == nil {
		return text
	}
	var b strings.Builder
	from := 0
	for _, at := range m.names.FindAllStringIndex(text, -1) {
		before, _ := utf8.DecodeLastRuneInString(text[:at[0]])
		behind, _ := utf8.DecodeRuneInString(text[at[1]:])
		if inWord(before) || inWord(behind) {
			continue
		}
		b.WriteString(text[from:at[0]])
		b.WriteString(masked)
		from = at[1]
	}
	b.WriteString(text[from:])
	return b.String()
}

func inWord(r rune) bool {
	return r != utf8.RuneError && unicode.In(r, unicode.L, unicode.M, unicode.N) || r == '_'
}

// addWords notes the words of a text, in lower case: the parts of names of variables, too.
func addWords(words map[string]bool, text string) {
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) }) {
		words[strings.ToLower(w)] = true
	}
}
