package grader

import (
	"encoding/json"
	"testing"

	"tandem/internal/grader/report"
	"tandem/jobs"
)

// Whatever an answer depends on changes the key, also where the same bytes stand in another part.
func TestKeysDiffer(t *testing.T) {
	tests := map[string]func(*report.Inputs, *jobs.Job){
		"nothing":      func(*report.Inputs, *jobs.Job) {},
		"notebook":     func(in *report.Inputs, _ *jobs.Job) { in.Notebook = "n2" },
		"rubric":       func(in *report.Inputs, _ *jobs.Job) { in.Rubric = "r2" },
		"solution":     func(in *report.Inputs, _ *jobs.Job) { in.Solution = "s2" },
		"template":     func(in *report.Inputs, _ *jobs.Job) { in.Template = "t" },
		"moved":        func(in *report.Inputs, _ *jobs.Job) { in.Notebook, in.Rubric = "nr", "" },
		"system":       func(_ *report.Inputs, j *jobs.Job) { j.System = "other" },
		"prompt":       func(_ *report.Inputs, j *jobs.Job) { j.Prompt += "." },
		"boundary":     func(_ *report.Inputs, j *jobs.Job) { j.SharedPrefix++ },
		"format":       func(_ *report.Inputs, j *jobs.Job) { j.Format = json.RawMessage(`{"type":"object"}`) },
		"think":        func(_ *report.Inputs, j *jobs.Job) { j.Think = jobs.ThinkOff },
		"longest text": func(_ *report.Inputs, j *jobs.Job) { j.Options.NumPredict = new(8) },
		"temperature":  func(_ *report.Inputs, j *jobs.Job) { j.Options.Temperature = new(0.5) },
		"seed":         func(_ *report.Inputs, j *jobs.Job) { j.Options.Seed = new(int64(2)) },
		"model":        func(_ *report.Inputs, j *jobs.Job) { j.Model = talker },
	}
	seen := map[string]string{}
	for name, change := range tests {
		in := report.Inputs{Notebook: "n", Rubric: "r", Solution: "s"}
		j := &jobs.Job{Model: coder, System: "you grade", Prompt: "the task, the work", SharedPrefix: 8}
		change(&in, j)
		key, err := keyOf(in, j)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[key] = name
	}
}

func TestAModelThatIsNotKnownMayBeAny(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{{"x", "x", true}, {"x", "y", false}, {"", "y", true}, {"x", "", true}, {"", "", true}} {
		if got := sameModel(tt.a, tt.b); got != tt.want {
			t.Errorf("sameModel(%q, %q) is %v", tt.a, tt.b, got)
		}
	}
}
