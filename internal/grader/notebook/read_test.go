package notebook

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/units"
	"tandem/jobs"
)

// python wraps cells, each as JSON, into a notebook.
func python(cells ...string) string {
	return `{"nbformat": 4, "nbformat_minor": 5, "metadata": {"language_info": {"name": "python"}}, "cells": [` + strings.Join(cells, ",") + `]}`
}

// shows wraps outputs, each as JSON, into a cell that was run.
func shows(outputs ...string) string {
	return `{"cell_type": "code", "execution_count": 1, "metadata": {}, "source": "x", "outputs": [` + strings.Join(outputs, ",") + `]}`
}

func read(t *testing.T, text string, limits Limits) *Notebook {
	t.Helper()
	nb, err := Read([]byte(text), limits)
	if err != nil {
		t.Fatal(err)
	}
	return nb
}

func TestRead(t *testing.T) {
	for file, want := range map[string]*Notebook{
		"python.ipynb": {
			Format: "4.5", Language: Python, Kernel: "python",
			Cells: []Cell{
				{Number: 1, Kind: Markdown, Source: "# Part 1\nRead the data. ![plot](attachment:plot.png)"},
				{Number: 2, Kind: Code, Count: 3, GradeID: "read-data", Test: true, Points: 5, Source: "df = read()\ndf", Outputs: []Output{
					{Kind: Stream, Stream: "stdout", Text: "reading\ndone\n"},
					{Kind: Stream, Stream: "stderr", Text: "100%\n"},
					{Kind: Value, Text: "   a\n0  1", HTML: "<table><tr><td>1</td></tr></table>"},
				}},
				{Number: 3, Kind: Code, Source: "never()"},
				{Number: 4, Kind: Code, Count: 4, Source: "1/0", Outputs: []Output{{
					Kind: Error, ErrorName: "ZeroDivisionError", ErrorValue: "division by zero",
					Text: "Traceback\nZeroDivisionError: division by zero",
				}}},
				{Number: 5, Kind: Code, Count: 5, Source: "plot()", Outputs: []Output{{Kind: Value, Images: 1}}},
				{Number: 6, Kind: Raw, Source: "as it is"},
			},
			Dropped: Dropped{Images: 2, ImageBytes: 28, Other: 1},
		},
		"r.ipynb": {
			Format: "4.0", Language: R, Kernel: "R",
			Cells: []Cell{{Number: 1, Kind: Code, Count: 1, Source: "head(d)", Outputs: []Output{
				{Kind: Value, Text: "  x\n1 2", HTML: "<table><tr><td>2</td></tr></table>"},
				{Kind: Value, Images: 1},
			}}},
			Dropped: Dropped{Images: 1, ImageBytes: 19},
		},
	} {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			nb, err := Read(data, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, nb); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOutputs(t *testing.T) {
	value := func(data string) string { return `{"output_type": "display_data", "data": {` + data + `}}` }
	tests := []struct {
		name    string
		outputs string
		want    []Output
		dropped Dropped
	}{
		{"none", ``, nil, Dropped{}},
		{"an empty stream says nothing", `{"output_type": "stream", "name": "stdout", "text": []}`, nil, Dropped{}},
		{"a bar over many pieces", `{"output_type": "stream", "name": "stderr", "text": "10%\r"}, {"output_type": "stream", "name": "stderr", "text": ["50%", "\r99%\r"]}`,
			[]Output{{Kind: Stream, Stream: "stderr", Text: "99%"}}, Dropped{}},
		{"streams that alternate", `{"output_type": "stream", "name": "stdout", "text": "a"}, {"output_type": "stream", "name": "stderr", "text": "b"}, {"output_type": "stream", "name": "stdout", "text": "c"}`,
			[]Output{{Kind: Stream, Stream: "stdout", Text: "a"}, {Kind: Stream, Stream: "stderr", Text: "b"}, {Kind: Stream, Stream: "stdout", Text: "c"}}, Dropped{}},
		{"IPython's Markdown", value(`"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": ["**5**"]`),
			[]Output{{Kind: Value, Text: "**5**"}}, Dropped{}},
		{"LaTeX", value(`"text/latex": "$x^2$"`), []Output{{Kind: Value, Text: "$x^2$"}}, Dropped{}},
		{"HTML alone", value(`"text/plain": "<IPython.core.display.HTML object>", "text/html": "<b>5</b>"`),
			[]Output{{Kind: Value, HTML: "<b>5</b>"}}, Dropped{}},
		{"one plot in three forms", value(`"image/png": "AAAA", "image/svg+xml": ["<svg/>"], "application/pdf": "AA"`),
			[]Output{{Kind: Value, Images: 1}}, Dropped{Images: 1, ImageBytes: 6 + 10 + 4}},
		{"a picture within HTML", value(`"text/html": "<img src=\"data:image/png;base64,` + strings.Repeat("A", 100) + `\">"`),
			[]Output{{Kind: Value, HTML: `<img src="data:image/png;base64,">`, Images: 1}}, Dropped{Images: 1, ImageBytes: 100}},
		{"a widget with a text", value(`"application/vnd.jupyter.widget-view+json": {"model_id": "x"}, "text/plain": "Box()", "text/html": "<script></script>"`),
			[]Output{{Kind: Value, Text: "Box()"}}, Dropped{Other: 1}},
		{"Plotly", value(`"application/vnd.plotly.v1+json": {"data": [[1]]}, "text/html": "<script></script>"`), nil, Dropped{Other: 1}},
		{"a data frame in Colab", value(`"application/vnd.google.colaboratory.intrinsic+json": {"type": "dataframe"}, "text/html": "<table></table>", "text/plain": "a"`),
			[]Output{{Kind: Value, Text: "a", HTML: "<table></table>"}}, Dropped{}},
		{"JSON", value(`"application/json": {"a": 1}`), nil, Dropped{Other: 1}},
		{"a kind of output that nobody knows", `{"output_type": "hologram", "data": {"text/plain": "x"}}`, nil, Dropped{Other: 1}},
		{"an error without a traceback", `{"output_type": "error", "ename": "E", "evalue": "\u001b[31mno\u001b[0m"}`,
			[]Output{{Kind: Error, ErrorName: "E", ErrorValue: "no", Text: "E: no"}}, Dropped{}},
		{"wrong types", `7, null, {"output_type": 3}, {"output_type": "stream", "text": {"a": 1}}, {"output_type": "execute_result", "data": []}`,
			nil, Dropped{Other: 4}},
		{"the last of a key that is there twice counts", `{"output_type": "error", "output_type": "stream", "text": "a", "text": "b"}`,
			[]Output{{Kind: Stream, Stream: "stdout", Text: "b"}}, Dropped{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			nb := read(t, python(shows(test.outputs)), Limits{})
			if diff := cmp.Diff(test.want, nb.Cells[0].Outputs); diff != "" {
				t.Error(diff)
			}
			if nb.Dropped != test.dropped {
				t.Errorf("dropped %+v; want %+v", nb.Dropped, test.dropped)
			}
		})
	}
}

func TestCount(t *testing.T) {
	for text, want := range map[string]int{
		"null": 0, "0": 0, "7": 7, "7.0": 7, "-1": 0, "1e400": 0, `"3"`: 0, "2.5": 0, strings.Repeat("9", 1000): 0,
	} {
		nb := read(t, python(`{"cell_type": "code", "source": "x", "execution_count": `+text+`}`), Limits{})
		if got := nb.Cells[0].Count; got != want {
			t.Errorf("execution_count %.20s is read as %d; want %d", text, got, want)
		}
	}
}

func TestLanguage(t *testing.T) {
	tests := []struct {
		metadata, code string
		language       Language
		kernel         string
	}{
		{`{"language_info": {"name": "R"}, "kernelspec": {"name": "python3"}}`, "", R, "R"},
		{`{"kernelspec": {"language": "python", "name": "x"}}`, "", Python, "python"},
		{`{"kernelspec": {"name": "ir"}}`, "", R, "ir"},
		{`{"kernelspec": {"name": "conda-env-class-r"}}`, "", R, "conda-env-class-r"},
		{`{"kernelspec": {"name": "python3"}}`, "x <- 1", Python, "python3"},
		{`{"kernelspec": {"name": "python3"}}`, `library(dplyr)\nx <- 1\ny <- 2`, R, "python3"},
		{`{"kernelspec": {"name": "python3"}}`, `import os\nx <- 1\ny <- 2\nz <- 3`, Python, "python3"},
		{`{"kernelspec": {"name": "python3"}}`, `%%R\nlibrary(dplyr)\nx <- 1\ny <- 2`, Python, "python3"},
		{`{"kernelspec": {"name": "ir"}}`, `import os\nimport re\ndef f(x):\n    return x`, Python, "ir"},
		{`{"language_info": {"name": "julia"}}`, `import os\nimport re\nimport io`, Other, "julia"},
		{`{"language_info": {"name": "julia"}}`, "import os", Other, "julia"},
		{`{}`, `x <- 1`, R, ""},
		{`{}`, `# import\nlibrary(dplyr)`, R, ""},
		{`null`, `import numpy as np`, Python, ""},
		{`null`, `def f(x):\n    return x`, Python, ""},
		{`null`, `x = 1`, Other, ""},
		{`null`, `import numpy\nlibrary(dplyr)`, Other, ""},
	}
	for _, test := range tests {
		nb := read(t, `{"nbformat": 4, "metadata": `+test.metadata+`, "cells": [{"cell_type": "code", "source": "`+test.code+`"}]}`, Limits{})
		if nb.Language != test.language || nb.Kernel != test.kernel {
			t.Errorf("metadata %s and code %q: %s, kernel %q; want %s, %q", test.metadata, test.code, nb.Language, nb.Kernel, test.language, test.kernel)
		}
	}
}

// What was saved ten years ago is read like what is saved today.
func TestOldFormats(t *testing.T) {
	for _, version := range []string{"2", "3"} {
		nb := read(t, `{"nbformat": `+version+`, "nbformat_minor": 0, "metadata": {"name": "a"}, "worksheets": [{"cells": [
			{"cell_type": "heading", "level": 2, "source": ["Join"]},
			{"cell_type": "code", "language": "python", "input": ["x = 1\n", "x"], "prompt_number": 7, "outputs": [
				{"output_type": "stream", "stream": "stderr", "text": ["careful"]},
				{"output_type": "pyout", "prompt_number": 7, "text": ["1"], "html": ["<b>1</b>"]},
				{"output_type": "display_data", "png": "aGFsbG8=", "text": ["<Figure>"]},
				{"output_type": "pyerr", "ename": "KeyError", "evalue": "'x'", "traceback": []}]}]},
			{"cells": [{"cell_type": "markdown", "source": "The end."}]}]}`, Limits{})
		want := []Cell{
			{Number: 1, Kind: Markdown, Source: "## Join"},
			{Number: 2, Kind: Code, Source: "x = 1\nx", Count: 7, Outputs: []Output{
				{Kind: Stream, Stream: "stderr", Text: "careful"}, {Kind: Value, Text: "1", HTML: "<b>1</b>"}, {Kind: Value, Text: "<Figure>", Images: 1},
				{Kind: Error, ErrorName: "KeyError", ErrorValue: "'x'", Text: "KeyError: 'x'"}}},
			{Number: 3, Kind: Markdown, Source: "The end."},
		}
		if diff := cmp.Diff(want, nb.Cells); diff != "" || nb.Language != Python || nb.Format != version+".0" {
			t.Errorf("nbformat %s: language %s, format %s\n%s", version, nb.Language, nb.Format, diff)
		}
	}
}

func TestCutting(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	nb := read(t, python(
		`{"cell_type": "markdown", "source": "`+long+`"}`,
		shows(`{"output_type": "stream", "text": "`+long+`"}`, `{"output_type": "display_data", "data": {"text/html": "`+long+`"}}`),
	), Limits{Source: 1001, Output: 301})
	for what, text := range map[string]string{"source": nb.Cells[0].Source, "text": nb.Cells[1].Outputs[0].Text, "HTML": nb.Cells[1].Outputs[1].HTML} {
		if !utf8.ValidString(text) || !strings.HasPrefix(text, "ä") || !strings.HasSuffix(text, "ä") {
			t.Errorf("%s has no head and tail: %.40q", what, text)
		}
	}
	source := nb.Cells[0].Source
	kept := strings.Count(source, "ä") * 2
	if mark := fmt.Sprintf("\n[… %s bytes left out …]\n", units.Count(10000-kept)); !strings.Contains(source, mark) || len(source) > 1001 || kept < 900 {
		t.Errorf("source has %d bytes of the text and not the line %q", kept, mark)
	}
	if nb.Dropped.Cut != 3 || nb.Dropped.CutBytes < 3*10000-1001-2*301 {
		t.Errorf("dropped %+v; want 3 cuts of nearly 30,000 bytes", nb.Dropped)
	}

	cell := `{"cell_type": "code", "source": "` + strings.Repeat("x", 1000) + `"}`
	nb = read(t, python(cell, cell, cell), Limits{Sources: 1500})
	if a, b, c := len(nb.Cells[0].Source), len(nb.Cells[1].Source), len(nb.Cells[2].Source); a != 1000 || a+b+c > 1500 || b < 400 || nb.Dropped.Cut != 2 {
		t.Errorf("three sources have %d, %d and %d bytes, dropped %+v; want 1500 at most together, the first one whole", a, b, c, nb.Dropped)
	}

	nb = read(t, python(shows(
		`{"output_type": "display_data", "data": {"text/plain": "first"}}`,
		`{"output_type": "display_data", "data": {"text/plain": "second"}}`,
		`{"output_type": "error", "ename": "E", "evalue": "last"}`,
	)), Limits{Each: 2})
	if out := nb.Cells[0].Outputs; len(out) != 2 || out[0].Text != "first" || out[1].ErrorName != "E" || nb.Dropped.Cut != 1 || nb.Dropped.CutBytes != len("second") {
		t.Errorf("%+v, dropped %+v; want the first output and the error", out, nb.Dropped)
	}
}

// A notebook of the largest size must not need several times its size: the submitter grades many.
func TestMemory(t *testing.T) {
	var b strings.Builder
	for b.Len() < 31e6 {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(shows(`{"output_type": "display_data", "data": {"image/png": "` + strings.Repeat("iVBORw0K", 1<<17) + `"}}`))
	}
	data := []byte(python(b.String()))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	nb, err := Read(data, Limits{})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if nb.Dropped.Images != len(nb.Cells) || nb.Dropped.ImageBytes < 30e6 {
		t.Errorf("dropped %+v", nb.Dropped)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("reading %d bytes allocated %d more; want at most 1 MiB", len(data), used)
	}
}

func TestBadFiles(t *testing.T) {
	good := python(shows())
	tests := []struct {
		name, data string
		want       []string
	}{
		{"empty", "", []string{"is empty", "save the notebook again"}},
		{"blank", " \n\t", []string{"is empty"}},
		{"web page", "<!DOCTYPE html><title>private</title>", []string{"web page", "download"}},
		{"nbformat 1", `{"nbformat": 1, "cells": []}`, []string{"nbformat 1", "jupyter nbconvert --to notebook --nbformat 4"}},
		{"nbformat 3 without worksheets", `{"nbformat": 3, "cells": []}`, []string{"nbformat 3", "its cells cannot be found"}},
		{"worksheets alone", `{"worksheets": []}`, []string{"its cells cannot be found"}},
		{"nbformat 5", `{"nbformat": 5, "cells": []}`, []string{"nbformat 5", "nbformat 4 is read"}},
		{"nbformat missing", `{"cells": []}`, []string{"nbformat is missing"}},
		{"nbformat a string", `{"nbformat": "4", "cells": []}`, []string{"no version's number"}},
		{"cells missing", `{"nbformat": 4}`, []string{"cells is missing"}},
		{"cells an object", `{"nbformat": 4, "cells": {"private": 1}}`, []string{"cells are not a list"}},
		{"cell a string", `{"nbformat": 4, "cells": [{}, "private"]}`, []string{"cell 2", "not an object"}},
		{"JSON list", `[{"cell_type": "code"}]`, []string{"JSON list"}},
		{"truncated", good[:len(good)/2], []string{"ends in the middle", fmt.Sprintf("after byte %d", len(good)/2)}},
		{"truncated in a string", strings.Split(good, `outputs`)[0], []string{"ends in the middle"}},
		{"comma too many", `{"nbformat": 4, "cells": [],}`, []string{"not valid JSON", "at byte 29"}},
		{"two objects", good + good, []string{"not valid JSON"}},
		{"merge conflict", "{\"nbformat\": 4,\n<<<<<<< HEAD\n\"cells\": []}", []string{"merge conflict"}},
		{"invalid UTF-8", "{\"private\": \"\xe9\"}", []string{"not valid UTF-8", "at byte 13", "convert"}},
		{"UTF-16", "\xff\xfe{\x00", []string{"UTF-16", "UTF-8"}},
		{"UTF-16 without a mark", "{\x00\"\x00", []string{"UTF-16"}},
		{"ZIP", "PK\x03\x04private", []string{"ZIP"}},
		{"PDF", "%PDF-1.7", []string{"PDF"}},
		{"R script", "library(private)\nx <- 1\n", []string{"plain text", "script"}},
		{"R Markdown", "---\ntitle: private\n---\n", []string{"R Markdown"}},
		{"binary", "private\x00\x01", []string{"does not begin with {"}},
		{"nested", `{"private": ` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, []string{"100,001 deep", "200 are allowed"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read([]byte(test.data), Limits{})
			if jobs.CodeOf(err) != jobs.CodeInvalid {
				t.Fatalf("error is %v; want one of code invalid", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is %q; want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), "private") {
				t.Errorf("error quotes the file: %q", err)
			}
		})
	}
	if _, err := Read(make([]byte, 1001), Limits{File: 1000}); err == nil || !strings.Contains(err.Error(), "1,001 bytes") || !strings.Contains(err.Error(), "1,000 are allowed") {
		t.Errorf("a file too large: error is %v; want both sizes", err)
	}
	if _, err := Read([]byte(python(shows(), shows())), Limits{Cells: 1}); err == nil || !strings.Contains(err.Error(), "2 cells; 1 are allowed") {
		t.Errorf("too many cells: error is %v; want both numbers", err)
	}
	read(t, "\xef\xbb\xbf"+good, Limits{}) // a mark in front of UTF-8 is no error
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		python(shows(`{"output_type": "stream", "name": "stderr", "text": ["1%\r", "\u001b[31m2%\b"]}`)),
		python(shows(`{"output_type": "error", "ename": "E", "evalue": "\ud83d\ude00 \ud800", "traceback": ["a", "b"]}`)),
		python(shows(`{"output_type": "display_data", "data": {"image/png": "AA", "text/html": "<b>", "text/latex": ["\u00e4"]}}`)),
		python(`{"cell_type": "markdown", "source": ["a\r\n", "b\\"], "attachments": {"a": {"image/png": ""}}}`),
		`{"nbformat":4,"metadata":{"kernelspec":{"name":"ir"}},"cells":[{"cell_type":"raw","source":"` + strings.Repeat("x", 200) + `"}]}`,
		`{"nbformat":3,"worksheets":[]}`, `[`, `{"a":[{`, "\xff\xfe", "",
	} {
		f.Add([]byte(seed))
	}
	limits := Limits{File: 1 << 20, Cells: 20, Source: 100, Output: 80, Each: 3}
	f.Fuzz(func(t *testing.T, data []byte) {
		nb, err := Read(data, limits)
		if err != nil {
			if jobs.CodeOf(err) != jobs.CodeInvalid {
				t.Fatalf("code of %v", err)
			}
			return
		}
		if !json.Valid(data) && !strings.HasPrefix(string(data), "\xef\xbb\xbf") {
			t.Fatal("read what is no JSON")
		}
		check := func(text string, limit int) {
			if len(text) > limit || !utf8.ValidString(text) || strings.ContainsAny(text, "\r\x00\x1b") {
				t.Fatalf("text %q", text)
			}
		}
		if len(nb.Cells) > limits.Cells {
			t.Fatalf("%d cells", len(nb.Cells))
		}
		check(nb.Kernel, maxLabel)
		for i, c := range nb.Cells {
			if c.Number != i+1 || len(c.Outputs) > limits.Each {
				t.Fatalf("cell %+v", c)
			}
			check(c.Source, limits.Source)
			check(c.GradeID, maxLabel)
			for _, o := range c.Outputs {
				check(o.Text, limits.Output)
				check(o.HTML, limits.Output)
				check(o.ErrorName, maxLabel)
				check(o.ErrorValue, limits.Output)
			}
		}
	})
}
