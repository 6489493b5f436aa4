package grader

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"tandem/internal/grader/intake"
	"tandem/internal/grader/overrides"
	"tandem/internal/grader/report"
	"tandem/internal/grader/score"
	"tandem/jobs"
)

// Review is the instructor at work on a folder of reports. It holds the folder, so that nobody else grades into it or decides at the same time. Close it.
type Review struct {
	root     *os.Root
	lock     *os.File
	dir      *report.Dir
	roster   *intake.Roster
	desk     *overrides.Desk
	class    *report.Class
	students map[string]*report.Student
	order    []string // of the ids
	by       string
	now      func() time.Time
}

// OpenReview opens a folder that a class was graded into. by is who decides.
func OpenReview(out, by string) (*Review, error) {
	r := &Review{students: map[string]*report.Student{}, by: by, now: time.Now}
	if err := r.open(out); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Review) open(out string) (err error) {
	if r.root, err = os.OpenRoot(out); err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "%w; name the folder that `submitter grade --out` wrote", err)
	}
	r.dir = report.NewDir(r.root)
	if r.class, err = r.dir.ReadClass(); err != nil {
		return err
	}
	if r.class == nil {
		return jobs.Errorf(jobs.CodeInvalid, "%s has no summary.json; name the folder that `submitter grade --out` wrote", out)
	}
	if r.lock, err = lock(r.root, out); err != nil {
		return err
	}
	if r.roster, err = intake.OpenRoster(r.root); err != nil {
		return err
	}
	rules, err := r.dir.ReadRubric()
	if err != nil {
		return err
	}
	log, err := overrides.Open(r.root, out)
	if err != nil {
		return err
	}
	r.desk = &overrides.Desk{Rubric: rules, Log: log, Rare: r.class.Rare}
	var changed []string // by decisions that a process wrote which died before it wrote the pages
	for _, row := range r.class.Students {
		s, err := r.dir.ReadStudent(row.ID)
		if err != nil {
			return err
		}
		if s == nil {
			return jobs.Errorf(jobs.CodeInvalid, "reports/%s.json is gone; write it again with `submitter grade --resume`", row.ID)
		}
		before, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("encode report of %s: %w", s.ID, err)
		}
		r.desk.Settle(s)
		if after, err := json.Marshal(s); err != nil || !bytes.Equal(before, after) {
			changed = append(changed, s.ID)
		}
		r.students[s.ID] = s
		r.order = append(r.order, s.ID)
	}
	if len(changed) == 0 {
		return nil
	}
	return r.rewrite(changed)
}

// Close releases the folder.
func (r *Review) Close() error {
	var errs []error
	if r.desk != nil {
		errs = append(errs, r.desk.Log.Close())
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Close())
	}
	if r.root != nil {
		errs = append(errs, r.root.Close())
	}
	return errors.Join(errs...)
}

// Class is the class as it stands.
func (r *Review) Class() *report.Class { return r.class }

// Student returns a submission by its pseudonym.
func (r *Review) Student(id string) (*report.Student, error) {
	if s := r.students[id]; s != nil {
		return s, nil
	}
	return nil, jobs.Errorf(jobs.CodeInvalid, "no submission is called %q; want a pseudonym as in %s", id, "grades.csv")
}

// History lists the lines about a submission and, if id is "", all; taken tells which were taken back.
func (r *Review) History(id string) (lines []overrides.Line, taken map[int]bool) {
	taken = map[int]bool{}
	inForce := r.desk.Log.InForce()
	for _, n := range r.desk.Log.Lines {
		if n.Do != overrides.Undo && !slices.ContainsFunc(inForce, func(other overrides.Line) bool { return other.N == n.N }) {
			taken[n.N] = true
		}
		if id == "" || n.Student == id {
			lines = append(lines, n)
		}
	}
	return lines, taken
}

// Decide takes a decision: when it returns, it is on the disk, and the pages and tables are as it says.
func (r *Review) Decide(n overrides.Line) (overrides.Line, error) {
	if err := r.check(&n); err != nil {
		return n, err
	}
	n.At, n.By = r.now().UTC(), r.by
	if s := r.students[n.Student]; s != nil {
		r.desk.Sees(s, &n)
	}
	n, err := r.desk.Log.Append(n)
	if err != nil {
		return n, err
	}
	return n, r.rewrite(r.affected(n))
}

