package check

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"tandem/internal/grader/rubric"
)

// enough is how many words of its own make an answer, where the rubric does not say.
const enough = 3

// anchor is where a question stands in the text.
type anchor struct {
	question   int // index, -1 for what stands before the first
	begin, end spot
}

// spot is a word of a text: the index of its line, and its index in there.
type spot struct{ line, word int }

// questions looks for the answers to a section's questions.
//
// A question is found by its text, else by its label ("(b)", "2.", "Q2"). Its answer is what stands between it and the next one that was found, beyond the template's lines and what keeps
// a place. Questions that stand nowhere, or in a list with nothing between them, share the paragraphs that follow, in order.
func (c *checker) questions(s *rubric.Section) []Item {
	if len(s.Questions) == 0 {
		return nil
	}
	own, all := c.prose(c.where.Cells[s.ID]), []line(nil)
	items := c.answers(s, own, true)
	for i := range items {
		if items[i].Status == Found {
			continue
		}
		// Elsewhere only the question's own text tells whose answer it is.
		if all == nil {
			outside := make([]int, 0, len(c.cells))
			for j := range c.cells {
				if c.where.Of(j) != s.ID {
					outside = append(outside, j)
				}
			}
			all = c.prose(outside)
		}
		one := *s
		one.Questions = []string{s.Questions[i]}
		if far := c.answers(&one, all, false)[0]; far.Status == Found || items[i].Status == Missing && items[i].Note == "" {
			if far.Status == Found && len(own) > 0 {
				far.Note = fmt.Sprintf("in cell %d, outside of its section", far.Cell)
			}
			items[i] = far
		}
	}
	return items
}

// prose reads the text cells among some cells.
func (c *checker) prose(cells []int) []line {
	var list []line
	paragraph := 0
	for _, i := range cells {
		if cell := &c.cells[i]; !cell.code {
			list = append(list, prose(cell.lines, cell.Number, &paragraph, c.template)...)
		}
	}
	return list
}

// answers finds the answers in a text. inOrder allows for those whose question stands nowhere.
func (c *checker) answers(s *rubric.Section, text []line, inOrder bool) []Item {
	items := make([]Item, len(s.Questions))
	for i, q := range s.Questions {
		items[i] = Item{Kind: question, Name: q, Section: s.ID, Status: Missing}
	}
	anchors := findAnchors(s.Questions, text, inOrder)
	if inOrder && (len(anchors) == 0 || anchors[0].question > 0) {
		anchors = slices.Insert(anchors, 0, anchor{question: -1})
	}
	first := -1 // of the questions that share what follows
	for i, a := range anchors {
		next := anchor{begin: spot{line: len(text)}}
		if i+1 < len(anchors) {
			next = anchors[i+1]
		}
		following := a.question + 1
		if inOrder {
			following = len(items)
			for _, other := range anchors {
				if other.question > a.question {
					following = min(following, other.question)
				}
			}
		}
		if first < 0 {
			first = max(a.question, 0)
		}
		span := c.span(text, a, next)
		if i+1 < len(anchors) && a.question >= 0 && next.question == following && span.nothing() && text[a.end.line].cell == text[next.begin.line].cell {
			continue
		}
		c.share(items[first:following], span, cmp.Or(s.MinWords, enough))
		first = -1
	}
	return items
}

// span is what stands between two questions.
type span struct {
	paragraphs []paragraph
	place      int // number of the first cell with a line that keeps a place, 0 if there is none
	template   int // with a line of the template
	asked      int // with the question, 0 if it stands nowhere
}

// paragraph is one that may be an answer.
type paragraph struct {
	number, cell int
	words        []string
}

// nothing reports whether there is neither an answer nor a place for one.
func (s *span) nothing() bool { return len(s.paragraphs) == 0 && s.place == 0 }

// span reads from the end of one question to the beginning of the next.
func (c *checker) span(text []line, a, next anchor) span {
	var s span
	if a.question >= 0 {
		s.asked = text[a.end.line].cell
	}
	for i := a.end.line; i < len(text) && i <= next.begin.line; i++ {
		l := &text[i]
		from, to := l.from, len(l.words)
		if i == a.end.line {
			from = max(from, a.end.word)
		}
		if i == next.begin.line {
			if i != a.end.line || a.question < 0 {
				break // what stands before a question on its line is its label
			}
			to = next.begin.word
		}
		if l.place && s.place == 0 {
			s.place = l.cell
		}
		if l.template && s.template == 0 {
			s.template = l.cell
		}
		if from < to && !l.heading {
			if k := len(s.paragraphs); k > 0 && s.paragraphs[k-1].number == l.paragraph {
				s.paragraphs[k-1].words = slices.Concat(s.paragraphs[k-1].words, l.words[from:to])
			} else {
				s.paragraphs = append(s.paragraphs, paragraph{l.paragraph, l.cell, l.words[from:to]})
			}
		}
	}
	return s
}

