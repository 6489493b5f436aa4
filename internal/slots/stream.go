package slots

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

// Event is one event of a streamed answer, of /completion or of /v1/chat/completions.
type Event struct {
	Error   *apiError `json:"error"`
	Timings *Timings  `json:"timings"`

	// Of /completion.
	Content  string                `json:"content"`
	Stop     bool                  `json:"stop"`      // this is the last one
	StopType string                `json:"stop_type"` // of the last one: eos, word or limit
	Logprobs []engine.TokenLogprob `json:"completion_probabilities"`

	// Of /v1/chat/completions.
	Choices []struct {
		Delta struct {
			Content   string                 `json:"content"`
			Reasoning string                 `json:"reasoning_content"`
			ToolCalls []engine.ToolCallDelta `json:"tool_calls"`
		} `json:"delta"`
		Logprobs struct {
			Content []engine.TokenLogprob `json:"content"`
		} `json:"logprobs"`
		FinishReason string `json:"finish_reason"` // in the last one with text
	} `json:"choices"`
}

// Timings are llama-server's own measures of a request.
type Timings struct {
	Cached    int     `json:"cache_n"`     // tokens of the prompt
	Computed  int     `json:"prompt_n"`    // likewise
	Generated int     `json:"predicted_n"` // tokens
	PromptMS  float64 `json:"prompt_ms"`
	PredictMS float64 `json:"predicted_ms"`
}

// PromptTime is how long the prompt took.
func (t Timings) PromptTime() time.Duration { return milliseconds(t.PromptMS) }

// PredictTime is how long the answer took.
func (t Timings) PredictTime() time.Duration { return milliseconds(t.PredictMS) }

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// done is the data of the event that ends a chat stream.
const done = "[DONE]"

// stream sends a request and gives take each event of the answer, until one is the last or take
// returns an error. Progress is called for each event: they come with every batch of the prompt and every
// token, but not while the server merely keeps the connection alive.
func (c *Client) stream(ctx context.Context, at Endpoint, path string, body any, progress func(), take func(*Event) error) error {
	r, err := c.open(ctx, at, path, body, true)
	if err != nil {
		return err
	}
	defer r.Close()
	for data, err := range engine.ServerSentEvents(r) {
		if err != nil {
			return broken(ctx, path, err)
		}
		progress()
		if string(data) == done {
			return nil
		}
		var e Event
		if err := json.Unmarshal(data, &e); err != nil {
			return broken(ctx, path, errors.New("an event is not the JSON that llama-server sends"))
		}
		if e.Error != nil {
			return e.Error.of(at, path)
		}
		if err := take(&e); err != nil {
			return err
		}
		if e.Stop {
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return jobs.Errorf(jobs.CodeEngineFailed, "llama-server's answer to %s ended before its last event: %w", path, io.ErrUnexpectedEOF)
}
