package submitter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"tandem/internal/agreement"
	"tandem/internal/app"
	"tandem/internal/grader"
	"tandem/internal/grader/overrides"
	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
	"tandem/internal/sanitize"
	"tandem/jobs"
)

// calibrateCmd says how far the models judge as the instructor does.
type calibrateCmd struct {
	Dir    string  `arg:"" placeholder:"DIR" help:"Folder that submitter grade --out wrote."`
	Sample int     `default:"10" placeholder:"N" help:"How many submissions to judge (default ${default})."`
	Least  float64 `default:"0.6" placeholder:"KAPPA" help:"Below this agreement a criterion is doubtful (default ${default})."`
	Report bool    `help:"Only report on what was judged so far."`

	Repeat int       `placeholder:"N" help:"Ask the models N times more about the sample, with the criteria in other orders and other seeds, and say where they disagree with themselves."`
	Robust bool      `help:"Ask them about the sample with flattery in it, text repeated, variables renamed and instructions to the grader, and say how far points move."`
	Direct string    `placeholder:"URL" env:"TANDEM_DIRECT" help:"Ask this one Ollama, without the pipeline."`
	Plan   jobs.Plan `enum:",disaggregated,local,auto" default:"" placeholder:"PLAN" help:"auto (default), what is fastest; disaggregated; or local."`
}

// Help says how it goes.
func (calibrateCmd) Help() string {
	return `You judge each criterion of a sample, blind: beside a page with the notebook and nothing that was found or said. The sample has submissions of each part of the class, those whose points the models moved most. Stop at any time; the next call goes on.

Then it says how far the models agree with you: equal, one level apart at most, kappa with quadratic weights, ICC(3,1) and bias, each with its 95 % interval. A criterion that agrees too little can be set so that no model's judgement of it counts.

With --repeat and --robust the models are asked again, in place of you; the class itself stays as it is. Exit code 3 with --robust: checks moved, an instruction was not found, or points moved by more than the models' bound.`
}

// typed are the judgements as they may be typed.
var typed = map[string]score.Verdict{
	"m": score.Met, "met": score.Met, "p": score.Partly, "partly": score.Partly, "n": score.NotMet, "not": score.NotMet, "not_met": score.NotMet,
}

// calibrating is a calibration with the person at it.
type calibrating struct {
	*session
	*grader.Calibration
	lines *bufio.Scanner
	dir   string
}

// Run has the sample judged, and reports.
func (c *calibrateCmd) Run(ctx context.Context, s *session) error {
	switch {
	case c.Sample < 1:
		return jobs.Errorf(jobs.CodeInvalid, "sample is %d; want at least 1", c.Sample)
	case c.Repeat < 0:
		return jobs.Errorf(jobs.CodeInvalid, "repeat is %d; want at least 1", c.Repeat)
	}
	return s.review(c.Dir, func(review *grader.Review) (err error) {
		calibration, err := review.Calibrate(c.Dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, calibration.Close()) }()
		return c.calibrate(ctx, &calibrating{s, calibration, bufio.NewScanner(s.in), c.Dir})
	})
}

// calibrate has the sample judged, by the person or by the models again.
func (c *calibrateCmd) calibrate(ctx context.Context, r *calibrating) error {
	sample := r.Sample(c.Sample)
	if len(sample) == 0 {
		return jobs.Errorf(jobs.CodeInvalid, "no submission in %s has the answers of both models; grade with models first", c.Dir)
	}
	if c.Repeat > 0 || c.Robust {
		return c.probe(ctx, r, sample)
	}
	if !c.Report {
		if err := r.judgeAll(sample); err != nil {
			return err
		}
	}
	found := r.Agreement()
	if r.JSON {
		return r.print(found)
	}
	if err := r.write(found); err != nil || c.Report {
		return err
	}
	return r.decide(found, c.Least)
}

// ask asks for one line; ok is false when there are no more.
func (r *calibrating) ask(format string, args ...any) (line string, ok bool) {
	fmt.Fprint(r.err, sanitize.Text(fmt.Sprintf(format, args...)))
	if !r.lines.Scan() {
		return "", false
	}
	return strings.ToLower(strings.TrimSpace(r.lines.Text())), true
}

// judgeAll goes through the sample, as far as the person wants.
func (r *calibrating) judgeAll(sample []string) error {
	for i, id := range sample {
		open := r.Open(id)
		if len(open) == 0 {
			continue
		}
		page, err := r.Page(id)
		if err != nil {
			return err
		}
		r.say("%s (%d of %d): open %s beside this", id, i+1, len(sample), filepath.Join(r.dir, page))
		for _, k := range open {
			if goOn, err := r.judge(id, k); !goOn || err != nil {
				return err
			}
		}
	}
	return nil
}

// judge asks for one judgement until there is one.
func (r *calibrating) judge(id string, k rubric.Criterion) (goOn bool, err error) {
	for {
		line, ok := r.ask("  %s  %s\n  [m]et, [p]artly, [n]ot met, [s]kip, [q]uit: ", k.ID, k.Text)
		switch verdict := typed[line]; {
		case !ok || line == "q" || line == "quit":
			return false, r.lines.Err()
		case line == "s" || line == "skip":
			return true, nil
		case verdict != "":
			return true, r.Judge(id, k.ID, verdict)
		}
		r.say("  %q is none of them", line)
	}
}

