package jobs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Limits of the fields.
const (
	MaxBody     = 4 << 20   // bytes of system, prompt and messages together
	MaxFormat   = 256 << 10 // bytes of a JSON schema
	MaxName     = 200       // bytes of a model, user, batch or custom id
	MaxLabels   = 32        // labels of a job
	MaxLabel    = 256       // bytes of a label's name or value
	MaxStops    = 16        // stop words
	MaxMessages = 4096      // turns of a chat
	MaxInputs   = 2048      // texts whose embeddings a job asks for
	MaxTools    = 256       // functions that a model may call, and calls in a message
	MaxLogprobs = 20        // likeliest tokens in the place of one
	MaxTokens   = 1 << 24   // of anything counted in tokens
	MaxURL      = 2 << 10   // bytes of a KV state's address
	MaxToken    = 256       // bytes of a KV state's token
	MaxMark     = 1 << 10   // bytes of a text of a fingerprint
	MaxFirst    = 64        // tokens of a first prediction
	MaxFailure  = 64        // bytes of a failure's name
)

// Validate reports the first field of the job that is wrong, as an error of code [CodeInvalid].
func (j *Job) Validate() error { return j.validate() }

func (j *Job) validate() error {
	if j.V != Version {
		return Errorf(CodeInvalid, "v is %d; want %d", j.V, Version)
	}
	if err := CheckID("id", j.ID); err != nil {
		return err
	}
	if err := checkOwner(j.User, j.Batch); err != nil {
		return err
	}
	if err := checkName("custom_id", j.CustomID); err != nil {
		return err
	}
	if j.Class != Interactive && j.Class != Batch {
		return Errorf(CodeInvalid, "class is %.60q; want interactive or batch", j.Class)
	}
	if m, err := CanonicalModel(j.Model); err != nil {
		return err
	} else if m != j.Model {
		return Errorf(CodeInvalid, "model is %.60q; its canonical form is %.60q", j.Model, m)
	}
	switch j.Plan {
	case "", PlanDisaggregated, PlanLocal, PlanAuto:
	default:
		return Errorf(CodeInvalid, "plan is %.60q; want disaggregated, local or auto", j.Plan)
	}
	switch j.Think {
	case "", ThinkOn, ThinkOff, ThinkLow, ThinkMedium, ThinkHigh:
	default:
		return Errorf(CodeInvalid, "think is %.60q; want on, off, low, medium or high", j.Think)
	}
	if j.ReplayOf != "" {
		if err := CheckID("replay_of", j.ReplayOf); err != nil {
			return err
		}
	}
	if (j.Hold || j.Continues != "") && j.EffectivePlan() != PlanDisaggregated {
		return Errorf(CodeInvalid, "plan is %s; a job with hold, or one that continues another, goes by way of prefill: want disaggregated", j.Plan)
	}
	if j.Continues != "" {
		if err := CheckID("continues", j.Continues); err != nil {
			return err
		}
	}
	if err := j.checkEmbed(); err != nil {
		return err
	}
	switch {
	case j.TopLogprobs < 0 || j.TopLogprobs > MaxLogprobs:
		return Errorf(CodeInvalid, "top_logprobs is %d; want 0 to %d", j.TopLogprobs, MaxLogprobs)
	case j.TopLogprobs > 0 && !j.Logprobs:
		return Errorf(CodeInvalid, "top_logprobs is %d without logprobs; set that to true", j.TopLogprobs)
	}
	if err := j.checkText(); err != nil {
		return err
	}
	if err := checkFormat(j.Format); err != nil {
		return err
	}
	if err := j.checkTools(); err != nil {
		return err
	}
	if err := j.Options.validate(); err != nil {
		return err
	}
	return checkLabels(j.Labels)
}

