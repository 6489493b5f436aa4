package submitter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"text/tabwriter"
	"time"

	"tandem/client/admin"
	"tandem/internal/engine"
	"tandem/internal/queue"
	"tandem/internal/units"
	"tandem/jobs"
)

// trial is one prompt, once computed whole on the decode machine and once handed over to it.
type trial struct {
	bytes        int // of the prompt
	tokens       int
	whole, moved *jobs.Result
	sampled      *jobs.Result // of another prompt as long, also computed by the decode machine itself
}

// acceptance measures the hand-over of KV states between the machines that serve a model, with prompts
// that nobody has computed before, and says which plan pays. Each prompt first runs whole on the decode
// machine, then through prefill and hand-over; and another one as long is handed over and also computed by the decode machine, which compares.
func (c *doctorCmd) acceptance(ctx context.Context, e *examination, model string, workers []admin.Presence) {
	model, err := jobs.CanonicalModel(model)
	if err != nil {
		e.add(levelFailed, "hand-over", err.Error(), "")
		return
	}
	check := "hand-over for " + model
	room := contextOf(workers, model)
	var trials []trial
	bytesPerToken := 3.0 // of code, before the first prompt has told
	for _, n := range c.Tokens {
		if room > 0 && n+answerTokens >= room {
			e.add(levelWarning, check, fmt.Sprintf("a prompt of %d tokens is left out: the workers' context is %d", n, room), "raise --num-ctx of the model's workers, if prompts get that long")
			continue
		}
		t, err := c.try(ctx, e, model, int(float64(n)*bytesPerToken))
		if interrupted(ctx) {
			return
		}
		if err != nil {
			e.add(levelFailed, fmt.Sprintf("%s, %d tokens", check, n), err.Error(), "see the logs of the model's workers")
			continue
		}
		bytesPerToken = float64(t.bytes) / float64(t.tokens)
		e.judge(fmt.Sprintf("%s, %d tokens", check, t.tokens), t)
		trials = append(trials, t)
	}
	if o, err := e.session.client.Inspect(ctx); err == nil { // again, since engines may have been checked meanwhile
		e.predictions(model, o)
	}
	e.recommend(ctx, check, trials)
}

// predictions prints how far apart the predictions of each pair of machines were that serve a model, after the prompts of the check. What is too far
// is said elsewhere.
func (e *examination) predictions(model string, o *admin.Overview) {
	table := [][]string{{"predictions", "apart", "far"}}
	row := func(name string, median float64, far ...int) {
		table = append(table, []string{name, fmt.Sprintf("%.4f", median), strings.Trim(fmt.Sprint(far), "[]")})
	}
	for p, d := range pairs(o) {
		if p.Model != model || p.Check == nil || d.Check == nil {
			continue
		}
		if median, far, ok := engine.Between(p.Check, d.Check); ok {
			row(p.Machine+" and "+d.Machine, median, far)
		}
	}
	for _, w := range o.Workers {
		if c := w.Check; w.Model == model && c != nil {
			row(w.Machine+" with its cache and without", c.Cached, c.Far)
			row(w.Machine+" token by token and in batches", c.Single)
		}
	}
	if len(table) > 1 {
		e.print(table, 0)
	}
}

// print prints a table, unless JSON is asked for.
func (e *examination) print(table [][]string, flags uint) {
	if e.session.JSON {
		return
	}
	tabs := tabwriter.NewWriter(e.session.out, 0, 0, 2, ' ', flags)
	for _, row := range table {
		fmt.Fprintln(tabs, strings.Join(row, "\t")+"\t")
	}
	_ = tabs.Flush() // as what is printed after it
}

// answerTokens are generated for each prompt.
const answerTokens = 16

// contextOf is the smallest context of the workers that serve a model, 0 if none says.
func contextOf(workers []admin.Presence, model string) int {
	smallest := 0
	for _, w := range workers {
		if w.Model == model && w.ContextTokens > 0 && (smallest == 0 || w.ContextTokens < smallest) {
			smallest = w.ContextTokens
		}
	}
	return smallest
}

// try runs the two jobs of one prompt.
func (c *doctorCmd) try(ctx context.Context, e *examination, model string, bytes int) (t trial, err error) {
	prompt := unheard(bytes)
	t.bytes = len(prompt)
	run := func(plan jobs.Plan, prompt string, sample bool) (*jobs.Result, error) {
		wait, cancel := e.session.waitLimit(ctx, c.Timeout)
		defer cancel()
		r, err := e.session.client.Run(wait, &jobs.Job{
			Model:  model,
			Prompt: prompt, Options: jobs.Options{Temperature: new(0.0), NumPredict: new(answerTokens)}, Plan: plan, Sample: sample,
			Deadline: time.Now().UTC().Add(c.Timeout), Labels: map[string]string{"purpose": "doctor"},
		})
		if err == nil && r.Status != jobs.Succeeded {
			err = fmt.Errorf("%s", problem(r))
		}
		return r, err
	}
	if t.whole, err = run(jobs.PlanLocal, prompt, false); err != nil {
		return t, err
	}
	if t.moved, err = run(jobs.PlanDisaggregated, prompt, false); err != nil {
		return t, err
	}
	if t.sampled, err = run(jobs.PlanDisaggregated, unheard(bytes), true); err != nil { // another prompt, so that it does not disturb what is measured
		return t, err
	}
	t.tokens = t.moved.Usage.PromptTokens
	return t, nil
}

