package check

import (
	"regexp"
	"strings"
	"unicode"
)

// splitWords cuts prose into words in lower case, without Markdown marks and punctuation. In scripts without blanks each character is a word.
func splitWords(s string) []string {
	var list []string
	start := -1
	flush := func(to int) {
		if start >= 0 {
			list = append(list, strings.ToLower(s[start:to]))
			start = -1
		}
	}
	for i, c := range s {
		switch {
		case unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			flush(i)
			list = append(list, string(c))
		case unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsMark(c) || (c == '\'' || c == '’') && start >= 0:
			if start < 0 {
				start = i
			}
		default:
			flush(i)
		}
	}
	flush(len(s))
	return list
}

var (
	// label is what stands before an answer: "Your answer:", "Answer (a):", "A1:".
	label = regexp.MustCompile(`(?i)^\W*(?:(?:your|my|ihre|deine|meine|votre|ma|tu|su|mi)\s+)?(?:answers?|response|antwort|réponse|respuesta|a|ans)\s*(?:to\s+)?(?:q(?:uestion)?)?\s*\(?(?:\d{1,2}|[a-h])?\)?[\s*_]*:`)
	// place is a line, as words, that only keeps the place of an answer.
	place = regexp.MustCompile(`^(?:please )?(?:(?:write|type|enter|insert|put|add|give|provide|fill in|double click to (?:edit|write|enter)|replace this(?: text| line| cell)?(?: with| by)?) )*` +
		`(?:(?:(?:your|an?|the|ihre|deine|votre|su|tu) )(?:own |full |short |brief )?(?:answers?|response|reflections?|explanation|interpretation|text|solution|code|thoughts|antwort|lösung|réponse|respuesta)(?: goes| go)?(?: text)?(?: here| below| hier| ici| aquí)?` +
		`|answers?(?: here| goes here)?|here|response|todo|tbd|fixme|antwort|réponse|respuesta|double click to edit|x{3,}|_+)$`)
	atxHeading  = regexp.MustCompile(`^ {0,3}#{1,6}(?:\s|$)`)
	htmlComment = regexp.MustCompile(`(?s)<!--.*?(?:-->|$)`)
	picture     = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)`)
)

// line is a line of a section's prose.
type line struct {
	cell      int // number
	paragraph int // counted over the section
	words     []string
	from      int  // the first word that may be an answer; the rest is the template's, or a label
	heading   bool // no answer
	place     bool // keeps the place of an answer
	template  bool // the template has it
	asks      bool // a question mark stands in it

	number      int // of its label: 2 of "2." and "(b)", 0 without
	numberWords int // words of the label
}

// prose reads lines of text.
func prose(source []string, cell int, paragraph *int, t *template) []line {
	var list []line
	text := htmlComment.ReplaceAllStringFunc(strings.Join(source, "\n"), func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) })
	text = picture.ReplaceAllString(text, "")
	*paragraph++
	for s := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(s) == "" {
			*paragraph++
			continue
		}
		l := line{cell: cell, words: splitWords(s), heading: atxHeading.MatchString(s), template: t.has(s), asks: strings.ContainsAny(s, "?？")}
		mark := numbered.FindString(s)
		mark += label.FindString(s[len(mark):])
		if l.number, l.numberWords = labelNumber(s); l.number > 0 {
			*paragraph++
		}
		l.paragraph = *paragraph
		marked := len(splitWords(mark))
		said := strings.Join(l.words[marked:], " ")
		switch {
		case place.MatchString(said), said == "" && (marked > 0 || strings.ContainsAny(s, "._…")):
			l.place = true
			l.from = len(l.words)
		case l.template:
			l.from = len(l.words)
		default:
			l.from = max(marked, t.prefix(l.words))
		}
		list = append(list, l)
	}
	return list
}

// maxPrefix bounds how many words of a line are compared with the template's lines.
const maxPrefix = 100

// prefix is how many words a line begins with that are a whole line of the template, three at least: what stands after them was added.
func (t *template) prefix(words []string) int {
	longest := 0
	var b strings.Builder
	for i, w := range words[:min(len(words), maxPrefix)] {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w)
		if i >= 2 && t.texts[b.String()] {
			longest = i + 1
		}
	}
	return longest
}

// answerWords counts the words of a text that may be an answer.
func answerWords(source []string, t *template) int {
	n, paragraph := 0, 0
	for _, l := range prose(source, 0, &paragraph, t) {
		if !l.heading {
			n += len(l.words) - l.from
		}
	}
	return n
}

var numbered = regexp.MustCompile(`(?i)^[\s>*_#-]*(?:(?:question|q|frage|aufgabe)\s*\(?(\d{1,2}|[a-h])\b|\(?(\d{1,2}|[a-h])[.)\]:])`)

// labelNumber is the number with which a line begins, and how many words that takes: 2 of "2.", "(b)", "Q2:" and "Question 2". 0 is none.
func labelNumber(s string) (number, words int) {
	m := numbered.FindStringSubmatch(s)
	if m == nil {
		return 0, 0
	}
	digits := strings.ToLower(m[1] + m[2])
	words = len(splitWords(m[0]))
	if c := digits[0]; 'a' <= c && c <= 'h' {
		return int(c-'a') + 1, words
	}
	for _, c := range digits {
		number = 10*number + int(c-'0')
	}
	return number, words
}