// share gives the paragraphs to the items: to each its own in order, to the last one all that are left. An answer has so many words at least.
func (c *checker) share(items []Item, s span, least int) {
	if len(items) > 1 {
		// A paragraph of a word or two is no answer of its own.
		s.paragraphs = slices.DeleteFunc(s.paragraphs, func(p paragraph) bool { return len(p.words) < enough })
	}
	for i := range items {
		item := &items[i]
		var words []string
		cell := 0
		for j, p := range s.paragraphs {
			if j == i || j > i && i == len(items)-1 {
				words = slices.Concat(words, p.words)
				cell = cmp.Or(cell, p.cell)
			}
		}
		odd := ""
		if len(words) > 0 {
			odd = c.noAnswer(words, item.Name)
		}
		switch {
		case odd != "":
			item.Note = fmt.Sprintf("%s (cell %d)", odd, cell)
		case len(words) >= least:
			item.Status, item.Cell = Found, cell
		case len(words) > 0:
			item.Note = fmt.Sprintf("fewer than %d words (cell %d)", least, cell)
		case s.place > 0:
			item.Status, item.Cell, item.Note = Placeholder, s.place, fmt.Sprintf("the template's placeholder stands unchanged (cell %d)", s.place)
		case c.template.given && s.template > 0:
			item.Status, item.Cell, item.Note = Placeholder, s.template, fmt.Sprintf("nothing was added to the template (cell %d)", s.template)
		case s.asked > 0:
			item.Note = fmt.Sprintf("no answer after the question (cell %d)", s.asked)
		}
	}
}

var generic = regexp.MustCompile(`^question \d+$`)

// findAnchors finds where questions stand, in the order of the text.
func findAnchors(questions []string, text []line, labels bool) []anchor {
	var list []anchor
	for i, q := range questions {
		if generic.MatchString(q) {
			continue // the rubric says only that there is one
		}
		if a, ok := findText(splitWords(q), text); ok {
			a.question = i
			list = append(list, a)
		}
	}
	if len(list) == 0 && labels && len(questions) > 1 {
		next := 0
		for i, l := range text {
			if next < len(questions) && l.number == next+1 {
				list = append(list, anchor{next, spot{line: i}, spot{i, l.numberWords}})
				next++
			}
		}
	}
	slices.SortStableFunc(list, func(a, b anchor) int {
		return cmp.Or(a.end.line-b.end.line, a.end.word-b.end.word)
	})
	return list
}

// findText finds a question by its words, which may go over several lines of a paragraph; else the line that has nearly all of them.
// The last place counts: a list of all questions may stand before the places for the answers.
func findText(question []string, text []line) (anchor, bool) {
	if len(question) == 0 {
		return anchor{}, false
	}
	for i := len(text) - 1; i >= 0; i-- {
		for from := range text[i].words {
			if end, ok := runs(question, text, spot{i, from}); ok {
				return anchor{begin: spot{i, from}, end: end}, true
			}
		}
	}
	want := map[string]bool{}
	for _, w := range question {
		want[w] = true
	}
	if len(want) < 4 {
		return anchor{}, false
	}
	for i := len(text) - 1; i >= 0; i-- {
		l := &text[i]
		seen, last := map[string]bool{}, 0
		for j, w := range l.words {
			if want[w] && !seen[w] {
				seen[w], last = true, j+1
			}
		}
		if 5*len(seen) >= 4*len(want) {
			if !l.asks && !l.template {
				last = 0 // an answer that says the question again
			}
			return anchor{begin: spot{line: i}, end: spot{i, last}}, true
		}
	}
	return anchor{}, false
}

// runs reports whether the question's words stand in a row from a spot on, and where they end.
func runs(question []string, text []line, at spot) (spot, bool) {
	paragraph := text[at.line].paragraph
	for _, w := range question {
		for at.word >= len(text[at.line].words) {
			at = spot{line: at.line + 1}
			if at.line == len(text) || text[at.line].paragraph != paragraph {
				return spot{}, false
			}
		}
		if text[at.line].words[at.word] != w {
			return spot{}, false
		}
		at.word++
	}
	return at, true
}
