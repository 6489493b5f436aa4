package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"tandem/internal/grader/ask"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

// Cell is one of a submission's notebook, as its pages show it.
type Cell struct {
	Number  int           `json:"number"` // from 1, by which findings name it
	Kind    notebook.Kind `json:"kind"`
	Count   int           `json:"count,omitempty"` // as Jupyter shows it, In [3]; 0 if it was not run
	Source  string        `json:"source"`
	Outputs []string      `json:"outputs,omitempty"` // as text
}

// Cells are those of a notebook that hold anything; mask takes the student's name out of their texts.
func Cells(nb *notebook.Notebook, mask func(string) string) []Cell {
	cells := []Cell{}
	for i := range nb.Cells {
		c := &nb.Cells[i]
		out := Cell{Number: c.Number, Kind: c.Kind, Count: c.Count, Source: mask(c.Source)}
		for _, o := range c.Outputs {
			for _, text := range ask.OutputText(&o) {
				out.Outputs = append(out.Outputs, mask(text))
			}
		}
		if strings.TrimSpace(c.Source) != "" || len(out.Outputs) > 0 {
			cells = append(cells, out)
		}
	}
	return cells
}

// Label is how the cell is called.
func (c Cell) Label() string {
	if c.Count > 0 {
		return fmt.Sprintf("cell %d, In [%d]", c.Number, c.Count)
	}
	return fmt.Sprintf("cell %d", c.Number)
}

// WriteNotebook keeps the cells of a submission.
func (d *Dir) WriteNotebook(id string, cells []Cell) error {
	if err := checkID(id); err != nil {
		return err
	}
	data, err := json.Marshal(cells)
	if err != nil {
		return fmt.Errorf("encode cells of %s: %w", id, err)
	}
	if err := d.replace("instructor/notebooks/"+id+".json", data); err != nil {
		return fmt.Errorf("write cells of %s: %w", id, err)
	}
	return nil
}

// ReadNotebook reads the cells of a submission, none if they were not kept.
func (d *Dir) ReadNotebook(id string) ([]Cell, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	name := "instructor/notebooks/" + id + ".json"
	data, err := d.root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read cells of %s: %w", id, err)
	}
	var cells []Cell
	if err := json.Unmarshal(data, &cells); err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s is damaged; grade again with --resume", name)
	}
	return cells, nil
}

// rubricFile is the rubric by which the folder was graded last.
const rubricFile = "instructor/rubric.json"

// WriteRubric keeps the rubric, so that points can be computed again without the instructor's files.
func (d *Dir) WriteRubric(r *rubric.Rubric) error {
	if err := d.replace(rubricFile, r.Raw); err != nil {
		return fmt.Errorf("write rubric: %w", err)
	}
	return nil
}

// ReadRubric reads it.
func (d *Dir) ReadRubric() (*rubric.Rubric, error) {
	data, err := d.root.ReadFile(rubricFile)
	if err != nil {
		return nil, fmt.Errorf("read rubric: %w", err)
	}
	return rubric.Read(data)
}

// Releasable says why a student must not see a submission's grade yet, "" if nothing speaks against it.
func (s *Student) Releasable() string {
	switch s.Status {
	case Final:
		return ""
	case Graded:
		return ""
	case Failed:
		return "could not be graded"
	}
	if s.Score != nil && !s.Score.Certain {
		return "its points are a range"
	}
	return "needs review"
}

// Release writes the page that a student gets, and the results for Gradescope. Without solution it has no value of the solution's.
func (d *Dir) Release(s *Student, r *rubric.Rubric, cells []Cell, solution bool) error {
	if err := checkID(s.ID); err != nil {
		return err
	}
	p := newStudentPage(s, r, cells)
	p.Released, p.Solution = true, solution
	if !solution {
		p.hideSolution()
	}
	page, err := render("student.html", p)
	if err != nil {
		return fmt.Errorf("make page of %s: %w", s.ID, err)
	}
	if err := d.writeGradescope(s); err != nil {
		return fmt.Errorf("write Gradescope results of %s: %w", s.ID, err)
	}
	if err := d.replace("students/"+s.ID+".html", page); err != nil {
		return fmt.Errorf("write page of %s: %w", s.ID, err)
	}
	return nil
}

