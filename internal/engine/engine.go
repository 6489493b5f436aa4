// Package engine is the contract of what computes: the [Engine] interface that Ollama and
// llama-server are driven through, and what an engine says of itself and of its work.
//
// Every implementation passes the one conformance suite in enginetest.
package engine

import (
	"context"
	"encoding/json"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Engine computes prompts and generates text for one model. Its methods are safe for concurrent
// use; the caller bounds how many run at once. Errors are *jobs.Error where the cause is known, so
// that protocol.Classify can tell a retry from a permanent failure.
//
// Greedy output of Prefill and then Decode equals that of Generate on the same engine, cold with
// cold.
//
// An engine whose Description has a KVTransfer moves KV states: asked to by Request.Export, Prefill leaves the
// state in a file, and Decode, given that file or a copy of it from another machine, computes one token
// of the prompt.
type Engine interface {
	// Describe asks the engine what it is; it is also the health check.
	Describe(ctx context.Context) (Description, error)
	// Load makes the engine hold the model in memory, and returns when it does.
	Load(ctx context.Context) error
	// Prefill computes the prompt and returns what can be handed over. A state that could not be
	// written is no error: Prefilled says why there is none.
	Prefill(ctx context.Context, req Request) (Prefilled, error)
	// Decode generates the text for a prompt that was prefilled, here or elsewhere. A state that cannot be
	// used is a *protocol.HandoverError, returned before anything was emitted: the caller may Generate then.
	Decode(ctx context.Context, req Request, from Prefilled, emit Emit) (Completion, error)
	// Generate runs both phases here.
	Generate(ctx context.Context, req Request, emit Emit) (Completion, error)
	// Close releases what the engine holds and, if it was started by us, ends it.
	Close() error
}

// Emit takes each piece of the answer as it is generated: text, thinking or calls, one of them, with the logprobs that are asked for, and no other field. An
// error ends the generation and is returned by it.
type Emit func(piece jobs.Chunk) error

// Request is what the engine needs of a job.
type Request struct {
	System       string
	Prompt       string
	Suffix       string
	Raw          bool
	Messages     []jobs.Message
	Embed        *jobs.Embed // of an [Embedder] only
	Tools        []json.RawMessage
	ToolChoice   jobs.ToolChoice
	Format       json.RawMessage
	Think        jobs.Think
	Options      jobs.Options
	Logprobs     bool // and of so many others:
	TopLogprobs  int
	SharedPrefix int  // bytes of Prompt or number of Messages
	Export       bool // Prefill: leave the state in a file, if the engine can
	Sample       bool // Decode: compute the prompt here, too, and compare what is predicted then with what the state predicts

	// Progress is called on every sign of life: a byte from the engine, a counter that moved.
	Progress func()
	// Restored, if set, is called once a KV state is used, before anything is generated, with how long the engine took to read it.
	Restored func(took time.Duration)
}

// RequestOf returns the request of a job.
func RequestOf(j *jobs.Job) Request {
	return Request{
		System: j.System, Prompt: j.Prompt, Suffix: j.Suffix, Raw: j.Raw, Messages: j.Messages, Embed: j.Embed, Tools: j.Tools, ToolChoice: j.ToolChoice, Format: j.Format, Think: j.Think,
		Options: j.Options, Logprobs: j.Logprobs, TopLogprobs: j.TopLogprobs, SharedPrefix: j.SharedPrefix, Progress: func() {},
	}
}

// Description is what an engine says of itself.
type Description struct {
	Engine        string   // "ollama", "llamacpp" or "openai"
	Version       string   // of the engine's build
	Model         string   // canonical name
	ModelDigest   string   // sha256 of the model's file or the engine's own id for it
	Loaded        bool     // the model is in memory, and its digest known where that must be computed
	Slots         int      // requests it can compute at once, as far as it says; 0 if it does not
	ContextTokens int      // tokens of context a request may use
	Capabilities  []string // of the model in this engine: such as jobs.CanTools; nil if the engine does not say
	Handover      []jobs.Kind
	KVTransfer    *KVTransfer // nil if it cannot move KV states
	NoKVTransfer  string      // why not, with the remedy
}

// KVTransfer is what an engine says of the KV states that it writes and reads.
type KVTransfer struct {
	Fingerprint   jobs.Fingerprint
	Start         string // of the engine: another one at each start, if it says so
	Dir           string // folder of the state files: one is read only from there
	Prefix        string // what the names of this worker's files begin with
	BytesPerToken int64  // of a state, from the model's header and the cache types; 0 if they do not say
	FixedBytes    int64  // of a state, whatever its length, at most: windows and recurrent layers
}

// StateFile is a KV state in a file of the engine's folder, whose owner removes it.
type StateFile struct {
	Path        string
	Bytes       int64
	Tokens      int              // of the prompt: all but the last
	Fingerprint jobs.Fingerprint // of the engine that wrote it
	First       []jobs.TokenProb // what that engine predicts after the whole prompt
	Saved       time.Duration    // until the file was written
	Prefix      int              // tokens, from the first, that other prompts begin with too; 0: none worth leaving out
	Rows        []protocol.Span  // of the file, in its order: what it has of these tokens
}

// Imported is what reading a state took, and the proof that it was used.
type Imported struct {
	Tokens     int           // of the prompt, found in the state
	Restored   time.Duration // until the engine had read the file
	Checked    time.Duration // until its first prediction was compared
	Divergence float64       // between the two first predictions: see Divergence
	Sampled    bool          // the prompt was computed here, too
	Own        float64       // divergence of what was predicted then from what the state predicts
}

// Prefilled is what a prefill left behind, and what a decode continues from.
type Prefilled struct {
	Kind           jobs.Kind
	Context        []int  // token ids of prompt and first token (kind context)
	FirstToken     string // text of the first generated token; empty if none was
	PromptTokens   int
	CachedTokens   int // of the prompt, found in the cache
	ComputedTokens int // of the prompt, computed now
	Duration       time.Duration
	ModelDigest    string
	State          *StateFile   // kind state; else nil
	Failure        jobs.Failure // why there is none although Export was asked for; Note has it in words
	Note           string       // why it is not more than it is, for the result's decision
}

// Completion is a finished generation.
type Completion struct {
	Text            string
	Thinking        string
	ToolCalls       []jobs.ToolCall
	Logprobs        []jobs.TokenLogprob
	Embeddings      [][]float32
	FinishReason    string // "stop" or "length"
	PromptTokens    int
	CachedTokens    int           // of the prompt, found in this engine's cache
	ComputedTokens  int           // of the prompt, computed here
	GeneratedTokens int           // text and thinking
	PrefillDuration time.Duration // the engine's own measure
	DecodeDuration  time.Duration // likewise
	FirstToken      time.Duration // from the request to the first piece of text
	Imported        *Imported     // of a state that was used; else nil
	Warnings        []string
}

// Estimate is what a prompt will cost this engine.
type Estimate struct {
	PromptTokens int
	CachedTokens int // of those, thought to be in the cache
}

// Estimator is implemented by engines that can say beforehand what a prompt will cost.
type Estimator interface {
	Estimate(ctx context.Context, req Request) (Estimate, error)
}

// PerSecond is a rate, 0 if no time passed.
func PerSecond(tokens int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(tokens) / d.Seconds()
}
