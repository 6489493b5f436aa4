package ollamatest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// stream writes the lines of an answer, or gathers them into one for "stream": false.
type stream struct {
	w              http.ResponseWriter
	chat, whole    bool
	model          string
	text, thinking strings.Builder
}

func (o *stream) piece(text, thinking string) {
	if o.whole {
		o.text.WriteString(text)
		o.thinking.WriteString(thinking)
		return
	}
	o.line(o.fields(text, thinking, false))
}

func (o *stream) done(end map[string]any) {
	last := o.fields(o.text.String(), o.thinking.String(), true)
	maps.Copy(last, end)
	if o.whole {
		writeJSON(o.w, http.StatusOK, last)
		return
	}
	o.line(last)
}

func (o *stream) fields(text, thinking string, done bool) map[string]any {
	line := map[string]any{"model": o.model, "created_at": now(), "done": done}
	said := line
	if o.chat {
		said = map[string]any{"role": "assistant", "content": text}
		line["message"] = said
	} else {
		line["response"] = text
	}
	if thinking != "" {
		said["thinking"] = thinking
	}
	return line
}

func (o *stream) line(v any) {
	o.w.Header().Set("Content-Type", "application/x-ndjson")
	json.NewEncoder(o.w).Encode(v) // a client that is gone is seen at its context
	o.flush()
}

func (o *stream) flush() { http.NewResponseController(o.w).Flush() }

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func writeError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]string{"error": message})
}

// writeOverflow passes on what the model's runner says: JSON within JSON.
func writeOverflow(w http.ResponseWriter, prompt, context int) {
	inner, _ := json.Marshal(map[string]any{"error": map[string]any{
		"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": prompt, "n_ctx": context,
		"message": fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", prompt, context),
	}})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	json.NewEncoder(w).Encode(map[string]string{"error": string(inner)})
}

// tagged adds the tag that Ollama assumes.
func tagged(model string) string {
	if strings.Contains(model, ":") {
		return model
	}
	return model + ":latest"
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": s.options.Version})
}

func (m *model) listed() map[string]any {
	return map[string]any{
		"name": m.name, "model": m.name, "digest": m.digest, "size": 516089,
		"details": map[string]any{"parent_model": "", "format": "gguf", "family": "llama", "families": []string{"llama"}, "parameter_size": "127K", "quantization_level": "unknown"},
	}
}

func (s *Server) tags(w http.ResponseWriter, _ *http.Request) {
	models := []any{}
	for _, m := range s.models {
		listed := m.listed()
		listed["modified_at"], listed["capabilities"] = now(), s.capabilities()
		models = append(models, listed)
	}
	writeJSON(w, http.StatusOK, map[string]any{"models": models})
}

func (s *Server) ps(w http.ResponseWriter, _ *http.Request) {
	models := []any{}
	s.mu.Lock()
	for _, m := range s.models {
		if m.runner != nil {
			listed := m.listed()
			listed["expires_at"], listed["size_vram"], listed["context_length"] = now(), 0, m.runner.NumCtx
			models = append(models, listed)
		}
	}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, map[string]any{"models": models})
}

func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	var b body
	if json.NewDecoder(r.Body).Decode(&b) != nil || s.find(b.Model) == nil {
		writeError(w, http.StatusNotFound, fmt.Sprintf("model '%s' not found", tagged(b.Model)))
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"details": s.find(b.Model).listed()["details"], "modified_at": now(), "capabilities": s.capabilities(),
		"model_info": map[string]any{"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.add_bos_token": false},
	})
}

func (s *Server) capabilities() []string {
	if s.options.Thinks {
		return []string{"completion", "thinking"}
	}
	return []string{"completion"}
}
