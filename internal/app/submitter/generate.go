package submitter

import (
	"context"
	"sync"
	"time"

	"tandem/internal/engine"
	"tandem/internal/ollama"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// Generate submits a job and waits for its result, with all that was measured. Each piece of the text
// goes to emit as it comes, if the job has Stream set; emit may be nil. It is called by one goroutine at a time.
//
// Errors are those of [queue.Client.Submit] and [queue.Client.Await]: when ctx ends the job lives on.
func Generate(ctx context.Context, c *queue.Client, j *jobs.Job, emit func(*jobs.Chunk)) (*jobs.Result, error) {
	if j.Stream && emit != nil {
		tokens, err := c.Tokens(ctx, j.Batch, j.ID) // before the job is there, so that no piece is missed
		if err != nil {
			return nil, err
		}
		var reading sync.WaitGroup
		reading.Go(func() {
			for chunk := range tokens.Chunks(ctx) {
				emit(chunk)
			}
		})
		defer reading.Wait()
		defer tokens.Close()
	}
	if err := c.Submit(ctx, j, queue.SubmitOptions{}); err != nil {
		return nil, err
	}
	return c.Await(ctx, j.ID)
}

// GenerateDirect has an Ollama do a job all by itself. It is for when there is no pipeline, and the
// result says so.
func GenerateDirect(ctx context.Context, url string, j *jobs.Job) (*jobs.Result, error) {
	o, err := ollama.New(ollama.Options{URL: url, Model: j.Model})
	if err != nil {
		return nil, err
	}
	defer o.Close()
	about, err := o.Describe(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	done, err := o.Generate(ctx, engine.RequestOf(j), func(string, string) error { return nil })
	if err != nil {
		return nil, err
	}
	r := jobs.NewResult(j, jobs.Succeeded)
	r.Text, r.Thinking, r.FinishReason = done.Text, done.Thinking, done.FinishReason
	r.Method, r.Decision = jobs.MethodDirect, "direct: the pipeline could not be reached, so one Ollama did both phases"
	r.Warnings = done.Warnings
	r.Servers.Prefill = protocol.RedactURL(url)
	r.Servers.Decode = r.Servers.Prefill
	r.Usage.PromptTokens, r.Usage.GeneratedTokens = done.PromptTokens, done.GeneratedTokens
	r.Usage.PrefillCached, r.Usage.PrefillComputed = done.CachedTokens, done.ComputedTokens
	r.Timings.PrefillSeconds = done.PrefillDuration.Seconds()
	r.Timings.PrefillTokensPerSecond = engine.PerSecond(done.ComputedTokens, done.PrefillDuration)
	r.Timings.DecodeSeconds = done.DecodeDuration.Seconds()
	r.Timings.DecodeTokensPerSecond = engine.PerSecond(done.GeneratedTokens, done.DecodeDuration)
	r.Timings.TimeToFirstTokenSeconds = done.FirstToken.Seconds()
	r.Timings.TotalSeconds = time.Since(start).Seconds()
	r.Provenance.ModelDigest, r.Provenance.Engine, r.Provenance.EngineVersion = about.ModelDigest, about.Engine, about.Version
	return r, nil
}
