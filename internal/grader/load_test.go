package grader

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/jobs"
)

func TestLoadNamesTheFileThatIsWrong(t *testing.T) {
	good := func(t *testing.T) Inputs {
		b := newBench(t, 1)
		return Inputs{
			Rubric: filepath.Join(b.dir, "rubric.json"), Solution: filepath.Join(b.dir, "solution.ipynb"), Template: filepath.Join(b.dir, studentFile(1)),
		}
	}
	tests := map[string]struct {
		text string // that overwrites the file; "" removes it
		name func(*Inputs) *string
		want string
	}{
		"no rubric":             {name: func(in *Inputs) *string { return &in.Rubric }, want: "no such file"},
		"rubric is no JSON":     {text: "weights: 1", name: func(in *Inputs) *string { return &in.Rubric }, want: "rubric"},
		"no solution":           {name: func(in *Inputs) *string { return &in.Solution }, want: "no such file"},
		"solution is a page":    {text: "<!DOCTYPE html><html></html>", name: func(in *Inputs) *string { return &in.Solution }, want: "solution"},
		"solution without code": {text: string(notebookFile(t, "python", cell{markdown: true, source: "# Sum"})), name: func(in *Inputs) *string { return &in.Solution }, want: "has no code cell"},
		"template is nothing":   {text: "{}", name: func(in *Inputs) *string { return &in.Template }, want: "template"},
		"rubric is huge":        {text: strings.Repeat(" ", maxFile+1), name: func(in *Inputs) *string { return &in.Rubric }, want: "larger than 32 MB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := good(t)
			path := *tt.name(&in)
			if tt.text == "" {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(in)
			if jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load: %v; want an error of code invalid that names %s and says %q", err, path, tt.want)
			}
		})
	}
}

func TestLoadWarnsOfASolutionThatSaysTooLittle(t *testing.T) {
	tests := map[string]struct {
		cells []cell
		want  []string // parts, in order
	}{
		"run":       {solved(), nil},
		"never run": {[]cell{{source: "prices = [1]\ntotal = 1"}}, []string{"no outputs"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1)
			b.write("solution.ipynb", notebookFile(t, "python", tt.cells...))
			a := b.load()
			if !slices.EqualFunc(a.warnings, tt.want, strings.Contains) {
				t.Errorf("warnings are %q, want those with %q", a.warnings, tt.want)
			}
		})
	}
}

func TestModelsAreListedOnce(t *testing.T) {
	b := newBench(t, 1)
	if diff := cmp.Diff([]string{coder, talker}, b.load().Models()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	b.edit("rubric.json", talker, coder)
	if diff := cmp.Diff([]string{coder}, b.load().Models()); diff != "" {
		t.Errorf("one model for both, -want +got:\n%s", diff)
	}
}
