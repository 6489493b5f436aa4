package grading

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"tandem/internal/atomicfile"
	"tandem/internal/grader"
	"tandem/internal/grader/intake"
	"tandem/internal/grader/report"
	"tandem/jobs"
)

// The files of a class.
const (
	submissions  = "submissions"
	rubricFile   = "rubric.json"
	solutionFile = "solution.ipynb"
	templateFile = "template.ipynb"
	grades       = "grades"
	keptFile     = "class.json"
)

// Kept is what there is to know of a class beside its files.
type Kept struct {
	User       string    `json:"user"`                 // who made it
	Assignment string    `json:"assignment,omitempty"` // of an nbgrader tree, as --assignment
	Notebook   string    `json:"notebook,omitempty"`   // where each student handed in several, as --notebook
	LeftOut    []LeftOut `json:"left_out,omitempty"`   // of what was uploaded
}

// LeftOut is a file that was not taken.
type LeftOut struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

// State is how far a class is.
type State string

// The states.
const (
	Checking State = "being checked"
	Begun    State = "being graded"
	Stopped  State = "not finished" // or another program is at it
	Graded   State = "graded"
	Waiting  State = "not begun"
)

// Class is a class as it stands.
type Class struct {
	Name string
	Kept
	Owner                      string // whose jobs and texts these are; "" if nobody knows
	Rubric, Solution, Template bool   // these are there
	Files                      int    // in submissions
	Started                    bool   // there is a grading to go on with
	Summary                    *report.Class
	Names                      map[string]string // of students, by pseudonym

	Check    *Check // the last one, nil if there was none since the gateway began
	Checking bool
	Run      *Run   // that is going on, nil if none is
	Problem  string // why the last one ended
}

// State is how far it is.
func (c *Class) State() State {
	switch {
	case c.Run != nil:
		return Begun
	case c.Checking:
		return Checking
	case !c.Started:
		return Waiting
	case c.Summary == nil || c.Summary.FinishedAt.IsZero():
		return Stopped
	}
	return Graded
}

// Class reads a class.
func (d *Desk) Class(name string) (*Class, error) {
	unknown := jobs.Errorf(jobs.CodeInvalid, "there is no class %.100q", name)
	if known, err := NameOf(name); err != nil || known != name {
		return nil, unknown
	}
	root, err := d.root.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknown
	}
	if err != nil {
		return nil, fmt.Errorf("open class: %w", err)
	}
	defer root.Close()
	c := &Class{Name: name, Rubric: has(root, rubricFile), Solution: has(root, solutionFile), Template: has(root, templateFile), Names: map[string]string{}}
	if c.Kept, err = kept(root); err != nil {
		return nil, err
	}
	_ = fs.WalkDir(root.FS(), submissions, func(_ string, e fs.DirEntry, err error) error { // what cannot be read, the check tells
		if err == nil && e.Type().IsRegular() {
			c.Files++
		}
		return nil
	})
	_, begun, err := grader.Begun(d.path(name, grades))
	if err != nil {
		return nil, err
	}
	if c.Owner, c.Started = c.User, begun != ""; c.Started {
		c.Owner = begun
	}
	if err := c.read(root); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.work[name]; w != nil {
		c.Check, c.Problem, c.Checking = w.check, w.problem, w.cancel != nil && w.run == nil
		if w.run != nil {
			c.Run = w.run.copy()
		}
	}
	return c, nil
}

// read reads what was written about a class, if anything was.
func (c *Class) read(class *os.Root) error {
	root, err := class.OpenRoot(grades)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open grades: %w", err)
	}
	defer root.Close()
	if c.Summary, err = report.NewDir(root).ReadClass(); err != nil {
		return err
	}
	roster, err := intake.OpenRoster(root)
	if err != nil {
		return err
	}
	for _, s := range roster.Students() {
		c.Names[s.ID] = s.Name
	}
	return nil
}

func kept(class *os.Root) (k Kept, err error) {
	data, err := class.ReadFile(keptFile)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil // it was begun in a terminal
	}
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		return k, fmt.Errorf("read %s: %w", keptFile, err)
	}
	return k, nil
}

// keep writes what there is to know of a class.
func keep(class *os.Root, k Kept) error {
	data, err := json.MarshalIndent(k, "", "\t")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteIn(class, keptFile, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", keptFile, err)
	}
	return nil
}

// Command is how a terminal goes on with the class, in its folder.
func (c *Class) Command() string {
	words := []string{"submitter grade", submissions, "--rubric", rubricFile, "--solution", solutionFile}
	if c.Template {
		words = append(words, "--template", templateFile)
	}
	for _, one := range [][2]string{{"--assignment", c.Assignment}, {"--notebook", c.Notebook}} {
		if one[1] != "" {
			words = append(words, one[0], quoted(one[1]))
		}
	}
	words = append(words, "--out", grades)
	if c.Started {
		words = append(words, "--resume")
	}
	return strings.Join(append(words, "--user", quoted(c.Owner)), " ")
}

// quoted is a word as a shell takes it, whatever is in it.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// below is a file's path within the submissions.
func (d *Desk) below(class, file string) string {
	rel, err := filepath.Rel(d.path(class, submissions), file)
	if err != nil {
		return filepath.Base(file)
	}
	return filepath.ToSlash(rel)
}
