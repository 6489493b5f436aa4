package submitter

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"tandem/internal/app"
	"tandem/internal/forecast"
	"tandem/internal/grader"
	"tandem/internal/grader/ask"
	"tandem/internal/grader/report"
	"tandem/internal/grading"
	"tandem/jobs"
)

// gradeCmd grades a class.
type gradeCmd struct {
	Paths []string `arg:"" name:"paths" placeholder:"PATH" help:"Notebooks, folders of them, an nbgrader tree, or a learning system's ZIP file."`

	Rubric     string `required:"" placeholder:"FILE" help:"Rubric of the assignment (docs/GRADING.md)."`
	Solution   string `required:"" placeholder:"FILE" help:"Notebook with the solution, run from top to bottom."`
	Template   string `placeholder:"FILE" help:"Notebook that the students started from."`
	Out        string `short:"o" required:"" placeholder:"DIR" help:"Folder for reports, grades and everything else that is written; readable by you only."`
	Assignment string `placeholder:"NAME" help:"Which assignment of an nbgrader tree (default: the only one)."`
	Notebook   string `placeholder:"NAME" help:"Which notebook, where each student handed in several; without .ipynb (default: the one called like the solution)."`
	Prompts    string `type:"existingdir" placeholder:"DIR" help:"Folder with prompt templates of your own (submitter prompts writes those to begin with)."`

	DryRun       bool   `name:"dry-run" help:"Say what would be sent, and when it would be done, by each plan and with one more machine; send nothing."`
	Resume       bool   `help:"Go on with the grading that DIR holds."`
	Only         string `enum:",failed,review" default:"" placeholder:"WHICH" help:"With --resume: ask again about submissions that failed, or that need review."`
	Student      string `placeholder:"ID" help:"With --resume: grade this one student anew, by pseudonym."`
	AcceptRubric bool   `name:"accept-rubric" help:"Grade although the solution has less than 95 of 100 points by the rubric, or the template more than 10."`
	NoModels     bool   `name:"no-models" help:"Only the checks that need no model; every grade is a range then."`

	Direct   string        `placeholder:"URL" env:"TANDEM_DIRECT" help:"Grade with this one Ollama, without the pipeline."`
	Plan     jobs.Plan     `enum:",disaggregated,local,auto" default:"" placeholder:"PLAN" help:"auto (default), what is fastest; disaggregated; or local."`
	Class    jobs.Class    `enum:"interactive,batch" default:"batch" placeholder:"CLASS" help:"interactive jobs run before batch ones (default ${default})."`
	Timeout  time.Duration `placeholder:"TIME" help:"How long to wait; the jobs live on (default: until all are done)."`
	Deadline time.Duration `placeholder:"TIME" help:"After this time from now no job must run any more."`
}

// Help says what it does with the submissions, and what the exit code means.
func (gradeCmd) Help() string {
	return `Reads the notebooks without running them, compares their outputs with the solution's, asks the code model and the feedback model about each, scores by the rubric and writes a page per student, a page for the class, grades.csv and exports for nbgrader, Gradescope and gradebooks. Students get pseudonyms; only DIR/instructor has their names.

Without a pipeline it uses an Ollama of this machine that has both models, and says so. Interrupt it at any time: --resume goes on. Before any student it grades the solution and the template by the rubric. Exit code 0: all graded; 3: some failed or need review, or the rubric gives the solution less than 95 of 100 points or the template more than 10, and nothing was sent; 5: --timeout passed.`
}

// Run grades what is not graded yet.
func (c *gradeCmd) Run(ctx context.Context, s *session) error {
	o, a, err := c.prepare(s)
	if err != nil {
		return err
	}
	if self := a.SelfCheck(); !self.Sound && !c.AcceptRubric && !c.DryRun {
		return c.refuseRubric(s, self)
	}
	var models grader.Answerer
	switch {
	case c.NoModels:
		o.WithoutAsk = true
	case c.DryRun:
		models, err = c.lookAround(ctx, s, a, o)
	default:
		models, err = c.answerer(ctx, s, a, o)
	}
	if err != nil {
		return err
	}
	o.Plan = s.classPlan(c.Plan)
	if s.local != nil && s.local.StandIns() {
		o.Notice = grading.StandIns
	}
	g, err := grader.Open(ctx, a, *o)
	if err != nil {
		return err
	}
	defer func() {
		if err := g.Close(); err != nil {
			fmt.Fprintf(s.err, "%s: %v\n", name, err)
		}
	}()
	if c.DryRun {
		return c.printPlan(ctx, s, g)
	}
	return c.grade(ctx, s, g, a, models)
}

