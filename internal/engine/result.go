package engine

import (
	"slices"

	"tandem/jobs"
)

// Result is that of a job of which one engine did both phases. Who did it, and how long the job waited, is the caller's to add.
func (c Completion) Result(j *jobs.Job, about Description) *jobs.Result {
	r := jobs.NewResult(j, jobs.Succeeded)
	r.Text, r.Thinking, r.FinishReason, r.Warnings = c.Text, c.Thinking, c.FinishReason, slices.Clone(c.Warnings)
	r.Logprobs = c.Logprobs
	r.Embeddings = c.Embeddings
	r.ToolCalls = jobs.WithIDs(j.ID, 0, c.ToolCalls)
	r.Usage.PromptTokens, r.Usage.GeneratedTokens = c.PromptTokens, c.GeneratedTokens
	r.Usage.PrefillCached, r.Usage.PrefillComputed = c.CachedTokens, c.ComputedTokens
	r.Timings.PrefillSeconds = c.PrefillDuration.Seconds()
	r.Timings.PrefillTokensPerSecond = PerSecond(c.ComputedTokens, c.PrefillDuration)
	r.Timings.DecodeSeconds = c.DecodeDuration.Seconds()
	r.Timings.DecodeTokensPerSecond = PerSecond(c.GeneratedTokens, c.DecodeDuration)
	r.Timings.TimeToFirstTokenSeconds = c.FirstToken.Seconds()
	r.Provenance.ModelDigest, r.Provenance.Engine, r.Provenance.EngineVersion = about.ModelDigest, about.Engine, about.Version
	return r
}
