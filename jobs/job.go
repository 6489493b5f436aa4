package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Version is the version of the records that this package reads and writes.
const Version = 1

// SingleBatch is the batch of a job that was submitted by itself.
const SingleBatch = "single"

// Class says whether somebody is waiting at a prompt for the job.
type Class string

// The classes of jobs.
const (
	Interactive Class = "interactive" // somebody waits
	Batch       Class = "batch"       // one of many
)

// Classes are all classes, in the order in which workers take them.
var Classes = [...]Class{Interactive, Batch}

// Plan says where the two phases of a job run.
type Plan string

// The plans a job may ask for.
const (
	PlanDisaggregated Plan = "disaggregated" // prefill on the prefill machine, decode on the decode machine
	PlanLocal         Plan = "local"         // the whole request on the decode machine
	PlanAuto          Plan = "auto"          // whatever the measured rates say is fastest
)

// Job is one request for one completion, or for embeddings, as it is published on the intake stream.
type Job struct {
	V            int               `json:"v"`                       // version of this record, always 1
	ID           string            `json:"id"`                      // UUID in lower case; version 7, so that ids sort by time
	User         string            `json:"user"`                    // whose results these are
	Batch        string            `json:"batch"`                   // jobs submitted together; "single" for one by itself
	CustomID     string            `json:"custom_id,omitempty"`     // the submitter's own name for the job
	Class        Class             `json:"class"`                   // whether somebody waits at a prompt; workers take interactive jobs first
	Model        string            `json:"model"`                   // canonical name with a tag, such as qwen3-coder:30b
	System       string            `json:"system,omitempty"`        // system prompt; not together with messages
	Prompt       string            `json:"prompt,omitempty"`        // the prompt; either this or messages
	Suffix       string            `json:"suffix,omitempty"`        // what comes after the text that is wanted; only with prompt, and for models that fill in
	Raw          bool              `json:"raw,omitempty"`           // the prompt goes to the model as it is, without its chat template
	Messages     []Message         `json:"messages,omitempty"`      // a chat; either this or prompt
	Embed        *Embed            `json:"embed,omitempty"`         // texts whose embeddings are wanted in place of an answer; with neither prompt nor messages, and only with plan local
	Tools        []json.RawMessage `json:"tools,omitempty"`         // functions that the model may call, each {"type": "function", "function": {"name", "description", "parameters"}}
	ToolChoice   ToolChoice        `json:"tool_choice,omitempty"`   // whether it may, must or must not; left out means that it may
	Format       json.RawMessage   `json:"format,omitempty"`        // "json" or a JSON schema that the text must satisfy
	Think        Think             `json:"think,omitempty"`         // reasoning, for models that can; left out leaves it to the model
	Options      Options           `json:"options,omitzero"`        // sampling options
	Logprobs     bool              `json:"logprobs,omitempty"`      // say of each token of the answer how likely it was
	TopLogprobs  int               `json:"top_logprobs,omitempty"`  // with logprobs: of so many of the likeliest tokens in its place, too
	Plan         Plan              `json:"plan,omitempty"`          // where the two phases run; left out means disaggregated
	SharedPrefix int               `json:"shared_prefix,omitempty"` // bytes of the prompt, or number of messages, that the whole batch shares
	Following    Following         `json:"following,omitzero"`      // jobs of the batch and model that are published after this one, at once; plan auto looks ahead over them
	Hold         bool              `json:"hold,omitempty"`          // end after prefill, and keep what that left, some minutes, for the job that continues this one
	Continues    string            `json:"continues,omitempty"`     // id of a job with hold of the same user, model and prompt: go on from what it left, if that is there still
	Sample       bool              `json:"sample,omitempty"`        // have the decode machine compute a prompt whose KV state it takes, too, and compare: a test of the two engines, which saves nothing
	Stream       bool              `json:"stream,omitempty"`        // publish the text while it is generated
	Labels       map[string]string `json:"labels,omitempty"`        // the submitter's own; carried into the result
	SubmittedAt  time.Time         `json:"submitted_at,omitzero"`   // the submitter's clock
	Deadline     time.Time         `json:"deadline,omitzero"`       // after which the job must not run any more
	ReplayOf     string            `json:"replay_of,omitempty"`     // id of the dead-lettered job that this one repeats

	Extra Extra `json:"-"` // fields of a newer version
}

