// Package standintest gives tests the real engines: found or fetched at the first call, cached afterwards. A missing
// engine fails the test with the remedy; only where [Backend] has none is a test skipped.
package standintest

import (
	"testing"

	"tandem/internal/standin"
	"tandem/internal/tinymodel"
)

// Engines returns the programs.
func Engines(t testing.TB) standin.Engines {
	t.Helper()
	e, err := standin.Find(t.Context(), standin.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Backend returns the path of a llama-server that computes with it: plain, blas or vulkan. A machine that has none skips the test.
func Backend(t testing.TB, name string) string {
	t.Helper()
	found, err := standin.FindBackends(t.Context(), standin.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if found[name] == "" {
		t.Skipf("there is no llama-server on %s for this machine", name)
	}
	return found[name]
}

// Shim returns the path of llama-server-shim, built from the sources as they are.
func Shim(t testing.TB) string {
	t.Helper()
	path, err := standin.Shim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ModelFile returns the path of the GGUF file of spec.
func ModelFile(t testing.TB, spec tinymodel.Spec) string {
	t.Helper()
	path, err := standin.ModelFile("", spec)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// StartOllama starts a server that ends with the test. Engines and Dir are filled in where they are empty.
func StartOllama(t testing.TB, o standin.OllamaOptions) *standin.Ollama {
	t.Helper()
	if o.Engines == (standin.Engines{}) {
		o.Engines = Engines(t)
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := standin.StartOllama(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ProjectorFile returns the path of the file by which a model of spec sees.
func ProjectorFile(t testing.TB, spec tinymodel.Spec) string {
	t.Helper()
	path, err := standin.ProjectorFile("", spec)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
