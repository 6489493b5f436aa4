package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

// maxAnswer bounds the text and the thinking of an answer, in bytes.
const maxAnswer = jobs.MaxRecord

// Prefill has the server compute the prompt, and generate one token, since it can be asked for no less.
func (e *Engine) Prefill(ctx context.Context, req engine.Request) (engine.Prefilled, error) {
	one := 1
	req.Options.NumPredict = &one
	a, err := e.answer(ctx, "prefill", req, func(jobs.Chunk) error { return nil })
	if err != nil {
		return engine.Prefilled{}, err
	}
	return engine.Prefilled{
		Kind: jobs.KindNone, PromptTokens: a.PromptTokens, CachedTokens: a.CachedTokens, ComputedTokens: a.ComputedTokens, Duration: a.PrefillDuration, ModelDigest: a.model,
	}, nil
}

// Decode generates the text for a prompt that was prefilled elsewhere, from its beginning.
func (e *Engine) Decode(ctx context.Context, req engine.Request, _ engine.Prefilled, emit engine.Emit) (engine.Completion, error) {
	return e.Generate(ctx, req, emit)
}

// Generate has the server do the whole request.
func (e *Engine) Generate(ctx context.Context, req engine.Request, emit engine.Emit) (engine.Completion, error) {
	a, err := e.answer(ctx, "generate", req, emit)
	if err != nil {
		return engine.Completion{}, err
	}
	return a.Completion, nil
}

// answer is what a server generates.
type answer struct {
	engine.Completion
	model          string
	emit           engine.Emit
	start          time.Time
	text, thinking strings.Builder
	calls          engine.ToolCalls
	logprobs       engine.Logprobs
	top            int // of the logprobs
	usage          *usage
}

