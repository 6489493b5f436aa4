package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tandem/jobs"
)

// openAI adds OpenAI's API: https://platform.openai.com/docs/api-reference
func (g *gateway) openAI(mux *http.ServeMux) {
	add := func(pattern string, h handler) { g.handle(mux, pattern, openAIError, h) }
	add("GET /v1/models", g.listModels)
	add("GET /v1/models/{model...}", g.oneModel)
	for path := range completions {
		add("POST "+path, func(w http.ResponseWriter, r *http.Request) error {
			data, err := readBody(w, r)
			if err != nil {
				return err
			}
			c, err := completions[path](data)
			if err != nil {
				return err
			}
			return g.answerOpenAI(w, r, c)
		})
	}
}

// openAIError is how OpenAI writes an error.
func openAIError(err error) any {
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	out := body{Message: err.Error(), Type: "server_error"}
	switch status := statusOf(err); {
	case status == http.StatusTooManyRequests:
		out.Type, out.Code = "requests", new("rate_limit_exceeded")
	case status == http.StatusUnauthorized:
		out.Type, out.Code = "invalid_request_error", new("invalid_api_key")
	case status == http.StatusNotFound:
		out.Type, out.Code = "invalid_request_error", new("model_not_found")
		if r, is := errors.AsType[*refusal](err); is && r.param != "model" {
			out.Code = new("not_found")
		}
	case status < 500:
		out.Type = "invalid_request_error"
	}
	if r, is := errors.AsType[*refusal](err); is && r.param != "" {
		out.Param = &r.param
	}
	if e, is := errors.AsType[*jobs.Error](err); is && out.Code == nil {
		out.Code = new(string(e.Code))
	}
	return map[string]body{"error": out}
}

type openAIModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func asOpenAI(m model) openAIModel {
	return openAIModel{ID: m.name, Object: "model", OwnedBy: "tandem"}
}

func (g *gateway) listModels(w http.ResponseWriter, r *http.Request) error {
	list, err := g.models(r)
	if err != nil {
		return err
	}
	out := []openAIModel{}
	for _, m := range list {
		out = append(out, asOpenAI(m))
	}
	return writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": out})
}