// Withdraw takes back what was released of a submission; it says whether there was anything.
func (d *Dir) Withdraw(id string) (bool, error) {
	if err := checkID(id); err != nil {
		return false, err
	}
	err := d.root.Remove("students/" + id + ".html")
	was := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return was, errors.Join(err, d.root.RemoveAll("gradescope/"+id))
}

// WriteBlind writes a page with a notebook and the criteria by which it is to be judged, and nothing else; it returns its name.
func (d *Dir) WriteBlind(id string, r *rubric.Rubric, criteria []rubric.Criterion, cells []Cell) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	page, err := render("blind.html", struct {
		Title, ID string
		Criteria  []rubric.Criterion
		Cells     []Cell
	}{cmp.Or(r.Info.Title, r.Info.Name), id, criteria, cells})
	if err != nil {
		return "", fmt.Errorf("make blind page of %s: %w", id, err)
	}
	name := "instructor/blind/" + id + ".html"
	if err := d.replace(name, page); err != nil {
		return "", fmt.Errorf("write blind page of %s: %w", id, err)
	}
	return name, nil
}

// hideSolution takes the solution's values out of what differs. Where a row or line of the solution is missing, its name alone would tell it.
func (p *studentPage) hideSolution() {
	hidden := make([]outputs.Comparison, len(p.Differ))
	for i, c := range p.Differ {
		differences := make([]outputs.Discrepancy, 0, len(c.Differences))
		for _, d := range c.Differences {
			if d.Got == outputs.NoSuchRow || d.Got == outputs.NoSuchLine {
				d.Where = "something that the solution shows"
			}
			d.Want = ""
			differences = append(differences, d)
		}
		c.Differences = differences
		hidden[i] = c
	}
	p.Differ = hidden
}

// Said is the written feedback: the model's words as the instructor left them, nil if there are none.
func (s *Student) Said() *ask.Answer {
	switch {
	case s.Overrides != nil && s.Overrides.Feedback != nil:
		return s.Overrides.Feedback
	case s.Feedback != nil:
		return s.Feedback.Answer
	}
	return nil
}

// Notes are the instructor's own words to the student.
func (s *Student) Notes() []Note {
	if s.Overrides == nil {
		return nil
	}
	return s.Overrides.Notes
}

// A Remark is a text of the feedback, with the name by which it is changed.
type Remark struct{ ID, Text string }

// Remarks lists the texts of the feedback as they stand.
func (s *Student) Remarks() (list []Remark) {
	add := func(id, text string) {
		if text != "" {
			list = append(list, Remark{id, text})
		}
	}
	if a := s.Said(); a != nil {
		add("summary", a.Summary)
		for i, text := range a.Strengths {
			add(fmt.Sprintf("strengths.%d", i+1), text)
		}
		for i, improve := range a.Improvements {
			add(fmt.Sprintf("improvements.%d", i+1), improve.What)
		}
		add("question", a.Question)
	}
	for _, n := range s.Notes() {
		add(fmt.Sprintf("notes.%d", n.Line), n.Text)
	}
	return list
}

// Form is what a student writes who asks for a second look: plain text, which the instructor's review reads back.
func (p *studentPage) Form() string {
	return "REGRADE REQUEST\nsubmission: " + p.ID + "\nassignment: " + p.Assignment + "\npart: \nbecause: \n"
}

// Ref is a cell that findings name.
type Ref struct {
	Number int
	Label  string
	Shown  bool // it stands on the page
}

// Ref finds a cell by its number.
func (p *studentPage) Ref(number int) Ref {
	for _, c := range p.Cells {
		if c.Number == number {
			return Ref{number, c.Label(), true}
		}
	}
	return Ref{number, fmt.Sprintf("cell %d", number), false}
}
