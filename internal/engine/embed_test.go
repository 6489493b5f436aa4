package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

func TestEmbeddingsOfServers(t *testing.T) {
	asked := &jobs.Embed{Input: []string{"a", "b"}, Dimensions: 2}
	for answer, code := range map[string]jobs.Code{
		`[[1, 2], [3, 4]]`: "", `[[1], [3]]`: "",
		`[[1, 2]]`: jobs.CodeEngineFailed, `[[1, 2], [3]]`: jobs.CodeEngineFailed, `[[], []]`: jobs.CodeEngineFailed, `null`: jobs.CodeEngineFailed,
		`[[1, 2], ["x", 4]]`: jobs.CodeEngineFailed, `[[1e400, 2], [3, 4]]`: jobs.CodeEngineFailed, `<html>`: jobs.CodeEngineFailed,
		`[[1, 2, 3], [4, 5, 6]]`:                         jobs.CodeEngineRefused,
		"[[1, 2" + strings.Repeat(" ", 4*jobs.MaxRecord): jobs.CodeInvalid,
	} {
		var vectors [][]float32
		err := engine.ReadEmbeddings(strings.NewReader(answer), &vectors)
		if err == nil {
			err = engine.CheckEmbeddings(vectors, asked)
		}
		if (err == nil) != (code == "") || err != nil && jobs.CodeOf(err) != code {
			t.Errorf("%.40s: %v (%s), want %q", answer, err, jobs.CodeOf(err), code)
		}
	}
}

// embedder is an engine that makes embeddings only.
type embedder struct {
	engine.Engine
	embedded int
}

func (e *embedder) Describe(context.Context) (engine.Description, error) {
	return engine.Description{Model: "m", Loaded: true, Capabilities: []string{jobs.CanEmbed}}, nil
}

func (e *embedder) Embed(context.Context, engine.Request) (engine.Completion, error) {
	e.embedded++
	return engine.Completion{}, nil
}

// An engine that generates no text is probed by what it does.
func TestProbeOfEmbedder(t *testing.T) {
	e := &embedder{}
	m := engine.NewMonitor(e, time.Second, slog.New(slog.DiscardHandler))
	if err := m.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"a", "b"} {
		if sick := m.Failed(t.Context(), job, jobs.Errorf(jobs.CodeEngineFailed, "broke off")); sick != nil {
			t.Errorf("after job %s: %v", job, sick)
		}
	}
	if e.embedded != 1 {
		t.Errorf("%d embeddings were made, want 1", e.embedded)
	}
}
