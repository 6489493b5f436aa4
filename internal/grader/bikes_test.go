package grader_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/grader"
	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
)

// bikes is the folder of the second example, in R.
const bikes = "../../examples/bikes"

// expectedBike is what examples/bikes/expected.json says, by hand, of one submission: what is not found, what does not match, and the points by the checks.
type expectedBike struct {
	Points  float64                    `json:"points"`
	Items   map[string]check.Status    `json:"items"`   // by section/kind/name
	Outputs map[string]outputs.Verdict `json:"outputs"` // by key
}

func TestBikes(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(bikes, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var table map[string]expectedBike
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	open := func(name string) *notebook.Notebook {
		data, err := os.ReadFile(filepath.Join(bikes, name+".ipynb"))
		if err != nil {
			t.Fatal(err)
		}
		nb, err := notebook.Read(data, notebook.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return nb
	}
	if data, err = os.ReadFile(filepath.Join(bikes, "rubric.json")); err != nil {
		t.Fatal(err)
	}
	r, err := rubric.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	a := assignment{r, open("solution"), open("template")}
	files, err := filepath.Glob(filepath.Join(bikes, "submissions", "*.ipynb"))
	if err != nil || len(files) != len(table) {
		t.Fatalf("%d submissions and %d in the table (%v), want as many", len(files), len(table), err)
	}
	for name, want := range table {
		t.Run(name, func(t *testing.T) {
			f := a.find(open("submissions/" + name))
			got := expectedBike{Points: f.Score.Points}
			var notes []string
			for _, item := range f.Layer1.Items {
				if item.Status != check.Found {
					if got.Items == nil {
						got.Items = map[string]check.Status{}
					}
					got.Items[item.Section+"/"+item.Kind+"/"+item.Name] = item.Status
					notes = append(notes, item.Name+": "+item.Note)
				}
			}
			for _, o := range f.Layer2.Comparisons {
				if o.Verdict != outputs.Match {
					if got.Outputs == nil {
						got.Outputs = map[string]outputs.Verdict{}
					}
					got.Outputs[o.Key] = o.Verdict
					notes = append(notes, fmt.Sprintf("%s: %s %+v", o.Key, o.Note, o.Differences))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("expected (-) and found (+):\n%s\n%s\n%s", diff, strings.Join(notes, "\n"), strings.Join(f.Score.Reasons, "\n"))
			}
		})
	}
}

// Both examples are fair by their own rubrics: the solution has what it asks for, the template nothing.
func TestExamplesAreSound(t *testing.T) {
	for _, folder := range []string{example, bikes} {
		a, err := grader.Load(grader.Inputs{
			Rubric: filepath.Join(folder, "rubric.json"), Solution: filepath.Join(folder, "solution.ipynb"), Template: filepath.Join(folder, "template.ipynb"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if self := a.SelfCheck(); self.Solution.Percent < 97 || self.Template.Percent > 3 {
			t.Errorf("%s: the solution has %v %%, the template %v %%; want at least 97, and at most 3\n%+v\n%+v", folder, self.Solution.Percent, self.Template.Percent, self.Solution.Causes, self.Template.Causes)
		}
	}
}
