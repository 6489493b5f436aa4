package grading

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/internal/forecast"
	"tandem/internal/grader"
	"tandem/internal/grader/intake"
	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

const (
	lookEvery = 5 * time.Second  // how often the whole queue is looked at while a class is graded, for the forecast
	lookLimit = 10 * time.Second // how long the queue may need to tell what its workers have measured
	around    = 2                // lines of the rubric that are quoted before and after one
)

// work is what is done to a class here.
type work struct {
	cancel  context.CancelCauseFunc // of what is going on; nil if nothing is
	run     *Run                    // the grading that is; nil if it is something else
	check   *Check
	problem string // why the last grading ended

	reviewing sync.Mutex
}

// Run is how far a grading is.
type Run struct {
	Since    time.Time
	Event    grader.Event             // the last one, without what came just then
	People   []intake.Student         // in the class's order
	Answers  map[string]int           // that have come in this run, by pseudonym
	Statuses map[string]report.Status // of those that have a report
	Left     time.Duration            // as it was foreseen last; 0 if it cannot be
	Missing  []string                 // models for which nobody generates
	foresees *forecast.ClassForesight
}

func (r *Run) copy() *Run {
	c := *r
	c.Answers, c.Statuses = maps.Clone(r.Answers), maps.Clone(r.Statuses)
	return &c
}

// Ask is what a grading is to do.
type Ask struct {
	Only          string   // "", or which submissions to ask about again: see [grader.Options]
	Accept        bool     // although the rubric is not fair
	WithoutModels bool     // ask no model
	Models        []string // that may be asked; all if there are none
}

// Check is what a class came to before it is graded.
type Check struct {
	Rubric  []Quote // what is wrong with the rubric, at its lines
	Problem string  // what else is wrong, so that it cannot be graded
	Self    *report.SelfCheck
	Causes  []Quote // why the rubric is not fair
	Fair    bool
	Notes   []string // on the rubric
	Plan    *grader.Plan
	Found   []Found
	Jobs    int
	Seconds float64  // until all are done, about; 0 if it is not known
	Missing []string // models for which nobody generates
	Unknown string   // why it is not known for which
}

// Quote is something about a line of the rubric.
type Quote struct {
	Text  string
	Line  int // 0 if it is about none
	Lines []QuotedLine
}

// QuotedLine is a line of the rubric.
type QuotedLine struct {
	Number int
	Text   string
	Meant  bool
}

// Found is a student's submission.
type Found struct {
	ID, Name, File, Problem string
}

// claim has one thing at a time done to a class.
func (d *Desk) claim(class string, cancel context.CancelCauseFunc, run *Run) error {
	if err := d.idle(class); err != nil {
		return err
	}
	free := false
	d.change(class, func(w *work) {
		if free = w.cancel == nil && !d.closed; free {
			w.cancel, w.run = cancel, run
			d.working.Add(1)
		}
	})
	if !free {
		return jobs.Errorf(jobs.CodeInvalid, "%s is busy; try again in a moment", class)
	}
	return nil
}

// free ends that.
func (d *Desk) free(class string, f func(w *work)) {
	d.change(class, func(w *work) {
		w.cancel(nil)
		w.cancel, w.run = nil, nil
		f(w)
	})
	d.working.Done()
}

// Check looks beside the requests at what a class would come to, as a dry run does. Nothing is sent.
func (d *Desk) Check(class string) error {
	return d.begin(class, nil, func(ctx context.Context, c *Class) {
		check := d.check(ctx, c)
		d.free(class, func(w *work) { w.check = check })
	})
}

// Start grades a class beside the requests, or goes on with that.
func (d *Desk) Start(class string, ask Ask) error {
	run := &Run{Since: time.Now(), Answers: map[string]int{}, Statuses: map[string]report.Status{}}
	return d.begin(class, run, func(ctx context.Context, c *Class) {
		err := d.grade(ctx, c, ask, run)
		paused := ctx.Err() != nil
		d.free(class, func(w *work) {
			if w.problem = ""; err != nil && !paused {
				w.problem = d.say(class, err)
			}
		})
	})
}

