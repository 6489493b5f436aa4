// Package overrides is what the instructor decides in place of the program: points, credits, comments, what is final, and what counts for the class. The decisions
// are lines of a file that is only ever appended to, DIR/instructor/overrides.jsonl; each holds the hash of the line before, so that one that was changed or taken out is noticed.
package overrides

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"tandem/internal/grader/journal"
	"tandem/internal/grader/report"
	"tandem/internal/grader/score"
)

// File is the file's place in the folder of reports.
const File = "instructor/overrides.jsonl"

// version is that of the lines.
const version = 1

// Action is what a line does.
type Action string

// The actions.
const (
	Points  Action = "points"  // sets those of an element, or of the whole
	Credit  Action = "credit"  // sets how much of an item or an output counts
	Comment Action = "comment" // adds, changes or deletes a comment
	Final   Action = "final"   // says that the submission's grade is final
	Class   Action = "class"   // says whether a thing counts for the class
	Undo    Action = "undo"    // takes another line back
)

// Line is one decision.
type Line struct {
	V       int            `json:"v"`
	N       int            `json:"n"` // from 1
	At      time.Time      `json:"at"`
	By      string         `json:"by"`                // who
	Student string         `json:"student,omitempty"` // pseudonym; none with Class and Undo
	Do      Action         `json:"do"`
	Element string         `json:"element,omitempty"` // with Points; "" is the whole
	Points  *float64       `json:"points,omitempty"`
	Thing   *score.Thing   `json:"thing,omitempty"`   // with Credit and Class
	Credit  *float64       `json:"credit,omitempty"`  // 0 to 1
	Comment string         `json:"comment,omitempty"` // which: summary, strengths.1, improvements.2, question, notes.7 (the line that added it); "" adds one
	Text    string         `json:"text,omitempty"`    // of the comment; "" deletes it
	Verdict report.Verdict `json:"verdict,omitempty"` // with Class
	Of      int            `json:"of,omitempty"`      // with Undo: the line
	Why     string         `json:"why,omitempty"`
	Was     string         `json:"was,omitempty"`      // what it rests on: what the program said then
	Rests   string         `json:"notebook,omitempty"` // and the SHA-256 of the notebook that it said it of
	Prev    string         `json:"prev"`               // SHA-256 of the line before in hex, "" in the first
}

// What says in a few words what is decided.
func (l *Line) What() string {
	switch l.Do {
	case Points:
		if l.Element == "" {
			return fmt.Sprintf("points: %g", *l.Points)
		}
		return fmt.Sprintf("points of element %s: %g", l.Element, *l.Points)
	case Credit:
		return fmt.Sprintf("credit for %s: %g", l.Thing, *l.Credit)
	case Comment:
		switch {
		case l.Comment == "":
			return "comment added"
		case l.Text == "":
			return "comment " + l.Comment + " deleted"
		}
		return "comment " + l.Comment + " changed"
	case Class:
		if l.Verdict == report.Count {
			return l.Thing.String() + " counts"
		}
		return l.Thing.String() + " counts for nobody"
	case Undo:
		return fmt.Sprintf("line %d taken back", l.Of)
	}
	return "final"
}

// Log is the file and what it says.
type Log struct {
	Lines []Line

	file *journal.Journal
	last string // hash of the last line
}

// Open reads the file of a folder of reports, if it has one. shown is the folder as the user knows it.
func Open(root *os.Root, shown string) (*Log, error) {
	l := &Log{}
	file, err := journal.Open(root, File, shown, "it was changed by hand, or lines are gone: put the file back as it was", l.take)
	if err != nil {
		return nil, err
	}
	l.file = file
	return l, nil
}

// take takes one line. Lines of a damaged file may say anything.
func (l *Log) take(text []byte) error {
	var n Line
	if err := journal.Decode(text, &n); err != nil {
		return errors.New("it is no decision")
	}
	if n.V != version {
		return fmt.Errorf("it is of version %d, and this program reads version %d", n.V, version)
	}
	if n.N != len(l.Lines)+1 || n.Prev != l.last {
		return errors.New("it does not follow the line before")
	}
	if !n.whole() {
		return errors.New("it says less than it must")
	}
	l.add(n, text)
	return nil
}

// whole reports whether a line has what its action needs.
func (l *Line) whole() bool {
	switch l.Do {
	case Points:
		return l.Student != "" && l.Points != nil
	case Credit:
		return l.Student != "" && l.Thing != nil && l.Credit != nil
	case Comment:
		return l.Student != "" && (l.Comment != "" || l.Text != "")
	case Final:
		return l.Student != ""
	case Class:
		return l.Thing != nil && (l.Verdict == report.Count || l.Verdict == report.Ignore)
	case Undo:
		return l.Of > 0 && l.Of < l.N
	}
	return false
}

func (l *Log) add(n Line, text []byte) {
	sum := sha256.Sum256(text)
	l.last = hex.EncodeToString(sum[:])
	l.Lines = append(l.Lines, n)
}

// Append adds a decision, which gets its number; when it returns, it is on the disk.
func (l *Log) Append(n Line) (Line, error) {
	n.V, n.N, n.Prev = version, len(l.Lines)+1, l.last
	text, err := l.file.Append(n)
	if err == nil {
		l.add(n, text)
	}
	return n, err
}

// InForce lists the lines that no later one takes back.
func (l *Log) InForce() []Line {
	undone := map[int]bool{}
	var list []Line
	for _, n := range slices.Backward(l.Lines) {
		switch {
		case undone[n.N]:
		case n.Do == Undo:
			undone[n.Of] = true
		default:
			list = append(list, n)
		}
	}
	slices.Reverse(list)
	return list
}

// Verdict is what the instructor has decided about a thing for the class, "" if nothing.
func (l *Log) Verdict(t score.Thing) report.Verdict {
	for _, n := range slices.Backward(l.InForce()) {
		if n.Do == Class && *n.Thing == t {
			return n.Verdict
		}
	}
	return ""
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }
