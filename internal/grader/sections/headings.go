package sections

import (
	"regexp"
	"strings"

	"tandem/internal/grader/notebook"
)

// heading is a heading of the notebook.
type heading struct {
	cell    int  // index
	comment bool // of code, not of Markdown
	label        // its text, to be compared
}

// headings lists a notebook's headings in order.
func headings(nb *notebook.Notebook) []heading {
	var list []heading
	for i := range nb.Cells {
		c := &nb.Cells[i]
		texts, comment := []string(nil), false
		switch c.Kind {
		case notebook.Markdown:
			texts = markdownHeadings(c.Source)
		case notebook.Code:
			texts, comment = leadingComments(c.Source), true
		}
		for _, t := range texts {
			if l := newLabel(t); len(l.words) > 0 {
				list = append(list, heading{i, comment, l})
			}
		}
	}
	return list
}

// Heading is one of a notebook's Markdown, written with #.
type Heading struct {
	Cell  int // index
	Level int // number of #
	Text  string
}

// Headings lists those of a notebook in order.
func Headings(nb *notebook.Notebook) (list []Heading) {
	for i := range nb.Cells {
		if nb.Cells[i].Kind != notebook.Markdown {
			continue
		}
		open := false
		for line := range strings.SplitSeq(nb.Cells[i].Source, "\n") {
			if fence.MatchString(line) {
				open = !open
			}
			if m := atx.FindStringSubmatch(line); m != nil && !open {
				level := strings.Count(strings.TrimSuffix(strings.TrimSpace(line), m[1]), "#")
				list = append(list, Heading{i, level, strings.Trim(m[1], "# \t")})
			}
		}
	}
	return list
}

var (
	fence  = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	atx    = regexp.MustCompile(`^ {0,3}#{1,6}([^#].*)$`)
	setext = regexp.MustCompile(`^ {0,3}(={2,}|-{2,})\s*$`)
	block  = regexp.MustCompile(`^\s*([-*+>|#]|\d+[.)]\s|$)`) // begins something that no underline makes a heading
	html   = regexp.MustCompile(`(?is)<h[1-6](?:\s[^>]*)?>(.*?)</h[1-6]\s*>`)
)

// markdownHeadings lists the headings of a Markdown text: #, underlined and HTML. What stands in a fence is code.
func markdownHeadings(source string) []string {
	var list []string
	var prose strings.Builder // lines that are no heading yet, for HTML that goes over several
	flush := func() {
		for _, m := range html.FindAllStringSubmatch(prose.String(), -1) {
			list = append(list, m[1])
		}
		prose.Reset()
	}
	open, before := "", ""
	for line := range strings.SplitSeq(source, "\n") {
		if m := fence.FindStringSubmatch(line); m != nil && (open == "" || strings.HasPrefix(m[1], open)) {
			if open == "" {
				open = m[1]
			} else {
				open = ""
			}
			before = ""
			continue
		}
		switch {
		case open != "":
			continue
		case atx.MatchString(line):
			flush()
			list = append(list, atx.FindStringSubmatch(line)[1])
			before = ""
			continue
		case setext.MatchString(line) && !block.MatchString(before):
			flush()
			list = append(list, before)
			before = ""
			continue
		}
		prose.WriteString(line + "\n")
		before = line
	}
	flush()
	return list
}

// leadingComments lists the comments with which a code cell begins.
func leadingComments(source string) []string {
	var list []string
	for line := range strings.SplitSeq(source, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		list = append(list, comment)
	}
	return list
}
