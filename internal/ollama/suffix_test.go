package ollama_test

import (
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/standin"
	"tandem/jobs"
)

// A model whose template has a suffix fills in before it; one whose template has none says so.
func TestSuffix(t *testing.T) {
	const filler = "filler:1b"
	server := startMachine(t, 1, standin.Models())
	create(t, server.URL(), map[string]any{"model": filler, "from": standin.CodeModel, "template": "{{ if .Suffix }}<before>{{ .Prompt }}<after>{{ .Suffix }}<here>{{ else }}{{ .Prompt }}{{ end }}"})
	req := engine.Request{Prompt: "func add(a, b int) int {", Options: jobs.Options{NumPredict: new(4), Temperature: new(0.0)}}
	e := server.engine(t, filler)
	if err := e.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain, err := e.Generate(t.Context(), req, func(jobs.Chunk) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	req.Suffix = "}"
	if filled, err := e.Generate(t.Context(), req, func(jobs.Chunk) error { return nil }); err != nil || filled.PromptTokens <= plain.PromptTokens {
		t.Errorf("the prompt has %d tokens with a suffix, and %d without; %v", filled.PromptTokens, plain.PromptTokens, err)
	}
	_, err = server.engine(t, standin.CodeModel).Generate(t.Context(), req, func(jobs.Chunk) error { return nil })
	if jobs.CodeOf(err) != jobs.CodeEngineRefused || !strings.Contains(err.Error(), "insert") {
		t.Errorf("a model without: %v (%s)", err, jobs.CodeOf(err))
	}
}
