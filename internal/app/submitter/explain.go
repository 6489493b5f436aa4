package submitter

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"tandem/client/admin"
	"tandem/internal/engine"
	"tandem/internal/forecast"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// explainCmd says what plan auto would decide, or when a batch would be done.
type explainCmd struct {
	Model string `arg:"" optional:"" help:"Model, for example qwen3-coder:30b."`

	Batch         string `placeholder:"FILE" help:"Say instead when this file of jobs (submitter batch) would be done, by each plan and with one more machine."`
	Tokens        int    `default:"8000" placeholder:"N" help:"Tokens of the prompt (default ${default})."`
	CachedPrefill int    `name:"cached-prefill" placeholder:"N" help:"Of these, tokens that the prefill machine has in its cache."`
	CachedDecode  int    `name:"cached-decode" placeholder:"N" help:"Of these, tokens that the decode machine has in its cache."`
	Generate      int    `placeholder:"N" help:"Tokens of the answer (default: as many as answers had so far)."`
	CacheType     string `name:"cache-type" enum:",f16,q8_0" default:"" placeholder:"TYPE" help:"Type of the KV cache, as long as no state was seen: f16 or q8_0 (default: the engines', else f16)."`
	Table         bool   `help:"Print what handing over saves at many lengths of prompt instead."`
	Published     bool   `help:"Take the published rates of a DGX Spark and a Mac Studio, and do not ask NATS."`
}

// Help says on what the estimates rest.
func (explainCmd) Help() string {
	return "Prints what --plan auto would decide for such a prompt now, and the numbers, without running anything; or, with --batch, when a file of jobs would be done. What the model's workers have measured counts; for the rest stand published figures of the machines."
}

// Run prints the decision.
func (c *explainCmd) Run(ctx context.Context, s *session) error {
	if (c.Model == "") == (c.Batch == "") {
		return jobs.Errorf(jobs.CodeInvalid, "give either a model or --batch FILE")
	}
	if c.Batch != "" {
		return c.batch(ctx, s)
	}
	model, err := jobs.CanonicalModel(c.Model)
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	p := scene{explainCmd: c, Model: model}
	if !c.Published {
		if err := s.connect(ctx, model); err != nil {
			return err
		}
		o, err := s.client.Inspect(ctx)
		if err != nil {
			return err
		}
		if err := p.look(o); err != nil {
			return err
		}
	}
	if c.Table {
		return p.printTable(s)
	}
	return p.print(s)
}

// batch says when a file of jobs would be done.
func (c *explainCmd) batch(ctx context.Context, s *session) error {
	b := batchCmd{File: c.Batch, Class: jobs.Batch}
	if !c.Published {
		b.DryRun = true
		return b.Run(ctx, s)
	}
	list, _, err := b.read(s)
	if err != nil {
		return err
	}
	b.setPlan(s, list)
	return s.printEstimate(estimateBatch(nil, list))
}

// mostTokens is more than any model takes.
const mostTokens = 10_000_000

func (c *explainCmd) check() error {
	for _, f := range []struct {
		name            string
		value, min, max int
	}{
		{"tokens", c.Tokens, 1, mostTokens}, {"cached-prefill", c.CachedPrefill, 0, c.Tokens}, {"cached-decode", c.CachedDecode, 0, c.Tokens},
		{"generate", c.Generate, 0, mostTokens},
	} {
		if f.value < f.min || f.value > f.max {
			return jobs.Errorf(jobs.CodeInvalid, "%s is %d; want %d to %d", f.name, f.value, f.min, f.max)
		}
	}
	return nil
}

// scene is what a decision is explained of: the worker of each role that would take the job, nil where none lives.
type scene struct {
	*explainCmd
	Model           string
	prefill, decode *admin.Presence

	prefillSlots, decodeSlots int // of all live workers
	prefilling, decoding      int // jobs that wait or run
}

