package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"tandem/jobs"
)

// ollama adds Ollama's API: https://docs.ollama.com/api
func (g *gateway) ollama(mux *http.ServeMux) {
	add := func(pattern string, h handler) { g.handle(mux, pattern, ollamaError, h) }
	add("GET /{$}", func(w http.ResponseWriter, _ *http.Request) error {
		_, _ = w.Write([]byte("Tandem is running"))
		return nil
	})
	add("GET /api/version", func(w http.ResponseWriter, _ *http.Request) error {
		return writeJSON(w, http.StatusOK, map[string]string{"version": g.Version})
	})
	add("GET /api/tags", g.tags)
	add("GET /api/ps", g.ps)
	add("POST /api/show", g.show)
	add("POST /api/generate", g.generate)
	add("POST /api/chat", g.chat)
	add("POST /api/embed", g.embed)
	add("POST /api/embeddings", g.embeddings)
	for _, path := range []string{"/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete", "/api/blobs/"} {
		add(path, func(http.ResponseWriter, *http.Request) error {
			return refuse(http.StatusNotImplemented, "path", "%s is not to be had here: models are the workers' matter", strings.TrimSuffix(path, "/"))
		})
	}
}

func ollamaError(err error) any { return map[string]string{"error": err.Error()} }

// ollamaModel is a model in a list of Ollama's.
type ollamaModel struct {
	Name       string        `json:"name"`
	Model      string        `json:"model"`
	ModifiedAt *time.Time    `json:"modified_at,omitempty"`
	Size       int64         `json:"size"`
	Digest     string        `json:"digest"`
	Details    ollamaDetails `json:"details"`
	ExpiresAt  *time.Time    `json:"expires_at,omitempty"`
	SizeVRAM   *int64        `json:"size_vram,omitempty"`
	Context    int           `json:"context_length,omitempty"`

	Capabilities []string `json:"capabilities,omitempty"`
}

type ollamaDetails struct {
	ParentModel   string   `json:"parent_model"`
	Format        string   `json:"format"`
	Family        string   `json:"family"`
	Families      []string `json:"families"`
	ParameterSize string   `json:"parameter_size"`
	Quantization  string   `json:"quantization_level"`
	Context       int      `json:"context_length,omitempty"`
}

func (m model) details() ollamaDetails {
	return ollamaDetails{Families: []string{}, Context: m.context}
}

// noDigest stands where no worker says which file its model is: clients show the first twelve letters.
var noDigest = strings.Repeat("0", 64)

// abilities are the capabilities of a model; one of which nobody says any generates text.
func (m model) abilities() []string {
	if m.capabilities == nil {
		return []string{jobs.CanComplete}
	}
	return m.capabilities
}

func (g *gateway) ollamaModels(r *http.Request, live bool) (map[string][]ollamaModel, error) {
	list, err := g.models(r)
	if err != nil {
		return nil, err
	}
	out := []ollamaModel{}
	for _, m := range list {
		one := ollamaModel{Name: m.name, Model: m.name, Digest: cmp.Or(m.digest, noDigest), Details: m.details()}
		if live {
			if !m.live {
				continue
			}
			never := g.now().Add(24 * time.Hour).UTC()
			one.ExpiresAt, one.SizeVRAM, one.Context = &never, new(int64(0)), m.context
		} else {
			one.ModifiedAt, one.Capabilities = new(time.Time{}), m.abilities()
		}
		out = append(out, one)
	}
	return map[string][]ollamaModel{"models": out}, nil
}

func (g *gateway) tags(w http.ResponseWriter, r *http.Request) error {
	list, err := g.ollamaModels(r, false)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, list)
}

// ps lists the models that a worker serves now.
func (g *gateway) ps(w http.ResponseWriter, r *http.Request) error {
	list, err := g.ollamaModels(r, true)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, list)
}