func (g *gateway) oneModel(w http.ResponseWriter, r *http.Request) error {
	m, err := g.find(r, r.PathValue("model"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, asOpenAI(m))
}

// openAIRequest is what both kinds of completions have in common.
type openAIRequest struct {
	Model         string          `json:"model"`
	Stream        bool            `json:"stream"`
	StreamOptions *streamOptions  `json:"stream_options"`
	Temperature   *float64        `json:"temperature"`
	TopP          *float64        `json:"top_p"`
	MaxTokens     *int            `json:"max_tokens"`
	Stop          json.RawMessage `json:"stop"`
	Seed          *int64          `json:"seed"`
	N             *int            `json:"n"`
	Presence      *float64        `json:"presence_penalty"`
	Frequency     *float64        `json:"frequency_penalty"`
	Logprobs      json.RawMessage `json:"logprobs"`
	User          string          `json:"user"` // of the program's own; changes nothing
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatCompletionRequest struct {
	openAIRequest
	Messages            []openAIMessage   `json:"messages"`
	MaxCompletionTokens *int              `json:"max_completion_tokens"`
	ResponseFormat      *responseFormat   `json:"response_format"`
	ReasoningEffort     string            `json:"reasoning_effort"`
	Tools               []json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage   `json:"tool_choice"`
	ParallelToolCalls   *bool             `json:"parallel_tool_calls"`
	TopLogprobs         *int              `json:"top_logprobs"`
}

type openAIMessage struct {
	Role      jobs.Role       `json:"role"`
	Content   json.RawMessage `json:"content"`
	Name      string          `json:"name"`
	Refusal   json.RawMessage `json:"refusal"`
	Thinking  string          `json:"reasoning_content"`
	ToolCalls []openAICall    `json:"tool_calls"`
	ToolCall  string          `json:"tool_call_id"`
}

type openAICall struct {
	Index    *int   `json:"index,omitempty"` // in a stream
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"` // JSON
	} `json:"function"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Strict      *bool           `json:"strict"`
		Schema      json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

type completionRequest struct {
	openAIRequest
	Prompt json.RawMessage `json:"prompt"`
	Suffix string          `json:"suffix"`
	Echo   bool            `json:"echo"`
	BestOf *int            `json:"best_of"`
}

// given reports whether a field is there, and asks for something.
func given(raw json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "false"}, string(raw))
}

// job makes a job of what both kinds have; what no job can have is refused by name.
func (in *openAIRequest) job() (*jobs.Job, error) {
	if in.Model == "" {
		return nil, refuse(http.StatusBadRequest, "model", "model is required")
	}
	for field, there := range map[string]bool{
		"n": in.N != nil && *in.N != 1, "presence_penalty": in.Presence != nil && *in.Presence != 0, "frequency_penalty": in.Frequency != nil && *in.Frequency != 0,
	} {
		if there {
			return nil, notHere(field)
		}
	}
	j := &jobs.Job{Model: in.Model, Options: jobs.Options{Temperature: in.Temperature, TopP: in.TopP, Seed: in.Seed, NumPredict: in.MaxTokens}}
	if given(in.Stop) {
		var one string
		if json.Unmarshal(in.Stop, &one) == nil {
			j.Options.Stop = []string{one}
		} else if err := json.Unmarshal(in.Stop, &j.Options.Stop); err != nil {
			return nil, refuse(http.StatusBadRequest, "stop", "stop is %.40s; want a text or a list of texts", in.Stop)
		}
	}
	return j, nil
}

// completion is what a body asks for.
type completion struct {
	*openAIRequest
	job     *jobs.Job
	chat    bool // or a text
	base64  bool // embeddings are written so
	called  int  // calls that were streamed
	offset  int  // of the next token in the text, of those whose logprobs were sent
	created int64
}

// completions read the bodies of the kinds, by their paths.
var completions = map[string]func(data []byte) (*completion, error){"/v1/chat/completions": chatCompletion, "/v1/completions": textCompletion, "/v1/embeddings": openAIEmbeddings}

func chatCompletion(data []byte) (*completion, error) {
	var in chatCompletionRequest
	if err := decode(data, &in); err != nil {
		return nil, err
	}
	j, err := in.job()
	if err != nil {
		return nil, err
	}
	switch {
	case in.ParallelToolCalls != nil && !*in.ParallelToolCalls:
		return nil, notHere("parallel_tool_calls: false")
	case len(in.Messages) == 0:
		return nil, refuse(http.StatusBadRequest, "messages", "messages is empty; want at least one")
	case in.MaxCompletionTokens != nil:
		j.Options.NumPredict = in.MaxCompletionTokens
	}
	if given(in.Logprobs) {
		if err := json.Unmarshal(in.Logprobs, &j.Logprobs); err != nil {
			return nil, refuse(http.StatusBadRequest, "logprobs", "logprobs is %.40s; want true or false", in.Logprobs)
		}
	}
	if in.TopLogprobs != nil {
		j.TopLogprobs = *in.TopLogprobs
	}
	if j.Format, err = in.ResponseFormat.format(); err != nil {
		return nil, err
	}
	if j.Tools = in.Tools; len(in.ToolChoice) > 0 && string(in.ToolChoice) != "null" {
		if err := json.Unmarshal(in.ToolChoice, &j.ToolChoice); err != nil {
			return nil, refuse(http.StatusBadRequest, "tool_choice", "tool_choice is %.60s; want none, auto or required", in.ToolChoice)
		}
	}
	switch in.ReasoningEffort {
	case "":
	case "none":
		j.Think = jobs.ThinkOff
	case "minimal":
		j.Think = jobs.ThinkLow
	default:
		j.Think = jobs.Think(in.ReasoningEffort)
	}
	names := map[string]string{} // of the functions that were called, by the ids of the calls: some templates want them with the answers
	for i, m := range in.Messages {
		message, err := m.message(i)
		if err != nil {
			return nil, err
		}
		if name := names[message.ToolCallID]; message.Role == jobs.RoleTool && message.ToolName == "" {
			message.ToolName = name
		}
		for _, call := range message.ToolCalls {
			names[call.ID] = call.Name
		}
		j.Messages = append(j.Messages, message)
	}
	return &completion{openAIRequest: &in.openAIRequest, job: j, chat: true}, nil
}

// format is a job's.
func (f *responseFormat) format() (json.RawMessage, error) {
	switch {
	case f == nil, f.Type == "text":
		return nil, nil
	case f.Type == "json_object":
		return json.RawMessage(`"json"`), nil
	case f.Type == "json_schema" && f.JSONSchema != nil && len(f.JSONSchema.Schema) > 0:
		return f.JSONSchema.Schema, nil
	}
	return nil, refuse(http.StatusBadRequest, "response_format", "response_format.type is %.40q; want text, json_object, or json_schema with its schema", f.Type)
}

// message reads a message. Its parts may be texts and images, of which no address is ever asked.
func (m *openAIMessage) message(i int) (jobs.Message, error) {
	out := jobs.Message{Role: m.Role, Thinking: m.Thinking, ToolCallID: m.ToolCall}
	switch m.Role {
	case "developer":
		out.Role = jobs.RoleSystem
	case jobs.RoleTool:
		out.ToolName = m.Name
	}
	for n, call := range m.ToolCalls {
		arguments := json.RawMessage(cmp.Or(call.Function.Arguments, "{}"))
		if err := jobs.CheckJSON(arguments); err != nil {
			field := fmt.Sprintf("messages[%d].tool_calls[%d].function.arguments", i, n)
			return out, refuse(http.StatusBadRequest, field, "%s is no JSON: %v", field, err)
		}
		out.ToolCalls = append(out.ToolCalls, jobs.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: arguments})
	}
	if len(m.Content) == 0 && len(m.ToolCalls) > 0 || json.Unmarshal(m.Content, &out.Content) == nil {
		return out, nil
	}
	var parts []struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image struct {
			URL    string `json:"url"`
			Detail string `json:"detail"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return out, refuse(http.StatusBadRequest, fmt.Sprintf("messages[%d].content", i), "messages[%d].content is neither a text nor a list of parts", i)
	}
	for n, p := range parts {
		switch p.Type {
		case "text":
			out.Content += p.Text
		case "image_url":
			head, data, is := strings.Cut(p.Image.URL, ";base64,")
			if !is || !strings.HasPrefix(head, "data:image/") {
				field := fmt.Sprintf("messages[%d].content[%d].image_url.url", i, n)
				return out, refuse(http.StatusBadRequest, field, "%s is not the image itself; send it as data:image/png;base64,…, since nothing is fetched here", field)
			}
			out.Images = append(out.Images, data)
		default:
			return out, notHere(fmt.Sprintf("messages[%d].content of type %.40s", i, p.Type))
		}
	}
	return out, nil
}

