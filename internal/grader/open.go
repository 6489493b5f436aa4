package grader

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"tandem/internal/grader/ask"
	"tandem/internal/grader/intake"
	"tandem/internal/grader/overrides"
	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

// Grading is a class being graded. It holds no notebooks: they are read when needed.
type Grading struct {
	a     *Assignment
	o     Options
	batch string

	root      *os.Root
	lock      *os.File
	ledger    *ledger
	decisions *overrides.Log
	desk      *overrides.Desk
	answers   *answers
	dir       *report.Dir
	roster    *intake.Roster
	class     *intake.Class
	builder   *ask.Builder
	masks     *ask.Masks
	prompts   string // hash of the templates, "" if nothing is asked

	submissions []*submission // in the order of the class
	warnings    []string
	metrics     metrics
}

// Open collects the submissions, makes the checks of layers 1 and 2 and reads the ledger. Nothing is sent. Close it.
func Open(ctx context.Context, a *Assignment, o Options) (*Grading, error) {
	if o.Only != "" && o.Only != OnlyFailed && o.Only != OnlyReview {
		return nil, jobs.Errorf(jobs.CodeInvalid, "only is %q; want %s or %s", o.Only, OnlyFailed, OnlyReview)
	}
	o.Class = cmp.Or(o.Class, jobs.Batch)
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Grading{a: a, o: o}
	if err := g.open(ctx); err != nil {
		_ = g.Close() // what went wrong first is what the user must know
		return nil, err
	}
	return g, nil
}

func (g *Grading) open(ctx context.Context) error {
	if err := g.openFolder(); err != nil {
		return err
	}
	if err := g.collect(ctx); err != nil {
		return err
	}
	if !g.o.WithoutAsk {
		if err := g.openPrompts(); err != nil {
			return err
		}
	}
	if err := g.examineAll(ctx); err != nil {
		return err
	}
	g.checkOverlap()
	g.desk = &overrides.Desk{Rubric: g.a.Rubric, Log: g.decisions, Rare: g.rare()}
	if err := g.recall(); err != nil {
		return err
	}
	return g.choose()
}

// openFolder takes the folder, and reads the ledger in it.
func (g *Grading) openFolder() (err error) {
	if err := os.MkdirAll(g.o.Out, 0o700); err != nil {
		return fmt.Errorf("create folder for reports (--out): %w", err)
	}
	if g.root, err = os.OpenRoot(g.o.Out); err != nil {
		return fmt.Errorf("open folder for reports (--out): %w", err)
	}
	if g.lock, err = lock(g.root, g.o.Out); err != nil {
		return err
	}
	g.dir = report.NewDir(g.root)
	if g.answers, err = openAnswers(g.root); err != nil {
		return err
	}
	if g.ledger, err = openLedger(g.root, g.o.Out); err != nil {
		return err
	}
	if g.decisions, err = overrides.Open(g.root, g.o.Out); err != nil {
		return err
	}
	b := g.ledger.begun
	switch {
	case b == nil:
		g.batch = "grade-" + strings.ToLower(rand.Text()[:10])
		return nil
	case !g.o.Resume:
		return jobs.Errorf(jobs.CodeInvalid, "%s holds a grading already; go on with it by --resume, or name another folder with --out", g.o.Out)
	case b.User != g.o.User:
		return jobs.Errorf(jobs.CodeInvalid, "%s holds a grading of user %q, and this is user %q, whose jobs are others; go on with --user %s", g.o.Out, b.User, g.o.User, b.User)
	}
	g.batch = b.Batch
	return nil
}

// collect finds the submissions.
func (g *Grading) collect(ctx context.Context) (err error) {
	if g.roster, err = intake.OpenRoster(g.root); err != nil {
		return err
	}
	if g.class, err = intake.Collect(ctx, g.o.Paths, intake.Choice{Assignment: g.o.Course, Notebook: g.o.Notebook}, g.roster, g.a.notebooks...); err != nil {
		return err
	}
	for _, s := range g.class.Submissions {
		g.submissions = append(g.submissions, &submission{file: s})
	}
	g.warnings = slices.Concat(g.class.Warnings, g.a.warnings)
	return nil
}

func (g *Grading) openPrompts() (err error) {
	limits := map[rubric.Judge]ask.Limits{}
	for _, judge := range judges {
		limits[judge] = ask.Limits{ContextTokens: g.context(judge)}
	}
	if g.builder, err = ask.NewBuilder(ask.Assignment{Rubric: g.a.Rubric, Solution: g.a.solution, Template: g.a.template, Seed: g.o.Seed}, g.o.Prompts, limits); err != nil {
		return err
	}
	g.prompts = g.builder.SHA256()
	return nil
}

// context is the context of a judge's model in tokens: what its workers say, else, while none of them lives, what they said when they were last asked, so that the prompts are the same ones; 0 if it is not known.
func (g *Grading) context(judge rubric.Judge) int {
	if n := g.o.Models[g.a.model(judge)].ContextTokens; n > 0 {
		return n
	}
	for _, a := range slices.Backward(g.ledger.attempts) {
		if a.Judge == judge {
			return a.Context
		}
	}
	return 0
}

// checkOverlap warns of a solution that is probably another assignment's.
func (g *Grading) checkOverlap() {
	var overlaps []float64
	for _, s := range g.submissions {
		if s.layer2 != nil {
			overlaps = append(overlaps, s.layer2.Overlap)
		}
	}
	if len(overlaps) == 0 || len(g.a.assigned) == 0 {
		return
	}
	slices.Sort(overlaps)
	if median := overlaps[len(overlaps)/2]; median < hardlyAny {
		g.warn("hardly any overlap: the submissions assign %.0f %% of the solution's variables (the median); is this the right solution?", 100*median)
	}
}

func (g *Grading) warn(format string, args ...any) {
	g.warnings = append(g.warnings, fmt.Sprintf(format, args...))
}

// People are whose submissions these are, in their order.
func (g *Grading) People() []intake.Student {
	list := make([]intake.Student, 0, len(g.submissions))
	for _, s := range g.submissions {
		one, _ := g.roster.Student(s.file.ID)
		list = append(list, one)
	}
	return list
}

// Batch is the name of the jobs' batch.
func (g *Grading) Batch() string { return g.batch }

// Close releases files and the lock on the folder.
func (g *Grading) Close() error {
	var errs []error
	if g.class != nil {
		errs = append(errs, g.class.Close())
	}
	if g.ledger != nil {
		errs = append(errs, g.ledger.file.Close())
	}
	if g.decisions != nil {
		errs = append(errs, g.decisions.Close())
	}
	if g.lock != nil {
		errs = append(errs, g.lock.Close())
	}
	if g.root != nil {
		errs = append(errs, g.root.Close())
	}
	return errors.Join(errs...)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
