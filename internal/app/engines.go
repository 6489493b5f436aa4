package app

import (
	"log/slog"
	"path/filepath"

	"tandem/internal/engine"
	"tandem/internal/llamacpp"
	"tandem/internal/ollama"
	"tandem/internal/openai"
)

// newEngine makes the engine that the flags name. A llama-server for --model-file and an Ollama from --ollama-binary are
// started here.
func newEngine(f WorkerFlags, log *slog.Logger) (engine.Engine, error) {
	switch f.Engine {
	case "openai":
		return openai.New(openai.Options{URL: f.EngineURL, Key: f.engineKey, Model: f.Model, Served: f.EngineModel, NumCtx: f.NumCtx, Log: log})
	case "ollama":
		o := ollama.Options{
			URL: f.EngineURL, Model: f.Model, NumCtx: f.NumCtx, NumThread: f.Threads, RunDir: f.ShimRunDir, StatePrefix: f.statePrefix, Unread: f.HandoverUnread, Log: log,
		}
		if f.OllamaBinary != "" {
			return newServedOllama(f, o, log)
		}
		return ollama.New(o)
	}
	return llamacpp.New(llamacpp.Options{
		URL: f.EngineURL, APIKey: f.engineKey, Binary: f.LlamaServer, ModelFile: f.ModelFile, Model: f.Model, Slots: f.Slots,
		NumCtx: f.NumCtx, Threads: f.Threads, CacheType: f.CacheType, SlotDir: f.SlotDir, StatePrefix: f.statePrefix, Unread: f.HandoverUnread,
		StateDir: f.StateDir, LogFile: filepath.Join(f.StateDir, "llama-server.log"), Log: log,
	})
}