func textCompletion(data []byte) (*completion, error) {
	var in completionRequest
	if err := decode(data, &in); err != nil {
		return nil, err
	}
	j, err := in.job()
	if err != nil {
		return nil, err
	}
	for field, there := range map[string]bool{"echo": in.Echo, "best_of": in.BestOf != nil && *in.BestOf != 1} {
		if there {
			return nil, notHere(field)
		}
	}
	j.Suffix = in.Suffix
	if given(in.Logprobs) { // how many
		if err := json.Unmarshal(in.Logprobs, &j.TopLogprobs); err != nil {
			return nil, refuse(http.StatusBadRequest, "logprobs", "logprobs is %.40s; want a number from 0 to %d", in.Logprobs, jobs.MaxLogprobs)
		}
		j.Logprobs = true
	}
	var list []string
	if json.Unmarshal(in.Prompt, &j.Prompt) != nil {
		if json.Unmarshal(in.Prompt, &list) != nil || len(list) != 1 {
			return nil, refuse(http.StatusBadRequest, "prompt", "prompt is neither a text nor a list of one; send one request for each")
		}
		j.Prompt = list[0]
	}
	return &completion{openAIRequest: &in.openAIRequest, job: j}, nil
}

// usage is that of OpenAI.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func usageOf(r *jobs.Result) *usage {
	u := &usage{Prompt: r.Usage.PromptTokens, Completion: r.Usage.GeneratedTokens, Total: r.Usage.PromptTokens + r.Usage.GeneratedTokens}
	u.Details.Cached = cachedTokens(r)
	return u
}