// say is an error without where the classes lie.
func (d *Desk) say(class string, err error) string {
	return strings.ReplaceAll(err.Error(), d.path(class)+string(os.PathSeparator), "")
}

// begin does something to a class beside the requests.
func (d *Desk) begin(class string, run *Run, do func(ctx context.Context, c *Class)) error {
	c, err := d.Class(class)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(d.open)
	if err := d.claim(class, cancel, run); err != nil {
		cancel(nil)
		return err
	}
	go do(ctx, c)
	return nil
}

// Pause ends what is going on with a class. What was answered is kept, and a later run goes on from there.
func (d *Desk) Pause(class string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.work[class]; w != nil && w.cancel != nil {
		w.cancel(context.Canceled)
	}
}

// opened is a class whose files were read.
type opened struct {
	*grader.Assignment
	*grader.Grading
	system  *admin.Client
	workers []admin.Presence
	unknown error // why they are not known
}

// load reads a class's files and takes its folder of grades. What it asks models, it asks these workers; a dry run does without.
func (d *Desk) load(ctx context.Context, c *Class, ask Ask, dry bool) (*opened, error) {
	for what, there := range map[string]bool{"rubric": c.Rubric, "solution": c.Solution} {
		if !there {
			return nil, jobs.Errorf(jobs.CodeInvalid, "the class has no %s yet", what)
		}
	}
	in := grader.Inputs{Rubric: d.path(c.Name, rubricFile), Solution: d.path(c.Name, solutionFile)}
	if c.Template {
		in.Template = d.path(c.Name, templateFile)
	}
	a, err := grader.Load(in)
	if err != nil {
		return nil, err
	}
	o := &opened{Assignment: a, system: d.System.For(cmp.Or(c.Owner, d.System.User()))}
	for _, m := range a.Models() {
		if len(ask.Models) > 0 && !slices.Contains(ask.Models, m) {
			return nil, jobs.Errorf(jobs.CodeInvalid, "the rubric names the model %s, which your token may not ask", m)
		}
	}
	looking, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	now, err := o.system.Inspect(looking)
	if err == nil {
		o.workers = now.Workers
	} else if o.unknown = err; !ask.WithoutModels && !dry {
		return o, jobs.Errorf(jobs.CodeOf(err), "it is not known who works: %w", err)
	}
	reviewing := d.reviewing(c.Name) // a page of a review that is open for a moment
	reviewing.Lock()
	defer reviewing.Unlock()
	o.Grading, err = grader.Open(ctx, a, grader.Options{
		Paths: []string{d.path(c.Name, submissions)}, Course: c.Assignment, Notebook: c.Notebook, Out: d.path(c.Name, grades), User: o.system.User(), Plan: d.Plan,
		Class: jobs.Batch, Models: Describe(o.workers, a.Models()), Resume: true, Only: ask.Only, WithoutAsk: ask.WithoutModels, Notice: d.Notice,
	})
	return o, err
}

// reviewing keeps the pages of one review, and a run that begins, out of each other's way.
func (d *Desk) reviewing(class string) *sync.Mutex {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.work[class] == nil {
		d.work[class] = &work{}
	}
	return &d.work[class].reviewing
}

// missing are the models for which nobody generates.
func (o *opened) missing() (list []string) {
	return slices.DeleteFunc(o.Models(), func(m string) bool { return Decodes(o.workers, m) })
}

// check is [Desk.Check].
func (d *Desk) check(ctx context.Context, c *Class) *Check {
	check := &Check{}
	text, _ := os.ReadFile(d.path(c.Name, rubricFile)) // that it is not there, load says
	lines := strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n")
	o, err := d.load(ctx, c, Ask{}, true)
	if o != nil {
		if check.Notes = o.Rubric.Notes(); o.unknown != nil {
			check.Unknown = o.unknown.Error()
		} else {
			check.Missing = o.missing()
		}
		check.selfCheck(o.SelfCheck(), lines)
	}
	if wrong, is := errors.AsType[*rubric.Wrong](err); is {
		for _, p := range wrong.Problems {
			check.Rubric = append(check.Rubric, quote(lines, p.Line, p.Text))
		}
		return check
	}
	if err == nil {
		defer o.Close()
		err = check.foresee(ctx, d, c, o)
	}
	if err != nil {
		check.Problem = d.say(c.Name, err)
	}
	return check
}