// checkEmbed checks what there is only in a job for embeddings, and what there cannot be.
func (j *Job) checkEmbed() error {
	if j.Embed == nil {
		return nil
	}
	for field, there := range map[string]bool{
		"system": j.System != "", "prompt": j.Prompt != "", "suffix": j.Suffix != "", "raw": j.Raw, "messages": len(j.Messages) > 0, "tools": len(j.Tools) > 0, "tool_choice": j.ToolChoice != "",
		"format": len(j.Format) > 0, "think": j.Think != "", "logprobs": j.Logprobs, "sample": j.Sample, "stream": j.Stream,
	} {
		if there {
			return Errorf(CodeInvalid, "%s and embed are both set; leave %s out, since embeddings are of embed.input alone", field, field)
		}
	}
	switch n := len(j.Embed.Input); {
	case j.EffectivePlan() != PlanLocal:
		return Errorf(CodeInvalid, "plan is %s; embeddings have one phase, on the decode machine: want local", j.EffectivePlan())
	case n == 0 || n > MaxInputs:
		return Errorf(CodeInvalid, "embed.input has %d texts; want 1 to %d", n, MaxInputs)
	case j.Embed.Dimensions < 0 || j.Embed.Dimensions > MaxTokens:
		return Errorf(CodeInvalid, "embed.dimensions is %d; want 1 to %d, or leave it out", j.Embed.Dimensions, MaxTokens)
	}
	for i, text := range j.Embed.Input {
		if text == "" || !utf8.ValidString(text) {
			return Errorf(CodeInvalid, "embed.input[%d] is empty or not valid UTF-8; want a text", i)
		}
	}
	return nil
}

func (j *Job) checkText() error {
	size := len(j.System) + len(j.Prompt) + len(j.Suffix)
	valid := utf8.ValidString(j.System) && utf8.ValidString(j.Prompt) && utf8.ValidString(j.Suffix)
	for i := range j.Messages {
		m := &j.Messages[i]
		if err := m.validate(); err != nil {
			return Errorf(CodeInvalid, "messages[%d].%w", i, err)
		}
		size += m.TextBytes()
		for _, image := range m.Images {
			size += len(image)
		}
		valid = valid && utf8.ValidString(m.Content) && utf8.ValidString(m.Thinking)
	}
	if j.Embed != nil {
		size = j.TextBytes()
	}
	switch {
	case !valid:
		return Errorf(CodeInvalid, "the prompt is not valid UTF-8; convert the file to UTF-8")
	case size > MaxBody:
		return Errorf(CodeInvalid, "the prompt is %d bytes long; %d are allowed", size, MaxBody)
	case len(j.Messages) > 0 && j.Prompt != "":
		return Errorf(CodeInvalid, "prompt and messages are both set; give one")
	case len(j.Messages) > 0 && (j.Suffix != "" || j.Raw):
		return Errorf(CodeInvalid, "suffix or raw is set together with messages; give a prompt")
	case j.Raw && (j.System != "" || len(j.Tools) > 0 || j.Think != ""):
		return Errorf(CodeInvalid, "raw is set together with system, tools or think, which are the chat template's; leave them out")
	case j.Suffix != "" && len(j.Tools) > 0:
		return Errorf(CodeInvalid, "suffix and tools are both set; give one")
	case len(j.Messages) > 0 && j.System != "":
		return Errorf(CodeInvalid, "system and messages are both set; make system the first message")
	case len(j.Messages) > MaxMessages:
		return Errorf(CodeInvalid, "messages has %d turns; %d are allowed", len(j.Messages), MaxMessages)
	case len(j.Messages) == 0 && strings.TrimSpace(j.Prompt) == "" && j.Embed == nil:
		return Errorf(CodeInvalid, "prompt is empty; give a prompt or messages")
	case len(j.Messages) > 0 && j.Messages[len(j.Messages)-1].empty():
		return Errorf(CodeInvalid, "the last message is empty")
	case j.Following.Jobs < 0 || j.Following.Jobs > MaxFollowing:
		return Errorf(CodeInvalid, "following.jobs is %d; want 0 to %d jobs that are published after this one", j.Following.Jobs, MaxFollowing)
	case j.Following.PromptBytes < 0 || j.Following.AnswerTokens < 0:
		return Errorf(CodeInvalid, "following.prompt_bytes is %d and following.answer_tokens %d; want at least 0 of all jobs that follow", j.Following.PromptBytes, j.Following.AnswerTokens)
	case j.SharedPrefix < 0,
		len(j.Messages) == 0 && j.SharedPrefix > len(j.Prompt),
		len(j.Messages) > 0 && j.SharedPrefix > len(j.Messages):
		return Errorf(CodeInvalid, "shared_prefix is %d; it must lie within the prompt (bytes) or the messages (number)", j.SharedPrefix)
	case len(j.Messages) == 0 && j.SharedPrefix < len(j.Prompt) && !utf8.RuneStart(j.Prompt[j.SharedPrefix]):
		return Errorf(CodeInvalid, "shared_prefix is %d, which is within a character of the prompt", j.SharedPrefix)
	}
	return nil
}

