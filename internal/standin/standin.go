// Package standin provides the engines of local mode, the demo and the tests: real Ollama and real llama.cpp, found on
// this machine or fetched into a cache, with small random-weights models in place of the real ones. The text they
// write means nothing, and whoever shows it says so; all else is what it is in production.
package standin

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tandem/internal/tinymodel"
)

// The names under which stand-ins run: those of the models whose place they take.
const (
	CodeModel     = "qwen3-coder:30b"
	FeedbackModel = "gpt-oss:120b"
)

// Models gives the usual stand-ins, in the shapes of the models whose place they take: experts, and a sliding
// window. There is one of each kind of tokenizer.
func Models() map[string]tinymodel.Spec {
	return map[string]tinymodel.Spec{
		CodeModel:     tinymodel.TinyShape(tinymodel.Qwen3MoE, tinymodel.BPE),
		FeedbackModel: tinymodel.TinyShape(tinymodel.GPTOSS, tinymodel.SentencePiece),
	}
}

// Caller is a model that answers every prompt with a call of the function add with 2 and 3.
func Caller() tinymodel.Spec {
	spec := tinymodel.Tiny(tinymodel.BPE)
	spec.Says = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2, \"b\": 3}}\n</tool_call>"
	return spec
}

// Seer is a model that sees.
func Seer() tinymodel.Spec {
	spec := tinymodel.Tiny(tinymodel.BPE)
	spec.Sees, spec.Seed = true, 3 // Ollama takes two names of one file for one model
	return spec
}

// Embedder is a model that makes embeddings, and no text.
func Embedder() tinymodel.Spec {
	spec := tinymodel.Tiny(tinymodel.BPE)
	spec.Embeds = true
	return spec
}

// CacheDir is where engines and models are kept between runs: $TANDEM_CACHE, else $XDG_CACHE_HOME/tandem, else
// ~/.cache/tandem. scripts/engines.sh uses the same.
func CacheDir() (string, error) {
	if dir := os.Getenv("TANDEM_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "tandem"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w; set HOME or TANDEM_CACHE", err)
	}
	return filepath.Join(home, ".cache", "tandem"), nil
}

// ModelFile returns the path of the GGUF file of spec in cacheDir (CacheDir's if empty) and writes it if it is not
// there. The name depends on all that decides the content, so a file once written stays right; several processes may
// write it at a time.
func ModelFile(cacheDir string, spec tinymodel.Spec) (string, error) {
	return cached(cacheDir, "", spec, tinymodel.WriteFile)
}

// ProjectorFile does the same with the file by which a model of spec sees.
func ProjectorFile(cacheDir string, spec tinymodel.Spec) (string, error) {
	return cached(cacheDir, "-projector", spec, tinymodel.WriteProjectorFile)
}

func cached(cacheDir, kind string, spec tinymodel.Spec, write func(path string, spec tinymodel.Spec) error) (string, error) {
	if cacheDir == "" {
		var err error
		if cacheDir, err = CacheDir(); err != nil {
			return "", err
		}
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%d %+v", tinymodel.Version, spec))
	path := filepath.Join(cacheDir, "models", fmt.Sprintf("%s-%s-%x%s.gguf", spec.Shape, spec.Tokenizer, key[:8], kind))
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("make model cache: %w", err)
	}
	return path, write(path, spec)
}
