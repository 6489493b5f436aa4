package report

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tandem/internal/grader/check"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/score"
	"tandem/internal/look"
	"tandem/internal/sanitize"
)

// The pages: HTML around text that html/template escapes, and one style sheet, which stands in each page.
//
//go:embed page
var pageFiles embed.FS

var pages = template.Must(template.Must(template.New("base.css").Parse(look.CSS)).Funcs(template.FuncMap{
	"points": number, "words": words, "chip": chipOf, "seconds": seconds, "rate": rate, "share": share, "count": count, "list": list, "clock": clock, "signed": signed, "bar": newBar,
	"size":         func(n int) string { return size(int64(n)) },
	"join":         func(list []string) string { return strings.Join(list, " and ") },
	"alternatives": func(name string) []string { return strings.Split(name, "|") }, // left_join|merge
}).ParseFS(pageFiles, "page/*"))

// render makes a page. Whatever text came into it, the page as a whole holds no character that acts: html/template knows markup, not control characters.
func render(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		return nil, err
	}
	return []byte(sanitize.Text(b.String())), nil
}

// A chip is a state as a reader sees it: a word, and a sign and colour that say no more than the word does.
type chip struct{ Tone, Sign, Word string }

// chips are all states that pages show.
var chips = map[any]chip{
	Graded: {"good", "✓", "graded"}, Final: {"good", "✓", "final"}, Review: {"warn", "●", "needs review"}, Failed: {"bad", "✕", "could not be graded"},
	check.Found: {"good", "✓", "found"}, check.NotRun: {"warn", "●", "never run"}, check.Failed: {"bad", "✕", "ended in an error"},
	check.Placeholder: {"warn", "●", "left as in the template"}, check.Missing: {"bad", "✕", "missing"},
	check.Complete: {"good", "✓", "complete"}, check.Partial: {"warn", "●", "partly complete"}, check.Incomplete: {"bad", "✕", "incomplete"},
	outputs.Match: {"good", "✓", "matches"}, outputs.Differs: {"bad", "✕", "differs"}, outputs.Missing: {"warn", "●", "nothing to compare"},
	score.Met: {"good", "✓", "met"}, score.Partly: {"warn", "●", "partly met"}, score.NotMet: {"bad", "✕", "not met"}, score.Unclear: {"plain", "?", "unclear"},
	score.Verdict(""): {"plain", "…", "no answer"},
}

// chipOf returns the chip of a state; one that is not known is shown as it is.
func chipOf(state any) chip {
	if c, known := chips[state]; known {
		return c
	}
	return chip{"plain", "", words(fmt.Sprint(state))}
}

// words makes an id readable: data_import becomes Data import.
func words(id string) string {
	s := strings.TrimSpace(strings.NewReplacer("_", " ", "-", " ").Replace(id))
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return id
	}
	return string(unicode.ToUpper(first)) + s[size:]
}

// count writes a number of things: 1 cell, 3 cells.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// grouped writes a number with its thousands apart: 12 345.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:] // narrow, and no line breaks there
	}
	return digits
}

// list writes numbers as a sentence has them: 3, 4 and 7.
func list(numbers []int) string {
	var b strings.Builder
	for i, n := range numbers {
		switch {
		case i == 0:
		case i == len(numbers)-1:
			b.WriteString(" and ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

// none stands for a figure that there is not.
const none = "–"

func seconds(s float64) string {
	if s == 0 {
		return none
	}
	decimals := 2
	if s >= 10 {
		decimals = 1
	}
	return strconv.FormatFloat(s, 'f', decimals, 64) + " s"
}

func rate(perSecond float64) string {
	if perSecond == 0 {
		return none
	}
	return strconv.FormatFloat(perSecond, 'f', 1, 64) + " tok/s"
}

// size writes a number of bytes.
func size(n int64) string {
	switch v := float64(n); {
	case v < 1e6:
		return number(v/1e3) + " kB"
	case v < 1e9:
		return number(v/1e6) + " MB"
	default:
		return number(v/1e9) + " GB"
	}
}

// share writes a share from 0 to 1 in whole percents.
func share(v float64) string { return strconv.Itoa(int(math.Round(100*v))) + "\u00a0%" }

// signed writes a change of points: +0.5, −1, ±0.
func signed(v float64) string {
	switch text := number(math.Abs(v)); {
	case text == "0":
		return "±0"
	case v < 0:
		return "−" + text
	default:
		return "+" + text
	}
}

// clock writes a moment.
func clock(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }

// bar is a bar of 100 units: Sure of them filled, and Open more that may be.
type bar struct{ Sure, Open float64 }

func newBar(low, high, most float64) bar {
	if most <= 0 {
		return bar{}
	}
	within := func(v float64) float64 { return hundredths(min(max(100*v/most, 0), 100)) }
	return bar{within(low), max(within(high)-within(low), 0)}
}

// A sheet is a table of figures with a line for each figure and a column for each thing measured.
type sheet struct {
	Label string // of the table, for who cannot see where it stands
	Head  []string
	Lines []sheetLine
}

type sheetLine struct {
	Name  string
	Cells []string
}

// line adds a figure, unless nobody has it.
func (s *sheet) line(name string, cells ...string) {
	for _, c := range cells {
		if c != "" && c != none {
			s.Lines = append(s.Lines, sheetLine{name, cells})
			return
		}
	}
}
