package protocol

// Rates are the speeds that a worker has measured of its engine, as moving averages, in its presence record and
// in a file of its own. What was not measured yet is 0 or left out. Lengths of prompts are those of [RateLengths].
type Rates struct {
	PrefillTokensPerSecond float64            `json:"prefill_tokens_per_second,omitempty"` // computed prompt tokens, over prompts of all lengths
	DecodeTokensPerSecond  float64            `json:"decode_tokens_per_second,omitempty"`  // generated tokens, likewise
	PrefillByLength        map[string]float64 `json:"prefill_by_length,omitempty"`         // computed prompt tokens per second, by length of the prompt, what was cached of it counted twice: see engine.Speeds.Prefill
	PrefillTokensByLength  map[string]float64 `json:"prefill_tokens_by_length,omitempty"`  // these lengths, on average
	DecodeByLength         map[string]float64 `json:"decode_by_length,omitempty"`          // generated tokens per second of one request alone, by length of the prompt
	TokensByLength         map[string]float64 `json:"tokens_by_length,omitempty"`          // of these prompts, on average
	DecodeByBusy           map[string]float64 `json:"decode_by_busy,omitempty"`            // the share of that speed that each request has while several generate, by [RateBusy]
	PromptBytesPerToken    float64            `json:"prompt_bytes_per_token,omitempty"`    // bytes of a prompt's text for each of its tokens
	GeneratedTokens        float64            `json:"generated_tokens,omitempty"`          // of a job
	GeneratedShare         float64            `json:"generated_share,omitempty"`           // that a job's answer has of num_predict, where that tells lengths better
	GeneratedByKind        []KindTokens       `json:"generated_by_kind,omitempty"`         // likewise, by the kind of the job; the last one seen is the first
	JobSeconds             float64            `json:"job_seconds,omitempty"`               // that a job keeps a slot
	StateBytesPerToken     float64            `json:"state_bytes_per_token,omitempty"`     // of a KV state, without its fixed part
	StateFixedBytes        float64            `json:"state_fixed_bytes,omitempty"`         // of a KV state, whatever its length
	SaveBytesPerSecond     float64            `json:"save_bytes_per_second,omitempty"`     // KV states written by the engine
	RestoreBytesPerSecond  float64            `json:"restore_bytes_per_second,omitempty"`  // KV states read by the engine
	CheckSeconds           float64            `json:"check_seconds,omitempty"`             // for a state's first prediction to be compared
	LinkBytesPerSecond     map[string]float64 `json:"link_bytes_per_second,omitempty"`     // KV states fetched, by the machine that they came from
}

// RateLengths are the lengths of prompts by which rates are kept: up to so many tokens, and what is longer.
var RateLengths = [...]string{"512", "1k", "2k", "4k", "8k", "16k", "32k", "more"}

// RateBusy are numbers of requests that generate at once, by which rates are kept: each stands for those that are nearest to it in
// proportion, the last one for all above, too.
var RateBusy = [...]string{"2", "4", "8", "16", "32"}

// KindTokens is how many tokens the answers of jobs of one kind have.
type KindTokens struct {
	Kind   string  `json:"kind"`            // the value of the jobs' label [jobs.LabelKind], or a hash of it
	Tokens float64 `json:"tokens"`          // moving average
	Share  float64 `json:"share,omitempty"` // of num_predict, where that tells lengths better; a moving average, too
}
