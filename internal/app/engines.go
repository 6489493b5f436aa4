package app

import (
	"log/slog"
	"path/filepath"

	"tandem/internal/engine"
	"tandem/internal/llamacpp"
	"tandem/internal/ollama"
)

// newEngine makes the engine that the flags name. A llama-server for --model-file is started here.
func newEngine(f WorkerFlags, log *slog.Logger) (engine.Engine, error) {
	if f.Engine == "ollama" {
		return ollama.New(ollama.Options{
			URL: f.EngineURL, Model: f.Model, NumCtx: f.NumCtx, NumThread: f.Threads, Handover: f.Handover, Log: log,
		})
	}
	return llamacpp.New(llamacpp.Options{
		URL: f.EngineURL, Binary: f.LlamaServer, ModelFile: f.ModelFile, Model: f.Model, Slots: f.Slots,
		NumCtx: f.NumCtx, Threads: f.Threads, StateDir: f.StateDir, LogFile: filepath.Join(f.StateDir, "llama-server.log"), Log: log,
	})
}
