package submitter

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/forecast"
	"tandem/internal/grader"
	"tandem/internal/grader/report"
	"tandem/internal/sanitize"
)

// toldSubmissions is how many submissions that need a person are told on the screen; all are on the class's page.
const toldSubmissions = 20

// writeClass prints what the grading came to.
func (c *gradeCmd) writeClass(w io.Writer, class *report.Class) error {
	var b strings.Builder
	for _, warning := range class.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	if class.Notice != "" {
		fmt.Fprintf(&b, "%s\n", class.Notice)
	}
	final := ""
	if class.Final > 0 {
		final = fmt.Sprintf(", %d final", class.Final)
	}
	fmt.Fprintf(&b, "%d submissions: %d graded%s, %d need review, %d failed\n", class.Submissions, class.Graded, final, class.Review, class.Failed)
	if d := class.Distribution; d.Count > 0 {
		of := fmt.Sprintf("%d scores", d.Count)
		if d.Ranges > 0 {
			of += fmt.Sprintf(" (%d of them the middle of a range)", d.Ranges)
		}
		fmt.Fprintf(&b, "percent of %s: mean %.1f, median %.1f, from %.1f to %.1f\n", of, d.Mean, d.Median, d.Low, d.High)
	}
	if undecided := slices.DeleteFunc(slices.Clone(class.Rare), func(r report.Rare) bool { return r.Verdict != "" }); len(undecided) > 0 {
		fmt.Fprintf(&b, "hardly anybody has these, so they count for nobody until you decide (%s review %s):\n", name, c.Out)
		for _, r := range undecided {
			fmt.Fprintf(&b, "  %s: %d of %d have it\n", r.Thing, r.Have, r.Of)
		}
	}
	c.writeOpen(&b, class)
	if class.Metrics != nil && class.Metrics.Jobs > 0 {
		fmt.Fprintln(&b)
		if err := (batchReport{class.Metrics}).writeTo(&b); err != nil {
			return err
		}
		if class.PairSpeedUp > 0 {
			fmt.Fprintf(&b, "code analysis and feedback side by side: %.2f× as fast as one after the other\n", class.PairSpeedUp)
		}
		for _, p := range class.Prefix {
			fmt.Fprintf(&b, "%s: %d of %d prompt tokens computed, the rest found in the cache\n", p.Model, p.Computed, p.Tokens)
		}
		if class.Reused > 0 {
			fmt.Fprintf(&b, "answers of earlier runs: %d\n", class.Reused)
		}
	}
	fmt.Fprintf(&b, "\npages:  %s\ngrades: %s\nnames:  %s\nnext:   %s review %s, then %s release %s\n",
		c.page("index.html"), c.page("grades.csv"), c.page("instructor", "roster.csv"), name, c.Out, name, c.Out)
	_, err := io.WriteString(w, sanitize.Text(b.String()))
	return err
}

// writeOpen lists what needs a person.
func (c *gradeCmd) writeOpen(b *strings.Builder, class *report.Class) {
	told, open := 0, class.Review+class.Failed
	for _, row := range class.Students {
		if row.Status == report.Graded || row.Status == report.Final || told == toldSubmissions {
			continue
		}
		told++
		problem := ""
		if row.Status == report.Failed {
			problem = strings.Join(row.Why, "; ")
		}
		fmt.Fprintf(b, "  %s  %s\n", row.ID, why(row.Status, problem, row.Why))
	}
	if more := open - told; more > 0 {
		fmt.Fprintf(b, "  … and %d more: %s\n", more, c.page("index.html"))
	}
}

// plan is a dry run in JSON.
type plan struct {
	*grader.Plan
	Estimate *forecast.Estimate `json:"estimate,omitempty"` // left out if one Ollama does all by itself
}

// inspectLimit is how long the queue may need to tell what its workers have measured.
const inspectLimit = 10 * time.Second

// printPlan prints what would be sent, and when it would be done.
func (c *gradeCmd) printPlan(ctx context.Context, s *session, g *grader.Grading) error {
	planned, err := g.Plan()
	if err != nil {
		return err
	}
	p := plan{Plan: planned}
	if c.Direct == "" {
		var o *admin.Overview
		if s.client != nil {
			ctx, cancel := context.WithTimeout(ctx, inspectLimit)
			defer cancel()
			if o, err = s.client.Inspect(ctx); err != nil {
				return err
			}
		}
		p.Estimate = forecast.Class(o, planned, c.Class, s.classPlan(c.Plan))
	}
	if s.JSON {
		err = s.print(p)
	} else {
		err = p.writeTo(s.out, c.Rubric)
	}
	if err == nil && !p.SelfCheck.Sound && !c.AcceptRubric {
		err = &app.ExitError{Code: app.ExitDegraded}
	}
	return err
}

// writeTo prints the plan for a person.
func (p *plan) writeTo(w io.Writer, rubric string) error {
	var b strings.Builder
	writeSelfCheck(&b, rubric, p.SelfCheck)
	for _, warning := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	fmt.Fprintf(&b, "%d submissions, of which %d cannot be graded; nothing was sent\n", p.Submissions, p.Failed)
	for _, f := range p.Problems {
		fmt.Fprintf(&b, "  %s  %s\n", f.ID, f.Problem)
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\tasked for\tjobs\treused\tshared tok\town tok\tlongest\tanswers ≤\tcut\t")
	for _, m := range p.Models {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", m.Model, m.Judge, m.Jobs, m.Reused, m.SharedTokens, m.OwnTokens, m.LongestOwn, m.AnswerTokens, m.Cut)
	}
	_ = t.Flush() // a strings.Builder takes everything
	fmt.Fprintln(&b, "(tokens are estimates; the shared prefix is computed once per slot and model, the own part of each job is the rest)")
	for _, m := range p.Models {
		if m.Cut > 0 {
			fmt.Fprintf(&b, "%s: prompts that are cut: %d; with a --num-ctx of about %d its workers would get them whole\n", m.Model, m.Cut, m.Context)
		}
	}
	if p.Estimate != nil {
		writeEstimate(&b, p.Estimate)
	}
	_, err := io.WriteString(w, sanitize.Text(b.String()))
	return err
}

// seconds is a time as the estimates have it.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
