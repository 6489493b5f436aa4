package grader

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/jobs"
)

// pythonFile writes a notebook of Python: texts that begin with > are code that was run, the others Markdown.
func pythonFile(t *testing.T, texts ...string) string {
	t.Helper()
	var cells []map[string]any
	for i, text := range texts {
		source, code := strings.CutPrefix(text, ">")
		cell := map[string]any{"cell_type": "markdown", "metadata": map[string]any{}, "source": source}
		if code {
			cell["cell_type"], cell["execution_count"], cell["outputs"] = "code", i+1, []any{}
		}
		cells = append(cells, cell)
	}
	data, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 5, "metadata": map[string]any{"kernelspec": map[string]any{"name": "python3"}}, "cells": cells})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.ipynb")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Whatever the headings, a first rubric is one that can be read, and that its solution meets.
func TestFirstRubricIsMet(t *testing.T) {
	for what, texts := range map[string][]string{
		"plain":                     {"# Shops", "## Import", ">import csv\nshops = csv.reader(open('a'))", "## Join", ">both = shops + more\nboth.sort()"},
		"marked up":                 {"# *Shops*", "## **Import** of `a`", ">shops = f(1)", "## ~~Join~~", ">both = g(shops)"},
		"a heading twice":           {"## Task", ">a1 = f(1)", "## Task", ">b1 = f(2)", "## Else", ">c1 = f(3)"},
		"one in another":            {"## Join", ">a1 = f(1)", "## Join and sum", ">b1 = f(2)"},
		"a question without answer": {"## Think", "Why?", "## Join", ">a1 = f(1)"},
		"a long heading":            {"## " + strings.Repeat("long ", 60), ">a1 = f(1)", "## Join", ">b1 = f(2)"},
		"signs only":                {"## ???", ">a1 = f(1)", "## Join", ">b1 = f(2)"},
		"one level":                 {"# Import", ">a1 = f(1)", "# Join", ">b1 = f(2)"},
		"quotes and backslashes":    {`## The "best" \ way`, ">a1 = f(1)", "## Join", ">b1 = f('\"')"},
	} {
		t.Run(what, func(t *testing.T) {
			solution := pythonFile(t, texts...)
			data, err := FirstRubric(Inputs{Solution: solution}, "")
			if err != nil {
				t.Fatal(err)
			}
			rubric := filepath.Join(t.TempDir(), "rubric.json")
			if err := os.WriteFile(rubric, data, 0o600); err != nil {
				t.Fatal(err)
			}
			a, err := Load(Inputs{Rubric: rubric, Solution: solution})
			if err != nil {
				t.Fatal(err)
			}
			if c := a.SelfCheck(); !c.Sound || len(c.Solution.Causes) > 0 {
				t.Errorf("the solution has %v %%: %+v\n%s", c.Solution.Percent, c.Solution.Causes, data)
			}
		})
	}
	if _, err := FirstRubric(Inputs{Solution: pythonFile(t, ">x = 1")}, ""); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), "no headings") {
		t.Errorf("without headings: %v", err)
	}
}
