package jobs

import "time"

// Kind says what prefill gives decode.
type Kind string

// The kinds of hand-over.
const (
	KindState   Kind = "state"   // the KV cache itself
	KindContext Kind = "context" // token ids and the first token; the prompt is computed again
	KindNone    Kind = "none"    // nothing; the prompt is computed again
)

// Handover is what the relay stream holds: a job on its way from prefill to decode,
// or to the decode machine for both phases (Stage fallback).
type Handover struct {
	V          int       `json:"v"`                     // version of this record, always 1
	Stage      Stage     `json:"stage"`                 // decode or fallback
	Job        Job       `json:"job,omitzero"`          // as it was accepted
	AcceptedAt time.Time `json:"accepted_at"`           // when the intake stream stored the job; the NATS server's clock
	Reason     string    `json:"reason,omitempty"`      // why it goes to fallback; or the failure in words, with the remedy
	Kind       Kind      `json:"kind,omitempty"`        // what is handed over; empty for fallback
	Context    []int     `json:"context,omitempty"`     // token ids of prompt and first token (kind context)
	FirstToken string    `json:"first_token,omitempty"` // text of the token that prefill generated, to be checked by decode
	State      *State    `json:"state,omitempty"`       // where the KV state is, and what it takes to use it (kind state)
	Failure    Failure   `json:"failure,omitempty"`     // why there is no KV state, where one was meant to be handed over
	Prefill    *Prefill  `json:"prefill,omitempty"`     // what prefill did; nil when it did nothing
	Attempts   int       `json:"attempts,omitempty"`    // of the prefill stage
	Decision   string    `json:"decision,omitempty"`    // why this plan
	Warnings   []string  `json:"warnings,omitempty"`    // carried into the result
	Timeline   []Moment  `json:"timeline,omitempty"`    // what happened so far, carried into the result

	Extra Extra `json:"-"`
}

// Prefill is the report of one prefill: where, how much, how fast.
type Prefill struct {
	Server         string  `json:"server"`                 // machine and worker
	QueueSeconds   float64 `json:"queue_seconds"`          // waited in the intake stream
	Seconds        float64 `json:"seconds"`                // the engine's own measure of prompt processing
	PromptTokens   int     `json:"prompt_tokens"`          // whole prompt
	CachedTokens   int     `json:"cached_tokens"`          // of those, found in the engine's cache
	ComputedTokens int     `json:"computed_tokens"`        // of those, computed now
	ModelDigest    string  `json:"model_digest,omitempty"` // of the model file, or the engine's id for it

	Extra Extra `json:"-"`
}

// State is a KV state that waits on the prefill machine, and the terms on which it may be used. The
// machine keeps it as long as the job's decode message exists.
type State struct {
	URL         string      `json:"url"`              // of the file; <url>/digest has its SHA-256 once the bytes are read
	Token       string      `json:"token"`            // bearer token for both, of this job alone
	Bytes       int64       `json:"bytes"`            // size of the file
	Tokens      int         `json:"tokens"`           // prompt tokens that it holds: all but the last
	Fingerprint Fingerprint `json:"fingerprint"`      // of the engine that wrote it; the reader's must be equal
	First       []TokenProb `json:"first"`            // what the writer predicts after the whole prompt, the likeliest first
	SaveSeconds float64     `json:"save_seconds"`     // until the file was written
	Prefix      int         `json:"prefix,omitempty"` // first tokens with which states of other jobs begin too: <url>/prefix says where their rows are, <url>/rest is the file without them

	Extra Extra `json:"-"`
}

// TokenProb is a token and how likely the model takes it to be next.
type TokenProb struct {
	ID      int     `json:"id"`      // in the model's vocabulary
	LogProb float64 `json:"logprob"` // natural logarithm of its probability, before any sampling

	Extra Extra `json:"-"`
}
