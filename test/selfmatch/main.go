// Command selfmatch compares each notebook of some folders with itself, as a student's with the solution: all outputs must match. It prints those that do not,
// and fails if they are more than one in a hundred.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tandem/internal/grader/notebook"
	"tandem/internal/grader/outputs"
)

// least is the share of outputs that must match.
const least = 0.99

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "selfmatch:", err)
		os.Exit(1)
	}
}

// totals are counts over all notebooks.
type totals struct {
	notebooks, unread, whole, compared, matched int
	longest                                     time.Duration
	slowest                                     string
}

func run(folders []string, w io.Writer) error {
	if len(folders) == 0 {
		return fmt.Errorf("want folders with notebooks as arguments")
	}
	var t totals
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".ipynb") {
				return err
			}
			return t.add(path, w)
		})
		if err != nil {
			return fmt.Errorf("read folder: %w", err)
		}
	}
	share := float64(t.matched) / float64(max(1, t.compared))
	fmt.Fprintf(w, "%d notebooks, %d of which cannot be read; of the others %d match as a whole; %d of %d outputs match (%.2f %%); the slowest took %s: %s\n",
		t.notebooks, t.unread, t.whole, t.matched, t.compared, 100*share, t.longest.Round(time.Millisecond), t.slowest)
	if t.compared == 0 || share < least {
		return fmt.Errorf("fewer than %.0f %% of the outputs match", 100*least)
	}
	return nil
}

// add compares one notebook with itself.
func (t *totals) add(path string, w io.Writer) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read notebook: %w", err)
	}
	t.notebooks++
	nb, err := notebook.Read(data, notebook.Limits{})
	if err != nil {
		t.unread++
		fmt.Fprintf(w, "%s: %v\n", path, err)
		return nil
	}
	began := time.Now()
	f := outputs.Compare(nb, nb, nil, nil)
	if took := time.Since(began); took > t.longest {
		t.longest, t.slowest = took, path
	}
	t.compared, t.matched = t.compared+f.Compared, t.matched+f.Matched
	if f.Compared == f.Matched {
		t.whole++
	}
	for _, c := range f.Comparisons {
		if c.Verdict != outputs.Match && c.Kind != "picture" {
			fmt.Fprintf(w, "%s: cell %d, %s %s: %s in cell %d: %s\n", path, c.SolutionCell, c.Kind, c.Key, c.Verdict, c.Cell, c.Note)
			for _, d := range c.Differences {
				fmt.Fprintf(w, "    %s: want %q, got %q\n", d.Where, d.Want, d.Got)
			}
		}
	}
	return nil
}
