// Package batchstats adds up the results of a batch: tokens and seconds per model, the whole, and the speed-up.
package batchstats

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tandem/jobs"
)

// baseline names what a batch's speed-up is measured against.
const baseline = "the same jobs one after another, each computing as long as it did here and waiting for nothing"

// Report is what a batch came to: the requirement's metrics per model, merged, and the speed-up.
// Tokens and seconds of a model are sums over its succeeded jobs.
type Report struct {
	Batch             string   `json:"batch"`
	Jobs              int      `json:"jobs"`
	Succeeded         int      `json:"succeeded"`
	Failed            int      `json:"failed"` // also cancelled and expired ones
	Models            []Model  `json:"models"`
	WallSeconds       float64  `json:"wall_seconds"`
	SequentialSeconds float64  `json:"sequential_seconds"`
	SpeedUp           float64  `json:"speed_up"`
	Baseline          string   `json:"baseline"`
	JobsPerMinute     float64  `json:"jobs_per_minute"`
	TokensPerSecond   float64  `json:"generated_tokens_per_second"`
	Warnings          []string `json:"warnings,omitempty"` // of the jobs, each once, with how many had it

	models   map[string]*Model
	warnings map[string]int // how many jobs had it
	longest  float64        // seconds from accepted to finished of the slowest job
}

// Model is one row: a model's jobs of a batch.
type Model struct {
	Model                  string               `json:"model"`
	Jobs                   int                  `json:"jobs"`
	Succeeded              int                  `json:"succeeded"`
	Methods                map[jobs.Method]int  `json:"methods"` // jobs by the way they went
	PromptTokens           int                  `json:"prompt_tokens"`
	PrefillCached          int                  `json:"prefill_cached"`
	PrefillComputed        int                  `json:"prefill_computed"`
	HandedOver             int                  `json:"handed_over"`
	DecodeCached           int                  `json:"decode_cached"`
	DecodeComputed         int                  `json:"decode_computed"`
	GeneratedTokens        int                  `json:"generated_tokens"`
	States                 int                  `json:"states"`                      // KV states that were handed over and used
	StateBytes             int64                `json:"state_bytes"`                 // of these
	MovedBytes             int64                `json:"moved_bytes"`                 // of these, that went over the network
	HandoverFailures       map[jobs.Failure]int `json:"handover_failures,omitempty"` // jobs whose prompt was computed again, by reason
	PrefillSeconds         float64              `json:"prefill_seconds"`
	PrefillTokensPerSecond float64              `json:"prefill_tokens_per_second"`
	SaveSeconds            float64              `json:"save_seconds"`
	TransferSeconds        float64              `json:"transfer_seconds"`
	RestoreSeconds         float64              `json:"restore_seconds"` // reading the state and checking it
	DecodePrefillSeconds   float64              `json:"decode_prefill_seconds"`
	DecodeSeconds          float64              `json:"decode_seconds"`
	DecodeTokensPerSecond  float64              `json:"decode_tokens_per_second"`
	TotalSeconds           float64              `json:"total_seconds"` // of computing and transfer, without waiting
}

// New returns the report of a batch without any job yet.
func New(batch string) *Report {
	return &Report{Batch: batch, Baseline: baseline, models: map[string]*Model{}, warnings: map[string]int{}}
}

// Add counts a job that has ended.
func (rep *Report) Add(r *jobs.Result) {
	m := rep.models[r.Model]
	if m == nil {
		m = &Model{Model: r.Model, Methods: map[jobs.Method]int{}, HandoverFailures: map[jobs.Failure]int{}}
		rep.models[r.Model] = m
	}
	m.add(r)
	rep.Jobs++
	if r.Status == jobs.Succeeded {
		rep.Succeeded++
	} else {
		rep.Failed++
	}
	for _, w := range r.Warnings {
		rep.warnings[w]++
	}
	rep.longest = max(rep.longest, r.Timings.TotalSeconds)
}

// Sum fills in what follows from all jobs. wall is the time from the first submission to the last
// result; if it is zero, not all of them having been seen, the longest of the jobs stands for it.
func (rep *Report) Sum(wall time.Duration) {
	rep.WallSeconds = wall.Seconds()
	if wall == 0 {
		rep.WallSeconds = rep.longest
	}
	generated := 0
	for _, name := range slices.Sorted(maps.Keys(rep.models)) {
		m := rep.models[name]
		m.PrefillTokensPerSecond = perSecond(m.PrefillComputed, m.PrefillSeconds)
		m.DecodeTokensPerSecond = perSecond(m.GeneratedTokens, m.DecodeSeconds)
		generated += m.GeneratedTokens
		rep.SequentialSeconds += m.TotalSeconds
		rep.Models = append(rep.Models, *m)
	}
	if rep.WallSeconds > 0 {
		rep.SpeedUp = rep.SequentialSeconds / rep.WallSeconds
		rep.JobsPerMinute = float64(rep.Succeeded) / rep.WallSeconds * 60
		rep.TokensPerSecond = perSecond(generated, rep.WallSeconds)
	}
	for _, w := range slices.Sorted(maps.Keys(rep.warnings)) {
		rep.Warnings = append(rep.Warnings, fmt.Sprintf("%s (%d of %d jobs)", w, rep.warnings[w], rep.Jobs))
	}
}

func (m *Model) add(r *jobs.Result) {
	m.Jobs++
	if r.Status != jobs.Succeeded {
		return
	}
	u, t := r.Usage, r.Timings
	m.Succeeded++
	m.Methods[r.Method]++
	m.PromptTokens += u.PromptTokens
	m.PrefillCached += u.PrefillCached
	m.PrefillComputed += u.PrefillComputed
	m.HandedOver += u.HandedOver
	m.DecodeCached += u.DecodeCached
	m.DecodeComputed += u.DecodeComputed
	m.GeneratedTokens += u.GeneratedTokens
	m.PrefillSeconds += t.PrefillSeconds
	m.SaveSeconds += t.SaveSeconds
	m.TransferSeconds += t.TransferSeconds
	m.RestoreSeconds += t.RestoreSeconds + t.CheckSeconds
	m.DecodePrefillSeconds += t.DecodePrefillSeconds
	m.DecodeSeconds += t.DecodeSeconds
	m.TotalSeconds += Computing(t)
	if h := r.Handover; h != nil && h.Failure != "" {
		m.HandoverFailures[h.Failure]++
	} else if h != nil {
		m.States++
		m.StateBytes += h.Bytes
		m.MovedBytes += h.MovedBytes
	}
}

// Computing is the time that a job was computed and moved for, in seconds, without what it waited.
func Computing(t jobs.Timings) float64 {
	return t.PrefillSeconds + t.SaveSeconds + t.TransferSeconds + t.RestoreSeconds + t.CheckSeconds + t.DecodePrefillSeconds + t.DecodeSeconds
}

func perSecond(tokens int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(tokens) / seconds
}
