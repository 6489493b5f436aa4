package ask

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// longNotebook has outputs of 1,400 bytes, a cell of the template and one long cell.
func longNotebook() (*notebook.Notebook, map[string]bool) {
	nb := cells("short <- 1", "long <- 2\n"+strings.Repeat("é <- long\n", 1000)+"end <- 3", strings.Repeat("given <- 0\n", 300))
	for i := range nb.Cells {
		nb.Cells[i].Outputs = []notebook.Output{{Kind: notebook.Stream, Text: strings.Repeat("output ", 200)}, {Kind: notebook.Value, Text: "[1] 42"}}
	}
	return nb, map[string]bool{strings.TrimSpace(nb.Cells[2].Source): true}
}

func bare(_ notebook.Kind, text string) string { return text }

// TestFitCutsInOrder gives a page less and less room.
func TestFitCutsInOrder(t *testing.T) {
	nb, given := longNotebook()
	whole, missing := newPage(nb, 1<<20, given, bare).fit(1 << 20)
	if missing != 0 || strings.Contains(whole, "left out") {
		t.Fatalf("%d bytes are missing with all the room there is", missing)
	}
	outputs, source, template := strings.Repeat("output ", 200), nb.Cells[1].Source, strings.TrimSpace(nb.Cells[2].Source)
	for _, tt := range []struct {
		name           string
		budget         int
		outputs        string // "", some, none
		template, long bool   // stand there whole
	}{
		{"shorter outputs", len(whole) - 100, "some", true, true},
		{"outputs of 200 bytes", len(whole) - 3600, "some", true, true},
		{"no outputs", len(whole) - 3900, "none", true, true},
		{"no template", len(whole) - 5000, "none", false, true},
		{"the middle of the longest cell", len(whole) - 9000, "none", false, false},
		{"hardly anything", 900, "none", false, false},
	} {
		text, missing := newPage(nb, 1<<20, given, bare).fit(tt.budget)
		if len(text) > tt.budget || !utf8.ValidString(text) {
			t.Errorf("%s: %d bytes, want %d of valid UTF-8", tt.name, len(text), tt.budget)
		}
		if got := strings.Contains(text, strings.TrimSpace(outputs)); got {
			t.Errorf("%s: an output stands there whole", tt.name)
		}
		if got := strings.Contains(text, "output output"); got != (tt.outputs == "some") {
			t.Errorf("%s: parts of outputs %v, want %s", tt.name, got, tt.outputs)
		}
		if got := strings.Contains(text, template); got != tt.template {
			t.Errorf("%s: template %v, want %v", tt.name, got, tt.template)
		}
		if got := strings.Contains(text, source); got != tt.long {
			t.Errorf("%s: long cell %v, want %v", tt.name, got, tt.long)
		}
		for _, want := range []string{"short <- 1", "long <- 2", "end <- 3", "[1] 42"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not there", tt.name, want)
			}
		}
		if missing < len(whole)-tt.budget || missing > len(whole) {
			t.Errorf("%s: %d bytes are missing, want at least %d", tt.name, missing, len(whole)-tt.budget)
		}
	}
}

// TestMarksAddUp: the marks name what is missing, beside what outputs are shortened by anyway.
func TestMarksAddUp(t *testing.T) {
	nb, given := longNotebook()
	text, missing := newPage(nb, 1<<20, given, bare).fit(2000)
	sum := 0
	for _, part := range strings.Split(text, "[… ")[1:] {
		var n string
		if _, err := fmt.Sscanf(part, "%s bytes left out …]", &n); err != nil {
			t.Fatal(err)
		}
		var value int
		if _, err := fmt.Sscan(strings.ReplaceAll(n, ",", ""), &value); err != nil {
			t.Fatal(err)
		}
		sum += value
	}
	if sum != missing {
		t.Errorf("the marks say %d bytes, %d are counted", sum, missing)
	}
}

// TestLongOutputsAreAbbreviated, in a prompt that has room for more; that counts as nothing that was cut.
func TestLongOutputsAreAbbreviated(t *testing.T) {
	nb := cells("print(x)")
	nb.Cells[0].Outputs = []notebook.Output{{Kind: notebook.Stream, Text: "first" + strings.Repeat(".", 5000) + "last"}}
	text, missing := newPage(nb, 1<<20, nil, bare).fit(1 << 20)
	if missing != 0 || !strings.Contains(text, "[… 3,509 bytes left out …]") || !strings.Contains(text, "first") || !strings.Contains(text, "last") || len(text) > 1700 {
		t.Errorf("missing %d, shown\n%s", missing, text)
	}
}

// TestHugeNotebookFits: thousands of cells, and one of a megabyte, leave the prompt within the context, and it says what is missing.
func TestHugeNotebookFits(t *testing.T) {
	sources := []string{"first <- 1"}
	for i := range 1998 {
		sources = append(sources, fmt.Sprintf("x%d <- %q", i, strings.Repeat("a", 100)))
	}
	nb := cells(append(sources, "last <- 2")...)
	nb.Cells[7].Source = strings.Repeat("# more\n", 150_000)
	a := Assignment{Rubric: readRubric(t, small), Solution: cells("x <- 1")}
	b, err := NewBuilder(a, "", map[rubric.Judge]Limits{rubric.JudgeCode: {ContextTokens: 8192}, rubric.JudgeFeedback: {ContextTokens: 8192}})
	if err != nil {
		t.Fatal(err)
	}
	found := &check.Findings{}
	for i := range 500 {
		found.Items = append(found.Items, check.Item{Kind: "variable", Name: fmt.Sprintf("v%d", i), Status: check.Missing})
	}
	for _, kind := range judges() {
		p := prompt(t, b, kind, Subject{Notebook: nb, Layer1: found})
		size := len(p.System) + len(p.Shared) + len(p.Own)
		if most := int(fitPerToken * float64(8192-p.Tokens-marginTokens)); size > most || size < most*8/10 {
			t.Errorf("%s: the prompt has %d bytes, want %d or little less", kind, size, most)
		}
		if p.Cut < 1_000_000 || !strings.Contains(p.Own, "first <- 1") || !strings.Contains(p.Own, "last <- 2") || !strings.Contains(p.Own, "more findings.\n") || !strings.Contains(p.Own, "bytes left out …]") {
			t.Errorf("%s: %d bytes are said to be cut", kind, p.Cut)
		}
	}
}

// TestContextThatCutsNothing: what a cut prompt says it would need does.
func TestContextThatCutsNothing(t *testing.T) {
	nb, _ := longNotebook()
	nb.Cells[1].Source = strings.Repeat("long <- 2\n", 5000)
	a := Assignment{Rubric: readRubric(t, small), Solution: cells("x <- 1")}
	in := func(context int) *Prompt {
		b, err := NewBuilder(a, "", map[rubric.Judge]Limits{rubric.JudgeCode: {ContextTokens: context}})
		if err != nil {
			t.Fatal(err)
		}
		return prompt(t, b, rubric.JudgeCode, Subject{Notebook: nb})
	}
	cut := in(8192)
	needed := cut.ContextTokens()
	if whole := in(needed); cut.Cut == 0 || whole.Cut != 0 || whole.ContextTokens() > needed {
		t.Errorf("with 8192 tokens of context %d bytes are cut and %d are said to be needed, with which %d are cut", cut.Cut, needed, whole.Cut)
	}
	if in(needed-4096).Cut == 0 {
		t.Errorf("%d tokens less than what is said to be needed do", 4096)
	}
}
