// Package intake finds the submissions that the instructor names: notebooks, flat folders, nbgrader trees
// (step/student/assignment/notebook.ipynb) and ZIP files as learning systems export them. Each student gets a pseudonym at the door; whose it is stands in
// one file, the roster, that is readable by its owner only. Nothing else of Tandem sees a name.
package intake

import (
	"context"
	"os"

	"tandem/internal/jobs"
)

// Submission is one student's notebook.
type Submission struct {
	ID      string // pseudonym, as in s-7kq2mx: letters, digits and hyphens
	SHA256  string // of the file, in hex; "" if it cannot be read
	Size    int64  // bytes
	Late    bool   // the learning system marks it so in the file's name
	Problem error  // why it cannot be graded (a *jobs.Error, without the student's name), nil if it can

	read func() ([]byte, error)
}

// Read reads the file. It is read anew each time, so that a class needs the memory of one notebook.
func (s *Submission) Read() ([]byte, error) { return s.read() }

// Student is a line of the roster: what only the instructor sees.
type Student struct {
	ID         string `json:"id"`                   // pseudonym
	Name       string `json:"name"`                 // as the path says: a name or a login
	LMSID      string `json:"lms_id,omitempty"`     // the learning system's number for the student, if the path has one
	Assignment string `json:"assignment,omitempty"` // of an nbgrader tree: the folder's name
	File       string `json:"file"`                 // where the notebook lies, an entry of a ZIP file as archive.zip!entry
	Key        string `json:"key"`                  // by which the student is found again in a later run: Name and LMSID, or the path where that is not unique
}

// Roster maps pseudonyms to students. It is kept in DIR/instructor/roster.json (folder 0700, file 0600).
type Roster struct {
	dir      *os.Root
	students map[string]*Student // by key
}

// OpenRoster reads the roster below a folder, or begins one.
func OpenRoster(dir *os.Root) (*Roster, error) {
	return nil, jobs.Errorf(jobs.CodeInvalid, "the roster is not built yet")
}

// Student returns whose pseudonym it is.
func (r *Roster) Student(id string) (Student, bool) { return Student{}, false }

// Students lists all in the order of their names.
func (r *Roster) Students() []Student { return nil }

// Class is what was found.
type Class struct {
	Submissions []*Submission // in the order of the students' names, so that a run is repeatable; problems included
	Warnings    []string      // for the screen: two students of one name, files that are no notebooks, several notebooks of one student; pseudonyms, never names
}

// Close closes the ZIP files.
func (c *Class) Close() error { return nil }

// Collect finds the submissions under the paths and gives each student a pseudonym, the same as in earlier runs; the roster is written before
// it returns. assignment chooses among the assignments of an nbgrader tree, and may be "" if there is but one. A path that is not there, a folder without
// notebooks and a ZIP file that is not safe to read are errors of code [jobs.CodeInvalid]; a single file that cannot be graded is a submission with a Problem.
func Collect(ctx context.Context, paths []string, assignment string, roster *Roster) (*Class, error) {
	return nil, jobs.Errorf(jobs.CodeInvalid, "collecting submissions is not built yet")
}