func (g *gateway) show(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Model   string `json:"model"`
		Name    string `json:"name"` // of older clients
		Verbose bool   `json:"verbose"`

		// What `ollama show` and `ollama run` send beside it, mostly empty.
		Template string `json:"template"`
		System   string `json:"system"`
		Options  any    `json:"options"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	m, err := g.find(r, cmp.Or(in.Model, in.Name))
	if err != nil {
		return err
	}
	info := map[string]any{"general.architecture": "tandem", "general.basename": m.name}
	if m.context > 0 {
		info["tandem.context_length"] = m.context
	}
	return writeJSON(w, http.StatusOK, map[string]any{
		"modelfile": "", "parameters": "", "template": "", "details": m.details(), "model_info": info, "capabilities": m.abilities(), "modified_at": time.Time{},
	})
}

// ollamaRequest is what generate and chat have in common.
type ollamaRequest struct {
	Model       string          `json:"model"`
	Stream      *bool           `json:"stream"`
	Format      json.RawMessage `json:"format"`
	Options     json.RawMessage `json:"options"`
	Think       json.RawMessage `json:"think"`
	Logprobs    bool            `json:"logprobs"`
	TopLogprobs int             `json:"top_logprobs"`
	KeepAlive   json.RawMessage `json:"keep_alive"` // models stay as long as their workers run
}

type generateRequest struct {
	ollamaRequest
	Prompt   string   `json:"prompt"`
	System   string   `json:"system"`
	Suffix   string   `json:"suffix"`
	Template string   `json:"template"`
	Raw      bool     `json:"raw"`
	Context  []int    `json:"context"`
	Images   []string `json:"images"`
}

type chatRequest struct {
	ollamaRequest
	Messages []ollamaMessage   `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
}

type ollamaMessage struct {
	Role       jobs.Role    `json:"role"`
	Content    string       `json:"content"`
	Thinking   string       `json:"thinking,omitempty"`
	Images     []string     `json:"images,omitempty"`
	ToolCalls  []ollamaCall `json:"tool_calls,omitempty"`
	ToolName   string       `json:"tool_name,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

// ollamaCall is how Ollama writes a call of a function.
type ollamaCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

func (m *ollamaMessage) message() jobs.Message {
	out := jobs.Message{Role: m.Role, Content: m.Content, Thinking: m.Thinking, Images: m.Images, ToolName: m.ToolName, ToolCallID: m.ToolCallID}
	for _, call := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, jobs.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	return out
}

// ollamaCalls writes calls, of which the first is the answer's next.
func ollamaCalls(next int, calls []jobs.ToolCall) (list []ollamaCall) {
	for i, c := range calls {
		call := ollamaCall{ID: c.ID}
		call.Function.Index, call.Function.Name, call.Function.Arguments = next+i, c.Name, c.Arguments
		list = append(list, call)
	}
	return list
}

// notHere refuses a field that no job can have.
func notHere(field string) error {
	return refuse(http.StatusBadRequest, field, "%s is not supported here; leave it out (docs/GATEWAY.md lists what is)", field)
}

// job makes a job of what all requests have.
func (in *ollamaRequest) job() (*jobs.Job, error) {
	if in.Model == "" {
		return nil, refuse(http.StatusBadRequest, "model", "model is required")
	}
	j := &jobs.Job{Model: in.Model, Logprobs: in.Logprobs, TopLogprobs: in.TopLogprobs}
	if text := strings.TrimSpace(string(in.Format)); text != "" && text != "null" && text != `""` {
		j.Format = in.Format
	}
	switch text := strings.TrimSpace(string(in.Think)); text {
	case "", "null":
	case "true":
		j.Think = jobs.ThinkOn
	case "false":
		j.Think = jobs.ThinkOff
	default:
		level := jobs.Think(strings.Trim(text, `"`))
		if !slices.Contains([]jobs.Think{jobs.ThinkLow, jobs.ThinkMedium, jobs.ThinkHigh}, level) {
			return nil, refuse(http.StatusBadRequest, "think", "think is %.40s; want true, false, \"low\", \"medium\" or \"high\"", text)
		}
		j.Think = level
	}
	if len(in.Options) == 0 || string(in.Options) == "null" {
		return j, nil
	}
	if err := json.Unmarshal(in.Options, &j.Options); err != nil {
		return nil, refuse(http.StatusBadRequest, "options", "options: %v", err)
	}
	for field := range j.Options.Extra {
		return nil, notHere("options." + field)
	}
	return j, nil
}

func (g *gateway) generate(w http.ResponseWriter, r *http.Request) error {
	var in generateRequest
	if err := read(w, r, &in); err != nil {
		return err
	}
	for field, there := range map[string]bool{"template": in.Template != "", "context": len(in.Context) > 0} {
		if there {
			return notHere(field)
		}
	}
	j, err := in.job()
	if err != nil {
		return err
	}
	j.Suffix, j.Raw = in.Suffix, in.Raw
	if j.System, j.Prompt = in.System, in.Prompt; j.Prompt == "" && len(in.Images) == 0 {
		return g.loaded(w, r, &in.ollamaRequest, map[string]any{"response": ""})
	}
	if len(in.Images) > 0 { // which only messages have
		if in.System != "" {
			j.Messages = []jobs.Message{{Role: jobs.RoleSystem, Content: in.System}}
		}
		j.Messages = append(j.Messages, jobs.Message{Role: jobs.RoleUser, Content: in.Prompt, Images: in.Images})
		j.System, j.Prompt = "", ""
	}
	return g.answerOllama(w, r, j, in.Stream == nil || *in.Stream, func(out map[string]any, piece jobs.Chunk) {
		if out["response"] = piece.Text; piece.Thinking != "" {
			out["thinking"] = piece.Thinking
		}
	})
}