// write prints the agreement.
func (r *calibrating) write(found *grader.Agreement) error {
	var b strings.Builder
	fmt.Fprintf(&b, "submissions judged: %d\n", found.Submissions)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "criterion\tjudge\tpairs\tequal\twithin one\tkappa\tICC(3,1)\tbias\t")
	row := func(id, judge string, a agreement.Report) {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t\n", id, judge, a.Pairs, interval(a.Exact), interval(a.Within), interval(a.Kappa), interval(a.ICC), interval(a.Bias))
	}
	for _, k := range found.Criteria {
		judge := string(k.Judge)
		if k.Ignored {
			judge = "nobody, was " + judge
		}
		row(k.ID, judge, k.Report)
	}
	row("all together", "", found.Together)
	_ = t.Flush() // a strings.Builder takes everything
	fmt.Fprintln(&b, "(95 % intervals by bootstrap; levels are 0, 1, 2, and a bias above 0 is a model milder than you; – is not defined: somebody gave one level only)")
	for _, k := range found.Criteria {
		if k.Unclear > 0 {
			fmt.Fprintf(&b, "%s: the model found %d unclear, which are not compared\n", k.ID, k.Unclear)
		}
	}
	_, err := io.WriteString(r.out, sanitize.Text(b.String()))
	return err
}

func interval(f *agreement.Figure) string {
	if f == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f [%.2f, %.2f]", f.Value, f.Low, f.High)
}

// probe asks the models again.
func (c *calibrateCmd) probe(ctx context.Context, r *calibrating, sample []string) error {
	who, err := r.userName()
	if err != nil {
		return err
	}
	files, err := r.Files()
	if err != nil {
		return err
	}
	a, err := grader.Load(files.Inputs)
	if err != nil {
		return err
	}
	o := grader.Options{Prompts: files.Prompts, User: who, Models: map[string]grader.Model{}}
	models, err := (&gradeCmd{Direct: c.Direct}).answerer(ctx, r.session, a, &o)
	if err != nil {
		return err
	}
	o.Plan = r.classPlan(c.Plan)
	variants := grader.Repeats(c.Repeat)
	if c.Robust {
		variants = append(variants, grader.Stresses()...)
	}
	last := ""
	found, err := r.Probe(ctx, a, o, sample, variants, models, func(variant string, e grader.Event) {
		if line := fmt.Sprintf("%s: %d of %d submissions", variant, e.Done, e.Submissions); line != last {
			r.session.say("%s", line)
			last = line
		}
	})
	if err != nil {
		return withHint(err, "what was answered is kept; go on with the same command")
	}
	if r.JSON {
		err = r.print(found)
	} else {
		err = writeProbed(r.out, found)
	}
	if err == nil && slices.ContainsFunc(found.Variants, grader.Moved.Unsound) {
		err = &app.ExitError{Code: app.ExitDegraded}
	}
	return err
}

// writeProbed prints what asking again came to.
func writeProbed(w io.Writer, found *grader.Probed) error {
	var b strings.Builder
	fmt.Fprintf(&b, "submissions asked about again: %d\n", found.Submissions)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(found.Criteria) > 0 {
		fmt.Fprintln(t, "criterion\tjudge\tasked again\tas the first time\tsubmissions judged in two ways\t")
	}
	for _, k := range found.Criteria {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t\n", k.ID, k.Judge, k.Asked, interval(k.Same), k.Changed)
	}
	if len(found.Variants) > 0 {
		fmt.Fprintln(t, "variant\tsubmissions\tpoints moved, mean\tmost\tbeyond the bound\tchecks moved\tinstructions found\t")
	}
	for _, v := range found.Variants {
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%+.2f %s\t%d\t%d\t%d\t\n", v.Variant, v.Submissions, v.Mean, v.Most, v.MostOf, v.Beyond, v.ChecksMoved, v.Flagged)
	}
	_ = t.Flush() // a strings.Builder takes everything
	_, err := io.WriteString(w, sanitize.Text(b.String()))
	return err
}

// decide offers to have nobody judge what agrees too little.
func (r *calibrating) decide(found *grader.Agreement, least float64) error {
	for i := range found.Criteria {
		k := &found.Criteria[i]
		if !k.Doubtful(least) {
			continue
		}
		figure, value := "kappa", k.Kappa
		if value == nil {
			figure, value = "share of equal judgements", k.Exact
		}
		line, ok := r.ask("%s: the %s is %.2f, less than %g. Let no model's judgement of it count? [y/N] ", k.ID, figure, value.Value, least)
		if !ok {
			return r.lines.Err()
		}
		if line != "y" && line != "yes" {
			continue
		}
		n, err := r.Decide(overrides.Line{
			Do: overrides.Class, Thing: &score.Thing{Kind: score.CriterionKind, Name: k.ID}, Verdict: report.Ignore,
			Why: fmt.Sprintf("%s %.2f with %d judgements of the instructor's", figure, value.Value, k.Pairs),
		})
		if err != nil {
			return err
		}
		r.session.say("line %d: %s; for other classes write \"judge\": \"nobody\" at it in the rubric", n.N, n.What())
	}
	return nil
}
