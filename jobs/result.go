package jobs

import (
	"time"
)

// Status is how a job ended.
type Status string

// The ends of a job. Exactly one result with one of them exists for every accepted job in time.
const (
	Succeeded Status = "succeeded" // the text is whole
	Failed    Status = "failed"    // see the error
	Cancelled Status = "cancelled" // somebody asked for it
	Expired   Status = "expired"   // its deadline passed first
)

// Stage is a step of a job's way.
type Stage string

// The stages.
const (
	StagePrefill  Stage = "prefill"  // the prompt is computed
	StageDecode   Stage = "decode"   // the text is generated
	StageFallback Stage = "fallback" // both phases on the decode machine
)

// Method is the way a job really went.
type Method string

// The methods.
const (
	MethodDisaggregated Method = "disaggregated" // prefill and decode on two machines
	MethodLocal         Method = "local"         // both phases on one machine, as planned: the decode machine unless the decision says otherwise
	MethodFallback      Method = "fallback"      // both phases on the decode machine, because prefill was not to be had
	MethodDirect        Method = "direct"        // both phases by one Ollama, without the queue; only in what submitter itself writes
)

// FinishHeld is the finish reason of a job that ended after prefill, as it was to.
const FinishHeld = "held"

// The messages that callers of the system know, word for word.
const (
	WarnFallback     = "Using fallback mode - slower performance"
	MsgDecodeMissing = "Decode server unavailable - request failed"
)

// Result is the terminal record of a job, published once on the results stream.
type Result struct {
	V            int               `json:"v"`                       // version of this record, always 1
	JobID        string            `json:"job_id"`                  // as in the job
	User         string            `json:"user"`                    // as in the job
	Batch        string            `json:"batch"`                   // as in the job
	CustomID     string            `json:"custom_id,omitempty"`     // as in the job
	Model        string            `json:"model"`                   // as in the job
	Labels       map[string]string `json:"labels,omitempty"`        // as in the job
	Status       Status            `json:"status"`                  // how the job ended
	Text         string            `json:"text"`                    // generated text only, without the prompt
	Thinking     string            `json:"thinking,omitempty"`      // reasoning, kept apart
	ToolCalls    []ToolCall        `json:"tool_calls,omitempty"`    // functions that the model wants called
	Logprobs     []TokenLogprob    `json:"logprobs,omitempty"`      // of the answer's tokens, thinking and calls included, of a job that asks for them
	Embeddings   [][]float32       `json:"embeddings,omitempty"`    // of a job that asks for them: a vector for each text, in their order
	FinishReason string            `json:"finish_reason,omitempty"` // stop or length; held, of a job that ended after prefill
	Method       Method            `json:"method,omitempty"`        // the way it really went
	Warnings     []string          `json:"warnings,omitempty"`      // such as "Using fallback mode - slower performance"
	Error        *ErrorInfo        `json:"error,omitempty"`         // of a job that did not succeed
	Usage        Usage             `json:"usage"`                   // tokens
	Timings      Timings           `json:"timings"`                 // seconds
	Servers      Servers           `json:"servers"`                 // who did what
	Attempts     Attempts          `json:"attempts"`                // how often each stage was tried
	Handover     *HandoverReport   `json:"handover,omitempty"`      // what became of a KV state that was meant to be handed over
	Decision     string            `json:"decision,omitempty"`      // why this plan, and what it saved
	Timeline     []Moment          `json:"timeline,omitempty"`      // what happened to the job and when, in order, on one clock
	Provenance   Provenance        `json:"provenance"`              // what computed the text
	ReplayOf     string            `json:"replay_of,omitempty"`     // as in the job
	FinishedAt   time.Time         `json:"finished_at"`             // the finishing machine's clock

	Extra Extra `json:"-"`
}

// ErrorInfo says why a job did not succeed.
type ErrorInfo struct {
	Code    Code   `json:"code"`            // for programs
	Stage   Stage  `json:"stage,omitempty"` // where it failed
	Message string `json:"message"`         // for a person

	Extra Extra `json:"-"`
}

// Usage counts tokens. Cached tokens were found in a KV cache, computed ones were not.
type Usage struct {
	PromptTokens     int  `json:"prompt_tokens"`               // whole prompt
	PrefillCached    int  `json:"prefill_cached"`              // of the prompt, on the prefill machine
	PrefillComputed  int  `json:"prefill_computed"`            // of the prompt, on the prefill machine
	DecodeCached     int  `json:"decode_cached"`               // of the prompt, on the decode machine
	DecodeComputed   int  `json:"decode_computed"`             // of the prompt, on the decode machine
	HandedOver       int  `json:"handed_over"`                 // prompt tokens whose KV state moved between machines
	GeneratedTokens  int  `json:"generated_tokens"`            // of the text
	ThinkingIncluded bool `json:"thinking_included,omitempty"` // generated_tokens counts the thinking too

	Extra Extra `json:"-"`
}

