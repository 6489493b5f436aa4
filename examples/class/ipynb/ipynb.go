// Package ipynb writes Jupyter notebooks (nbformat 4.5) as the R and Python kernels leave them.
package ipynb

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"tandem/examples/class/table"
)

// Notebook is a notebook to be written.
type Notebook struct {
	Kernel Kernel
	Name   string // from which the ids of the cells are made
	Cells  []Cell
}

// Cell is one cell.
type Cell struct {
	Markdown bool
	Source   string
	Run      bool // a code cell that was run has a count; Encode numbers them from 1
	Outputs  []Output
}

// Output is one output as nbformat has it.
type Output map[string]any

// Kernel is what a notebook's code was run by.
type Kernel string

// The kernels.
const (
	R      Kernel = "ir"
	Python Kernel = "python3"
)

// Encode writes the notebook as Jupyter does: keys sorted, one space a level, texts as lists of lines.
func (nb *Notebook) Encode() ([]byte, error) {
	cells := make([]map[string]any, len(nb.Cells))
	count := 0
	for i, c := range nb.Cells {
		cell := map[string]any{"id": fmt.Sprintf("%s-%02d", nb.Name, i+1), "metadata": map[string]any{}, "source": lines(c.Source)}
		if c.Markdown {
			cell["cell_type"] = "markdown"
		} else {
			cell["cell_type"] = "code"
			cell["execution_count"] = nil
			outputs := []Output{}
			if c.Run {
				count++
				cell["execution_count"] = count
				for _, o := range c.Outputs {
					outputs = append(outputs, o.numbered(count))
				}
			}
			cell["outputs"] = outputs
		}
		cells[i] = cell
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(map[string]any{"cells": cells, "metadata": nb.Kernel.metadata(), "nbformat": 4, "nbformat_minor": 5}); err != nil {
		return nil, fmt.Errorf("encode notebook: %w", err)
	}
	return b.Bytes(), nil
}

func (k Kernel) metadata() map[string]any {
	if k == R {
		return map[string]any{
			"kernelspec": map[string]any{"display_name": "R", "language": "R", "name": "ir"},
			"language_info": map[string]any{
				"codemirror_mode": "r", "file_extension": ".r", "mimetype": "text/x-r-source", "name": "R", "pygments_lexer": "r", "version": "4.3.3",
			},
		}
	}
	return map[string]any{
		"kernelspec": map[string]any{"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
		"language_info": map[string]any{
			"codemirror_mode": map[string]any{"name": "ipython", "version": 3}, "file_extension": ".py", "mimetype": "text/x-python", "name": "python",
			"nbconvert_exporter": "python", "pygments_lexer": "ipython3", "version": "3.12.3",
		},
	}
}

// lines splits a text as nbformat stores it: each line with its end.
func lines(text string) []string {
	out := []string{}
	for line := range strings.Lines(text) {
		out = append(out, line)
	}
	return out
}

// numbered returns the output with the count of its cell, where its type has one.
func (o Output) numbered(count int) Output {
	if o["output_type"] != "execute_result" {
		return o
	}
	out := Output{"execution_count": count}
	maps.Copy(out, o)
	return out
}

// value is what a cell shows: IRkernel displays it, IPython returns it.
func (k Kernel) value(data map[string]any) Output {
	kind := "execute_result"
	if k == R {
		kind = "display_data"
	}
	return Output{"output_type": kind, "data": data, "metadata": map[string]any{}}
}

// Show is a table that a cell shows. In R, class is tibble or data.frame.
func (k Kernel) Show(t *table.Table, class string) Output {
	if k == R {
		page, latex, markdown, plain := t.R(class)
		return k.value(map[string]any{"text/html": lines(page), "text/latex": lines(latex), "text/markdown": lines(markdown), "text/plain": lines(plain)})
	}
	page, plain := t.Pandas()
	return k.value(map[string]any{"text/html": lines(page), "text/plain": lines(plain)})
}

// Value is a number or a string that a cell shows.
func (k Kernel) Value(v any) Output {
	if k == R {
		plain, shown := fmt.Sprint(v), fmt.Sprint(v)
		switch v := v.(type) {
		case float64:
			shown = fmt.Sprintf("%.15g", v) // IRkernel shows a number in full and prints its seven digits
			plain = table.RNumber(v)
		case string:
			shown, plain = "'"+v+"'", `"`+v+`"`
		}
		return k.value(map[string]any{"text/html": lines(shown), "text/latex": lines(shown), "text/markdown": lines(shown), "text/plain": lines("[1] " + plain)})
	}
	plain := fmt.Sprint(v)
	if s, ok := v.(string); ok {
		plain = "'" + s + "'"
	}
	return k.Plain(plain)
}

// Plain is what a cell shows as plain text alone.
func (k Kernel) Plain(text string) Output { return k.value(map[string]any{"text/plain": lines(text)}) }

// Text is what a cell shows as HTML and as plain text.
func (k Kernel) Text(page, plain string) Output {
	return k.value(map[string]any{"text/html": lines(page), "text/plain": lines(plain)})
}

// Picture is a PNG that a cell shows.
func (k Kernel) Picture(png []byte) Output {
	plain := "<Figure size 800x400 with 1 Axes>"
	if k == R {
		plain = "plot without title"
	}
	data := map[string]any{"image/png": base64.StdEncoding.EncodeToString(png) + "\n", "text/plain": lines(plain)}
	return Output{"output_type": "display_data", "data": data, "metadata": map[string]any{}}
}

// Print is text on a stream, stdout or stderr.
func Print(stream, text string) Output {
	return Output{"output_type": "stream", "name": stream, "text": lines(text)}
}

// Fail is an error that ended a cell, in red as the kernels paint it.
func Fail(name, value string) Output {
	return Output{"output_type": "error", "ename": name, "evalue": value, "traceback": []string{"\x1b[31m" + name + "\x1b[0m: " + value + "\nTraceback:\n"}}
}

// Continue appends what was printed next to what was printed before on the same stream, as Jupyter does. It reports whether that could be done.
func (o Output) Continue(next Output) bool {
	if o["output_type"] != "stream" || next["output_type"] != "stream" || o["name"] != next["name"] {
		return false
	}
	o["text"] = append(o["text"].([]string), next["text"].([]string)...)
	return true
}
