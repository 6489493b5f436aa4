package ask

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/net/html"

	"tandem/internal/grader/notebook"
)

// maxOutput is how many bytes of one output a model is shown.
const maxOutput = 1500

// page is a notebook made ready to be shown to a model, cell by cell.
type page struct {
	language string
	cells    []shownCell
	cut      int // bytes of sources that were left out already
}

// shownCell is a cell on a page.
type shownCell struct {
	head    string // "Cell 4: code, run as [2]"
	fence   string // what stands behind the backticks
	source  clipped
	given   bool // it stands in the template just so
	outputs []shownOutput
}

// shownOutput is an output on a page; a picture has no text.
type shownOutput struct {
	head string
	text clipped
}

// newPage reads a notebook. clean makes a text safe; it is told what kind of cell the text is of, "" for an output. No source is longer than longest bytes; given are the sources of the template's cells.
func newPage(nb *notebook.Notebook, longest int, given map[string]bool, clean func(kind notebook.Kind, text string) string) *page {
	p := &page{language: languageName(nb.Language, clean("", nb.Kernel)), cells: make([]shownCell, 0, len(nb.Cells))}
	for i := range nb.Cells {
		c := &nb.Cells[i]
		source := strings.TrimRight(c.Source, " \t\n")
		shown := shownCell{
			fence:  string(c.Kind),
			source: clip(source, longest, func(s string) string { return clean(c.Kind, s) }),
			given:  given[strings.TrimSpace(source)] && strings.TrimSpace(source) != "",
		}
		p.cut += shown.source.left
		if c.Kind == notebook.Code {
			shown.fence = strings.ToLower(p.language)
		}
		shown.head = fmt.Sprintf("Cell %d: %s%s", c.Number, c.Kind, state(c))
		if shown.given {
			shown.head += ", as in the template"
		}
		for _, o := range c.Outputs {
			shown.outputs = append(shown.outputs, readOutput(&o, func(s string) string { return clean("", s) })...)
		}
		p.cells = append(p.cells, shown)
	}
	return p
}

// state says of a cell whether it was run.
func state(c *notebook.Cell) string {
	switch {
	case strings.TrimSpace(c.Source) == "":
		return ", empty"
	case c.Kind != notebook.Code:
		return ""
	case c.Count > 0:
		return fmt.Sprintf(", run as [%d]", c.Count)
	case c.Ran():
		return ", run"
	}
	return ", not run"
}

// languageName is the language of the code cells as it may stand in a prompt.
func languageName(language notebook.Language, kernel string) string {
	switch language {
	case notebook.R:
		return "R"
	case notebook.Python:
		return "Python"
	}
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("+#-_.", r) {
			return r
		}
		return -1
	}, kernel)
	return name[:min(len(name), 20)]
}

// readOutput reads an output: its text, and a word for its pictures.
func readOutput(o *notebook.Output, clean func(string) string) []shownOutput {
	head := map[notebook.OutputKind]string{notebook.Stream: "Printed", notebook.Value: "Result", notebook.Error: "Error"}[o.Kind]
	if o.Stream == "stderr" {
		head = "Printed as a message"
	}
	text := o.Text
	if text == "" {
		text = plain(o.HTML)
	}
	var list []shownOutput
	if text = strings.Trim(text, "\n"); strings.TrimSpace(text) != "" {
		list = append(list, shownOutput{head, clip(text, maxOutput, clean)})
	}
	for range o.Images {
		list = append(list, shownOutput{head: "[picture]"})
	}
	return list
}

// OutputText is what a page shows of an output: its text, and a word for each picture.
func OutputText(o *notebook.Output) []string {
	text := o.Text
	if text == "" {
		text = plain(o.HTML)
	}
	if o.Kind == notebook.Error && text == "" {
		text = o.ErrorName + ": " + o.ErrorValue
	}
	var list []string
	if text = strings.Trim(text, "\n"); strings.TrimSpace(text) != "" {
		list = append(list, text)
	}
	for range o.Images {
		list = append(list, "[picture]")
	}
	return list
}

var spaces = regexp.MustCompile(`[\s\x{a0}]+`)

// plain is the text of HTML: rows are lines, and what follows a cell of a table is a tab.
func plain(markup string) string {
	var b strings.Builder
	skip := 0 // open elements whose text nobody sees
	for z := html.NewTokenizer(strings.NewReader(markup)); ; {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			if skip == 0 {
				b.WriteString(spaces.ReplaceAllString(string(z.Text()), " "))
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			switch string(name) {
			case "script", "style":
				if skip = 0; kind == html.StartTagToken {
					skip = 1
				}
			case "td", "th", "dt":
				if kind == html.EndTagToken {
					b.WriteByte('\t')
				}
			case "tr", "br", "p", "div", "li", "dd", "caption", "h1", "h2", "h3", "h4":
				if kind != html.StartTagToken || string(name) == "br" {
					b.WriteByte('\n')
				}
			}
		}
	}
}

// fenced writes a text between lines of backticks, more of them than stand together in the text.
func fenced(b *strings.Builder, kind, text string) {
	longest, run := 2, 0
	for i := range len(text) {
		if run++; text[i] != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	mark := strings.Repeat("`", longest+1)
	fmt.Fprintf(b, "%s%s\n%s\n%s\n", mark, kind, text, mark)
}