// Timings are in seconds. Queue waits and the total are read off the NATS server's clock, all
// others off one process's monotonic clock or the engine's own measure.
type Timings struct {
	QueuePrefillSeconds     float64 `json:"queue_prefill_seconds"`       // waited for prefill
	QueueDecodeSeconds      float64 `json:"queue_decode_seconds"`        // waited for decode
	PrefillSeconds          float64 `json:"prefill_seconds"`             // prompt computed on the prefill machine
	PrefillTokensPerSecond  float64 `json:"prefill_tokens_per_second"`   // computed prompt tokens
	SaveSeconds             float64 `json:"save_seconds"`                // KV state written to a file on the prefill machine
	TransferSeconds         float64 `json:"transfer_seconds"`            // of the hand-over: of the KV state from machine to machine, perhaps while the job waited for decode, otherwise of the record
	RestoreSeconds          float64 `json:"restore_seconds"`             // KV state read by the decode engine
	CheckSeconds            float64 `json:"check_seconds"`               // first prediction computed and compared
	DecodePrefillSeconds    float64 `json:"decode_prefill_seconds"`      // prompt computed again on the decode machine
	DecodeSeconds           float64 `json:"decode_seconds"`              // text generated
	DecodeTokensPerSecond   float64 `json:"decode_tokens_per_second"`    // generated tokens
	TimeToFirstTokenSeconds float64 `json:"time_to_first_token_seconds"` // from the start of the stage that generated
	TotalSeconds            float64 `json:"total_seconds"`               // from accepted to finished

	Extra Extra `json:"-"`
}

// HandoverReport says what became of a KV state.
type HandoverReport struct {
	Failure        Failure  `json:"failure,omitempty"`          // why it was not used, and the prompt was computed again; empty if it was
	Message        string   `json:"message,omitempty"`          // the failure in words, with the remedy
	Bytes          int64    `json:"bytes,omitempty"`            // size of the state
	MovedBytes     int64    `json:"moved_bytes,omitempty"`      // that went over the network for it: less if rows of a shared prefix were here already
	BytesPerSecond float64  `json:"bytes_per_second,omitempty"` // of the transfer, of what went over the network
	Divergence     float64  `json:"divergence,omitempty"`       // between the two engines' first predictions, from 0 (equal) to 1 (nothing in common)
	Sampled        *float64 `json:"sampled,omitempty"`          // likewise between what the state predicts and what the decode engine predicts after it computed the prompt by itself; left out if it did not

	Extra Extra `json:"-"`
}

// Servers names who did what: "machine/worker id".
type Servers struct {
	Prefill string `json:"prefill,omitempty"` // left out if there was no prefill by itself
	Decode  string `json:"decode,omitempty"`  // generated the text

	Extra Extra `json:"-"`
}

// Attempts counts the deliveries that were attempts of each stage.
type Attempts struct {
	Prefill int `json:"prefill"` // prefill stage
	Decode  int `json:"decode"`  // decode or fallback stage

	Extra Extra `json:"-"`
}

// Provenance says what computed the text.
type Provenance struct {
	ModelDigest   string `json:"model_digest,omitempty"`   // of the model file, or the engine's id for it
	Engine        string `json:"engine,omitempty"`         // ollama, llamacpp or openai
	EngineVersion string `json:"engine_version,omitempty"` // its build
	PromptSHA256  string `json:"prompt_sha256,omitempty"`  // hex, of all text that goes to the model

	Extra Extra `json:"-"`
}

// Chunk is a piece of generated text, published on the tokens subject while the job runs. Chunks
// may be lost, and start again at sequence 0 with a higher attempt when a job is run again; the
// result is what counts.
type Chunk struct {
	V         int            `json:"v"`                    // version of this record, always 1
	JobID     string         `json:"job_id"`               // as in the job
	Attempt   int            `json:"attempt"`              // from 1; a higher one makes what came before void
	Seq       int            `json:"seq"`                  // from 0 in each attempt; a gap means that a chunk was lost
	Text      string         `json:"text,omitempty"`       // to append to the text
	Thinking  string         `json:"thinking,omitempty"`   // to append to the thinking
	ToolCalls []ToolCall     `json:"tool_calls,omitempty"` // to append to the calls
	Logprobs  []TokenLogprob `json:"logprobs,omitempty"`   // to append to the logprobs: of the tokens of this piece, and of those before it that made none
	Done      bool           `json:"done,omitempty"`       // the last one of this attempt

	Extra Extra `json:"-"`
}

// NewResult returns a result for the job with the fields that are copied from it.
func NewResult(j *Job, status Status) *Result {
	return &Result{
		V: Version, JobID: j.ID, User: j.User, Batch: j.Batch, CustomID: j.CustomID, Model: j.Model,
		Labels: j.Labels, Status: status, ReplayOf: j.ReplayOf, FinishedAt: time.Now().UTC(),
		Provenance: Provenance{PromptSHA256: j.PromptSHA256()},
	}
}
