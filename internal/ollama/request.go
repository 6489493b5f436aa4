package ollama

import (
	"context"
	"encoding/json"
	"slices"

	"tandem/internal/engine"
	"tandem/jobs"
)

// wire is a request to /api/generate or /api/chat. With neither prompt nor messages it only loads
// the model.
type wire struct {
	Model     string            `json:"model"`
	System    string            `json:"system,omitempty"`
	Prompt    string            `json:"prompt,omitempty"`
	Suffix    string            `json:"suffix,omitempty"`
	Raw       bool              `json:"raw,omitempty"`
	Messages  []turn            `json:"messages,omitempty"`
	Tools     []json.RawMessage `json:"tools,omitempty"`
	Format    json.RawMessage   `json:"format,omitempty"`
	Think     any               `json:"think,omitempty"` // a bool or a level
	KeepAlive string            `json:"keep_alive"`
	Truncate  bool              `json:"truncate"` // false: a prompt that is too long is an error …
	Shift     bool              `json:"shift"`    // … and so is an answer; another value restarts the runner
	Options   options           `json:"options"`

	Logprobs    bool `json:"logprobs,omitempty"`
	TopLogprobs int  `json:"top_logprobs,omitempty"`

	RenderOnly bool `json:"_debug_render_only,omitempty"` // return the prompt as the template makes it, and compute nothing
}

type turn struct {
	Role       jobs.Role  `json:"role"`
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking,omitempty"`
	Images     []string   `json:"images,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// toolCall is how Ollama writes a call of a function.
type toolCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

func turnOf(m jobs.Message) turn {
	t := turn{Role: m.Role, Content: m.Content, Thinking: m.Thinking, Images: m.Images, ToolName: m.ToolName, ToolCallID: m.ToolCallID}
	for _, call := range m.ToolCalls {
		c := toolCall{ID: call.ID}
		c.Function.Name, c.Function.Arguments = call.Name, call.Arguments
		t.ToolCalls = append(t.ToolCalls, c)
	}
	return t
}

// options are those of the job, but for the two that are the worker's: they restart the runner
// when they change. Options this version does not know are not sent, since they might do the same.
type options struct {
	NumCtx        int      `json:"num_ctx"`
	NumThread     int      `json:"num_thread,omitempty"`
	NumPredict    *int     `json:"num_predict,omitempty"`
	Temperature   *float64 `json:"temperature,omitempty"`
	Seed          *int64   `json:"seed,omitempty"`
	TopP          *float64 `json:"top_p,omitempty"`
	TopK          *int     `json:"top_k,omitempty"`
	MinP          *float64 `json:"min_p,omitempty"`
	RepeatPenalty *float64 `json:"repeat_penalty,omitempty"`
	Stop          []string `json:"stop,omitempty"`
}

// path is where a request goes.
func (w wire) path() string {
	if len(w.Messages) > 0 {
		return pathChat
	}
	return pathGenerate
}

// wire writes a request the way Ollama reads it. A prompt with a format or tools goes to the chat API, which renders it alike: the other one has no tools, and holds a model that
// thinks to the format from its first token on, so that what it writes is taken for thinking, or for nothing, and the text is empty.
func (e *Engine) wire(ctx context.Context, req engine.Request) wire {
	o := req.Options
	w := wire{
		Model: e.model, System: req.System, Prompt: req.Prompt, Suffix: req.Suffix, Raw: req.Raw, Format: req.Format, KeepAlive: e.keepAlive,
		Logprobs: req.Logprobs, TopLogprobs: req.TopLogprobs,
		Options: options{
			NumCtx: e.numCtx, NumThread: e.numThread, NumPredict: o.NumPredict, Temperature: o.Temperature, Seed: o.Seed,
			TopP: o.TopP, TopK: o.TopK, MinP: o.MinP, RepeatPenalty: o.RepeatPenalty, Stop: o.Stop,
		},
	}
	for _, m := range req.Messages {
		w.Messages = append(w.Messages, turnOf(m))
	}
	if req.ToolChoice != jobs.ToolsNone {
		w.Tools = req.Tools
	}
	if len(req.Format)+len(w.Tools) > 0 && req.Prompt != "" && !req.Raw && req.Suffix == "" {
		if req.System != "" {
			w.Messages = append(w.Messages, turn{Role: jobs.RoleSystem, Content: req.System})
		}
		w.Messages = append(w.Messages, turn{Role: jobs.RoleUser, Content: req.Prompt})
		w.System, w.Prompt = "", ""
	}
	switch req.Think {
	case "":
	case jobs.ThinkOn, jobs.ThinkOff:
		w.Think = req.Think == jobs.ThinkOn
	default:
		// How hard to think is nothing to a model that cannot, and Ollama would refuse it.
		if m, err := e.about(ctx); err != nil || slices.Contains(m.can, jobs.CanThink) {
			w.Think = req.Think
		}
	}
	return w
}

// check refuses what must not reach the server: without a prompt it would load the model and say
// that it is done, and num_predict 0 or less does not stop.
func (e *Engine) check(ctx context.Context, req engine.Request) error {
	if slices.ContainsFunc(req.Messages, func(m jobs.Message) bool { return len(m.Images) > 0 }) {
		if m, err := e.about(ctx); err == nil && m.can != nil && !slices.Contains(m.can, jobs.CanSee) {
			return jobs.Errorf(jobs.CodeEngineRefused, "images: the model does not see, as `ollama show` says of it; leave them out, or ask a model that does")
		}
	}
	o := req.Options
	switch {
	case req.Prompt == "" && len(req.Messages) == 0:
		return jobs.Errorf(jobs.CodeInvalid, "the prompt is empty; give a prompt or messages")
	case req.ToolChoice == jobs.ToolsRequired:
		return jobs.Errorf(jobs.CodeEngineRefused, "tool_choice is required, and Ollama cannot have a model call a tool that does not by itself: leave it out")
	case o.NumPredict != nil && *o.NumPredict < 1:
		return jobs.Errorf(jobs.CodeInvalid, "options.num_predict is %d; want at least 1", *o.NumPredict)
	case o.NumCtx != nil && *o.NumCtx > e.numCtx:
		return e.tooLittle(*o.NumCtx)
	}
	return nil
}

// tooLittle is a context that is less than a job needs.
func (e *Engine) tooLittle(need int) error {
	return jobs.Errorf(jobs.CodeContextOverflow,
		"the job asks for options.num_ctx %d and this worker's context is %d: lower the one, or raise the other with --num-ctx", need, e.numCtx)
}
