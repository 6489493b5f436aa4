// Package batch makes the example batch: six synthetic notebooks of one assignment, each as a code-analysis job for one
// model and a feedback job for the other. `go generate ./examples/batch` writes jobs.jsonl from the texts beside this file.
package batch

//go:generate go run ./generate jobs.jsonl

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
)

//go:embed assignment notebooks
var texts embed.FS

// task is what one model is asked about every notebook.
type task struct{ name, model string }

// tasks are in the order of their lines: code analysis, then feedback.
var tasks = [...]task{
	{name: "code", model: "disaggregated:qwen3-coder:30b"},
	{name: "feedback", model: "disaggregated:gpt-oss:120b"},
}

// job is one line of jobs.jsonl, as `submitter batch` reads it.
type job struct {
	CustomID     string            `json:"custom_id"`
	Model        string            `json:"model"`
	System       string            `json:"system"`
	Prompt       string            `json:"prompt"`
	SharedPrefix int               `json:"shared_prefix"` // bytes of Prompt that all jobs of the model share
	Options      options           `json:"options"`
	Labels       map[string]string `json:"labels"`
}

// options ask for greedy text, the same in every run, and short enough for a demo.
type options struct {
	Temperature float64 `json:"temperature"`
	Seed        int     `json:"seed"`
	NumPredict  int     `json:"num_predict"` // tokens
}

// Write writes the batch, one job a line: the notebooks in the order of their names, the tasks of each side by side.
func Write(w io.Writer) error {
	notebooks, err := texts.ReadDir("notebooks")
	if err != nil {
		return fmt.Errorf("list notebooks: %w", err)
	}
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false) // R is full of < and >
	for _, notebook := range notebooks {
		for _, t := range tasks {
			j, err := newJob(t, notebook.Name())
			if err != nil {
				return err
			}
			if err := lines.Encode(j); err != nil {
				return fmt.Errorf("write job %s: %w", j.CustomID, err)
			}
		}
	}
	return nil
}

// newJob puts what the class shares first and the student's part last, so that an engine computes the former only once.
func newJob(t task, notebook string) (job, error) {
	system, err := texts.ReadFile(path.Join("assignment", "system-"+t.name+".txt"))
	if err != nil {
		return job{}, fmt.Errorf("read system prompt: %w", err)
	}
	var prompt strings.Builder
	for _, shared := range []string{"task-" + t.name + ".md", "instructions.md", "rubric.md", "template.R", "solution.R", "solution.py"} {
		if err := section(&prompt, "assignment", shared); err != nil {
			return job{}, err
		}
	}
	sharedPrefix := prompt.Len()
	if err := section(&prompt, "notebooks", notebook); err != nil {
		return job{}, err
	}
	student := strings.TrimSuffix(notebook, path.Ext(notebook))
	return job{
		CustomID:     student + "-" + t.name,
		Model:        t.model,
		System:       strings.TrimSpace(string(system)),
		Prompt:       prompt.String(),
		SharedPrefix: sharedPrefix,
		Options:      options{Temperature: 0, Seed: 42, NumPredict: 96},
		Labels:       map[string]string{"assignment": "homework-4", "student": student, "task": t.name},
	}, nil
}

// section adds one file to the prompt, fenced by its name.
func section(prompt *strings.Builder, folder, name string) error {
	text, err := texts.ReadFile(path.Join(folder, name))
	if err != nil {
		return fmt.Errorf("read prompt text: %w", err)
	}
	fmt.Fprintf(prompt, "<file name=%q>\n%s</file>\n\n", name, text)
	return nil
}