// validate says what is wrong with a message, beginning with the name of the field.
func (m *Message) validate() error {
	switch {
	case m.Role != RoleSystem && m.Role != RoleUser && m.Role != RoleAssistant && m.Role != RoleTool:
		return Errorf(CodeInvalid, "role is %.60q; want system, user, assistant or tool", m.Role)
	case len(m.ToolCalls) > MaxTools:
		return Errorf(CodeInvalid, "tool_calls has %d; %d are allowed", len(m.ToolCalls), MaxTools)
	case len(m.ToolCalls) > 0 && m.Role != RoleAssistant:
		return Errorf(CodeInvalid, "tool_calls is there in a message of role %s; only an assistant calls", m.Role)
	case (m.ToolName != "" || m.ToolCallID != "") && m.Role != RoleTool:
		return Errorf(CodeInvalid, "tool_name or tool_call_id is there in a message of role %s; want role tool", m.Role)
	}
	if err := cmp.Or(checkName("tool_name", m.ToolName), checkName("tool_call_id", m.ToolCallID)); err != nil {
		return err
	}
	for i, image := range m.Images {
		if _, err := base64.StdEncoding.DecodeString(image); err != nil || image == "" {
			return Errorf(CodeInvalid, "images[%d] is not the base64 of a file", i)
		}
	}
	for i, call := range m.ToolCalls {
		if err := call.Validate(); err != nil {
			return Errorf(CodeInvalid, "tool_calls[%d].%w", i, err)
		}
	}
	return nil
}

// empty reports whether a message asks nothing; what came of a call may be nothing.
func (m *Message) empty() bool {
	return strings.TrimSpace(m.Content) == "" && len(m.Images) == 0 && m.Role != RoleTool
}

// Validate reports the first field of the call that is wrong, as an error of code [CodeInvalid].
func (c *ToolCall) Validate() error {
	if c.Name == "" {
		return Errorf(CodeInvalid, "name is empty; want the function's")
	}
	if err := cmp.Or(checkName("name", c.Name), checkName("id", c.ID)); err != nil {
		return err
	}
	return checkObject("arguments", c.Arguments)
}