// Embed asks for the embeddings of texts: vectors that are near to each other if the texts say alike things.
type Embed struct {
	Input      []string `json:"input"`                // the texts, each of which gets a vector
	Dimensions int      `json:"dimensions,omitempty"` // numbers of each vector, for models that can have fewer; 0 is as many as the model has
	Truncate   bool     `json:"truncate,omitempty"`   // cut off what the model cannot take of a text, if the engine does that, in place of failing

	Extra Extra `json:"-"` // fields of a newer version
}

// Following are jobs, all together.
type Following struct {
	Jobs         int `json:"jobs,omitempty"`          // how many
	PromptBytes  int `json:"prompt_bytes,omitempty"`  // of all their text; 0 if that is not said
	AnswerTokens int `json:"answer_tokens,omitempty"` // of all their answers at most, their num_predict; 0 if one of them has no limit

	Extra Extra `json:"-"` // fields of a newer version
}

// FollowingOf is what one job is for those before it.
func FollowingOf(j *Job) Following {
	f := Following{Jobs: 1, PromptBytes: j.TextBytes()}
	if limit := j.Options.NumPredict; limit != nil && *limit > 0 {
		f.AnswerTokens = *limit
	}
	return f
}

// And are the jobs of both.
func (f Following) And(g Following) Following {
	if f.Jobs == 0 {
		return g
	}
	all := Following{Jobs: min(f.Jobs+g.Jobs, MaxFollowing), PromptBytes: f.PromptBytes + g.PromptBytes}
	if f.AnswerTokens > 0 && g.AnswerTokens > 0 {
		all.AnswerTokens = f.AnswerTokens + g.AnswerTokens
	}
	return all
}

// MaxFollowing is how many jobs one may say that follow it.
const MaxFollowing = 1_000_000

// LabelKind is the label of a job by which workers learn how long answers are: jobs with the same value, as in "feedback", have answers
// alike. Workers publish the value, or a hash of it if it is no plain short word.
const LabelKind = "kind"

