package outputs

import (
	"fmt"
	"strings"
)

// outcome is what comparing two values came to.
type outcome struct {
	equal bool
	share float64 // of want that agrees, 0 to 1: which of several is the best
	notes []string
	diffs []Discrepancy
	more  int // differences that are not in diffs
}

// maxDifferences is how many differences of one comparison are listed.
const maxDifferences = 10

func (o *outcome) differ(d Discrepancy) {
	o.equal = false
	if len(o.diffs) == maxDifferences {
		o.more++
		return
	}
	d.Where, d.Want, d.Got = clip(d.Where), clip(d.Want), clip(d.Got)
	o.diffs = append(o.diffs, d)
}

func (o *outcome) note(format string, args ...any) {
	o.notes = append(o.notes, fmt.Sprintf(format, args...))
}

// comparable reports whether a student's value is of a kind that can stand in the place of the solution's.
func (v value) comparable(got value) bool {
	if v.kind == got.kind {
		return true
	}
	_, a := v.single()
	_, b := got.single()
	if a && b {
		return true
	}
	return a && got.kind == textKind || b && v.kind == textKind
}

// compare compares the solution's value with one of the student's.
func compare(want, got value, tolerance float64) outcome {
	a, single := want.single()
	b, singleGot := got.single()
	switch {
	case want.kind == pictureKind && got.kind == pictureKind:
		return outcome{equal: true, share: 1}
	case single && singleGot:
		return compareSingles(a, b, tolerance)
	case want.kind == tableKind && got.kind == tableKind:
		return compareTables(want.table, got.table, tolerance)
	case want.kind == textKind && got.kind == textKind:
		return compareTexts(want.text, got.text, tolerance)
	case single && got.kind == textKind:
		return compareWithin(a, got.text, tolerance)
	case singleGot && want.kind == textKind:
		if numbers := onlyNumbers(tokens(want.text)); len(numbers) == 1 {
			return compareSingles(numbers[0], b, tolerance)
		}
	}
	var o outcome
	o.differ(Discrepancy{Where: "value", Want: want.String(), Got: got.String()})
	return o
}

func compareSingles(want, got scalar, tolerance float64) outcome {
	var o outcome
	l := alikeScalars(want, got, tolerance)
	if l.grade == apart {
		o.differ(Discrepancy{Where: "value", Want: want.text, Got: got.text})
		return o
	}
	var agreed agreement
	agreed.add(l)
	return outcome{equal: true, share: 1, notes: agreed.notes(tolerance)}
}

// Numbers that stand for one value within a line of text.
const (
	maxBeside  = 4 // numbers of the line, if the value is among them
	tellDigits = 3 // that the value shows at least, to be told from a year, a rank or a count beside it
)

// compareWithin looks for a number in a text: it must be the only one of its line, or have so many digits that it is known among a few.
func compareWithin(want scalar, text string, tolerance float64) outcome {
	var o outcome
	for _, line := range textLines(text) {
		numbers := onlyNumbers(line.tokens)
		if len(numbers) > 1 && (len(numbers) > maxBeside || want.num.digits < tellDigits) {
			continue
		}
		for _, n := range numbers {
			if o = compareSingles(want, n, tolerance); o.equal && (len(numbers) == 1 || n.num.digits >= tellDigits) {
				o.note("within a text")
				return o
			}
		}
	}
	o = outcome{}
	o.differ(Discrepancy{Where: "value", Want: want.text, Got: strings.TrimSpace(text)})
	return o
}
