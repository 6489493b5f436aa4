package outputs

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTokens is how many words and numbers of a text are read.
const maxTokens = 20000

// tokenShape is a word, a number or a comparison; what else stands in a text is punctuation.
var tokenShape = regexp.MustCompile(`[\pL_][\pL\pM\d_]*(?:['’.][\pL\d_]+)*|[-+−]?[$€£¥]?(?:\d{1,3}(?:\.\d{3})+,\d{1,2}\b|\d+,\d{2}\b|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?(?: ?%)?|[<>≤≥]=?`)

// tokens reads a text into its words, folded, and its numbers.
func tokens(s string) []scalar {
	var list []scalar
	for _, at := range tokenShape.FindAllStringIndex(s, maxTokens) {
		token := s[at[0]:at[1]]
		// A hyphen within a date or a name is no sign.
		if before, _ := utf8.DecodeLastRuneInString(s[:at[0]]); unicode.IsLetter(before) || unicode.IsDigit(before) {
			token = strings.TrimLeft(token, "-+−")
		}
		t := readScalar(token)
		if t.kind == absent {
			t.kind, t.word = word, "na"
		}
		list = append(list, t)
	}
	return list
}

// textLine is one line of a text.
type textLine struct {
	shown  string
	tokens []scalar
}

// maxTextLines is how many lines of a text are compared one by one.
const maxTextLines = 200

func textLines(s string) []textLine {
	var list []textLine
	for line := range strings.SplitSeq(s, "\n") {
		if t := tokens(line); len(t) > 0 {
			list = append(list, textLine{line, t})
			if len(list) == maxTextLines {
				break
			}
		}
	}
	return list
}

// compareTokens compares words and numbers in their order. The share is the part of want that is equal, place by place.
func compareTokens(want, got []scalar, tolerance float64) (equal bool, share float64, agreed agreement) {
	equal = len(want) == len(got)
	hits := 0
	for i := range min(len(want), len(got)) {
		l := alikeScalars(want[i], got[i], tolerance)
		if l.grade == apart {
			equal = false
			continue
		}
		agreed.add(l)
		hits++
	}
	return equal, float64(hits) / float64(max(len(want), len(got), 1)), agreed
}

// compareTexts compares two texts: as a whole, or else line by line, so that the order of lines and further lines do not matter.
func compareTexts(want, got string, tolerance float64) outcome {
	all, other := tokens(want), tokens(got)
	if equal, _, agreed := compareTokens(all, other, tolerance); equal {
		return outcome{equal: true, share: 1, notes: agreed.notes(tolerance)}
	}
	wanted, gotten := textLines(want), textLines(got)
	used := make([]bool, len(gotten))
	var o outcome
	var agreed agreement
	var left []int
	hits := 0
lines:
	for i, w := range wanted {
		for j, g := range gotten {
			if used[j] {
				continue
			}
			if equal, _, a := compareTokens(w.tokens, g.tokens, tolerance); equal {
				used[j] = true
				hits++
				agreed.join(a)
				continue lines
			}
		}
		left = append(left, i)
	}
	if len(left) == 0 && len(wanted) < maxTextLines {
		note := "equal but for the order of the lines"
		if len(gotten) > len(wanted) {
			note = "it stands among further lines"
		}
		return outcome{equal: true, share: 1, notes: append(agreed.notes(tolerance), note)}
	}
	for _, i := range left {
		best, share := -1, 0.0
		for j, g := range gotten {
			if _, s, _ := compareTokens(wanted[i].tokens, g.tokens, tolerance); !used[j] && s > share {
				best, share = j, s
			}
		}
		d := Discrepancy{Where: "text", Want: clip(wanted[i].shown), Got: NoSuchLine}
		if len(wanted) > 1 {
			d.Where = "line of text"
		}
		switch {
		case best >= 0:
			used[best] = true
			d.Got = clip(gotten[best].shown)
		case len(wanted) == 1 && len(gotten) == 1:
			d.Got = clip(gotten[0].shown)
		}
		o.differ(d)
		o.share += share
	}
	o.share = (o.share + float64(hits)) / float64(max(len(wanted), 1))
	if equalNumbers(all, other, tolerance) {
		o.notes = append(o.notes, "the numbers agree, the words differ")
	}
	if len(o.diffs) == 0 {
		o.differ(Discrepancy{Where: "text", Want: clip(want), Got: clip(got)})
	}
	return o
}

// equalNumbers reports whether two texts have the same numbers in the same order, one at least.
func equalNumbers(want, got []scalar, tolerance float64) bool {
	a, b := onlyNumbers(want), onlyNumbers(got)
	equal, _, _ := compareTokens(a, b, tolerance)
	return equal && len(a) > 0
}

func onlyNumbers(list []scalar) []scalar {
	var numbers []scalar
	for _, s := range list {
		if s.kind == numeric {
			numbers = append(numbers, s)
		}
	}
	return numbers
}
