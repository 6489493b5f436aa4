package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"tandem/internal/grader/intake"
	"tandem/internal/sanitize"
)

// csvOf writes a table. Its cells come from [text] and [number].
func csvOf(head []string, lines [][]string) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	// Writing into memory does not fail.
	_ = w.Write(head)
	_ = w.WriteAll(lines)
	return b.Bytes()
}

// text makes a cell that no spreadsheet computes: what would begin a formula gets an apostrophe in front, in each part that a spreadsheet which separates
// columns by semicolons would make a cell of its own. Source: https://owasp.org/www-community/attacks/CSV_Injection
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, sanitize.Text(s))
	parts := strings.Split(s, ";")
	for i, part := range parts {
		start := strings.TrimLeftFunc(part, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }) // Cf: what has no width
		if strings.IndexFunc(start, beginsFormula) == 0 {
			parts[i] = "'" + part
		}
	}
	return strings.Join(parts, ";")
}

func beginsFormula(r rune) bool { return strings.ContainsRune("=+-@＝＋－＠", r) }

// number writes a figure with at most two decimals, as the score has them.
func number(v float64) string { return strconv.FormatFloat(hundredths(v), 'f', -1, 64) }

// points are the cells of a row: points and percent are empty unless certain, the range unless there is one.
func points(row Row) (certain, percent, low, high string) {
	if row.Certain {
		certain, percent = number(row.Points), number(row.Percent)
	}
	if row.Scored() {
		low, high = number(row.Low), number(row.High)
	}
	return certain, percent, low, high
}

func grades(c *Class) []byte {
	var lines [][]string
	for _, row := range c.Students {
		certain, percent, low, high := points(row)
		lines = append(lines, []string{row.ID, text(string(row.Status)), certain, low, high, number(c.MaxPoints), percent, text(strings.Join(row.Why, "; ")), text(decided(row.Decided))})
	}
	return csvOf([]string{"id", "status", "points", "low", "high", "max", "percent", "reasons", "decisions"}, lines)
}

// decided says what the instructor has decided: who, when and why.
func decided(list []Decision) string {
	var parts []string
	for _, d := range list {
		part := fmt.Sprintf("%s (%s, %s)", d.What, d.By, d.At.UTC().Format(time.DateTime))
		if d.Why != "" {
			part += ": " + d.Why
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// person is a student with what became of the submission.
type person struct {
	intake.Student
	row Row
}

// enrolled are the students that have a submission, in the order given.
func enrolled(c *Class, students []intake.Student) []person {
	var people []person
	for _, s := range students {
		if i := slices.IndexFunc(c.Students, func(row Row) bool { return row.ID == s.ID }); i >= 0 {
			people = append(people, person{s, c.Students[i]})
		}
	}
	return people
}

func rosterTable(people []person) []byte {
	var lines [][]string
	for _, p := range people {
		certain, _, low, high := points(p.row)
		lines = append(lines, []string{p.ID, text(p.Name), text(p.LMSID), text(p.File), text(string(p.row.Status)), certain, low, high})
	}
	return csvOf([]string{"id", "name", "lms_id", "file", "status", "points", "low", "high"}, lines)
}

func gradebook(c *Class, people []person) []byte {
	var lines [][]string
	for _, p := range people {
		certain, percent, _, _ := points(p.row)
		lines = append(lines, []string{text(p.Name), text(p.LMSID), certain, number(c.MaxPoints), percent, text(string(p.row.Status)), text(strings.Join(p.row.Why, "; "))})
	}
	return csvOf([]string{"Student", "ID", "Points", "Max", "Percent", "Status", "Comment"}, lines)
}

// CSV is a table with a line for each student; the sum is empty unless it is certain.
func (t *Totals) CSV() []byte {
	head := []string{"Student", "ID"}
	for _, part := range t.Parts {
		head = append(head, text(part))
	}
	var lines [][]string
	for _, s := range t.Students {
		line := []string{text(s.Name), text(s.LMSID)}
		for _, part := range s.Parts {
			cell := ""
			if part.Certain {
				cell = number(part.Points)
			}
			line = append(line, cell)
		}
		sum, percent := "", ""
		if s.Certain {
			sum, percent = number(s.Sum), number(100*s.Sum/t.Max)
		}
		lines = append(lines, append(line, sum, number(t.Max), percent))
	}
	return csvOf(append(head, "Points", "Max", "Percent"), lines)
}

// nbgrader writes the columns of nbgrader's own export (nbgrader/plugins/export.py). In its trees a student's folder is the student's id, and so is the
// name here where the learning system gave no number. Where nbgrader says 0 for want of a grade, the cell is empty.
func nbgrader(c *Class, people []person) []byte {
	var lines [][]string
	for _, p := range people {
		id, assignment, penalty := p.LMSID, p.Assignment, ""
		if id == "" {
			id = p.Name
		}
		if assignment == "" {
			assignment = c.Assignment
		}
		certain, _, _, _ := points(p.row)
		if certain != "" {
			penalty = "0"
		}
		lines = append(lines, []string{text(assignment), "", "", text(id), "", "", "", certain, penalty, certain, number(c.MaxPoints)})
	}
	return csvOf([]string{
		"assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score", "late_submission_penalty", "score", "max_score",
	}, lines)
}
