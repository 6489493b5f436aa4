package standin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"tandem/internal/tinymodel"
)

// chatTemplate is ChatML in Ollama's template language: what the GGUF file says in Jinja for llama-server.
const chatTemplate = `{{- range .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}<|im_end|>
{{ end }}<|im_start|>assistant
`

// toolsTemplate is the same with tools, for models that say what they are told to. Ollama finds calls by the text after `if .ToolCalls`.
const toolsTemplate = `{{- if .Tools }}<|im_start|>system
# Tools
You may call functions:
<tools>{{ range .Tools }}
{{ . }}{{ end }}
</tools>
For each call, return an object within tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{{ end }}{{ range .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}{{ if .ToolCalls }}{{ range .ToolCalls }}
<tool_call>
{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}
</tool_call>{{ end }}{{ end }}<|im_end|>
{{ end }}<|im_start|>assistant
`

// importModels makes the server serve o.Models, in the order of their names.
func (s *Ollama) importModels(ctx context.Context, o OllamaOptions) error {
	api := modelAPI{url: s.url, client: &http.Client{Transport: &http.Transport{}}}
	defer api.client.CloseIdleConnections()
	for _, name := range slices.Sorted(maps.Keys(o.Models)) {
		if err := api.importModel(ctx, name, o.CacheDir, o.Models[name]); err != nil {
			return fmt.Errorf("import model %s: %w", name, err)
		}
	}
	return nil
}

// modelAPI is the part of Ollama's API that imports a file as a model.
type modelAPI struct {
	url    string
	client *http.Client
}

func (a modelAPI) importModel(ctx context.Context, name, cacheDir string, spec tinymodel.Spec) error {
	files := map[string]string{}
	path, err := ModelFile(cacheDir, spec)
	if err == nil {
		files["model.gguf"], err = a.upload(ctx, path)
	}
	if err == nil && spec.Sees {
		if path, err = ProjectorFile(cacheDir, spec); err == nil {
			files["projector.gguf"], err = a.upload(ctx, path)
		}
	}
	if err != nil {
		return err
	}
	template := chatTemplate
	if spec.Says != "" {
		template = toolsTemplate
	}
	create, err := json.Marshal(map[string]any{
		"model": name, "files": files, "template": template, "stream": false,
	})
	if err != nil {
		return err
	}
	return a.call(ctx, http.MethodPost, "/api/create", bytes.NewReader(create))
}

// upload gives the server a file, unless it has it, and returns its digest.
func (a modelAPI) upload(ctx context.Context, path string) (digest string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	digest = fmt.Sprintf("sha256:%x", hash.Sum(nil))
	if a.call(ctx, http.MethodHead, "/api/blobs/"+digest, nil) == nil {
		return digest, nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	return digest, a.call(ctx, http.MethodPost, "/api/blobs/"+digest, file)
}

// call makes a request whose answer is of interest only when it is an error.
func (a modelAPI) call(ctx context.Context, method, path string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, body)
	if err != nil {
		return err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(answer)))
	}
	return nil
}
