package ask

import (
	"os"
	"path/filepath"
	"testing"

	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
)

// example is the class of the example, whose eight notebooks are invented.
const example = "../../../examples/class"

func readRubric(t testing.TB, text string) *rubric.Rubric {
	t.Helper()
	r, err := rubric.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func readExample(t testing.TB, name string) *notebook.Notebook {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(example, name))
	if err != nil {
		t.Fatal(err)
	}
	nb, err := notebook.Read(data, notebook.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return nb
}

func exampleClass(t testing.TB) Assignment {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(example, "rubric.json"))
	if err != nil {
		t.Fatal(err)
	}
	return Assignment{Rubric: readRubric(t, string(text)), Solution: readExample(t, "solution.ipynb"), Template: readExample(t, "template.ipynb")}
}

func newBuilder(t testing.TB, a Assignment) *Builder {
	t.Helper()
	b, err := NewBuilder(a, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// subject is a notebook with its findings.
func subject(a Assignment, nb *notebook.Notebook) Subject {
	return Subject{Notebook: nb, Layer1: check.Run(nb, a.Template, a.Rubric), Layer2: outputs.Compare(nb, a.Solution, a.Template, a.Rubric)}
}

func prompt(t testing.TB, b *Builder, kind rubric.Judge, s Subject) *Prompt {
	t.Helper()
	p, err := b.Prompt(kind, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// cells is a notebook in R of cells of code, each run.
func cells(sources ...string) *notebook.Notebook {
	nb := &notebook.Notebook{Format: "4.5", Language: notebook.R, Kernel: "R"}
	for i, s := range sources {
		nb.Cells = append(nb.Cells, notebook.Cell{Number: i + 1, Kind: notebook.Code, Source: s, Count: i + 1})
	}
	return nb
}

// small is a rubric with two criteria for the code model and one for the feedback model.
const small = `{
	"assignment_info": {"name": "hw", "title": "Homework", "description": "Join the tables.", "total_points": 10},
	"rubric_elements": {
		"join": {"weight": 0.5, "criteria": ["The keys are named.", "No row is lost."]},
		"say": {"weight": 0.5, "criteria": [{"text": "It draws a conclusion.", "judge": "feedback"}]}
	}
}`