// prepare reads the instructor's files and checks the flags, before anything is started or reached.
func (c *gradeCmd) prepare(s *session) (*grader.Options, *grader.Assignment, error) {
	if err := checkTimes(c.Timeout, c.Deadline); err != nil {
		return nil, nil, err
	}
	switch {
	case !c.Resume && c.Only != "":
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "--only %s is about a grading that was begun; give --resume, too", c.Only)
	case !c.Resume && c.Student != "":
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "--student %s is about a grading that was begun; give --resume, too", c.Student)
	case c.Only != "" && c.Student != "":
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "--only %s and --student %s are both set; give one", c.Only, c.Student)
	case c.Direct != "" && s.Local:
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "--direct and --local are both set: the one uses no pipeline, the other starts one")
	}
	who, err := s.userName()
	if err != nil {
		return nil, nil, err
	}
	a, err := grader.Load(grader.Inputs{Rubric: c.Rubric, Solution: c.Solution, Template: c.Template})
	if err != nil {
		return nil, nil, err
	}
	o := &grader.Options{
		Paths: c.Paths, Course: c.Assignment, Notebook: c.Notebook, Out: c.Out, Prompts: c.Prompts,
		User: who, Plan: c.Plan, Class: c.Class, Models: map[string]grader.Model{},
		Resume: c.Resume, Only: c.Only, Student: c.Student,
	}
	if c.Deadline > 0 {
		o.Deadline = time.Now().Add(c.Deadline)
	}
	return o, a, nil
}

// grade runs the grading and says what came of it.
func (c *gradeCmd) grade(ctx context.Context, s *session, g *grader.Grading, a *grader.Assignment, models grader.Answerer) error {
	wait, cancel := s.waitLimit(ctx, c.Timeout)
	defer cancel()
	_, inTurns := models.(*alone)
	progress := newGradeProgress(s, inTurns)
	stop, event := func() {}, progress.graded
	if s.client != nil {
		planned, err := g.Plan()
		if err != nil {
			return err
		}
		foresees := forecast.NewClassForesight(planned, c.Class, s.classPlan(c.Plan))
		event = func(e grader.Event) {
			foresees.Event(e)
			progress.graded(e)
		}
		s.sayFull(progress.say)
		stop = progress.watch(wait, s, g.Batch(), "", a.Models(), foresees.Until)
	}
	class, err := g.Run(wait, models, event)
	stop()
	progress.stop()
	switch {
	case err == nil:
		return c.conclude(s, class)
	case interrupted(ctx):
		err = app.ErrInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		err = jobs.Errorf(jobs.CodeTimeout, "%s passed, and the class is not done", c.Timeout)
	}
	return withHint(err, "what is done is kept in %s; go on with the same command and --resume", c.Out)
}

// conclude prints the class.
func (c *gradeCmd) conclude(s *session, class *report.Class) error {
	var err error
	if s.JSON {
		err = s.print(class)
	} else {
		err = c.writeClass(s.out, class)
	}
	if err == nil && class.Review+class.Failed > 0 {
		return &app.ExitError{Code: app.ExitDegraded}
	}
	return err
}

// page is the path of a file in the folder of reports, as a browser may be given it.
func (c *gradeCmd) page(elem ...string) string {
	return filepath.Join(append([]string{c.Out}, elem...)...)
}

// promptsCmd writes the prompt templates.
type promptsCmd struct {
	Dir string `arg:"" placeholder:"DIR" help:"Folder to write them into."`
}

// Help says what for.
func (promptsCmd) Help() string {
	return "Writes the grader's prompt templates, code.md and feedback.md, into a folder, to be changed there and given to `submitter grade --prompts`. Overwrites nothing."
}

// Run writes them.
func (c *promptsCmd) Run(s *session) error {
	if err := ask.WriteTemplates(c.Dir); err != nil {
		return err
	}
	s.say("wrote %s", strings.Join([]string{filepath.Join(c.Dir, "code.md"), filepath.Join(c.Dir, "feedback.md")}, " and "))
	return nil
}
