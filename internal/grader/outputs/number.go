package outputs

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// number is a number as an output shows it: its digits tell how far it was rounded.
type number struct {
	value    float64
	unit     float64 // what one more in the last digit shown is worth: 0.01 for 12.35, 1000 for 1.5e4; 0 for infinity
	digits   int     // significant digits shown
	places   int     // digits shown after the point
	exponent bool    // written as 1.5e4
	whole    bool    // shown in full and without a fraction: a count, which must be equal exactly
	percent  bool    // followed by %: value is what stands before it
}

// numberShape is a number with an optional sign, currency, thousands separators (comma, apostrophe, narrow spaces), fraction, exponent and percent sign.
var numberShape = regexp.MustCompile(`^([-+−]?) ?[$€£¥]? ?([-+−]?)(\d{1,3}(?:[,'’\x{a0}\x{2009}\x{202f}]\d{3})+|\d*)(?:(\.)(\d*))?(?:[eE]([-+]?\d{1,3}))? ?([%€£¥]?)$`)

// withComma and withPoints are numbers as half of Europe writes them: 1.234,56 and 1.234.567.
var (
	withComma  = regexp.MustCompile(`^(\D*)(\d{1,3}(?:\.\d{3})+|\d+),(\d+)(\D*)$`)
	withPoints = regexp.MustCompile(`^\D*\d{1,3}(?:\.\d{3}){2,}\D*$`)
)

// withPoint writes a number that has a decimal comma with a point. What may as well have its thousands separated (1,234) and what may have a decimal point (1.234) stay as they are.
func withPoint(s string) string {
	if withPoints.MatchString(s) {
		return strings.ReplaceAll(s, ".", "")
	}
	m := withComma.FindStringSubmatch(s)
	if m == nil || len(m[3]) == 3 && len(m[2]) <= 3 && m[2] != "0" {
		return s
	}
	return m[1] + strings.ReplaceAll(m[2], ".", "") + "." + m[3] + m[4]
}

// maxNumber is the longest text that is read as a number, in bytes.
const maxNumber = 64

// readNumber reads a text that is one number and nothing else.
func readNumber(s string) (number, bool) {
	s = strings.TrimSpace(s)
	if s == "" || len(s) > maxNumber {
		return number{}, false
	}
	switch s {
	case "Inf", "inf", "∞":
		return number{value: math.Inf(1), whole: true}, true
	case "-Inf", "-inf", "-∞":
		return number{value: math.Inf(-1), whole: true}, true
	}
	if !strings.ContainsAny(s, "0123456789") {
		return number{}, false
	}
	m := numberShape.FindStringSubmatch(withPoint(s))
	if m == nil {
		return number{}, false
	}
	sign, inner, before, point, after, exponent, mark := m[1], m[2], m[3], m[4], m[5], m[6], m[7]
	if before == "" && after == "" || sign != "" && inner != "" {
		return number{}, false
	}
	before = strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, before)

	plain := before + "." + after + "e" + cmp.Or(exponent, "0")
	value, err := strconv.ParseFloat("0"+plain, 64)
	if err != nil {
		return number{}, false
	}
	if sign+inner == "-" || sign+inner == "−" {
		value = -value
	}
	power, err := strconv.Atoi(cmp.Or(exponent, "0"))
	if err != nil {
		return number{}, false
	}
	return number{
		value:    value,
		unit:     math.Pow10(power - len(after)),
		digits:   len(strings.TrimLeft(before+after, "0")),
		places:   len(after),
		exponent: exponent != "",
		// R's tibbles show 15234. for 15233.6: the bare point says that a fraction is hidden.
		whole:   exponent == "" && value == math.Trunc(value) && (point == "" || after != ""),
		percent: mark == "%",
	}, true
}

// grade is how far two values agree.
type grade int

// The grades, worst first.
const (
	apart   grade = iota // not equal
	near                 // equal within the tolerance
	rounded              // the one is the other rounded to the digits that it shows
	same                 // equal
)

// likeness is how far two values agree, and for rounded numbers the one that was rounded.
type likeness struct {
	grade  grade
	coarse number
}

// alike compares two numbers. A percentage is compared as a share and, since a column may say in its name that it holds percentages, as the figure before the sign.
func alike(a, b number, tolerance float64) likeness {
	if a.percent == b.percent {
		return alikePlain(a, b, tolerance)
	}
	asShare := alikePlain(a.share(), b.share(), tolerance)
	asFigure := alikePlain(a, b, tolerance)
	if asShare.grade >= asFigure.grade {
		return asShare
	}
	return asFigure
}

// share is a percentage as a part of one; another number as it is.
func (n number) share() number {
	if !n.percent {
		return n
	}
	n.value /= 100
	n.unit /= 100
	n.places += 2
	n.whole = false
	return n
}

// remnant is what rounding errors leave of a zero, at most.
const remnant = 1e-9

func alikePlain(a, b number, tolerance float64) likeness {
	switch {
	case a.value == b.value:
		return likeness{grade: same}
	case a.whole && b.whole, math.IsInf(a.value, 0), math.IsInf(b.value, 0):
		return likeness{}
	}
	gap, size := math.Abs(a.value-b.value), math.Max(math.Abs(a.value), math.Abs(b.value))
	coarse, fine := a, b
	if coarse.unit < fine.unit {
		coarse, fine = b, a
	}
	// The tiny addition is for halves, which binary fractions do not meet exactly.
	if coarse.unit > fine.unit && coarse.digits >= 2 && gap <= coarse.unit/2+size*1e-12 {
		return likeness{grade: rounded, coarse: coarse}
	}
	if gap <= tolerance*size || (a.value == 0 || b.value == 0) && gap < remnant {
		return likeness{grade: near}
	}
	return likeness{}
}

// agreement sums up how the numbers of an output agree.
type agreement struct {
	near    bool
	rounded bool
	coarse  number // the most coarsely rounded
}

func (a *agreement) add(l likeness) {
	switch l.grade {
	case near:
		a.near = true
	case rounded:
		if !a.rounded || l.coarse.unit > a.coarse.unit {
			a.coarse = l.coarse
		}
		a.rounded = true
	}
}

func (a *agreement) join(b agreement) {
	a.near = a.near || b.near
	if b.rounded {
		a.add(likeness{rounded, b.coarse})
	}
}

// notes says it for a person, as in "rounded to 2 decimals"; nothing if all are the same.
func (a *agreement) notes(tolerance float64) []string {
	var notes []string
	if a.rounded {
		switch n := a.coarse; {
		case n.exponent:
			notes = append(notes, fmt.Sprintf("rounded to %d digits", n.digits))
		case n.places == 0:
			notes = append(notes, "rounded to whole numbers")
		case n.places == 1:
			notes = append(notes, "rounded to 1 decimal")
		default:
			notes = append(notes, fmt.Sprintf("rounded to %d decimals", n.places))
		}
	}
	if a.near {
		notes = append(notes, fmt.Sprintf("equal within %s %%", strconv.FormatFloat(tolerance*100, 'g', 4, 64)))
	}
	return notes
}
