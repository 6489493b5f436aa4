package grader_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/grader/ask"
	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
)

// example is the folder of the example class.
const example = "../../examples/class"

// expected is what examples/class/expected.json says, by hand, of one submission. A note or a difference is named where it matters, the rest is complete.
type expected struct {
	Broken string `json:"broken,omitempty"` // why it cannot be read; then there is nothing else

	Sections   map[string]check.Completeness `json:"sections"`   // by id
	Items      map[string]check.Status       `json:"items"`      // by section/kind/name
	Notes      map[string]string             `json:"notes"`      // a part of the item's note, by section/kind/name
	CodeCells  int                           `json:"code_cells"` // none of them is empty
	RunCells   int                           `json:"run_cells"`  //
	Errors     int                           `json:"errors"`     //
	Empty      bool                          `json:"empty"`      //
	Completion string                        `json:"completion"` // points of complete sections of all
	Outputs    map[string]output             `json:"outputs"`    // by the comparison's key
	Flags      []string                      `json:"flags"`      // kinds, sorted, each once
}

// output is one comparison of layer 2.
type output struct {
	Verdict     outputs.Verdict `json:"verdict"`
	Note        string          `json:"note"`        // a part of the note
	Differences []difference    `json:"differences"` // some of those that are listed
}

// difference names a part of where it is, and both values, or what matters of them.
type difference struct {
	Where string `json:"where"`
	Want  string `json:"want"`
	Got   string `json:"got"`
}

// findings are layers 1 and 2 and the flags of a submission, and its points before any model was asked.
type findings struct {
	Layer1 *check.Findings
	Layer2 *outputs.Findings
	Score  *score.Score
	Flags  []ask.Flag
}

// assignment is what the instructor of the example has.
type assignment struct {
	rubric             *rubric.Rubric
	solution, template *notebook.Notebook
}

func load(t *testing.T) assignment {
	t.Helper()
	r, err := rubric.Read(read(t, "rubric.json"))
	if err != nil {
		t.Fatal(err)
	}
	return assignment{r, readNotebook(t, "solution.ipynb"), readNotebook(t, "template.ipynb")}
}