// look finds the workers and the queues. It fails if there are others, but the model is unknown.
func (p *scene) look(o *admin.Overview) error {
	known := make([]string, len(o.Models))
	for i, m := range o.Models {
		known[i] = m.Model
		for _, class := range m.Classes {
			if m.Model == p.Model {
				p.prefilling += class.Prefill.Waiting + class.Prefill.InFlight
				p.decoding += class.Decode.Waiting + class.Decode.InFlight
			}
		}
	}
	if len(known) > 0 && !slices.Contains(known, p.Model) {
		return jobs.Errorf(jobs.CodeUnknownModel, "model %s is unknown; known are %s (for the published figures of any model: --published)", p.Model, strings.Join(known, ", "))
	}
	for i := range o.Workers {
		w := &o.Workers[i]
		side, slots := &p.prefill, &p.prefillSlots
		if w.Role == protocol.RoleDecode {
			side, slots = &p.decode, &p.decodeSlots
		}
		if w.Model != p.Model || !w.Live() {
			continue
		}
		*slots += w.Slots
		if *side == nil || w.Slots-w.Busy > (*side).Slots-(*side).Busy {
			*side = w
		}
	}
	return nil
}

// rates are what a worker has measured.
func rates(w *admin.Presence) protocol.Rates {
	if w == nil {
		return protocol.Rates{}
	}
	return w.Rates
}

// ask makes the question for a prompt of so many tokens, of which some are cached.
func (p *scene) ask(tokens, cachedPrefill, cachedDecode int, cacheType string) engine.Question {
	q := engine.Question{
		Tokens: tokens, UncachedPrefill: max(1, tokens-cachedPrefill), UncachedDecode: max(1, tokens-cachedDecode), Generated: p.Generate,
		Prefill: engine.SpeedsOf(p.Model, protocol.RolePrefill, rates(p.prefill)), Decode: engine.SpeedsOf(p.Model, protocol.RoleDecode, rates(p.decode)),
	}
	if q.Generated == 0 {
		q.Generated = int(q.Decode.Generated("", -1).Value)
	}
	from := ""
	if p.prefill != nil {
		from = p.prefill.Machine
	}
	q.Link, q.NoHandover = q.Decode.Link(from), p.noHandover()
	q.StateBytes = int64(q.Prefill.StateBytes(tokens, cmp.Or(cacheType, p.engineCache())).Value)
	q.QueueDecode = engine.Wait(p.decoding, p.decodeSlots, q.Decode.Job(tokens).Value)
	q.QueuePrefill = engine.Wait(p.prefilling, p.prefillSlots, float64(q.UncachedPrefill)/q.Prefill.Prefill(tokens, tokens-q.UncachedPrefill).Value)
	return q
}

// noHandover is why the two workers, as far as they live, hand no KV states over; empty if they do.
func (p *scene) noHandover() string {
	switch {
	case p.prefill != nil && p.prefill.Fingerprint == nil:
		return cmp.Or(p.prefill.NoState, "the prefill engine writes none")
	case p.prefill != nil && p.decode != nil:
		return forecast.DecodePeer(*p.decode, forecast.WriterOf(*p.prefill)).NoStates
	case p.decode != nil && p.decode.Fingerprint == nil:
		return cmp.Or(p.decode.NoState, "the decode engine takes none")
	}
	return ""
}

// crossover is from which length of prompt on handing over pays, with nothing cached and nobody waiting.
func (p *scene) crossover() (breaksEven, pays int) {
	idle := *p
	idle.prefilling, idle.decoding = 0, 0
	return engine.Crossover(longestPrompt, func(n int) engine.Question { return idle.ask(n, 0, 0, p.CacheType) })
}

// longestPrompt is up to which length a crossover is looked for.
const longestPrompt = 128 << 10

// rows are those of the table: each length with both types of cache, or with the engines' own if their states are known.
func (p *scene) rows() []engine.TableRow {
	idle := *p
	idle.prefilling, idle.decoding = 0, 0
	types := []string{"f16", "q8_0"}
	if p.CacheType != "" {
		types = []string{p.CacheType}
	}
	if q := p.ask(p.Tokens, 0, 0, ""); q.Prefill.StateBytes(p.Tokens, "").Measured {
		types = []string{cmp.Or(p.engineCache(), "as seen")}
	}
	return engine.Table([]int{512, 1024, 2048, 4096, 8192, 16384, 32768}, types, func(n int, cacheType string) engine.Question {
		return idle.ask(n, 0, 0, cacheType)
	})
}

// engineCache is the type of the decode engine's KV cache, as far as it says.
func (p *scene) engineCache() string {
	if p.decode == nil || p.decode.Fingerprint == nil {
		return ""
	}
	return p.decode.Fingerprint.CacheK
}
