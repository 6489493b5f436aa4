package class

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"tandem/examples/class/ipynb"
	"tandem/examples/class/table"
)

// read makes a notebook of a file in cells/. A cell begins with `# %%`, a Markdown cell with `# %% [markdown]` (its lines are comments), a cell that was never run
// with `# %% not run`; `# %% template 3` is the third cell of the template as it was. Lines `#> verb …` at the end of a code cell are what it shows; «name» stands
// for a result of the shop, «name|%.2f» for one that is printed so.
func read(name string, kernel ipynb.Kernel) (*ipynb.Notebook, error) {
	s, err := openShop()
	if err != nil {
		return nil, err
	}
	file := "cells/" + name + ".R"
	if kernel == ipynb.Python {
		file = "cells/" + name + ".py"
	}
	text, err := files.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read cells: %w", err)
	}
	nb := &ipynb.Notebook{Kernel: kernel, Name: name}
	for part := range strings.SplitSeq("\n"+string(text), "\n# %%") {
		header, body, _ := strings.Cut(part, "\n")
		header = strings.TrimSpace(header)
		if number, kept := strings.CutPrefix(header, "template "); kept {
			cell, err := templateCell(number)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			nb.Cells = append(nb.Cells, cell)
			continue
		}
		if body == "" {
			continue
		}
		cell, err := s.cell(header, strings.TrimSpace(body), kernel)
		if err != nil {
			return nil, fmt.Errorf("%s: cell %d: %w", file, len(nb.Cells)+1, err)
		}
		nb.Cells = append(nb.Cells, cell)
	}
	return nb, nil
}

// templateCell returns a cell of the template by its number.
func templateCell(number string) (ipynb.Cell, error) {
	template, err := read("template", ipynb.R)
	if err != nil {
		return ipynb.Cell{}, err
	}
	i, err := strconv.Atoi(number)
	if err != nil || i < 1 || i > len(template.Cells) {
		return ipynb.Cell{}, fmt.Errorf("the template has no cell %q", number)
	}
	return template.Cells[i-1], nil
}

func (s *shop) cell(header, body string, kernel ipynb.Kernel) (ipynb.Cell, error) {
	body, err := s.fill(body)
	if err != nil {
		return ipynb.Cell{}, err
	}
	if header == "[markdown]" {
		lines := strings.Split(body, "\n")
		for i, line := range lines {
			lines[i] = strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ")
		}
		return ipynb.Cell{Markdown: true, Source: strings.Join(lines, "\n")}, nil
	}
	cell := ipynb.Cell{Run: header != "not run"}
	var source []string
	for line := range strings.SplitSeq(body, "\n") {
		verb, isOutput := strings.CutPrefix(line, "#> ")
		if !isOutput {
			source = append(source, line)
			continue
		}
		verb, rest, _ := strings.Cut(verb, " ")
		output, err := s.output(verb, rest, kernel)
		if err != nil {
			return ipynb.Cell{}, err
		}
		if n := len(cell.Outputs); n == 0 || !cell.Outputs[n-1].Continue(output) {
			cell.Outputs = append(cell.Outputs, output)
		}
	}
	cell.Source = strings.Join(source, "\n")
	return cell, nil
}

var slot = regexp.MustCompile(`«([^»|]+)(?:\|([^»]+))?»`)

// fill puts results into a text.
func (s *shop) fill(text string) (string, error) {
	var missing error
	text = slot.ReplaceAllStringFunc(text, func(found string) string {
		m := slot.FindStringSubmatch(found)
		v, err := s.result(m[1])
		if err != nil {
			missing = err
			return ""
		}
		if m[2] == "" {
			return fmt.Sprint(v)
		}
		return fmt.Sprintf(m[2], v)
	})
	return text, missing
}

func (s *shop) result(name string) (any, error) {
	v, ok := s.results[name]
	if !ok {
		return nil, fmt.Errorf("the shop has no result %q", name)
	}
	return v, nil
}

// table returns a result that is a table.
func (s *shop) table(name string) (*table.Table, error) {
	v, err := s.result(name)
	if err != nil {
		return nil, err
	}
	t, ok := v.(*table.Table)
	if !ok {
		return nil, fmt.Errorf("the shop's result %q is no table", name)
	}
	return t, nil
}

// output makes what a line `#> verb rest` says.
func (s *shop) output(verb, rest string, kernel ipynb.Kernel) (ipynb.Output, error) {
	switch verb {
	case "show", "frame", "print", "picture":
		t, err := s.table(rest)
		if err != nil {
			return nil, err
		}
		switch verb {
		case "show":
			return kernel.Show(t, "tibble"), nil
		case "frame":
			return kernel.Show(t, "data.frame"), nil
		case "print":
			_, plain := t.Pandas()
			return ipynb.Print("stdout", plain+"\n"), nil
		default:
			png, err := barChart(t)
			return kernel.Picture(png), err
		}
	case "value":
		v, err := s.result(rest)
		return kernel.Value(v), err
	case "plain":
		return kernel.Plain(rest), nil
	case "text":
		page, plain, _ := strings.Cut(rest, " :: ")
		return kernel.Text(page, strings.ReplaceAll(plain, `\n`, "\n")), nil
	case "out":
		return ipynb.Print("stdout", rest+"\n"), nil
	case "err":
		return ipynb.Print("stderr", rest+"\n"), nil
	case "attach":
		return ipynb.Print("stderr", attached(rest)), nil
	case "columns":
		name, types, _ := strings.Cut(rest, " ")
		return ipynb.Print("stderr", s.specification(name, types)), nil
	case "error":
		name, value, _ := strings.Cut(rest, ": ")
		return ipynb.Fail(name, value), nil
	default:
		return nil, fmt.Errorf("no output is called %q", verb)
	}
}

// attached is what R says when a library hides functions of others.
func attached(library string) string {
	if library == "tidyverse" {
		return "── Attaching core tidyverse packages ──────────────────────── tidyverse 2.0.0 ──\n✔ dplyr     1.1.4     ✔ readr     2.1.5\n✔ ggplot2   3.5.1     ✔ tibble    3.2.1\n" +
			"── Conflicts ────────────────────────────────────────── tidyverse_conflicts() ──\n✖ dplyr::filter() masks stats::filter()\n✖ dplyr::lag()    masks stats::lag()\n"
	}
	return "\nAttaching package: ‘" + library + "’\n\nThe following objects are masked from ‘package:stats’:\n\n    filter, lag\n\n"
}

// specification is what readr says of a file that it read.
func (s *shop) specification(name, types string) string {
	rows := map[string]int{"customers": len(s.customers.Rows), "orders": len(s.orders.Rows), "products": len(s.products.Rows)}[name]
	return fmt.Sprintf("Rows: %d Columns: %d\n── Column specification ────────────────────────────────────────────────────────\nDelimiter: \",\"\n%s\n", rows, len(s.results[name].(*table.Table).Columns), types)
}
