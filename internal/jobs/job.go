package jobs

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Version is the version of the records that this package reads and writes.
const Version = 1

// SingleBatch is the batch of a job that was submitted by itself.
const SingleBatch = "single"

// Class says whether somebody is waiting at a prompt for the job.
type Class string

// Workers take interactive jobs before batch jobs.
const (
	Interactive Class = "interactive"
	Batch       Class = "batch"
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

// Job is one request for one completion, as it is published on the intake stream.
type Job struct {
	V            int               `json:"v"`                       // always [Version]
	ID           string            `json:"id"`                      // UUIDv7
	User         string            `json:"user"`                    // whose results these are
	Batch        string            `json:"batch"`                   // jobs submitted together; [SingleBatch] for one by itself
	CustomID     string            `json:"custom_id,omitempty"`     // the submitter's own name for it
	Class        Class             `json:"class"`                   // interactive or batch
	Model        string            `json:"model"`                   // canonical, see [CanonicalModel]
	System       string            `json:"system,omitempty"`        // system prompt
	Prompt       string            `json:"prompt,omitempty"`        // either this …
	Messages     []Message         `json:"messages,omitempty"`      // … or a chat
	Format       json.RawMessage   `json:"format,omitempty"`        // "json" or a JSON schema that the text must satisfy
	Think        Think             `json:"think,omitempty"`         // reasoning, for models that can
	Options      Options           `json:"options,omitzero"`        // sampling options
	Plan         Plan              `json:"plan,omitempty"`          // empty means disaggregated
	SharedPrefix int               `json:"shared_prefix,omitempty"` // bytes of Prompt, or number of Messages, that the whole batch shares
	Stream       bool              `json:"stream,omitempty"`        // publish tokens as they come
	Labels       map[string]string `json:"labels,omitempty"`        // the submitter's own; carried into the result
	SubmittedAt  time.Time         `json:"submitted_at,omitzero"`   // the submitter's clock
	Deadline     time.Time         `json:"deadline,omitzero"`       // after which the job must not run any more
	ReplayOf     string            `json:"replay_of,omitempty"`     // the dead-lettered job that this one repeats

	Extra Extra `json:"-"` // fields of a newer version
}

// Message is one turn of a chat.
type Message struct {
	Role    Role   `json:"role"`
	Content string `json:"content"`

	Extra Extra `json:"-"`
}

// Role is who speaks in a [Message].
type Role string

// The roles of a chat.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Think asks a reasoning model to think, not to, or how hard. Empty leaves it to the model.
type Think string

// The values of [Think]; levels are understood by gpt-oss.
const (
	ThinkOn     Think = "on"
	ThinkOff    Think = "off"
	ThinkLow    Think = "low"
	ThinkMedium Think = "medium"
	ThinkHigh   Think = "high"
)

// Options are the sampling options of a job; what is nil is left to the engine.
// NumCtx is the context the job needs at least: the size itself is the worker's setting.
type Options struct {
	Temperature   *float64 `json:"temperature,omitempty"`
	Seed          *int64   `json:"seed,omitempty"`
	NumPredict    *int     `json:"num_predict,omitempty"` // tokens to generate at most
	NumCtx        *int     `json:"num_ctx,omitempty"`     // tokens
	TopP          *float64 `json:"top_p,omitempty"`
	TopK          *int     `json:"top_k,omitempty"`
	MinP          *float64 `json:"min_p,omitempty"`
	RepeatPenalty *float64 `json:"repeat_penalty,omitempty"`
	Stop          []string `json:"stop,omitempty"`

	Extra Extra `json:"-"`
}

// IsZero reports whether no option is set, so that an empty object is left out of the JSON.
func (o Options) IsZero() bool {
	return o.Temperature == nil && o.Seed == nil && o.NumPredict == nil && o.NumCtx == nil && o.TopP == nil &&
		o.TopK == nil && o.MinP == nil && o.RepeatPenalty == nil && len(o.Stop) == 0 && len(o.Extra) == 0
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