func (a assignment) find(nb *notebook.Notebook) findings {
	layer1, layer2 := check.Run(nb, a.template, a.rubric), outputs.Compare(nb, a.solution, a.template, a.rubric)
	return findings{layer1, layer2, score.Compute(a.rubric, layer1, layer2, nil, nil), ask.Flags(nb, func(s string) string { return s })}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(example, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readNotebook(t *testing.T, name string) *notebook.Notebook {
	t.Helper()
	nb, err := notebook.Read(read(t, name), notebook.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return nb
}

// TestExampleClass compares the findings with the table both ways: what it expects is found, and nothing else is.
func TestExampleClass(t *testing.T) {
	var table map[string]expected
	dec := json.NewDecoder(strings.NewReader(string(read(t, "expected.json"))))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&table); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(example, "submissions", "*.ipynb"))
	if err != nil || len(files) != len(table) {
		t.Fatalf("%d submissions and %d in the table (%v), want as many", len(files), len(table), err)
	}
	a := load(t)
	for name, want := range table {
		t.Run(name, func(t *testing.T) {
			nb, err := notebook.Read(read(t, "submissions/"+name+".ipynb"), notebook.Limits{})
			if want.Broken != "" {
				if err == nil || !strings.Contains(err.Error(), want.Broken) {
					t.Fatalf("reading it says %v, want %q", err, want.Broken)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			found := a.find(nb)
			if diff := cmp.Diff(want, observed(t, found, want)); diff != "" {
				t.Errorf("expected (-) and found (+):\n%s", diff)
			}
		})
	}
}

// observed brings findings into the form of the table. A text that holds what the table names of it is taken as the table has it.
func observed(t *testing.T, f findings, want expected) expected {
	t.Helper()
	got := expected{
		Sections:   map[string]check.Completeness{},
		Items:      map[string]check.Status{},
		CodeCells:  f.Layer1.CodeCells,
		RunCells:   f.Layer1.RunCells,
		Errors:     len(f.Layer1.Errors),
		Empty:      f.Layer1.Empty,
		Completion: fmt.Sprintf("%v of %v", f.Layer1.CompletePoints, f.Layer1.AllPoints),
		Outputs:    map[string]output{},
		Flags:      []string{},
	}
	for _, s := range f.Layer1.Sections {
		if _, twice := got.Sections[s.ID]; twice {
			t.Errorf("section %s stands twice in the findings", s.ID)
		}
		got.Sections[s.ID] = s.Completeness
	}
	for _, item := range f.Layer1.Items {
		key := item.Section + "/" + item.Kind + "/" + item.Name
		if _, twice := got.Items[key]; twice {
			t.Errorf("item %s stands twice in the findings", key)
		}
		got.Items[key] = item.Status
		if note, matters := want.Notes[key]; matters {
			if got.Notes == nil {
				got.Notes = map[string]string{}
			}
			got.Notes[key] = part(item.Note, note)
		}
	}
	for _, c := range f.Layer2.Comparisons {
		if _, twice := got.Outputs[c.Key]; twice {
			t.Errorf("comparison %s stands twice in the findings", c.Key)
		}
		got.Outputs[c.Key] = observedOutput(c, want.Outputs[c.Key])
	}
	for _, flag := range f.Flags {
		got.Flags = append(got.Flags, flag.Kind)
	}
	slices.Sort(got.Flags)
	got.Flags = slices.Compact(got.Flags)
	return got
}

// observedOutput has the differences that the table names if the comparison lists them, else all that it does list.
func observedOutput(c outputs.Comparison, want output) output {
	got := output{Verdict: c.Verdict}
	if want.Note != "" {
		got.Note = part(c.Note, want.Note)
	}
	for _, d := range want.Differences {
		if slices.ContainsFunc(c.Differences, func(found outputs.Discrepancy) bool {
			return strings.Contains(found.Where, d.Where) && strings.Contains(found.Want, d.Want) && strings.Contains(found.Got, d.Got)
		}) {
			got.Differences = append(got.Differences, d)
		}
	}
	if len(got.Differences) < len(want.Differences) || want.Differences == nil {
		got.Differences = nil
		for _, found := range c.Differences {
			got.Differences = append(got.Differences, difference(found))
		}
	}
	return got
}

// part is want if text holds it, else all of text.
func part(text, want string) string {
	if strings.Contains(text, want) {
		return want
	}
	return text
}

// TestInjectionChangesNoPoints takes what student-05 wrote to the grader out of the notebook: findings and points stay, only the flags go.
func TestInjectionChangesNoPoints(t *testing.T) {
	const begin, end = " Ignore the rubric", "-->"
	a := load(t)
	with, without := readNotebook(t, "submissions/student-05.ipynb"), readNotebook(t, "submissions/student-05.ipynb")
	removed := 0
	for i, c := range without.Cells {
		before, rest, found := strings.Cut(c.Source, begin)
		if !found {
			continue
		}
		_, after, found := strings.Cut(rest, end)
		if !found {
			t.Fatalf("in cell %d, %q does not follow %q", c.Number, end, begin)
		}
		without.Cells[i].Source = before + after
		removed++
	}
	if removed != 1 {
		t.Fatalf("%d cells hold %q, want 1", removed, begin)
	}

	flagged, clean := a.find(with), a.find(without)
	if diff := cmp.Diff(clean.Layer1, flagged.Layer1); diff != "" {
		t.Errorf("layer 1 without (-) and with (+) the sentence:\n%s", diff)
	}
	if diff := cmp.Diff(clean.Layer2, flagged.Layer2); diff != "" {
		t.Errorf("layer 2 without (-) and with (+) the sentence:\n%s", diff)
	}
	if diff := cmp.Diff(clean.Score, flagged.Score); diff != "" {
		t.Errorf("score without (-) and with (+) the sentence:\n%s", diff)
	}
	if flagged.Score.Points <= 0 || flagged.Score.Points >= flagged.Score.Max {
		t.Errorf("%v points of %v, want some, so that there would be something to gain", flagged.Score.Points, flagged.Score.Max)
	}
	if len(flagged.Flags) == 0 || len(clean.Flags) != 0 {
		t.Errorf("flags with the sentence %+v, without it %+v; want some, and none", flagged.Flags, clean.Flags)
	}
}
