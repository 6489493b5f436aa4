package gateway

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"

	"tandem/jobs"
)

// inputs reads texts whose embeddings are wanted: one, or a list. An empty text by itself is none.
func inputs(raw json.RawMessage) (list []string, err error) {
	var one string
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &one) == nil:
		if one != "" {
			list = []string{one}
		}
	case json.Unmarshal(raw, &list) != nil:
		return nil, refuse(http.StatusBadRequest, "input", "input is neither a text nor a list of texts; token ids are not supported here")
	}
	return list, nil
}

// embed answers /api/embed: https://docs.ollama.com/api/embed
func (g *gateway) embed(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Model      string          `json:"model"`
		Input      json.RawMessage `json:"input"`
		Truncate   *bool           `json:"truncate"`
		Dimensions int             `json:"dimensions"`
		Options    json.RawMessage `json:"options"`
		KeepAlive  json.RawMessage `json:"keep_alive"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	texts, err := inputs(in.Input)
	if err != nil {
		return err
	}
	asked := &jobs.Embed{Input: texts, Dimensions: in.Dimensions, Truncate: in.Truncate == nil || *in.Truncate}
	name, result, err := g.embedded(w, r, &ollamaRequest{Model: in.Model, Options: in.Options}, asked)
	if err != nil {
		return err
	}
	if result == nil {
		return writeJSON(w, http.StatusOK, map[string]any{"model": name, "embeddings": [][]float32{}})
	}
	return writeJSON(w, http.StatusOK, map[string]any{
		"model": name, "embeddings": result.Embeddings, "total_duration": int64(result.Timings.TotalSeconds * 1e9), "load_duration": 0,
		"prompt_eval_count": result.Usage.PromptTokens, "tandem": metricsOf(result),
	})
}

// embeddings answers /api/embeddings, which newer programs do not ask.
func (g *gateway) embeddings(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Model     string          `json:"model"`
		Prompt    string          `json:"prompt"`
		Options   json.RawMessage `json:"options"`
		KeepAlive json.RawMessage `json:"keep_alive"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	asked := &jobs.Embed{}
	if in.Prompt != "" {
		asked.Input = []string{in.Prompt}
	}
	_, result, err := g.embedded(w, r, &ollamaRequest{Model: in.Model, Options: in.Options}, asked)
	if err != nil {
		return err
	}
	if result == nil {
		return writeJSON(w, http.StatusOK, map[string]any{"embedding": []float32{}})
	}
	return writeJSON(w, http.StatusOK, map[string]any{"embedding": result.Embeddings[0], "tandem": metricsOf(result)})
}

// embedded has a job for embeddings done; without a text, by which clients have a model loaded, there is no result.
func (g *gateway) embedded(w http.ResponseWriter, r *http.Request, in *ollamaRequest, asked *jobs.Embed) (model string, result *jobs.Result, err error) {
	j, err := in.job()
	if err != nil {
		return "", nil, err
	}
	if len(asked.Input) == 0 {
		m, err := g.find(r, in.Model)
		return m.name, nil, err
	}
	j.Embed = asked
	if result, err = g.run(w, r, j, nil); err != nil {
		return "", nil, err
	}
	setHeaders(w, result, "")
	return j.Model, result, nil
}

// openAIEmbeddings reads a request for /v1/embeddings: https://platform.openai.com/docs/api-reference/embeddings
func openAIEmbeddings(data []byte) (*completion, error) {
	var in struct {
		Model      string          `json:"model"`
		Input      json.RawMessage `json:"input"`
		Dimensions int             `json:"dimensions"`
		Format     string          `json:"encoding_format"`
		User       string          `json:"user"` // of the program's own; changes nothing
	}
	if err := decode(data, &in); err != nil {
		return nil, err
	}
	request := openAIRequest{Model: in.Model}
	j, err := request.job()
	if err != nil {
		return nil, err
	}
	if in.Format != "" && in.Format != "float" && in.Format != "base64" {
		return nil, refuse(http.StatusBadRequest, "encoding_format", "encoding_format is %.40q; want float or base64", in.Format)
	}
	j.Embed = &jobs.Embed{Dimensions: in.Dimensions}
	if j.Embed.Input, err = inputs(in.Input); err != nil {
		return nil, err
	}
	if len(j.Embed.Input) == 0 {
		return nil, refuse(http.StatusBadRequest, "input", "input is empty; want a text, or a list of texts")
	}
	return &completion{openAIRequest: &request, job: j, base64: in.Format == "base64"}, nil
}

// embeddings is an answer of /v1/embeddings.
func (c *completion) embeddings(result *jobs.Result) map[string]any {
	data := []any{}
	for i, v := range result.Embeddings {
		var shown any = v
		if c.base64 {
			var bytes []byte
			for _, f := range v {
				bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(f))
			}
			shown = base64.StdEncoding.EncodeToString(bytes)
		}
		data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": shown})
	}
	return map[string]any{
		"object": "list", "data": data, "model": result.Model, "tandem": metricsOf(result),
		"usage": map[string]int{"prompt_tokens": result.Usage.PromptTokens, "total_tokens": result.Usage.PromptTokens},
	}
}

// generates refuses in Ollama's words to have a model generate text that makes embeddings only.
func (m model) generates(chat bool) error {
	what := "generate"
	if chat {
		what = "chat"
	}
	if m.can(jobs.CanComplete) {
		return nil
	}
	return refuse(http.StatusBadRequest, "model", "%q does not support %s", m.name, what)
}

// refused is why an engine refused a job: if it is what the model cannot do, in fewer words. To ask for that beforehand would cost all other jobs time.
func (g *gateway) refused(r *http.Request, j *jobs.Job, err error) error {
	if m, failed := g.find(r, j.Model); failed == nil && j.Embed == nil {
		return cmp.Or(m.generates(len(j.Messages) > 0), err)
	}
	return err
}