// affected are the submissions that a line is about.
func (r *Review) affected(n overrides.Line) []string {
	for n.Do == overrides.Undo {
		n = r.desk.Log.Lines[n.Of-1]
	}
	if n.Student != "" {
		return []string{n.Student}
	}
	return r.order
}

// rewrite writes pages and tables anew.
func (r *Review) rewrite(ids []string) error {
	for _, id := range ids {
		s := r.students[id]
		r.desk.Settle(s)
		cells, err := r.dir.ReadNotebook(id)
		if err != nil {
			return err
		}
		if err := r.dir.WriteStudent(s, r.desk.Rubric, cells); err != nil {
			return err
		}
	}
	return r.writeClass()
}

// writeClass writes the class's page and tables: what was computed of the submissions anew, all else as it was.
func (r *Review) writeClass() error {
	var records []*report.Student
	for _, id := range r.order {
		records = append(records, r.students[id])
	}
	c := report.Summarise(records, r.desk.Rubric)
	old := *r.class
	old.Graded, old.Final, old.Review, old.Failed = c.Graded, c.Final, c.Review, c.Failed
	old.Distribution, old.Missed, old.Students, old.Rare = c.Distribution, c.Missed, c.Students, r.desk.Rare
	r.class = &old
	return r.dir.WriteClass(r.class, r.desk.Rubric, r.roster)
}

// check looks whether a decision is one that can be taken.
func (r *Review) check(n *overrides.Line) error {
	switch n.Do {
	case overrides.Undo:
		return r.checkUndo(n)
	case overrides.Class:
		if !r.known(*n.Thing) {
			return jobs.Errorf(jobs.CodeInvalid, "the rubric asks for no %s %q", n.Thing.Kind, n.Thing.Name)
		}
		return reason(n)
	}
	s, err := r.Student(n.Student)
	if err != nil {
		return err
	}
	switch n.Do {
	case overrides.Points:
		most, _ := r.desk.Rubric.Info.TotalPoints.Float64()
		if n.Element != "" {
			if most, err = r.worth(n.Element); err != nil {
				return err
			}
			if s.Problem != "" {
				return jobs.Errorf(jobs.CodeInvalid, "%s could not be graded, so it has no elements; give it points as a whole", n.Student)
			}
		}
		if !(*n.Points >= 0 && *n.Points <= most) {
			return jobs.Errorf(jobs.CodeInvalid, "points are %g; want a number from 0 to %g", *n.Points, most)
		}
		return reason(n)
	case overrides.Credit:
		if !slices.Contains(s.Things(), *n.Thing) {
			return jobs.Errorf(jobs.CodeInvalid, "%s was not asked for %s", n.Student, n.Thing)
		}
		if !(*n.Credit >= 0 && *n.Credit <= 1) {
			return jobs.Errorf(jobs.CodeInvalid, "credit is %g; want a share from 0 to 1", *n.Credit)
		}
		return reason(n)
	case overrides.Comment:
		if n.Comment != "" && !overrides.HasComment(s, n.Comment) {
			return jobs.Errorf(jobs.CodeInvalid, "%s has no comment %q", n.Student, n.Comment)
		}
	case overrides.Final:
		if s.Score == nil || !s.Score.Certain {
			return jobs.Errorf(jobs.CodeInvalid, "%s has no certain points yet; set them first: points %[1]s whole …", n.Student)
		}
	}
	return nil
}

func reason(n *overrides.Line) error {
	if strings.TrimSpace(n.Why) == "" {
		return jobs.Errorf(jobs.CodeInvalid, "no reason is given; say why at the end of the line")
	}
	return nil
}

func (r *Review) checkUndo(n *overrides.Line) error {
	lines, taken := r.History("")
	switch {
	case n.Of < 1 || n.Of > len(lines):
		return jobs.Errorf(jobs.CodeInvalid, "there is no line %d to take back; want a number from 1 to %d, as in history", n.Of, len(lines))
	case taken[n.Of]:
		return jobs.Errorf(jobs.CodeInvalid, "line %d was taken back before", n.Of)
	}
	return nil
}

// worth is what an element's full marks are, in points of the total.
func (r *Review) worth(element string) (float64, error) {
	var ids []string
	for _, e := range r.desk.Rubric.Elements {
		if e.ID == element {
			return score.Worth(r.desk.Rubric, &e), nil
		}
		ids = append(ids, e.ID)
	}
	return 0, jobs.Errorf(jobs.CodeInvalid, "the rubric has no element %q; want one of %s", element, strings.Join(ids, ", "))
}

