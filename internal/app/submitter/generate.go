package submitter

import (
	"context"
	"time"

	"tandem/internal/engine"
	"tandem/internal/ollama"
	"tandem/internal/protocol"
	"tandem/jobs"
)

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