// Message is one turn of a chat.
type Message struct {
	Role       Role       `json:"role"`                   // who speaks
	Content    string     `json:"content"`                // what is said; of a tool, what came of its call
	Thinking   string     `json:"thinking,omitempty"`     // of an assistant: the reasoning before it
	Images     []string   `json:"images,omitempty"`       // files in base64, for models that see
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`   // of an assistant: what it called
	ToolName   string     `json:"tool_name,omitempty"`    // of a tool: its name
	ToolCallID string     `json:"tool_call_id,omitempty"` // of a tool: which call is answered

	Extra Extra `json:"-"`
}

// ToolChoice says whether a model may call tools.
type ToolChoice string

// The values of [ToolChoice].
const (
	ToolsAuto     ToolChoice = "auto"     // it may
	ToolsNone     ToolChoice = "none"     // it must not
	ToolsRequired ToolChoice = "required" // it must; not every engine can have it so
)

// ToolCall is a call of a function by the model.
type ToolCall struct {
	ID        string          `json:"id,omitempty"` // by which the answer to it names it
	Name      string          `json:"name"`         // of the function
	Arguments json.RawMessage `json:"arguments"`    // an object

	Extra Extra `json:"-"`
}

// TokenLogprob is a token, and how likely the model took it to be.
type TokenLogprob struct {
	Token   string         `json:"token"`                  // its text
	Bytes   []int          `json:"bytes,omitempty"`        // of its text, where that is not whole characters and token cannot hold it
	Logprob float64        `json:"logprob"`                // natural logarithm of its probability
	Top     []TokenLogprob `json:"top_logprobs,omitempty"` // the likeliest tokens in its place, the likeliest first

	Extra Extra `json:"-"`
}

// TextBytes is the text of a token, in bytes.
func (t *TokenLogprob) TextBytes() []int {
	if t.Bytes != nil {
		return t.Bytes
	}
	list := make([]int, len(t.Token))
	for i := range len(t.Token) {
		list[i] = int(t.Token[i])
	}
	return list
}

// toolCallID is the id of a job's call: the same whichever machine does the job.
func toolCallID(job string, i int) string {
	return fmt.Sprintf("call_%s_%d", job[max(0, len(job)-12):], i)
}

// WithIDs gives calls of a job their ids, of which the first is its i-th, from 0.
func WithIDs(job string, i int, calls []ToolCall) []ToolCall {
	calls = slices.Clone(calls)
	for n := range calls {
		calls[n].ID = toolCallID(job, i+n)
	}
	return calls
}

// Role is who speaks in a [Message].
type Role string

// The roles of a chat.
const (
	RoleSystem    Role = "system"    // the instructions
	RoleUser      Role = "user"      // the request
	RoleAssistant Role = "assistant" // an answer of the model
	RoleTool      Role = "tool"      // what came of a call of a function
)

// Think asks a reasoning model to think, not to, or how hard.
type Think string

// The values of [Think].
const (
	ThinkOn     Think = "on"     // think
	ThinkOff    Think = "off"    // do not
	ThinkLow    Think = "low"    // a little; gpt-oss knows levels, and a model that cannot think answers without
	ThinkMedium Think = "medium" // more
	ThinkHigh   Think = "high"   // most
)

// Options are the sampling options of a job; what is left out is left to the engine.
// The size of the context is the worker's setting; a job may only say what it needs.
type Options struct {
	Temperature   *float64 `json:"temperature,omitempty"`    // 0 is greedy: the likeliest token each time
	Seed          *int64   `json:"seed,omitempty"`           // of the random numbers; equal seeds give equal text
	NumPredict    *int     `json:"num_predict,omitempty"`    // tokens to generate at most
	NumCtx        *int     `json:"num_ctx,omitempty"`        // tokens of context that the job needs at least
	TopP          *float64 `json:"top_p,omitempty"`          // choose among the likeliest tokens that together have this probability
	TopK          *int     `json:"top_k,omitempty"`          // choose among this many likeliest tokens; 0 is no limit
	MinP          *float64 `json:"min_p,omitempty"`          // least probability of a token, as a share of the likeliest one's
	RepeatPenalty *float64 `json:"repeat_penalty,omitempty"` // above 1 makes repetition less likely
	Stop          []string `json:"stop,omitempty"`           // words that end the text

	Extra Extra `json:"-"`
}

// IsZero reports whether no option is set, so that an empty object is left out of the JSON.
func (o Options) IsZero() bool {
	return o.Temperature == nil && o.Seed == nil && o.NumPredict == nil && o.NumCtx == nil && o.TopP == nil &&
		o.TopK == nil && o.MinP == nil && o.RepeatPenalty == nil && len(o.Stop) == 0 && len(o.Extra) == 0
}

// TextBytes is the length of all text of a job, from which tokens are estimated.
func (j *Job) TextBytes() int {
	n := len(j.System) + len(j.Prompt) + len(j.Suffix)
	for _, tool := range j.Tools {
		n += len(tool)
	}
	for _, m := range j.Messages {
		n += m.TextBytes()
	}
	if j.Embed != nil {
		for _, text := range j.Embed.Input {
			n += len(text)
		}
	}
	return n
}

// TextBytes is the length of all text of a message.
func (m *Message) TextBytes() int {
	n := len(m.Content) + len(m.Thinking)
	for _, call := range m.ToolCalls {
		n += len(call.Name) + len(call.Arguments)
	}
	return n
}

// EffectivePlan is the plan of the job, with the default filled in.
func (j *Job) EffectivePlan() Plan {
	if j.Plan == "" {
		return PlanDisaggregated
	}
	return j.Plan
}

// Expired reports whether the job's deadline has passed at now.
func (j *Job) Expired(now time.Time) bool {
	return !j.Deadline.IsZero() && now.After(j.Deadline)
}

// NewID returns a new job or batch id, a UUIDv7: ids made later sort later.
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil { // the system has no randomness; nothing can go on
		panic(fmt.Sprintf("make job id: %v", err))
	}
	return id.String()
}
