package code_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/grader/code"
	"tandem/internal/grader/notebook"
)

func TestLines(t *testing.T) {
	source := "# total is missing\n\nx <- 1\ntotal <- \"two\nlines\" # total\nx <- total + x\nprint(x); print(x)\n"
	f := code.Analyse(notebook.R, source)
	want := &code.Facts{
		Assigned:  map[string][]int{"x": {3, 6}, "total": {4}},
		Called:    map[string][]int{"print": {7}},
		Named:     map[string][]int{"total": {6}, "x": {6, 7}},
		Strings:   map[string][]int{},
		Shown:     map[string][]int{"x": {7}},
		Commented: map[string][]int{"total": {1, 5}, "is": {1}, "missing": {1}},
		Quoted:    map[string][]int{"two": {4}, "lines": {5}},
		Lines:     5,
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error(diff)
	}
}

func TestLinesInFStrings(t *testing.T) {
	f := code.Analyse(notebook.Python, "x = 1\ns = f'''{x}\n{y\n + z:{w}}\n'''\n")
	for name, line := range map[string]int{"x": 2, "y": 3, "z": 4, "w": 4} {
		if !slices.Equal(f.Named[name], []int{line}) {
			t.Errorf("%s is named on lines %v; want %d", name, f.Named[name], line)
		}
	}
}

func TestOtherLanguages(t *testing.T) {
	f := code.Analyse(notebook.Other, "x = 1\n\n// y\n")
	if f.Lines != 2 || len(f.Assigned)+len(f.Named)+len(f.Called)+len(f.Commented) > 0 {
		t.Errorf("%+v; want two lines and nothing else", f)
	}
}

func TestEmptyCells(t *testing.T) {
	for lang, sources := range map[notebook.Language][]string{
		notebook.R:      {"", "\n \n", "# only a comment\n;"},
		notebook.Python: {"", "\n\t\n", "# only a comment\n"},
	} {
		for _, s := range sources {
			if n := code.Analyse(lang, s).Lines; n != 0 {
				t.Errorf("%s, %q: %d lines of code; want 0", lang, s, n)
			}
		}
	}
}

// The time is linear: each of these takes milliseconds, and would take minutes if it were not.
func TestHugeCells(t *testing.T) {
	for _, piece := range []string{
		"(", ")", "([{", "}])", "print(", "head(", "a.", "a::", "a %>% ", "a |> head() |> ", "x = ", "x <- ", "f'{", "f\"{f'{", "{", "lambda ", "for x in ", "with a as ",
		"(x := ", "agg(", "sapply(", "if x: ", "import a.", "import a as ", "r\"(", "R\"--[", "`", "%", "'", "\\\n", "a\n", "f(a,", "'a'+", "'a'%(", "print('a'+", "'''", "x[", "f(a=",
	} {
		source := strings.Repeat(piece, 60_000/len(piece))
		start := time.Now()
		code.Analyse(notebook.R, source)
		code.Analyse(notebook.Python, source)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("60 KB of %q took %s", piece, took)
		}
	}
}

func FuzzAnalyse(f *testing.F) {
	for _, seed := range []string{
		"x <- f(a = \"b\", `c d`) |> head(3) -> y # z\n", "r\"--(a)--\" %in% b; x$y[[\"z\"]] <- 1", "(x = \\(y) { z <- 1; y })",
		"a, (b, *c) = d[e], f'{g!r:>{h}}' # i\n", "%time x: int = 3\n%%R\n", "with (a() as b, c): d = '''e\n", "f((]x := 1)\ny = {", "from a import (b as c, d)\n@e.f(g=1)\ndef h(): pass",
		"\xff\xfe(\x00", "print(f\"{a[\"b\"]}\")", "import", "for", "lambda", "->", "assign(", "%>%", "x %>% ", "f(", "agg('sum'",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		for _, lang := range []notebook.Language{notebook.R, notebook.Python, notebook.Other} {
			facts := code.Analyse(lang, source)
			most := strings.Count(source, "\n") + 1
			if facts.Lines < 0 || facts.Lines > most {
				t.Errorf("%s: %d of %d lines", lang, facts.Lines, most)
			}
			for _, m := range []map[string][]int{facts.Assigned, facts.Called, facts.Named, facts.Strings, facts.Shown, facts.Commented, facts.Quoted} {
				for name, lines := range m {
					if name == "" || !slices.IsSorted(lines) || lines[0] < 1 || lines[len(lines)-1] > most {
						t.Errorf("%s: %q on lines %v of %d", lang, name, lines, most)
					}
				}
			}
		}
	})
}
