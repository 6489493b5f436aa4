package ask

import (
	"fmt"
	"math"
	"sort"
	"strings"
)

// view says how much of a page is written.
type view struct {
	output int  // bytes of an output
	source int  // bytes of a cell's source
	given  bool // leave out cells that are as in the template
	drop   int  // cells to leave out, from the middle
}

// The least that outputs and sources are cut to before something else is.
const (
	leastOutput = 200
	leastSource = 200
)

// write writes the page, and says how many bytes of it are missing by the view.
func (p *page) write(v view) (text string, missing int) {
	var b strings.Builder
	fmt.Fprintf(&b, "Language: %s. Cells: %d.\n", p.language, len(p.cells))
	from := (len(p.cells) - v.drop) / 2
	for i := range p.cells {
		c := &p.cells[i]
		if i >= from && i < from+v.drop {
			missing += c.bytes()
			if i == from {
				fmt.Fprintf(&b, "\n## Cells %d to %d\n%s\n", from+1, from+v.drop, strings.TrimSpace(leftOut(p.bytes(from, from+v.drop))))
			}
			continue
		}
		missing += c.write(&b, v)
	}
	return b.String(), missing
}

// bytes is the size of some cells.
func (p *page) bytes(from, to int) int {
	n := 0
	for i := from; i < to; i++ {
		n += p.cells[i].bytes()
	}
	return n
}

func (c *shownCell) bytes() int {
	n := len(c.source.head) + len(c.source.tail)
	for _, o := range c.outputs {
		n += len(o.text.head) + len(o.text.tail)
	}
	return n
}

func (c *shownCell) write(b *strings.Builder, v view) (missing int) {
	fmt.Fprintf(b, "\n## %s\n", c.head)
	most := v.source
	if c.given && v.given {
		most = 0
	}
	source, missing := c.source.cut(most)
	if source != "" {
		fenced(b, c.fence, strings.Trim(source, "\n"))
	}
	for _, o := range c.outputs {
		text, taken := o.text.cut(v.output)
		missing += taken
		if text == "" {
			fmt.Fprintf(b, "%s\n", o.head)
			continue
		}
		fmt.Fprintf(b, "%s:\n", o.head)
		fenced(b, "", strings.Trim(text, "\n"))
	}
	return missing
}

// fit writes the page in so many bytes: whole if that is possible; else it shortens outputs, then leaves them out, then the cells that are as in the template, then the middle of the longest cells, and at
// last cells in the middle. missing are the bytes that this cost.
func (p *page) fit(budget int) (text string, missing int) {
	fits := func(v view) bool {
		text, missing = p.write(v)
		return len(text) <= budget
	}
	// most is the largest n from low to high for which the view fits, or false.
	most := func(low, high int, at func(n int) view) bool {
		i := sort.Search(high-low+1, func(i int) bool { return fits(at(high - i)) })
		return i <= high-low && fits(at(high-i))
	}
	longest := 0
	for i := range p.cells {
		longest = max(longest, len(p.cells[i].source.String()))
	}
	whole := view{output: math.MaxInt, source: math.MaxInt}
	bare := view{source: math.MaxInt, given: true}
	switch {
	case fits(whole),
		most(leastOutput, 2*maxOutput, func(n int) view { return view{output: n, source: math.MaxInt} }),
		fits(view{source: math.MaxInt}),
		fits(bare),
		longest > leastSource && most(leastSource, longest, func(n int) view { return view{source: n, given: true} }):
	default:
		most(0, len(p.cells), func(n int) view { return view{source: leastSource, given: true, drop: len(p.cells) - n} })
	}
	return text, missing + p.cut
}