func (g *gateway) chat(w http.ResponseWriter, r *http.Request) error {
	var in chatRequest
	if err := read(w, r, &in); err != nil {
		return err
	}
	j, err := in.job()
	if err != nil {
		return err
	}
	j.Tools = in.Tools
	for _, m := range in.Messages {
		j.Messages = append(j.Messages, m.message())
	}
	if len(j.Messages) == 0 {
		return g.loaded(w, r, &in.ollamaRequest, map[string]any{"message": ollamaMessage{Role: "assistant"}})
	}
	calls := 0
	return g.answerOllama(w, r, j, in.Stream == nil || *in.Stream, func(out map[string]any, piece jobs.Chunk) {
		out["message"] = ollamaMessage{Role: jobs.RoleAssistant, Content: piece.Text, Thinking: piece.Thinking, ToolCalls: ollamaCalls(calls, piece.ToolCalls)}
		calls += len(piece.ToolCalls)
	})
}

// loaded answers a request without a prompt, by which clients have a model loaded.
func (g *gateway) loaded(w http.ResponseWriter, r *http.Request, in *ollamaRequest, out map[string]any) error {
	m, err := g.find(r, in.Model)
	if err != nil {
		return err
	}
	if err := m.generates(out["message"] != nil); err != nil {
		return err
	}
	out["model"], out["created_at"], out["done"], out["done_reason"] = m.name, g.now().UTC(), true, "load"
	return writeJSON(w, http.StatusOK, out)
}

// answerOllama has a job done and answers as Ollama does: whole, or line by line.
func (g *gateway) answerOllama(w http.ResponseWriter, r *http.Request, j *jobs.Job, stream bool, fill func(out map[string]any, piece jobs.Chunk)) error {
	l := &lines{w: w, kind: "application/x-ndjson"}
	if stream {
		w.Header().Set("Trailer", headerMethod+", "+headerTiming)
	}
	message := func(piece jobs.Chunk, done bool) map[string]any {
		out := map[string]any{"model": j.Model, "created_at": g.now().UTC(), "done": done}
		if fill(out, piece); len(piece.Logprobs) > 0 {
			out["logprobs"] = logprobsOf(piece.Logprobs)
		}
		return out
	}
	var emit func(piece jobs.Chunk) error
	if stream {
		emit = func(piece jobs.Chunk) error { return l.object(message(piece, false)) }
	}
	result, err := g.run(w, r, j, emit)
	switch {
	case err != nil && l.begun:
		_ = l.object(ollamaError(err)) // in mid stream: as Ollama does
		return nil
	case err != nil:
		w.Header().Del("Trailer")
		return err
	}
	var rest jobs.Chunk
	if !stream {
		rest = jobs.Chunk{Text: result.Text, Thinking: result.Thinking, ToolCalls: result.ToolCalls, Logprobs: result.Logprobs}
	}
	last := message(rest, true)
	nanoseconds := func(seconds float64) int64 { return int64(seconds * 1e9) }
	t := result.Timings
	last["done_reason"], last["tandem"] = cmp.Or(result.FinishReason, "stop"), metricsOf(result)
	last["total_duration"], last["load_duration"] = nanoseconds(t.TotalSeconds), int64(0)
	last["prompt_eval_count"], last["prompt_eval_duration"] = result.Usage.PromptTokens, nanoseconds(t.PrefillSeconds+t.DecodePrefillSeconds)
	last["prompt_eval_cached_count"] = cachedTokens(result)
	last["eval_count"], last["eval_duration"] = result.Usage.GeneratedTokens, nanoseconds(t.DecodeSeconds)
	if !stream {
		setHeaders(w, result, "")
		return writeJSON(w, http.StatusOK, last)
	}
	err = l.object(last)
	setHeaders(w, result, "")
	return errors.Join(err)
}

// object writes a value as a line.
func (l *lines) object(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.write(string(data) + "\n")
}