// envelope is what is around choices.
func (c *completion) envelope(stream bool, choices []any) map[string]any {
	prefix, object := "cmpl-", "text_completion"
	if c.chat {
		prefix, object = "chatcmpl-", "chat.completion"
		if stream {
			object += ".chunk"
		}
	}
	return map[string]any{"id": prefix + c.job.ID, "object": object, "created": c.created, "model": c.job.Model, "system_fingerprint": "fp_tandem", "choices": choices}
}

// choice is the one answer, of a chat under the key message, or a piece of it, of a chat under the key delta.
func (c *completion) choice(key string, piece jobs.Chunk, role bool, finish any) any {
	if !c.chat {
		return map[string]any{"index": 0, "text": piece.Text, "logprobs": c.textLogprobs(piece.Logprobs), "finish_reason": finish}
	}
	body := map[string]any{}
	if role {
		body["role"] = "assistant"
	}
	switch {
	case piece.Text != "" || key == "message" && len(piece.ToolCalls) == 0:
		body["content"] = piece.Text
	case key == "message":
		body["content"] = nil
	}
	if piece.Thinking != "" {
		body["reasoning_content"] = piece.Thinking
	}
	if len(piece.ToolCalls) > 0 {
		body["tool_calls"] = c.calls(key, piece.ToolCalls)
	}
	if key == "message" {
		body["refusal"] = nil
	}
	return map[string]any{"index": 0, key: body, "logprobs": chatLogprobs(piece.Logprobs), "finish_reason": finish}
}

// calls writes calls; of a stream, each with its place in the answer.
func (c *completion) calls(key string, calls []jobs.ToolCall) any {
	var list []openAICall
	for _, call := range calls {
		out := openAICall{ID: call.ID, Type: "function"}
		out.Function.Name, out.Function.Arguments = call.Name, string(call.Arguments)
		if key == "delta" {
			out.Index = new(c.called)
			c.called++
		}
		list = append(list, out)
	}
	return list
}

// whole is the answer that is not streamed.
func (c *completion) whole(result *jobs.Result) map[string]any {
	if c.job.Embed != nil {
		return c.embeddings(result)
	}
	piece := jobs.Chunk{Text: result.Text, Thinking: result.Thinking, ToolCalls: result.ToolCalls, Logprobs: result.Logprobs}
	out := c.envelope(false, []any{c.choice("message", piece, true, finishOf(result))})
	out["usage"], out["tandem"] = usageOf(result), metricsOf(result)
	return out
}

func finishOf(result *jobs.Result) string {
	if len(result.ToolCalls) > 0 && result.FinishReason != "length" {
		return "tool_calls"
	}
	return cmp.Or(result.FinishReason, "stop")
}

// answerOpenAI has a job done and answers as OpenAI does: whole, or by events.
func (g *gateway) answerOpenAI(w http.ResponseWriter, r *http.Request, c *completion) error {
	c.created = g.now().Unix()
	if !c.Stream {
		result, err := g.run(w, r, c.job, nil)
		if err != nil {
			return err
		}
		setHeaders(w, result, "")
		return writeJSON(w, http.StatusOK, c.whole(result))
	}
	w.Header().Set("Trailer", headerMethod+", "+headerTiming)
	l := &lines{w: w, kind: "text/event-stream"}
	event := func(v any) error {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return l.write("data: " + string(data) + "\n\n")
	}
	result, err := g.run(w, r, c.job, func(piece jobs.Chunk) error {
		return event(c.envelope(true, []any{c.choice("delta", piece, !l.begun, nil)}))
	})
	switch {
	case err != nil && l.begun:
		_ = event(openAIError(err)) // in mid stream: as OpenAI does
		return nil
	case err != nil:
		w.Header().Del("Trailer")
		return err
	}
	last := c.envelope(true, []any{c.choice("delta", jobs.Chunk{}, !l.begun, finishOf(result))})
	last["tandem"] = metricsOf(result)
	err = event(last)
	if c.StreamOptions != nil && c.StreamOptions.IncludeUsage && err == nil {
		out := c.envelope(true, []any{})
		out["usage"] = usageOf(result)
		err = event(out)
	}
	if err == nil {
		err = l.write("data: [DONE]\n\n")
	}
	setHeaders(w, result, "")
	if err != nil {
		g.Log.Debug("the end of a stream was not taken", "job", c.job.ID, "error", err)
	}
	return nil
}
