package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"tandem/internal/engine"
	"tandem/jobs"
)

// Message is one of a chat.
type Message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"`                     // a text, or its parts
	Thinking   string     `json:"reasoning_content,omitempty"` // of an assistant
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`        // likewise
	Name       string     `json:"name,omitempty"`              // of a tool
	ToolCallID string     `json:"tool_call_id,omitempty"`      // likewise: which call is answered
}

// part is one of a content.
type part struct {
	Type     string    `json:"type"` // text or image_url
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

// ToolCall is a call of a function.
type ToolCall struct {
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type"` // function
	Function Function `json:"function"`
}

// Function is what is called.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON
}

// ToolCalls writes calls as the OpenAI API has them.
func ToolCalls(calls []jobs.ToolCall) (list []ToolCall) {
	for _, c := range calls {
		list = append(list, ToolCall{ID: c.ID, Type: "function", Function: Function{Name: c.Name, Arguments: string(c.Arguments)}})
	}
	return list
}

// Messages are those of a request: its system prompt, its prompt, and its messages.
func Messages(r engine.Request) (list []Message) {
	if r.System != "" {
		list = append(list, Message{Role: string(jobs.RoleSystem), Content: r.System})
	}
	if r.Prompt != "" {
		list = append(list, Message{Role: string(jobs.RoleUser), Content: r.Prompt})
	}
	for _, m := range r.Messages {
		list = append(list, Message{
			Role: string(m.Role), Content: content(m), Thinking: m.Thinking, ToolCalls: ToolCalls(m.ToolCalls), Name: m.ToolName, ToolCallID: m.ToolCallID,
		})
	}
	return list
}

// content is that of a message; with images it has parts.
func content(m jobs.Message) any {
	if len(m.Images) == 0 {
		return m.Content
	}
	var parts []part
	if m.Content != "" {
		parts = append(parts, part{Type: "text", Text: m.Content})
	}
	for _, image := range m.Images {
		head, _ := base64.StdEncoding.DecodeString(image[:min(len(image), 684)]) // of what a kind is told by; the whole was checked with the job
		parts = append(parts, part{Type: "image_url", ImageURL: &imageURL{"data:" + http.DetectContentType(head) + ";base64," + image}})
	}
	return parts
}

// ResponseFormat is the format of an answer.
type ResponseFormat struct {
	Type   string      `json:"type"` // json_object or json_schema
	Schema *JSONSchema `json:"json_schema,omitempty"`
}

// JSONSchema is a schema that an answer must satisfy.
type JSONSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

// FormatOf is that of a request; nil if it is free.
func FormatOf(r engine.Request) *ResponseFormat {
	switch f := bytes.TrimSpace(r.Format); {
	case string(f) == `"json"`:
		return &ResponseFormat{Type: "json_object"}
	case len(f) > 0:
		return &ResponseFormat{Type: "json_schema", Schema: &JSONSchema{Name: "answer", Schema: f}}
	}
	return nil
}

// AskLogprobs is how a request asks for logprobs. At least one other is asked for, which llama-server takes for a wish to have any.
func AskLogprobs(r engine.Request) (logprobs bool, top int) {
	if !r.Logprobs {
		return false, 0
	}
	return true, max(1, r.TopLogprobs)
}

// TemplateArgs are what a chat template is told of thinking; nil if it decides. Templates differ in which of the two they know, and ignore the other.
func TemplateArgs(t jobs.Think) map[string]any {
	switch t {
	case jobs.ThinkOn, jobs.ThinkOff:
		return map[string]any{"enable_thinking": t == jobs.ThinkOn}
	case jobs.ThinkLow, jobs.ThinkMedium, jobs.ThinkHigh:
		return map[string]any{"enable_thinking": true, "reasoning_effort": string(t)}
	}
	return nil
}

// chatRequest is the body of /v1/chat/completions. What is left out is left to the server; top_k and what follows it are not of the standard, but of most servers.
type chatRequest struct {
	Model          string            `json:"model"`
	Messages       []Message         `json:"messages"`
	Tools          []json.RawMessage `json:"tools,omitempty"`
	ToolChoice     jobs.ToolChoice   `json:"tool_choice,omitempty"`
	Stream         bool              `json:"stream"`
	StreamOptions  streamOptions     `json:"stream_options"`
	ResponseFormat *ResponseFormat   `json:"response_format,omitempty"`
	Temperature    *float64          `json:"temperature,omitempty"`
	Seed           *int64            `json:"seed,omitempty"`
	MaxTokens      *int              `json:"max_tokens,omitempty"`
	TopP           *float64          `json:"top_p,omitempty"`
	Stop           []string          `json:"stop,omitempty"`

	Logprobs    bool `json:"logprobs,omitempty"`
	TopLogprobs int  `json:"top_logprobs,omitempty"`

	TopK              *int           `json:"top_k,omitempty"`
	MinP              *float64       `json:"min_p,omitempty"`
	RepeatPenalty     *float64       `json:"repeat_penalty,omitempty"`     // as llama-server and LM Studio call it
	RepetitionPenalty *float64       `json:"repetition_penalty,omitempty"` // as vLLM and MLX-LM do
	TemplateArgs      map[string]any `json:"chat_template_kwargs,omitempty"`
	ReasoningEffort   string         `json:"reasoning_effort,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// chatOf writes a request for a model that the server has under this name.
func chatOf(model string, r engine.Request) chatRequest {
	o := r.Options
	c := chatRequest{
		Model: model, Messages: Messages(r), Tools: r.Tools, ToolChoice: r.ToolChoice, Stream: true, StreamOptions: streamOptions{IncludeUsage: true}, ResponseFormat: FormatOf(r),
		Temperature: o.Temperature, MaxTokens: o.NumPredict, TopP: o.TopP, Stop: o.Stop,
		TopK: o.TopK, MinP: o.MinP, RepeatPenalty: o.RepeatPenalty, RepetitionPenalty: o.RepeatPenalty, TemplateArgs: TemplateArgs(r.Think),
	}
	if o.Seed != nil && *o.Seed >= 0 { // less is a random one, which is what a server takes by itself
		c.Seed = o.Seed
	}
	c.Logprobs, c.TopLogprobs = AskLogprobs(r)
	switch r.Think {
	case jobs.ThinkLow, jobs.ThinkMedium, jobs.ThinkHigh:
		c.ReasoningEffort = string(r.Think)
	}
	return c
}