// selfCheck takes what the rubric makes of the solution and the template.
func (k *Check) selfCheck(self *report.SelfCheck, lines []string) {
	k.Self, k.Fair = self, self.Sound
	for _, s := range []*report.Self{&self.Solution, self.Template} {
		if s == nil {
			continue
		}
		for _, cause := range s.Causes {
			text, line := cause.What, 0
			if cause.Note != "" {
				text += ": " + cause.Note
			}
			if cause.Location != nil {
				line = cause.Location.Line
			}
			k.Causes = append(k.Causes, quote(lines, line, text))
		}
	}
}

// foresee takes what would be sent, and when it would be done.
func (k *Check) foresee(ctx context.Context, d *Desk, c *Class, o *opened) (err error) {
	if k.Plan, err = o.Plan(); err != nil {
		return err
	}
	problems := map[string]string{}
	for _, p := range k.Plan.Problems {
		problems[p.ID] = p.Problem
	}
	for _, s := range o.People() {
		k.Found = append(k.Found, Found{s.ID, s.Name, d.below(c.Name, s.File), problems[s.ID]})
	}
	for _, m := range k.Plan.Models {
		k.Jobs += m.Jobs
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	if now, err := o.system.Inspect(ctx); err == nil && len(k.Missing) == 0 && k.Unknown == "" { // else it is not known
		k.Seconds = forecast.Class(now, k.Plan, jobs.Batch, d.Plan).Seconds
	}
	return nil
}

// quote has a line of the rubric with those around it.
func quote(lines []string, line int, text string) Quote {
	q := Quote{Text: text, Line: line}
	for n := max(1, line-around); line > 0 && n <= min(len(lines), line+around); n++ {
		q.Lines = append(q.Lines, QuotedLine{n, strings.TrimRight(lines[n-1], "\r"), n == line})
	}
	return q
}

// grade is [Desk.Start].
func (d *Desk) grade(ctx context.Context, c *Class, ask Ask, run *Run) (err error) {
	o, err := d.load(ctx, c, ask, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if !o.SelfCheck().Sound && !ask.Accept {
		return jobs.Errorf(jobs.CodeInvalid, "the rubric is not fair: see the check, change the rubric or the notebook, or grade all the same")
	}
	planned, err := o.Plan()
	if err != nil {
		return err
	}
	d.change(c.Name, func(*work) {
		run.People, run.Missing, run.foresees = o.People(), o.missing(), forecast.NewClassForesight(planned, jobs.Batch, d.Plan)
	})
	looking, stop := context.WithCancel(ctx)
	var aside sync.WaitGroup
	aside.Go(func() { d.look(looking, c.Name, o, run) })
	_, err = o.Run(ctx, Pipeline{o.system.Client}, func(e grader.Event) {
		run.foresees.Event(e)
		d.change(c.Name, func(*work) { run.take(e) })
	})
	stop()
	aside.Wait()
	return err
}

// take takes what the grader tells.
func (r *Run) take(e grader.Event) {
	if e.Result != nil && e.Result.Status == jobs.Succeeded {
		r.Answers[studentOf(e.Result.CustomID)]++
	}
	if e.Finished != nil {
		r.Statuses[e.Finished.ID] = e.Finished.Status
	}
	e.Result, e.Finished = nil, nil
	r.Event = e
}

// studentOf is the pseudonym in the name of a job: s-7kq2mx of s-7kq2mx-code-2.
func studentOf(customID string) string {
	parts := strings.SplitN(customID, "-", 3)
	return strings.Join(parts[:min(2, len(parts))], "-")
}

// look foresees now and then when a run will end.
func (d *Desk) look(ctx context.Context, class string, o *opened, run *Run) {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		if now, err := o.system.Inspect(ctx); err == nil { // else the next one may succeed
			missing := slices.DeleteFunc(o.Models(), func(m string) bool { return Decodes(now.Workers, m) })
			left, known := run.foresees.Until(now)
			d.change(class, func(*work) {
				if run.Missing, run.Left = missing, left; !known {
					run.Left = 0
				}
			})
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}