func (j *Job) checkTools() error {
	switch {
	case j.ToolChoice != "" && j.ToolChoice != ToolsAuto && j.ToolChoice != ToolsNone && j.ToolChoice != ToolsRequired:
		return Errorf(CodeInvalid, "tool_choice is %.60q; want auto, none or required", j.ToolChoice)
	case j.ToolChoice == ToolsRequired && len(j.Tools) == 0:
		return Errorf(CodeInvalid, "tool_choice is required, and there are no tools")
	case len(j.Tools) > MaxTools:
		return Errorf(CodeInvalid, "tools has %d; %d are allowed", len(j.Tools), MaxTools)
	}
	for i, tool := range j.Tools {
		field := fmt.Sprintf("tools[%d]", i)
		if err := checkObject(field, tool); err != nil {
			return err
		}
		var t struct {
			Type     string `json:"type"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if err := json.Unmarshal(tool, &t); err != nil || t.Type != "function" || t.Function.Name == "" {
			return Errorf(CodeInvalid, `%s is none; want {"type": "function", "function": {"name": …, "parameters": …}}`, field)
		}
		if err := checkName(field+".function.name", t.Function.Name); err != nil {
			return err
		}
	}
	return nil
}

// checkObject checks a JSON object that is passed on as it is.
func checkObject(field string, data json.RawMessage) error {
	switch data = bytes.TrimSpace(data); {
	case len(data) == 0 || data[0] != '{':
		return Errorf(CodeInvalid, "%s is no JSON object", field)
	case len(data) > MaxFormat:
		return Errorf(CodeInvalid, "%s is %d bytes long; %d are allowed", field, len(data), MaxFormat)
	}
	if _, err := scan(data, maxDepth-jobRoom-4); err != nil {
		return Errorf(CodeInvalid, "%s: %w", field, err)
	}
	return nil
}

func checkFormat(f json.RawMessage) error {
	f = bytes.TrimSpace(f)
	switch {
	case len(f) == 0 || string(f) == `"json"`:
		return nil
	case len(f) > MaxFormat:
		return Errorf(CodeInvalid, "format is %d bytes long; %d are allowed", len(f), MaxFormat)
	case f[0] != '{':
		return Errorf(CodeInvalid, `format is neither "json" nor a JSON schema object`)
	}
	if _, err := scan(f, maxDepth-jobRoom-1); err != nil {
		return Errorf(CodeInvalid, "format: %w", err)
	}
	return nil
}

func (o *Options) validate() error {
	number := func(name string, v *float64, low, high float64) error {
		if v != nil && !(*v >= low && *v <= high) {
			return Errorf(CodeInvalid, "options.%s is %v; want %v to %v", name, *v, low, high)
		}
		return nil
	}
	count := func(name string, v *int, low int) error {
		if v != nil && (*v < low || *v > MaxTokens) {
			return Errorf(CodeInvalid, "options.%s is %d; want %d to %d", name, *v, low, MaxTokens)
		}
		return nil
	}
	for _, err := range []error{
		number("temperature", o.Temperature, 0, 10), number("top_p", o.TopP, 0, 1), number("min_p", o.MinP, 0, 1),
		number("repeat_penalty", o.RepeatPenalty, 0, 10),
		count("num_predict", o.NumPredict, 1), count("num_ctx", o.NumCtx, 1), count("top_k", o.TopK, 0),
	} {
		if err != nil {
			return err
		}
	}
	if len(o.Stop) > MaxStops {
		return Errorf(CodeInvalid, "options.stop has %d words; %d are allowed", len(o.Stop), MaxStops)
	}
	for _, s := range o.Stop {
		if s == "" || len(s) > MaxLabel || !utf8.ValidString(s) {
			return Errorf(CodeInvalid, "options.stop has a word of %d bytes; want 1 to %d of valid UTF-8", len(s), MaxLabel)
		}
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return Errorf(CodeInvalid, "labels has %d entries; %d are allowed", len(labels), MaxLabels)
	}
	for k, v := range labels {
		if len(k) > MaxLabel || len(v) > MaxLabel {
			return Errorf(CodeInvalid, "labels.%.40q is longer than %d bytes", k, MaxLabel)
		}
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return Errorf(CodeInvalid, "labels.%.40q is not valid UTF-8", k)
		}
	}
	return nil
}

// CheckID checks an id of a job, given by the name of its field.
func CheckID(field, id string) error {
	if u, err := uuid.Parse(id); err != nil || u.String() != id {
		return Errorf(CodeInvalid, "%s is %.60q; want a UUID in lower case", field, id)
	}
	return nil
}

// CheckUser checks a user's name, as it stands in jobs and subjects.
func CheckUser(user string) error {
	if user == "" {
		return Errorf(CodeInvalid, "user is empty")
	}
	return checkName("user", user)
}

// checkOwner checks the two names that, with the id, are the address of a result.
func checkOwner(user, batch string) error {
	if batch == "" && user != "" {
		return Errorf(CodeInvalid, "batch is empty; use %q for a job by itself", SingleBatch)
	}
	return cmp.Or(CheckUser(user), checkName("batch", batch))
}

// checkName accepts an empty name.
func checkName(field, name string) error {
	if len(name) > MaxName {
		return Errorf(CodeInvalid, "%s is %d bytes long; %d are allowed", field, len(name), MaxName)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable) {
		return Errorf(CodeInvalid, "%s %.60q holds characters that cannot be printed", field, name)
	}
	return nil
}

// unprintable matches control characters, line separators and the marks that reorder text (bidi),
// none of which belong in a name that a terminal shows.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func (h *Handover) validate() error {
	if h.V != Version {
		return Errorf(CodeInvalid, "v is %d; want %d", h.V, Version)
	}
	if h.Stage != StageDecode && h.Stage != StageFallback {
		return Errorf(CodeInvalid, "stage is %.60q; want decode or fallback", h.Stage)
	}
	switch h.Kind {
	case KindState, KindContext, KindNone:
	case "":
		if h.Stage == StageDecode {
			return Errorf(CodeInvalid, "kind is empty; want state, context or none")
		}
	default:
		return Errorf(CodeInvalid, "kind is %.60q; want state, context or none", h.Kind)
	}
	if len(h.Context) > MaxTokens {
		return Errorf(CodeInvalid, "context has %d tokens; %d are allowed", len(h.Context), MaxTokens)
	}
	if err := h.checkState(); err != nil {
		return err
	}
	if err := h.Job.validate(); err != nil {
		return Errorf(CodeInvalid, "job: %w", err)
	}
	return nil
}

func (r *Result) validate() error {
	if r.V != Version {
		return Errorf(CodeInvalid, "v is %d; want %d", r.V, Version)
	}
	if err := CheckID("job_id", r.JobID); err != nil {
		return err
	}
	if err := checkOwner(r.User, r.Batch); err != nil {
		return err
	}
	switch r.Status {
	case Succeeded:
	case Failed, Cancelled, Expired:
		if r.Error == nil {
			return Errorf(CodeInvalid, "error is missing from a result with status %s", r.Status)
		}
	default:
		return Errorf(CodeInvalid, "status is %.60q; want succeeded, failed, cancelled or expired", r.Status)
	}
	if r.Handover != nil {
		return checkFailure("handover.failure", r.Handover.Failure)
	}
	return nil
}

func (c *Chunk) validate() error {
	if c.V != Version {
		return Errorf(CodeInvalid, "v is %d; want %d", c.V, Version)
	}
	return CheckID("job_id", c.JobID)
}

// Parts are all that a message says to the model, so that equal parts are equal messages; a plain one has two.
func (m *Message) Parts() []string {
	list := []string{string(m.Role), m.Content}
	if m.Thinking+m.ToolName+m.ToolCallID == "" && len(m.Images)+len(m.ToolCalls) == 0 {
		return list
	}
	list = append(append(list, m.Thinking, m.ToolName, m.ToolCallID), m.Images...)
	for _, call := range m.ToolCalls {
		list = append(list, call.ID, call.Name, string(call.Arguments))
	}
	return list
}

// PromptSHA256 is the hash, in hex, of all text that goes to the model, each part preceded by its length.
func (j *Job) PromptSHA256() string {
	h := sha256.New()
	add := func(s string) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	add(j.System)
	add(j.Prompt)
	if j.Raw || j.Suffix != "" {
		add(fmt.Sprint(j.Raw))
		add(j.Suffix)
	}
	if j.Embed != nil {
		for _, text := range j.Embed.Input {
			add(text)
		}
	}
	for _, tool := range j.Tools {
		add(string(tool))
	}
	for _, m := range j.Messages {
		for _, part := range m.Parts() {
			add(part)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
