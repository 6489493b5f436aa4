package ollama_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/ollama/ollamatest"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
)

var update = flag.Bool("update", false, "record the shapes of the real Ollama's answers")

const shapesFile = "testdata/shapes.json"

// exchanges are asked of the real Ollama and of the fake. The model is called m on both.
var exchanges = []struct{ name, path, body string }{
	{"version", "/api/version", ""},
	{"nothing loaded", "/api/ps", ""},
	{"load", "/api/generate", `{"model": "m", "keep_alive": -1, "shift": false, "options": {"num_ctx": 1024, "num_thread": 1}}`},
	{"loaded", "/api/ps", ""},
	{"models", "/api/tags", ""},
	{"model", "/api/show", `{"model": "m"}`},
	{"generate", "/api/generate", `{"model": "m", "prompt": "def f(n):", "truncate": false, "shift": false, "options": {"num_ctx": 1024, "num_thread": 1, "num_predict": 4, "temperature": 0}}`},
	{"generate, again", "/api/generate", `{"model": "m", "prompt": "def f(n):", "truncate": false, "shift": false, "options": {"num_ctx": 1024, "num_thread": 1, "num_predict": 1, "temperature": 0}}`},
	{"generate, not streamed", "/api/generate", `{"model": "m", "prompt": "def f(n):", "stream": false, "truncate": false, "shift": false, "options": {"num_ctx": 1024, "num_thread": 1, "num_predict": 4, "temperature": 0}}`},
	{"generate, thinking", "/api/generate", `{"model": "t", "prompt": "def f(n):", "think": true, "truncate": false, "shift": false, "options": {"num_ctx": 1024, "num_thread": 1, "num_predict": 1, "temperature": 0}}`},
	{"chat", "/api/chat", `{"model": "m", "messages": [{"role": "user", "content": "def f(n):"}], "truncate": false, "shift": false, "options": {"num_ctx": 1024, "num_thread": 1, "num_predict": 4, "temperature": 0}}`},
	{"chat, thinking", "/api/chat", `{"model": "t", "messages": [{"role": "user", "content": "def f(n):"}], "think": true, "truncate": false, "shift": false, "options": {"num_ctx": 1024, "num_thread": 1, "num_predict": 1, "temperature": 0}}`},
	{"model missing", "/api/generate", `{"model": "absent", "prompt": "x"}`},
	{"model missing, shown", "/api/show", `{"model": "absent"}`},
	{"cannot think", "/api/generate", `{"model": "m", "prompt": "x", "think": true, "options": {"num_ctx": 1024, "num_thread": 1}, "shift": false}`},
	{"overflow", "/api/generate", `{"model": "m", "prompt": "LONG", "truncate": false, "shift": false, "options": {"num_ctx": 1024, "num_thread": 1, "num_predict": 1}}`},
	{"bad JSON", "/api/generate", `{"model": "m`},
	{"unload", "/api/generate", `{"model": "m", "keep_alive": 0}`},
}

// shape is what an answer looks like.
type shape struct {
	Name   string
	Status int
	Type   string     // Content-Type
	Lines  [][]string // for each line, path and type of each field; equal lines in a row once
}

// TestFakeShapes: the fake answers in the shapes that were recorded of the real Ollama. What
// describes models may leave out fields.
func TestFakeShapes(t *testing.T) {
	m := ollamatest.Start(t, ollamatest.Options{Model: "m:latest"})
	thinker := ollamatest.Start(t, ollamatest.Options{Model: "t:latest", Thinks: true})
	var want []shape
	data, err := os.ReadFile(shapesFile)
	if err != nil || json.Unmarshal(data, &want) != nil {
		t.Fatalf("read %s: %v; record it with go test -run TestRealShapes -update", shapesFile, err)
	}
	for i, got := range shapes(t, map[string]string{"m": m.URL(), "t": thinker.URL()}) {
		if strings.HasPrefix(got.Name, "model") || got.Name == "loaded" {
			for _, field := range got.Lines[0] {
				if !slices.Contains(want[i].Lines[0], field) {
					t.Errorf("%s: the fake's answer has %s, the real one has not", got.Name, field)
				}
			}
			continue
		}
		if d := cmp.Diff(want[i], got); d != "" {
			t.Errorf("%s: the fake differs from the real Ollama (-real +fake):\n%s", got.Name, d)
		}
	}
}

// TestRealShapes: the real Ollama still answers as it was recorded.
func TestRealShapes(t *testing.T) {
	server := standintest.StartOllama(t, standin.OllamaOptions{Models: map[string]tinymodel.Spec{"m": tinymodel.Tiny(tinymodel.BPE), "t": thinker()}})
	create(t, server.URL(), map[string]any{"model": "t", "from": "t", "template": thinkTemplate})
	got := shapes(t, map[string]string{"m": server.URL(), "t": server.URL()})
	if *update {
		data, err := json.MarshalIndent(got, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(shapesFile, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	var want []shape
	data, err := os.ReadFile(shapesFile)
	if err != nil || json.Unmarshal(data, &want) != nil {
		t.Fatalf("read %s: %v", shapesFile, err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the real Ollama no longer answers as recorded; if that is right, run with -update and make the fake follow (-recorded +real):\n%s", d)
	}
}

// shapes asks all exchanges of the servers that have the models m and t.
func shapes(t *testing.T, urls map[string]string) []shape {
	t.Helper()
	var list []shape
	for _, x := range exchanges {
		url := urls["m"]
		if strings.Contains(x.body, `"model": "t"`) {
			url = urls["t"]
		}
		status, header, body := ask(t, url+x.path, strings.Replace(x.body, "LONG", strings.Repeat("all different words 1 2 3 ", 400), 1))
		s := shape{Name: x.name, Status: status, Type: header.Get("Content-Type")}
		for line := range bytes.Lines(body) {
			var v any
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatalf("%s: %q is no JSON: %v", x.name, line, err)
			}
			fields := fieldsOf("", v)
			slices.Sort(fields)
			if n := len(s.Lines); n == 0 || !slices.Equal(s.Lines[n-1], fields) {
				s.Lines = append(s.Lines, fields)
			}
		}
		list = append(list, s)
	}
	return list
}

// fieldsOf lists path and type of each field; of an array only the first element counts. JSON
// within a text, as in errors of the runner, counts as a value of its own.
func fieldsOf(path string, v any) []string {
	switch v := v.(type) {
	case map[string]any:
		var list []string
		for name, field := range v {
			list = append(list, fieldsOf(path+"."+name, field)...)
		}
		return list
	case []any:
		if len(v) == 0 {
			return []string{path + " empty array"}
		}
		return fieldsOf(path+"[]", v[0])
	case string:
		var inner map[string]any
		if json.Unmarshal([]byte(v), &inner) == nil {
			return fieldsOf(path+" text", inner)
		}
		return []string{path + " text"}
	case nil:
		return []string{path + " null"}
	}
	return []string{fmt.Sprintf("%s %T", path, v)}
}

// ask sends a request without the package under test; with a body it posts.
func ask(t testing.TB, url, body string) (status int, header http.Header, answer []byte) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, answer
}