// unheard is a prompt of about so many bytes that no cache holds: its first words are random.
func unheard(bytes int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Acceptance test %s. Explain this program line by line:\n", rand.Text())
	for i := 0; b.Len() < bytes; i++ {
		fmt.Fprintf(&b, "total_%d <- sum(price[%d] * quantity[%d])\n", i, i, i)
	}
	return b.String()
}

// judge says what became of one hand-over.
func (e *examination) judge(check string, t trial) {
	for _, r := range []*jobs.Result{t.moved, t.sampled} {
		switch h := r.Handover; {
		case r.Method != jobs.MethodDisaggregated:
			e.add(levelFailed, check, r.Decision, "see that a prefill worker for the model runs")
			return
		case h == nil:
			e.add(levelFailed, check, "no KV state was meant to be handed over: "+r.Decision, "start the prefill worker with an engine that moves states; submitter status says why it does not")
			return
		case h.Failure != "":
			e.add(levelFailed, check, fmt.Sprintf("%s: %s", h.Failure, h.Message), "")
			return
		}
	}
	r, h, apart := t.moved, t.moved.Handover, t.sampled.Handover.Sampled
	if apart == nil {
		e.add(levelFailed, check, "the decode machine did not compare the KV state with what it computes by itself", "install the same version of Tandem on both machines")
		return
	}
	s := r.Timings
	e.ok(check, "%s saved in %s, moved in %s (%s/s), read in %s, checked in %s; %d tokens handed over, %d computed again; first predictions differ by %.4f, from what the decode machine computes by itself by %.4f",
		units.Bytes(uint64(h.Bytes)), milli(s.SaveSeconds), milli(s.TransferSeconds), units.Bytes(uint64(h.BytesPerSecond)), milli(s.RestoreSeconds), milli(s.CheckSeconds),
		r.Usage.HandedOver, r.Usage.DecodeComputed, h.Divergence, *apart)
	if r.Text != t.whole.Text {
		e.add(levelWarning, check, "the text differs from the one that the decode machine computes by itself", "two kinds of hardware round differently, which may change a token where two are nearly as likely; if the first predictions differ by more than 0.01, compare the two engines' versions and settings")
	}
}

// recommend prints what each length took on either way, keeps it for the console, and says which plan pays.
func (e *examination) recommend(ctx context.Context, check string, trials []trial) {
	var paying []int
	kept := map[[2]string]*admin.Trial{} // by machines
	table := [][]string{{"tokens", "re-prefill", "prefill", "save", "move", "read", "check", "hand-over", "saved", "apart"}}
	for _, t := range trials {
		h, s := t.moved.Handover, t.moved.Timings
		if h == nil || h.Failure != "" || t.sampled.Handover == nil || t.sampled.Handover.Sampled == nil {
			continue // which was said
		}
		l := admin.TrialLength{
			Tokens: t.tokens, WholeSeconds: t.whole.Timings.PrefillSeconds, PrefillSeconds: s.PrefillSeconds, SaveSeconds: s.SaveSeconds, MoveSeconds: s.TransferSeconds,
			RestoreSeconds: s.RestoreSeconds, CheckSeconds: s.CheckSeconds, Bytes: h.Bytes, BytesPerSecond: h.BytesPerSecond, Divergence: *t.sampled.Handover.Sampled,
			SameText: t.moved.Text == t.whole.Text,
		}
		whole, saved := l.WholeSeconds, l.SavedSeconds()
		if saved > max(0.15, whole/10) {
			paying = append(paying, t.tokens)
		}
		table = append(table, []string{fmt.Sprint(t.tokens), milli(whole), milli(s.PrefillSeconds), milli(s.SaveSeconds), milli(s.TransferSeconds),
			milli(s.RestoreSeconds), milli(s.CheckSeconds), milli(whole - saved), milli(saved), fmt.Sprintf("%.4f", l.Divergence)})
		pair := [2]string{path.Dir(t.moved.Servers.Prefill), path.Dir(t.moved.Servers.Decode)}
		if kept[pair] == nil {
			kept[pair] = &admin.Trial{At: time.Now().UTC(), Model: t.moved.Model, Prefill: pair[0], Decode: pair[1]}
		}
		kept[pair].Lengths = append(kept[pair].Lengths, l)
	}
	if len(table) == 1 {
		return
	}
	e.print(table, tabwriter.AlignRight)
	for _, t := range kept {
		switch err := e.session.client.KeepTrial(ctx, *t); {
		case errors.Is(err, queue.ErrNotKept):
			e.ok(check, "the console will not show this: %v", err)
		case err != nil:
			e.add(levelWarning, check, err.Error(), "the console goes on to show what was measured before")
		}
	}
	switch {
	case len(paying) == 0:
		e.ok(check, "works, and the decode machine computes prompts of these lengths as fast by itself: use --plan auto, which hands over where it pays, or --plan local")
	case len(paying) == len(table)-1:
		e.ok(check, "works, and pays at every length tried: use --plan auto (or disaggregated)")
	default:
		e.ok(check, "works, and pays from about %d tokens: use --plan auto, which decides by these rates", paying[0])
	}
}

// milli writes a time with as many digits as can be believed.
func milli(s float64) string {
	if s > -1 && s < 1 {
		return fmt.Sprintf("%.0f ms", s*1000)
	}
	return secs(s)
}