// usage is how many tokens there were.
type usage struct {
	Prompt    int `json:"prompt_tokens"`
	Generated int `json:"completion_tokens"`
	Details   struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// event is one of a streamed answer.
type event struct {
	Error   *refusal `json:"error"`
	Usage   *usage   `json:"usage"`
	Choices []struct {
		Delta struct {
			Content   string                 `json:"content"`
			Reasoning string                 `json:"reasoning_content"`
			Thinking  string                 `json:"reasoning"` // the same, of newer servers
			ToolCalls []engine.ToolCallDelta `json:"tool_calls"`
		} `json:"delta"`
		Logprobs struct {
			Content []engine.TokenLogprob `json:"content"`
		} `json:"logprobs"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
}

// done is the data of the event that ends a stream.
const done = "[DONE]"

// answer asks the server, and reads what it says to its end.
func (e *Engine) answer(ctx context.Context, doing string, req engine.Request, emit engine.Emit) (*answer, error) {
	if strings.TrimSpace(req.Prompt) == "" && len(req.Messages) == 0 {
		return nil, jobs.Errorf(jobs.CodeInvalid, "prompt is empty; give a prompt or messages")
	}
	if req.Raw || req.Suffix != "" {
		return nil, jobs.Errorf(jobs.CodeEngineRefused, "raw or suffix: a server is asked for chats here, which have neither; leave them out, or ask a model on Ollama")
	}
	if need := req.Options.NumCtx; need != nil && *need > e.options.NumCtx {
		return nil, overflow(doing, *need, e.options.NumCtx)
	}
	name, err := e.name(ctx)
	if err != nil {
		return nil, err
	}
	a := &answer{emit: emit, start: time.Now(), model: name, top: req.TopLogprobs}
	body, err := e.client.open(ctx, "/v1/chat/completions", chatOf(name, req))
	if err != nil {
		e.forget()
		return nil, e.failure(ctx, doing, err, req)
	}
	defer body.Close()
	progress := req.Progress
	if progress == nil {
		progress = func() {}
	}
	if err := a.read(body, progress); err != nil {
		return nil, e.failure(ctx, doing, err, req)
	}
	return a, a.account()
}

// forget has the server be asked for its model again: another one may be there next time.
func (e *Engine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.served = ""
}

// read takes the events of a stream until the last one.
func (a *answer) read(body io.Reader, progress func()) error {
	for data, err := range engine.ServerSentEvents(body) {
		if err != nil {
			return err
		}
		progress()
		if string(data) == done {
			return nil
		}
		var ev event
		if json.Unmarshal(data, &ev) != nil {
			return errNotOpenAI
		}
		if ev.Error != nil {
			return ev.Error
		}
		if err := a.take(&ev); err != nil {
			return &stopped{err}
		}
	}
	return errors.New("the answer ended before its last event")
}

// stopped is what ended an answer on this side.
type stopped struct{ error }

func (s *stopped) Unwrap() error { return s.error }

// take takes an event.
func (a *answer) take(ev *event) error {
	if ev.Usage != nil {
		a.usage = ev.Usage
	}
	for _, c := range ev.Choices {
		a.logprobs.Add(c.Logprobs.Content, a.top)
		if err := a.piece(jobs.Chunk{Thinking: c.Delta.Reasoning + c.Delta.Thinking}); err != nil {
			return err
		}
		if err := a.piece(jobs.Chunk{Text: c.Delta.Content}); err != nil {
			return err
		}
		for _, d := range c.Delta.ToolCalls {
			if err := a.piece(jobs.Chunk{ToolCalls: a.calls.Add(d)}); err != nil {
				return err
			}
		}
		if c.FinishReason != "" {
			if err := a.piece(jobs.Chunk{ToolCalls: a.calls.End()}); err != nil {
				return err
			}
		}
		switch c.FinishReason {
		case "":
		case "stop", "length":
			a.FinishReason = c.FinishReason
		case "tool_calls":
			a.FinishReason = "stop"
		default:
			a.FinishReason = "stop"
			a.Warnings = append(a.Warnings, fmt.Sprintf("the server ended the answer for the reason %.40q", c.FinishReason))
		}
	}
	return nil
}

// piece takes one piece of text, of thinking, or calls.
func (a *answer) piece(p jobs.Chunk) error {
	if a.text.Len()+a.thinking.Len()+a.calls.Bytes()+len(p.Text)+len(p.Thinking) > maxAnswer {
		return jobs.Errorf(jobs.CodeEngineFailed, "the server's answer is longer than %d bytes, which no result could hold: give the job a num_predict", maxAnswer)
	}
	if p.Text+p.Thinking == "" && len(p.ToolCalls) == 0 {
		return nil
	}
	if a.FirstToken == 0 {
		a.FirstToken = time.Since(a.start)
	}
	p.Logprobs = a.logprobs.News()
	a.text.WriteString(p.Text)
	a.thinking.WriteString(p.Thinking)
	a.ToolCalls = append(a.ToolCalls, p.ToolCalls...)
	return a.emit(p)
}

// account says what the answer took.
func (a *answer) account() error {
	if a.FinishReason == "" {
		return jobs.Errorf(jobs.CodeEngineFailed, "the server's answer ended without a reason; see its log")
	}
	took := time.Since(a.start)
	a.Logprobs = a.logprobs.All()
	a.Text, a.Thinking, a.Warnings = a.text.String(), a.thinking.String(), append(a.Warnings, a.calls.Warnings...)
	a.PrefillDuration = max(1, a.FirstToken)
	if a.FirstToken == 0 {
		a.PrefillDuration = took
	}
	a.DecodeDuration = max(1, took-a.PrefillDuration)
	u := a.usage
	if u == nil {
		return jobs.Errorf(jobs.CodeEngineFailed, "the server does not say how many tokens an answer has (stream_options.include_usage); use a newer one")
	}
	if u.Prompt < 1 || u.Generated < 0 || u.Details.Cached < 0 || u.Details.Cached > u.Prompt {
		return jobs.Errorf(jobs.CodeEngineFailed, "the server's counts are impossible: %d prompt tokens, %d of them cached, %d generated", u.Prompt, u.Details.Cached, u.Generated)
	}
	a.PromptTokens, a.GeneratedTokens = u.Prompt, u.Generated
	a.CachedTokens = min(u.Details.Cached, u.Prompt-1) // the last one is always computed
	a.ComputedTokens = a.PromptTokens - a.CachedTokens
	return nil
}
