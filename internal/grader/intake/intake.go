// Package intake finds the submissions that the instructor names: notebooks, flat folders, nbgrader trees
// (step/student/assignment/notebook.ipynb) and ZIP files as learning systems export them. Each student gets a pseudonym at the door; whose it is stands in
// one file, the roster, that is readable by its owner only. Nothing else of Tandem sees a name.
package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"tandem/jobs"
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

// Class is what was found.
type Class struct {
	Submissions []*Submission // in the order of the students' names, so that a run is repeatable; problems included
	Warnings    []string      // for the screen: two students of one name, files that are no notebooks, several attempts of one student; pseudonyms, never names, but the paths that the instructor named

	open []io.Closer
}

// Close closes folders and ZIP files. Submissions cannot be read afterwards.
func (c *Class) Close() error {
	var errs []error
	for _, o := range c.open {
		errs = append(errs, o.Close())
	}
	c.open = nil
	return errors.Join(errs...)
}

// Choice says what of it is graded, where there is more.
type Choice struct {
	Assignment string // of an nbgrader tree
	Notebook   string // of those that each student handed in; its file's name without .ipynb
}

// Collect finds the submissions under the paths and gives each student a pseudonym, the same as in earlier runs; the roster is written before
// it returns. which.Assignment chooses among the assignments of an nbgrader tree, and may be "" if there is but one. Where a student handed in several notebooks, the one counts that
// which.Notebook names or, if that is "", the one that is called like one of own. A path that is not there, a folder without
// notebooks and a ZIP file that is not safe to read are errors of code [jobs.CodeInvalid]; a single file that cannot be graded is a submission with a Problem.
//
// Whose a file is, is read from its path: by the patterns of Canvas, Moodle, Blackboard and Brightspace; below submitted (or autograded) by those of nbgrader; otherwise a file
// that lies at the top bears its student's name, and a file in a folder is that of the folder's student.
//
// own are paths of the instructor's notebooks, which are no submissions where they lie among these: neither the very files nor copies of the same name at the top, unless
// there is nothing else. A student's notebook that is equal to one of them stays a submission.
func Collect(ctx context.Context, paths []string, which Choice, roster *Roster, own ...string) (*Class, error) {
	return collect(ctx, paths, which, roster, defaultLimits(), own...)
}

