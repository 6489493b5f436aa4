package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestWritesAClassAndTellsItsSizes(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--students", "5", "--median-kb", "40", "--largest-kb", "100", "--source-kb", "6", "--largest-source-kb", "9", "--out", dir}
	var said strings.Builder
	if err := run(args, &said); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`^5 notebooks in .*submissions, 4 in R and 1 in Python\n`, `\n +file( +\d+\.\d){4} *\n`, `\n +text in cells( +\d+\.\d){4} *\n$`} {
		if !regexp.MustCompile(line).MatchString(said.String()) {
			t.Errorf("printed no line like %s:\n%s", line, said.String())
		}
	}
	for _, name := range []string{"rubric.json", "solution.ipynb", "template.ipynb", "submissions/student-001.ipynb", "submissions/student-005.ipynb"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if err := run(args, &said); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("a second class in the same folder: %v, want it to be refused", err)
	}
}

func TestFlagsThatCannotBe(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "either --example or --out"},
		{"--example a --out b", "either --example or --out"},
		{"--out b c", `"c" is no flag`},
		{"--out b --students 0", "--students is 0"},
		{"--out b --median-kb 900", "as large as the largest"},
		{"--out b --source-kb 0", "at least 1"},
	} {
		if err := run(strings.Fields(tt.args), t.Output()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("generate %s: %v, want %q", tt.args, err, tt.want)
		}
	}
}
