package ollama

import (
	"context"
	"path"
	"strings"
)

// model is what Ollama says of the model that it runs under the engine's name.
type model struct {
	digest    string   // of the manifest
	file      string   // path of the GGUF file, as Ollama sees it
	sha256    string   // of that file, in hex
	stateless string   // why its states cannot be handed over; empty if nothing speaks against it
	beginID   int32    // of the beginning-of-text token; -1 if there is none
	renderer  bool     // Ollama has code of its own for the prompt, instead of a template
	can       []string // what it is able to do
}

// about asks for the model, unless it was asked for before and has not changed.
func (e *Engine) about(ctx context.Context) (*model, error) {
	digest := e.digest(ctx)
	if m := e.shown.Load(); m != nil && digest != "" && m.digest == digest {
		return m, nil
	}
	var s struct {
		Modelfile    string   `json:"modelfile"`
		Renderer     string   `json:"renderer"`
		Capabilities []string `json:"capabilities"`
		Details      struct {
			Format string `json:"format"`
		} `json:"details"`
		Info map[string]any `json:"model_info"`
	}
	if err := e.client.ask(ctx, "/api/show", map[string]string{"model": e.model}, &s); err != nil {
		return nil, err
	}
	m := &model{digest: digest, renderer: s.Renderer != "", beginID: -1, can: s.Capabilities}
	if id, ok := s.Info["tokenizer.ggml.bos_token_id"].(float64); ok {
		m.beginID = int32(id)
	}
	m.file, m.sha256, m.stateless = readModelfile(s.Modelfile)
	if s.Details.Format == "safetensors" {
		m.stateless = "this model runs on Ollama's MLX engine, which keeps no slots: use a GGUF of it"
	}
	e.shown.Store(m)
	return m, nil
}

// readModelfile finds the model's file in what Ollama prints of a model, whose first lines name the
// files that it is made of:
//
//	FROM /…/blobs/sha256-<hex>
//	ADAPTER /…/blobs/sha256-<hex>
//
// A second FROM is a projector. Ollama names a file by its SHA-256.
func readModelfile(text string) (file, sha256, stateless string) {
	for line := range strings.Lines(text) {
		word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "" || word[0] == '#':
		case word == "FROM" && file == "":
			file = strings.Trim(value, `"`)
		case word == "FROM":
			stateless = "llama-server saves no states of a model with a projector (images): use one for text only"
		case word == "ADAPTER":
			stateless = "an adapter (LoRA) changes the model, and states of such models are not told apart: merge it into the model's file"
		case word == "DRAFT":
			stateless = "a draft model has a cache of its own, which is not handed over: use the model without it"
		default:
			return named(file, stateless)
		}
	}
	return named(file, stateless)
}

// named reads the digest off the file's name.
func named(file, why string) (string, string, string) {
	hex, ok := strings.CutPrefix(path.Base(strings.ReplaceAll(file, `\`, "/")), "sha256-")
	if whole := ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""; !whole && why == "" {
		why = "Ollama does not say which file the model is (ollama show --modelfile): it must be a local GGUF"
	}
	return file, hex, why
}
