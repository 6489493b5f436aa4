package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tandem/jobs"
)

// A class is a folder in which a test puts files, and the folder for what is written.
type class struct {
	t        *testing.T
	dir, out string
	roster   *Roster
	own      []string // paths of the instructor's notebooks
}

func newClass(t *testing.T, files ...string) *class {
	c := &class{t: t, dir: t.TempDir(), out: t.TempDir()}
	for _, name := range files {
		c.write(name, "content of "+name)
	}
	return c
}

func (c *class) path(name string) string { return filepath.Join(c.dir, filepath.FromSlash(name)) }

func (c *class) write(name, content string) {
	c.t.Helper()
	if err := os.MkdirAll(filepath.Dir(c.path(name)), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(c.path(name), []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// collect names paths below the folder, or the folder itself if there is none. assignment may have a notebook's name behind a slash.
func (c *class) collect(assignment string, limits limits, names ...string) (*Class, error) {
	c.t.Helper()
	root, err := os.OpenRoot(c.out)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { root.Close() })
	if c.roster, err = OpenRoster(root); err != nil {
		c.t.Fatal(err)
	}
	paths := []string{c.dir}
	if len(names) > 0 {
		paths = nil
	}
	for _, name := range names {
		paths = append(paths, c.path(name))
	}
	var which Choice
	which.Assignment, which.Notebook, _ = strings.Cut(assignment, "/")
	found, err := collect(c.t.Context(), paths, which, c.roster, limits, c.own...)
	if err == nil {
		c.t.Cleanup(func() { found.Close() })
	}
	return found, err
}

func (c *class) must(assignment string, names ...string) *Class {
	c.t.Helper()
	found, err := c.collect(assignment, defaultLimits(), names...)
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}

// lines writes what was found: name, number, * if late, and what is read of the notebook or the problem.
func (c *class) lines(found *Class) string {
	c.t.Helper()
	var b strings.Builder
	for _, s := range found.Submissions {
		student, ok := c.roster.Student(s.ID)
		if !ok {
			c.t.Errorf("the roster does not know %s", s.ID)
		}
		b.WriteString(student.Name)
		if student.LMSID != "" {
			b.WriteString(" #" + student.LMSID)
		}
		if student.Assignment != "" {
			b.WriteString(" " + student.Assignment)
		}
		if s.Late {
			b.WriteString(" late")
		}
		data, err := s.Read()
		if s.Problem != nil {
			if jobs.CodeOf(s.Problem) != jobs.CodeInvalid || err == nil {
				c.t.Errorf("problem %v of code %q, read gives %v", s.Problem, jobs.CodeOf(s.Problem), err)
			}
			text, _, _ := strings.Cut(s.Problem.Error(), ";")
			fmt.Fprintf(&b, ": %s\n", text)
			continue
		}
		if sum := sha256.Sum256(data); err != nil || s.Size != int64(len(data)) || s.SHA256 != hex.EncodeToString(sum[:]) {
			c.t.Errorf("%s: read %d bytes (%v); size is %d, hash %s", s.ID, len(data), err, s.Size, s.SHA256)
		}
		fmt.Fprintf(&b, ": %s\n", strings.TrimPrefix(string(data), "content of "))
	}
	return b.String()
}

// What is the instructor's is no submission, but a student may hand in the very same.
func TestOwnNotebooks(t *testing.T) {
	for _, test := range []struct {
		name  string
		files []string // each has its base name for content
		own   []string // below the folder; "elsewhere/": a copy in another place
		want  string
		warns []string
	}{
		{"the very file", []string{"student-01.ipynb", "key.ipynb"}, []string{"key.ipynb"}, "student-01: student-01.ipynb\n", []string{"left out key.ipynb, which is yours"}},
		{"the very file, in a folder", []string{"student-01/hw.ipynb", "key/hw.ipynb"}, []string{"key/hw.ipynb"}, "student-01: hw.ipynb\n", []string{"left out hw.ipynb"}},
		{"copies", []string{"student-01.ipynb", "key.ipynb", "blank.ipynb"}, []string{"elsewhere/key.ipynb", "elsewhere/blank.ipynb"}, "student-01: student-01.ipynb\n", []string{"left out blank.ipynb", "left out key.ipynb"}},
		{"the template as a student hands it in", []string{"student-01/hw.ipynb", "student-02/hw.ipynb", "last_123_456_hw.ipynb"}, []string{"elsewhere/hw.ipynb"},
			"last #123: last_123_456_hw.ipynb\nstudent-01: hw.ipynb\nstudent-02: hw.ipynb\n", nil},
		{"the same name, another content", []string{"student-01.ipynb", "a/../key.ipynb"}, []string{"elsewhere/other/key.ipynb"}, "key: key.ipynb\nstudent-01: student-01.ipynb\n", nil},
		{"the notebook of several that is called like it", []string{"student-01/p1.ipynb", "student-01/p2.ipynb", "source/p1.ipynb"}, []string{"source/p1.ipynb"}, "student-01: p1.ipynb\n", []string{"left out p1.ipynb"}},
		{"nothing else", []string{"key.ipynb"}, []string{"key.ipynb"}, "key: key.ipynb\n", nil},
		{"one that is not there", []string{"student-01.ipynb"}, []string{"nowhere.ipynb"}, "student-01: student-01.ipynb\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClass(t)
			elsewhere := newClass(t)
			for _, name := range test.files {
				c.write(name, "content of "+path.Base(name))
			}
			for _, name := range test.own {
				if copied, ok := strings.CutPrefix(name, "elsewhere/"); ok {
					elsewhere.write(copied, "content of "+copied)
					c.own = append(c.own, elsewhere.path(copied))
				} else {
					c.own = append(c.own, c.path(name))
				}
			}
			found := c.must("")
			if got := c.lines(found); got != test.want {
				t.Errorf("found\n%s\nwant\n%s", got, test.want)
			}
			checkWarnings(t, found, test.warns...)
		})
	}
}

func TestCollect(t *testing.T) {
	tests := []struct {
		name       string
		files      []string
		named      []string // "": the folder
		assignment string
		want       string
		warnings   []string // each in the one warning at its place
	}{
		{
			name:     "flat folder",
			files:    []string{"student-02.ipynb", "student-01.IPYNB", "rubric.json", "data/x.csv", ".hidden.ipynb", ".ipynb_checkpoints/student-01-checkpoint.ipynb", "__MACOSX/._student-01.ipynb"},
			want:     "student-01: student-01.IPYNB\nstudent-02: student-02.ipynb\n",
			warnings: []string{"left out 2 files of no student (.csv, .json)"},
		},
		{
			name:  "folders by student",
			files: []string{"student-01/hw.ipynb", "student-01/data.csv", "student-02/files/hw.ipynb", "student-03/a.ipynb", "student-03/b.ipynb", "student-04/essay.docx", "student-05/hw.zip", "student-05/of a name.student five"},
			want: "student-01: student-01/hw.ipynb\nstudent-02: student-02/files/hw.ipynb\nstudent-03: there are 2 notebooks, and one is graded\n" +
				"student-04: there is no notebook\nstudent-05: there is no notebook\n",
		},
		{
			name:     "folders by section and student",
			files:    []string{"section1/student-01/hw.ipynb", "section1/student-02/hw.ipynb", "section2/student-03/hw.ipynb", "section2/read.me"},
			want:     "student-01: section1/student-01/hw.ipynb\nstudent-02: section1/student-02/hw.ipynb\nstudent-03: section2/student-03/hw.ipynb\n",
			warnings: []string{"left out 1 file of no student (other)"},
		},
		{
			name:     "nbgrader course",
			files:    []string{"submitted/student-01/hw1/p.ipynb", "submitted/student-01/hw2/p.ipynb", "submitted/student-02/hw1/p.ipynb", "submitted/student-02/hw1/extra/other.ipynb", "submitted/student-03/hw1/p.pdf", "autograded/student-01/hw1/p.ipynb", "source/hw1/p.ipynb", "gradebook.db"},
			want:     "student-01 hw1: autograded/student-01/hw1/p.ipynb\nstudent-02 hw1: submitted/student-02/hw1/p.ipynb\nstudent-03 hw1: there is no notebook\n",
			warnings: []string{"3 notebooks outside autograded left out"}, assignment: "hw1",
		},
		{
			name:  "nbgrader step",
			files: []string{"autograded/student-01/hw1/p.ipynb", "autograded/student-02/hw1/p.ipynb", "autograded/student-02/hw1/q.ipynb"},
			named: []string{"autograded"},
			want:  "student-01 hw1: autograded/student-01/hw1/p.ipynb\nstudent-02 hw1: there are 2 notebooks, and one is graded\n",
		},
		{
			name:  "nbgrader, one student's folder, one assignment of another, and one notebook",
			files: []string{"submitted/student-01/hw1/p.ipynb", "submitted/student-02/hw1/p.ipynb", "submitted/student-03/hw1/p.ipynb", "submitted/student-03/hw1/q.ipynb"},
			named: []string{"submitted/student-01", "submitted/student-02/hw1", "submitted/student-03/hw1/q.ipynb"},
			want:  "student-01 hw1: submitted/student-01/hw1/p.ipynb\nstudent-02 hw1: submitted/student-02/hw1/p.ipynb\nstudent-03 hw1: submitted/student-03/hw1/q.ipynb\n",
		},
		{
			name:       "nbgrader with a step of another name",
			files:      []string{"student-01/hw1/p.ipynb", "student-01/hw2/p.ipynb", "student-02/hw1/p.ipynb", "student-02/hw2/p.ipynb"},
			assignment: "hw2",
			want:       "student-01 hw2: student-01/hw2/p.ipynb\nstudent-02 hw2: student-02/hw2/p.ipynb\n",
		},
		{
			name:     "Canvas",
			files:    []string{"onestudent_12345_67890_hw4.ipynb", "twostudent_LATE_12346_67891_hw4.ipynb", "twostudent_LATE_12346_67899_hw4-1.ipynb", "threestudent_12347_67892_essay.docx"},
			want:     "onestudent #12345: onestudent_12345_67890_hw4.ipynb\nthreestudent #12347: there is no notebook\ntwostudent #12346 late: twostudent_LATE_12346_67899_hw4-1.ipynb\n",
			warnings: []string{"handed in more than once; the newest counts"},
		},
		{
			name:  "Moodle",
			files: []string{"Student One_1234567_assignsubmission_file/hw4.ipynb", "Student Two_1234568_assignsubmission_file_/files/hw4.ipynb", "Student Two_1234568_assignsubmission_onlinetext_/onlinetext.html", "Student Three_1234569_assignsubmission_file_hw4.ipynb", "Participant_77_assignsubmission_file_/a.ipynb", "Participant_78_assignsubmission_file_/a.ipynb", "Participant_78_assignsubmission_file_/b.ipynb"},
			want: "Participant 77 #77: Participant_77_assignsubmission_file_/a.ipynb\nParticipant 78 #78: there are 2 notebooks, and one is graded\nStudent One #1234567: Student One_1234567_assignsubmission_file/hw4.ipynb\n" +
				"Student Three #1234569: Student Three_1234569_assignsubmission_file_hw4.ipynb\nStudent Two #1234568: Student Two_1234568_assignsubmission_file_/files/hw4.ipynb\n",
		},
		{
			name: "Blackboard",
			files: []string{"Homework 4_one_attempt_2026-10-01-12-00-00_hw4.ipynb", "Homework 4_one_attempt_2026-10-01-12-00-00.txt", "Homework 4_one_attempt_2026-10-02-09-00-00_final.ipynb",
				"Homework 4_a_doe_attempt_2026-10-01-12-00-00_hw4.ipynb", "Homework 4_b_doe_attempt_2026-10-01-12-00-00_hw4.ipynb", "Homework 4_two_attempt_2026-10-01-12-00-00.txt"},
			want: "doe: Homework 4_a_doe_attempt_2026-10-01-12-00-00_hw4.ipynb\ndoe: Homework 4_b_doe_attempt_2026-10-01-12-00-00_hw4.ipynb\n" +
				"one: Homework 4_one_attempt_2026-10-02-09-00-00_final.ipynb\ntwo: there is no notebook\n",
			warnings: []string{"have the same name; they are told apart by where their notebooks lie", "handed in more than once"},
		},
		{
			name: "Brightspace",
			files: []string{"12345-67890 - Student One - Oct 1, 2026 1200 PM/hw4.ipynb", "12345-67890 - Student One - Oct 1, 2026 312 PM/hw4.ipynb", "12345-67890 - Student One - Sep 30, 2026 1159 PM/hw4.ipynb",
				"12346-67890 - Student Two - 1 October, 2026 905 AM/hw4.ipynb", "index.html"},
			want:     "Student One #12345: 12345-67890 - Student One - Oct 1, 2026 312 PM/hw4.ipynb\nStudent Two #12346: 12346-67890 - Student Two - 1 October, 2026 905 AM/hw4.ipynb\n",
			warnings: []string{"left out 1 file of no student (.html)", "handed in more than once"},
		},
		{
			name:       "several notebooks of an assignment",
			files:      []string{"submitted/student-01/hw1/p1.ipynb", "submitted/student-01/hw1/p2.ipynb", "submitted/student-02/hw1/p2.ipynb", "submitted/student-03/hw1/p1.ipynb"},
			assignment: "hw1/p2",
			want:       "student-01 hw1: submitted/student-01/hw1/p2.ipynb\nstudent-02 hw1: submitted/student-02/hw1/p2.ipynb\nstudent-03 hw1: there is no notebook of the name that is graded, but 1 notebook of other names\n",
		},
		{
			name:       "what nbgrader collected",
			files:      []string{"submitted/student-01/hw1/p.ipynb", "downloaded/hw1/archive/student-01_hw1_attempt_p.ipynb", "downloaded/hw1/extracted/x/p.ipynb"},
			assignment: "hw1",
			want:       "student-01 hw1: submitted/student-01/hw1/p.ipynb\n",
			warnings:   []string{"2 notebooks outside submitted left out"},
		},
		{
			name:     "an archive beside students",
			files:    []string{"downloaded/hw1/archive/a.ipynb", "student-01/p.ipynb"},
			want:     "student-01: student-01/p.ipynb\n",
			warnings: []string{"1 notebook outside the students' folders left out"},
		},
		{
			name:     "two students of one name",
			files:    []string{"section1/Student One/hw.ipynb", "section2/Student One/hw.ipynb", "section2/Student Two/hw.ipynb", "section2/Student Three/hw.ipynb"},
			want:     "Student One: section1/Student One/hw.ipynb\nStudent One: section2/Student One/hw.ipynb\nStudent Three: section2/Student Three/hw.ipynb\nStudent Two: section2/Student Two/hw.ipynb\n",
			warnings: []string{"s-?????? and s-?????? have the same name; they are told apart by where their notebooks lie"},
		},
		{
			name:     "two students of one name with numbers",
			files:    []string{"onestudent_12345_67890_hw4.ipynb", "onestudent_12346_67891_hw4.ipynb"},
			want:     "onestudent #12345: onestudent_12345_67890_hw4.ipynb\nonestudent #12346: onestudent_12346_67891_hw4.ipynb\n",
			warnings: []string{"s-?????? and s-?????? have the same name; they are told apart by the learning system's numbers"},
		},
		{
			name:  "notebooks of one name, named by a pattern",
			files: []string{"student-01/hw.ipynb", "student-02/hw.ipynb"},
			named: []string{"student-01/hw.ipynb", "student-02/hw.ipynb"},
			want:  "student-01: student-01/hw.ipynb\nstudent-02: student-02/hw.ipynb\n",
		},
		{
			name:     "the same twice",
			files:    []string{"a/student-01.ipynb", "a/student-02.ipynb"},
			named:    []string{"a", "a/student-01.ipynb", "a/../a"},
			want:     "student-01: a/student-01.ipynb\nstudent-02: a/student-02.ipynb\n",
			warnings: []string{"3 files named twice; counted once"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newClass(t, test.files...)
			found := c.must(test.assignment, test.named...)
			if got := c.lines(found); got != test.want {
				t.Errorf("found\n%s\nwant\n%s", got, test.want)
			}
			checkWarnings(t, found, test.warnings...)
			for _, s := range found.Submissions {
				student, _ := c.roster.Student(s.ID)
				for _, text := range append([]string{fmt.Sprint(s.Problem)}, found.Warnings...) {
					if strings.Contains(text, student.Name) {
						t.Errorf("%q names the student", text)
					}
				}
			}
		})
	}
}

// checkWarnings compares warnings with patterns, one each: a text that is in the warning, in which s-?????? stands for any pseudonym.
func checkWarnings(t *testing.T, found *Class, want ...string) {
	t.Helper()
	if len(found.Warnings) != len(want) {
		t.Fatalf("warnings are %q; want %d", found.Warnings, len(want))
	}
	for i, text := range found.Warnings {
		for _, s := range found.Submissions {
			text = strings.ReplaceAll(text, s.ID, "s-??????")
		}
		if !strings.Contains(text, want[i]) {
			t.Errorf("warning is %q; want %q in it", text, want[i])
		}
	}
}

// A file of another kind, or one whose kind might be a part of a name, is told by its kind alone.
func TestKindsOfProblems(t *testing.T) {
	c := newClass(t, "student-01/hw.ipynb", "student-02/essay.docx", "student-03/hw.zip", "student-03/essay.of student three")
	found := c.must("")
	for i, want := range map[int]string{
		1: "found 1 file of kind .docx",
		2: "found 2 files of kind .zip, other; a ZIP file within is not opened",
	} {
		if p := found.Submissions[i].Problem; p == nil || !strings.Contains(p.Error(), want) {
			t.Errorf("problem is %v; want %q", p, want)
		}
	}
}

func TestNothingToCollect(t *testing.T) {
	tests := []struct {
		name       string
		files      []string
		named      []string
		assignment string
		want       []string
	}{
		{"not there", nil, []string{"nowhere"}, "", []string{"nowhere is not there"}},
		{"no notebook", []string{"a/essay.docx"}, []string{"a"}, "", []string{"holds no notebook (.ipynb)"}},
		{"another kind of file", []string{"a.docx"}, []string{"a.docx"}, "", []string{"a.docx is neither a notebook (.ipynb) nor a folder nor a ZIP"}},
		{"no ZIP", []string{"a.zip"}, []string{"a.zip"}, "", []string{"a.zip is no ZIP file"}},
		{"several assignments", []string{"submitted/student-01/hw1/p.ipynb", "submitted/student-02/hw2/p.ipynb"}, nil, "", []string{"2 assignments", "hw1, hw2"}},
		{"an assignment that is not there", []string{"submitted/student-01/hw1/p.ipynb"}, nil, "hw3", []string{`"hw3", which nobody handed in`, "hw1"}},
		{"an assignment without a tree", []string{"student-01.ipynb"}, nil, "hw1", []string{"no nbgrader tree"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newClass(t, test.files...)
			_, err := c.collect(test.assignment, defaultLimits(), test.named...)
			if jobs.CodeOf(err) != jobs.CodeInvalid {
				t.Fatalf("error is %v; want one of code invalid", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is %q; want %q in it", err, want)
				}
			}
			if _, err := os.Stat(filepath.Join(c.out, rosterFile)); err == nil {
				t.Error("a roster was written")
			}
		})
	}
	if _, err := Collect(t.Context(), nil, Choice{}, newRoster(t, t.TempDir())); jobs.CodeOf(err) != jobs.CodeInvalid {
		t.Errorf("without paths: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(jobs.ErrDraining)
	c := newClass(t, "a.ipynb")
	for _, p := range []string{c.dir, c.path("a.ipynb")} {
		if _, err := Collect(ctx, []string{p}, Choice{}, newRoster(t, c.out)); err == nil || !strings.Contains(err.Error(), jobs.ErrDraining.Error()) {
			t.Errorf("interrupted: %v; want the cause", err)
		}
	}
}

// Neither links nor pipes are read, a link that stays within the folder included: it would count a notebook twice.
func TestLinksAndPipes(t *testing.T) {
	c := newClass(t, "outside.ipynb", "in/student-01.ipynb")
	for name, target := range map[string]string{"in/student-02.ipynb": "../outside.ipynb", "in/student-03.ipynb": "student-01.ipynb", "in/up": ".."} {
		if err := os.Symlink(target, c.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(c.path("in/student-04.ipynb"), 0o600); err != nil {
		t.Fatal(err)
	}
	found := c.must("", "in")
	if got, want := c.lines(found), "student-01: in/student-01.ipynb\n"; got != want {
		t.Errorf("found %q; want %q", got, want)
	}
	checkWarnings(t, found, "3 symbolic links not followed", "1 special file")
}

func TestLargeFile(t *testing.T) {
	c := newClass(t, "student-01.ipynb")
	if err := os.Truncate(c.path("student-01.ipynb"), 200_000_000); err != nil { // sparse
		t.Fatal(err)
	}
	s := c.must("").Submissions[0]
	if s.Problem == nil || s.SHA256 != "" || s.Size != 200_000_000 {
		t.Fatalf("%+v; want a problem and no hash", s)
	}
	for _, want := range []string{"200,000,000 bytes", "at most 32 MB", "clear the outputs"} {
		if !strings.Contains(s.Problem.Error(), want) {
			t.Errorf("problem is %q; want %q in it", s.Problem, want)
		}
	}
	if _, err := s.Read(); jobs.CodeOf(err) != jobs.CodeInvalid {
		t.Errorf("reading it gives %v", err)
	}
	if _, err := c.collect("", limits{folder: 0}); err == nil || !strings.Contains(err.Error(), "more than 0 files") {
		t.Errorf("a folder of too many files: %v", err)
	}
}

// A file that is taken away after Collect, or may not be read, is told without its path.
func TestUnreadable(t *testing.T) {
	c := newClass(t, "student-01.ipynb")
	s := c.must("").Submissions[0]
	if err := os.Remove(c.path("student-01.ipynb")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(); jobs.CodeOf(err) != jobs.CodeInvalid || strings.Contains(err.Error(), "student-01") {
		t.Errorf("error is %v; want one of code invalid without the path", err)
	}
}
