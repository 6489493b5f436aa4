package llamacpp

import (
	"encoding/json"

	"tandem/internal/engine"
	"tandem/internal/openai"
	"tandem/internal/slots"
	"tandem/jobs"
)

// chatRequest is the body of /v1/chat/completions, and of /apply-template, which renders what the
// former would read.
type chatRequest struct {
	Messages        []openai.Message       `json:"messages"`
	TemplateArgs    map[string]any         `json:"chat_template_kwargs,omitempty"`
	Tools           []json.RawMessage      `json:"tools,omitempty"`
	ToolChoice      jobs.ToolChoice        `json:"tool_choice,omitempty"`
	ReasoningFormat string                 `json:"reasoning_format"`
	ResponseFormat  *openai.ResponseFormat `json:"response_format,omitempty"`
	Logprobs        bool                   `json:"logprobs,omitempty"`
	TopLogprobs     int                    `json:"top_logprobs,omitempty"`
	sampling
	slots.Placement
}

// completionRequest is the body of /completion: tokens as they are, without any template.
type completionRequest struct {
	Prompt []int32         `json:"prompt"`
	Schema json.RawMessage `json:"json_schema,omitempty"`
	Probs  int             `json:"n_probs,omitempty"` // of the likeliest tokens
	Fields []string        `json:"response_fields"`   // of the last event, or the whole prompt would come back
	sampling
	slots.Placement
}

// sampling is how tokens are chosen, and how many. What is nil is left to the server.
type sampling struct {
	Temperature   *float64 `json:"temperature,omitempty"`
	Seed          *uint32  `json:"seed,omitempty"`
	NumPredict    *int     `json:"n_predict,omitempty"`
	TopP          *float64 `json:"top_p,omitempty"`
	TopK          *int     `json:"top_k,omitempty"`
	MinP          *float64 `json:"min_p,omitempty"`
	RepeatPenalty *float64 `json:"repeat_penalty,omitempty"`
	Stop          []string `json:"stop,omitempty"`
}

// chatOf writes a request as llama-server wants it.
func chatOf(r engine.Request) chatRequest {
	o := r.Options
	c := chatRequest{
		Messages: openai.Messages(r), Tools: r.Tools, ToolChoice: r.ToolChoice, TemplateArgs: openai.TemplateArgs(r.Think), ResponseFormat: openai.FormatOf(r),
		ReasoningFormat: "auto", // thinking apart, however the server was started
		sampling: sampling{
			Temperature: o.Temperature, NumPredict: o.NumPredict, TopP: o.TopP, TopK: o.TopK, MinP: o.MinP,
			RepeatPenalty: o.RepeatPenalty, Stop: o.Stop,
		},
	}
	c.Logprobs, c.TopLogprobs = openai.AskLogprobs(r)
	if o.Seed != nil {
		seed := uint32(*o.Seed) // llama-server's seeds have 32 bits; its -1, like ours, is a random one
		c.Seed = &seed
	}
	return c
}

// completionOf writes tokens as a request, for a chat that could not be: what the chat's own schema
// asks for applies from the first token on.
func completionOf(prompt []int32, c chatRequest) completionRequest {
	var schema json.RawMessage
	if f := c.ResponseFormat; f != nil {
		schema = json.RawMessage(`{"type":"object"}`)
		if f.Schema != nil {
			schema = f.Schema.Schema
		}
	}
	return completionRequest{
		Prompt: prompt, Schema: schema, Probs: c.TopLogprobs, Fields: []string{"stop", "stop_type", "timings"},
		sampling: c.sampling, Placement: c.Placement,
	}
}
