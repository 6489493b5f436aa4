package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"

	"tandem/internal/grader/intake"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

// version is that of the records, student and class.
const version = 1

// Dir is where reports go.
type Dir struct{ root *os.Root }

// NewDir returns the writer into a folder that is open already.
func NewDir(root *os.Root) *Dir { return &Dir{root} }

// WriteStudent writes a submission's JSON and its page for the instructor, with the notebook's cells if there are any. The JSON comes last: where it is, the rest is, too.
func (d *Dir) WriteStudent(s *Student, r *rubric.Rubric, cells []Cell) error {
	if err := checkID(s.ID); err != nil {
		return err
	}
	record := *s
	record.V = version
	data, err := encode(&record)
	if err != nil {
		return fmt.Errorf("encode report of %s: %w", s.ID, err)
	}
	page, err := render("student.html", newStudentPage(&record, r, cells))
	if err != nil {
		return fmt.Errorf("make page of %s: %w", s.ID, err)
	}
	if err := d.replace("reports/"+s.ID+".html", page); err != nil {
		return fmt.Errorf("write page of %s: %w", s.ID, err)
	}
	if err := d.replace("reports/"+s.ID+".json", data); err != nil {
		return fmt.Errorf("write report of %s: %w", s.ID, err)
	}
	return nil
}

// ReadStudent reads a submission's JSON, nil if there is none.
func (d *Dir) ReadStudent(id string) (*Student, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	name := "reports/" + id + ".json"
	data, err := d.root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read report of %s: %w", id, err)
	}
	var s Student
	if err := json.Unmarshal(data, &s); err != nil || s.V != version || s.ID != id {
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s is damaged or of another version: remove it, and grade this submission again (--resume --student %s)", name, id)
	}
	return &s, nil
}

// ReadClass reads summary.json, nil if there is none.
func (d *Dir) ReadClass() (*Class, error) {
	data, err := d.root.ReadFile("summary.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read summary: %w", err)
	}
	var c Class
	if err := json.Unmarshal(data, &c); err != nil || c.V != version {
		return nil, jobs.Errorf(jobs.CodeInvalid, "summary.json is damaged or of another version: grade again with --resume")
	}
	return &c, nil
}

// WriteClass writes the class's page, summary.json, grades.csv and the exports with names. People come from the roster; those without a submission in c are left out.
func (d *Dir) WriteClass(c *Class, r *rubric.Rubric, roster *intake.Roster) error {
	for _, row := range c.Students {
		if err := checkID(row.ID); err != nil {
			return err
		}
	}
	record := *c
	record.V = version
	summary, err := encode(&record)
	if err != nil {
		return fmt.Errorf("encode summary: %w", err)
	}
	page, err := render("class.html", newClassPage(&record, r))
	if err != nil {
		return fmt.Errorf("make page of the class: %w", err)
	}
	people := enrolled(&record, roster.Students())
	for _, file := range []struct {
		name string
		data []byte
	}{
		{"grades.csv", grades(&record)},
		{"instructor/roster.csv", rosterTable(people)},
		{"instructor/gradebook.csv", gradebook(&record, people)},
		{"instructor/nbgrader.csv", nbgrader(&record, people)},
		{"summary.json", summary},
		{"index.html", page},
	} {
		if err := d.replace(file.name, file.data); err != nil {
			return fmt.Errorf("write %s: %w", file.name, err)
		}
	}
	return nil
}

// replace writes a file whole or not at all.
func (d *Dir) replace(name string, data []byte) error {
	if err := d.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	part := name + ".part"
	if err := d.root.WriteFile(part, data, 0o600); err != nil {
		return errors.Join(err, d.root.RemoveAll(part))
	}
	return d.root.Rename(part, name)
}

// encode writes a record as JSON that a person can read.
func encode(record any) ([]byte, error) {
	data, err := json.MarshalIndent(record, "", "  ")
	return append(data, '\n'), err
}

// pseudonym is what a submission is called in file names.
var pseudonym = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)

// checkID makes sure that an id names a file in the folder that it should be in.
func checkID(id string) error {
	if !pseudonym.MatchString(id) {
		return jobs.Errorf(jobs.CodeInvalid, "id %q is no pseudonym: letters, digits and hyphens, 64 at most, are", id)
	}
	return nil
}
