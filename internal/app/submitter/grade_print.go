package submitter

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"tandem/internal/engine"
	"tandem/internal/grader"
	"tandem/internal/grader/report"
	"tandem/internal/inert"
	"tandem/internal/jobs"
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
	fmt.Fprintf(&b, "%d submissions: %d graded, %d need review, %d failed\n", class.Submissions, class.Graded, class.Review, class.Failed)
	if d := class.Distribution; d.Count > 0 {
		fmt.Fprintf(&b, "percent of %d certain scores: mean %.1f, median %.1f, from %.1f to %.1f\n", d.Count, d.Mean, d.Median, d.Low, d.High)
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
	fmt.Fprintf(&b, "\npages:  %s\ngrades: %s\nnames:  %s\n", c.page("index.html"), c.page("grades.csv"), c.page("instructor", "roster.csv"))
	_, err := io.WriteString(w, inert.Text(b.String()))
	return err
}

// writeOpen lists what needs a person.
func (c *gradeCmd) writeOpen(b *strings.Builder, class *report.Class) {
	told, open := 0, class.Review+class.Failed
	for _, row := range class.Students {
		if row.Status == report.Graded || told == toldSubmissions {
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
	Estimate []estimate `json:"estimate"`
	Seconds  float64    `json:"seconds"` // about, the models working side by side; 0 if nothing is to be sent
	Measured bool       `json:"measured"`
}

// estimate is how long a model's part would take.
type estimate struct {
	Model          string  `json:"model"`
	PrefillSeconds float64 `json:"prefill_seconds"`
	DecodeSeconds  float64 `json:"decode_seconds"` // if every answer is as long as it may be
	Measured       bool    `json:"measured"`       // by this system's workers; else published figures of the machines
}

// printPlan prints what would be sent.
func (c *gradeCmd) printPlan(ctx context.Context, s *session, g *grader.Grading) error {
	planned, err := g.Plan()
	if err != nil {
		return err
	}
	p := plan{Plan: planned}
	for _, m := range planned.Models {
		e, err := c.estimate(ctx, s, m)
		if err != nil {
			return err
		}
		p.Estimate = append(p.Estimate, e)
		p.Seconds = max(p.Seconds, e.PrefillSeconds, e.DecodeSeconds)
		p.Measured = p.Measured || e.Measured
	}
	if s.JSON {
		return s.print(p)
	}
	return p.writeTo(s.out)
}

// inspectLimit is how long the queue may need to tell what its workers have measured.
const inspectLimit = 10 * time.Second

// estimate takes the rates that the workers measured, and for those that were not the published ones of a DGX Spark and a Mac Studio.
func (c *gradeCmd) estimate(ctx context.Context, s *session, m grader.ModelPlan) (estimate, error) {
	e := estimate{Model: m.Model}
	if m.Jobs == 0 {
		return e, nil
	}
	p := scene{explainCmd: &explainCmd{}, Model: m.Model, prefillSlots: 1, decodeSlots: 1}
	if s.conn != nil {
		ctx, cancel := context.WithTimeout(ctx, inspectLimit)
		defer cancel()
		o, err := s.conn.Inspect(ctx)
		if err != nil {
			return e, err
		}
		if err := p.look(o); err != nil {
			return e, err
		}
	}
	prompt := m.SharedTokens + m.OwnTokens/m.Jobs
	prefill := engine.SpeedsOf(m.Model, jobs.RolePrefill, rates(p.prefill)).Prefill(prompt)
	decode := engine.SpeedsOf(m.Model, jobs.RoleDecode, rates(p.decode)).Decode(prompt)
	prefillSlots, decodeSlots := max(1, p.prefillSlots), max(1, p.decodeSlots)
	e.PrefillSeconds = float64(m.SharedTokens*prefillSlots+m.OwnTokens) / prefill.Value / float64(prefillSlots)
	e.DecodeSeconds = float64(m.AnswerTokens) / decode.Value / float64(decodeSlots)
	e.Measured = prefill.Measured && decode.Measured
	return e, nil
}

// writeTo prints the plan for a person.
func (p *plan) writeTo(w io.Writer) error {
	var b strings.Builder
	for _, warning := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	fmt.Fprintf(&b, "%d submissions, of which %d cannot be graded; nothing was sent\n", p.Submissions, p.Failed)
	for _, f := range p.Problems {
		fmt.Fprintf(&b, "  %s  %s\n", f.ID, f.Problem)
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\tasked for\tjobs\treused\tshared tok\town tok\tlongest\tanswers ≤\tcut\tprefill\tdecode ≤\t")
	for i, m := range p.Models {
		e := p.Estimate[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t\n", m.Model, m.Judge, m.Jobs, m.Reused, m.SharedTokens, m.OwnTokens, m.LongestOwn,
			m.AnswerTokens, m.Cut, clock(seconds(e.PrefillSeconds)), clock(seconds(e.DecodeSeconds)))
	}
	_ = t.Flush() // a strings.Builder takes everything
	fmt.Fprintln(&b, "(tokens are estimates; the shared prefix is computed once per prefill slot and model, the own part of each job is the rest)")
	for _, m := range p.Models {
		if m.Cut > 0 {
			fmt.Fprintf(&b, "%s: prompts that are cut: %d; with a --num-ctx of about %d its workers would get them whole\n", m.Model, m.Cut, m.Context)
		}
	}
	basis := "published rates of a DGX Spark and a Mac Studio, since no worker has measured its own yet"
	if p.Measured {
		basis = "the rates that the workers have measured"
	}
	if p.Seconds > 0 {
		fmt.Fprintf(&b, "about %s at most, by %s\n", clock(seconds(p.Seconds)), basis)
	}
	_, err := io.WriteString(w, inert.Text(b.String()))
	return err
}

// seconds is a time as the estimates have it.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
