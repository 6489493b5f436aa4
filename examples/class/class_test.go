package class

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/examples/class/ipynb"
)

// TestFilesAreWhatTheGeneratorWrites compares the tree both ways: nothing is stale, and nothing lies there that nobody writes.
func TestFilesAreWhatTheGeneratorWrites(t *testing.T) {
	fresh := t.TempDir()
	if err := WriteExample(fresh); err != nil {
		t.Fatal(err)
	}
	want, got := notebooks(t, fresh), notebooks(t, ".")
	for name, data := range want {
		if !bytes.Equal(got[name], data) {
			t.Errorf("%s is not what the generator writes: run `go generate ./examples/class`", name)
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("%s is written by nobody", name)
		}
	}
	if len(want) != 10 {
		t.Errorf("the generator writes %d notebooks, want the solution, the template and 8 submissions", len(want))
	}
}

// notebooks returns the notebooks below a folder by their paths.
func notebooks(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".ipynb" {
			found[path], err = os.ReadFile(filepath.Join(dir, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// raw is what a test reads of a notebook.
type raw struct {
	Cells []struct {
		Kind   string   `json:"cell_type"`
		ID     string   `json:"id"`
		Source []string `json:"source"`
	} `json:"cells"`
	Format int `json:"nbformat"`
	Minor  int `json:"nbformat_minor"`
}

func decode(t *testing.T, name string, data []byte) raw {
	t.Helper()
	var nb raw
	if err := json.Unmarshal(data, &nb); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return nb
}

func TestNotebooksAreNbformat45(t *testing.T) {
	for name, data := range notebooks(t, ".") {
		if name == "submissions/student-04.ipynb" {
			if json.Valid(data) {
				t.Errorf("%s is whole, but is to end in the middle", name)
			}
			continue
		}
		nb := decode(t, name, data)
		if nb.Format != 4 || nb.Minor != 5 {
			t.Errorf("%s is of nbformat %d.%d, want 4.5", name, nb.Format, nb.Minor)
		}
		ids := map[string]bool{}
		for _, c := range nb.Cells {
			if c.ID == "" || len(c.ID) > 64 || ids[c.ID] {
				t.Errorf("%s: a cell's id is %q, want 1 to 64 characters that no other cell has", name, c.ID)
			}
			ids[c.ID] = true
		}
	}
}

// TestNothingIsLeftToBeFilledIn looks for marks of the cells' own language in what was made of them.
func TestNothingIsLeftToBeFilledIn(t *testing.T) {
	for name, data := range notebooks(t, ".") {
		for _, mark := range []string{"«", "»", "#> ", "# %%", "%!"} {
			if bytes.Contains(data, []byte(mark)) {
				t.Errorf("%s holds %q", name, mark)
			}
		}
	}
}

func TestCrowd(t *testing.T) {
	crowd := Crowd{Students: 25, Seed: 7, Median: 80_000, Largest: 770_000, Source: 17_000, LargestSource: 76_000}
	members := func() map[string]*Member {
		all := map[string]*Member{}
		for m, err := range crowd.Members() {
			if err != nil {
				t.Fatal(err)
			}
			all[m.Name] = m
		}
		return all
	}
	first, second := members(), members()
	if len(first) != crowd.Students {
		t.Fatalf("%d students, want %d", len(first), crowd.Students)
	}
	seen := map[string]string{}
	python, below, sourceBelow := 0, 0, 0
	for name, m := range first {
		if !bytes.Equal(m.Data, second[name].Data) {
			t.Errorf("%s differs from one run to the next", name)
		}
		var text strings.Builder
		for _, c := range decode(t, name, m.Data).Cells {
			text.WriteString(strings.Join(c.Source, ""))
		}
		if other, twice := seen[text.String()]; twice {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[text.String()] = name
		if text.Len() != m.Source {
			t.Errorf("%s has %d bytes of text, and says %d", name, text.Len(), m.Source)
		}
		if len(m.Data) > crowd.Largest {
			t.Errorf("%s has %d bytes, more than the largest may have", name, len(m.Data))
		}
		if m.Source > crowd.LargestSource {
			t.Errorf("%s has %d bytes of text, more than the largest may have", name, m.Source)
		}
		if strings.Contains(text.String(), "Ignore the rubric") {
			t.Errorf("%s tells the grader what to do; that is for student-05 of the example alone", name)
		}
		if m.Kernel == ipynb.Python {
			python++
		}
		if len(m.Data) < crowd.Median*9/10 {
			below++
		}
		if m.Source < crowd.Source*9/10 {
			sourceBelow++
		}
	}
	if python != 5 {
		t.Errorf("%d of 25 write Python, want a fifth", python)
	}
	if below < 5 || below > 12 || sourceBelow < 5 || sourceBelow > 12 {
		t.Errorf("of 25, %d files and %d texts are a tenth smaller than the median, want 5 to 12", below, sourceBelow)
	}
}