// known reports whether anybody was asked for a thing.
func (r *Review) known(t score.Thing) bool {
	if slices.ContainsFunc(r.desk.Rare, func(rare report.Rare) bool { return rare.Thing == t }) {
		return true
	}
	if t.Kind == score.CriterionKind {
		_, judged := r.criterion(t.Name)
		return judged
	}
	for _, s := range r.students {
		if slices.Contains(s.Things(), t) {
			return true
		}
	}
	return false
}

// ToDecide is what is open in a class.
type ToDecide struct {
	Rare     []report.Rare `json:"rare"`
	Requests []Request     `json:"requests"`
	Students []report.Row  `json:"students"` // to look at, the most doubtful first
}

// ToDecide lists what is open.
func (r *Review) ToDecide() (*ToDecide, error) {
	requests, err := r.Requests()
	if err != nil {
		return nil, err
	}
	d := &ToDecide{Rare: append([]report.Rare{}, r.class.Rare...), Requests: requests, Students: []report.Row{}}
	for _, row := range r.class.Students {
		if row.Status == report.Review || row.Status == report.Failed {
			d.Students = append(d.Students, row)
		}
	}
	slices.SortStableFunc(d.Students, func(a, b report.Row) int {
		return cmp.Or(cmp.Compare(doubt(b), doubt(a)), cmp.Compare(b.Flags, a.Flags))
	})
	return d, nil
}

// doubt is how much is open: all, of one that could not be graded.
func doubt(row report.Row) float64 {
	if row.Status == report.Failed {
		return 1e9
	}
	return row.High - row.Low
}

// Request is what a student wrote who asks for a second look.
type Request struct {
	File    string // in instructor/regrades
	Student string // pseudonym, "" if the file names none that there is
	Part    string
	Because string
}

// regradesDir is where the instructor puts what students hand in.
const regradesDir = "instructor/regrades"

// maxRequest is how long such a text may be, in bytes.
const maxRequest = 20_000

// Requests reads what students handed in who ask for a second look. Those about a grade that is final since are done.
func (r *Review) Requests() ([]Request, error) {
	entries, err := fs.ReadDir(r.root.FS(), regradesDir)
	list := []Request{}
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read regrade requests: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > maxRequest {
			continue
		}
		data, err := r.root.ReadFile(path.Join(regradesDir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read regrade request: %w", err)
		}
		list = append(list, r.request(e.Name(), string(data)))
	}
	return list, nil
}

// request reads the form that stands on a student's page.
func (r *Review) request(file, text string) Request {
	q := Request{File: file}
	var last *string
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch strings.ToLower(key) {
		case "submission":
			last = nil
			if id := strings.TrimSpace(value); r.students[id] != nil {
				q.Student = id
			}
		case "assignment":
			last = nil
		case "part":
			last = &q.Part
			*last = strings.TrimSpace(value)
		case "because":
			last = &q.Because
			*last = strings.TrimSpace(value)
		default:
			if last != nil {
				*last = strings.TrimSpace(*last + " " + strings.TrimSpace(line))
			}
		}
	}
	return q
}

// Released is what became of a class's release.
type Released struct {
	Released  int        `json:"released"`
	Withdrawn []string   `json:"withdrawn"` // released before, and held back now
	Held      []HeldBack `json:"held"`
}

// Was reports whether a submission had been released before.
func (r *Released) Was(id string) bool { return slices.Contains(r.Withdrawn, id) }

// HeldBack is a submission whose grade the student does not get yet.
type HeldBack struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// Release writes the pages that students get, of submissions whose grade is certain or final, and takes back those of others.
func (r *Review) Release(solution bool) (*Released, error) {
	out := &Released{Withdrawn: []string{}, Held: []HeldBack{}}
	for _, id := range r.order {
		s := r.students[id]
		if why := s.Releasable(); why != "" {
			was, err := r.dir.Withdraw(id)
			if err != nil {
				return nil, fmt.Errorf("withdraw page of %s: %w", id, err)
			}
			if out.Held = append(out.Held, HeldBack{id, why}); was {
				out.Withdrawn = append(out.Withdrawn, id)
			}
			continue
		}
		cells, err := r.dir.ReadNotebook(id)
		if err != nil {
			return nil, err
		}
		if err := r.dir.Release(s, r.desk.Rubric, cells, solution); err != nil {
			return nil, err
		}
		out.Released++
	}
	return out, nil
}
