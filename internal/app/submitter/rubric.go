package submitter

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"tandem/internal/app"
	"tandem/internal/atomicfile"
	"tandem/internal/grader"
	"tandem/internal/grader/report"
	"tandem/internal/sanitize"
	"tandem/jobs"
)

// rubricCmd is about the instructor's own files.
type rubricCmd struct {
	Check rubricCheckCmd `cmd:"" help:"Grade the solution and the template by the rubric, and say what it asks for in vain."`
	Init  rubricInitCmd  `cmd:"" help:"Write a first rubric, of what the solution has and the template has not."`
}

type rubricCheckCmd struct {
	Rubric   string `required:"" placeholder:"FILE" help:"Rubric of the assignment (docs/GRADING.md)."`
	Solution string `required:"" placeholder:"FILE" help:"Notebook with the solution, run from top to bottom."`
	Template string `placeholder:"FILE" help:"Notebook that the students started from."`
}

// Help says what the exit code means.
func (rubricCheckCmd) Help() string {
	return "The same check stands before each grading. Exit code 3: the solution has less than 95 of 100 points by the rubric, or the template more than 10."
}

// Run checks and says what was found.
func (c *rubricCheckCmd) Run(s *session) error {
	a, err := grader.Load(grader.Inputs{Rubric: c.Rubric, Solution: c.Solution, Template: c.Template})
	if err != nil {
		return err
	}
	self := a.SelfCheck()
	if s.JSON {
		err = s.print(self)
	} else {
		var b strings.Builder
		for _, note := range a.Rubric.Notes() {
			fmt.Fprintf(&b, "note: %s\n", note)
		}
		writeSelfCheck(&b, c.Rubric, self)
		_, err = fmt.Fprint(s.out, sanitize.Text(b.String()))
	}
	if err == nil && !self.Sound {
		err = &app.ExitError{Code: app.ExitDegraded}
	}
	return err
}

// writeSelfCheck writes what the instructor's notebooks are worth, and why it is not what it should be.
func writeSelfCheck(b *strings.Builder, rubric string, c *report.SelfCheck) {
	line := fmt.Sprintf("by the rubric, without the models, the solution has %s", points(&c.Solution))
	if c.Template != nil {
		line += fmt.Sprintf(", the template %s", points(c.Template))
	}
	fmt.Fprintln(b, line)
	writeCauses(b, rubric, &c.Solution)
	if c.Template != nil {
		writeCauses(b, rubric, c.Template)
	}
}

func points(s *report.Self) string { return fmt.Sprintf("%.4g of %.4g points", s.Points, s.MaxPoints) }

func writeCauses(b *strings.Builder, rubric string, s *report.Self) {
	for _, c := range s.Causes {
		fmt.Fprintf(b, "  %s", c.What)
		if c.Note != "" {
			fmt.Fprintf(b, ": %s", c.Note)
		}
		if c.Location != nil {
			fmt.Fprintf(b, " (%s:%d)", rubric, c.Location.Line)
		}
		fmt.Fprintln(b)
	}
}

// refuseRubric ends a grading before it begins, by a rubric that is unfair to everybody.
func (c *gradeCmd) refuseRubric(s *session, self *report.SelfCheck) error {
	var b strings.Builder
	writeSelfCheck(&b, c.Rubric, self)
	fmt.Fprint(s.err, sanitize.Text(b.String()))
	if s.JSON {
		if err := s.print(self); err != nil {
			return err
		}
	}
	which := "its solution has less than 95 of 100 points by it"
	if self.Solution.Sound {
		which = "its template has more than 10 of 100 points by it"
	}
	return &app.ExitError{Code: app.ExitDegraded, Err: withHint(errors.New("the rubric is not fair: "+which), "change the rubric, or the notebook, where it says above; or grade all the same, with --accept-rubric")}
}

type rubricInitCmd struct {
	Solution string `required:"" placeholder:"FILE" help:"Notebook with the solution, run from top to bottom."`
	Template string `placeholder:"FILE" help:"Notebook that the students start from; what it has already is not asked for."`
	Name     string `placeholder:"NAME" help:"Name of the assignment (default: the solution's first heading)."`
	Out      string `short:"o" placeholder:"FILE" help:"File to write; one that exists is left alone (default: stdout)."`
}

// Help says that it is only a beginning.
func (rubricInitCmd) Help() string {
	return "Sections are the headings of the solution; each asks for the variables, functions and columns of its code, and for its questions. Take out what does not matter, weigh the rest, and say what full marks need in the criteria."
}

// Run writes the rubric.
func (c *rubricInitCmd) Run(s *session) error {
	data, err := grader.FirstRubric(grader.Inputs{Solution: c.Solution, Template: c.Template}, c.Name)
	if err != nil {
		return err
	}
	if c.Out == "" {
		_, err := s.out.Write(data)
		return err
	}
	if _, err := os.Stat(c.Out); !errors.Is(err, os.ErrNotExist) {
		return jobs.Errorf(jobs.CodeInvalid, "out: %s exists, and rubrics are never written over; name another file", c.Out)
	}
	if err := atomicfile.Write(c.Out, data, 0o644); err != nil {
		return err
	}
	s.say("wrote %s; next: %s rubric check --rubric %[1]s --solution %[3]s", c.Out, name, c.Solution)
	return nil
}