func collect(ctx context.Context, paths []string, which Choice, roster *Roster, limits limits, own ...string) (_ *Class, err error) {
	c := &Class{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if len(paths) == 0 {
		return nil, jobs.Errorf(jobs.CodeInvalid, "no submissions are named; name notebooks, folders or ZIP files")
	}
	sources, err := c.openAll(ctx, paths, limits)
	if err != nil {
		return nil, err
	}
	parts, warnings, err := arrange(sources, which.Assignment, own)
	if err == nil && len(parts) == 0 { // to see what the solution itself would get
		parts, warnings, err = arrange(sources, which.Assignment, nil)
	}
	if err != nil {
		return nil, err
	}
	c.Warnings = append(c.Warnings, warnings...)
	earlier := make([]bool, len(parts))
	for i, p := range parts {
		earlier[i] = p.newest()
		p.pick(which.Notebook, own)
		s, err := p.submission(ctx, limits)
		if err != nil {
			return nil, err
		}
		c.Submissions = append(c.Submissions, s)
	}
	c.enter(parts, roster)
	for i, s := range c.Submissions {
		if earlier[i] {
			c.warn("%s handed in more than once; the newest counts", s.ID)
		}
	}
	return c, roster.save()
}

// openAll opens the paths. What is named twice counts once.
func (c *Class) openAll(ctx context.Context, paths []string, limits limits) ([]*source, error) {
	var sources []*source
	seen := seen{}
	twice := 0
	for _, typed := range paths {
		s, open, err := openSource(ctx, typed, limits)
		if open != nil {
			c.open = append(c.open, open)
		}
		if err != nil {
			return nil, err
		}
		if s.archived != nil && seen.add(s.archived) {
			twice++
			continue
		}
		if !slices.ContainsFunc(s.files, (*file).isNotebook) {
			return nil, jobs.Errorf(jobs.CodeInvalid, "%s holds no notebook (.ipynb); name the notebooks, their folder or the ZIP file of the learning system", typed)
		}
		all := len(s.files)
		s.files = slices.DeleteFunc(s.files, func(f *file) bool { return f.info != nil && seen.add(f.info) })
		twice += all - len(s.files)
		c.tell(s)
		sources = append(sources, s)
	}
	if twice > 0 {
		c.warn("%s named twice; counted once", count(twice, "file"))
	}
	return sources, nil
}

// tell warns of what a source holds beside files.
func (c *Class) tell(s *source) {
	if s.links > 0 {
		c.warn("%s: %s not followed; name what it leads to", s.typed, count(s.links, "symbolic link"))
	}
	if s.special > 0 {
		c.warn("%s: left out %s (pipes, devices)", s.typed, count(s.special, "special file"))
	}
	if s.unread > 0 {
		c.warn("%s: %s cannot be read; you lack the right to", s.typed, count(s.unread, "folder"))
	}
}

func (c *Class) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// enter gives the students their pseudonyms and warns of namesakes.
func (c *Class) enter(parts []*part, roster *Roster) {
	type who struct{ name, lmsID string }
	same := map[who]int{}
	namesakes := map[string][]int{}
	for i, p := range parts {
		same[who{p.name, p.lmsID}]++
		name := strings.ToLower(p.name)
		namesakes[name] = append(namesakes[name], i)
	}
	for i, p := range parts {
		s := Student{Name: p.name, LMSID: p.lmsID, Assignment: p.assignment, File: p.path}
		if len(p.notebooks) == 1 {
			s.File = p.notebooks[0].file.where
		}
		c.Submissions[i].ID = roster.enter(s, p.path, same[who{p.name, p.lmsID}] == 1)
	}
	for i, p := range parts {
		list := namesakes[strings.ToLower(p.name)]
		if len(list) < 2 || list[0] != i {
			continue
		}
		ids := make([]string, len(list))
		by := "the learning system's numbers"
		for n, at := range list {
			ids[n] = c.Submissions[at].ID
			if parts[at].lmsID == "" || same[who{parts[at].name, parts[at].lmsID}] > 1 {
				by = "where their notebooks lie"
			}
		}
		c.warn("%s have the same name; they are told apart by %s", strings.Join(ids, " and "), by)
	}
}

// submission reads a student's notebook, or says why there is not exactly one.
func (p *part) submission(ctx context.Context, limits limits) (*Submission, error) {
	var problem error
	switch len(p.notebooks) {
	case 1:
		s, err := p.notebooks[0].file.measure(ctx, limits)
		if err != nil {
			return nil, err
		}
		s.Late = p.notebooks[0].late
		return s, nil
	case 0:
		problem = jobs.Errorf(jobs.CodeInvalid, "there is no notebook; found %s of kind %s", count(len(p.others), "file"), kinds(p.others))
		if p.unnamed > 0 {
			problem = jobs.Errorf(jobs.CodeInvalid, "there is no notebook of the name that is graded, but %s of other names; look whether one of them is it", count(p.unnamed, "notebook"))
		}
	default:
		problem = jobs.Errorf(jobs.CodeInvalid, "there are %d notebooks, and one is graded; name it with --notebook, or by its own path, or take the others away", len(p.notebooks))
	}
	return &Submission{Problem: problem, read: func() ([]byte, error) { return nil, problem }}, nil
}

// seen knows files again that have other paths.
type seen map[[2]int64][]os.FileInfo

// add reports whether the file was there before.
func (s seen) add(info os.FileInfo) bool {
	key := [2]int64{info.Size(), info.ModTime().UnixNano()}
	if slices.ContainsFunc(s[key], func(other os.FileInfo) bool { return os.SameFile(other, info) }) {
		return true
	}
	s[key] = append(s[key], info)
	return false
}
