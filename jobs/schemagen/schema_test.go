package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/schema"
	"tandem/jobs"
)

const committed = "../../docs/schemas"

func TestSchemasAreUpToDate(t *testing.T) {
	files, err := schemas("../..")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := filepath.Glob(filepath.Join(committed, "*.v1.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(files) {
		t.Errorf("%s has %d files, want %d", committed, len(entries), len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(committed, name))
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is out of date; run `go generate ./jobs`:\n%s", name, diff)
		}
	}
}

// Each limit that the schemas state is the one that package jobs holds: a value at it passes, one beyond it does not.
func TestLimitsHold(t *testing.T) {
	for at, limit := range limits {
		typ, field, _ := strings.Cut(at, ".")
		if typ != "Job" && typ != "Options" || field == "system" || field == "format" {
			continue // system counts together with the prompt
		}
		for _, rule := range limit {
			n, ok := rule[1].(int)
			key := rule[0].(string)
			if !ok {
				continue
			}
			step := 1
			if strings.HasPrefix(key, "min") {
				step = -1
			}
			if err := decode(t, typ, field, key, n); err != nil {
				t.Errorf("%s with %s %d: %v", at, key, n, err)
			}
			if n+step < 0 && key != "minimum" { // nothing is shorter than nothing
				continue
			}
			if err := decode(t, typ, field, key, n+step); err == nil {
				t.Errorf("%s of %d passes beyond %s %d", at, n+step, key, n)
			}
		}
	}
}

// decode reads a job whose field is of size or value n.
func decode(t *testing.T, typ, field, rule string, n int) error {
	t.Helper()
	field, inner := strings.CutSuffix(field, ".*")
	var v any = n
	switch rule {
	case "minLength", "maxLength":
		v = strings.Repeat("x", n)
		if field == "model" && n > 2 {
			v = strings.Repeat("x", n-2) + ":x"
		}
	case "maxItems":
		items := make([]any, n)
		for i := range items {
			items[i] = "x"
			switch field {
			case "messages":
				items[i] = map[string]any{"role": "user", "content": "x"}
			case "tools":
				items[i] = map[string]any{"type": "function", "function": map[string]any{"name": "x"}}
			}
		}
		v = items
	case "maxProperties":
		labels := map[string]string{}
		for i := range n {
			labels[strings.Repeat("x", i+1)] = "x"
		}
		v = labels
	}
	switch {
	case inner && field == "labels":
		v = map[string]any{"x": v}
	case inner:
		v = []any{v}
	}
	job := map[string]any{
		"v": 1, "id": jobs.NewID(), "user": "u", "batch": "b", "class": "batch", "model": "m:latest", "prompt": "p", "logprobs": true,
	}
	if typ == "Options" {
		job["options"] = map[string]any{field: v}
	} else {
		job[field] = v
	}
	if field == "messages" {
		delete(job, "prompt")
	}
	data, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	_, err = jobs.Decode[jobs.Job](data)
	return err
}

// Constants that a record may have are in its schema, each explained.
func TestConstantsAreExplained(t *testing.T) {
	src, err := schema.Read("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []string{"Class", "Plan", "Role", "ToolChoice", "Think", "Kind", "Stage", "Status", "Method", "Code"} {
		if len(src.Values[typ]) < 2 {
			t.Errorf("%s has %d constants, want more", typ, len(src.Values[typ]))
		}
		for _, v := range src.Values[typ] {
			if v.Comment == "" {
				t.Errorf("%s %q has no comment: say what it means", typ, v.Text)
			}
		}
	}
}

func TestRunErrors(t *testing.T) {
	if err := run(nil); err == nil || !strings.Contains(err.Error(), "one argument") {
		t.Errorf("run without a folder: error = %v, want one that asks for it", err)
	}
	if _, err := schemas(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no comment") {
		t.Errorf("schemas without source: error = %v, want one that names a field without comment", err)
	}
}
